// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/request.hpp>
#include <unmask/step/slot.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::step {

/// The pending request of a session: its segments, from next() until the step is decided, and which
/// of them were read. Allocates in its constructor only. Errors: std::logic_error for calls in the
/// wrong order.
class pending_request {
 public:
  explicit pending_request(const session_capacity& capacity) {
    const std::size_t most = static_cast<std::size_t>(capacity.sequences) *
                             (1 + static_cast<std::size_t>(capacity.branches));
    segments_.reserve(most);
    unread_.reserve(most);
  }

  [[nodiscard]] bool is_out() const { return out_; }
  [[nodiscard]] std::span<const segment> segments() const { return segments_; }
  [[nodiscard]] forward_request view() const { return {segments_, rows_}; }

  /// Makes the request of the next step of every running slot, for policies with or without
  /// lookahead. Returns false if no sequence runs.
  bool make(std::span<const slot_status> statuses, index_t logits_shift, bool branches) {
    segments_.clear();
    rows_ = 0;
    for (std::size_t slot = 0; slot < statuses.size(); ++slot) {
      const plan& next = statuses[slot].next;
      for (index_t b = 0; next.active() && b <= next.branches; ++b) {
        add(static_cast<index_t>(slot), statuses[slot], b, logits_shift, branches);
      }
    }
    unread_.assign(segments_.size(), 1);
    out_ = !segments_.empty();
    return out_;
  }

  /// Check before rows of all segments are taken at once.
  void check_supply() const {
    check_order(out_, "supply() without a request: call next() first");
    check_order(std::find(unread_.begin(), unread_.end(), 0) == unread_.end(),
                "supply() after read(): give the other segments to read(), then call decide()");
  }
  /// Check before rows of one segment are taken.
  void check_read(std::size_t index) const {
    check_order(out_, "read() without a request: call next() first");
    check_argument(index < segments_.size(),
                   "index of the segment",
                   index,
                   "less than the number of segments, ",
                   segments_.size());
    check_order(unread_[index] != 0,
                "read() of a segment that was read already: read each once, then call decide()");
  }
  void was_read(std::size_t index) { unread_[index] = 0; }
  /// Check before a step is decided whose segments were read one by one.
  void check_decide() const {
    check_order(out_, "decide() without a request: call next() first");
    check_order(std::find(unread_.begin(), unread_.end(), 1) == unread_.end(),
                "decide() before every segment of the request was given to read()");
  }
  void was_decided() { out_ = false; }

 private:
  void
  add(index_t slot, const slot_status& status, index_t b, index_t logits_shift, bool branches) {
    const plan& next = status.next;
    segment s{slot, b, {}, next.query, status.rows, rows_, next.keys, next.evict};
    if (b > 0) {
      s.placed = next.branch[b - 1];
    }
    if (branches) {
      const index_t last = next.branch_last[b];
      s.query.last -= next.score.last - last;
      s.keys.last -= next.score.last - last;
      s.rows.last = std::min(s.rows.last, std::max(last - 1 - logits_shift, 0) + 1);
    }
    segments_.push_back(s);
    rows_ += s.rows.size();
  }

  std::vector<segment> segments_;
  std::vector<std::uint8_t> unread_;  ///< 1 for each segment that read() has not read yet
  index_t rows_ = 0;
  bool out_ = false;
};

}  // namespace unmask::step
