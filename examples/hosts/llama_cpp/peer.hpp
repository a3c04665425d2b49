// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// llama.cpp's own diffusion sampler, to compare with: diffusion_generate() of its
/// examples/diffusion, compiled from its sources as they are, but for the three functions by which
/// it runs the model. A `peer_engine` computes those.

#include <chrono>
#include <diffusion.h>
#include <llama.h>
#include <span>
#include <vector>

namespace example {

/// Stands in for libllama in the sampler: runs the model.
class peer_engine {
 public:
  virtual ~peer_engine() = default;
  virtual int process(llama_context* context, llama_batch_ext* batch) {
    return llama_process(context, LLAMA_PROCESS_TYPE_DECODE, batch);
  }
  virtual float* logits(llama_context* context) { return llama_get_logits(context); }
  virtual int vocabulary(const llama_vocab* vocab) { return llama_vocab_n_tokens(vocab); }
};

/// Result of one call of diffusion_generate.
struct peer_result {
  std::vector<llama_token> tokens;  ///< params.max_length of them, the prompt first
  int forwards = 0;
  double forward_seconds = 0.0;  ///< inside the engine
  double sampler_seconds = 0.0;  ///< from the logits of a step to the beginning of the next
};

/// Calls diffusion_generate with an engine of ours. One call at a time in the whole program.
peer_result peer_generate(peer_engine& engine,
                          llama_context* context,
                          std::span<const llama_token> prompt,
                          const diffusion_params& params);

}  // namespace example
