// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/backend.hpp>
#include <unmask/named/named_policy.hpp>
#include <unmask/named/read_policy.hpp>
#include <unmask/named/registered_part.hpp>
#include <unmask/session.hpp>

/// Policies composed by name, at run time: for command lines, configuration files and bindings.
///
///     const unmask::named_policy policy = unmask::read_policy("trace_credit + threshold(0.9)");
///     unmask::named_session session(policy, model, capacity);
///     session.start(0, policy, {tokens, length}, shape);
///
/// Decisions equal the decisions of the policy composed of the same parts in C++, and each sequence
/// of a session may have another policy. With UNMASK_COMPILED the session comes from a library
/// (compiled.hpp); without it, include this header only where sessions are made, because it takes
/// long to compile.
///
/// On a stream: session<named_policy, on_stream>, with `template class
/// unmask::on_stream::workspace<unmask::named_policy>;` in one .cu file that includes
/// <unmask/cuda.cuh>.
namespace UNMASK_NAMESPACE {

/// A session of policies by name on the host.
using named_session = session<named_policy>;

#if defined(UNMASK_COMPILED)
#  define UNMASK_NAMED_SESSION(prefix, type)                                                       \
    prefix template void on_host::workspace<named_policy>::enqueue<type>(                          \
        const segment&, const rows_view<type, memory::host>&, const row_modifiers<type>&);         \
    prefix template void on_host::workspace<named_policy>::at_layer<type>(                         \
        std::span<const segment>, index_t, std::span<layer_hook<type, memory::host>>);
extern template class on_host::workspace<named_policy>;
UNMASK_NAMED_SESSION(extern, float)
UNMASK_NAMED_SESSION(extern, bfloat16)
UNMASK_NAMED_SESSION(extern, float16)
extern template class session<named_policy>;
#endif

}  // namespace unmask
