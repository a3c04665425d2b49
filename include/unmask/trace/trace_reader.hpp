// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/policy_text_error.hpp>
#include <unmask/text/json_reader.hpp>
#include <unmask/trace/trace_head.hpp>
#include <unmask/trace/trace_members.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Host only: reads a trace, the format unmask-trace/1 that README.md of this folder documents.
namespace UNMASK_NAMESPACE {

/// A step of a trace. Its candidates have no block, block_step and committed.
using traced_step = trace_step<std::vector>;

/// A sequence of a trace.
struct traced_sequence : trace_start {
  std::string policy;                  ///< Text of its policy: that of the trace, or its own.
  std::vector<std::string> parts;      ///< Its parts.
  std::vector<traced_step> steps;      ///< Its steps in order.
  ending end = ending::running;        ///< Why it ended; running: the trace was cut before.
  std::vector<token_id> final_tokens;  ///< Its tokens at the end; empty if it was cut before.
};

/// A trace as it was read.
struct trace {
  std::string model;               ///< Name of the model.
  model_info info = {};            ///< Vocabulary, mask token, EOS token and layers of the model.
  std::string policy;              ///< Text of the policy.
  std::vector<std::string> parts;  ///< Its parts.
  std::vector<traced_sequence> sequences;  ///< Its sequences, in the order of their start.
};

namespace detail {

class trace_text_reader {
 public:
  [[nodiscard]] trace read(std::string_view text) {
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != text.npos; at = end + 1) {
      ++line_;
      json_reader line(text.substr(at, end - at), "trace", line_);
      has_head_ ? read_line(line) : read_head(line);
      line.finish();
    }
    if (!has_head_) {
      throw std::invalid_argument("trace: it has no whole line");
    }
    for (traced_sequence& s : all_.sequences) {
      if (s.policy.empty() && s.parts.empty()) {
        s.policy = all_.policy;
        s.parts = all_.parts;
      }
    }
    return std::move(all_);
  }

 private:
  void read_head(json_reader& in) {
    std::string format;
    read_members(in, [&](const auto& member) {
      member("format", format);
      head_members(all_)(member);
      member("sequences", all_.sequences);
    });
    if (format != trace_format) {
      in.fail("its format must be " + std::string(trace_format));
    }
    has_head_ = true;
  }

  void read_line(json_reader& in) {
    traced_step step;
    step.line = line_;
    std::optional<traced_sequence> start;
    sequence_report report{.end = ending::running};
    std::vector<token_id> tokens;
    const std::vector<std::string> names = read_members(in, [&](const auto& member) {
      member("start", start);
      step_members(step)(member);
      end_members(report, tokens)(member);
    });
    if (start) {
      all_.sequences.push_back(std::move(*start));
      return;
    }
    traced_sequence* const sequence = sequence_in(step.slot);
    if (sequence == nullptr) {
      in.fail("no sequence was started in slot " + std::to_string(step.slot));
    }
    const auto has = [&](std::string_view name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has("step")) {
      for (const char* name : {"score", "position", "token", "log_probability", "outcome"}) {
        if (!has(name)) {
          in.fail("a step must have " + quoted(name));
        }
      }
      step.keys = has("keys") ? step.keys : range{0, sequence->shape.length};
      for (candidate_entry& e : step.candidates) {
        e.slot = step.slot;
        e.step = step.step;
        e.margin = has("margin") ? e.margin : unknown;
        e.entropy = has("entropy") ? e.entropy : unknown;
      }
      for (token_probability& e : step.soft) {
        e.slot = step.slot;
        e.step = step.step;
      }
      sequence->steps.push_back(std::move(step));
    } else if (has("end")) {
      sequence->end = report.end;
      sequence->final_tokens = std::move(tokens);
    }
  }

  // Reads an object with these members, and ignores others. Returns the names of all.
  static std::vector<std::string> read_members(json_reader& in, const auto& members) {
    std::vector<std::string> names;
    std::optional<std::size_t> count;  // of the values of each column
    in.object([&](std::string_view key) {
      names.emplace_back(key);
      bool is_known = false;
      members([&](std::string_view name, auto&& value, bool = true) {
        if (name != key) {
          return;
        }
        is_known = true;
        if constexpr (requires { value.entries; }) {
          const std::size_t values = read_column(in, value);
          if (values != count.value_or(values)) {
            in.fail("its columns must have the same number of values, " + std::to_string(*count));
          }
          count = values;
        } else {
          read(in, value);
        }
      });
      if (!is_known) {
        in.skip();
      }
    });
    return names;
  }

  // Returns the number of values.
  static std::size_t read_column(json_reader& in, auto& column) {
    std::size_t values = 0;
    const auto next = [&]() -> auto& {
      if (values == column.entries.size()) {
        column.entries.emplace_back();
      }
      return column.entries[values++].*column.member;
    };
    if constexpr (std::is_same_v<decltype(next()), candidate_outcome&>) {
      for (const char letter : in.string()) {
        const std::size_t at = trace_outcomes.find(letter);
        next() = at == trace_outcomes.npos ? candidate_outcome::held
                                           : static_cast<candidate_outcome>(at);
      }
    } else {
      in.list([&] { read(in, next(), column.missing); });
    }
    return values;
  }

  static constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

  template <class T>
  static void read(json_reader& in, T& value, float missing = unknown) {
    if constexpr (std::is_integral_v<T>) {
      value = in.whole<T>();
    } else if constexpr (std::is_floating_point_v<T>) {
      value = in.real(missing);
    } else {
      read_members(in, value);
    }
  }
  static void read(json_reader& in, std::string& value) { value = in.string(); }
  static void read(json_reader& in, std::optional<traced_sequence>& value) {
    read(in, value.emplace());
  }
  template <class T>
  static void read(json_reader& in, std::vector<T>& values) {
    in.list([&] { read(in, values.emplace_back()); });
  }
  static void read(json_reader& in, range& value) {
    std::vector<index_t> ends;
    read(in, ends);
    if (ends.size() != 2) {
      in.fail("expected two numbers");
    }
    value = {ends[0], ends[1]};
  }
  static void read(json_reader& in, ending& end) {
    end = static_cast<ending>(1 + in.one_of(std::span(trace_endings).subspan(1)));
  }
  static void read(json_reader& in, placement& branch) { read_members(in, branch_members(branch)); }
  static void read(json_reader& in, traced_sequence& s) {
    read_members(in, start_members(s, s.policy, s.parts, true));
  }

  // The last sequence of a slot.
  [[nodiscard]] traced_sequence* sequence_in(index_t slot) {
    for (std::size_t i = all_.sequences.size(); i-- > 0;) {
      if (all_.sequences[i].slot == slot) {
        return &all_.sequences[i];
      }
    }
    return nullptr;
  }

  trace all_;
  bool has_head_ = false;
  index_t line_ = 0;
};

}  // namespace detail

/// Reads a trace. A last line without its end is ignored, and so are members that are not known.
/// Errors: std::invalid_argument that names line and column of what is not a trace.
[[nodiscard]] inline trace read_trace(std::string_view text) {
  return detail::trace_text_reader().read(text);
}

}  // namespace unmask
