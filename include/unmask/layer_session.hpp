// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/layer.hpp>
#include <unmask/session.hpp>
#include <unmask/step/layer_choice.hpp>

#include <span>

namespace UNMASK_NAMESPACE {

/// What a layer rule chose among the rows it was shown. Valid until the next call about the slot.
struct layer_choice {
  /// Indices of the chosen rows among those shown, ascending.
  std::span<const index_t> rows;
  /// The positions they stand at, ascending.
  std::span<const index_t> positions;
};

/// Layers of a model of `layers` at which a policy asks. For each of them the engine stores a row
/// of the feature's width for each position of a sequence, and lends them to at_layer(); the rest
/// of a layered policy's state is the session's, state_bytes<Policy>(limits) in all.
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

/// A session for an engine that runs single positions of a layer and keeps K/V: it can decode every
/// policy, those that skip positions included.
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
///       hidden = layer[l](hidden, pass.positions(), attending to pass.attend());  // writes K/V
///       if (pass.hooks(l)) {
///         hidden = gather(hidden, pass.at_layer(l, hidden, previous[l]).rows);
///       }
///     }
///     logits = head(gather(hidden, pass.rows()));
///
/// `reads` and `skipped`, constants of the session, say which tensor at_layer() is about, whether
/// it is asked inside the layer or behind it, and what becomes of the positions it does not choose.
/// An engine that supports only some of them says so with a static_assert.
///
/// The engine owns hidden states, K/V and the stored rows `previous`, one of a slot's position at
/// each hooked layer, for as long as the sequence runs. Nothing has to be cleared when a slot is
/// reused: the first pass of a sequence computes and stores everything it later compares with.
template <class Policy, class Backend = on_host>
class layer_session : public session<Policy, Backend, true> {
  using base = session<Policy, Backend, true>;

  template <class P, bool HasRule>
  struct rule_constants {
    static constexpr feature reads = feature::hidden;
    static constexpr skipping skipped = skipping::leaves;
  };
  template <class P>
  struct rule_constants<P, true> {
    static constexpr feature reads = step::layers::rule_of<P>::reads;
    static constexpr skipping skipped = step::layers::rule_of<P>::skipped;
  };

 public:
  /// Whether at_layer() is ever called.
  static constexpr bool has_hooks = step::layers::has_rule<Policy>;
  /// What it is about; meaningless without hooks.
  static constexpr feature reads = rule_constants<Policy, has_hooks>::reads;
  static constexpr skipping skipped = rule_constants<Policy, has_hooks>::skipped;

  layer_session(const model_info& model, const limits& capacity, const Backend& where = {})
      : base(model, capacity, where) {
    count_positions(capacity.length);
  }
  layer_session(const Policy& policy,
                const model_info& model,
                tokens_view<Backend::space> tokens,
                const layout& geometry,
                const Backend& where = {})
      : base(policy, model, tokens, geometry, where) {
    count_positions(geometry.length);
  }

  /// The pass of one segment through the layers. A handle, valid until its segment is read.
  class layer_pass {
   public:
    static constexpr bool has_hooks = layer_session::has_hooks;
    static constexpr feature reads = layer_session::reads;
    static constexpr skipping skipped = layer_session::skipped;

    [[nodiscard]] const segment& about() const { return *segment_; }

    /// The positions that the next layer gets, ascending: at first those that enter the pass.
    [[nodiscard]] std::span<const index_t> positions() const {
      return session_->positions_of(*segment_);
    }
    /// They attend to these positions.
    [[nodiscard]] range attend() const { return segment_->attend; }

    /// Which of them, where the policy evicts keys: see key_eviction and host::key_selector.
    [[nodiscard]] eviction evict() const { return segment_->evict; }

    /// Whether at_layer() has to be called for a layer, in every pass.
    [[nodiscard]] bool hooks(index_t layer) const { return session_->hooks_at(*segment_, layer); }

    /// Chooses positions at a layer where hooks(layer), layers ascending. Row i of `now` is that of
    /// positions()[i]; `previous` lends the rows stored of this layer, and is written.
    ///
    /// Throws std::logic_error for a layer out of order, std::invalid_argument for a wrong shape.
    template <row_tensor Tensor, element T, memory M>
    layer_choice at_layer(index_t layer, const Tensor& now, const state_view<T, M>& previous) {
      return session_->choose_at(*segment_, layer, as_rows(now), previous);
    }

    /// The rows whose logits are wanted, in this order: indices into positions() behind the last
    /// layer, ascending.
    [[nodiscard]] std::span<const index_t> rows() const { return session_->rows_of(*segment_); }

   private:
    friend layer_session;
    layer_pass(layer_session& s, const segment& about)
        : session_(&s)
        , segment_(&about) {}

    layer_session* session_;
    const segment* segment_;
  };

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
  static_assert(!Policy::layered || Backend::space == memory::host,
                "the CUDA backend cannot skip positions at layers yet");

  void count_positions(index_t length) {
    for (index_t p = 0; p < length; ++p) {
      every_position_.push_back(p);
    }
  }

  [[nodiscard]] static std::span<const index_t> span_of(const index_t* first, index_t count) {
    return {first, static_cast<std::size_t>(count)};
  }

  [[nodiscard]] std::span<const index_t> positions_of(const segment& s) {
    if constexpr (Policy::layered) {
      const step::layer_memory& l = base::workspace().layers(s.slot).layers;
      return span_of(l.present, l.state->present);
    } else {
      return span_of(every_position_.data() + s.feed.first, s.feed.size());
    }
  }

  [[nodiscard]] std::span<const index_t> rows_of(const segment& s) {
    if constexpr (Policy::layered) {
      const step::layer_memory& l = base::workspace().layers(s.slot).layers;
      return span_of(l.rows, l.state->rows);
    } else {
      return span_of(every_position_.data() + (s.rows.first - s.feed.first), s.rows.size());
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
      return step::hooks(base::workspace().layers(s.slot), layer);
    } else {
      return false;
    }
  }

  template <element T, memory M, memory N>
  layer_choice choose_at(const segment& s,
                         index_t layer,
                         const rows_view<T, M>& now,
                         const state_view<T, N>& previous) {
    static_assert(M == Backend::space && N == Backend::space,
                  "hidden states and stored rows must live in the backend's memory space");
    if constexpr (has_hooks) {
      const auto& slot = base::workspace().layers(s.slot);
      check_order(base::waiting(), "at_layer() without a request: call next() first");
      check_order(hooks_at(s, layer), "at_layer() at a layer that has no hook: ask hooks() first");
      check_order(layer >= slot.layers.state->next,
                  "at_layer() for a layer that the pass is already behind");
      const auto present = static_cast<index_t>(positions_of(s).size());
      check_argument(now.rows == present,
                     "rows at the layer",
                     now.rows,
                     "those of the positions that reach it, ",
                     present);
      check_argument(previous.columns == now.columns,
                     "columns of the stored rows",
                     previous.columns,
                     "those of the rows at the layer, ",
                     now.columns);
      base::workspace().at_layer(s.slot, layer, now, previous);
      return {span_of(slot.layers.chosen_rows, slot.layers.state->chosen),
              span_of(slot.layers.chosen, slot.layers.state->chosen)};
    } else {
      check_order(false, "at_layer() of a policy that has no hook: ask hooks() first");
      return {};
    }
  }

  std::vector<index_t> every_position_;
};

}  // namespace unmask
