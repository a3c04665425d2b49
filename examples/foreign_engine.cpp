// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plugs in an engine that has never heard of unmask, with continuous batching: requests of
// different lengths share forward passes, leave when they are done, and others take their place.
#include <unmask/interop/half.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The engine: its own number type, tensor, threads and model. The "model" spells a prompt
// backwards, the surer of a letter the more of its neighbours are there.
namespace acme {

struct bf16 {
  std::uint16_t bits;
};

/// Rows of logits, each padded to a multiple of 64 columns.
struct tensor {
  std::vector<bf16> data;
  int rows = 0, columns = 0, stride = 0;
};

class pool {
 public:
  explicit pool(int size)
      : size_(size)
      , meet_(size) {
    for (int i = 1; i < size; ++i) {
      threads_.emplace_back([this, i] {
        while (true) {
          meet_.arrive_and_wait();
          if (!work_) {
            return;
          }
          share(i);
          meet_.arrive_and_wait();
        }
      });
    }
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() {
    work_ = nullptr;
    meet_.arrive_and_wait();
  }

  int size() const { return size_; }

  void parallel_for(int count, std::function<void(int)> work) {
    work_ = std::move(work);
    count_ = count;
    meet_.arrive_and_wait();
    share(0);
    meet_.arrive_and_wait();
  }

 private:
  void share(int thread) {
    for (int i = thread; i < count_; i += size_) {
      work_(i);
    }
  }

  int size_;
  int count_ = 0;
  std::function<void(int)> work_;
  std::barrier<> meet_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

constexpr int mask = 0;
constexpr int vocabulary = 100;

struct request {
  std::vector<int> tokens;  ///< the prompt and as many masks
  int prompt_length = 0;
};

/// Rows [first, last) of one sequence.
struct job {
  const request* sequence;
  int first, last;
};

class model {
 public:
  explicit model(pool& threads)
      : threads_(threads) {}

  tensor forward(const std::vector<job>& batch) {
    std::vector<std::pair<const request*, int>> rows;
    for (const job& j : batch) {
      for (int position = j.first; position < j.last; ++position) {
        rows.emplace_back(j.sequence, position);
      }
    }
    // The padding is NaN: to read it would spoil the answer.
    tensor out{.data = std::vector<bf16>(rows.size() * 128, bf16{0x7fc0}),
               .rows = static_cast<int>(rows.size()),
               .columns = vocabulary,
               .stride = 128};
    threads_.parallel_for(out.rows, [&](int r) {
      const auto& [sequence, position] = rows[static_cast<std::size_t>(r)];
      write_row(*sequence, position, out.data.data() + r * out.stride);
    });
    return out;
  }

 private:
  static void write_row(const request& sequence, int position, bf16* row) {
    const auto known = [&](int p) {
      const auto i = static_cast<std::size_t>(p);
      return p >= sequence.prompt_length && i < sequence.tokens.size() &&
             sequence.tokens[i] != mask;
    };
    const int right =
        sequence.tokens[static_cast<std::size_t>(2 * sequence.prompt_length - 1 - position)];
    const int neighbours = known(position - 1) + known(position + 1);
    for (int token = 0; token < vocabulary; ++token) {
      const int noise = token * 31 + position * 17;
      const float logit = token == right ? 4.0F + 2.0F * static_cast<float>(neighbours)
                                         : static_cast<float>(noise % 64) / 64.0F;
      row[token].bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(logit) >> 16U);
    }
  }

  pool& threads_;
};

request request_for(const std::string& prompt) {
  request r{.tokens = std::vector<int>(2 * prompt.size(), mask),
            .prompt_length = static_cast<int>(prompt.size())};
  std::ranges::transform(prompt, r.tokens.begin(), [](char c) { return c - ' ' + 1; });
  return r;
}

std::string answer_of(const request& r) {
  std::string text;
  for (auto token = r.tokens.begin() + r.prompt_length; token != r.tokens.end(); ++token) {
    text += static_cast<char>(*token - 1 + ' ');
  }
  return text;
}

}  // namespace acme

namespace acme {

// [as_rows]
/// Describes the engine's tensor as logits: found by argument-dependent lookup.
auto as_rows(const tensor& t) {
  return unmask::bfloat16_rows<unmask::memory::host>(t.data.data(), t.rows, t.columns, t.stride);
}
// [/as_rows]

// [threads]
/// Lends the engine's threads to the session.
struct lent_threads {
  pool& threads;
  int concurrency() const { return threads.size(); }
  void run(int count, unmask::host::task work) { threads.parallel_for(count, work); }
};
// [/threads]

// [serve]
/// Answers all requests, at most three at a time.
std::vector<std::string> serve(model& engine, pool& threads, std::queue<request> waiting) {
  unmask::policy fast{unmask::by_confidence{}, unmask::factor{1.0F}};
  lent_threads lent{threads};
  unmask::session<decltype(fast)> session({.vocab = vocabulary, .mask_token = mask},
                                          {.sequences = 3, .length = 64, .window = 8},
                                          {.executor = lent});
  std::array<request, 3> running;
  const auto join = [&](int slot, request& place) {  // a request takes a free slot
    if (!waiting.empty()) {
      place = std::move(waiting.front());
      waiting.pop();
      const int length = static_cast<int>(place.tokens.size());
      const unmask::sequence_shape shape{
          .prompt_length = place.prompt_length, .length = length, .block_length = 8};
      session.start(slot, fast, place.tokens, shape);
    }
  };
  for (std::size_t slot = 0; slot < running.size(); ++slot) {
    join(int(slot), running[slot]);
  }

  std::vector<std::string> answers;
  while (const auto wanted = session.next()) {
    std::vector<job> batch;  // one forward pass for all running requests
    for (const unmask::segment& s : wanted->segments) {
      batch.push_back({&running[std::size_t(s.slot)], s.rows.first, s.rows.last});
    }
    session.supply(engine.forward(batch));

    for (std::size_t slot = 0; slot < running.size(); ++slot) {
      request& place = running[slot];
      if (place.prompt_length > 0 && session.report(int(slot)).end != unmask::ending::running) {
        answers.push_back(answer_of(std::exchange(place, {})));
        join(int(slot), place);
      }
    }
  }
  return answers;
}
// [/serve]

}  // namespace acme

int main() {
  const std::vector<std::string> prompts = {
      "stressed", "a man, a plan, a canal", "drawer", "live", "parts of a policy", "no", "lager"};
  std::queue<acme::request> waiting;
  for (const std::string& prompt : prompts) {
    waiting.push(acme::request_for(prompt));
  }
  acme::pool threads(2);
  acme::model engine(threads);
  std::vector<std::string> answers = acme::serve(engine, threads, std::move(waiting));
  for (const std::string& answer : answers) {
    std::puts(answer.c_str());
  }

  // Short requests overtake long ones; all of them must be right.
  std::vector<std::string> expected;
  for (const std::string& prompt : prompts) {
    expected.emplace_back(prompt.rbegin(), prompt.rend());
  }
  std::ranges::sort(answers);
  std::ranges::sort(expected);
  return answers == expected ? 0 : 1;
}
