// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/any_rows.hpp>
#include <unmask/core/as_state.hpp>
#include <unmask/core/fixed_array.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate_rows.hpp>
#include <unmask/step/layers.hpp>

#include <span>

/// State of a session's passes through an engine's layers.
namespace UNMASK_NAMESPACE {

/// Number of layers of a model of `layers` layers at which a policy calls at_layer(). For each of
/// them the engine stores a row of the feature's width for each position of a sequence and passes
/// it to at_layer(); the session allocates the rest of a layered policy's state,
/// state_bytes<Policy>(capacity) in all.
template <class Policy>
[[nodiscard]] constexpr index_t hooked_layers(const Policy& p, index_t layers) {
  index_t count = 0;
  for (index_t l = 0; l < layers; ++l) {
    count += step::layers::hooks(p, l, layers) ? 1 : 0;
  }
  return count;
}

/// A policy that names the tensor that its layer rule reads (named_policy::layer_reads).
template <class Policy>
concept names_layer_tensor = requires(const Policy& p) { p.layer_reads; };

/// The layer rule of a policy: no hooks if there is none.
template <class Policy>
[[nodiscard]] layer_rule_info layer_rule_of(const Policy& p) {
  layer_rule_info info;
  step::layers::visit_rule(p, [&](const auto& v) {
    info = {true, v.part.reads, v.part.skipped};
    if constexpr (names_layer_tensor<Policy>) {
      info.reads = p.layer_reads;
    }
  });
  return info;
}

namespace detail {

/// The passes of a session whose workspace is given to each call: positions, rows and hooks.
template <class Policy, class Backend>
class session_layers {
 public:
  using list = index_list<Backend::space>;

  explicit session_layers(const session_capacity& capacity)
      : rules_(static_cast<std::size_t>(capacity.sequences))
      , every_position_(Backend::space == memory::host ? static_cast<std::size_t>(capacity.length)
                                                       : 0,
                        [](std::size_t p) { return static_cast<index_t>(p); }) {}

  void start(index_t slot, const Policy& p) {
    rules_[static_cast<std::size_t>(slot)] = layer_rule_of(p);
  }
  [[nodiscard]] const layer_rule_info& rule(index_t slot) const {
    return rules_[static_cast<std::size_t>(slot)];
  }

  [[nodiscard]] list positions(auto& workspace, const segment& s) const {
    if constexpr (Policy::layered) {
      if (workspace.is_layered(s.slot)) {
        return workspace.positions(s.slot);
      }
    }
    return counted(s.query.first, s.query.size());
  }
  [[nodiscard]] list rows(auto& workspace, const segment& s) const {
    if constexpr (Policy::layered) {
      if (workspace.is_layered(s.slot)) {
        return workspace.rows(s.slot);
      }
    }
    return counted(s.rows.first - s.query.first, s.rows.size());
  }
  /// Number of rows of logits that a segment returns: less than segment::rows if positions were
  /// dropped.
  [[nodiscard]] index_t wanted_rows(auto& workspace, const segment& s) const {
    if constexpr (Policy::layered) {
      if (workspace.is_layered(s.slot)) {
        check_order(
            workspace.has_passed(s.slot),
            "logits of a pass in which at_layer() was not called at each layer with a hook");
        return workspace.logits_rows(s.slot);
      }
    }
    return s.rows.size();
  }
  [[nodiscard]] bool hooks(auto& workspace, const segment& s, index_t layer, index_t layers) const {
    const bool is_layered = rule(s.slot).has_hooks;
    check_argument(layer >= 0 && (!is_layered || layer < layers),
                   "layer",
                   layer,
                   "in [0, model_info::layers = ",
                   layers,
                   ")");
    if constexpr (step::layers::has_rule<Policy>) {
      return is_layered && workspace.hooks(s.slot, layer);
    } else {
      return false;
    }
  }

  template <element T>
  void check(auto& workspace,
             const segment& s,
             index_t layer,
             index_t layers,
             const layer_hook<T, Backend::space>& hook) const {
    check_order(hooks(workspace, s, layer, layers),
                "at_layer() at a layer that has no hook: call hooks() first");
    check_order(layer >= workspace.next_hook(s.slot),
                "at_layer() for a layer that the pass has already left");
    check_order(layer == workspace.next_hook(s.slot),
                "at_layer() after a layer with a hook that was not called");
    const index_t present = size_of(positions(workspace, s));
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

 private:
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

  fixed_array<layer_rule_info> rules_;  ///< by slot: layer rule of its sequence
  fixed_array<index_t> every_position_;
};

}  // namespace detail

/// The pass of one segment through the layers. A handle, valid until the segment is read.
template <class Session>
class layer_pass : public layer_rule_info {
 public:
  /// See session::list.
  using list = typename Session::list;

  /// The segment of the pass.
  [[nodiscard]] const segment& about() const { return *segment_; }

  /// Positions that the next layer computes, ascending: initially those that enter the pass.
  [[nodiscard]] list positions() const {
    return session_->layers_.positions(session_->workspace_, *segment_);
  }
  /// Key range of these positions.
  [[nodiscard]] range keys() const { return segment_->keys; }

  /// Which of these keys receive attention, if the policy evicts keys: see key_eviction and
  /// host::key_selector, or device::key_selector.
  [[nodiscard]] eviction evict() const { return segment_->evict; }

  /// Whether at_layer() must be called at a layer of this pass.
  [[nodiscard]] bool hooks(index_t layer) const {
    return session_->layers_.hooks(session_->workspace_, *segment_, layer, session_->model_.layers);
  }

  /// Selects positions at a layer with hooks(layer), in ascending order of layers. Row i of `now`
  /// belongs to positions()[i]; `previous` has the stored rows of this layer, which the call
  /// overwrites.
  ///
  /// Errors: std::logic_error for a layer out of order, std::invalid_argument for a wrong shape.
  template <row_tensor Tensor, element T, memory M>
  basic_layer_choice<list>
  at_layer(index_t layer, const Tensor& now, const state_view<T, M>& previous) {
    const auto rows = as_rows(now);
    static_assert(decltype(rows)::space == Session::space && M == Session::space,
                  "hidden states and stored rows must live in the backend's memory space");
    const auto index = static_cast<std::size_t>(segment_ - session_->segments().data());
    layer_hook<T, M> hook{index, rows, previous, {}};
    session_->at_layer(layer, std::span(&hook, 1));
    return hook.chosen;
  }
  /// Overload for rows whose element type is known only at run time. Errors: also
  /// std::invalid_argument for rows in the wrong memory space or of different types.
  basic_layer_choice<list> at_layer(index_t layer, const any_rows& now, const any_state& previous) {
    basic_layer_choice<list> chosen;
    detail::check_kind<Session::space>(previous, now);
    detail::with_element_type<Session::space>(
        now,
        "memory space of the rows at the layer",
        [&]<element T, memory M>(const rows_view<T, M>& rows) {
          chosen = at_layer(layer, rows, detail::typed<T, M>(previous));
        });
    return chosen;
  }

  /// Rows whose logits to return, in this order: ascending indices into positions() after the
  /// last layer.
  [[nodiscard]] list rows() const {
    return session_->layers_.rows(session_->workspace_, *segment_);
  }

 private:
  friend Session;
  layer_pass(Session& s, const segment& about)
      : layer_rule_info(s.layers_.rule(about.slot))
      , session_(&s)
      , segment_(&about) {}

  Session* session_;
  const segment* segment_;
};

}  // namespace unmask
