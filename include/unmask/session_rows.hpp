// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/any_rows.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate_rows.hpp>

#include <concepts>
#include <span>
#include <utility>

/// The calls of a session that take logits.
namespace UNMASK_NAMESPACE::detail {

/// Base class of `Session`, whose logits are in the memory `space`.
template <class Session, memory space>
class session_rows {
 public:
  /// Takes the logits of the request (or log-probabilities, never probabilities), packed: row
  /// segment.first_row + r of the tensor is the row of position segment.rows.first + r. `modifiers`
  /// are indexed by the same rows.
  ///
  /// Errors: std::logic_error without a request and after read(), std::invalid_argument for a wrong
  /// shape; the session is then unchanged.
  template <row_tensor Tensor>
  void supply(
      const Tensor& tensor,
      const row_modifiers<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
          modifiers = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    self().request_.check_supply();
    index_t rows = 0;
    for (const segment& s : self().segments()) {
      rows += wanted_rows(s);
    }
    check_rows(logits, modifiers, rows, "rows of the logits", "forward_request::rows = ");
    index_t first = 0;
    for (const segment& s : self().segments()) {
      const index_t count = wanted_rows(s);
      self().workspace_.enqueue(
          s, logits.subrows({first, first + count}), modifiers.from_row(first));
      first += count;
    }
    self().finish();
  }

  /// Takes the logits as one tensor for each segment, in the request's order, in a std::vector,
  /// std::span or std::array of rows_view: for engines that keep the logits of each sequence apart.
  /// `modifiers` are empty or one for each segment, indexed by its rows.
  template <detail::rows_list List, class Modifiers = std::span<const detail::modifiers_for<List>>>
  void supply(const List& tensors, const Modifiers& modifiers = {}) {
    check_supply(tensors, modifiers);
    for (std::size_t i = 0; i < self().segments().size(); ++i) {
      self().workspace_.enqueue(
          self().segments()[i], tensors[i], detail::modifiers_at(tensors, modifiers, i));
    }
    self().finish();
  }

  /// Throws what supply() would throw for these arguments, and changes nothing.
  template <detail::rows_list List, class Modifiers = std::span<const detail::modifiers_for<List>>>
  void check_supply(const List& tensors, const Modifiers& modifiers = {}) {
    check_space<detail::view_in<List>>();
    self().request_.check_supply();
    const std::size_t count = self().segments().size();
    self().request_.check_count("number of tensors", tensors.size());
    self().request_.check_count("number of modifiers",
                                modifiers.size() == 0 ? count : modifiers.size());
    for (std::size_t i = 0; i < count; ++i) {
      check_segment(tensors[i], detail::modifiers_at(tensors, modifiers, i), self().segments()[i]);
    }
  }

  /// Overload for logits whose element type is known only at run time. Errors: also
  /// std::invalid_argument for logits in the wrong memory space.
  void supply(const any_rows& logits, const any_modifiers& modifiers = {}) {
    detail::with_element_type<space>(
        logits, logits_space, [&]<element T, memory M>(const rows_view<T, M>& rows) {
          supply(rows, detail::typed<row_modifiers<T>>(modifiers));
        });
  }
  /// Overload for one tensor for each segment.
  void supply(std::span<const any_rows> tensors, std::span<const any_modifiers> modifiers = {}) {
    detail::with_element_types<space>(
        tensors, modifiers, [&](const auto& rows, const auto& beside) { supply(rows, beside); });
  }
  /// Throws what supply() would throw for these arguments, and changes nothing.
  void check_supply(std::span<const any_rows> tensors,
                    std::span<const any_modifiers> modifiers = {}) {
    detail::with_element_types<space>(
        tensors, modifiers, [&](const auto& rows, const auto& beside) {
          check_supply(rows, beside);
        });
  }

  /// Refuses, with a message, arguments that are not logits.
  template <class Other, class... More>
    requires(!row_tensor<Other> && !detail::rows_list<Other> &&
             !std::convertible_to<const Other&, std::span<const any_rows>>)
  void supply(const Other&, const More&...) {
    detail::check_tensor<Other>();
  }

  /// Reads the logits of segment `index` of the request at once: supply() in pieces, for engines
  /// that compute one segment at a time in the same buffer. Call it once for every segment, in any
  /// order, then decide().
  ///
  /// Errors: std::logic_error without a request, for a segment that was already read and with
  /// constrained_field::read_again, std::invalid_argument for a wrong index or shape; the session
  /// is then unchanged.
  template <row_tensor Tensor>
  void
  read(std::size_t index,
       const Tensor& tensor,
       const row_modifiers<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
           modifiers = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    self().request_.check_read(index);
    const segment& s = self().segments()[index];
    check_segment(logits, modifiers, s);
    if constexpr (requires { self().workspace_.check_read(s); }) {
      self().workspace_.check_read(s);
    }
    self().workspace_.enqueue(s, logits, modifiers);
    self().workspace_.run();
    self().request_.was_read(index);
  }

  /// Overload for logits whose element type is known only at run time. Errors: also
  /// std::invalid_argument for logits in the wrong memory space.
  void read(std::size_t index, const any_rows& logits, const any_modifiers& modifiers = {}) {
    detail::with_element_type<space>(
        logits, logits_space, [&]<element T, memory M>(const rows_view<T, M>& rows) {
          read(index, rows, detail::typed<row_modifiers<T>>(modifiers));
        });
  }

  /// Does not compile: says what logits are.
  template <class Other, class... More>
    requires(!row_tensor<Other>)
  void read(std::size_t, const Other&, const More&...) {
    detail::check_tensor<Other>();
  }

  /// Decides the step after read() of every segment. Errors: std::logic_error without a request and
  /// before every segment was read; the session is then unchanged.
  void decide() {
    self().request_.check_decide();
    self().finish();
  }

 private:
  friend Session;
  static constexpr const char* logits_space = "memory space of the logits";

  session_rows() = default;
  [[nodiscard]] Session& self() { return static_cast<Session&>(*this); }

  // True if a segment of the request computes some of the positions of a layer only.
  [[nodiscard]] bool is_layered() {
    bool any = false;
    for (const segment& s : self().segments()) {
      any = any || (Session::policy_type::layered && self().workspace_.is_layered(s.slot));
    }
    return any;
  }
  [[nodiscard]] index_t wanted_rows(const segment& s) {
    return self().layers_.wanted_rows(self().workspace_, s);
  }

  template <class View>
  static constexpr void check_space() {
    static_assert(
        View::space == space,
        "these logits live in another memory space than the session's backend: give a host "
        "session host_logits and a stream session device_logits");
  }

  template <element T, memory M>
  void check_rows(const rows_view<T, M>& logits,
                  const row_modifiers<T>& modifiers,
                  index_t wanted,
                  const char* name,
                  const char* rule) {
    validate(logits, self().model_.vocab, "model_info::vocab = ");
    check_argument(logits.rows == wanted,
                   name,
                   logits.rows,
                   is_layered() ? "those that remain in the pass, " : rule,
                   wanted);
    validate(modifiers, wanted, self().model_.vocab, self().model_.vocab);
  }

  template <element T, memory M>
  void check_segment(const rows_view<T, M>& logits,
                     const row_modifiers<T>& modifiers,
                     const segment& s) {
    check_rows(
        logits, modifiers, wanted_rows(s), "rows of a segment's logits", "segment::rows.size() = ");
  }
};

}  // namespace unmask::detail
