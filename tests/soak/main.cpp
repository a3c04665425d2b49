// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// unmask_soak [--steps N] [--only NAME]: what takes long or much. tests/soak.sh runs it.
//
//   slots    N steps (1,000,000) of 256 slots whose sequences join, leave, pause and are cancelled,
//   each
//            with a policy of its own: every decode ends within its bound, memory does not grow
//   shapes   vocabularies of 1, 2, 64 and 2^20, sequences of 1 and of 32,768 tokens
//   strides  rows up to 2^31 numbers apart decide as packed ones do
//   threads  four sessions on four threads, with threads of their own, shared and none, decide as
//   one locale   texts and messages under the locale of the environment
#include <unmask/host/shared_thread_pool.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/named_requirements.hpp>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "support/bound_session.hpp"
#include "support/dice.hpp"

namespace {

using namespace unmask;
using testing::dice;

void require(bool holds, const std::string& promise) {
  if (!holds) {
    throw std::runtime_error("broken promise: " + promise);
  }
}

constexpr const char* policies[] = {"threshold(0.9)",
                                    "tokens_per_step(2) + left_to_right",
                                    "threshold(0.8) + trace_credit + stop_at_eos",
                                    "lookahead(3) + threshold(0.9)",
                                    "by_entropy + entropy_bound(0.5) + sampling(0.8) + top_p(0.9)",
                                    "threshold(0.7) + remask_below(0.2)",
                                    "threshold(0.7) + edit_committed + dual_cache + max_steps(40)",
                                    "adaptive_threshold",
                                    "entropy_bound(0.1) + canvas",
                                    "factor(1) + block_pipeline(0.2, 0.8)",
                                    "at_random + timesteps(9) + repetition_penalty(1.2)",
                                    "threshold(0.9) + key_eviction + prefix_cache(3)"};

/// Kilobytes of the process that are in memory.
[[nodiscard]] long resident_kb() {
  std::ifstream statm("/proc/self/statm");
  long whole = 0;
  long resident = 0;
  statm >> whole >> resident;
  return resident * 4;
}

/// Rows of logits, drawn once.
class row_source {
 public:
  row_source(index_t vocab, index_t rows, std::uint64_t seed)
      : vocab_(vocab)
      , rows_(rows) {
    dice d(seed);
    values_.resize(static_cast<std::size_t>(vocab) * static_cast<std::size_t>(rows));
    for (float& z : values_) {
      z = d.real(-4, 4);
    }
  }

  /// Writes a row that depends on position and step of a sequence.
  void write(index_t slot, index_t position, std::int64_t step, float* to) const {
    const auto mixed = static_cast<std::uint64_t>(slot) * 0x9e3779b97f4a7c15U ^
                       static_cast<std::uint64_t>(position) * 0xc2b2ae3d27d4eb4fU ^
                       static_cast<std::uint64_t>(step) * 0x165667b19e3779f9U;
    const auto row = static_cast<std::size_t>((mixed >> 20U) % static_cast<std::uint64_t>(rows_));
    std::memcpy(to,
                values_.data() + row * static_cast<std::size_t>(vocab_),
                sizeof(float) * static_cast<std::size_t>(vocab_));
  }

 private:
  index_t vocab_;
  index_t rows_;
  std::vector<float> values_;
};

/// Logits of a request.
void fill(std::vector<float>& logits,
          const forward_request& request,
          const row_source& rows,
          index_t vocab,
          std::int64_t step) {
  const auto columns = static_cast<std::size_t>(vocab);
  logits.resize(static_cast<std::size_t>(request.rows) * columns);
  for (const segment& g : request.segments) {
    for (index_t p = g.rows.first; p < g.rows.last; ++p) {
      const auto row = static_cast<std::size_t>(g.first_row + p - g.rows.first);
      rows.write(g.slot, p, step, logits.data() + row * columns);
    }
  }
}

void slots(std::int64_t steps) {
  constexpr index_t count = 256;
  constexpr index_t length = 16;
  const model_info model{.vocab = 64, .mask_token = 63, .eos_token = 62};
  const session_capacity capacity{
      .sequences = count, .length = length, .window = length, .branches = 3};
  const row_source rows(model.vocab, 4096, 1);
  std::vector<named_policy> parts;
  for (const char* text : policies) {
    parts.push_back(read_policy(text));
  }
  const auto session = testing::make_bound(parts[0], model, capacity);
  struct resident {
    std::vector<token_id> tokens = std::vector<token_id>(length);
    sequence_shape shape;
    std::int64_t most = 0;
    bool runs = false;
  };
  std::vector<resident> slots(count);
  std::vector<index_t> awake;
  std::vector<float> logits;
  std::vector<double> times(static_cast<std::size_t>(steps));  // touched before memory is measured
  dice d(7);
  long ended = 0;
  long cancelled = 0;
  long settled = 0;
  long commits = 0;
  const auto join = [&](index_t slot) {
    resident& r = slots[static_cast<std::size_t>(slot)];
    const named_policy& p = d.one_of(parts);
    r.shape = {.prompt_length = d.within(0, 6), .length = 0, .block_length = d.within(1, 5)};
    r.shape.length = d.within(r.shape.prompt_length + 1, length);
    r.shape.seed = d.bits();
    for (token_id& t : r.tokens) {
      t = d.within(0, 61);
    }
    r.most = requirements_of(p, model, capacity, r.shape).most_forwards;
    session->start(slot, p, r.tokens, r.shape);
    r.runs = true;
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    awake.clear();
    for (index_t i = 0; i < count; ++i) {
      resident& r = slots[static_cast<std::size_t>(i)];
      if (r.runs && !session->planned(i).active()) {
        const sequence_report& report = session->report(i);
        require(report.forwards <= r.most, "a decode ends within its bound");
        const auto answer = r.tokens.begin();
        require(std::count(answer, answer + r.shape.length, model.mask_token) == 0 ||
                    report.end == ending::max_steps,
                "a decode that ends leaves no mask");
        ++ended;
        r.runs = false;
      } else if (r.runs && d.chance(0.002)) {
        session->cancel(i);
        ++cancelled;
        r.runs = false;
      }
      if (!r.runs && d.chance(0.5)) {
        join(i);
      }
      if (r.runs && d.chance(0.95)) {
        awake.push_back(i);
      }
    }
    const auto before = std::chrono::steady_clock::now();
    auto request = session->next(awake);
    if (request && d.chance(0.01)) {
      session->abandon();
      request = session->next(awake);
    }
    if (request && d.chance(0.0005)) {
      for (const segment& s : session->cancel_request()) {
        cancelled += std::exchange(slots[static_cast<std::size_t>(s.slot)].runs, false) ? 1 : 0;
      }
      request.reset();
    }
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    if (request) {
      fill(logits, *request, rows, model.vocab, step);
      const auto again = std::chrono::steady_clock::now();
      session->supply(host_logits<float>(logits.data(), request->rows, model.vocab));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - again).count();
      for (const index_t slot : awake) {
        commits += static_cast<long>(session->committed(slot).size());
      }
    }
    times[static_cast<std::size_t>(step)] = seconds;
    if (step == steps / 10) {
      settled = resident_kb();
    }
  }
  const long grown = resident_kb() - settled;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return 1e6 * times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf("slots    %lld steps, %ld decodes ended, %ld cancelled, %ld commits; a step in us: "
              "%.0f median, %.0f of 99 %%, %.0f at most; memory %+ld kB since a tenth of them, of "
              "%ld kB\n",
              static_cast<long long>(steps),
              ended,
              cancelled,
              commits,
              at(0.5),
              at(0.99),
              at(1.0),
              grown,
              settled);
  require(grown <= 256, "memory does not grow");
}

constexpr std::int64_t most_steps = 600;

/// Decodes one sequence and returns its tokens.
std::vector<token_id> decode(const char* text,
                             const model_info& model,
                             const sequence_shape& shape,
                             const row_source& rows,
                             const on_host& where = {}) {
  const named_policy parts = read_policy(text);
  session_capacity capacity{.sequences = 1, .length = shape.length, .window = shape.length};
  const policy_requirements needs = requirements_of(parts, model, capacity, shape);
  capacity.window = std::max(needs.window, index_t{1});
  const auto session = testing::make_bound(parts, model, capacity, where);
  std::vector<token_id> tokens(static_cast<std::size_t>(shape.length));
  session->start(0, tokens.data(), shape.length, shape);
  std::vector<float> logits;
  // Where the mask token may be proposed, max_steps is the bound.
  const std::int64_t most = model.suppress_mask ? needs.most_forwards : most_steps;
  std::int64_t passes = 0;
  while (const auto request = session->next()) {
    fill(logits, *request, rows, model.vocab, passes);
    session->supply(host_logits<float>(logits.data(), request->rows, model.vocab));
    require(++passes <= most,
            std::string(text) + " ends within its bound of " + std::to_string(most) +
                " passes for " + std::to_string(shape.length) + " tokens, vocabulary " +
                std::to_string(model.vocab));
  }
  return tokens;
}

void shapes() {
  long decodes = 0;
  for (const index_t vocab : {1, 2, 64, 1 << 20}) {
    const row_source rows(vocab, vocab > 64 ? 3 : 100, 2);
    for (const index_t length : {1, 33, 32768}) {
      if (vocab > 64 && length > 33) {
        continue;  // 4 MB a row
      }
      for (const char* text : policies) {
        if (std::strstr(text, "eos") != nullptr || (vocab == 1 && std::strstr(text, "canvas"))) {
          continue;  // these models have no EOS token; a canvas draws other tokens than the mask
        }
        const bool is_slow = length > 33 && std::strstr(text, "threshold") == nullptr;
        const sequence_shape shape{.length = length, .block_length = is_slow ? 4096 : 64};
        const model_info model{.vocab = vocab, .mask_token = vocab - 1, .suppress_mask = vocab > 1};
        const std::string bounded =
            std::string(text) + " + max_steps(" + std::to_string(most_steps) + ")";
        decode(vocab == 1 || length > 33 ? bounded.c_str() : text, model, shape, rows);
        ++decodes;
      }
    }
  }
  std::printf("shapes   %ld decodes\n", decodes);
}

void strides() {
  constexpr index_t vocab = 3000;
  constexpr index_t count = 3;
  const model_info model{.vocab = vocab, .mask_token = vocab - 1};
  const session_capacity capacity{.sequences = 1, .length = count, .window = count};
  const row_source rows(vocab, 64, 3);
  std::vector<std::vector<token_id>> answers;
  for (const std::ptrdiff_t stride :
       {std::ptrdiff_t{vocab}, (std::ptrdiff_t{1} << 30U) + 3, (std::ptrdiff_t{1} << 31U) - 1}) {
    const std::size_t bytes =
        sizeof(float) * (static_cast<std::size_t>(stride) * (count - 1) + vocab);
    // Pages that nobody writes take no memory.
    void* const memory = mmap(
        nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "there are addresses for rows far apart");
    auto* const logits = static_cast<float*>(memory);
    const auto session =
        testing::make_bound(read_policy("threshold(0.3) + sampling + top_k(100)"), model, capacity);
    std::vector<token_id> tokens(count);
    session->start(0, tokens.data(), count, {.length = count, .block_length = count});
    for (std::int64_t step = 0; const auto request = session->next(); ++step) {
      const range of = request->segments[0].rows;
      for (index_t p = of.first; p < of.last; ++p) {
        rows.write(0, p, step, logits + stride * (p - of.first));
      }
      any_rows far;
      far.data = logits;
      far.rows = request->rows;
      far.columns = vocab;
      far.stride = stride;
      session->supply(far);
    }
    answers.push_back(tokens);
    munmap(memory, bytes);
  }
  require(answers[1] == answers[0] && answers[2] == answers[0], "rows far apart decide alike");
  std::printf("strides  rows 2^30 + 3 and 2^31 - 1 numbers apart decide as packed ones\n");
}

void threads(std::int64_t rounds) {
  const model_info model{.vocab = 500, .mask_token = 499, .eos_token = 498};
  const row_source rows(model.vocab, 200, 4);
  const sequence_shape shape{.length = 48, .block_length = 16};
  std::vector<std::vector<token_id>> alone;
  for (const char* text : policies) {
    alone.push_back(decode(text, model, shape, rows));
  }
  long decodes = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::vector<std::thread> running;
    std::vector<std::string> problems(4);
    for (std::size_t k = 0; k < 4; ++k) {
      running.emplace_back([&, k] {
        try {
          host::thread_pool own(2);
          const auto shared = host::shared_thread_pool::of(3);
          for (std::size_t i = 0; i < alone.size(); ++i) {
            const std::size_t which = (i + 3 * k) % alone.size();
            on_host where;
            if (k < 2) {
              where.executor = *shared;
            } else if (k == 2) {
              where.executor = own;
            }
            require(decode(policies[which], model, shape, rows, where) == alone[which],
                    std::string(policies[which]) + " decides alike on four threads");
          }
        } catch (const std::exception& e) {
          problems[k] = e.what();
        }
      });
    }
    for (std::thread& t : running) {
      t.join();
    }
    for (const std::string& problem : problems) {
      require(problem.empty(), problem);
    }
    decodes += static_cast<long>(4 * alone.size());
  }
  std::printf("threads  %ld decodes on four threads at once\n", decodes);
}

void locale() {
  const char* const set = std::setlocale(LC_ALL, "");
  const std::string name = set == nullptr ? "unknown" : set;
  const std::string point = std::localeconv()->decimal_point;
  const model_info model{.vocab = 50, .mask_token = 49};
  const row_source rows(model.vocab, 50, 5);
  const sequence_shape shape{.length = 20, .block_length = 20};
  const std::vector<token_id> here = decode("threshold(0.35)", model, shape, rows);
  std::string message;
  try {
    static_cast<void>(read_policy("threshold(1.5)"));
  } catch (const std::invalid_argument& e) {
    message = e.what();
  }
  std::setlocale(LC_ALL, "C");
  require(decode("threshold(0.35)", model, shape, rows) == here, "a locale changes no argument");
  require(message.ends_with("must be in [0, 1], got 1.5"),
          "a locale changes no message: " + message);
  std::printf("locale   %s, whose decimal point is %s\n", name.c_str(), point.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t steps = 1'000'000;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--steps") == 0) {
      steps = std::atoll(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--only") == 0) {
      only = argv[i + 1];
    }
  }
  const auto wants = [&](const char* name) { return only.empty() || only == name; };
  try {
    if (wants("locale")) {
      locale();
    }
    if (wants("strides")) {
      strides();
    }
    if (wants("threads")) {
      threads(1 + steps / 20000);
    }
    if (wants("shapes")) {
      shapes();
    }
    if (wants("slots")) {
      slots(steps);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
