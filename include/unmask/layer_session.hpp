// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/layer.hpp>
#include <unmask/session.hpp>
#include <unmask/step/layers.hpp>

#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// Number of layers of a model of `layers` layers at which a policy calls at_layer(). For each of
/// them the engine stores a row of the feature's width for each position of a sequence and lends it
/// to at_layer(); the session allocates the rest of a layered policy's state,
/// state_bytes<Policy>(capacity) in all.
template <class Policy>
[[nodiscard]] constexpr index_t hooked_layers(const Policy& p, index_t layers) {
  index_t count = 0;
  if constexpr (step::layers::has_rule<Policy>) {
    for (index_t l = 0; l < layers; ++l) {
      count += p.template part_at<step::layers::rule_index<Policy>>().hooks(l, layers) ? 1 : 0;
    }
  }
  return count;
}

/// A session for an engine that can compute single positions of a layer and keeps K/V: it decodes
/// every policy, including those that skip positions.
///
///     while (auto request = session.next()) {
///       for (std::size_t i = 0; i < request->segments.size(); ++i) {
///         auto pass = session.pass(i);
///         session.read(i, engine.forward(pass));
///       }
///       session.decide();
///     }
///
/// and inside the engine, for one segment:
///
///     hidden = embed(pass.positions());
///     for (l = 0; l < layers; ++l) {
///       hidden = layer[l](hidden, pass.positions(), attending to pass.keys());  // writes K/V
///       if (pass.hooks(l)) {
///         hidden = gather(hidden, pass.at_layer(l, hidden, previous[l]).rows);
///       }
///     }
///     logits = head(gather(hidden, pass.rows()));
///
/// The constants `reads` and `skipped` of the session say which tensor at_layer() compares, whether
/// it is called inside the layer or behind it, and whether positions that it does not select are
/// dropped or kept. An engine that supports only some of these needs a static_assert.
///
/// On a stream the lists are device_list: in device memory, for the engine's kernels, with a number
/// of entries known to the device only. at_layer() enqueues and never synchronises. The host knows
/// `most`, an upper bound: launch kernels for that many rows; those behind the end of the list are
/// ignored. `most` is exact before the first hook and in passes that refresh. Behind a hook that
/// drops positions (early_skip) it is the rule's quota and one row for each forced block; behind
/// one that keeps them (cache_budget, similarity_refresh) it is the budget or the share and the
/// rows that are always computed (cache_budget: a window for each token that the last step
/// committed). The logits given to read() have rows().most rows.
///
/// The engine owns hidden states, K/V and the stored rows `previous`, one for each position of a
/// slot and hooked layer, as long as the sequence runs. Nothing has to be cleared when a slot is
/// reused: the first pass of a sequence computes and stores every row that later passes compare.
template <class Policy, class Backend = on_host>
class layer_session : public session<Policy, Backend, true> {
  using base = session<Policy, Backend, true>;

  template <class P, bool HasRule>
  struct rule_constants {
    static constexpr feature reads = feature::hidden;
    static constexpr skipping skipped = skipping::dropped;
  };
  template <class P>
    requires(!detail::layer_rule_value<step::layers::rule_of<P>>)
  struct rule_constants<P, true> {
    static constexpr feature reads = step::layers::rule_of<P>::reads;
    static constexpr skipping skipped = step::layers::rule_of<P>::skipped;
  };

 public:
  /// Ascending indices of rows or positions, in host or device memory.
  using list = index_list<Backend::space>;

  /// True if the policy has a layer rule: at_layer() is then called.
  static constexpr bool has_hooks = step::layers::has_rule<Policy>;
  /// Tensor that the rule compares. Meaningless without hooks, and for any_layer_rule, whose tensor
  /// any_layer_session returns at run time.
  static constexpr feature reads = rule_constants<Policy, has_hooks>::reads;
  /// Treatment of positions that a layer does not compute.
  static constexpr skipping skipped = rule_constants<Policy, has_hooks>::skipped;

  /// Errors as the constructors of session.
  layer_session(const model_info& model,
                const session_capacity& capacity,
                const Backend& where = {})
      : base(model, capacity, where) {
    count_positions(capacity.length);
  }
  /// A session of one slot, started with `tokens`.
  layer_session(const Policy& policy,
                const model_info& model,
                tokens_view<Backend::space> tokens,
                const sequence_shape& geometry,
                const Backend& where = {})
      : base(policy, model, tokens, geometry, where) {
    count_positions(geometry.length);
  }

  /// The pass of one segment through the layers. A handle, valid until the segment is read.
  class layer_pass {
   public:
    static constexpr bool has_hooks = layer_session::has_hooks;  ///< As that of the session.
    static constexpr feature reads = layer_session::reads;       ///< As that of the session.
    static constexpr skipping skipped = layer_session::skipped;  ///< As that of the session.

    /// The segment of the pass.
    [[nodiscard]] const segment& about() const { return *segment_; }

    /// Positions that the next layer computes, ascending: initially those that enter the pass.
    [[nodiscard]] list positions() const { return session_->positions_of(*segment_); }
    /// Key range of these positions.
    [[nodiscard]] range keys() const { return segment_->keys; }

    /// Which of these keys receive attention, if the policy evicts keys: see key_eviction and
    /// host::key_selector, or device::key_selector.
    [[nodiscard]] eviction evict() const { return segment_->evict; }

    /// Whether at_layer() must be called at a layer of this pass.
    [[nodiscard]] bool hooks(index_t layer) const { return session_->hooks_at(*segment_, layer); }

    /// Selects positions at a layer with hooks(layer), in ascending order of layers. Row i of `now`
    /// is that of positions()[i]; `previous` lends the stored rows of this layer, which the call
    /// overwrites.
    ///
    /// Errors: std::logic_error for a layer out of order, std::invalid_argument for a wrong shape.
    template <row_tensor Tensor, element T, memory M>
    basic_layer_choice<list>
    at_layer(index_t layer, const Tensor& now, const state_view<T, M>& previous) {
      const auto rows = as_rows(now);
      static_assert(decltype(rows)::space == Backend::space && M == Backend::space,
                    "hidden states and stored rows must live in the backend's memory space");
      layer_hook<T, M> hook{session_->index_of(*segment_), rows, previous, {}};
      session_->at_layer(layer, std::span(&hook, 1));
      return hook.chosen;
    }

    /// Rows whose logits to return, in this order: ascending indices into positions() behind the
    /// last layer.
    [[nodiscard]] list rows() const { return session_->rows_of(*segment_); }

   private:
    friend layer_session;
    layer_pass(layer_session& s, const segment& about)
        : session_(&s)
        , segment_(&about) {}

    layer_session* session_;
    const segment* segment_;
  };

  /// layer_pass::at_layer() of several segments at once, for an engine that computes them together.
  /// On a stream: one or two launches, depending on the rule, for each 16 segments. Segments
  /// ascending; errors in any of them are thrown before anything is selected.
  template <element T>
  void at_layer(index_t layer, std::span<layer_hook<T, Backend::space>> hooks) {
    check_order(has_hooks, "at_layer() of a policy that has no hook: call hooks() first");
    check_order(base::waiting(), "at_layer() without a request: call next() first");
    if constexpr (has_hooks) {
      for (std::size_t i = 0; i < hooks.size(); ++i) {
        check_argument(i == 0 || hooks[i].segment > hooks[i - 1].segment,
                       "index of the segment",
                       hooks[i].segment,
                       "larger than that of the hook before it: sort hooks by segment");
        check(*pass(hooks[i].segment).segment_, layer, hooks[i]);
      }
      if (!hooks.empty()) {
        base::was_hooked();
      }
      base::workspace().at_layer(base::segments(), layer, hooks);
    }
  }

  /// Begins the pass of segment `index` of the request.
  [[nodiscard]] layer_pass pass(std::size_t index) {
    check_order(base::waiting(), "pass() without a request: call next() first");
    check_argument(index < base::segments().size(),
                   "index of the segment",
                   index,
                   "less than the number of segments, ",
                   base::segments().size());
    return layer_pass{*this, base::segments()[index]};
  }

 private:
  void count_positions(index_t length) {
    for (index_t p = 0; p < length && Backend::space == memory::host; ++p) {
      every_position_.push_back(p);
    }
  }

  // The consecutive numbers from `first` on.
  [[nodiscard]] list counted(index_t first, index_t count) const {
    if constexpr (Backend::space == memory::host) {
      return {every_position_.data() + first, static_cast<std::size_t>(count)};
    } else {
      return {nullptr, nullptr, count, first};
    }
  }

  [[nodiscard]] static index_t size_of(const list& l) {
    if constexpr (Backend::space == memory::host) {
      return static_cast<index_t>(l.size());
    } else {
      return l.most;
    }
  }

  [[nodiscard]] list positions_of(const segment& s) {
    if constexpr (Policy::layered) {
      return base::workspace().positions(s.slot);
    } else {
      return counted(s.query.first, s.query.size());
    }
  }

  [[nodiscard]] list rows_of(const segment& s) {
    if constexpr (Policy::layered) {
      return base::workspace().rows(s.slot);
    } else {
      return counted(s.rows.first - s.query.first, s.rows.size());
    }
  }

  [[nodiscard]] bool hooks_at(const segment& s, index_t layer) {
    check_argument(layer >= 0 && (!Policy::layered || layer < base::model().layers),
                   "layer",
                   layer,
                   "in [0, model_info::layers = ",
                   base::model().layers,
                   ")");
    if constexpr (has_hooks) {
      return base::workspace().hooks(s.slot, layer);
    } else {
      return false;
    }
  }

  [[nodiscard]] std::size_t index_of(const segment& s) {
    return static_cast<std::size_t>(&s - base::segments().data());
  }

  template <element T>
  void check(const segment& s, index_t layer, const layer_hook<T, Backend::space>& hook) {
    check_order(hooks_at(s, layer), "at_layer() at a layer that has no hook: call hooks() first");
    check_order(layer >= base::workspace().next_hook(s.slot),
                "at_layer() for a layer that the pass is already behind");
    check_order(layer == base::workspace().next_hook(s.slot),
                "at_layer() behind a layer with a hook that was not called");
    const index_t present = size_of(positions_of(s));
    check_argument(hook.now.rows == present,
                   "rows at the layer",
                   hook.now.rows,
                   "those of the positions that reach it, ",
                   present);
    validate(hook.now, 1, "", "the rows at the layer");
    check_argument(hook.previous.columns == hook.now.columns,
                   "columns of the stored rows",
                   hook.previous.columns,
                   "those of the rows at the layer, ",
                   hook.now.columns);
    const range stored = hook.previous.positions;
    check_argument(stored.first >= 0 && stored.first <= stored.last,
                   "first position of the stored rows",
                   stored.first,
                   "in [0, the last = ",
                   stored.last,
                   "]");
    validate(rows_view<T, Backend::space>(
                 hook.previous.data, stored.size(), hook.previous.columns, hook.previous.stride),
             1,
             "",
             "the stored rows");
  }

  std::vector<index_t> every_position_;
};

}  // namespace unmask
