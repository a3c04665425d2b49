// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stands in for the parts of libllama that the samplers call, so that llama-sampler.cpp links
// without the rest of the library. The graph functions stay undefined: nothing here calls them.
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ggml.h>
#include <llama-impl.h>
#include <llama.h>
#include <log.h>

extern "C" {
std::int64_t ggml_time_us(void) {
  return 0;
}
void ggml_abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::fputc('\n', stderr);
  std::exit(1);
}
llama_sampler_chain_params llama_sampler_chain_default_params(void) {
  return {.no_perf = true};
}
}

time_meas::time_meas(std::int64_t& sum, bool)
    : t_start_us(-1)
    , t_acc(sum) {}
time_meas::~time_meas() = default;

void common_log_set_verbosity_thold(int) {}
int common_log_get_verbosity_thold() {
  return -1;
}  // logs nothing
