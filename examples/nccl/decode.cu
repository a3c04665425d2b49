// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every GPU of this machine is a rank with its own columns of the vocabulary, and a thread of its
// own. All ranks must commit what one session with whole rows commits. Has not been run yet,
// for want of GPUs. Ends with 77 where there is none.

#include <unmask/cuda.cuh>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "mpi/engines.hpp"
#include "nccl/exchange.hpp"

namespace {

constexpr unmask::policy policy{
    unmask::by_confidence{}, unmask::threshold{0.9F}, unmask::trace_credit<64>{}};
using policy_type = std::remove_const_t<decltype(policy)>;
constexpr int vocab = 126464;
constexpr unmask::sequence_shape shape{.prompt_length = 4, .length = 36, .block_length = 16};
constexpr unmask::session_capacity capacity{.sequences = 1, .length = 36, .window = 36};

}  // namespace

// Required once in a program, in one .cu file, for each policy that ranks decode with on streams.
template class unmask::on_stream::workspace<policy_type>;
template class unmask::on_stream::shard_workspace<policy_type>;

namespace {

example::allowed_tokens decode_alone() {
  example::hashed_engine engine(vocab);
  example::allowed_tokens tokens = engine.canvas("seed", 32);
  unmask::session<policy_type> session(policy, engine.model(), tokens, shape);
  while (const auto request = session.next()) {
    const auto logits = engine.forward(*request, tokens, {0, vocab});
    session.supply(unmask::host_logits<float>(logits.data(), request->rows, vocab));
  }
  return tokens;
}

void decode_rank(int rank, ncclComm_t ranks, int count, example::allowed_tokens& tokens) {
  example::check(cudaSetDevice(rank), "cudaSetDevice");
  const example::stream stream;
  example::hashed_engine engine(vocab);
  tokens = engine.canvas("seed", 32);
  const auto cuts = unmask::chunk_cuts(vocab, count);
  unmask::sharded_session<policy_type, unmask::on_stream> session(
      engine.model(), capacity, cuts, rank, {stream.get()});
  const unmask::range columns = session.columns();
  const example::device_array<unmask::token_id> there(tokens.size());
  const example::device_array<float> rows(std::size_t(capacity.window) *
                                          std::size_t(columns.size()));
  example::gathered_by_nccl exchange(ranks, stream, session.most_bytes());
  there.upload(tokens.data(), tokens.size(), stream);
  session.start(0, policy, {there.data(), shape.length}, shape);
  while (const auto request = session.next()) {  // the only call that waits
    there.download(tokens, stream);
    const auto logits = engine.forward(*request, tokens, columns);
    rows.upload(logits.data(), logits.size(), stream);  // an engine's logits are there already
    const auto mine = session.read_shard(
        unmask::device_logits<float>(rows.data(), request->rows, columns.size()));
    session.supply(exchange(mine));
  }
  there.download(tokens, stream);
}

}  // namespace

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("no CUDA device: not run");
    return 77;
  }
  try {
    std::vector<ncclComm_t> ranks(static_cast<std::size_t>(count));
    example::check(ncclCommInitAll(ranks.data(), count, nullptr), "ncclCommInitAll");
    std::vector<example::allowed_tokens> tokens(ranks.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < count; ++r) {
      const auto k = static_cast<std::size_t>(r);
      threads.emplace_back(
          [&, r, k] {  // an exception here ends the program: the other ranks would wait for ever
            decode_rank(r, ranks[k], count, tokens[k]);
          });
    }
    for (std::thread& t : threads) {
      t.join();
    }
    for (ncclComm_t c : ranks) {
      example::check(ncclCommDestroy(c), "ncclCommDestroy");
    }
    const example::allowed_tokens alone = decode_alone();
    const bool equal =
        std::all_of(tokens.begin(), tokens.end(), [&](const auto& t) { return t == alone; });
    std::printf("%d ranks: %s\n", count, equal ? "equal" : "DIFFERENT");
    return equal ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
