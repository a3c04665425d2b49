// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The work at a hook, beside the read of the same bytes: layers [--rounds N]. Ratios only; what is
// compared runs in turns within one race.
#include <unmask/host/drift.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/step/choose.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "support/race.hpp"
#include "support/rows.hpp"

namespace {

using namespace bench;

constexpr index_t width = 4096;
const host::instruction_set level = host::best_instruction_set();
int rounds = 9;

/// The drift of all rows of `now` from those of `before`.
template <unmask::drift_terms Terms, unmask::element T>
void read_drift(const logits<T>& now, const logits<T>& before, host::thread_pool& pool) {
  const auto work = [&](index_t i) noexcept {
    const auto r = static_cast<std::size_t>(i);
    const unmask::drift_sums sums =
        host::drift<Terms>(now.rows()[r].logits, before.rows()[r].logits, width, level);
    asm volatile("" : : "r"(&sums) : "memory");
  };
  pool.run(static_cast<index_t>(now.rows().size()), work);
}

template <unmask::element T>
void drifts(const char* name) {
  constexpr auto skipping = unmask::drift_terms::distance_1 | unmask::drift_terms::previous;
  host::thread_pool pool{1};
  for (const index_t rows : {32, 512, 8192}) {
    const logits<T> now(rows, width);
    const logits<T> before(rows, width);
    std::vector<std::uint64_t> seen;
    std::vector<index_t> half;
    for (index_t i = 0; i < rows; i += 2) {
      half.push_back(i);
    }
    std::vector<T> gathered(half.size() * width);
    race r;
    const auto floor = r.enter([&] {
      read_plainly<128>(now, pool, seen);
      read_plainly<128>(before, pool, seen);
    });
    const auto skip = r.enter([&] { read_drift<skipping>(now, before, pool); });
    const auto cosine = r.enter([&] { read_drift<unmask::cosine_terms>(now, before, pool); });
    const auto copy = r.enter([&] {
      host::gather_rows(
          unmask::host_hidden<T>(now.data(), rows, width), half, gathered.data(), width);
      asm volatile("" : : "r"(gathered.data()) : "memory");
    });
    r.run(rounds, 1e6);
    std::printf("%-5s %5d rows of %d: early_skip's drift %.2f of the floor, the cosine's %.2f; "
                "gathering half of them %.2f; floor %.1f GB/s\n",
                name,
                rows,
                width,
                r.ratio(skip, floor),
                r.ratio(cosine, floor),
                r.ratio(copy, floor),
                2.0 * static_cast<double>(now.size() * sizeof(T)) / r.median(floor));
  }
}

/// The exact choice of a quarter, beside a read of the keys and the standard library's.
void choices() {
  for (const index_t count : {64, 512, 4096, 32768}) {
    const logits<float> importances(1, count);
    std::vector<std::uint32_t> keys;
    for (index_t i = 0; i < count; ++i) {
      keys.push_back(unmask::step::importance_key(importances.data()[i]));
    }
    std::vector<index_t> chosen(keys.size());
    std::vector<index_t> order(keys.size());
    const auto less = [&](index_t a, index_t b) {
      const std::uint32_t x = keys[static_cast<std::size_t>(a)];
      const std::uint32_t y = keys[static_cast<std::size_t>(b)];
      return x != y ? x < y : a < b;
    };
    race r;
    const auto choose = r.enter([&] {
      const index_t size = unmask::step::choose(keys.data(), count, count / 4, chosen.data());
      asm volatile("" : : "r"(size), "r"(chosen.data()) : "memory");
    });
    const auto standard = r.enter([&] {
      std::iota(order.begin(), order.end(), 0);
      std::nth_element(order.begin(), order.begin() + count / 4, order.end(), less);
      std::sort(order.begin(), order.begin() + count / 4);
      asm volatile("" : : "r"(order.data()) : "memory");
    });
    const auto floor = r.enter([&] {
      const std::uint32_t all = std::reduce(keys.begin(), keys.end(), 0U, std::bit_or{});
      asm volatile("" : : "r"(all) : "memory");
    });
    r.run(rounds, 1e6);
    std::printf("a quarter of %5d: %.2f ns a row, %.1f reads of the keys; nth_element and sort "
                "take %.1f times as long\n",
                count,
                r.median(choose) / count,
                r.ratio(choose, floor),
                r.ratio(standard, choose));
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      rounds = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--rounds N]\n", argv[0]);
      return 2;
    }
  }
  drifts<float>("f32");
  drifts<unmask::bfloat16>("bf16");
  choices();
}
