// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/trace/replay.hpp>

#include <memory>
#include <stdexcept>
#include <tuple>

namespace UNMASK_NAMESPACE {

namespace detail {

// Reads the statistics that every policy by name reads, whose kernels are compiled already.
struct named_replay : replay {
  static constexpr statistics required = named_statistics | replay::required;
};

// The replay of a composition: its parts that transform logits, keep tokens, cache and, with
// `Layered`, skip at layers.
template <bool Keeps, bool Layered>
[[nodiscard]] auto replay_policy(const named_parts& p, const replay_view& trace) {
  const auto parts =
      std::tuple_cat(std::tuple{named_replay{{trace}}, p.transform},
                     part_if<Keeps>(p.keep),
                     part_if<!Keeps>(any_logits_processors<true>{p.logits_processors}),
                     part_if<!Layered>(p.cache),
                     part_if<Layered>(any_picking_cache{p.cache}),
                     part_if<Layered>(p.layers));
  return std::apply([](const auto&... part) { return policy{part...}; }, parts);
}

inline void check_replay(const named_parts& parts) {
  if (parts.has.renoises) {
    throw std::invalid_argument("a policy with a canvas cannot be replayed");
  }
  if (parts.has.keeps && parts.has.tracks) {
    throw std::invalid_argument(
        "a policy that truncates and edits tokens is not compiled for replay by name: compose "
        "replay{} in C++");
  }
}

}  // namespace detail

/// Makes a session that replays a trace with the parts of its policy that edit logits and cache;
/// the trace takes the place of those that select tokens. `parts` are read_policy(trace::policy).
///
/// Errors: std::invalid_argument for a canvas, for truncation together with edits of tokens, and
/// for a layer rule, which needs make_replay_layer_session.
template <class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_replay_session(const named_parts& parts,
                                                               const replay_view& trace,
                                                               const model_info& model,
                                                               const session_capacity& capacity,
                                                               const Backend& where = {}) {
  detail::check_replay(parts);
  detail::refuse_layers(parts);
  return parts.has.keeps
             ? make_any_session(
                   detail::replay_policy<true, false>(parts, trace), model, capacity, where)
             : make_any_session(
                   detail::replay_policy<false, false>(parts, trace), model, capacity, where);
}

/// The same for engines with hooks, which replay every policy but those.
template <class Backend = on_host>
[[nodiscard]] std::unique_ptr<basic_any_layer_session<Backend::space>>
make_replay_layer_session(const named_parts& parts,
                          const replay_view& trace,
                          const model_info& model,
                          const session_capacity& capacity,
                          const Backend& where = {}) {
  detail::check_replay(parts);
  const auto made = [&]<bool Keeps, bool Layered>() {
    return make_any_layer_session(
        detail::replay_policy<Keeps, Layered>(parts, trace), model, capacity, where);
  };
  if (!parts.has.layered) {
    return parts.has.keeps ? made.template operator()<true, false>()
                           : made.template operator()<false, false>();
  }
  return parts.has.keeps ? made.template operator()<true, true>()
                         : made.template operator()<false, true>();
}

#if defined(UNMASK_COMPILED)
// The same on the host, defined in the library.
[[nodiscard]] std::unique_ptr<any_layer_session>
make_replay_layer_session(const named_parts& parts,
                          const replay_view& trace,
                          const model_info& model,
                          const session_capacity& capacity,
                          const on_host& where = {});
[[nodiscard]] inline std::unique_ptr<any_session>
make_replay_session(const named_parts& parts,
                    const replay_view& trace,
                    const model_info& model,
                    const session_capacity& capacity,
                    const on_host& where = {}) {
  detail::check_replay(parts);
  detail::refuse_layers(parts);
  return make_replay_layer_session(parts, trace, model, capacity, where);
}
#endif

}  // namespace unmask
