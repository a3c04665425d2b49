// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/text/json_text.hpp>
#include <unmask/trace/token_texts.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/trace/trace_members.hpp>
#include <unmask/version.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail {

/// A slot of a trace: its sequence, and the step that was requested.
struct slot_in_trace : trace_start {
  std::span<const token_id> text = {};  ///< the caller's tokens, until the end
  std::shared_ptr<const trace_policy> policy = {};
  bool is_running = false;
  bool is_due = false;  ///< its step has been requested and not written
  index_t segment = 0;
  plan planned = {};
  std::vector<std::pair<range, range>> passes = {};  ///< queries and keys, by branch
  std::vector<placement> branches = {};
  std::vector<index_t> layers = {};
};

/// Entries that a step only reads.
template <class T>
using span_of = std::span<const T>;

/// The lines of a trace. Each is written as a whole. Allocates in reserve() alone, apart
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

  /// Makes room for lines about sequences with these numbers of tokens and of computed layers. The
  /// head has `given` tokens and fixed positions, of the given number of sequences, the bytes of
  /// their own policies, and the given number of soft tokens per position.
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
    for (const std::size_t slot : first) {
      need(slots[slot].tokens);
    }
    line([&](const auto& member) {
      member("format", trace_format);
      member("library", library_);
      head_members(head_)(member);
      member("seed", first.empty() ? 0 : slots[first.front()].shape.seed);
      member("sequences", some_slots{slots, first});
    });
  }

  /// Writes the start of a sequence.
  void start(const slot_in_trace& s) {
    need(s.tokens);
    line([&](const auto& member) { member("start", s); });
  }

  /// Writes a step.
  void step(const trace_step<span_of>& s) {
    need(s.candidates);
    need(s.branches);
    need(s.after);
    need(s.soft);
    line(step_members(s));
  }

  /// Writes the end of a sequence.
  void end(const slot_in_trace& s, const sequence_report& report) {
    need(s.text);
    line([&](const auto& member) {
      member("slot", s.slot);
      end_members(report, s.text)(member);
    });
  }

 private:
  struct some_slots {
    std::span<const slot_in_trace> slots;
    std::span<const std::size_t> which;
  };

  // Notes tokens, or those of entries, whose texts the next line has.
  void need(const auto& all) {
    for (const auto& one : all) {
      if constexpr (requires { one.token; }) {
        texts_.need(one.token);
      } else {
        texts_.need(one);
      }
    }
  }

  // Writes a line with these members, and gives it to the sink.
  void line(const auto& members) {
    line_.clear();
    line_.open('{');
    write_members(members);
    texts_.write(line_);
    line_.close('}');
    if (std::exchange(ok_, false)) {
      ok_ = sink_(line_.line());
    }
  }

  void write_members(const auto& members) {
    members([&](std::string_view name, const auto& value, bool is_written = true) {
      if (is_written) {
        line_.key(name);
        write(value);
      }
    });
  }

  template <class T>
  void write(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      line_.number(value);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      line_.string(value);
    } else if constexpr (requires { value.begin(); }) {
      line_.open('[');
      for (const auto& element : value) {
        write(element);
      }
      line_.close(']');
    } else {
      line_.open('{');
      write_members(value);
      line_.close('}');
    }
  }
  template <class List, class Entry, class Value>
  void write(const trace_column<List, Entry, Value>& column) {
    if constexpr (std::is_same_v<Value, candidate_outcome>) {
      outcomes_.clear();
      for (const auto& entry : column.entries) {
        outcomes_ += trace_outcomes[static_cast<std::size_t>(entry.*column.member)];
      }
      line_.string(outcomes_);
    } else {
      line_.open('[');
      for (const auto& entry : column.entries) {
        line_.number(entry.*column.member);
      }
      line_.close(']');
    }
  }
  void write(const some_slots& some) {
    line_.open('[');
    for (const std::size_t slot : some.which) {
      write(some.slots[slot]);
    }
    line_.close(']');
  }
  void write(range r) { line_.numbers(std::array{r.first, r.last}); }
  void write(ending end) { line_.string(trace_endings[static_cast<std::size_t>(end)]); }
  void write(const placement& branch) { write(branch_members(branch)); }
  void write(const slot_in_trace& s) {
    static const trace_policy none;
    const trace_policy& own = s.policy != nullptr ? *s.policy : none;
    write(start_members(s, own.text, own.parts, s.policy != nullptr));
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
