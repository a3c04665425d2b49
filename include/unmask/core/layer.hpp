// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part.hpp>
#include <unmask/core/plan.hpp>

#include <span>
#include <type_traits>

/// Parts that decide which positions a forward pass computes: a cache chooses what enters it, a
/// layer rule who is computed at which layer. What is not computed keeps what the engine stored for
/// it: keys and values at every layer, and the attention and feed-forward outputs where a rule
/// wants that.
namespace UNMASK_NAMESPACE {

/// Rows that an engine keeps from one forward pass to the next and lends for a call: one for each
/// position of `positions`, the first at `data`. The library writes into them.
///
/// Columns are contiguous, `data` is aligned to T, stride >= columns. Owns nothing.
template <element T, memory M>
struct state_view {
  using element_type = T;
  static constexpr memory space = M;

  T* data = nullptr;
  range positions;
  index_t columns = 0;
  std::ptrdiff_t stride = 0;

  constexpr state_view() = default;
  /// Rows of positions 0 .. rows - 1 without gaps.
  UNMASK_HD constexpr state_view(T* first, index_t rows, index_t column_count)
      : state_view(first, range{0, rows}, column_count, column_count) {}
  UNMASK_HD constexpr state_view(T* first,
                                 range row_positions,
                                 index_t column_count,
                                 std::ptrdiff_t row_stride)
      : data(first)
      , positions(row_positions)
      , columns(column_count)
      , stride(row_stride) {}

  /// The row of a position that `positions` contains.
  [[nodiscard]] UNMASK_HD constexpr T* row(index_t position) const {
    return data + (position - positions.first) * stride;
  }
};

template <element T>
using host_state = state_view<T, memory::host>;
template <element T>
using device_state = state_view<T, memory::device>;

/// Rows or positions, ascending, that a session on a stream keeps on the device, whose number the
/// host need not know: at most `most`. For the engine's kernels, in the order of the stream, until
/// the next call about the slot.
struct device_list {
  /// Device memory; null: the entries are first, first + 1, ...
  const index_t* data = nullptr;
  /// Device memory; null: there are exactly `most`.
  const index_t* count = nullptr;
  index_t most = 0;
  index_t first = 0;

  /// On the device, unless `count` is null. Never more than `most`, also where a replayed pass has
  /// more rows than it was captured with; its step is not decided then.
  [[nodiscard]] UNMASK_HD constexpr index_t size() const {
    return count == nullptr || *count > most ? most : *count;
  }
  [[nodiscard]] UNMASK_HD constexpr index_t operator[](index_t i) const {
    return data == nullptr ? first + i : data[i];
  }
};

/// Rows or positions, ascending, where a session of that memory keeps them.
template <memory M>
using index_list = std::conditional_t<M == memory::host, std::span<const index_t>, device_list>;

/// What a layer rule chose among the rows it was shown. Valid until the next call about the slot.
template <class List>
struct basic_layer_choice {
  /// Indices of the chosen rows among those shown, ascending.
  List rows;
  /// The positions they stand at, ascending.
  List positions;
};
using layer_choice = basic_layer_choice<std::span<const index_t>>;
using device_layer_choice = basic_layer_choice<device_list>;

/// One segment's share of a hook that the passes of several segments reach together.
template <element T, memory M>
struct layer_hook {
  /// Index in the request.
  std::size_t segment = 0;
  /// What the engine lends, as to layer_pass::at_layer().
  rows_view<T, M> now;
  state_view<T, M> previous;
  /// Written by at_layer().
  basic_layer_choice<index_list<M>> chosen;
};
template <element T>
using host_layer_hook = layer_hook<T, memory::host>;
template <element T>
using device_layer_hook = layer_hook<T, memory::device>;

/// The tensor of a layer that a rule compares with what the engine stored of it.
enum class feature : unsigned char {
  hidden,  ///< the layer's output
  input,   ///< the layer's normalised input
  query,
  key,  ///< before or after rotation, as long as it is always the same
  value
};

/// True if a rule that reads `f` is asked behind the layer, about the layers that follow; otherwise
/// it is asked inside the layer, before attention, about this layer.
[[nodiscard]] constexpr bool asked_behind(feature f) {
  return f == feature::hidden;
}

/// What becomes of a position that a layer does not compute.
enum class skipping : unsigned char {
  /// It is gone for the rest of the pass: no layer behind computes it, and it has no logits.
  leaves,
  /// It goes on with the attention and feed-forward outputs that the engine stored when the layer
  /// last computed it, and the next layer looks at it again. It has logits.
  stays
};

/// Sums over the columns of a row h and its stored predecessor g.
struct drift_sums {
  float distance_1 = 0.0F;  ///< sum of |h - g|
  float distance_2 = 0.0F;  ///< sum of (h - g)^2
  float product = 0.0F;     ///< sum of h g
  float square = 0.0F;      ///< sum of h^2
  float previous = 0.0F;    ///< sum of g^2
  index_t columns = 0;
};

/// A set of those sums: what a rule's measure() reads. The others stay 0.
enum class drift_terms : unsigned char {
  none = 0,
  distance_1 = 1,
  distance_2 = 2,
  product = 4,
  square = 8,
  previous = 16
};
[[nodiscard]] UNMASK_HD constexpr drift_terms operator|(drift_terms a, drift_terms b) {
  return static_cast<drift_terms>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
[[nodiscard]] UNMASK_HD constexpr bool contains(drift_terms set, drift_terms one) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

/// What the sums of the cosine are.
inline constexpr drift_terms cosine_terms =
    drift_terms::product | drift_terms::square | drift_terms::previous;

/// 1 - cos(h, g), in [0, 2] up to rounding; 1 if one of them is zero. NaN stays NaN.
[[nodiscard]] UNMASK_HD inline float cosine_distance(const drift_sums& d) {
  const float lengths = math::square_root(d.square) * math::square_root(d.previous);
  return lengths == 0.0F ? 1.0F : 1.0F - math::divide(d.product, lengths);
}

/// A layer of a forward pass, as a rule sees it.
struct layer_info {
  index_t layer = 0;
  index_t layers = 0;
  /// Positions that entered the pass, and those of them that reached this layer.
  index_t fed = 0;
  index_t present = 0;
  /// Tokens that the last step wrote.
  index_t commits = 0;
  /// Positions of the first block that is decided about.
  index_t block_length = 0;
  /// Whether everything is computed in this pass: plan::refresh.
  bool refresh = false;
  /// Mean and maximum of measure() over the rows that count; 0 without any. A NaN is left out of
  /// the maximum.
  float mean = 0.0F;
  float largest = 0.0F;
  /// What the rule's allocate() gave this layer; 0 without one.
  index_t budget = 0;
};

/// A position that reached a layer, as a rule sees it.
struct layer_row {
  /// Where its token stands.
  index_t position = 0;
  /// The position that its logits are about: position + model_info::row_shift.
  index_t target = 0;
  /// The target is open and decided about in this step; it is the first one of all.
  bool open = false;
  bool first_open = false;
  /// The last step wrote the target's token; the position's own.
  bool committed = false;
  bool written = false;
  /// What measure() gave for it.
  float drift = 0.0F;
};

namespace detail {

template <class P>
struct layer_tally {
  using type = no_state;
};
template <class P>
  requires requires {
    typename P::layer_tally;
  }
struct layer_tally<P> {
  using type = typename P::layer_tally;
};

}  // namespace detail

/// What rule P folds over the rows at a layer before any is chosen.
template <class P>
using layer_tally_of = typename detail::layer_tally<P>::type;

/// What a layer rule's functions get as their last argument. `state` is the target's where it is
/// decided about in this step, and a start state elsewhere.
template <class P>
struct layer_scope {
  const position_state_of<P>& state;
  const sequence_state_of<P>& sequence;
  const layer_tally_of<P>& tally;
  const step_info& at;
};

/// Chooses which positions a layer computes, at the layers where `hooks(layer, layers)`: the
/// `quota(info, own)` rows of highest `importance(row, info, own)`.
///
/// Equals go to the lower position. An importance of +inf is computed beside the quota, one of -inf
/// never; NaN ranks as the highest within the quota, so that a broken row is computed again. Where
/// skipped positions leave, each forced block keeps one open position beside the quota if it would
/// keep none: what must commit needs logits. In a pass that refreshes, everything is computed.
///
/// `measures` is a constant; so are `reads`, `skipped` and `stores_all`, or they are members where
/// the rule is a value of several (any_layer_rule). `measure(sums)` makes a number of the sums that
/// `measures` names. Optional: `layer_tally` with `look(row, info, own) -> layer_tally` and
/// `merge`, folded in position order, from a start state in each of a fixed number of chunks;
/// `counts(row, info, own) -> bool`, whether a row takes part in mean and maximum; `mandatory(row,
/// info, own) -> bool`, whether a row is computed whatever its importance, while it still takes a
/// place of the quota if its importance has one; `allocate(means, budgets, layers, own)`, called
/// before a pass with the means of the last one, which passes that refresh measure, too, unless a
/// member `allocates` is false; `stores_all`, see below.
///
/// Of the rows at the layer, those chosen are copied into the engine's stored rows, all of them if
/// `stores_all`: "before" is the last time that a row was copied.
template <class P>
concept layer_rule = part<P> && requires(const P& p,
                                         const drift_sums& sums,
                                         const layer_row& row,
                                         const layer_info& info,
                                         const layer_scope<P>& own) {
  { P::reads } -> std::convertible_to<feature>;
  { P::measures } -> std::convertible_to<drift_terms>;
  { P::skipped } -> std::convertible_to<skipping>;
  { p.hooks(index_t{}, index_t{}) } -> std::same_as<bool>;
  { p.measure(sums) } -> std::same_as<float>;
  { p.importance(row, info, own) } -> std::same_as<float>;
  { p.quota(info, own) } -> std::same_as<index_t>;
};

/// A layer rule that folds something over the rows first.
template <class P>
concept looking = layer_rule<P> && requires(const P& p,
                                            const layer_row& row,
                                            const layer_info& info,
                                            const layer_scope<P>& own,
                                            layer_tally_of<P>& sum) {
  typename P::layer_tally;
  { p.look(row, info, own) } -> std::same_as<typename P::layer_tally>;
  sum.merge(sum);
};

/// A layer rule that leaves rows out of the mean and the maximum.
template <class P>
concept counting = layer_rule<P> &&
    requires(const P& p, const layer_row& row, const layer_info& info, const layer_scope<P>& own) {
  { p.counts(row, info, own) } -> std::same_as<bool>;
};

/// A layer rule that computes some rows whatever their importance. Unlike a row of importance +inf,
/// such a row is within the quota where its importance is.
template <class P>
concept mandating = layer_rule<P> &&
    requires(const P& p, const layer_row& row, const layer_info& info, const layer_scope<P>& own) {
  { p.mandatory(row, info, own) } -> std::same_as<bool>;
};

/// A layer rule that shares a budget out among the layers before each pass. `means[l]` is the mean
/// of layer l in the last pass that measured it, -1 before; it writes `budgets[l]`.
template <class P>
concept allocating = layer_rule<P> &&
    requires(const P& p, const float* means, index_t* budgets, const layer_scope<P>& own) {
  { p.allocate(means, budgets, index_t{}, own) } -> std::same_as<void>;
};

/// A layer rule that says beforehand how many rows it chooses at the most: `most(info, geometry,
/// feed)`, of passes that feed `feed` without refresh, for an engine on a device that does not wait
/// to learn the number. In `info`, `present` is such a bound, too, and mean and maximum are 0. What
/// the library adds to a choice is not the rule's to count; without most() it may be every row.
template <class P>
concept bounding = layer_rule<P> &&
    requires(const P& p, const layer_info& info, const layout& geometry, range feed) {
  { p.most(info, geometry, feed) } -> std::same_as<index_t>;
};

/// A layer rule whose stored rows are always the last ones, computed or not: `stores_all` is a
/// constant, true.
template <class P>
concept storing_all = layer_rule<P> && requires {
  requires std::bool_constant<P::stores_all>::value;
};

namespace detail {

/// True if what is a constant of other rules is a member of this one: a value of several rules.
template <class P>
concept layer_rule_value = layer_rule<P> && !requires {
  typename std::bool_constant<P::skipped == skipping::leaves>;
};

/// Whether positions that a rule does not choose are gone for the rest of the pass.
template <layer_rule P>
[[nodiscard]] UNMASK_HD constexpr bool rule_leaves(const P& rule) {
  return rule.skipped == skipping::leaves;
}

/// Whether all rows shown to a rule are stored, instead of those that it chooses.
template <layer_rule P>
[[nodiscard]] UNMASK_HD constexpr bool rule_stores_all(const P& rule) {
  if constexpr (requires { rule.stores_all; }) {
    return rule.stores_all;
  } else {
    static_cast<void>(rule);
    return false;
  }
}

/// Whether a rule wants the means of passes that refresh, too.
template <layer_rule P>
[[nodiscard]] UNMASK_HD constexpr bool rule_allocates(const P& rule) {
  if constexpr (requires { rule.allocates; }) {
    return rule.allocates;
  } else {
    static_cast<void>(rule);
    return allocating<P>;
  }
}

}  // namespace detail

/// A cache: chooses what enters the next forward pass. `feed(sequence, plan, own)`, asked after the
/// schedule, narrows plan::feed, which holds what the schedule wants attended to, and clears
/// plan::refresh in passes in which layers may skip.
///
/// Whatever it says, positions that no pass has computed yet are fed, and so are those decided
/// about.
template <class P>
concept caching = part<P> && requires(const P& p, sequence_view& q, plan& n, scope<P>& own) {
  { p.feed(q, n, own) } -> std::same_as<void>;
};

/// A cache that leaves single positions out of plan::feed: `feeds(row, own) -> bool`, asked in
/// passes without refresh about rows without drift. Positions decided about are fed whatever it
/// says.
template <class P>
concept picking = caching<P> &&
    requires(const P& p, const layer_row& row, const layer_scope<P>& own) {
  { p.feeds(row, own) } -> std::same_as<bool>;
};

/// Drops keys that little is attended to: `evicts(sequence, plan, own) -> eviction`, asked after
/// the cache. A pass that chooses refreshes.
template <class P>
concept evicting = part<P> && requires(const P& p, const sequence_view& q, plan& n, scope<P>& own) {
  { p.evicts(q, n, own) } -> std::same_as<eviction>;
};

}  // namespace unmask
