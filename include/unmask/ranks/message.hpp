// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/ranks/shard.hpp>

#include <cstring>

/// Messages between ranks about the rows of one step: plain bytes for any transport.
///
/// A message is a header, then for each of its rows `nodes` records (the first nodes_of(columns) of
/// them are used), then for each row the logits of `tracked` tracked tokens, -inf if another rank
/// has the token's column. Every field is 4 bytes long or a multiple of it. All messages of a step
/// have the same size, so one all-gather of bytes exchanges them; or merge() is the operation of an
/// all-reduce that keeps the order of the ranks. Ranks must have the same byte order and
/// floating-point format.
namespace UNMASK_NAMESPACE::ranks {

/// Header of a message.
struct message_header {
  /// The value of `mark` in every message.
  static constexpr std::uint32_t right_mark = 0x756d7331U;

  std::uint32_t mark = right_mark;  ///< Distinguishes a message from other bytes.
  /// statistics::bits of the records.
  std::uint32_t contents = 0;
  /// Number of the message within its session, from a start value derived from its sequences'
  /// layouts: detects a rank that missed a step and, mostly, a message of another session.
  std::uint32_t step = 0;
  index_t vocab = 0;  ///< Columns of the whole vocabulary.
  /// Columns of the vocabulary that the message covers.
  range columns;
  /// Rows of the step that the message covers; there are `all_rows`, and room for all of them.
  range rows;
  index_t all_rows = 0;  ///< Rows of the step.
  /// Number of records and of tracked logits for which each row has room.
  index_t nodes = 0;
  index_t tracked = 0;  ///< Number of tracked logits for which each row has room.
};

/// Reason why two messages do not fit together.
enum class fault {
  none,
  not_a_message,   ///< the first bytes are not a valid header
  other_record,    ///< records of other statistics, or of a vocabulary of another size
  other_step,      ///< another step, number of rows or list of tracked tokens
  not_adjacent,    ///< the columns do not continue those before
  too_many_nodes,  ///< no room for the nodes of the columns
  foreign_token,   ///< a record names a token that is not one of its columns
  incomplete       ///< columns of a row are missing
};

/// Bytes of a message with room for these.
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr std::size_t
message_bytes(index_t rows, index_t nodes, index_t tracked) {
  const std::size_t a_row = static_cast<std::size_t>(nodes) * sizeof(record<S>) +
                            static_cast<std::size_t>(tracked) * sizeof(float);
  return sizeof(message_header) + static_cast<std::size_t>(rows) * a_row;
}

/// Size in bytes of the message that begins with this header.
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr std::size_t message_bytes(const message_header& h) {
  return message_bytes<S>(h.all_rows, h.nodes, h.tracked);
}

/// Messages in a device's memory, concatenated, aligned to 4 bytes.
class device_messages {
 public:
  constexpr device_messages() = default;
  /// `bytes` bytes from `first` on.
  constexpr device_messages(const std::byte* first, std::size_t bytes)
      : data_(first)
      , size_(bytes) {}
  /// First byte of the first message.
  [[nodiscard]] constexpr const std::byte* data() const { return data_; }
  /// Total size in bytes.
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

template <class T>
[[nodiscard]] UNMASK_HD T load(const std::byte* from) {
#if defined(__CUDA_ARCH__)  // words, not bytes: see device_messages
  from = static_cast<const std::byte*>(__builtin_assume_aligned(from, 4));
#endif
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
UNMASK_HD void store(std::byte* to, const T& value) {
  memcpy(to, &value, sizeof(T));
}

}  // namespace detail

/// Offset in bytes of record `node` of a row in a message with header `h`.
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr std::size_t
node_offset(const message_header& h, index_t row, index_t node) {
  const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(h.nodes) +
                         static_cast<std::size_t>(node);
  return sizeof(message_header) + at * sizeof(record<S>);
}
/// Offset in bytes of tracked logit `i` of a row in a message with header `h`.
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr std::size_t
logit_offset(const message_header& h, index_t row, index_t i) {
  const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(h.tracked) +
                         static_cast<std::size_t>(i);
  return node_offset<S>(h, h.all_rows, 0) + at * sizeof(float);
}

/// Reads the header of a message.
[[nodiscard]] UNMASK_HD inline message_header header_of(const std::byte* message) {
  return detail::load<message_header>(message);
}

/// True if a header describes a message.
[[nodiscard]] UNMASK_HD constexpr bool makes_sense(const message_header& h) {
  const range& c = h.columns;
  const range& r = h.rows;
  return h.mark == message_header::right_mark && 0 <= c.first && c.first <= c.last &&
         c.last <= h.vocab && 0 <= r.first && r.first <= r.last && r.last <= h.all_rows &&
         h.tracked >= 0 && nodes_of(c, h.vocab) <= h.nodes;
}

/// Checks that messages `a` and `b` belong to the same step, with records of S.
template <statistics S>
[[nodiscard]] UNMASK_HD constexpr fault compare(const message_header& a, const message_header& b) {
  if (!makes_sense(a) || !makes_sense(b)) {
    return fault::not_a_message;
  }
  if (a.contents != S.bits || b.contents != S.bits || a.vocab != b.vocab) {
    return fault::other_record;
  }
  const bool agree =
      a.step == b.step && a.all_rows == b.all_rows && a.nodes == b.nodes && a.tracked == b.tracked;
  return agree ? fault::none : fault::other_step;
}

/// Writes one row of a message with header `h`: nodes_of(h.columns) records, left to right, and
/// h.tracked logits. `row` is in h.rows.
template <statistics S>
UNMASK_HD void pack(const message_header& h,
                    index_t row,
                    const record<S>* nodes,
                    const float* tracked,
                    std::byte* message) {
  const index_t count = nodes_of(h.columns, h.vocab);
  for (index_t k = 0; k < count; ++k) {
    detail::store(message + node_offset<S>(h, row, k), nodes[k]);
  }
  for (index_t i = 0; i < h.tracked; ++i) {
    detail::store(message + logit_offset<S>(h, row, i), tracked[i]);
  }
}

/// Adds the nodes of a row, which is in h.rows, from a message with header `h` to `sum`. Messages
/// are added from left to right.
template <statistics S>
UNMASK_HD void
unpack(const message_header& h, const std::byte* message, index_t row, node_stack<S>& sum) {
  range rest = h.columns;
  for (index_t k = 0; !rest.empty(); ++k) {
    const range node = first_node(rest, h.vocab);
    sum.push(node, detail::load<record<S>>(message + node_offset<S>(h, row, k)));
    rest.first = node.last;
  }
}

/// True if the record of the columns `node` names tokens of these columns only.
template <statistics S>
[[nodiscard]] UNMASK_HD bool names_own(const record<S>& sums, range node) {
  const auto is_own = [&](token_id v) { return v == no_token || node.contains(v); };
  bool own = is_own(sums.token);
  if constexpr (provides_v<S, stat::sampled>) {
    own = own && is_own(sums.drawn);
  }
  return own;
}

/// Tracked logit `i` of a row, -inf if another rank has its token.
template <statistics S>
[[nodiscard]] UNMASK_HD float
tracked_logit(const message_header& h, const std::byte* message, index_t row, index_t i) {
  return detail::load<float>(message + logit_offset<S>(h, row, i));
}

/// The operation of an all-reduce: `out` becomes the message for the columns of `left` and, after
/// them, of `right`, for the same rows. Associative to the bit if each chunk is cut at most once;
/// not commutative. `out` may be `left` or `right`, and is unchanged if a fault is returned. Cost:
/// O(rows * (nodes + tracked)), in one thread.
template <statistics S>
[[nodiscard]] UNMASK_HD fault merge(const std::byte* left, const std::byte* right, std::byte* out) {
  const message_header a = header_of(left);
  const message_header b = header_of(right);
  const fault differ = compare<S>(a, b);
  if (differ != fault::none) {
    return differ;
  }
  if (a.rows != b.rows) {
    return fault::other_step;
  }
  message_header both = a;
  if (a.columns.empty()) {
    both.columns = b.columns;
  } else if (!b.columns.empty()) {
    if (a.columns.last != b.columns.first) {
      return fault::not_adjacent;
    }
    both.columns.last = b.columns.last;
  }
  if (nodes_of(both.columns, both.vocab) > both.nodes) {
    return fault::too_many_nodes;
  }
  for (index_t row = a.rows.first; row < a.rows.last; ++row) {
    node_stack<S> sum{a.vocab};
    unpack<S>(a, left, row, sum);
    unpack<S>(b, right, row, sum);
    for (index_t k = 0; k < sum.size(); ++k) {
      detail::store(out + node_offset<S>(both, row, k), sum[k]);
    }
    for (index_t i = 0; i < both.tracked; ++i) {
      const float mine = tracked_logit<S>(a, left, row, i);
      const float other = tracked_logit<S>(b, right, row, i);
      detail::store(out + logit_offset<S>(both, row, i), mine == -math::infinity() ? other : mine);
    }
  }
  detail::store(out, both);
  return fault::none;
}

}  // namespace unmask::ranks
