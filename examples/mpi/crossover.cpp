// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time of a step in which ranks exchange records, compared with one in which they gather the logits
// first, as engines do today:
//
//     mpirun -n 2 unmask_example_mpi_crossover
//
// Prints a table in Markdown. Times are medians of the slowest rank, in microseconds: of the
// exchange alone, and of the whole step (gathering, putting columns side by side, reading all of
// them and deciding; or reading this rank's columns, exchanging and deciding).

#include <unmask/unmask.hpp>

#include <algorithm>
#include <cstdio>
#include <mpi.h>
#include <vector>

#include "mpi/exchange.hpp"

namespace {

using policy_type = unmask::policy<unmask::by_confidence, unmask::threshold>;
constexpr policy_type policy{unmask::by_confidence{}, unmask::threshold{0.9F}};

/// The median over rounds of the slowest rank's time, in microseconds. `prepare` is not timed.
double median_of_slowest(int rounds, const auto& prepare, const auto& work) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = MPI_Wtime();
    work();
    double elapsed = MPI_Wtime() - before;
    MPI_Allreduce(MPI_IN_PLACE, &elapsed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(elapsed * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

struct costs {
  double gather = 0, gather_step = 0, exchange = 0, exchange_step = 0;
  std::size_t logit_bytes = 0, record_bytes = 0;
};

costs measure(int rows, int vocab, int rank, int ranks, int rounds) {
  using unmask::bfloat16;
  const std::vector<unmask::index_t> cuts = unmask::chunk_cuts(vocab, ranks);
  const unmask::range columns{cuts[std::size_t(rank)], cuts[std::size_t(rank) + 1]};
  const int widest = cuts[1];  // chunk_cuts: the first shard is the largest
  std::vector<bfloat16> shard(std::size_t(rows) * std::size_t(widest));
  unsigned hash = 1;
  for (bfloat16& z : shard) {
    hash = hash * 1664525U + 1013904223U;
    z.bits = static_cast<std::uint16_t>(0x3f80U + (hash >> 24U));  // 1 to 4
  }
  std::vector<bfloat16> gathered(shard.size() * std::size_t(ranks));
  std::vector<bfloat16> whole(std::size_t(rows) * std::size_t(vocab));

  const unmask::model_info model{.vocab = vocab, .mask_token = 0};
  const unmask::session_capacity capacity{.sequences = 1, .length = rows, .window = rows};
  const unmask::sequence_shape shape{.length = rows, .block_length = rows};
  std::vector<unmask::token_id> tokens(std::size_t(rows), 0);
  unmask::session<policy_type> alone(model, capacity);
  unmask::sharded_session<policy_type> together(model, capacity, cuts, rank);
  const auto started = [&](auto& session) {
    session.start(0, policy, tokens, shape);
    static_cast<void>(session.next());
  };

  costs c;
  const int shard_bytes = int(shard.size() * sizeof(bfloat16));
  const auto gather = [&] {
    MPI_Allgather(shard.data(),
                  shard_bytes,
                  MPI_BYTE,
                  gathered.data(),
                  shard_bytes,
                  MPI_BYTE,
                  MPI_COMM_WORLD);
  };
  c.logit_bytes = std::size_t(shard_bytes) * std::size_t(ranks - 1);
  c.gather = median_of_slowest(rounds, [] {}, gather);
  c.gather_step = median_of_slowest(
      rounds,
      [&] { started(alone); },
      [&] {
        gather();
        for (std::size_t r = 0; r < std::size_t(ranks); ++r) {
          const bfloat16* from = gathered.data() + r * shard.size();
          for (std::size_t row = 0; row < std::size_t(rows); ++row) {
            std::copy_n(from + row * std::size_t(widest),
                        cuts[r + 1] - cuts[r],
                        whole.data() + row * std::size_t(vocab) + cuts[r]);
          }
        }
        alone.supply(unmask::host_logits<bfloat16>(whole.data(), rows, vocab));
      });

  example::gathered_messages exchange(MPI_COMM_WORLD);
  started(together);
  const std::vector<std::byte> message(together.message_bytes());
  const auto read = [&] {
    return together.read_shard(
        unmask::host_logits<bfloat16>(shard.data(), rows, columns.size(), widest));
  };
  together.supply(exchange(read()));
  c.record_bytes = message.size() * std::size_t(ranks - 1);
  c.exchange = median_of_slowest(rounds, [] {}, [&] { exchange(message); });
  c.exchange_step = median_of_slowest(
      rounds, [&] { started(together); }, [&] { together.supply(exchange(read())); });
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) {
    std::printf(
        "%d ranks, bf16 logits, times in microseconds\n\n"
        "| rows | vocabulary | logits received, bytes | gather | step | records received, bytes "
        "| exchange | step | step / step |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        ranks);
  }
  for (const int vocab : {512, 2048, 4096, 16384, 32768, 126464, 157184}) {
    for (const int rows : {1, 4, 32, 128}) {
      const costs c = measure(rows, vocab, rank, ranks, rows * (vocab / 4096) > 500 ? 31 : 201);
      if (rank == 0) {
        std::printf("| %d | %d | %zu | %.1f | %.1f | %zu | %.1f | %.1f | %.2f |\n",
                    rows,
                    vocab,
                    c.logit_bytes,
                    c.gather,
                    c.gather_step,
                    c.record_bytes,
                    c.exchange,
                    c.exchange_step,
                    c.exchange_step / c.gather_step);
        std::fflush(stdout);
      }
    }
  }
  MPI_Finalize();
  return 0;
}
