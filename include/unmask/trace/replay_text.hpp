// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/method_parts.hpp>
#include <unmask/named/read_policy.hpp>
#include <unmask/trace/replay_table.hpp>
#include <unmask/trace/trace_reader.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Host only: a replay as the text of a policy, for hosts that take their policies as texts.
namespace UNMASK_NAMESPACE {

/// One sequence of a trace with the parts of its policy. It must outlive the sessions that replay
/// it.
class loaded_replay {
 public:
  /// Takes a sequence of a trace, by index. If the policy of a trace is not known, such as the
  /// policy of another program, tokens and steps are replayed, and the logits are taken as they
  /// are. `files` reads the file that the policy of the trace names, if any. Errors:
  /// std::invalid_argument of replay_table and of read_policy for traced_sequence::policy.
  explicit loaded_replay(const trace& from,
                         std::size_t sequence = 0,
                         const file_source& files = contents_of_file)
      : recorded_(recorded_policy(from, sequence, files))
      , table_(from, sequence) {}

  /// The policy that replays it; it points to the table.
  [[nodiscard]] named_policy policy() const { return recorded_.replaying(table_.view()); }

  /// Checks the options of a start for a sequence of the trace's length. Errors:
  /// std::invalid_argument with the first position that is masked in one of the two only, and for a
  /// trace with filled positions without a constraint.
  void check_start(const start_options& options, const sequence_shape& shape) const {
    if (table_.has_filled() && options.constraints.empty()) {
      throw std::invalid_argument("replay: a constraint filled positions of the trace: start the "
                                  "sequence with the same constraint");
    }
    const std::span<const std::uint8_t> editable = options.editable;
    const std::vector<std::uint8_t>& traced = table_.editable();
    const auto length =
        std::min(traced.size(), static_cast<std::size_t>(std::max(shape.length, 0)));
    for (auto p = static_cast<std::size_t>(std::max(shape.prompt_length, 0)); p < length; ++p) {
      const auto is = editable.empty()      ? mark::masked
                      : p < editable.size() ? static_cast<mark>(editable[p])
                                            : mark::fixed;
      const auto was = static_cast<mark>(traced[p]);
      if (is != was && is <= mark::committed) {
        constexpr const char* names[] = {"fixed", "masked", "committed"};
        throw std::invalid_argument("replay: position " + std::to_string(p) + " is " +
                                    names[static_cast<std::size_t>(is)] + ", in the trace it is " +
                                    names[static_cast<std::size_t>(was)]);
      }
    }
  }

  /// The recorded policy; one without parts if the trace does not name it.
  [[nodiscard]] const named_policy& recorded() const { return recorded_; }

  /// The table of the sequence.
  [[nodiscard]] const replay_table& table() const { return table_; }

 private:
  // Refuses, by its name and before the steps are looked at, a policy that cannot be replayed.
  [[nodiscard]] static named_policy
  recorded_policy(const trace& from, std::size_t sequence, const file_source& files) {
    if (sequence >= from.sequences.size() || from.sequences[sequence].policy.empty()) {
      return {};
    }
    const std::string& policy = from.sequences[sequence].policy;
    const std::vector<part_text> parts = parse_policy_text(policy);
    if (detail::with_name(parts, "replay") != parts.end()) {
      throw std::invalid_argument("the trace is of a replay: use the trace that its policy " +
                                  detail::quoted(policy) + " names");
    }
    const named_policy recorded = read_policy(policy, files);
    static_cast<void>(recorded.replaying({}));
    return recorded;
  }

  named_policy recorded_;
  replay_table table_;
};

/// Reads the text of a replay: "replay('decode.jsonl')" is the first sequence of the trace in that
/// file, "replay('decode.jsonl', 2)" the third. Returns null for the text of any other policy. A
/// replay is a whole policy: nothing is added to it, since its parts come from the trace.
///
/// Errors: policy_text_error with the column of what is wrong, and the reason if the file is not a
/// trace that can be replayed, without a quotation of it. Files are read in the call, by `files`:
/// the trace, and the file that its policy names, if any.
[[nodiscard]] inline std::unique_ptr<const loaded_replay>
read_replay(std::string_view text, const file_source& files = contents_of_trace) {
  const std::vector<part_text> parts = parse_policy_text(text);
  const auto found = detail::with_name(parts, "replay");
  if (found == parts.end()) {
    return nullptr;
  }
  if (parts.size() > 1) {
    throw policy_text_error(
        text, found->column, "replay is a whole policy: its other parts come from the trace");
  }
  const std::vector<argument_text>& given = found->arguments;
  const bool has_file = !given.empty() && given[0].value.is == value_text::kind::quoted &&
                        given[0].value.text.find('\0') == std::string_view::npos &&
                        (given[0].name.empty() || given[0].name == "file");
  const bool has_index = given.size() == 2 && given[1].value.is == value_text::kind::number &&
                         given[1].value.number >= 0 && given[1].value.number < 1e9 &&
                         given[1].value.number == std::floor(given[1].value.number) &&
                         (given[1].name.empty() || given[1].name == "sequence");
  if (!has_file || given.size() > 2 || (given.size() == 2 && !has_index)) {
    throw policy_text_error(text,
                            found->column,
                            "replay takes the file of a trace, in quotes, and the index of a "
                            "sequence in it: replay('decode.jsonl', 0)");
  }
  const std::string_view written = given[0].value.text;
  const std::string name(written.substr(1, written.size() - 2));
  const auto sequence =
      has_index ? static_cast<std::size_t>(given[1].value.number) : std::size_t{0};
  try {
    return std::make_unique<const loaded_replay>(read_trace(files(name)), sequence, files);
  } catch (const std::invalid_argument& e) {
    throw policy_text_error(
        text, given[0].value.column, "file " + detail::quoted(name) + ": " + e.what());
  }
}

}  // namespace unmask
