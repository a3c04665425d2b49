// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/session.hpp>

#include <cstdint>
#include <memory>

namespace UNMASK_NAMESPACE {

/// The element type of logits, as a value.
enum class element_kind : unsigned char { f32, bf16, f16 };

namespace detail {

[[nodiscard]] constexpr const char* name_of(element_kind kind) {
  constexpr const char* names[] = {"float32", "bfloat16", "float16"};
  return names[static_cast<int>(kind)];
}

[[nodiscard]] constexpr const char* name_of(memory space) {
  return space == memory::host ? "host" : "device";
}

[[nodiscard]] constexpr std::ptrdiff_t bytes_of(element_kind kind) {
  return kind == element_kind::f32 ? 4 : 2;
}

// The address of row `r`. Defined for rows and strides that were not checked yet.
[[nodiscard]] inline const void*
row_address(const void* data, index_t r, std::ptrdiff_t stride, std::ptrdiff_t bytes) {
  const auto number = [](auto x) { return static_cast<std::uintptr_t>(x); };
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) +
                                       number(r) * number(stride) * number(bytes));
}

}  // namespace detail

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

  /// Rows [wanted.first, wanted.last) of this view.
  [[nodiscard]] any_rows subrows(range wanted) const {
    any_rows some = *this;
    some.data = detail::row_address(data, wanted.first, stride, detail::bytes_of(kind));
    some.rows = wanted.size();
    return some;
  }

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

  /// As row_modifiers::from_row, beside logits of this kind.
  [[nodiscard]] any_modifiers from_row(index_t r, element_kind kind) const {
    any_modifiers rest = *this;
    if (allowed != nullptr) {
      rest.allowed = static_cast<const std::uint32_t*>(
          detail::row_address(allowed, r, allowed_stride, sizeof(*allowed)));
    }
    if (unconditional != nullptr) {
      rest.unconditional =
          detail::row_address(unconditional, r, unconditional_stride, detail::bytes_of(kind));
    }
    return rest;
  }
};

template <element T>
row_modifiers<T>::operator any_modifiers() const {
  return {allowed, allowed_stride, unconditional, unconditional_stride, cfg_scale};
}

namespace detail {

// The same with the element type that `kind` says.
template <class View>
[[nodiscard]] View typed(const any_rows& r) {
  return {static_cast<const typename View::element_type*>(r.data), r.rows, r.columns, r.stride};
}
template <class Modifiers>
[[nodiscard]] Modifiers typed(const any_modifiers& r) {
  return {r.allowed,
          r.allowed_stride,
          static_cast<decltype(Modifiers::unconditional)>(r.unconditional),
          r.unconditional_stride,
          r.cfg_scale};
}

// Checks rows of at least `vocab` columns, and what is beside them, for every type of the same
// size.
inline void validate(const any_rows& r, const any_modifiers& modifiers, index_t vocab) {
  const auto check = [&]<element T>(T) {
    unmask::validate(typed<rows_view<T, memory::host>>(r), vocab, "model_info::vocab = ");
    unmask::validate(typed<row_modifiers<T>>(modifiers), r.rows, vocab, vocab);
  };
  r.kind == element_kind::f32 ? check(float{}) : check(bfloat16{});
}

// A list of them, converted one by one.
template <class To, class From>
struct typed_list {
  std::span<const From> all;
  [[nodiscard]] std::size_t size() const { return all.size(); }
  [[nodiscard]] To operator[](std::size_t i) const { return typed<To>(all[i]); }
};

}  // namespace detail

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
  /// As session::next of some slots.
  [[nodiscard]] virtual std::optional<forward_request> next(std::span<const index_t> slots) = 0;
  /// Errors: as session::supply; std::invalid_argument for logits in the wrong memory space.
  virtual void supply(const any_rows& logits, const any_modifiers& modifiers = {}) = 0;
  /// One tensor for each segment, and modifiers for each or none. Errors: also
  /// std::invalid_argument for tensors of different element types.
  virtual void supply(std::span<const any_rows> tensors,
                      std::span<const any_modifiers> modifiers = {}) = 0;
  /// Throws what supply() would throw for these arguments, and changes nothing.
  virtual void check_supply(std::span<const any_rows> tensors,
                            std::span<const any_modifiers> modifiers = {}) = 0;
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
  /// As session::cancel_request.
  virtual std::span<const segment> cancel_request() = 0;

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
  [[nodiscard]] std::optional<forward_request> next(std::span<const index_t> slots) override {
    return session_.next(slots);
  }
  void supply(const any_rows& logits, const any_modifiers& modifiers) override {
    with_type(logits, logits_space, [&]<element T, memory M>(const rows_view<T, M>& rows) {
      session_.supply(rows, detail::typed<row_modifiers<T>>(modifiers));
    });
  }
  void supply(std::span<const any_rows> tensors,
              std::span<const any_modifiers> modifiers) override {
    with_types(tensors, modifiers, [&](const auto& rows, const auto& beside) {
      session_.supply(rows, beside);
    });
  }
  void check_supply(std::span<const any_rows> tensors,
                    std::span<const any_modifiers> modifiers) override {
    with_types(tensors, modifiers, [&](const auto& rows, const auto& beside) {
      session_.check_supply(rows, beside);
    });
  }
  void read(std::size_t index, const any_rows& logits, const any_modifiers& modifiers) override {
    with_type(logits, logits_space, [&]<element T, memory M>(const rows_view<T, M>& rows) {
      session_.read(index, rows, detail::typed<row_modifiers<T>>(modifiers));
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
  std::span<const segment> cancel_request() override { return session_.cancel_request(); }

 protected:
  /// Calls `use` with a view of the rows in their element type.
  static auto with_type(const any_rows& rows, const char* space_name, const auto& use) {
    check_argument(rows.space == Backend::space,
                   space_name,
                   detail::name_of(rows.space),
                   "that of the session's backend");
    switch (rows.kind) {
    case element_kind::bf16:
      return use(detail::typed<rows_view<bfloat16, Backend::space>>(rows));
    case element_kind::f16:
      return use(detail::typed<rows_view<float16, Backend::space>>(rows));
    case element_kind::f32:
      break;
    }
    return use(detail::typed<rows_view<float, Backend::space>>(rows));
  }

  [[nodiscard]] Session& typed_session() { return session_; }
  [[nodiscard]] const Policy& rules() const { return policy_; }
  void set_rules(const Policy& policy) { policy_ = policy; }

 private:
  static constexpr const char* logits_space = "memory space of the logits";

  // Calls `use` with lists of typed tensors and modifiers.
  static void with_types(std::span<const any_rows> tensors,
                         std::span<const any_modifiers> modifiers,
                         const auto& use) {
    any_rows first;
    first.space = Backend::space;
    first = tensors.empty() ? first : tensors.front();
    for (const any_rows& rows : tensors) {
      check_argument(rows.kind == first.kind,
                     "element type of the logits of a segment",
                     detail::name_of(rows.kind),
                     "that of the first segment's, ",
                     detail::name_of(first.kind));
      check_argument(rows.space == first.space,
                     "memory space of the logits of a segment",
                     detail::name_of(rows.space),
                     "that of the first segment's");
    }
    with_type(first, logits_space, [&]<element T, memory M>(const rows_view<T, M>&) {
      use(detail::typed_list<rows_view<T, M>, any_rows>{tensors},
          detail::typed_list<row_modifiers<T>, any_modifiers>{modifiers});
    });
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
