// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/request.hpp>
#include <unmask/text/json_text.hpp>
#include <unmask/trace/token_texts.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/version.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail {

/// A slot of a trace: its sequence, and the step that was requested.
struct slot_in_trace {
  index_t slot = 0;
  sequence_shape shape = {};
  std::span<const token_id> tokens = {};  ///< the caller's, until the end
  std::vector<token_id> given = {};       ///< the same at the start
  std::vector<index_t> fixed = {};        ///< positions after the prompt
  std::vector<index_t> committed = {};    ///< those committed at the start
  std::vector<index_t> filled = {};       ///< those that a constraint filled at the start
  std::shared_ptr<const trace_policy> policy = {};
  index_t begin_length = 0;  ///< positions at the start; 0: all
  bool is_running = false;
  bool is_due = false;  ///< its step has been requested and not written
  std::size_t segment = 0;
  plan planned = {};
  std::vector<std::pair<range, range>> passes = {};  ///< queries and keys, by branch
  std::vector<placement> branches = {};
  std::vector<index_t> layers = {};
};

/// The lines of a trace, each of which is written as a whole. Allocates in reserve() alone, apart
/// from the texts of tokens and the sink.
class trace_lines {
 public:
  trace_lines(trace_sink to, trace_head head)
      : sink_(std::move(to))
      , head_(std::move(head))
      , library_("unmask " + std::to_string(UNMASK_VERSION_MAJOR) + '.' +
                 std::to_string(UNMASK_VERSION_MINOR) + '.' + std::to_string(UNMASK_VERSION_PATCH))
      , texts_(std::move(head_.text), head_.info.vocab) {}

  [[nodiscard]] const model_info& model() const { return head_.info; }
  /// True until the sink has refused a line. No line is written after that.
  [[nodiscard]] bool ok() const { return ok_; }
  /// Throws what has prevented the text of a token since the last call.
  void raise() { texts_.raise(); }

  /// Makes room for lines about sequences of so many tokens that compute so many layers; the head
  /// has as many tokens and fixed positions as `given`, of so many sequences, whose own policies
  /// take so many bytes, and has so many soft tokens of a position.
  void reserve(std::size_t length,
               std::size_t layers,
               std::size_t given,
               std::size_t sequences,
               std::size_t policies,
               std::size_t soft) {
    constexpr std::size_t names = 512;  // of all members of a line
    constexpr std::size_t whole = 12;   // bytes of a number, with its comma
    constexpr std::size_t real = 17;
    constexpr std::size_t candidate = 3 * whole + 4 * real + 1;
    constexpr std::size_t branch = 96;
    longest_ = std::max(longest_, length);
    soft_ = std::max(soft_, soft);
    const std::size_t step = names + soft_ * longest_ * (2 * whole + 2 * real) +
                             (longest_ + 1) * (candidate + whole) + max_placed * branch +
                             layers * whole;
    const std::size_t head = names * (1 + sequences) + given * whole +
                             json_text::most_bytes(head_.model.size()) +
                             policy_bytes(head_.policy, head_.parts) + policies;
    line_.clear();
    line_.reserve(std::max(step, head));
    outcomes_.reserve(longest_ + 1);
    texts_.reserve(given + (2 + soft_) * longest_ + 1 + max_placed);
  }

  /// Bytes of a policy in a line, at most.
  [[nodiscard]] static std::size_t policy_bytes(std::string_view text,
                                                std::span<const std::string> parts) {
    std::size_t bytes = json_text::most_bytes(text.size());
    for (const std::string& part : parts) {
      bytes += json_text::most_bytes(part.size());
    }
    return bytes;
  }

  /// Writes the head, with the sequences of these slots.
  void head(std::span<const slot_in_trace> slots, std::span<const std::size_t> first) {
    begin();
    line_.key("format");
    line_.string(trace_format);
    line_.key("library");
    line_.string(library_);
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
    write_policy(head_.policy, head_.parts);
    member("seed", first.empty() ? 0 : slots[first.front()].shape.seed);
    line_.key("sequences");
    line_.open('[');
    for (const std::size_t slot : first) {
      write(slots[slot]);
    }
    line_.close(']');
    texts_.write(line_);
    finish();
  }

  /// Writes the start of a sequence.
  void start(const slot_in_trace& s) {
    begin();
    line_.key("start");
    write(s);
    texts_.write(line_);
    finish();
  }

  /// Writes a step, its candidates and soft tokens. `forward` counts the passes of the engine;
  /// `winner` is a branch, or -1; `moved` are the positions from the first whose text has moved to
  /// the end of the text, perhaps none; {-1, -1} if no text has moved.
  void step(const slot_in_trace& s,
            std::span<const candidate_entry> all,
            std::span<const token_probability> soft,
            index_t step,
            std::int64_t forward,
            index_t winner,
            range moved,
            double milliseconds) {
    begin();
    member("slot", s.slot);
    member("step", step);
    member("forward", forward);
    member("segment", s.segment);
    const auto branch =
        static_cast<std::size_t>(std::ptrdiff_t{winner} + 1);  // 0: the sequence itself
    const index_t scored =
        s.branches.empty() ? s.planned.score.last : s.planned.branch_last[branch];
    write("score", {s.planned.score.first, scored});
    write("compute", s.passes[branch].first);
    write("keys", s.passes[branch].second);
    column("position", all, &candidate_entry::position);
    column("token", all, &candidate_entry::token);
    for (const candidate_entry& e : all) {
      texts_.need(e.token);
    }
    column("log_probability", all, &candidate_entry::log_probability);
    column("confidence", all, &candidate_entry::confidence);
    known_column("margin", all, &candidate_entry::margin);
    known_column("entropy", all, &candidate_entry::entropy);
    outcomes_.clear();
    for (const candidate_entry& e : all) {
      outcomes_ += trace_outcomes[static_cast<std::size_t>(e.outcome)];
    }
    line_.key("outcome");
    line_.string(outcomes_);
    column("by", all, &candidate_entry::part);
    column("rank", all, &candidate_entry::rank);
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
        member("token", p.token);
        texts_.need(p.token);
        member("score", p.lookahead_score);
        line_.close('}');
      }
      line_.close(']');
      if (winner >= 0) {
        member("winner", winner);
      }
    }
    if (moved.first >= 0) {
      line_.key("after");
      line_.open('{');
      member("first", moved.first);
      line_.key("tokens");
      write_tokens(s.tokens.subspan(static_cast<std::size_t>(moved.first),
                                    static_cast<std::size_t>(moved.size())));
      line_.close('}');
    }
    if (!soft.empty()) {
      line_.key("soft");
      line_.open('{');
      column("position", soft, &token_probability::position);
      column("token", soft, &token_probability::token);
      column("probability", soft, &token_probability::probability);
      column("share", soft, &token_probability::share);
      line_.close('}');
      for (const token_probability& e : soft) {
        texts_.need(e.token);
      }
    }
    if (milliseconds >= 0.0) {
      member("milliseconds", milliseconds);
    }
    texts_.write(line_);
    finish();
  }

  /// Writes the end of a sequence.
  void end(const slot_in_trace& s, const sequence_report& report) {
    begin();
    member("slot", s.slot);
    line_.key("end");
    line_.string(trace_endings[static_cast<std::size_t>(report.end)]);
    member("forwards", report.forwards);
    member("committed", report.committed);
    line_.key("tokens");
    write_tokens(s.tokens);
    texts_.write(line_);
    finish();
  }

 private:
  void member(std::string_view name, auto value) {
    line_.key(name);
    line_.number(value);
  }
  void write(std::string_view name, range r) {
    line_.key(name);
    line_.numbers(std::array{r.first, r.last});
  }
  void write(const slot_in_trace& s) {
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
    write_tokens(s.given);
    line_.key("fixed");
    line_.numbers(s.fixed);
    if (!s.committed.empty()) {
      line_.key("committed");
      line_.numbers(s.committed);
    }
    if (!s.filled.empty()) {
      line_.key("filled");
      line_.numbers(s.filled);
    }
    if (s.policy != nullptr) {
      write_policy(s.policy->text, s.policy->parts);
    }
    if (s.begin_length > 0 && s.begin_length < s.shape.length) {
      member("begin_length", s.begin_length);
    }
    line_.close('}');
  }
  void write_policy(std::string_view text, std::span<const std::string> parts) {
    line_.key("policy");
    line_.string(text);
    line_.key("parts");
    line_.open('[');
    for (const std::string& part : parts) {
      line_.string(part);
    }
    line_.close(']');
  }

  // Tokens, whose texts are then known to be needed.
  void write_tokens(std::span<const token_id> tokens) {
    line_.numbers(tokens);
    for (const token_id token : tokens) {
      texts_.need(token);
    }
  }

  // One column: a number of each candidate, or soft token.
  template <class Entry>
  void column(std::string_view name, std::span<const Entry> all, auto member) {
    line_.key(name);
    line_.open('[');
    for (const Entry& e : all) {
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

  void begin() {
    line_.clear();
    line_.open('{');
  }
  // Ends the object and gives the line to the sink.
  void finish() {
    line_.close('}');
    if (std::exchange(ok_, false)) {
      ok_ = sink_(line_.line());
    }
  }

  trace_sink sink_;
  trace_head head_;
  std::string library_;
  token_texts texts_;
  json_text line_;
  std::string outcomes_;
  std::size_t longest_ = 0;
  std::size_t soft_ = 0;
  bool ok_ = true;
};

}  // namespace UNMASK_NAMESPACE::detail
