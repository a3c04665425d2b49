// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/trace.hpp>

#include <memory>
#include <span>
#include <string>

#include "demo/decode.hpp"
#include "demo/options.hpp"
#include "demo/summary.hpp"

namespace demo {

/// Lets the engine keep up to so many bytes of passes for the policies that have them in common;
/// none while the parts of the policy reuse keys and values or skip positions.
void share_passes(engine& model, std::size_t bytes, const unmask::named_policy& parts);

/// A session of this policy for these problems. A policy that learns from a first sequence gets the
/// first of them; `profile`, if given, what it learned. With `trace` it reports candidates. The
/// library itself checks the knobs.
std::unique_ptr<unmask::named_session> session_of(const chosen_policy& policy,
                                                  engine& model,
                                                  std::span<const problem> problems,
                                                  const options& o,
                                                  index_t batch,
                                                  bool trace = false,
                                                  std::string* profile = nullptr);

/// Decodes the problems, task by task, and adds up what the policy got right and what it cost. What
/// a policy learns from the first problem of a task holds for that task; the decode that it learns
/// from is not counted, and the problem is decoded again with the others.
summary measure(const chosen_policy& policy,
                engine& model,
                std::span<const problem> problems,
                const options& o);

/// Decodes the problems together and gives the lines of a trace to `sink`. Returns false if it
/// refused one.
bool record(const chosen_policy& policy,
            engine& model,
            std::span<const problem> problems,
            const options& o,
            unmask::trace_sink sink);

/// Decodes the problems together and writes the steps as a trace to options::trace. Throws
/// std::runtime_error if the file does not take it.
void write_trace(const chosen_policy& policy,
                 engine& model,
                 std::span<const problem> problems,
                 const options& o);

}  // namespace demo
