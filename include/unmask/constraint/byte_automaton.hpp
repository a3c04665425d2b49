// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace UNMASK_NAMESPACE {

/// The state after a byte, or a token, that no string of the language has there.
inline constexpr std::uint32_t dead_state = 0xffffffffU;

/// A deterministic automaton over bytes, as compilers of regular expressions make it: a view.
///
/// Shape: `next` is [states][256], the state after each byte, or dead_state; `accepting` has one
/// byte for each state, not 0 where a string of the language may end.
struct byte_automaton {
  std::span<const std::uint32_t> next;      ///< [states][256]: the state after each byte.
  std::span<const std::uint8_t> accepting;  ///< [states]: not 0 where a string may end.
  std::uint32_t start = 0;                  ///< The state before the first byte.

  /// Number of states.
  [[nodiscard]] std::size_t states() const { return accepting.size(); }
};

/// A byte automaton that owns its table.
struct byte_table {
  std::vector<std::uint32_t> next;      ///< [states][256], as byte_automaton::next.
  std::vector<std::uint8_t> accepting;  ///< [states], as byte_automaton::accepting.
  std::uint32_t start = 0;              ///< The state before the first byte.

  /// A view of the table.
  [[nodiscard]] byte_automaton view() const { return {next, accepting, start}; }
  /// Overload of view() as a conversion.
  operator byte_automaton() const { return view(); }  // NOLINT(google-explicit-constructor): a view
};

/// Checks the shape of an automaton and that each state exists. Errors: std::invalid_argument.
UNMASK_LIBRARY void validate(const byte_automaton& automaton);

/// Writes an automaton to a file, for hosts that cannot compile a regular expression themselves.
/// Errors: std::invalid_argument for a malformed automaton, std::runtime_error for a file that
/// cannot be written.
UNMASK_LIBRARY void write_byte_table(const std::string& path, const byte_automaton& automaton);

/// Reads a file of write_byte_table(). Its contents are not trusted: a file that is malformed, or
/// has more than `most_states` states, is refused, and the memory is at most 1,028 * most_states
/// bytes and the size of the file.
///
/// The file, in little-endian order: the 8 bytes "unmaskDF"; 32 bits each for the version, 1, the
/// number of states and the start; for each state a byte that is 1 if it accepts, 16 bits for the
/// number of its runs and, for each run, its first and its last byte and 32 bits for the state
/// after them. Runs ascend.
/// Errors: std::runtime_error, naming the file and what is wrong.
[[nodiscard]] UNMASK_LIBRARY byte_table read_byte_table(const std::string& path,
                                                        std::uint32_t most_states = 65536);

namespace detail {

/// The contents of such a file, and the automaton in them; `name` is for messages.
[[nodiscard]] UNMASK_LIBRARY std::vector<std::uint8_t> byte_table_bytes(const byte_automaton& a);
[[nodiscard]] UNMASK_LIBRARY byte_table byte_table_of(std::span<const std::uint8_t> bytes,
                                                      std::uint32_t most_states,
                                                      const std::string& name);

}  // namespace detail

}  // namespace unmask

#if UNMASK_DEFINES
#  include <unmask/constraint/byte_automaton_file.hpp>
#endif
