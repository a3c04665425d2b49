// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/part/part.hpp>
#include <unmask/core/plan.hpp>

#include <span>
#include <type_traits>

/// Parts that select the positions that a forward pass computes: a cache selects those that enter
/// the pass, a layer rule those that each layer computes. A position that is not computed keeps its
/// stored values from the engine: keys and values at every layer and, if the rule needs them, the
/// attention and feed-forward outputs.
namespace UNMASK_NAMESPACE {

/// Rows that an engine keeps from one forward pass to the next and passes to a call, one for each
/// position of `positions`; the first is at `data`. The library writes into them.
///
/// Shape: columns are contiguous, `data` is aligned to T, stride >= columns. Owns nothing.
template <element T, memory M>
struct state_view {
  using element_type = T;             ///< Type of a number.
  static constexpr memory space = M;  ///< Memory that the rows are in.

  T* data = nullptr;          ///< First number of the first row.
  range positions;            ///< Positions of the rows.
  index_t columns = 0;        ///< Numbers of a row.
  std::ptrdiff_t stride = 0;  ///< Distance between rows, in elements.

  constexpr state_view() = default;
  /// A view of the rows of positions 0 .. rows - 1 without gaps.
  UNMASK_HD constexpr state_view(T* first, index_t rows, index_t column_count)
      : state_view(first, range{0, rows}, column_count, column_count) {}
  /// Rows of some positions, with a stride in elements.
  UNMASK_HD constexpr state_view(T* first,
                                 range row_positions,
                                 index_t column_count,
                                 std::ptrdiff_t row_stride)
      : data(first)
      , positions(row_positions)
      , columns(column_count)
      , stride(row_stride) {}

  /// The row of a position; `positions` must contain it.
  [[nodiscard]] UNMASK_HD constexpr T* row(index_t position) const {
    return data + (position - positions.first) * stride;
  }
};

template <element T>
using host_state = state_view<T, memory::host>;  ///< Rows in host memory.
template <element T>
using device_state = state_view<T, memory::device>;  ///< Rows in device memory.

/// Ascending indices of rows or positions that a session on a stream keeps in device memory: at
/// most `most`; the host need not know the exact number. For kernels of the engine, in stream
/// order, until the next call that concerns the slot.
struct device_list {
  /// Device memory; nullptr: the entries are first, first + 1, ...
  const index_t* data = nullptr;
  /// Device memory; nullptr: there are exactly `most` entries.
  const index_t* count = nullptr;
  index_t most = 0;   ///< Most entries.
  index_t first = 0;  ///< First entry where `data` is null.

  /// Number of entries, on the device unless `count` is null. At most `most`: if a replayed pass
  /// has more rows than it was captured with, the rest is cut and its step is not decided.
  [[nodiscard]] UNMASK_HD constexpr index_t size() const {
    return count == nullptr || *count > most ? most : *count;
  }
  /// Entry i; on the device, unless `data` is null.
  [[nodiscard]] UNMASK_HD constexpr index_t operator[](index_t i) const {
    return data == nullptr ? first + i : data[i];
  }
};

/// Ascending indices of rows or positions, in the memory of the session.
template <memory M>
using index_list = std::conditional_t<M == memory::host, std::span<const index_t>, device_list>;

/// Rows that a layer rule selected for a layer. Valid until the next call that concerns the slot.
template <class List>
struct basic_layer_choice {
  /// Indices of the selected rows among the rows given to the call, ascending.
  List rows;
  /// Positions of the selected rows, ascending.
  List positions;
};
using layer_choice = basic_layer_choice<std::span<const index_t>>;  ///< A choice in host memory.
/// A choice that a session on a stream keeps on the device.
using device_layer_choice = basic_layer_choice<device_list>;

/// The part of one segment in a hook that the passes of several segments reach together.
template <element T, memory M>
struct layer_hook {
  /// Index in the request.
  std::size_t segment = 0;
  /// The rows that the engine passes, as in layer_pass::at_layer().
  rows_view<T, M> now;
  state_view<T, M> previous;  ///< Rows that the engine stored in the pass before.
  /// Output of at_layer().
  basic_layer_choice<index_list<M>> chosen;
};
template <element T>
using host_layer_hook = layer_hook<T, memory::host>;  ///< A hook of a session on the host.
template <element T>
using device_layer_hook = layer_hook<T, memory::device>;  ///< A hook of a session on a stream.

/// The tensor of a layer that a rule compares with the engine's stored copy.
enum class feature : unsigned char {
  hidden,  ///< the layer's output
  input,   ///< the layer's normalised input
  query,
  key,  ///< before or after rotation, but always the same
  value
};

/// True if a rule that reads `f` is called after the layer, for the layers that follow; false if
/// it is called inside the layer, before attention, for this layer.
[[nodiscard]] constexpr bool hook_follows_layer(feature f) {
  return f == feature::hidden;
}

/// Treatment of a position that a layer does not compute.
enum class skipping : unsigned char {
  /// Dropped for the rest of the pass: no later layer computes it, and it has no logits.
  dropped,
  /// Kept with the attention and feed-forward outputs that the engine stored when the layer last
  /// computed it; the next layer may select it again. It has logits.
  kept
};

/// Constants of a policy's layer rule that an engine needs.
struct layer_rule_info {
  bool has_hooks = false;                ///< There is a rule: at_layer() is called.
  feature reads = feature::hidden;       ///< Tensor that the rule compares.
  skipping skipped = skipping::dropped;  ///< Treatment of positions that a layer does not compute.
};

/// Sums over the columns of a row h and its stored predecessor g.
struct drift_sums {
  float distance_1 = 0.0F;  ///< sum of |h - g|
  float distance_2 = 0.0F;  ///< sum of (h - g)^2
  float product = 0.0F;     ///< sum of h g
  float square = 0.0F;      ///< sum of h^2
  float previous = 0.0F;    ///< sum of g^2
  index_t columns = 0;      ///< Number of columns.
};

/// A set of those sums: the ones that measure() of a rule reads. The others stay 0.
enum class drift_terms : unsigned char {
  none = 0,
  distance_1 = 1,
  distance_2 = 2,
  product = 4,
  square = 8,
  previous = 16
};
/// The union of two sets.
[[nodiscard]] UNMASK_HD constexpr drift_terms operator|(drift_terms a, drift_terms b) {
  return static_cast<drift_terms>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// True if one of the terms of `one` is in the set.
[[nodiscard]] UNMASK_HD constexpr bool contains(drift_terms set, drift_terms one) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

/// The sums that cosine_distance() reads.
inline constexpr drift_terms cosine_terms =
    drift_terms::product | drift_terms::square | drift_terms::previous;

/// Cosine distance 1 - cos(h, g), in [0, 2] up to rounding; 1 if one of the rows is zero. NaN stays
/// NaN.
[[nodiscard]] UNMASK_HD inline float cosine_distance(const drift_sums& d) {
  const float lengths = math::square_root(d.square) * math::square_root(d.previous);
  return lengths == 0.0F ? 1.0F : 1.0F - math::divide(d.product, lengths);
}

/// A layer of a forward pass, as given to a rule.
struct layer_info {
  index_t layer = 0;    ///< Index of the layer.
  index_t layers = 0;   ///< Layers of the model.
  index_t entered = 0;  ///< Number of positions that entered the pass.
  index_t active = 0;   ///< Number of those that reached this layer.
  /// Number of tokens that the last step wrote.
  index_t commits = 0;
  /// Number of positions of the first block that is decided.
  index_t block_length = 0;
  /// Whether every position is computed in this pass: plan::refresh.
  bool refresh = false;
  /// Mean and maximum of measure() over the rows that count; 0 if there are none. The maximum
  /// ignores NaN.
  float mean = 0.0F;
  float largest = 0.0F;  ///< Largest value of measure().
  /// The layer's budget from the rule's allocate(); 0 without that function.
  index_t budget = 0;
};

/// A position that reached a layer, as given to a rule.
struct layer_row {
  /// Position of the row's token.
  index_t position = 0;
  /// Position that the row's logits predict: position + segment::logits_shift.
  index_t target = 0;
  /// The target is masked and decided in this step.
  bool masked = false;
  bool first_masked = false;  ///< The target is the first such position.
  /// The last step wrote the token of the target.
  bool committed = false;
  bool written = false;  ///< The last step wrote the position's own token.
  /// Result of measure() for this row.
  float drift = 0.0F;
};

namespace detail {

template <class P>
struct layer_reduction {
  using type = no_state;
};
template <class P>
  requires requires { typename P::layer_reduction; }
struct layer_reduction<P> {
  using type = typename P::layer_reduction;
};

}  // namespace detail

/// Reduction of rule P over the rows at a layer, computed before any row is selected.
template <class P>
using layer_reduction_of = typename detail::layer_reduction<P>::type;

/// Context of a layer rule: last argument of its functions. `state` is the state of the target if
/// the target is decided in this step, otherwise a start state.
template <class P>
struct layer_context {
  const position_state_of<P>& state;            ///< State of the target.
  const sequence_state_of<P>& sequence;         ///< State of the sequence.
  const layer_reduction_of<P>& step_reduction;  ///< Reduction over the rows at the layer.
  const step_info& at;                          ///< The step.
};

/// Per-layer position selection. At the layers where `hooks(layer, layers)` is true, the
/// `quota(info, context)` rows of highest `importance(row, info, context)` are computed.
///
/// Ties: the lower position. A row of importance +inf is computed in addition to the quota, one of
/// -inf never; NaN ranks highest within the quota, so that a broken row is computed again. If the
/// rule drops positions, each forced block keeps one masked position in addition to the quota when
/// it would keep none, because a commit needs logits. A pass that refreshes computes every row.
///
/// `reads`, `measures`, `skipped` and `stores_all` are constants. `measure(sums)` returns a number
/// from the sums that `measures` names. Optional: `layer_reduction` with `look(row, info,
/// context) -> layer_reduction` and `merge`, reduced in position order, from a start state in each
/// of a fixed number of chunks; `counts(row, info, context) -> bool`, whether a row takes part in
/// mean and maximum; `mandatory(row, info, context) -> bool`, whether a row is computed whatever
/// its importance; it still uses a place of the quota if its importance gives it one;
/// `allocate(means, budgets, layers, context)`, called before a pass with the means of the last
/// one. Passes that refresh are also measured for it.
///
/// The selected rows, or with `stores_all` all, are copied into the engine's stored rows.
template <class P>
concept layer_rule = part<P> && requires(const P& p,
                                         const drift_sums& sums,
                                         const layer_row& row,
                                         const layer_info& info,
                                         const layer_context<P>& context) {
  { P::reads } -> std::convertible_to<feature>;
  { P::measures } -> std::convertible_to<drift_terms>;
  { P::skipped } -> std::convertible_to<skipping>;
  { p.hooks(index_t{}, index_t{}) } -> std::same_as<bool>;
  { p.measure(sums) } -> std::same_as<float>;
  { p.importance(row, info, context) } -> std::same_as<float>;
  { p.quota(info, context) } -> std::same_as<index_t>;
};

/// A layer rule with a reduction over the rows before the selection.
template <class P>
concept looking = layer_rule<P> && requires(const P& p,
                                            const layer_row& row,
                                            const layer_info& info,
                                            const layer_context<P>& context,
                                            layer_reduction_of<P>& sum) {
  typename P::layer_reduction;
  { p.look(row, info, context) } -> std::same_as<typename P::layer_reduction>;
  sum.merge(sum);
};

/// A layer rule that excludes rows from the mean and the maximum.
template <class P>
concept counting =
    layer_rule<P> &&
    requires(
        const P& p, const layer_row& row, const layer_info& info, const layer_context<P>& context) {
      { p.counts(row, info, context) } -> std::same_as<bool>;
    };

/// A layer rule with rows that are computed whatever their importance. Unlike a row of importance
/// +inf, such a row uses a place of the quota if its importance gives it one.
template <class P>
concept mandating =
    layer_rule<P> &&
    requires(
        const P& p, const layer_row& row, const layer_info& info, const layer_context<P>& context) {
      { p.mandatory(row, info, context) } -> std::same_as<bool>;
    };

/// A layer rule that distributes a budget over the layers before each pass. `means[l]` is the mean
/// of layer l in the last pass that measured it, -1 before; the rule writes `budgets[l]`.
template <class P>
concept allocating =
    layer_rule<P> &&
    requires(const P& p, const float* means, index_t* budgets, const layer_context<P>& context) {
      { p.allocate(means, budgets, index_t{}, context) } -> std::same_as<void>;
    };

/// A layer rule with an upper bound on the number of rows that it selects: `most(info, geometry,
/// query)`, for passes without refresh that compute `query`. With it, an engine on a device need
/// not synchronise to learn the number. In `info`, `active` is also an upper bound, and mean and
/// maximum are 0. The bound excludes rows that the library adds to a selection. Without most() the
/// bound is every row.
template <class P>
concept bounding =
    layer_rule<P> &&
    requires(const P& p, const layer_info& info, const sequence_shape& geometry, range query) {
      { p.most(info, geometry, query) } -> std::same_as<index_t>;
    };

/// A layer rule for which every row is stored, computed or not: `stores_all` is the constant true.
template <class P>
concept storing_all =
    layer_rule<P> && requires { requires std::bool_constant<P::stores_all>::value; };

/// A cache: selects the positions that enter the next forward pass. `set_query(sequence, plan,
/// context)` is called after the schedule, narrows plan::query, which starts as the range that the
/// schedule requests as keys, and clears plan::refresh in passes in which layers may skip
/// positions.
///
/// Positions that no pass has computed yet, and positions that are decided, enter in any case.
template <class P>
concept caching =
    part<P> && requires(const P& p, sequence_view& q, plan& n, part_context<P>& context) {
      { p.set_query(q, n, context) } -> std::same_as<void>;
    };

/// A cache that excludes single positions from plan::query: `in_query(row, context) -> bool`,
/// called in passes without refresh, for rows without drift. Positions that are decided enter
/// whatever it returns.
template <class P>
concept picking =
    caching<P> && requires(const P& p, const layer_row& row, const layer_context<P>& context) {
      { p.in_query(row, context) } -> std::same_as<bool>;
    };

/// Drops keys that receive little attention: `evicts(sequence, plan, context) -> eviction`, called
/// after the cache. A pass that selects keys refreshes.
template <class P>
concept evicting =
    part<P> && requires(const P& p, const sequence_view& q, plan& n, part_context<P>& context) {
      { p.evicts(q, n, context) } -> std::same_as<eviction>;
    };

}  // namespace unmask
