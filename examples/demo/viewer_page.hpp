// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>

#include "demo/decode.hpp"
#include "demo/options.hpp"

namespace demo {

/// Decodes the problems with each of one or two policies and writes options::html: the viewer, with
/// the traces in it. Throws std::runtime_error naming the file that cannot be read or written.
void write_viewer_page(std::span<const chosen_policy> policies,
                       engine& model,
                       std::span<const problem> problems,
                       const options& o);

}  // namespace demo
