// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/ranks/message.hpp>

/// The messages of all ranks as an all-gather returns them: concatenated in the order of their
/// columns.
namespace UNMASK_NAMESPACE::ranks {

/// An error in the messages of a step. `got` is the index of the message or, if columns are not
/// adjacent, where they begin or end instead of at `wanted`.
struct complaint {
  fault found = fault::none;
  index_t got = 0;
  index_t wanted = 0;
};

/// Throws std::invalid_argument if there is an error. Host only.
inline void check(const complaint& c) {
  const auto refuse = [&c](std::string_view rule, std::string_view problem) {
    unmask::detail::message text;
    text.add("messages must be ").add(rule).add(": message ").add(c.got).add(problem).refuse();
  };
  switch (c.found) {
  case fault::none:
    return;
  case fault::not_a_message:
    return refuse("those of read_shard(), one of each rank", " has other bytes");
  case fault::other_record:
    return refuse("of sessions with one policy and one model",
                  " has other statistics or another vocabulary");
  case fault::not_adjacent:
    return check_argument(
        false, "first column of a message", c.got, "where the messages before it end, ", c.wanted);
  case fault::incomplete:
    return check_argument(false,
                          "columns that the messages have of a row",
                          c.got,
                          "all of the vocabulary, ",
                          c.wanted);
  case fault::foreign_token:
    return refuse("records that name tokens of their own columns", " names others");
  case fault::other_step:
  case fault::too_many_nodes:
    return refuse("of one step, with equal rows, tracked tokens and cuts", " differs");
  }
}

/// Checks that message `k` of `messages` belongs to the step of `mine`.
template <statistics S>
[[nodiscard]] UNMASK_HD complaint check_message(const message_header& mine,
                                                const std::byte* messages,
                                                index_t k) {
  const std::size_t bytes = message_bytes<S>(mine);
  return {compare<S>(mine, header_of(messages + static_cast<std::size_t>(k) * bytes)), k, 0};
}

/// Checks that `count` messages belong to the step of `mine`, contain all columns
/// of a row from left to right, and name tokens of these columns only. Cost: O(count * nodes).
template <statistics S>
[[nodiscard]] UNMASK_HD complaint
check_row(const message_header& mine, const std::byte* messages, index_t count, index_t row) {
  const std::size_t bytes = message_bytes<S>(mine);
  index_t covered = 0;
  for (index_t k = 0; k < count; ++k) {
    const message_header h = header_of(messages + static_cast<std::size_t>(k) * bytes);
    if (h.rows.contains(row) && !h.columns.empty()) {
      if (h.columns.first != covered) {
        return {fault::not_adjacent, h.columns.first, covered};
      }
      range rest = h.columns;
      for (index_t n = 0; !rest.empty(); ++n) {
        const range node = first_node(rest, h.vocab);
        const std::byte* const at =
            messages + static_cast<std::size_t>(k) * bytes + node_offset<S>(h, row, n);
        if (!names_own(detail::load<record<S>>(at), node)) {
          return {fault::foreign_token, k, 0};
        }
        rest.first = node.last;
      }
      covered = h.columns.last;
    }
  }
  return {covered == mine.vocab ? fault::none : fault::incomplete, covered, mine.vocab};
}

/// Returns the record of a row that check_row() found complete, and its first `tracked_count`
/// tracked logits. Cost: O(count * (nodes + tracked)).
template <statistics S>
[[nodiscard]] UNMASK_HD record<S> record_of(const message_header& mine,
                                            const std::byte* messages,
                                            index_t count,
                                            index_t row,
                                            float* tracked,
                                            index_t tracked_count) {
  const std::size_t bytes = message_bytes<S>(mine);
  node_stack<S> sum{mine.vocab};
  for (index_t w = 0; w < tracked_count; ++w) {
    tracked[w] = -math::infinity();
  }
  for (index_t k = 0; k < count; ++k) {
    const std::byte* const message = messages + static_cast<std::size_t>(k) * bytes;
    const message_header h = header_of(message);
    if (!h.rows.contains(row)) {
      continue;
    }
    unpack<S>(h, message, row, sum);
    for (index_t w = 0; w < tracked_count; ++w) {
      if (tracked[w] == -math::infinity()) {
        tracked[w] = tracked_logit<S>(h, message, row, w);
      }
    }
  }
  return sum[0];
}

}  // namespace unmask::ranks
