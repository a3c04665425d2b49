// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decisions of a real (if tiny) model on a device: its logits are computed on the host and
// copied there, everything after that happens on a stream. The same decode on the host must give
// the same text. The tests execute it from its PTX.

#include <unmask/cuda.cuh>

#include <cstdio>
#include <span>
#include <type_traits>
#include <vector>

#include "cuda/device.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace {

constexpr unmask::policy careful{
    unmask::by_margin{}, unmask::threshold{0.9F}, unmask::stop_at_eos{}};
using careful_policy = std::remove_const_t<decltype(careful)>;
constexpr int answer = 40;

}  // namespace

// [workspace]
// Required once in a program, in one .cu file, for each policy whose sessions run on a stream.
template class unmask::on_stream::workspace<careful_policy>;
// [/workspace]

int main(int argc, char** argv) {
  if (!example::find_device()) {
    return example::skipped;
  }
  const example::gguf_file file(argc > 1 ? argv[1]
                                         : UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf");
  const example::char_tokenizer text(file);
  example::llada_model engine(file);
  const std::vector<std::int32_t> canvas =
      text.canvas("Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?", answer);
  const int length = static_cast<int>(canvas.size());
  const int vocab = static_cast<int>(text.vocabulary());
  const unmask::model_info model{
      .vocab = vocab, .mask_token = text.mask(), .eos_token = text.end()};
  const unmask::sequence_shape geometry{
      .prompt_length = length - answer, .length = length, .block_length = 20};

  std::vector<std::int32_t> expected = canvas;
  unmask::session host(careful, model, expected, geometry);
  while (const auto request = host.next()) {
    const auto [first, last] = request->segments[0].rows;
    const auto logits = engine.forward(expected, std::size_t(first), std::size_t(last));
    host.supply(unmask::host_logits<float>(logits.data, request->rows, vocab));
  }

  // [session]
  const example::stream stream;
  const example::device_array<unmask::token_id> tokens(canvas.size());
  const example::device_array<float> rows(std::size_t(answer) * std::size_t(vocab));
  tokens.upload(canvas.data(), canvas.size(), stream);
  unmask::session<careful_policy, unmask::on_stream> session(
      careful, model, {tokens.data(), length}, geometry, {stream.get()});
  std::vector<std::int32_t> seen = canvas;
  while (const auto request = session.next()) {  // the only call that waits
    tokens.download(seen, stream);               // because this engine runs on the host
    const auto [first, last] = request->segments[0].rows;
    const auto logits = engine.forward(seen, std::size_t(first), std::size_t(last));
    rows.upload(logits.data, logits.rows * logits.vocabulary, stream);
    session.supply(unmask::device_logits<float>(rows.data(), request->rows, vocab));
    stream.wait();  // the engine is about to overwrite what is being copied
  }
  // [/session]
  tokens.download(seen, stream);
  std::puts(text.decode(std::span(seen).last(answer)).c_str());
  std::printf("%d tokens in %d forward passes; the host says %d in %d\n",
              session.report().committed,
              session.report().forwards,
              host.report().committed,
              host.report().forwards);
  if (seen != expected) {
    std::puts("FAILED: the host decodes another text");
    return 1;
  }
  return 0;
}
