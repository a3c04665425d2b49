// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several ranks decode together, each with its own columns of the vocabulary, and every rank checks
// that it commits what one process alone would have:
//
//     mpirun -n 4 unmask_example_mpi_decode
//
// Ends with status 1 on every rank if one of them finds a difference.

#include <unmask/unmask.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mpi.h>
#include <span>
#include <string>
#include <vector>

#include "mpi/engines.hpp"
#include "mpi/exchange.hpp"

namespace {

using example::allowed_tokens;
/// Takes this rank's message, gives those of all ranks, or their sum.
using transport = std::function<std::span<const std::byte>(std::span<const std::byte>)>;

struct decoded {
  allowed_tokens tokens;
  std::vector<float> log_probabilities;
  int forwards = 0;
  std::size_t largest_message = 0;
  friend bool operator==(const decoded&, const decoded&) = default;
};

struct task {
  std::string prompt;
  int answer = 0;
  unmask::sequence_shape shape;
};

void note(auto& session, decoded& out) {
  ++out.forwards;
  for (const unmask::commit_entry& c : session.committed()) {
    out.log_probabilities.push_back(c.log_probability);
  }
}

/// Decode by one process from whole rows.
template <class Policy>
decoded alone(const Policy& policy, example::sharded_engine& engine, const task& t) {
  decoded out{engine.canvas(t.prompt, t.answer), {}, 0, 0};
  unmask::session<Policy> session(policy, engine.model(), out.tokens, t.shape);
  const int vocab = engine.model().vocab;
  while (const auto request = session.next()) {
    const auto logits = engine.forward(*request, out.tokens, {0, vocab});
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
    note(session, out);
  }
  return out;
}

/// Decode by this rank from its columns and the messages of the others.
template <class Policy>
decoded together(const Policy& policy,
                 example::sharded_engine& engine,
                 const task& t,
                 const std::vector<unmask::index_t>& cuts,
                 int rank,
                 const transport& exchange) {
  decoded out{engine.canvas(t.prompt, t.answer), {}, 0, 0};
  const unmask::session_capacity capacity{.sequences = 1,
                                          .length = t.shape.length,
                                          .window = t.shape.length,
                                          .branches = Policy::branches ? 3 : 0};
  const auto exchanged = [&](std::span<const std::byte> mine) {
    out.largest_message = std::max(out.largest_message, mine.size());
    return exchange(mine);  // one MPI_Allgather, or one MPI_Allreduce
  };
  // [ranks]
  unmask::sharded_session<Policy> session(engine.model(), capacity, cuts, rank);
  session.start(0, policy, out.tokens, t.shape);

  const unmask::range columns = session.columns();  // this rank's, of every row
  while (const auto request = session.next()) {
    const auto logits = engine.forward(*request, out.tokens, columns);
    const auto mine = session.read_shard(
        unmask::host_logits<float>(logits.data(), request->rows, columns.size()));
    session.supply(exchanged(mine));  // bytes in, bytes of all ranks out: any transport
    note(session, out);
  }
  // [/ranks]
  return out;
}

/// Where tokens and log-probabilities must be the same to the bit, or only tokens.
enum class expected { bits, tokens };

class comparison {
 public:
  comparison() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  template <class Policy>
  void run(const char* name,
           const Policy& policy,
           example::sharded_engine& engine,
           const task& t,
           const std::vector<unmask::index_t>& cuts,
           expected what) {
    decoded one = alone(policy, engine, t);
    example::gathered_messages gather(MPI_COMM_WORLD);
    example::reduced_message<Policy::required> reduce(MPI_COMM_WORLD);
    decoded gathered = together(policy, engine, t, cuts, rank_, std::ref(gather));
    decoded reduced = together(policy, engine, t, cuts, rank_, std::ref(reduce));
    const std::size_t bytes = gathered.largest_message;
    for (decoded* d : {&one, &gathered, &reduced}) {
      d->largest_message = 0;
      if (what == expected::tokens) {
        d->log_probabilities.clear();
      }
    }
    int differ = gathered == one && reduced == one ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &differ, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    failed_ = failed_ || differ != 0;
    if (rank_ == 0) {
      std::printf("%-34s %3d forwards, %6zu bytes a rank and step, %s: %s\n",
                  name,
                  one.forwards,
                  bytes,
                  what == expected::bits ? "bits" : "tokens",
                  differ != 0 ? "DIFFERENT" : "equal");
    }
  }

  /// Policies that between them use every kind of record: sums, tracked tokens, draws, rows of the
  /// step before, branches.
  void all(example::sharded_engine& engine,
           const task& t,
           const std::vector<unmask::index_t>& cuts,
           bool at_chunks) {
    using namespace unmask;
    const expected what = at_chunks ? expected::bits : expected::tokens;
    run("threshold", policy{by_confidence{}, threshold{0.9F}}, engine, t, cuts, what);
    run("margin, top 2", policy{by_margin{}, tokens_per_step{2}}, engine, t, cuts, what);
    run("entropy bound", policy{by_entropy{}, entropy_bound{0.5F}}, engine, t, cuts, what);
    run("credit, stop at end",
        policy{by_confidence{}, threshold{0.9F}, trace_credit<64>{}, stop_at_eos{}},
        engine,
        t,
        cuts,
        what);
    run("adaptive threshold", policy{by_confidence{}, adaptive_threshold{}}, engine, t, cuts, what);
    run("lookahead over a pipeline",
        policy{by_entropy{}, threshold{0.9F}, block_pipeline{}, lookahead{.branches = 3}},
        engine,
        t,
        cuts,
        what);
    if (at_chunks) {  // otherwise another token is drawn from the same distribution
      run("sampling",
          policy{by_confidence{}, tokens_per_step{2}, sampling{0.7F}},
          engine,
          t,
          cuts,
          what);
    }
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool failed() const { return failed_; }

 private:
  int rank_ = 0;
  int ranks_ = 0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  comparison check;
  const auto say = [&](const char* text) {
    if (check.rank() == 0) {
      std::printf("%s, %d ranks\n", text, check.ranks());
    }
  };

  say("The tiny LLaDA, cut anywhere");
  example::tiny_engine tiny(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf");
  const std::string question = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?";
  const int prompt = static_cast<int>(tiny.canvas(question, 0).size());
  const int vocab = tiny.model().vocab;
  const task arithmetic{
      question, 40, {.prompt_length = prompt, .length = prompt + 40, .block_length = 20}};
  const auto even = unmask::padded_cuts(vocab, check.ranks(), vocab / check.ranks() + 1);
  check.all(tiny, arithmetic, even, false);

  const task random{"seed", 16, {.prompt_length = 4, .length = 20, .block_length = 8, .seed = 5}};
  say("A vocabulary of 126,464, cut at chunks");
  example::hashed_engine llada(126464);
  check.all(llada, random, unmask::chunk_cuts(126464, check.ranks()), true);

  say("A vocabulary of 32,003, cut where its padding to a multiple of 64 columns cuts it");
  example::hashed_engine padded(32003);
  const int columns = (32003 / check.ranks() + 64) / 64 * 64;
  check.all(padded, random, unmask::padded_cuts(32003, check.ranks(), columns), false);

  MPI_Finalize();
  return check.failed() ? 1 : 0;
}
