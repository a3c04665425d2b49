// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/branches.hpp>
#include <unmask/core/part/commit.hpp>
#include <unmask/core/part/layer.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/part/rewriting.hpp>
#include <unmask/core/part/schedule.hpp>

#include <string_view>

/// The traits of a part, and of the parts of a policy together, as plain values.
namespace UNMASK_NAMESPACE {

namespace detail {

template <class P>
inline constexpr index_t tracks_of = 0;
template <tracking P>
inline constexpr index_t tracks_of<P> = P::tracks;

// Its address tells the costs of parts apart.
template <class P>
inline constexpr char cost_of = 0;

template <class P>
inline constexpr index_t probes_of = 0;
template <probing P>
inline constexpr index_t probes_of<P> = P::probes;

// True if a part declares `static constexpr bool <name> = true`; a knob of that name does not
// count.
#define UNMASK_DECLARES(name)                                                                      \
  template <class P>                                                                               \
  concept declares_##name = requires { requires std::bool_constant<P::name>::value; };

UNMASK_DECLARES(calls_back)
UNMASK_DECLARES(counts_steps)
UNMASK_DECLARES(decides_one_block)
UNMASK_DECLARES(ranks_by_reduction)
UNMASK_DECLARES(reduces_committed)
UNMASK_DECLARES(follows_confidence)
UNMASK_DECLARES(follows_text)
UNMASK_DECLARES(precedes_memory)
UNMASK_DECLARES(renormalises)
UNMASK_DECLARES(remasks_current)
UNMASK_DECLARES(tracks_current)
UNMASK_DECLARES(plans_positions)
#undef UNMASK_DECLARES

template <class P>
concept rewriting = token_editing<P> || remasking<P> || remasking_least<P> || verifying<P> ||
                    reconsidering<P> || block_rewriting<P>;
template <class P>
concept remembering = !std::is_same_v<position_state_of<P>, no_state>;

}  // namespace detail

/// The traits of one part.
struct part_traits {
#define UNMASK_HOOK(name, has, ...) bool name = false;
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>
  index_t tracks = 0;          ///< tracked tokens at a position
  index_t probes = 0;          ///< probed tokens at a position
  bool has_cost = false;       ///< has a cost of candidates, or its operands have
  const void* cost = nullptr;  ///< with a cost: tells it from the costs of other parts

  /// Whether its decisions depend on more than one step.
  [[nodiscard]] constexpr bool looks_beyond_a_step() const {
    return remembers || counts_steps || compares || looks_ahead || drafts || beams || rewrites ||
           renoises || skips || picks;
  }
};

/// Traits of a part type.
template <class P>
inline constexpr part_traits traits_of{
#define UNMASK_HOOK(name, has, ...) .name = has,
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>
    .tracks = detail::tracks_of<P>,
    .probes = detail::probes_of<P>,
    .has_cost = detail::costing<P>,
    .cost = &detail::cost_of<P>};

/// Traits that any of the parts has.
template <class... P>
[[nodiscard]] constexpr part_traits any_traits_of() {
  part_traits all;
#define UNMASK_HOOK(name, has, ...) all.name = (traits_of<P>.name || ... || false);
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>
  return all;
}

namespace detail {

// Most tokens that are tracked at one position: those of the parts (`tracks`), the committed token
// and the tokens that branches place.
[[nodiscard]] constexpr index_t
most_tracked(index_t tracks, bool current, bool reads_sequence, bool has_drafts, bool looks_ahead) {
  const index_t placed = has_drafts ? max_placed : looks_ahead ? max_branches : 0;
  return tracks + (current ? 1 : 0) + (reads_sequence ? placed : 0);
}

}  // namespace detail

/// Combined traits of several parts: of each trait, the number of parts that have it. add() them in
/// written order.
struct composition {
#define UNMASK_HOOK(name, has, ...) index_t name = 0;
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>
  index_t tracks = 0;
  index_t probes = 0;
  const void* cost = nullptr;
  bool mixes_costs = false;   ///< parts with different costs
  bool after_memory = false;  ///< a part with precedes_memory is after one that stores tokens

  constexpr void add(const part_traits& p) {
    after_memory = after_memory || (p.precedes_memory && stores_tokens > 0);
    mixes_costs = mixes_costs || (p.has_cost && cost != nullptr && p.cost != cost);
    cost = p.has_cost ? p.cost : cost;
#define UNMASK_HOOK(name, has, ...) name += p.name ? 1 : 0;
#define UNMASK_TRAIT UNMASK_HOOK
#include <unmask/core/part/hooks.inl>
    tracks += p.tracks;
    probes += p.probes;
  }

  [[nodiscard]] constexpr bool has_branches() const { return looks_ahead + drafts + beams > 0; }
  [[nodiscard]] constexpr bool is_layered() const { return skips + picks > 0; }
  [[nodiscard]] constexpr bool by_confidence() const { return ranks == ranks_by_confidence; }
  /// Most tokens that are tracked at one position.
  [[nodiscard]] constexpr index_t tracked_tokens() const {
    return detail::most_tracked(
        tracks, tracks_current > 0, reads_sequence > 0, drafts + beams > 0, looks_ahead > 0);
  }
};

/// Combined traits of the parts.
template <class... Part>
[[nodiscard]] constexpr composition composition_of() {
  composition all;
  (all.add(traits_of<Part>), ...);
  return all;
}

}  // namespace unmask

#include <unmask/core/part/composition_rules.hpp>
