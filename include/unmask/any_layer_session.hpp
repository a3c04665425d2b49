// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_session.hpp>
#include <unmask/layer_session.hpp>

#include <memory>
#include <span>

namespace UNMASK_NAMESPACE {

/// Rows that an engine lends for a call, whose element type is known at run time only.
struct any_state {
  void* data = nullptr;                   ///< First number of the first row.
  element_kind kind = element_kind::f32;  ///< Type of a number.
  memory space = memory::host;            ///< Memory that the rows are in.
  range positions;                        ///< Positions of the rows.
  index_t columns = 0;                    ///< Numbers of a row.
  /// Distance between rows, in elements.
  std::ptrdiff_t stride = 0;

  any_state() = default;
  /// A view of any rows that an engine lends.
  template <element T, memory M>
  any_state(const state_view<T, M>& v)  // NOLINT(google-explicit-constructor): a view of any state
      : data(v.data)
      , kind(any_rows(rows_view<T, M>()).kind)
      , space(M)
      , positions(v.positions)
      , columns(v.columns)
      , stride(v.stride) {}
};

/// A layer_session whose policy is not part of its type: an engine that computes single positions
/// of its layers compiles its forward pass once and decodes every policy with it, chosen by name.
///
/// Used in the same loop as layer_session. Cost: one virtual call for each call. Its lists are in
/// memory M: any_layer_session for host sessions, any_device_layer_session for those on a stream.
template <memory M>
class basic_any_layer_session : public any_session {
 public:
  static constexpr memory space = M;  ///< Memory that logits and lists are in.
  using list = index_list<M>;  ///< Rows or positions, ascending: in host memory, or on the device.

  /// The constants of layer_session, as values.
  struct layer_rule_info {
    bool has_hooks = false;                ///< The policy has a layer rule: at_layer() is called.
    feature reads = feature::hidden;       ///< As layer_session::reads.
    skipping skipped = skipping::dropped;  ///< As layer_session::skipped.
  };
  /// The constants of the session's policy. Where each sequence has a policy of its own, the pass
  /// of a segment has those of its sequence.
  [[nodiscard]] virtual layer_rule_info rule_info() const = 0;

  /// The pass of one segment through the layers. A handle, valid until its segment is read.
  class layer_pass : public layer_rule_info {
   public:
    /// The segment of the pass.
    [[nodiscard]] const segment& about() const { return session_->about(segment_); }
    /// The positions that the next layer gets, ascending.
    [[nodiscard]] list positions() const { return session_->positions(segment_); }
    /// The positions that they attend to.
    [[nodiscard]] range keys() const { return about().keys; }
    /// Which keys outside the blocks are attended to.
    [[nodiscard]] eviction evict() const { return about().evict; }
    /// True if at_layer() has to be called for a layer.
    [[nodiscard]] bool hooks(index_t layer) const { return session_->hooks(segment_, layer); }
    /// Errors: as layer_session::layer_pass::at_layer; std::invalid_argument for rows in the wrong
    /// memory space or of different types.
    basic_layer_choice<list>
    at_layer(index_t layer, const any_rows& now, const any_state& previous) {
      return session_->at_layer(segment_, layer, now, previous);
    }
    /// Indices into positions() of the rows whose logits to return.
    [[nodiscard]] list rows() const { return session_->rows(segment_); }

   private:
    friend basic_any_layer_session;
    explicit layer_pass(const layer_rule_info& info)
        : layer_rule_info(info) {}

    basic_any_layer_session* session_ = nullptr;
    std::size_t segment_ = 0;
  };

  /// Begins the pass of segment `index`. Errors: as layer_session::pass.
  [[nodiscard]] layer_pass pass(std::size_t index) {
    layer_pass p(rule_of(about(index)));
    p.session_ = this;
    p.segment_ = index;
    return p;
  }
  /// Runs the hooks of several segments together, as layer_session::at_layer().
  virtual void at_layer(index_t layer, std::span<layer_hook<float, M>> hooks) = 0;
  /// The same for bfloat16.
  virtual void at_layer(index_t layer, std::span<layer_hook<bfloat16, M>> hooks) = 0;
  /// The same for float16.
  virtual void at_layer(index_t layer, std::span<layer_hook<float16, M>> hooks) = 0;

 protected:
  basic_any_layer_session() = default;

 private:
  [[nodiscard]] virtual layer_rule_info rule_of(const segment&) const { return rule_info(); }
  [[nodiscard]] virtual const segment& about(std::size_t index) = 0;
  [[nodiscard]] virtual list positions(std::size_t index) = 0;
  [[nodiscard]] virtual bool hooks(std::size_t index, index_t layer) = 0;
  virtual basic_layer_choice<list>
  at_layer(std::size_t index, index_t layer, const any_rows& now, const any_state& previous) = 0;
  [[nodiscard]] virtual list rows(std::size_t index) = 0;
};

/// Layer sessions on the host and, below, on a stream.
using any_layer_session = basic_any_layer_session<memory::host>;
/// The same for sessions on a stream.
using any_device_layer_session = basic_any_layer_session<memory::device>;

/// The basic_any_layer_session of one policy type. `Base` is for named_session_of.
template <class Policy,
          class Backend = on_host,
          class Base = basic_any_layer_session<Backend::space>>
class any_layer_session_of
    : public any_session_of<Policy, Backend, Base, layer_session<Policy, Backend>> {
  using typed = layer_session<Policy, Backend>;
  using erased = basic_any_layer_session<Backend::space>;
  using base = any_session_of<Policy, Backend, Base, typed>;
  using typename erased::layer_pass;
  using typename erased::list;

 public:
  using base::base;

  [[nodiscard]] typename erased::layer_rule_info rule_info() const override {
    if constexpr (typed::has_hooks) {
      const auto& rule = base::rules().template part_at<step::layers::rule_index<Policy>>();
      if constexpr (requires { rule.selects(); }) {  // of several rules at run time, or of none
        return rule.selects() ? typename erased::layer_rule_info{true, rule.reads, rule.skipped}
                              : typename erased::layer_rule_info{};
      } else {
        return {true, rule.reads, rule.skipped};
      }
    } else {
      return {};
    }
  }

  void at_layer(index_t layer, std::span<layer_hook<float, Backend::space>> hooks) override {
    base::typed_session().at_layer(layer, hooks);
  }
  void at_layer(index_t layer, std::span<layer_hook<bfloat16, Backend::space>> hooks) override {
    base::typed_session().at_layer(layer, hooks);
  }
  void at_layer(index_t layer, std::span<layer_hook<float16, Backend::space>> hooks) override {
    base::typed_session().at_layer(layer, hooks);
  }

 private:
  [[nodiscard]] auto typed_pass(std::size_t index) { return base::typed_session().pass(index); }

  [[nodiscard]] const segment& about(std::size_t index) override {
    return typed_pass(index).about();
  }
  [[nodiscard]] list positions(std::size_t index) override { return typed_pass(index).positions(); }
  [[nodiscard]] bool hooks(std::size_t index, index_t layer) override {
    return typed_pass(index).hooks(layer);
  }
  basic_layer_choice<list> at_layer(std::size_t index,
                                    index_t layer,
                                    const any_rows& now,
                                    const any_state& previous) override {
    check_argument(previous.space == Backend::space,
                   "memory space of the stored rows",
                   detail::name_of(previous.space),
                   "that of the session's backend");
    check_argument(previous.kind == now.kind,
                   "element type of the stored rows",
                   detail::name_of(previous.kind),
                   "that of the rows at the layer, ",
                   detail::name_of(now.kind));
    return base::with_type(now,
                           "memory space of the rows at the layer",
                           [&]<element T, memory M>(const rows_view<T, M>& rows) {
                             const state_view<T, M> stored(static_cast<T*>(previous.data),
                                                           previous.positions,
                                                           previous.columns,
                                                           previous.stride);
                             return typed_pass(index).at_layer(layer, rows, stored);
                           });
  }
  [[nodiscard]] list rows(std::size_t index) override { return typed_pass(index).rows(); }
};

/// Makes an any_layer_session of a policy value, or on a stream an any_device_layer_session.
template <class Policy, class Backend = on_host>
[[nodiscard]] std::unique_ptr<basic_any_layer_session<Backend::space>>
make_any_layer_session(const Policy& policy,
                       const model_info& model,
                       const session_capacity& capacity,
                       const Backend& where = {}) {
  return std::make_unique<any_layer_session_of<Policy, Backend>>(policy, model, capacity, where);
}

}  // namespace unmask
