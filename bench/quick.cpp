// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cost of a step on this machine, and the goals, in half a minute:
// quick [--details] [--json] [--rounds N]. Everything that is compared runs in turns within one
// race; see bench/README.md for what the numbers mean.
#include <unmask/host/thread_pool.hpp>
#include <unmask/unmask.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "support/candidate_array.hpp"
#include "support/floors.hpp"
#include "support/goals.hpp"
#include "support/machine.hpp"
#include "support/race.hpp"
#include "support/rows.hpp"
#include "support/steps.hpp"

namespace {

using namespace bench;
using unmask::policy;

constexpr index_t vocab = 126464;
constexpr index_t first_cache = 6144;  // 24 KB of floats, three chunks
int rounds = 9;

/// Nanoseconds of one cycle of the core clock: a chain of multiplications, three cycles each.
void multiply_in_a_chain() {
#if defined(__x86_64__)
  std::uint64_t x = 3;
  for (int i = 0; i < 1000; ++i) {
    asm volatile("imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0" : "+r"(x));
  }
#endif
}
constexpr double chain_cycles = 12000.0;

template <unmask::element T>
const char* name_of() {
  return std::is_same_v<T, float> ? "f32" : (std::is_same_v<T, bfloat16> ? "bf16" : "f16");
}

struct pools {
  host::thread_pool one{1};
  host::thread_pool two{2};
};

/// A race of the same arithmetic on one thread and on two: what the second gains here.
class two_threads {
 public:
  two_threads(race& r, pools& threads)
      : race_(r)
      , one_(r.enter([&] { threads.one.run(pieces, work_); }))
      , two_(r.enter([&] { threads.two.run(pieces, work_); })) {}
  two_threads(const two_threads&) = delete;
  two_threads& operator=(const two_threads&) = delete;

  /// After the race: 2 on two free cores, 1 where another process has one of them.
  [[nodiscard]] double gain() const { return race_.ratio(one_, two_); }

 private:
  static constexpr index_t pieces = 64;
  struct arithmetic {
    logits<float> small{1, first_cache};
    void operator()(index_t) const noexcept {
      run_operation<operation::all_of_the_loop>(
          host::best_instruction_set(), small.data(), first_cache);
    }
  };
  race& race_;
  arithmetic work_;
  std::size_t one_, two_;
};

/// C2: any element type, size and number of threads, relative to the floor and the ceiling.
template <unmask::element T>
double bounds(scoreboard& board, pools& threads, index_t rows, const char* level) {
  double worst = 0.0;
  const logits<T> all(rows, vocab);
  const logits<T> small(1, first_cache);
  const auto instruction_set = host::best_instruction_set();
  for (int n = 1; n <= 2; ++n) {
    host::thread_pool& pool = n == 1 ? threads.one : threads.two;
    reading<all_statistics, T> kernel(all, pool, instruction_set);
    reading<stat::none, T> maximum(all, pool, instruction_set);
    reading<all_statistics, T> resident(small, threads.one, instruction_set);
    std::vector<std::uint64_t> seen;
    race r;
    const auto k = r.enter([&] { kernel(); });
    const auto f = r.enter([&] { read_plainly<0>(all, pool, seen); });
    const auto g = r.enter([&] { read_plainly<128>(all, pool, seen); });
    const auto m = r.enter([&] { maximum(); });
    const auto c = r.enter([&] { resident(); });
    const two_threads both(r, threads);
    r.run(rounds, 2e6);
    const auto size = static_cast<double>(all.size());
    const double floor = std::min({r.median(f), r.median(g), r.median(m)}) / size;
    const double ceiling =
        r.median(c) / static_cast<double>(small.size()) / (n == 1 ? 1.0 : both.gain());
    const double time = r.median(k) / size;
    const double of_bound = time / std::max(floor, ceiling);
    board.add(reading_case{std::string(name_of<T>()) + ", " + level + ", " + std::to_string(n) +
                               (n == 1 ? " thread" : " threads"),
                           1e3 * time,
                           time / floor,
                           of_bound});
    worst = std::max(worst, of_bound);
    if (std::is_same_v<T, float> && rows > 100 && n == 1) {
      const double rate = sizeof(T) / floor;
      board.note("floor of one thread from memory, GB/s", rate);
      if (floor >= ceiling) {  // otherwise arithmetic bounds the read here, and C2 has it
        board.add(goal{"C1", "memory floor / all statistics, float32", floor / time, 0.90, true});
      }
    }
  }
  return worst;
}

/// C3: the first cache, relative to the same operations when none waits for another.
void ceilings(scoreboard& board, pools& threads, host::instruction_set level, const char* name) {
  if (!host::available(level)) {
    return;
  }
  const logits<float> small(1, first_cache);
  const logits<float> whole(1, vocab);
  const float* const p = small.data();
  reading<all_statistics, float> kernel(small, threads.one, level);
  reading<all_statistics, float> kernel_of_whole(whole, threads.one, level);
  race r;
  const auto chain = r.enter(multiply_in_a_chain);
  const auto k = r.enter([&] { kernel(); });
  const auto w = r.enter([&] { kernel_of_whole(); });
  const auto of_loop =
      r.enter([&] { run_operation<operation::all_of_the_loop>(level, p, first_cache); });
  const auto fma =
      r.enter([&] { run_operation<operation::fused_multiply_add>(level, p, first_cache); });
  const auto max = r.enter([&] { run_operation<operation::maximum>(level, p, first_cache); });
  const auto load = r.enter([&] { run_operation<operation::load>(level, p, first_cache); });
  r.run(2 * rounds + 1, 5e5);
  const std::string of = std::string(", ") + name;
#if defined(__x86_64__)
  const double cycle_logits = chain_cycles / (first_cache / 16.0);
  const double vectors = static_cast<double>(first_cache / width_of(level));
  board.note("clock, GHz" + of, chain_cycles / r.median(chain));
  board.note("cycles for 16 logits" + of, r.ratio(k, chain) * cycle_logits);
  board.note("the same in a whole row" + of, r.ratio(w, chain) * chain_cycles / (vocab / 16.0));
  board.note("the same operations, none waiting" + of, r.ratio(of_loop, chain) * cycle_logits);
  for (const auto& [what, i] :
       {std::pair{"fused multiply-adds", fma}, {"maxima", max}, {"loads", load}}) {
    board.note(what + std::string(" a cycle") + of, vectors / chain_cycles * r.ratio(chain, i));
  }
#endif
  board.add(goal{
      "C3", "first cache / its operations, none waiting" + of, r.ratio(k, of_loop), 1.15, false});
}

/// C4, C8: sets of statistics and the candidate array, from memory.
void compositions(scoreboard& board, pools& threads) {
  const logits<float> all(256, vocab);
  const auto instruction_set = host::best_instruction_set();
  reading<stat::none, float> best(all, threads.one, instruction_set);
  reading<stat::margin, float> margin(all, threads.one, instruction_set);
  reading<stat::confidence, float> confidence(all, threads.one, instruction_set);
  reading<all_statistics, float> every(all, threads.one, instruction_set);
  race r;
  const auto b = r.enter([&] { best(); });
  const auto m = r.enter([&] { margin(); });
  const auto c = r.enter([&] { confidence(); });
  const auto e = r.enter([&] { every(); });
  const auto again = r.enter([&] { confidence(); });
  r.run(rounds, 1e6);
  board.add_noise(r.ratio(again, c));
  board.add(goal{"C4", "all statistics / maximum and denominator", r.ratio(e, c), 1.08, false});
  board.add(
      goal{"C4", "best, runner-up and denominator / denominator", r.ratio(m, c), 1.05, false});
  board.note("argmax / all statistics", r.ratio(b, e));
}

/// A step of 32 rows under some policies, what a plain read of its logits takes, and what the same
/// decision takes over an array of candidates, as token-by-token engines make one of each row (C8).
constexpr const char* shape_of_steps = "a step of 32 positions, 126,464 logits each, one thread";

template <unmask::element T>
void steps(std::vector<std::pair<std::string, double>>& costs, pools& threads) {
  const logits<T> rows(32, vocab);
  const auto at = unmask::by_confidence{};
  const auto likely = unmask::threshold{0.9F};
  first_step plain(policy{at, likely}, rows);
  first_step entropy(policy{unmask::by_entropy{}, unmask::entropy_bound{0.1F}}, rows);
  first_step credit(policy{at, likely, unmask::trace_credit<64>{}}, rows);
  first_step penalty(policy{at, likely, unmask::repetition_penalty<>{.penalty = 1.1F}}, rows);
  first_step drawn(policy{at, likely, unmask::sampling{0.8F}, unmask::top_p{0.95F}}, rows);
  std::vector<std::uint64_t> seen;
  race r;
  std::vector<std::pair<std::string, std::size_t>> entered;
  const auto enter = [&](const char* what, auto work) {
    entered.emplace_back(what, r.enter(work));
  };
  enter("threshold(0.9)", [&] { plain(); });
  enter("by_entropy + entropy_bound(0.1)", [&] { entropy(); });
  enter("threshold(0.9) + trace_credit", [&] { credit(); });
  enter("threshold(0.9) + repetition_penalty(1.1)", [&] { penalty(); });
  enter("threshold(0.9) + sampling(0.8) + top_p(0.95)", [&] { drawn(); });
  enter("compare: reading these bytes and nothing else",
        [&] { read_plainly<128>(rows, threads.one, seen); });
  candidate_array array;
  if constexpr (std::is_same_v<T, float>) {
    enter("compare: filling an array of candidates for each row", [&] {
      for (const auto& row : rows.rows()) {
        array.fill(row.logits, vocab);
        asm volatile("" : : "r"(array.tokens().data()) : "memory");
      }
    });
    enter("compare: and a softmax over it", [&] {
      for (const auto& row : rows.rows()) {
        array.fill(row.logits, vocab);
        const token_data t = array.likeliest();
        asm volatile("" : : "r"(&t) : "memory");
      }
    });
  }
  r.run(rounds, 1e6);
  for (const auto& [what, i] : entered) {
    costs.emplace_back(what, r.median(i) / 1e6);
  }
}

void step_costs(scoreboard& board, pools& threads) {
  std::vector<std::pair<std::string, double>> f32;
  std::vector<std::pair<std::string, double>> bf16;
  steps<float>(f32, threads);
  steps<bfloat16>(bf16, threads);
  for (std::size_t i = 0; i < f32.size(); ++i) {
    board.add(step_cost{f32[i].first, f32[i].second, i < bf16.size() ? bf16[i].second : 0.0});
  }
}

/// C7: one row, two threads, relative to what two threads gain on arithmetic alone.
void threading(scoreboard& board, pools& threads) {
  if (std::thread::hardware_concurrency() < 2) {
    return;
  }
  const logits<bfloat16> rows(8, vocab);
  const logits<bfloat16> row(1, 8 * vocab);
  const auto instruction_set = host::best_instruction_set();
  reading<all_statistics, bfloat16> one(rows, threads.one, instruction_set);
  reading<all_statistics, bfloat16> two(rows, threads.two, instruction_set);
  reading<all_statistics, bfloat16> row_one(row, threads.one, instruction_set);
  reading<all_statistics, bfloat16> row_two(row, threads.two, instruction_set);
  race r;
  const auto a = r.enter([&] { one(); });
  const auto b = r.enter([&] { two(); });
  const auto c = r.enter([&] { row_one(); });
  const auto d = r.enter([&] { row_two(); });
  const two_threads both(r, threads);
  r.run(2 * rounds + 1, 1e6);
  const double here = both.gain();
  board.note("gain of two threads on arithmetic alone", here);
  board.add(goal{"C7",
                 "gain of 2 threads / that of arithmetic, 8 rows of bf16",
                 r.ratio(a, b) / here,
                 0.95,
                 true});
  board.add(goal{"C7", "the same, one row", r.ratio(c, d) / here, 0.95, true});
}

/// Scalar work in which branches and loads are as unpredictable as in a step's: sorts 64 numbers,
/// new ones each time.
void sort_some() {
  static std::uint64_t x = 1;
  std::uint64_t numbers[64];
  for (std::uint64_t& n : numbers) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    n = x >> 32U;
  }
  std::sort(numbers, numbers + 64);
  asm volatile("" : : "r"(numbers) : "memory");
}

/// C9: what a step costs beyond its read.
void host_work(scoreboard& board, pools& threads) {
  const policy fast{unmask::by_confidence{}, unmask::threshold{0.9F}};
  for (const index_t rows : {32, 256}) {
    // So few columns that the read does not hide the rest.
    const logits<float> few(rows, 64);
    first_step step(fast, few);
    token_id suppressed[] = {62, 63};
    std::vector<row_input<float>> in = few.rows();
    for (auto& row : in) {
      row.excluded = suppressed;
      row.excluded_count = 1;
    }
    std::vector<record<stat::confidence>> out(in.size());
    std::vector<record<stat::confidence>> scratch(host::scratch_records(1));
    const auto instruction_set = host::best_instruction_set();
    const logits<float> whole(rows, vocab);
    reading<stat::confidence, float> kernel(whole, threads.one, instruction_set);
    race r;
    const auto s = r.enter([&] { step(); });
    const auto k = r.enter([&] {
      host::read_rows<stat::confidence, float>(
          in, nullptr, out.data(), threads.one, instruction_set, scratch);
      asm volatile("" : : "r"(out.data()) : "memory");
    });
    const auto w = r.enter([&] { kernel(); });
    const auto b = r.enter([&] { step.start(); });
    const auto sort = r.enter(sort_some);
    r.run(2 * rounds + 1, 2e5);
    const double work = r.median(s) - r.median(b) - r.median(k);
    if (rows == 32) {
      board.note("host work of a step of 32 rows, us", work / 1e3);
      board.note("sorting 64 numbers, us", r.median(sort) / 1e3);
      board.add(goal{"C9",
                     "host work of a step of 32 rows / sorting 64 numbers",
                     work / r.median(sort),
                     1.0,
                     false});
    } else {
      board.add(goal{"C9", "host work / read of 256 rows", work / r.median(w), 0.02, false});
    }
  }
}

/// C10: edits and sampling.
void edits(scoreboard& board) {
  const logits<float> rows(32, vocab);
  const policy plain{unmask::by_confidence{}, unmask::threshold{0.9F}};
  const policy credit{unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::trace_credit<64>{}};
  const policy penalty{unmask::by_confidence{},
                       unmask::threshold{0.9F},
                       unmask::repetition_penalty<>{.penalty = 1.1F}};
  const policy sampled{unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::sampling{1.0F}};
  const policy cooled{unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::temperature{0.8F}};
  const policy sampled_cooler{
      unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::sampling{0.8F}};
  const policy truncated{unmask::by_confidence{},
                         unmask::threshold{0.9F},
                         unmask::sampling{1.0F},
                         unmask::top_k{40},
                         unmask::top_p{0.95F}};
  first_step a(plain, rows);
  first_step f(cooled, rows);
  first_step g(sampled_cooler, rows);
  first_step h(truncated, rows);
  first_step b(credit, rows);
  first_step c(penalty, rows);
  first_step d(sampled, rows);
  first_step e(plain, rows);
  std::vector<std::uint32_t> allowed((vocab + 31) / 32, 0xffffffffU);
  for (std::size_t i = 0; i < allowed.size(); i += 3) {
    allowed[i] = 0x0f0f0f0fU;
  }
  unmask::row_modifiers<float> masked;
  masked.allowed = allowed.data();
  race r;
  const auto p = r.enter([&] { a(); });
  const auto q = r.enter([&] { b(); });
  const auto s = r.enter([&] { c(); });
  const auto t = r.enter([&] { d(); });
  const auto u = r.enter([&] { e(masked); });
  const auto v = r.enter([&] { f(); });
  const auto w = r.enter([&] { g(); });
  const auto x = r.enter([&] { h(); });
  const auto again = r.enter([&] { a(); });
  r.run(rounds, 1e6);
  board.add_noise(r.ratio(again, p));
  board.add(goal{"C10", "credit (64 slots) / plain step", r.ratio(q, p), 1.10, false});
  board.add(goal{"C10", "repetition penalty / plain step", r.ratio(s, p), 1.10, false});
  board.add(goal{"C10", "bitmask / plain step", r.ratio(u, p), 1.10, false});
  board.add(goal{"C10", "temperature .8 / plain step", r.ratio(v, p), 2.0, false});
  board.add(goal{"C10", "top-k 40, top-p .95 / plain step", r.ratio(x, p), 2.0, false});
  board.add(goal{"C10", "sampling / plain step", r.ratio(t, p), 4.0, false});
  board.add(goal{"C10", "sampling at .8 / plain step", r.ratio(w, p), 4.0, false});
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  bool details = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--details") == 0) {
      details = true;
    } else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc &&
               std::atoi(argv[i + 1]) > 0) {
      rounds = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--details] [--json] [--rounds N]\n", argv[0]);
      return 2;
    }
  }
  const std::string machine = machine_name();
  scoreboard board;
  pools threads;
  step_costs(board, threads);
  double worst = 0.0;
  worst = std::max(worst, bounds<float>(board, threads, 256, "from memory"));
  worst = std::max(worst, bounds<bfloat16>(board, threads, 256, "from memory"));
  worst = std::max(worst, bounds<float16>(board, threads, 256, "from memory"));
  worst = std::max(worst, bounds<float>(board, threads, 8, "last cache"));
  worst = std::max(worst, bounds<bfloat16>(board, threads, 8, "last cache"));
  worst = std::max(worst, bounds<float16>(board, threads, 8, "last cache"));
  board.add(goal{"C2", "worst of 12 reads / its bound here", worst, 1.15, false});
  ceilings(board, threads, host::instruction_set::avx512, "AVX-512");
  ceilings(board, threads, host::instruction_set::avx2, "AVX2");
  ceilings(board, threads, host::instruction_set::neon, "NEON");
  compositions(board, threads);
  threading(board, threads);
  host_work(board, threads);
  edits(board);
  board.note("rounds run again because time was stolen", race::voided);
  if (json) {
    board.print_json(machine);
    return 0;
  }
  board.print(machine, shape_of_steps);
  if (details) {
    board.print_details();
  }
  std::printf("\nCompare with PyTorch: python examples/bindings/python/step_time.py; with "
              "llama.cpp's sampler: bash "
              "tests/llama_cpp.sh\n%s",
              details ? "" : "The single reads: --details\n");
}
