// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One kernel alone, for peers.py and flags.sh: read f32|bf16 rows columns threads prints
// {"nanoseconds": the median of a read of all statistics}.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/race.hpp"
#include "support/rows.hpp"

namespace {

using namespace bench;

template <unmask::element T>
void read(index_t rows, index_t columns, index_t threads) {
  const logits<T> all(rows, columns);
  host::thread_pool pool(threads);
  reading<all_statistics, T> kernel(all, pool, host::best_instruction_set());
  race r;
  const auto k = r.enter([&] { kernel(); });
  r.run(9, 1e6);
  std::printf("{\"nanoseconds\": %.0f}\n", r.median(k));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 || std::atoi(argv[2]) < 1 || std::atoi(argv[3]) < 1 || std::atoi(argv[4]) < 1) {
    std::fprintf(stderr, "usage: %s f32|bf16 rows columns threads\n", argv[0]);
    return 2;
  }
  const bool halves = std::strcmp(argv[1], "bf16") == 0;
  (halves ? read<bfloat16>
          : read<float>)(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
}
