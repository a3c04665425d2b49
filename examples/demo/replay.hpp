// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "demo/engine.hpp"
#include "demo/options.hpp"

namespace demo {

/// Decodes each sequence of options::replay again, with its tokens in the same steps, and prints
/// how far the log-probabilities of the model are from those of the trace. Returns whether the
/// tokens are the same. Throws std::invalid_argument for what is not a trace of this model's
/// vocabulary.
bool replay(engine& model, const options& o);

}  // namespace demo
