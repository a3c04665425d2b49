/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef UNMASK_EXAMPLE_LAYERS_H
#define UNMASK_EXAMPLE_LAYERS_H

#include <unmask/c_layers.h>

#include "bindings/c/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Decodes the positions [prompt_length, length) in blocks with a policy, computing in each layer
   what the policy selects. `forwards` receives the number of passes. After an error
   unmask_last_error() has its message. Policies with lookahead are refused with
   UNMASK_UNSUPPORTED: this engine stores one sequence. */
unmask_status decode_in_layers(engine* e,
                               const char* policy,
                               int32_t* tokens,
                               int32_t prompt_length,
                               int32_t length,
                               int32_t block_length,
                               int32_t* forwards);

#ifdef __cplusplus
}
#endif

#endif
