// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/any_session.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/named/compose_named.hpp>
#include <unmask/named/named_session.hpp>
#include <unmask/named/read_policy.hpp>

#include <algorithm>

/// Policies composed by name, at run time: for command lines, configuration files and bindings.
///
///     const auto session = unmask::make_any_session("trace_credit + threshold(0.9)", model, capacity);
///
/// Decisions are exactly those of the policy composed of the same parts in C++. Few types are
/// compiled: within a type the parts are selected at run time, and a type is selected by the
/// abilities that cost time or memory. With UNMASK_COMPILED the common types come from a library
/// (compiled.hpp); without it, include this header only where sessions are made, because it takes
/// long to compile.
///
/// Sessions on a stream are made by the same functions in a .cu file that includes
/// <unmask/cuda.cuh>. Each type of `Compositions` compiles kernels of three element types, so list
/// only those needed.
namespace UNMASK_NAMESPACE {

namespace detail {

[[nodiscard]] inline session_capacity with_branches(const named_parts& parts,
                                                    session_capacity capacity) {
  capacity.branches = std::max(capacity.branches, parts.has.branches ? parts.look.branches : 0);
  return capacity;
}

inline void refuse_layers(const named_parts& parts) {
  if (parts.has.layered) {
    throw std::invalid_argument(
        "this policy decides which positions each layer of the model computes, so the engine must "
        "call at_layer() there: use make_any_layer_session instead of make_any_session");
  }
}

}  // namespace detail

/// Makes a session that decodes with the parts of a composition.
///
/// session_capacity::branches is raised to the number of lookahead branches. Errors: as session's
/// constructor, and std::invalid_argument for abilities that no type of `Compositions` combines,
/// and for a layer rule, which needs make_any_layer_session.
template <class Compositions = common_compositions, class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const named_parts& parts,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const Backend& where = {}) {
  detail::refuse_layers(parts);
  return with_policy<Compositions>(
      parts, model, [&](const auto& p) -> std::unique_ptr<any_session> {
        return make_any_session(p, model, detail::with_branches(parts, capacity), where);
      });
}

/// Makes a session for engines with hooks, which decode every policy.
template <class Compositions = common_layer_compositions, class Backend = on_host>
[[nodiscard]] std::unique_ptr<basic_named_session<Backend::space>>
make_any_layer_session(const named_parts& parts,
                       const model_info& model,
                       const session_capacity& capacity,
                       const Backend& where = {}) {
  using session_pointer = std::unique_ptr<basic_named_session<Backend::space>>;
  return detail::with_type(Compositions{}, parts.has, [&](auto type) -> session_pointer {
    constexpr abilities A = decltype(type)::value;
    return std::make_unique<named_session_of<A, Backend>>(
        parts, model, detail::with_branches(parts, capacity), where);
  });
}

#if defined(UNMASK_COMPILED)
// The same for the common types on the host, defined in the library.
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const named_parts& parts,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const on_host& where = {});
[[nodiscard]] std::unique_ptr<named_session>
make_any_layer_session(const named_parts& parts,
                       const model_info& model,
                       const session_capacity& capacity,
                       const on_host& where = {});
#endif

/// Makes a session from the text of a policy. Errors: also those of read_policy.
template <std::convertible_to<std::string_view> Text, class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const Text& text,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const Backend& where = {}) {
  return make_any_session(read_policy(text), model, capacity, where);
}

}  // namespace unmask
