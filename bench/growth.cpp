// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Growth of the cost of a step with rows, vocabulary, statistics and masked positions, as CSV:
// growth > curves.csv; plot.py makes pictures of it. Columns: curve, x, label, and medians of
// microseconds of the step's read and of a plain read of the same bytes, in turns.
#include <cstdio>
#include <string>

#include "support/race.hpp"
#include "support/rows.hpp"

namespace {

using namespace bench;

template <statistics S>
void point(const char* curve, index_t x, const char* label, index_t rows, index_t vocab) {
  const logits<float> all(rows, vocab);
  host::thread_pool pool(1);
  reading<S, float> kernel(all, pool, host::best_instruction_set());
  std::vector<std::uint64_t> seen;
  race r;
  const auto k = r.enter([&] { kernel(); });
  const auto f = r.enter([&] { read_plainly<128>(all, pool, seen); });
  r.run(9, 1e6);
  std::printf("%s,%d,%s,%.2f,%.2f\n", curve, x, label, r.median(k) / 1e3, r.median(f) / 1e3);
}

}  // namespace

int main() {
  std::printf("curve,x,label,read_us,floor_us\n");
  for (const index_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    point<all_statistics>("rows", rows, "126464 columns", rows, 126464);
  }
  for (const index_t vocab : {1024, 2048, 8192, 32000, 50257, 126464, 151936, 262144}) {
    point<all_statistics>("vocabulary", vocab, "32 rows", 32, vocab);
  }
  point<stat::none>("statistics", 0, "best", 64, 126464);
  point<stat::confidence>("statistics", 1, "confidence", 64, 126464);
  point<stat::margin>("statistics", 2, "margin", 64, 126464);
  point<stat::margin | stat::entropy>("statistics", 3, "entropy", 64, 126464);
  point<stat::margin | stat::entropy | stat::second_moment>(
      "statistics", 4, "second moment", 64, 126464);
  for (const index_t open : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32}) {  // masked rows are what is read
    point<all_statistics>("masked", open, "of a block of 32", open, 126464);
  }
}
