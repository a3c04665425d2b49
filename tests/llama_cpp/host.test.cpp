// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <gguf.h>
#include <limits>
#include <string>
#include <vector>

#include "engine/tokenizer.hpp"
#include "examples/engine_files.hpp"
#include "hosts/llama_cpp/llama_cpp_host.hpp"
#include "hosts/llama_cpp/text.hpp"

namespace {

using example::llama_cpp_host;
using example::llama_cpp_settings;
using testing::HasSubstr;
using unmask::index_t;
using unmask::placement;
using unmask::range;
using unmask::segment;
using tokens = std::vector<unmask::token_id>;

llama_cpp_host host(const llama_cpp_settings& settings = {}, const std::string& kind = "f32") {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  return llama_cpp_host(example::testing::weights_file(kind).string(), settings);
}

/// Partly masked sequences, and the logits that PyTorch computed of them.
const std::vector<nlohmann::json>& reference() {
  static const auto lines = example::testing::reference("reference_logits");
  return lines;
}
tokens sequence(std::size_t i) {
  return reference()[i]["tokens"].get<tokens>();
}

/// A segment of the sequence in a slot that computes `query` and requests the logits of `rows`.
segment of(index_t slot, const tokens& t, range query, range rows) {
  return {.slot = slot,
          .branch = 0,
          .placed = {},
          .query = query,
          .rows = rows,
          .first_row = 0,
          .keys = {0, static_cast<index_t>(t.size())},
          .evict = {}};
}
segment whole(index_t slot, const tokens& t) {
  const range all{0, static_cast<index_t>(t.size())};
  return of(slot, t, all, all);
}

using matrix = std::vector<std::vector<float>>;

/// The logits of each segment, copied.
std::vector<matrix>
run(llama_cpp_host& h, const std::vector<segment>& segments, const std::vector<tokens>& sequences) {
  std::vector<matrix> result;
  for (const auto& rows : h.forward({.segments = segments, .rows = 0}, sequences)) {
    result.emplace_back();
    for (index_t r = 0; r < rows.rows; ++r) {
      result.back().emplace_back(rows.row(r), rows.row(r) + rows.columns);
    }
  }
  return result;
}

/// The largest difference; infinite for other shapes and where one is not a number.
double difference(const matrix& a, const matrix& b) {
  double most = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < std::min(a.size(), b.size()); ++r) {
    for (std::size_t v = 0; v < a[r].size(); ++v) {
      const double d = std::abs(static_cast<double>(a[r][v]) - static_cast<double>(b[r][v]));
      most = d <= most ? most : std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
    }
  }
  return most;
}

double largest_difference_to_pytorch(llama_cpp_host h) {
  h.reserve({.sequences = 1, .length = 200, .window = 40});
  double most = 0.0;
  for (std::size_t i = 0; i < reference().size(); ++i) {
    const tokens t = sequence(i);
    most = std::max(
        most, difference(run(h, {whole(0, t)}, {t})[0], reference()[i]["logits"].get<matrix>()));
  }
  testing::Test::RecordProperty("largest_difference", std::to_string(most));
  return most;
}

TEST(LlamaCppHost, LogitsAgreeWithPytorch) {
  EXPECT_LE(largest_difference_to_pytorch(host()), 1e-3);
}
TEST(LlamaCppHost, LogitsAgreeWithPytorchWithAMemory) {
  EXPECT_LE(largest_difference_to_pytorch(host({.cache = true})), 1e-3);
}
// llama.cpp rounds the activations to f16, too; q8_0 rounds the weights.
TEST(LlamaCppHost, LogitsOfF16AgreeWithPytorch) {
  EXPECT_LE(largest_difference_to_pytorch(host({}, "f16")), 0.04);
}
TEST(LlamaCppHost, LogitsOfQ8AgreeWithPytorch) {
  EXPECT_LE(largest_difference_to_pytorch(host({}, "q8_0")), 1.0);
}
TEST(LlamaCppHost, LogitsOfFlashAttentionAgreeWithPytorch) {
  EXPECT_LE(largest_difference_to_pytorch(host({.exact = false})), 0.12);
}

class BothGraphs : public testing::TestWithParam<bool> {
 protected:
  llama_cpp_host made(index_t sequences, index_t branches) {
    llama_cpp_host h = host({.cache = GetParam()});
    h.reserve({.sequences = sequences, .length = 200, .window = 40, .branches = branches});
    return h;
  }
  tokens t_ = sequence(0), u_ = sequence(1);
  index_t length_ = static_cast<index_t>(t_.size());
  index_t block_ = length_ - 40;  // where the answer begins
  double close_ = 1e-3;
};
INSTANTIATE_TEST_SUITE_P(LlamaCppHost, BothGraphs, testing::Bool(), [](const auto& how) {
  return how.param ? "WithMemory" : "WithoutMemory";
});

TEST_P(BothGraphs, RowsAreThoseOfTheWantedPositions) {
  llama_cpp_host h = made(1, 0);
  const matrix all = run(h, {whole(0, t_)}, {t_})[0];
  const matrix some = run(h, {of(0, t_, {0, length_}, {block_, block_ + 5})}, {t_})[0];
  ASSERT_EQ(some.size(), 5U);
  EXPECT_LE(difference(some, {all.begin() + block_, all.begin() + block_ + 5}), close_);
}

TEST_P(BothGraphs, SequencesOfABatchDoNotMeet) {
  llama_cpp_host h = made(2, 0);
  const auto both = run(h, {whole(0, t_), whole(1, u_)}, {t_, u_});
  EXPECT_LE(difference(both[0], run(h, {whole(0, t_)}, {t_})[0]), close_);
  EXPECT_LE(difference(both[1], run(h, {whole(0, u_)}, {u_})[0]), close_);
}

TEST_P(BothGraphs, ABranchIsTheSequenceWithATokenPlaced) {
  llama_cpp_host h = made(1, 2);
  std::vector<segment> segments(3, whole(0, t_));
  std::vector<tokens> placed(3, t_);
  placement placements[3];
  for (index_t b = 1; b < 3; ++b) {
    segments[static_cast<std::size_t>(b)].branch = b;
    placements[b] = {.position = length_ - b, .token = 30};
    segments[static_cast<std::size_t>(b)].placed = {placements + b, 1};
    placed[static_cast<std::size_t>(b)][static_cast<std::size_t>(length_ - b)] = 30;
  }
  const auto branches = run(h, segments, {t_});
  for (std::size_t b = 0; b < 3; ++b) {
    EXPECT_LE(difference(branches[b], run(h, {whole(0, placed[b])}, {placed[b]})[0]), close_) << b;
  }
  EXPECT_GT(difference(branches[0], branches[1]), 0.1);
}

TEST_P(BothGraphs, ASlotIsUsedAgain) {
  llama_cpp_host h = made(1, 0);
  run(h, {whole(0, u_)}, {u_});
  EXPECT_LE(difference(run(h, {whole(0, t_)}, {t_})[0], reference()[0]["logits"].get<matrix>()),
            close_);
}

TEST_P(BothGraphs, WhatWasRunIsRunAgainFromAPosition) {
  llama_cpp_host h = made(1, 1);
  const range answer{block_, length_};
  const matrix all = run(h, {whole(0, t_)}, {t_})[0];
  EXPECT_LE(
      difference(run(h, {of(0, t_, answer, answer)}, {t_})[0], {all.begin() + block_, all.end()}),
      close_);
}

TEST_P(BothGraphs, AMoveTakesEverythingAlong) {
  llama_cpp_host first = made(1, 0);
  llama_cpp_host second = std::move(first);
  EXPECT_EQ(run(second, {whole(0, t_)}, {t_})[0].size(), t_.size());
}

TEST_P(BothGraphs, MoreThanWasReservedIsRefused) {
  llama_cpp_host h = made(1, 0);
  EXPECT_THROW(run(h, {whole(1, t_)}, {t_, t_}), std::runtime_error);
  const tokens long_one(201, 30);
  EXPECT_THROW(run(h, {whole(0, long_one)}, {long_one}), std::runtime_error);
  EXPECT_THROW(h.reserve({.sequences = 1, .length = 257, .window = 40}), std::invalid_argument);
}

TEST_P(BothGraphs, ATokenThatIsNoneIsRefused) {
  llama_cpp_host h = made(1, 0);
  tokens wrong = t_;
  wrong[3] = 98;
  EXPECT_THROW(run(h, {whole(0, wrong)}, {wrong}), std::runtime_error);
}

/// A memory: positions left of what is run keep the K/V of what stood there.
struct Cached : testing::Test {
  llama_cpp_host h = host({.cache = true});
  tokens t = sequence(0);
  index_t length = static_cast<index_t>(t.size());
  range answer{length - 40, length}, last{length - 10, length};
  Cached() { h.reserve({.sequences = 1, .length = 200, .window = 40, .branches = 2}); }
};

TEST_F(Cached, PositionsToTheLeftAreFrozen) {
  run(h, {whole(0, t)}, {t});
  const matrix before = run(h, {of(0, t, last, last)}, {t})[0];
  tokens changed = t;
  changed[2] = 30;
  EXPECT_LE(difference(run(h, {of(0, changed, last, last)}, {changed})[0], before), 1e-3);
  const matrix fresh = run(h, {whole(0, changed)}, {changed})[0];
  EXPECT_GT(difference({fresh.end() - 10, fresh.end()}, before), 1e-2);
}

TEST_F(Cached, ABranchSharesThemAndTheWinnersAreKept) {
  // The branch places a token in a pass that runs everything, and wins.
  segment branch = whole(0, t);
  branch.branch = 1;
  const placement at_first{.position = answer.first, .token = 30};
  branch.placed = {&at_first, 1};
  run(h, {whole(0, t), branch}, {t});
  h.keep(0, 1);
  tokens placed = t;
  placed[static_cast<std::size_t>(answer.first)] = 30;
  const matrix kept = run(h, {of(0, placed, last, last)}, {placed})[0];

  const matrix fresh = run(h, {whole(0, placed)}, {placed})[0];
  EXPECT_LE(difference(kept, {fresh.end() - 10, fresh.end()}), 1e-3);

  // A branch of a pass that runs the end only attends to what the sequence kept.
  segment two = of(0, placed, last, last);
  two.branch = 2;
  const placement at_last{.position = length - 1, .token = 30};
  two.placed = {&at_last, 1};
  const auto both = run(h, {of(0, placed, last, last), two}, {placed});
  tokens end = placed;
  end.back() = 30;
  EXPECT_LE(difference(both[0], kept), 1e-3);
  EXPECT_LE(difference(both[1], run(h, {of(0, end, last, last)}, {end})[0]), 1e-3);
}

/// Writes a copy of the tiny model after `edit`, and removes it again.
class edited_file {
 public:
  explicit edited_file(const std::function<void(gguf_context*, ggml_context*)>& edit) {
    ggml_context* weights = nullptr;
    gguf_context* original = gguf_init_from_file(example::testing::weights_file("f32").c_str(),
                                                 {.no_alloc = false, .ctx = &weights});
    gguf_context* file = gguf_init_empty();
    gguf_set_kv(file, original);
    edit(file, weights);
    for (ggml_tensor* t = ggml_get_first_tensor(weights); t != nullptr;
         t = ggml_get_next_tensor(weights, t)) {
      if (gguf_find_tensor(original, t->name) >= 0) {  // not that of the data as a whole
        gguf_add_tensor(file, t);
      }
    }
    EXPECT_TRUE(gguf_write_to_file(file, path_.c_str(), false));
    gguf_free(file);
    gguf_free(original);
    ggml_free(weights);
  }
  edited_file(const edited_file&) = delete;
  edited_file& operator=(const edited_file&) = delete;
  ~edited_file() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
};

std::string refusal(const std::string& file, const llama_cpp_settings& settings = {}) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  try {
    const llama_cpp_host h(file, settings);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(LlamaCppFile, SaysWhatTheModelIs) {
  const unmask::model_info info = host().info();
  EXPECT_EQ(info.vocab, 98);
  EXPECT_EQ(info.mask_token, 0);
  EXPECT_EQ(info.eos_token, 1);
  EXPECT_EQ(info.logits_shift, 0);
  EXPECT_EQ(info.layers, 6);
}

TEST(LlamaCppFile, RowsAreShiftedUnlessItSaysOtherwise) {
  const edited_file silent([](auto* f, auto*) { gguf_remove_key(f, "diffusion.shift_logits"); });
  EXPECT_EQ(llama_cpp_host(silent.path()).info().logits_shift, 1);
}

TEST(LlamaCppFile, WithoutTheKeysOfLlamaHasNoMemory) {
  const edited_file plain([](auto* f, auto*) {
    for (const char* key : {"block_count", "context_length", "embedding_length"}) {
      gguf_remove_key(f, (std::string("llama.") + key).c_str());
    }
  });
  EXPECT_EQ(refusal(plain.path()), "");
  EXPECT_THAT(refusal(plain.path(), {.cache = true}), HasSubstr("as architecture llama"));
}

/// Makes the tiny LLaDA a Dream: another graph, which rotates the two halves of a head.
void as_dream(gguf_context* file, ggml_context* weights) {
  gguf_set_val_str(file, "general.architecture", "dream");
  for (const char* key : {"context_length",
                          "embedding_length",
                          "block_count",
                          "feed_forward_length",
                          "attention.head_count",
                          "attention.head_count_kv",
                          "rope.dimension_count"}) {
    const auto id = gguf_find_key(file, (std::string("llada.") + key).c_str());
    gguf_set_val_u32(file, (std::string("dream.") + key).c_str(), gguf_get_val_u32(file, id));
  }
  gguf_set_val_f32(file, "dream.attention.layer_norm_rms_epsilon", 1e-5F);
  gguf_set_val_f32(file, "dream.rope.freq_base", 10000.0F);
  constexpr int heads = 4, head = 32, width = heads * head;
  for (int layer = 0; layer < 6; ++layer) {
    for (const char* name : {".attn_q.weight", ".attn_k.weight"}) {
      auto* const rows = ggml_get_data_f32(
          ggml_get_tensor(weights, ("blk." + std::to_string(layer) + name).c_str()));
      const std::vector<float> pairs(rows, rows + width * width);
      for (int r = 0; r < width; ++r) {
        const int in_head = r % head;
        const int from = r - in_head + in_head % (head / 2) * 2 + in_head / (head / 2);
        std::copy_n(pairs.begin() + from * width, width, rows + r * width);
      }
    }
  }
}

TEST(LlamaCppFile, OfDreamsArchitectureIsDecoded) {
  const edited_file dream(as_dream);
  EXPECT_LE(largest_difference_to_pytorch(llama_cpp_host(dream.path())), 1e-3);
}

TEST(LlamaCppFile, OfAnotherKindIsRefused) {
  EXPECT_THAT(refusal("/no/such/file"), HasSubstr("/no/such/file: llama.cpp can not load it"));
  const edited_file no_mask(
      [](auto* f, auto*) { gguf_remove_key(f, "tokenizer.ggml.mask_token_id"); });
  EXPECT_THAT(refusal(no_mask.path()), HasSubstr("has no mask token"));
  const edited_file left_to_right(
      [](auto* f, auto*) { gguf_set_val_str(f, "general.architecture", "llama"); });
  EXPECT_THAT(refusal(left_to_right.path()), HasSubstr("is no diffusion model"));
}

TEST(LlamaCppText, IsTheTokenizersOfTheExampleEngine) {
  const llama_cpp_host h = host();
  const example::gguf_file file(example::testing::weights_path());
  const example::char_tokenizer text(file);
  for (const nlohmann::json& line : example::testing::prompts()) {
    const auto prompt = line["prompt"].get<std::string>();
    EXPECT_EQ(example::tokens_of(h.vocab(), prompt, false), text.canvas(prompt, 0));
    EXPECT_EQ(example::text_of(h.vocab(), text.encode(prompt)), prompt);
  }
  EXPECT_EQ(example::text_of(h.vocab(), tokens{30, 0, 31, 1, 32}), text.decode(tokens{30, 0, 31}));
  EXPECT_THROW(example::tokens_of(h.vocab(), "caf\xC3\xA9", false), std::invalid_argument);
  EXPECT_THROW(example::tokens_of(h.vocab(), "a\nb", false), std::invalid_argument);
}

}  // namespace
