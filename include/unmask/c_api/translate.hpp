// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api.h>
#include <unmask/core/any_rows.hpp>
#include <unmask/text/renamed.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

/// The translation that every call of the C interface is: of structures, of exceptions to a status,
/// of spans to pointers.
namespace UNMASK_NAMESPACE::detail::c_api {

inline thread_local std::string last_message;
// last_message, or a static text if there was no memory for it.
inline thread_local const char* last_error = "";

// The names of arguments in messages; a longer name before its beginning.
inline constexpr name_elsewhere names_in_c[] = {
    {"session_capacity::", "unmask_options::"},
    {"model_info::", "unmask_options::"},
    {"sequence_shape::", "unmask_sequence::"},
    {"start_options::suppressed.size()", "unmask_sequence::suppressed_count"},
    {"start_options::soft_tokens", "unmask_sequence::soft_tokens"},
    {"start_options::", "unmask_sequence::"},
    {"constrained_field::", "unmask_constrained_field::"},
    {"constraint_limits::", "unmask_constraint_limits::"},
    {"row_modifiers::", "unmask_modifiers::"},
    {"forward_request::", "unmask_request::"},
    {" segment::rows.size()", " row_last - row_first"},
    {" no_token", " UNMASK_NO_TOKEN"},
};

inline unmask_status fail(unmask_status status, const char* what) noexcept {
  try {
    last_message = renamed(what, names_in_c);
    last_error = last_message.c_str();
  } catch (...) {
    last_error = "out of memory while the message of an error was made";
  }
  return status;
}

// Error of a call that this build does not support.
struct unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Work>
unmask_status guarded(const Work& work) noexcept {
  try {
    work();
    return UNMASK_OK;
  } catch (const std::invalid_argument& e) {
    return fail(UNMASK_INVALID_ARGUMENT, e.what());
  } catch (const std::logic_error& e) {
    return fail(UNMASK_OUT_OF_ORDER, e.what());
  } catch (const std::bad_alloc&) {
    return fail(UNMASK_OUT_OF_MEMORY, "out of memory");
  } catch (const unsupported& e) {
    return fail(UNMASK_UNSUPPORTED, e.what());
  } catch (const std::exception& e) {
    return fail(UNMASK_FAILED, e.what());
  } catch (...) {
    return fail(UNMASK_FAILED, "unknown exception");
  }
}

template <class T>
T& needed(T* pointer, const char* name) {
  unmask::check_argument(pointer != nullptr, name, "null", "a pointer");
  return *pointer;
}

// check_argument() of a field of a structure; the name is put together only for a message.
template <class T, class... Rule>
void check_field(
    bool holds, const char* structure, const char* field, const T& value, const Rule&... rule) {
  if (!holds) {
    unmask::check_argument(false, std::string(structure) + "->" + field, value, rule...);
  }
}

// No version's structure is larger, so one whose size was not set is not read far
// behind its end.
inline constexpr std::size_t largest_struct = 128;

// Size of a structure in version 1.
template <class T>
inline constexpr std::size_t first_size = sizeof(T);

// The size that the caller gives of a structure; the name is put together only for a message.
template <class T>
std::size_t checked_size(std::size_t size, const char* name, const char* member = "") {
  static_assert(sizeof(T) <= largest_struct);
  if (size < first_size<T> || size > largest_struct || size % alignof(T) != 0) {
    unmask::check_argument(false,
                           std::string(name) + member,
                           size,
                           "the sizeof of the structure, at least ",
                           first_size<T>,
                           " and at most ",
                           largest_struct,
                           ": initialise it with the macro UNMASK_..._INIT");
  }
  return size;
}

// A caller's structure as this library knows it.
template <class T>
T known_part_of(const T* given, const T& defaults, const char* name) {
  const std::size_t size = checked_size<T>(needed(given, name).struct_size, name, "->struct_size");
  T known = defaults;
  std::memcpy(&known, given, std::min(size, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b != 0; })) {
    throw unsupported(std::string(name) + " has fields that this library does not know");
  }
  return known;
}

// Gives the caller the members of an answer that it knows.
template <class T>
void give(T* to, T answer, const char* name) {
  const std::size_t size = needed(to, name).struct_size;
  check_field(
      size >= sizeof(std::uint32_t), name, "struct_size", size, "the sizeof of the structure");
  answer.struct_size = to->struct_size;
  std::memcpy(to, &answer, std::min(size, sizeof(T)));
}

inline unmask::any_rows rows_of(const unmask_logits& l, const char* name = "logits") {
  check_field(l.kind >= UNMASK_F32 && l.kind <= UNMASK_F16,
              name,
              "kind",
              l.kind,
              "UNMASK_F32, UNMASK_BF16 or UNMASK_F16");
  check_field(l.memory_space == UNMASK_HOST || l.memory_space == UNMASK_DEVICE,
              name,
              "memory_space",
              l.memory_space,
              "UNMASK_HOST or UNMASK_DEVICE");
  check_field(l.rows >= 0, name, "rows", l.rows, "at least 0");
  check_field(l.data != nullptr || l.rows == 0, name, "data", "null", "a pointer");
  const std::int64_t farthest = PTRDIFF_MAX / (std::int64_t{sizeof(float)} * std::max(l.rows, 1));
  check_field(l.stride == 0 || (l.stride >= l.columns && l.stride <= farthest),
              name,
              "stride",
              l.stride,
              "0 (rows without a gap), or at least the number of columns and at most ",
              farthest);
  unmask::any_rows rows;
  rows.data = l.data;
  rows.kind = static_cast<unmask::element_kind>(l.kind);
  rows.space = l.memory_space == UNMASK_HOST ? unmask::memory::host : unmask::memory::device;
  rows.rows = l.rows;
  rows.columns = l.columns;
  rows.stride = l.stride == 0 ? l.columns : static_cast<std::ptrdiff_t>(l.stride);
  return rows;
}

// Structure i of a caller's array, whose elements have the size of the first.
template <class T>
T* structure_at(T* array, std::size_t i) {
  using byte = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<T*>(reinterpret_cast<byte*>(array) + i * array->struct_size);
}

inline unmask::any_modifiers modifiers_of(const unmask_modifiers& m) {
  unmask::any_modifiers modifiers;
  modifiers.allowed = m.allowed;
  modifiers.allowed_stride = static_cast<std::ptrdiff_t>(m.allowed_stride);
  modifiers.unconditional = m.unconditional;
  modifiers.unconditional_stride = static_cast<std::ptrdiff_t>(m.unconditional_stride);
  modifiers.cfg_scale = m.cfg_scale;
  return modifiers;
}

// Structures for the caller, each with the size that it knows: the members known to both, then
// zeros.
template <class T>
class lent_array {
 public:
  void reserve(std::size_t most) { bytes_.reserve(most * sizeof(T)); }
  // Empties the array, whose elements have `size` bytes from now on.
  void clear(std::size_t size) {
    size_ = size;
    bytes_.clear();
  }
  void push_back(const T& structure) {
    const auto* const first = reinterpret_cast<const unsigned char*>(&structure);
    bytes_.insert(bytes_.end(), first, first + std::min(size_, sizeof(T)));
    bytes_.resize(bytes_.size() + size_ - std::min(size_, sizeof(T)));
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / size_; }
  [[nodiscard]] const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }

 private:
  std::vector<unsigned char> bytes_;
  std::size_t size_ = sizeof(T);
};

template <class List, class T>
void lend(const List& from, const T** entries, std::int32_t* count) {
  needed(entries, "entries") = from.data();
  needed(count, "count") = static_cast<std::int32_t>(from.size());
}

}  // namespace UNMASK_NAMESPACE::detail::c_api
