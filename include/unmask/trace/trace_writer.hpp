// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/request.hpp>
#include <unmask/trace/json_text.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/version.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
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
///     trace.start({.slot = 0, .shape = shape, .tokens = tokens});
///     while (const auto request = session.next()) {
///       trace.request(*request, session);
///       session.supply(engine.forward(*request));
///       trace.step(session);
///     }
///
/// Any kind of session: its type needs planned(), candidates() and report(). Allocates between the
/// steps, never inside one.
class trace_writer {
 public:
  /// Records a decode that `head` describes; `to` gets the lines.
  trace_writer(trace_sink to, trace_head head)
      : sink_(std::move(to))
      , head_(std::move(head)) {}

  /// Adds a sequence that the session has just started.
  void start(const trace_sequence& sequence) {
    const auto slot = static_cast<std::size_t>(sequence.slot);
    slots_.resize(std::max(slots_.size(), slot + 1));
    slots_[slot] = {sequence, true, false};
    if (has_head_) {
      line_.clear();
      line_.open('{');
      line_.key("start");
      write(sequence);
      write_texts();
      finish();
    } else if (std::find(first_.begin(), first_.end(), slot) == first_.end()) {
      first_.push_back(slot);  // else the one before has left without a step
    }
  }

  /// Notes a request of the session, before its logits are given. One that was noted before and not
  /// decided is forgotten.
  template <class Session>
  void request(const forward_request& request, Session& session) {
    write_head();
    ++forward_;
    for (slot_state& s : slots_) {
      s.is_due = false;
    }
    for (std::size_t i = 0; i < request.segments.size(); ++i) {
      const segment& s = request.segments[i];
      slot_state* const slot = running(s.slot);
      if (slot == nullptr) {
        continue;
      }
      if (s.branch == 0) {
        slot->is_due = true;
        slot->segment = i;
        slot->planned = session.planned(s.slot);
        slot->passes.clear();
        slot->branches.clear();
        slot->layers.clear();
      } else {
        slot->branches.push_back(s.placed);
      }
      slot->passes.emplace_back(s.query, s.keys);
    }
  }

  /// Adds the number of positions that the next layer computed for a slot, in the pass of the
  /// request. Optional.
  void layer(index_t slot, index_t positions) {
    if (slot_state* const s = running(slot)) {
      s->layers.push_back(positions);
    }
  }

  /// Writes the step of each sequence of the request, after it was decided, and the end of those
  /// that have ended. `milliseconds` is the time of the forward pass; negative: not known. Returns
  /// ok().
  template <class Session>
  bool step(Session& session, double milliseconds = -1.0) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slot_state& s = slots_[i];
      if (std::exchange(s.is_due, false)) {
        const auto slot = static_cast<index_t>(i);
        const sequence_report& report = session.report(slot);
        const bool won = !s.branches.empty() && session.planned(slot).winner > 0;
        write_step(s,
                   session.candidates(slot),
                   report.forwards - 1,
                   won ? session.planned(slot).winner - 1 : -1,
                   milliseconds);
        end(slot, report);
      }
    }
    return ok();
  }

  /// Writes the end of a sequence, if it has ended: step() does so, except after a cancel().
  /// Returns ok().
  bool end(index_t slot, const sequence_report& report) {
    slot_state* const s = running(slot);
    if (s == nullptr || report.end == ending::running) {
      return ok();
    }
    write_head();
    s->is_running = false;
    line_.clear();
    line_.open('{');
    member("slot", slot);
    line_.key("end");
    line_.string(trace_endings[static_cast<std::size_t>(report.end)]);
    member("forwards", report.forwards);
    member("committed", report.committed);
    line_.key("tokens");
    write_tokens(s->sequence.tokens);
    write_texts();
    finish();
    return ok();
  }

  /// True until the sink has refused a line. No line is written after that.
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  struct slot_state {
    trace_sequence sequence;
    bool is_running = false;
    bool is_due = false;  ///< its step has been requested and not written
    std::size_t segment = 0;
    plan planned = {};
    std::vector<std::pair<range, range>> passes = {};  // queries and keys, by branch
    std::vector<placement> branches = {};
    std::vector<index_t> layers = {};
  };

  [[nodiscard]] slot_state* running(index_t slot) {
    const auto at = static_cast<std::size_t>(slot);
    return at < slots_.size() && slots_[at].is_running ? &slots_[at] : nullptr;
  }

  void member(std::string_view name, auto value) {
    line_.key(name);
    line_.number(value);
  }
  void write(std::string_view name, range r) {
    line_.key(name);
    line_.numbers(std::array{r.first, r.last});
  }

  // The tokens, whose texts are then known to be needed.
  void write_tokens(std::span<const token_id> tokens) {
    line_.open('[');
    for (const token_id token : tokens) {
      write_token(token);
    }
    line_.close(']');
  }
  void write_token(token_id token) {
    line_.number(token);
    const auto at = static_cast<std::size_t>(token);
    if (head_.text && token >= 0 && token < max_vocab) {
      if (at >= has_text_.size()) {
        has_text_.resize(at + 1);
      }
      if (!has_text_[at]) {
        has_text_[at] = true;
        new_tokens_.push_back(token);
      }
    }
  }
  // The texts of the tokens that occur for the first time in this line.
  void write_texts() {
    if (new_tokens_.empty()) {
      return;
    }
    line_.key("text");
    line_.open('{');
    for (const token_id token : new_tokens_) {
      line_.key(std::to_string(token));
      line_.string(head_.text(token));
    }
    line_.close('}');
    new_tokens_.clear();
  }

  void write(const trace_sequence& s) {
    line_.open('{');
    member("slot", s.slot);
    member("sequence", s.shape.sequence);
    member("seed", s.shape.seed);
    line_.key("shape");
    line_.open('{');
    member("prompt_length", s.shape.prompt_length);
    member("length", s.shape.length);
    member("block_length", s.shape.block_length);
    line_.close('}');
    line_.key("tokens");
    write_tokens(s.tokens);
    line_.key("fixed");
    line_.open('[');
    for (index_t p = s.shape.prompt_length; p < s.shape.length; ++p) {
      const auto at = static_cast<std::size_t>(p);
      const bool is_masked =
          s.editable != nullptr ? s.editable[p] != 0 : s.tokens[at] == head_.info.mask_token;
      if (!is_masked) {
        line_.number(p);
      }
    }
    line_.close(']');
    line_.close('}');
  }

  void write_head() {
    if (std::exchange(has_head_, true)) {
      return;
    }
    line_.clear();
    line_.open('{');
    line_.key("format");
    line_.string(trace_format);
    line_.key("library");
    line_.string("unmask " + std::to_string(UNMASK_VERSION_MAJOR) + '.' +
                 std::to_string(UNMASK_VERSION_MINOR) + '.' + std::to_string(UNMASK_VERSION_PATCH));
    line_.key("model");
    line_.open('{');
    line_.key("name");
    line_.string(head_.model);
    member("vocab", head_.info.vocab);
    member("mask", head_.info.mask_token);
    if (head_.info.eos_token != no_token) {
      member("eos", head_.info.eos_token);
    }
    member("layers", head_.info.layers);
    line_.close('}');
    line_.key("policy");
    line_.string(head_.policy);
    line_.key("parts");
    line_.open('[');
    for (const std::string& part : head_.parts) {
      line_.string(part);
    }
    line_.close(']');
    member("seed", first_.empty() ? 0 : slots_[first_.front()].sequence.shape.seed);
    line_.key("sequences");
    line_.open('[');
    for (const std::size_t slot : first_) {
      write(slots_[slot].sequence);
    }
    line_.close(']');
    write_texts();
    finish();
  }

  // One column: a number of each candidate.
  void column(std::string_view name, std::span<const candidate_entry> all, auto member) {
    line_.key(name);
    line_.open('[');
    for (const candidate_entry& e : all) {
      line_.number(e.*member);
    }
    line_.close(']');
  }
  // The same, unless it has no number.
  void known_column(std::string_view name,
                    std::span<const candidate_entry> all,
                    float candidate_entry::* member) {
    const bool is_known = std::any_of(all.begin(), all.end(), [member](const candidate_entry& e) {
      return !std::isnan(e.*member);
    });
    if (is_known) {
      column(name, all, member);
    }
  }

  void write_step(const slot_state& s,
                  std::span<const candidate_entry> all,
                  index_t step,
                  index_t winner,
                  double milliseconds) {
    line_.clear();
    line_.open('{');
    member("slot", s.sequence.slot);
    member("step", step);
    member("forward", forward_);
    member("segment", s.segment);
    const auto branch =
        static_cast<std::size_t>(std::ptrdiff_t{winner} + 1);  // 0: the sequence itself
    const index_t scored =
        s.branches.empty() ? s.planned.score.last : s.planned.branch_last[branch];
    write("score", {s.planned.score.first, scored});
    write("compute", s.passes[branch].first);
    write("keys", s.passes[branch].second);
    column("position", all, &candidate_entry::position);
    line_.key("token");
    line_.open('[');
    for (const candidate_entry& e : all) {
      write_token(e.token);
    }
    line_.close(']');
    column("log_probability", all, &candidate_entry::log_probability);
    column("confidence", all, &candidate_entry::confidence);
    known_column("margin", all, &candidate_entry::margin);
    known_column("entropy", all, &candidate_entry::entropy);
    std::string outcomes;
    for (const candidate_entry& e : all) {
      outcomes += trace_outcomes[static_cast<std::size_t>(e.outcome)];
    }
    line_.key("outcome");
    line_.string(outcomes);
    column("by", all, &candidate_entry::part);
    if (!s.layers.empty()) {
      line_.key("layers");
      line_.numbers(s.layers);
    }
    if (!s.branches.empty()) {
      line_.key("branches");
      line_.open('[');
      for (const placement& p : s.branches) {
        line_.open('{');
        member("position", p.position);
        line_.key("token");
        write_token(p.token);
        member("score", p.lookahead_score);
        line_.close('}');
      }
      line_.close(']');
      if (winner >= 0) {
        member("winner", winner);
      }
    }
    if (milliseconds >= 0.0) {
      member("milliseconds", milliseconds);
    }
    write_texts();
    finish();
  }

  // Ends the object and gives the line to the sink.
  void finish() {
    line_.close('}');
    ok_ = ok_ && sink_(line_.line());
  }

  trace_sink sink_;
  trace_head head_;
  json_text line_;
  std::vector<slot_state> slots_;
  std::vector<std::size_t> first_;  // slots of the sequences of the head
  std::vector<bool> has_text_;      // by token
  std::vector<token_id> new_tokens_;
  std::int64_t forward_ = 0;
  bool has_head_ = false;
  bool ok_ = true;
};

}  // namespace unmask
