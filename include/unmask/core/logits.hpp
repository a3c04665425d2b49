// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/held_list.hpp>
#include <unmask/core/random.hpp>

#include <concepts>
#include <span>
#include <type_traits>

namespace UNMASK_NAMESPACE {

/// An element type of logits and hidden states: float, bfloat16 or float16. Types of the same
/// representation (`__half`, `__nv_bfloat16`, `Eigen::half`) join through interop/half.hpp.
template <class T>
concept element = std::same_as<T, float> || std::same_as<T, bfloat16> || std::same_as<T, float16>;

namespace detail {

// The size of a container, at most the largest index_t; no session accepts that number of rows or
// tokens.
[[nodiscard]] constexpr index_t counted(std::size_t n) {
  return n < 0x7fffffffU ? static_cast<index_t>(n) : index_t{0x7fffffff};
}

template <class Range>
concept contiguous = requires(Range& r) {
  *r.data();
  { r.size() } -> std::convertible_to<std::size_t>;
};

// A range whose elements outlive the call.
template <class Range>
inline constexpr bool outlives_the_call =
    std::is_lvalue_reference_v<Range> ||
    std::ranges::enable_borrowed_range<std::remove_cv_t<Range>>;

// Refuses at compile time element types that are not token_id.
template <class T>
constexpr void check_token_type() {
  static_assert(!std::is_const_v<T>, "a session writes the tokens: they must not be const");
  static_assert(std::same_as<std::remove_const_t<T>, token_id>,
                "tokens are 32-bit, unmask::token_id: copy tokens of another type to some of this");
}

template <class View>
concept mdspan_like = requires(const View& v) {
  requires element<std::remove_cvref_t<decltype(*v.data_handle())>>;
  { v.extent(0) } -> std::convertible_to<std::size_t>;
  { v.stride(0) } -> std::convertible_to<std::ptrdiff_t>;
  { v.stride(1) } -> std::convertible_to<std::ptrdiff_t>;
};

}  // namespace detail

/// Rows of numbers that an engine owns: logits [rows, vocab] or hidden states [rows, width].
///
/// Shape: row r starts at data + r * stride; columns are contiguous; only the first `columns` of a
/// row are read, padding after them may have any value. `data` is aligned to T; stride >= columns,
/// so rows do not overlap. Owns nothing.
template <class T, memory M>
struct rows_view {
  static_assert(element<T>,
                "rows of logits and of hidden states are of float, bfloat16 or float16: convert "
                "numbers of another type, such as double, to float");
  using element_type = T;             ///< Type of a number.
  static constexpr memory space = M;  ///< Memory that the rows are in.

  const T* data = nullptr;    ///< First number of the first row.
  index_t rows = 0;           ///< Number of rows.
  index_t columns = 0;        ///< Numbers of a row that are read.
  std::ptrdiff_t stride = 0;  ///< Distance between rows, in elements.

  constexpr rows_view() = default;
  /// Rows without gaps: the stride is the number of columns.
  UNMASK_HD constexpr rows_view(const T* first, index_t row_count, index_t column_count)
      : data(first)
      , rows(row_count)
      , columns(column_count)
      , stride(column_count) {}
  /// Rows with a stride, in elements.
  UNMASK_HD constexpr rows_view(const T* first,
                                index_t row_count,
                                index_t column_count,
                                std::ptrdiff_t row_stride)
      : data(first)
      , rows(row_count)
      , columns(column_count)
      , stride(row_stride) {}

  /// First number of row r.
  [[nodiscard]] UNMASK_HD constexpr const T* row(index_t r) const { return data + r * stride; }

  /// Rows [wanted.first, wanted.last) of this view.
  [[nodiscard]] UNMASK_HD constexpr rows_view subrows(range wanted) const {
    return {row(wanted.first), wanted.size(), columns, stride};
  }
};

/// Rows of logits in host memory: logits or log-probabilities, never probabilities, which decode
/// one forced token a pass.
template <class T>
using host_logits = rows_view<T, memory::host>;
/// Rows of logits in device memory; as host_logits, never probabilities.
template <class T>
using device_logits = rows_view<T, memory::device>;
/// Rows of hidden states in host memory.
template <class T>
using host_hidden = rows_view<T, memory::host>;
/// Rows of hidden states in device memory.
template <class T>
using device_hidden = rows_view<T, memory::device>;

/// The tokens of one sequence, which the engine owns and a session writes in place. Valid until the
/// sequence has ended or the slot is started anew.
template <memory M>
struct tokens_view {
  static constexpr memory space = M;  ///< Memory that the tokens are in.

  token_id* data = nullptr;  ///< First token.
  index_t size = 0;          ///< Number of tokens.

  constexpr tokens_view() = default;
  /// `count` tokens from `first` on.
  UNMASK_HD constexpr tokens_view(token_id* first, index_t count)
      : data(first)
      , size(count) {}
  /// Does not compile, with a sentence: tokens of another type.
  template <class T>
  constexpr tokens_view(T*, index_t) {
    detail::check_token_type<T>();
  }
  /// A view of any contiguous range in host memory: std::vector, std::span, std::array. Not of a
  /// temporary that owns its tokens.
  template <class Range>
    requires(M == memory::host && detail::contiguous<Range>)
  constexpr tokens_view(Range&& r) {  // NOLINT(google-explicit-constructor): a view of an lvalue
    using element = std::remove_reference_t<decltype(*r.data())>;
    detail::check_token_type<element>();
    static_assert(detail::outlives_the_call<Range>,
                  "these tokens are a temporary, gone before the session writes them: give it a "
                  "variable that lives as long as the sequence");
    if constexpr (std::same_as<element, token_id>) {
      data = r.data();
      size = detail::counted(static_cast<std::size_t>(r.size()));
    }
  }
};

namespace detail {

template <class T>
struct is_rows_view : std::false_type {};
template <class T, memory M>
struct is_rows_view<rows_view<T, M>> : std::true_type {};

}  // namespace detail

/// A view is its own logits.
template <element T, memory M>
[[nodiscard]] constexpr rows_view<T, M> as_rows(const rows_view<T, M>& view) {
  return view;
}

/// Rows from a row-major std::mdspan of rank 2, or any type with its interface, in host memory.
/// Errors: std::invalid_argument unless the columns of a row are contiguous, as in a column-major
/// or transposed view.
template <detail::mdspan_like View>
[[nodiscard]] constexpr auto as_rows(const View& v) {
  check_argument(v.extent(1) <= 1 || v.stride(1) == 1,
                 "stride(1) of the logits",
                 static_cast<std::ptrdiff_t>(v.stride(1)),
                 "1: the columns of a row must be neighbours");
  using T = std::remove_cv_t<std::remove_pointer_t<decltype(v.data_handle())>>;
  return rows_view<T, memory::host>{v.data_handle(),
                                    detail::counted(static_cast<std::size_t>(v.extent(0))),
                                    detail::counted(static_cast<std::size_t>(v.extent(1))),
                                    static_cast<std::ptrdiff_t>(v.stride(0))};
}

/// A tensor that a session accepts: `as_rows(tensor)`, found by argument-dependent lookup, gives
/// its rows_view. An engine's own class joins with that one function in its own namespace.
template <class Tensor>
concept row_tensor = requires(const Tensor& t) {
  requires detail::is_rows_view<std::remove_cvref_t<decltype(as_rows(t))>>::value;
};

struct any_modifiers;

/// Per-row inputs of supply(): a bitmask of allowed tokens and unconditional logits, both owned by
/// the engine and applied while the rows are read.
///
/// `allowed` is a packed bitmask as grammar engines write it: ceil(vocab / 32) words a row, bit v
/// of word v / 32 set means that token v is allowed. Row r of the logits uses words allowed + r *
/// allowed_stride; nullptr allows everything. `unconditional` + r * unconditional_stride is the
/// unconditional row u of classifier-free guidance, nullptr means none: the row c of the logits
/// becomes z = u + (cfg_scale + 1) (c - u). Any finite cfg_scale; 0 is off, z = c up to rounding.
/// The name and the formula are LLaDA's; if a scale s means z = u + s (c - u), as in Hugging Face's
/// guidance_scale (1 is off), give s - 1.
///
/// A stride of 0 gives every row the same words, or the same unconditional row.
template <element T>
struct row_modifiers {
  /// Bitmask of the allowed tokens of the first row; null: all are.
  const std::uint32_t* allowed = nullptr;
  std::ptrdiff_t allowed_stride = 0;        ///< Distance between rows of the bitmask, in words.
  const T* unconditional = nullptr;         ///< First unconditional row; null: no guidance.
  std::ptrdiff_t unconditional_stride = 0;  ///< Distance between unconditional rows, in elements.
  float cfg_scale = 0.0F;                   ///< Strength of the guidance; 0 is off.

  /// The per-row inputs of the rows from r on.
  [[nodiscard]] UNMASK_HD constexpr row_modifiers from_row(index_t r) const {
    row_modifiers rest = *this;
    rest.allowed = allowed == nullptr ? nullptr : allowed + r * allowed_stride;
    rest.unconditional =
        unconditional == nullptr ? nullptr : unconditional + r * unconditional_stride;
    return rest;
  }

  /// Conversion for logits whose element type is known only at run time:
  /// <unmask/core/any_rows.hpp>.
  operator any_modifiers() const;  // NOLINT(google-explicit-constructor): a view of the same
};

namespace detail {

// One view for each segment: std::vector, std::span, std::array of rows_view, or what is indexed
// like them.
template <class List>
concept rows_list = requires(const List& l) {
  requires is_rows_view<std::remove_cvref_t<decltype(l[0])>>::value;
  { l.size() } -> std::convertible_to<std::size_t>;
};

template <rows_list List>
using view_in = std::remove_cvref_t<decltype(std::declval<const List&>()[0])>;
template <rows_list List>
using modifiers_for = row_modifiers<typename view_in<List>::element_type>;

// The modifiers of segment i; of an empty list none.
template <rows_list List>
[[nodiscard]] modifiers_for<List> modifiers_at(const List&, const auto& modifiers, std::size_t i) {
  return modifiers.size() == 0 ? modifiers_for<List>{} : modifiers[i];
}

// Does not compile, with a sentence: says what logits are.
template <class Other>
constexpr void check_tensor() {
  static_assert(
      is_rows_view<Other>::value,  // one of another element type has its sentence
      "logits are a tensor with rows, of float, bfloat16 or float16: a view such as "
      "host_logits<float>(data, rows, columns), or a class of yours with as_rows(tensor) in "
      "its namespace; one view for each segment is a std::span<const host_logits<float>>");
}

}  // namespace detail

/// Inputs of the random draw of a token from one row: the key of its random numbers (its token is
/// not used) and the temperature of the distribution; 0: none is drawn.
struct draw_request {
  random_key key;              ///< Key of the random numbers.
  float temperature = 1.0F;    ///< Temperature of the distribution, >= 0.
  token_id forced = no_token;  ///< The token that is drawn; no_token: a random one.

  /// Key of a participant of the draw, among which is the forced token or not.
  [[nodiscard]] static UNMASK_HD constexpr float forced_key(bool is_forced) {
    return is_forced ? 0.0F : -math::infinity();
  }
};

/// Sums of the row that a position had in the previous step.
struct previous_row {
  /// False in the position's first step, which has no previous row.
  bool seen = false;
  float best = 0.0F;       ///< Its best logit.
  float log_total = 0.0F;  ///< ln of the sum of e^(z - best)
  float square = 0.0F;     ///< sum of e^(2(z - best))
};

/// Options for reading a row of logits, whatever their type.
///
/// `excluded` lists tokens, ascending and without repeats, that the statistics exclude: suppressed
/// and tracked tokens. Their edited logits are written to `excluded_logits` (the same number)
/// unless it is null; a token outside the row's columns gets -inf.
struct row_options {
  // Not defaulted: row_options() would zero the members before initialising them, a fifth of the
  // host's work in a step.
  UNMASK_HD constexpr row_options() {}

  index_t columns = 0;                     ///< Columns of the row.
  token_id first_token = 0;                ///< Token of the first column.
  const std::uint32_t* allowed = nullptr;  ///< Bitmask of the allowed tokens; null: all are.
  float cfg_scale = 0.0F;                  ///< Strength of the guidance; 0 is off.
  const token_id* excluded = nullptr;      ///< Tokens that the statistics exclude.
  index_t excluded_count = 0;              ///< Number of `excluded`.
  float* excluded_logits = nullptr;  ///< Receives the edited logits of `excluded`; may be null.
  /// Used with stat::sampled.
  draw_request draw;
  /// Used with stat::kept: collects the row's largest columns, in addition to those already in it.
  /// nullptr if this row is not truncated. With it, the draw is left to the truncation.
  held_tokens* held = nullptr;
  /// Used with stat::drift and stat::divergence: the edited logits of the previous step, which the
  /// read overwrites with the logits of this step.
  float* previous = nullptr;
  previous_row before;  ///< Statistics of the row of the previous step.
};

/// One row as given to a kernel: `columns` logits; the first belongs to token
/// `first_token`.
template <element T>
struct row_input : row_options {
  UNMASK_HD constexpr row_input() {}

  const T* logits = nullptr;         ///< The row.
  const T* unconditional = nullptr;  ///< The unconditional row; null: no guidance.
};

/// A logits transform that multiplies.
struct logit_factor {
  float factor = 1.0F;  ///< By which.
  /// The product.
  [[nodiscard]] UNMASK_HD constexpr float operator()(float logit, token_id) const {
    return logit * factor;
  }
};

/// Two logits transforms, one after the other.
template <class First, class Second>
struct transforms_in_turn {
  First first;    ///< Applied to the logit.
  Second second;  ///< Applied to its result.
  /// The logit after both.
  [[nodiscard]] UNMASK_HD constexpr float operator()(float logit, token_id token) const {
    return second(first(logit, token), token);
  }
};

/// Identity: the logits transform of a policy that has none.
struct identity {
  /// The logit as it is.
  [[nodiscard]] UNMASK_HD constexpr float operator()(float logit, token_id) const { return logit; }
};

}  // namespace unmask
