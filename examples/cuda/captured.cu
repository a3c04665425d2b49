// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decode whose passes are captured: a graph has the forward pass and the step, and is replayed
// without the host. The model is a toy on the device. The tests execute it from its PTX.

#include <unmask/cuda.cuh>

#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/device.hpp"

namespace {

constexpr int length = 40, block = 20, vocab = 128, mask = '_';

// Logits of the positions first, first + 1, ...: a row for each block, a column for each thread.
// Sure of every fifth letter, and of letters next to known ones.
__global__ void forward(const char* answer, const int* tokens, int first, float* logits) {
  const int p = first + int(blockIdx.x);
  const bool left = p > 0 && tokens[p - 1] != mask;
  const bool right = p + 1 < length && tokens[p + 1] != mask;
  const bool sure = p % 5 == 0 || left || right;
  const bool best = int(threadIdx.x) == answer[p];
  logits[blockIdx.x * vocab + threadIdx.x] = best ? (sure ? 9.0F : 3.0F) : 0.0F;
}

constexpr unmask::policy fast{unmask::by_confidence{}, unmask::threshold{0.9F}};
using fast_policy = std::remove_const_t<decltype(fast)>;

}  // namespace

template class unmask::on_stream::workspace<fast_policy>;

int main() {
  if (!example::find_device()) {
    return example::skipped;
  }
  const example::stream stream;
  const example::device_array<unmask::token_id> tokens(length);
  const example::device_array<float> logits(block * vocab);
  const example::device_array<char> answer(length);
  answer.upload("commit what is certain, then look again.", length, stream);
  const unmask::model_info model{.vocab = vocab, .mask_token = mask};
  const unmask::sequence_shape shape{.length = length, .block_length = block};
  // [capture]
  unmask::session<fast_policy, unmask::on_stream> session(
      fast, model, {tokens.data(), length}, shape, {stream.get()});
  while (const auto request = session.next()) {  // waits; the rows of one block
    const auto [first, last] = request->segments[0].rows;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t step = nullptr;
    // In this mode a call that allocates or waits, in any thread, spoils the capture.
    example::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "begin");
    forward<<<unsigned(last - first), vocab, 0, stream.get()>>>(
        answer.data(), tokens.data(), first, logits.data());
    session.supply(unmask::device_logits<float>(logits.data(), request->rows, vocab));
    example::check(cudaStreamEndCapture(stream.get(), &graph), "end");
    example::check(cudaGraphInstantiate(&step, graph, 0), "instantiate");
    // Each pass commits a token at least. Replays after the block's last pass have no effect.
    for (int i = first; i < last && !session.finished(); ++i) {
      example::check(cudaGraphLaunch(step, stream.get()), "launch");
    }
    stream.wait();  // before the graph is destroyed
    example::check(cudaGraphExecDestroy(step), "destroy");
    example::check(cudaGraphDestroy(graph), "destroy");
  }
  // [/capture]
  std::vector<unmask::token_id> text(length);
  tokens.download(text, stream);
  std::puts(std::string(text.begin(), text.end()).c_str());
  const unmask::sequence_report& report = session.report();
  std::printf("%d tokens in %d forward passes\n", report.committed, report.forwards);
  return report.end == unmask::ending::complete ? 0 : 1;
}
