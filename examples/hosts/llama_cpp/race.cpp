// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Beside llama.cpp's own diffusion sampler, on the same logits: what a step costs at the vocabulary
// of LLaDA, and what answers a small model gives in how many forwards. Prints tables in Markdown.
#include "support/race.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <malloc.h>
#include <new>
#include <string>
#include <vector>

#include "demo/policies.hpp"
#include "demo/problems.hpp"
#include "hosts/llama_cpp/decode.hpp"
#include "hosts/llama_cpp/peer.hpp"
#include "hosts/llama_cpp/text.hpp"
#include "support/steps.hpp"

// Counts bytes, those of libllama included.
namespace {
std::size_t live = 0, peak = 0;

void* counted(void* p) {
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  live += malloc_usable_size(p);
  peak = std::max(peak, live);
  return p;
}
void release(void* p) {
  live -= malloc_usable_size(p);
  std::free(p);
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  return counted(std::malloc(std::max<std::size_t>(size, 1)));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  release(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept {
  release(p);
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept {
  release(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  release(p);
}

namespace {

using namespace unmask;

const std::string model_file = UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf";
constexpr index_t answer_length = 40;

/// Arguments of llama.cpp's sampler.
struct peer_setting {
  std::string name;
  diffusion_algorithm algorithm = DIFFUSION_ALGORITHM_CONFIDENCE_BASED;
  int steps = 40;
  float temperature = 0.01F;
  int top_k = 0;
  float top_p = 1.0F;

  diffusion_params params() const {
    diffusion_params p;
    p.algorithm = algorithm;
    p.steps = steps;
    p.temperature = temperature;
    p.top_k = top_k;
    p.top_p = top_p;
    p.eps = 1e-3F;
    return p;
  }
};

// One step
// -----------------------------------------------------------------------------------------

/// Logits that do not change, in place of a model.
struct still_engine : example::peer_engine {
  const bench::logits<float>* rows = nullptr;
  int process(llama_context*, llama_batch_ext*) override { return 0; }
  float* logits(llama_context*) override { return const_cast<float*>(rows->data()); }
  int vocabulary(const llama_vocab*) override { return rows->rows().front().columns; }
};

/// Steps of diffusion_generate in which all positions are masked.
class peer_steps {
 public:
  static constexpr int count = 4;

  peer_steps(llama_context* context, const bench::logits<float>& rows, const peer_setting& setting)
      : context_(context)
      , params_(setting.params()) {
    engine_.rows = &rows;
    params_.max_length = static_cast<int>(rows.rows().size()) + 1;
    params_.shift_logits = true;  // row i is that of position i + 1, behind a prompt of one token
    params_.mask_token_id = 0;    // a token of the model that makes the batches
    params_.steps = 1000 * params_.max_length;  // no position commits in the first steps
    params_.step_callback = [](int step, int, const llama_token*, int, void*) {
      return step < count;
    };
  }
  void operator()() {
    const llama_token begin = 2;
    static_cast<void>(example::peer_generate(engine_, context_, {&begin, 1}, params_));
  }

 private:
  llama_context* context_;
  still_engine engine_;
  diffusion_params params_;
};

/// One line of the table: the sampler, and the policy that means the same.
template <class Policy>
void race_step(llama_context* context,
               const bench::logits<float>& rows,
               const peer_setting& setting,
               const std::string& name,
               const Policy& policy) {
  const std::size_t before_peer = peak = live;
  peer_steps theirs(context, rows, setting);
  theirs();
  const std::size_t their_bytes = peak - before_peer;
  const std::size_t before_ours = peak = live;
  bench::first_step<Policy> ours(policy, rows);
  ours();
  const std::size_t our_bytes = peak - before_ours;
  bench::race race;
  const std::size_t t = race.enter(theirs);
  const std::size_t o = race.enter([&] {
    for (int i = 0; i < peer_steps::count; ++i) {
      ours();
    }
  });
  race.run(7, 5e7);
  std::printf("| %zu | %s | %s | %.2f | %.2f | %.1f | %.0f | %.1f |\n",
              rows.rows().size(),
              setting.name.c_str(),
              name.c_str(),
              race.median(t) / peer_steps::count * 1e-6,
              race.median(o) / peer_steps::count * 1e-6,
              race.ratio(t, o),
              static_cast<double>(their_bytes) / 1024,
              static_cast<double>(our_bytes) / 1024);
  std::fflush(stdout);
}

void race_steps(llama_context* context) {
  std::printf(
      "| masked rows | llama.cpp | unmask | ms a step, llama.cpp | ms a step, unmask | ratio | "
      "KB, llama.cpp | KB, unmask |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  const auto once = timesteps{.steps = 256};
  for (const index_t count : {32, 256}) {
    const bench::logits<float> rows(count, 126464);
    const auto line = [&](const peer_setting& setting, const std::string& name, const auto& p) {
      race_step(context, rows, setting, name, p);
    };
    line({.name = "confidence, `--top-k 1`", .top_k = 1},
         "`by_confidence`, `timesteps`",
         policy{by_confidence{}, once, single_block{}});
    line({.name = "confidence, `--temp 1 --top-k 0 --top-p 1`", .temperature = 1.0F},
         "the same with `sampling{1}`",
         policy{by_confidence{}, once, single_block{}, sampling{1.0F}});
    line({.name = "entropy, `--temp 1 --top-k 0 --top-p 1`",
          .algorithm = DIFFUSION_ALGORITHM_ENTROPY_BASED,
          .temperature = 1.0F},
         "`by_entropy`, `timesteps`, `sampling{1}`",
         policy{by_entropy{}, once, single_block{}, sampling{1.0F}});
    line({.name = "confidence, defaults: `--temp 0.8 --top-k 40 --top-p 0.95`",
          .temperature = 0.8F,
          .top_k = 40,
          .top_p = 0.95F},
         "`sampling`, `temperature{.8}`, `top_k{40}`, `top_p{.95}`",
         policy{by_confidence{},
                once,
                single_block{},
                temperature{0.8F},
                sampling{},
                top_k{40},
                top_p{0.95F},
                confidence_after_truncation{}});
    line({.name = "confidence, `--top-k 1`", .top_k = 1},
         "`threshold{.9}`, `trace_credit`",
         policy{by_confidence{}, threshold{0.9F}, trace_credit<>{}});
  }
}

// Answers
// ------------------------------------------------------------------------------------------

struct score {
  std::vector<int> exact;  // of each task
  int prompts = 0;
  long long forwards = 0;
  double forward_seconds = 0.0, policy_seconds = 0.0;
};

class answers {
 public:
  explicit answers(int limit)
      : problems_(demo::choose(
            demo::read_problems(UNMASK_EXAMPLES_DIR "/tiny_llada/prompts.jsonl"), {}, limit))
      , tasks_(demo::tasks_of(problems_))
      , host_(model_file) {
    for (const demo::problem& p : problems_) {
      jobs_.push_back(example::job_of(
          example::tokens_of(host_.vocab(), p.prompt, false), host_, answer_length, answer_length));
      capacity_.length = std::max(capacity_.length, jobs_.back().shape.length);
    }
    host_.reserve(capacity_);
  }

  void head() const {
    std::printf("| sampler |");
    for (const std::string& task : tasks_) {
      std::printf(" %s |", task.c_str());
    }
    std::printf(" forwards a prompt | ms a forward | us of sampling a step |\n| --- |");
    for (std::size_t i = 0; i < tasks_.size() + 3; ++i) {
      std::printf(" --- |");
    }
    std::printf("\n");
  }

  void theirs(llama_context* context, const peer_setting& setting) {
    score s{.exact = std::vector<int>(tasks_.size())};
    example::peer_engine engine;
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      diffusion_params p = setting.params();
      p.max_length = jobs_[i].shape.length;
      p.mask_token_id = host_.info().mask_token;
      p.seed = static_cast<int>(i);
      const auto prompt =
          std::span(jobs_[i].tokens).first(static_cast<std::size_t>(jobs_[i].shape.prompt_length));
      const example::peer_result r = example::peer_generate(engine, context, prompt, p);
      add(s, i, r.tokens, r.forwards, r.forward_seconds, r.sampler_seconds);
    }
    print("llama.cpp: " + setting.name, s);
  }

  template <class Policy>
  void ours(const std::string& name, const Policy& p) {
    session<Policy> decoder(p, host_.info(), capacity_);
    decode(name, decoder);
  }
  void ours(const std::string& name) {
    const auto session = demo::chosen_policy(name).make(
        {.model = host_.info(), .capacity = capacity_, .block_length = 20});
    decode("unmask: `" + name + "`, blocks of 20", *session, 20);
  }

 private:
  void decode(const std::string& name, auto& session, index_t block = answer_length) {
    score s{.exact = std::vector<int>(tasks_.size())};
    std::vector<example::job> jobs = jobs_;
    for (example::job& j : jobs) {
      j.shape.block_length = block;
    }
    example::decode(host_, session, 1, jobs, [](const auto&...) {});
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      add(s,
          i,
          jobs[i].tokens,
          jobs[i].report.forwards,
          jobs[i].forward_seconds,
          jobs[i].policy_seconds);
    }
    print(name, s);
  }

  void add(score& s,
           std::size_t i,
           std::span<const token_id> tokens,
           int forwards,
           double forward_seconds,
           double policy_seconds) {
    const std::string text = example::text_of(host_.vocab(), tokens.last(answer_length));
    const auto task = std::ranges::find(tasks_, problems_[i].task) - tasks_.begin();
    s.exact[static_cast<std::size_t>(task)] += text == problems_[i].answer ? 1 : 0;
    ++s.prompts;
    s.forwards += forwards;
    s.forward_seconds += forward_seconds;
    s.policy_seconds += policy_seconds;
  }

  void print(const std::string& name, const score& s) const {
    std::printf("| %s |", name.c_str());
    const double each = static_cast<double>(s.prompts) / static_cast<double>(tasks_.size());
    for (const int exact : s.exact) {
      std::printf(" %.2f |", exact / each);
    }
    const auto forwards = static_cast<double>(s.forwards);
    std::printf(" %.2f | %.2f | %.1f |\n",
                forwards / s.prompts,
                1e3 * s.forward_seconds / forwards,
                1e6 * s.policy_seconds / forwards);
    std::fflush(stdout);
  }

  std::vector<demo::problem> problems_;
  std::vector<std::string> tasks_;
  example::llama_cpp_host host_;
  std::vector<example::job> jobs_;
  session_capacity capacity_{.sequences = 1, .length = 0, .window = answer_length, .branches = 3};
};

void compare_answers(llama_context* context, int limit) {
  answers all(limit);
  all.head();
  const auto confidence = DIFFUSION_ALGORITHM_CONFIDENCE_BASED;
  const std::string greedy = ", `--temp 0.01 --top-k 0 --top-p 1`";
  for (const int steps : {40, 20, 10, 5}) {
    all.theirs(context,
               {"confidence, " + std::to_string(steps) + " steps" + greedy, confidence, steps});
    all.ours("unmask: `by_confidence`, `timesteps{" + std::to_string(steps) + "}`",
             policy{by_confidence{}, timesteps{.steps = steps}, single_block{}});
  }
  all.theirs(context, {"confidence, 40 steps, `--top-k 1`", confidence, 40, 1.0F, 1, 1.0F});
  all.theirs(context, {"confidence, 40 steps, defaults", confidence, 40, 0.8F, 40, 0.95F});
  all.theirs(context,
             {"confidence, 40 steps, `--temp 0 --top-k 0 --top-p 1`", confidence, 40, 0.0F});
  all.theirs(context, {"entropy, 40 steps" + greedy, DIFFUSION_ALGORITHM_ENTROPY_BASED});
  all.ours("unmask: `by_entropy`, `timesteps{40}`",
           policy{by_entropy{}, timesteps{.steps = 40}, single_block{}});
  all.theirs(context, {"margin, 40 steps" + greedy, DIFFUSION_ALGORITHM_MARGIN_BASED});
  all.ours("unmask: `by_margin`, `timesteps{40}`",
           policy{by_margin{}, timesteps{.steps = 40}, single_block{}});
  for (const char* name :
       {"one", "threshold(0.9)", "threshold(0.5)", "credited", "eb_sampler", "lopa_3"}) {
    all.ours(name);
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    const llama_model_ptr model(
        llama_model_load_from_file(model_file.c_str(), llama_model_default_params()));
    llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = 512;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;  // as in our host
    p.n_threads = p.n_threads_batch = 1;
    const llama_context_ptr context(llama_init_from_model(model.get(), p));
    const std::string what = count > 1 ? arguments[1] : "steps";
    if (what == "steps") {
      race_steps(context.get());
    } else if (what == "answers") {
      compare_answers(context.get(), count > 2 ? std::stoi(arguments[2]) : 25);
    } else {
      throw std::invalid_argument("usage: unmask_llama_cpp_race steps | answers [prompts a task]");
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "unmask_llama_cpp_race: " << e.what() << '\n';
    return 2;
  }
}
