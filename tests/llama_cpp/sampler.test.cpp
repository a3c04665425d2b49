// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results of llama.cpp's own diffusion sampler in its modes, on logits written by hand, and of the
// corresponding policy on the same logits. They hold for the version that is built here; one that
// fails after an update says that the sampler has changed.
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <llama-cpp.h>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "hosts/llama_cpp/peer.hpp"

namespace {

using example::peer_generate;
using example::peer_result;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Not;

constexpr int vocab = 8;
constexpr llama_token mask = 7, begin = 6;
using row = std::array<double, vocab>;  // probabilities

/// The same logits in every forward: row i is that of position i, the prompt's one token first.
class script : public example::peer_engine {
 public:
  explicit script(const std::vector<row>& answer) {
    logits_.resize(vocab);  // the prompt's row
    for (const row& r : answer) {
      for (const double p : r) {
        logits_.push_back(static_cast<float>(std::log(std::max(p, 1e-9))));
      }
    }
  }
  int process(llama_context*, llama_batch_ext*) override { return 0; }
  float* logits(llama_context*) override { return logits_.data(); }
  int vocabulary(const llama_vocab*) override { return vocab; }

  int length() const { return static_cast<int>(logits_.size()) / vocab; }
  std::vector<float>& all() { return logits_; }

 private:
  std::vector<float> logits_;
};

/// A context to make batches with; the model is never run.
llama_context* context() {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  static const llama_model_ptr model(llama_model_load_from_file(
      UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf", llama_model_default_params()));
  static const llama_context_ptr made(
      llama_init_from_model(model.get(), llama_context_default_params()));
  return made.get();
}

/// One block, one position a step.
diffusion_params one_a_step(const script& s, diffusion_algorithm algorithm) {
  diffusion_params p;
  p.algorithm = algorithm;
  p.schedule = DIFFUSION_TRANSFER_SCHEDULE_BLOCK_BASED;
  p.max_length = p.block_length = s.length();
  p.steps = s.length() - 1;
  p.mask_token_id = mask;
  p.temperature = 1.0F;
  p.top_p = 1.0F;  // off; top_k is off at 0
  return p;
}

/// The positions of the answer, counted from 0, in the order in which the sampler committed them.
/// Positions of one step are in ascending order.
std::vector<int> order_of(script& s, diffusion_params p) {
  std::vector<std::vector<llama_token>> states;
  p.step_callback_user_data = &states;
  p.step_callback = [](int32_t, int32_t, const llama_token* tokens, int32_t count, void* data) {
    static_cast<std::vector<std::vector<llama_token>>*>(data)->emplace_back(tokens, tokens + count);
    return true;
  };
  states.push_back(peer_generate(s, context(), {&begin, 1}, p).tokens);
  std::vector<int> order;
  for (std::size_t step = 1; step < states.size(); ++step) {
    for (std::size_t i = 1; i < states[step].size(); ++i) {
      if (states[step - 1][i] == mask && states[step][i] != mask) {
        order.push_back(static_cast<int>(i) - 1);
      }
    }
  }
  return order;
}

struct decoded {
  std::vector<int> order;
  std::vector<llama_token> answer;
  int forwards = 0;
};

/// The same of a policy of ours.
template <class Policy>
decoded ours(script& s, const Policy& policy, std::uint64_t seed = 0) {
  std::vector<unmask::token_id> tokens(static_cast<std::size_t>(s.length()), mask);
  tokens[0] = begin;
  unmask::session session(
      policy,
      {.vocab = vocab, .mask_token = mask, .eos_token = unmask::no_token},
      tokens,
      {.prompt_length = 1, .length = s.length(), .block_length = s.length() - 1, .seed = seed});
  decoded d;
  while (const auto request = session.next()) {
    const auto rows = request->segments[0].rows;
    session.supply(
        unmask::host_logits<float>(s.all().data() + rows.first * vocab, rows.size(), vocab));
    for (const unmask::commit_entry& c : session.committed()) {
      d.order.push_back(c.position - 1);
    }
  }
  d.answer.assign(tokens.begin() + 1, tokens.end());
  d.forwards = session.report().forwards;
  return d;
}

/// A row whose best token has probability p, the others share the rest.
row peaked(double p, int best = 2) {
  row r;
  r.fill((1.0 - p) / (vocab - 2));
  r[mask] = 0.0;
  r[static_cast<std::size_t>(best)] = p;
  return r;
}

const std::vector<row> sure_to_unsure{peaked(0.97), peaked(0.6), peaked(0.2)};

TEST(LlamaSampler, ConfidenceModeCommitsTheSurestFirst) {
  script s(sure_to_unsure);
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  p.temperature = 0.25F;  // sharp enough to draw the best token nearly always
  EXPECT_THAT(order_of(s, p), ElementsAre(0, 1, 2));
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_confidence{}, unmask::tokens_per_step{1}}).order,
              ElementsAre(0, 1, 2));
}

TEST(LlamaSampler, EntropyModeCommitsTheLeastCertainFirst) {
  script s(sure_to_unsure);
  EXPECT_THAT(order_of(s, one_a_step(s, DIFFUSION_ALGORITHM_ENTROPY_BASED)), ElementsAre(2, 1, 0));
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_entropy{}, unmask::tokens_per_step{1}}).order,
              ElementsAre(0, 1, 2));
}

// Position 0 has a margin of .8, position 1 one of 0; of the tokens 0 and 1 alone the margins are 0
// and .3.
const std::vector<row> margins{{0.05, 0.05, 0.85, 0.05, 0, 0, 0, 0},
                               {0.3, 0, 0.35, 0.35, 0, 0, 0, 0}};

TEST(LlamaSampler, MarginModeWithoutTopKAndTopPComparesTokens0And1) {
  script s(margins);
  EXPECT_THAT(order_of(s, one_a_step(s, DIFFUSION_ALGORITHM_MARGIN_BASED)), ElementsAre(1, 0));
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_margin{}, unmask::tokens_per_step{1}}).order,
              ElementsAre(0, 1));
}

TEST(LlamaSampler, MarginModeIsRightWhereTopKSorts) {
  script s(margins);
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_MARGIN_BASED);
  p.top_k = vocab - 1;
  EXPECT_THAT(order_of(s, p), ElementsAre(0, 1));
}

TEST(LlamaSampler, ConfidenceIsThatOfTheTruncatedList) {
  script s({peaked(0.2), peaked(0.6), peaked(0.97)});
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  p.top_k = 1;  // the way to greedy tokens: each is then certain, and ties go by position
  EXPECT_THAT(order_of(s, p), ElementsAre(0, 1, 2));
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_confidence{}, unmask::tokens_per_step{1}}).order,
              ElementsAre(2, 1, 0));
}

TEST(LlamaSampler, TemperatureZeroSamplesAtTemperatureOne) {
  script s(std::vector<row>(200, peaked(0.6)));
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  p.steps = 1;
  std::set<std::vector<llama_token>> texts;
  for (int seed = 0; seed < 3; ++seed) {
    p.temperature = 0.0F;
    p.seed = seed;
    const peer_result zero = peer_generate(s, context(), {&begin, 1}, p);
    p.temperature = 1.0F;
    EXPECT_EQ(zero.tokens, peer_generate(s, context(), {&begin, 1}, p).tokens);
    const auto best = std::count(zero.tokens.begin(), zero.tokens.end(), 2);
    EXPECT_NEAR(static_cast<double>(best), 120.0, 35.0);  // 5 deviations of 200 draws at .6
    texts.insert(zero.tokens);
  }
  EXPECT_EQ(texts.size(), 3U);
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_confidence{}, unmask::tokens_per_step{200}}).answer,
              Each(2));
}

TEST(LlamaSampler, GumbelNoiseReachesTheFirstRowOnly) {
  script s({peaked(0.5), peaked(0.5), peaked(0.5)});
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  const std::vector<float> before = s.all();
  const peer_result plain = peer_generate(s, context(), {&begin, 1}, p);
  ASSERT_EQ(s.all(), before);
  p.add_gumbel_noise = true;
  const peer_result noisy = peer_generate(s, context(), {&begin, 1}, p);
  const std::vector<float>& after = s.all();
  EXPECT_FALSE(std::equal(after.begin(), after.begin() + vocab, before.begin()));
  EXPECT_TRUE(std::equal(after.begin() + vocab, after.end(), before.begin() + vocab));
  // That is the row of the prompt's first token, which nothing reads.
  EXPECT_EQ(noisy.tokens, plain.tokens);
}

TEST(LlamaSampler, AlgTempDrawsPositionsTwiceAndLeavesMasks) {
  script s(std::vector<row>(8, peaked(0.9)));
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  p.steps = 1;  // all eight in one step
  EXPECT_THAT(peer_generate(s, context(), {&begin, 1}, p).tokens, Not(Contains(mask)));
  p.alg_temp = 1.0F;
  EXPECT_THAT(peer_generate(s, context(), {&begin, 1}, p).tokens, Contains(mask));
  const decoded d = ours(s,
                         unmask::policy{unmask::alg_temperature{unmask::by_confidence{}, 1.0F},
                                        unmask::steps_per_block{.steps = 1}});
  EXPECT_EQ(d.forwards, 1);
  EXPECT_THAT(d.answer, Not(Contains(mask)));
}

TEST(LlamaSampler, TheMaskTokenIsAnAnswerLikeAnyOther) {
  row r = peaked(0.1);
  r[mask] = 0.5;
  script s(std::vector<row>(20, r));
  EXPECT_THAT(
      peer_generate(s, context(), {&begin, 1}, one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED))
          .tokens,
      Contains(mask));
  EXPECT_THAT(ours(s, unmask::policy{unmask::by_confidence{}, unmask::tokens_per_step{1}}).answer,
              Not(Contains(mask)));
}

struct two_blocks {
  script s{std::vector<row>(7, peaked(0.9))};
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  two_blocks() {
    p.block_length = 4;  // of 8 positions: two blocks of four steps
    p.steps = 8;
  }
};

TEST(LlamaSampler, ACallBackThatSaysStopEndsTheBlockOnly) {
  two_blocks t;
  int calls = 0;
  t.p.step_callback_user_data = &calls;
  t.p.step_callback = [](int32_t, int32_t, const llama_token*, int32_t, void* data) {
    ++*static_cast<int*>(data);
    return false;
  };
  EXPECT_EQ(peer_generate(t.s, context(), {&begin, 1}, t.p).forwards, 0);
  EXPECT_EQ(calls, 2);
}

TEST(LlamaSampler, BlocksAreCountedOverThePromptToo) {
  // A prompt of 4 and an answer of 4 are two blocks of 4: the second is behind the end, has half of
  // the steps, and costs one forward to notice that nothing is left.
  script s(std::vector<row>(7, peaked(0.9)));
  diffusion_params p = one_a_step(s, DIFFUSION_ALGORITHM_CONFIDENCE_BASED);
  p.block_length = 4;
  p.steps = 8;
  const std::vector<llama_token> prompt(4, begin);
  EXPECT_EQ(peer_generate(s, context(), prompt, p).forwards, 4 + 1);
}

TEST(LlamaSampler, AFinishedBlockCostsOneMoreForward) {
  two_blocks t;
  t.p.steps = 16;  // eight a block of at most four positions
  EXPECT_EQ(peer_generate(t.s, context(), {&begin, 1}, t.p).forwards, (4 + 1) + (3 + 1));
}

TEST(LlamaSamplerDeathTest, ALengthThatIsNoMultipleOfTheBlockEndsTheProcess) {
  two_blocks t;
  t.p.block_length = 3;
  EXPECT_DEATH(peer_generate(t.s, context(), {&begin, 1}, t.p), "max_length % .*block_length");
}

TEST(LlamaSampler, TheCommandLineDoesNotPassOnGuidanceAndAlgTemp) {
  // Read, not run: of the parameters of the generator these two are not assigned.
  const std::string file = UNMASK_LLAMA_CPP_SOURCE "/examples/diffusion/diffusion-cli.cpp";
  std::ifstream in(file);
  ASSERT_TRUE(in) << file;
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_NE(text.str().find("diff_params.block_length = params.diffusion"), std::string::npos);
  EXPECT_EQ(text.str().find("diff_params.cfg_scale = "), std::string::npos);
  EXPECT_EQ(text.str().find("diff_params.alg_temp = "), std::string::npos);
  EXPECT_EQ(text.str().find("params.diffusion.cfg_scale"), std::string::npos);
  EXPECT_EQ(text.str().find("params.diffusion.alg_temp"), std::string::npos);
}

}  // namespace
