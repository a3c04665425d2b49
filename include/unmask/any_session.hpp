// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/session.hpp>

#include <memory>

namespace UNMASK_NAMESPACE {

/// The element type of logits, as a value.
enum class element_kind : unsigned char { f32, bf16, f16 };

/// Rows of logits whose element type is known at run time only.
struct any_rows {
  const void* data = nullptr;             ///< First number of the first row.
  element_kind kind = element_kind::f32;  ///< Type of a number.
  memory space = memory::host;            ///< Memory that the rows are in.
  index_t rows = 0;                       ///< Number of rows.
  index_t columns = 0;                    ///< Numbers of a row that are read.
  /// Distance between rows, in elements.
  std::ptrdiff_t stride = 0;

  any_rows() = default;
  /// A view of any tensor that a session accepts.
  template <row_tensor Tensor>
  any_rows(const Tensor& tensor)  // NOLINT(google-explicit-constructor): a view of any tensor
      : any_rows(from(as_rows(tensor))) {}

 private:
  template <element T, memory M>
  [[nodiscard]] static any_rows from(const rows_view<T, M>& v) {
    any_rows r;
    r.data = v.data;
    r.kind = std::same_as<T, float>      ? element_kind::f32
             : std::same_as<T, bfloat16> ? element_kind::bf16
                                         : element_kind::f16;
    r.space = M;
    r.rows = v.rows;
    r.columns = v.columns;
    r.stride = v.stride;
    return r;
  }
};

/// Per-row inputs, as row_modifiers; `unconditional` has the element type of the logits.
struct any_modifiers {
  const std::uint32_t* allowed = nullptr;  ///< As row_modifiers::allowed.
  std::ptrdiff_t allowed_stride = 0;       ///< As row_modifiers::allowed_stride, in words.
  const void* unconditional = nullptr;     ///< As row_modifiers::unconditional.
  std::ptrdiff_t unconditional_stride =
      0;                   ///< As row_modifiers::unconditional_stride, in elements.
  float cfg_scale = 0.0F;  ///< As row_modifiers::cfg_scale.
};

/// A session whose policy is not part of its type, for programs that choose a policy by name. Cost:
/// one virtual call for each call; the step itself is compiled as in `session`.
class any_session {
 public:
  virtual ~any_session() = default;
  any_session(const any_session&) = delete;
  any_session& operator=(const any_session&) = delete;

  /// Starts a sequence with the policy that this session was made with. Errors: as session::start.
  virtual void start(index_t slot,
                     token_id* tokens,
                     index_t count,
                     const sequence_shape& geometry,
                     const start_options& options = {}) = 0;
  /// As session::next.
  [[nodiscard]] virtual std::optional<forward_request> next() = 0;
  /// Errors: as session::supply; std::invalid_argument for logits in the wrong memory space.
  virtual void supply(const any_rows& logits, const any_modifiers& modifiers = {}) = 0;
  /// Errors: as session::read and supply().
  virtual void
  read(std::size_t index, const any_rows& logits, const any_modifiers& modifiers = {}) = 0;
  /// Errors: as session::decide.
  virtual void decide() = 0;
  /// As session::report.
  [[nodiscard]] virtual const sequence_report& report(index_t slot) = 0;
  /// As session::committed.
  [[nodiscard]] virtual std::span<const commit_entry> committed(index_t slot) = 0;
  /// Errors: as session::candidates.
  [[nodiscard]] virtual std::span<const candidate_entry> candidates(index_t slot) = 0;
  /// As session::probabilities.
  [[nodiscard]] virtual std::span<const token_probability> probabilities(index_t slot) = 0;
  /// Plan of the slot's next step, as session::planned. An engine with a cache uses plan::winner,
  /// the branch whose K/V it keeps, plan::freeze and plan::refresh.
  [[nodiscard]] virtual const plan& planned(index_t slot) = 0;
  /// As session::cancel.
  virtual void cancel(index_t slot) = 0;
  /// As session::abandon.
  virtual void abandon() = 0;

 protected:
  any_session() = default;
};

/// The any_session of one policy type. `Base` and `Session` are for any_layer_session_of.
template <class Policy,
          class Backend = on_host,
          class Base = any_session,
          class Session = session<Policy, Backend>>
class any_session_of : public Base {
 public:
  any_session_of(const Policy& policy,
                 const model_info& model,
                 const session_capacity& capacity,
                 const Backend& where = {})
      : policy_(policy)
      , session_(model, capacity, where) {}

  void start(index_t slot,
             token_id* tokens,
             index_t count,
             const sequence_shape& geometry,
             const start_options& options) override {
    session_.start(slot, policy_, {tokens, count}, geometry, options);
  }
  [[nodiscard]] std::optional<forward_request> next() override { return session_.next(); }
  void supply(const any_rows& logits, const any_modifiers& modifiers) override {
    with_type(logits, "memory space of the logits", [&](const auto& rows) {
      session_.supply(rows, typed(modifiers, rows));
    });
  }
  void read(std::size_t index, const any_rows& logits, const any_modifiers& modifiers) override {
    with_type(logits, "memory space of the logits", [&](const auto& rows) {
      session_.read(index, rows, typed(modifiers, rows));
    });
  }
  void decide() override { session_.decide(); }
  [[nodiscard]] const sequence_report& report(index_t slot) override {
    return session_.report(slot);
  }
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot) override {
    return session_.committed(slot);
  }
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot) override {
    return session_.candidates(slot);
  }
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot) override {
    return session_.probabilities(slot);
  }
  [[nodiscard]] const plan& planned(index_t slot) override { return session_.planned(slot); }
  void cancel(index_t slot) override { session_.cancel(slot); }
  void abandon() override { session_.abandon(); }

 protected:
  /// Calls `use` with a view of the rows in their element type.
  static auto with_type(const any_rows& rows, const char* space_name, const auto& use) {
    check_argument(rows.space == Backend::space,
                   space_name,
                   rows.space == memory::host ? "host" : "device",
                   "that of the session's backend");
    switch (rows.kind) {
    case element_kind::bf16:
      return use(typed<bfloat16>(rows));
    case element_kind::f16:
      return use(typed<float16>(rows));
    case element_kind::f32:
      break;
    }
    return use(typed<float>(rows));
  }

  [[nodiscard]] Session& typed_session() { return session_; }
  [[nodiscard]] const Policy& rules() const { return policy_; }

 private:
  template <element T>
  [[nodiscard]] static rows_view<T, Backend::space> typed(const any_rows& r) {
    return {static_cast<const T*>(r.data), r.rows, r.columns, r.stride};
  }
  template <element T, memory M>
  [[nodiscard]] static row_modifiers<T> typed(const any_modifiers& r, const rows_view<T, M>&) {
    return {r.allowed,
            r.allowed_stride,
            static_cast<const T*>(r.unconditional),
            r.unconditional_stride,
            r.cfg_scale};
  }

  Policy policy_;
  Session session_;
};

/// Makes an any_session of a policy value.
template <class Policy, class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const Policy& policy,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const Backend& where = {}) {
  return std::make_unique<any_session_of<Policy, Backend>>(policy, model, capacity, where);
}

}  // namespace unmask
