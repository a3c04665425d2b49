// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/part/sequence_view.hpp>
#include <unmask/core/request.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/trace/trace_lines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

/// Host only: records a decode as lines of JSON, in the format unmask-trace/1 that README.md of
/// this folder documents.
namespace UNMASK_NAMESPACE {

/// Writes the steps of a session, which was made with session_capacity::trace, as a trace:
///
///     trace_writer trace(sink, {.model = "tiny", .info = session.model(), .policy = text,
///                               .parts = part_texts(text)});
///     session.start(0, tokens, shape);
///     trace.start({.slot = 0, .shape = shape, .tokens = tokens}, session);
///     while (const auto request = session.next()) {
///       trace.request(*request, session);
///       session.supply(engine.forward(*request));
///       trace.step(session);
///     }
///
/// Any kind of session: its type needs planned(), candidates() and report(). Only reserve(),
/// start() and layer() allocate, before they change anything; so do the sink and the texts of
/// tokens. Lines are written even if the text of a token throws; the call then throws the same at
/// its end. The start of a sequence that runs does not throw; the next call does.
class trace_writer {
 public:
  /// Records a decode that `head` describes; `to` gets the lines.
  trace_writer(trace_sink to, trace_head head)
      : lines_(std::move(to), std::move(head)) {}

  /// Allocates for a sequence, whose tokens are not read, so that start() does not: for a caller
  /// that must not fail after it has started the session.
  void reserve(const trace_sequence& sequence) {
    if (!ok()) {
      return;
    }
    const std::size_t length = sequence.tokens.size();
    const auto at = static_cast<std::size_t>(sequence.slot);
    slots_.resize(std::max(slots_.size(), at + 1));
    first_.reserve(slots_.size());
    state& s = slots_[at];
    s.tokens.reserve(length);
    s.fixed.reserve(length);
    s.committed.reserve(length);
    s.filled.reserve(length);
    s.passes.reserve(1 + max_branches);
    s.branches.reserve(max_branches);
    longest_ = std::max(longest_, length);
    soft_tokens_ = std::max(soft_tokens_, sequence.options.soft_tokens);
    if (sequence.policy != nullptr) {
      policy_bytes_ = std::max(
          policy_bytes_,
          detail::trace_lines::policy_bytes(sequence.policy->text, sequence.policy->parts));
    }
    reserve_lines(static_cast<std::size_t>(math::max(lines_.model().layers, index_t{0})));
  }

  /// Adds a sequence that the session has just started, and its end if it has nothing to decode.
  /// Returns ok().
  template <class Session>
  bool start(const trace_sequence& sequence, Session& session) {
    const sequence_report& report = session.report(sequence.slot);
    std::span<const candidate_entry> filled;
    if (report.filled > 0) {
      filled = session.candidates(sequence.slot);
    }
    reserve(sequence);
    if (!ok()) {
      return false;
    }
    const auto slot = static_cast<std::size_t>(sequence.slot);
    state& s = slots_[slot];
    s.slot = sequence.slot;
    s.shape = sequence.shape;
    s.text = sequence.tokens;
    s.policy = sequence.policy;
    s.tokens.assign(sequence.tokens.begin(), sequence.tokens.end());
    s.begin_length = report.end == ending::running ? report.answer_end : 0;
    s.fixed.clear();
    s.committed.clear();
    s.filled.clear();
    for (const candidate_entry& e : filled) {
      s.filled.push_back(e.position);
    }
    const std::span<const std::uint8_t> marks = sequence.options.editable;
    for (index_t p = s.shape.prompt_length; p < s.shape.length; ++p) {
      const auto at = static_cast<std::size_t>(p);
      const bool was_mask = s.tokens[at] == lines_.model().mask_token ||
                            std::binary_search(s.filled.begin(), s.filled.end(), p);
      const mark is = !marks.empty() ? static_cast<mark>(marks[at])
                      : was_mask     ? mark::masked
                                     : mark::fixed;
      if (is == mark::committed) {
        s.committed.push_back(p);
      } else if (is == mark::fixed) {
        s.fixed.push_back(p);
      }
    }
    s.is_running = true;
    s.is_due = false;
    if (has_head_) {
      lines_.start(s);
    } else if (std::find(first_.begin(), first_.end(), slot) == first_.end()) {
      first_.push_back(slot);  // else the one before has left without a step
    }
    return report.end == ending::running ? ok() : end(sequence.slot, report);
  }

  /// Notes a request of the session, before its logits are given. One that was noted before and not
  /// decided is forgotten.
  template <class Session>
  void request(const forward_request& request, Session& session) {
    if (!ok()) {
      return;
    }
    write_head();
    lines_.raise();
    ++forward_;
    for (state& s : slots_) {
      s.is_due = false;
    }
    for (std::size_t i = 0; i < request.segments.size(); ++i) {
      const segment& s = request.segments[i];
      state* const slot = running(s.slot);
      if (slot == nullptr) {
        continue;
      }
      if (s.branch == 0) {
        slot->is_due = true;
        slot->segment = static_cast<index_t>(i);
        slot->planned = session.planned(s.slot);
        slot->passes.clear();
        slot->branches.clear();
        slot->layers.clear();
      } else if (slot->planned.kind != pass_kind::beam) {
        slot->branches.push_back(s.placed.back());
      }
      slot->passes.emplace_back(s.query, s.keys);
    }
  }

  /// Adds the number of positions that the next layer computed for a slot, in the pass of the
  /// request. Optional.
  void layer(index_t slot, index_t positions) {
    if (state* const s = running(slot)) {
      reserve_lines(s->layers.size() + 1);
      s->layers.push_back(positions);
    }
  }

  /// Writes the step of each sequence of the request, after it was decided, and the end of those
  /// that have ended. `milliseconds` is the time of the forward pass; negative: not known. Returns
  /// ok().
  template <class Session>
  bool step(Session& session, double milliseconds = -1.0) {
    for (std::size_t i = 0; ok() && i < slots_.size(); ++i) {
      state& s = slots_[i];
      if (std::exchange(s.is_due, false)) {
        const sequence_report& report = session.report(s.slot);
        const index_t first = report.last_moved;
        const index_t end =
            report.end == ending::running ? report.answer_end : session.planned(s.slot).query.last;
        const index_t winner = s.branches.empty() ? 0 : session.planned(s.slot).winner;
        const std::size_t branch = winner > 0 ? static_cast<std::size_t>(winner) : 0;
        trace_step<detail::span_of> line{.slot = s.slot,
                                         .step = report.forwards - 1,
                                         .forward = forward_,
                                         .segment = s.segment,
                                         .score = s.planned.score,
                                         .compute = s.passes[branch].first,
                                         .keys = s.passes[branch].second,
                                         .candidates = session.candidates(s.slot),
                                         .layers = s.layers,
                                         .branches = s.branches,
                                         .winner = static_cast<index_t>(branch) - 1,
                                         .soft = soft_tokens_of(session, s.slot),
                                         .milliseconds = milliseconds};
        if (!s.branches.empty()) {
          line.score.last = s.planned.branch_last[branch];
        }
        if (first >= 0) {
          line.first_moved = first;
          line.after = s.text.subspan(static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(std::max(end - first, 0)));
        }
        lines_.step(line);
        write_end(s, report);
      }
    }
    lines_.raise();
    return ok();
  }

  /// Writes the end of a sequence, if it has ended: start() and step() do so; a cancel() needs it.
  /// Returns ok().
  bool end(index_t slot, const sequence_report& report) {
    if (state* const s = running(slot)) {
      write_end(*s, report);
    }
    lines_.raise();
    return ok();
  }
  /// Overload for every sequence that has ended: after a cancel_request().
  template <class Session>
  bool end(Session& session) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (state* const s = running(static_cast<index_t>(i))) {
        write_end(*s, session.report(s->slot));
      }
    }
    lines_.raise();
    return ok();
  }

  /// True until the sink has refused a line. No line is written after that.
  [[nodiscard]] bool ok() const { return lines_.ok(); }

 private:
  using state = detail::slot_in_trace;

  // The slot, if a sequence in it runs and is recorded.
  [[nodiscard]] state* running(index_t slot) {
    const auto at = static_cast<std::size_t>(slot);
    return ok() && at < slots_.size() && slots_[at].is_running ? &slots_[at] : nullptr;
  }

  void reserve_lines(std::size_t layers) {
    std::size_t given = 0;
    for (const state& s : slots_) {
      given += has_head_ ? 0
                         : s.tokens.capacity() + s.fixed.capacity() + s.committed.capacity() +
                               s.filled.capacity();
    }
    lines_.reserve(longest_,
                   layers,
                   std::max(given, 4 * longest_),
                   slots_.size(),
                   slots_.size() * policy_bytes_,
                   static_cast<std::size_t>(soft_tokens_));
  }

  // The soft tokens of a session; none if the session type has none.
  template <class Session>
  [[nodiscard]] static std::span<const token_probability> soft_tokens_of(Session& session,
                                                                         index_t slot) {
    if constexpr (requires { session.soft_tokens(slot); }) {
      return session.soft_tokens(slot);
    }
    return {};
  }

  void write_head() {
    if (!std::exchange(has_head_, true)) {
      lines_.head(slots_, first_);
    }
  }

  // Writes the end of a sequence, if it has ended, and forgets its tokens.
  void write_end(state& s, const sequence_report& report) {
    if (report.end == ending::running) {
      return;
    }
    write_head();
    s.is_running = false;
    lines_.end(s, report);
    s.text = {};
  }

  detail::trace_lines lines_;
  std::vector<state> slots_;
  std::vector<std::size_t> first_;  // slots of the sequences of the head
  std::size_t longest_ = 0;         // tokens of a sequence
  std::size_t policy_bytes_ = 0;    // of a sequence's own policy
  index_t soft_tokens_ = 0;         // of a position of a sequence
  std::int64_t forward_ = 0;
  bool has_head_ = false;
};

}  // namespace unmask
