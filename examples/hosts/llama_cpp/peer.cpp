// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hosts/llama_cpp/peer.hpp"

#include <log.h>

namespace {

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

/// The one call of diffusion_generate that is running.
struct {
  example::peer_engine* engine = nullptr;
  example::peer_result* result = nullptr;
  diffusion_params params;  // as the caller gave them
  bool sampling = false;    // whether there are logits, since:
  clock_type::time_point sampling_from;

  void stop_sampling() {
    result->sampler_seconds += sampling ? seconds_since(sampling_from) : 0.0;
    sampling = false;
  }
} running;

}  // namespace

// The names that CMakeLists.txt gives the three functions in diffusion.cpp.
extern "C" {
int32_t peer_process(llama_context* context, llama_process_type, llama_batch_ext* batch) {
  const auto start = clock_type::now();
  const int status = running.engine->process(context, batch);
  running.result->forward_seconds += seconds_since(start);
  ++running.result->forwards;
  return status;
}
float* peer_get_logits(llama_context* context) {
  const auto start = clock_type::now();  // waits for the forward on a GPU
  float* const logits = running.engine->logits(context);
  running.result->forward_seconds += seconds_since(start);
  running.sampling = true;
  running.sampling_from = clock_type::now();
  return logits;
}
int32_t peer_vocab_n_tokens(const llama_vocab* vocab) {
  return running.engine->vocabulary(vocab);
}
}

namespace example {

peer_result peer_generate(peer_engine& engine,
                          llama_context* context,
                          std::span<const llama_token> prompt,
                          const diffusion_params& params) {
  common_log_set_verbosity_thold(LOG_LEVEL_ERROR);  // it logs a line a call
  peer_result r;
  r.tokens.resize(static_cast<std::size_t>(params.max_length));
  running = {
      .engine = &engine, .result = &r, .params = params, .sampling = false, .sampling_from = {}};
  diffusion_params tracked = params;
  tracked.step_callback =
      [](int32_t step, int32_t steps, const llama_token* tokens, int32_t count, void* data) {
        running.stop_sampling();
        const auto own = running.params.step_callback;
        return own == nullptr || own(step, steps, tokens, count, data);
      };
  int generated = 0;
  diffusion_generate(
      context, prompt.data(), r.tokens.data(), static_cast<int>(prompt.size()), tracked, generated);
  running.stop_sampling();
  return r;
}

}  // namespace example
