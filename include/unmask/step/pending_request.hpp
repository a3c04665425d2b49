// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/fixed_array.hpp>
#include <unmask/core/request.hpp>
#include <unmask/step/slot.hpp>

#include <cstdint>
#include <span>

namespace UNMASK_NAMESPACE::step {

/// The pending request of a session: its segments, from next() until the step is decided, and which
/// of them were read. Allocates in its constructor only. Errors: std::logic_error for calls in the
/// wrong order.
class pending_request {
 public:
  pending_request(index_t sequences, index_t branches)
      : segments_(static_cast<std::size_t>(sequences) * (1 + static_cast<std::size_t>(branches)))
      , unread_(segments_.size())
      , left_out_(static_cast<std::size_t>(sequences)) {}

  [[nodiscard]] bool is_out() const { return out_; }
  [[nodiscard]] std::span<const segment> segments() const { return {segments_.data(), count_}; }
  [[nodiscard]] forward_request view() const { return {segments(), rows_}; }

  /// Makes the request of the next step of every running slot that is not left out. Returns false
  /// if no such sequence runs.
  bool make(std::span<const slot_status> statuses);

  /// Leaves no slot out of the next request.
  void choose_all();
  /// Leaves out of the next request all but these slots. Errors: std::invalid_argument for slots
  /// that do not exist or that repeat, before anything is changed.
  void choose(std::span<const index_t> slots);

  /// Check before slots are started and cancelled.
  void check_start() const;
  void check_cancel() const;
  /// Check before rows of all segments are taken at once.
  void check_supply() const;
  /// Check that something is given for each segment.
  void check_count(const char* name, std::size_t count) const;
  /// Check before rows of one segment are taken.
  void check_read(std::size_t index) const;
  void was_read(std::size_t index) {
    unread_[index] = false;
    changed_ = true;
  }
  /// A hook of the pass has changed the slots.
  void was_hooked() { changed_ = true; }
  /// Check before a step is decided whose segments were read one by one.
  void check_decide() const;
  void was_decided() { out_ = false; }
  /// Forgets the request.
  void abandon();
  /// Forgets the request, whose sequences are cancelled. Returns its segments.
  std::span<const segment> cancel();

 private:
  // True if there is a segment that was not read yet, or one that was.
  [[nodiscard]] bool any(bool unread) const;
  void add(index_t slot, const slot_status& status, index_t b);
  void add(const segment& s);

  fixed_array<segment> segments_;  ///< [0, count_) are of this request
  fixed_array<bool> unread_;       ///< true for each segment that read() has not read yet
  fixed_array<bool> left_out_;     ///< true for each slot that the next request leaves out
  std::size_t count_ = 0;
  index_t rows_ = 0;
  bool out_ = false;
  bool changed_ = false;  ///< true if it was read in part, or had a hook
};

#if UNMASK_DEFINES
UNMASK_LIBRARY bool pending_request::make(std::span<const slot_status> statuses) {
  count_ = 0;
  rows_ = 0;
  changed_ = false;
  for (std::size_t slot = 0; slot < statuses.size(); ++slot) {
    const plan& next = statuses[slot].next;
    for (index_t b = 0; next.active() && !left_out_[slot] && b < next.segments(); ++b) {
      add(static_cast<index_t>(slot), statuses[slot], b);
    }
  }
  return out_ = count_ > 0;
}

UNMASK_LIBRARY void pending_request::choose_all() {
  for (std::size_t slot = 0; slot < left_out_.size(); ++slot) {
    left_out_[slot] = false;
  }
}

UNMASK_LIBRARY void pending_request::choose(std::span<const index_t> slots) {
  check_order(!out_, "next(slots) while a request is out: supply or abandon() it first");
  for (std::size_t i = 0; i < slots.size(); ++i) {
    check_argument(slots[i] >= 0 && static_cast<std::size_t>(slots[i]) < left_out_.size(),
                   "slot",
                   slots[i],
                   "in [0, session_capacity::sequences = ",
                   left_out_.size(),
                   ")");
    for (std::size_t j = 0; j < i; ++j) {
      check_argument(slots[j] != slots[i], "slot", slots[i], "given once to next(slots)");
    }
  }
  for (std::size_t slot = 0; slot < left_out_.size(); ++slot) {
    left_out_[slot] = true;
  }
  for (const index_t slot : slots) {
    left_out_[static_cast<std::size_t>(slot)] = false;
  }
}

UNMASK_LIBRARY void pending_request::check_start() const {
  check_order(!out_,
              "start() between next() and supply(): the request is out, supply or abandon() it "
              "first");
}

UNMASK_LIBRARY void pending_request::check_cancel() const {
  check_order(!out_,
              "cancel() between next() and supply(): the request is out, supply or abandon() it "
              "first");
}

UNMASK_LIBRARY void pending_request::check_supply() const {
  check_order(out_, "supply() without a request: call next() first");
  check_order(!any(false),
              "supply() after read(): give the other segments to read(), then call decide()");
}

UNMASK_LIBRARY void pending_request::check_count(const char* name, std::size_t count) const {
  check_argument(count == count_, name, count, "the number of segments, ", count_);
}

UNMASK_LIBRARY void pending_request::check_read(std::size_t index) const {
  check_order(out_, "read() without a request: call next() first");
  check_argument(
      index < count_, "index of the segment", index, "less than the number of segments, ", count_);
  check_order(unread_[index],
              "read() of a segment that was read already: read each once, then call decide()");
}

UNMASK_LIBRARY void pending_request::check_decide() const {
  check_order(out_, "decide() without a request: call next() first");
  check_order(!any(true), "decide() before every segment of the request was given to read()");
}

UNMASK_LIBRARY void pending_request::abandon() {
  check_order(out_, "abandon() without a request: call next() first");
  check_order(!changed_,
              "abandon() after read() or at_layer(), which have changed what the step is decided "
              "from: repeat the pass and supply it, or call cancel_request()");
  out_ = false;
}

UNMASK_LIBRARY std::span<const segment> pending_request::cancel() {
  check_order(out_, "cancel_request() without a request: call next() first");
  out_ = false;
  return segments();
}

UNMASK_LIBRARY bool pending_request::any(bool unread) const {
  bool found = false;
  for (std::size_t i = 0; i < count_; ++i) {
    found = found || unread_[i] == unread;
  }
  return found;
}

UNMASK_LIBRARY void pending_request::add(index_t slot, const slot_status& status, index_t b) {
  const plan& next = status.next;
  if (b > next.branches) {
    segment shadow = segments_[count_ - 1];
    shadow.query = next.shadow;
    shadow.rows = status.shadow_rows;
    shadow.attention = attention_kind::shadow;
    shadow.shadow_of = static_cast<index_t>(count_) - 1;
    return add(shadow);
  }
  const range tokens = next.placed(b);
  const std::span<const placement> placed{next.branch + tokens.first,
                                          static_cast<std::size_t>(tokens.size())};
  segment s{.slot = slot,
            .branch = b,
            .placed = placed,
            .query = next.query,
            .rows = status.rows_of(b),
            .keys = next.keys,
            .evict = next.evict,
            .attention = next.attention,
            .logits_shift = next.logits_shift};
  if (next.branches > 0) {
    const index_t last = next.branch_last[b];
    s.query.last -= next.score.last - last;
    s.keys.last -= next.score.last - last;
  }
  add(s);
}

UNMASK_LIBRARY void pending_request::add(const segment& s) {
  segments_[count_] = s;
  segments_[count_].first_row = rows_;
  unread_[count_++] = true;
  rows_ += s.rows.size();
}
#endif

}  // namespace unmask::step
