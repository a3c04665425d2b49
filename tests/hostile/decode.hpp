// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes the sequences of a scenario in one of several ways that must not matter.

#include <unmask/host/backend.hpp>
#include <unmask/named/named_policy.hpp>
#include <unmask/named_policy.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "hostile/scenario.hpp"

namespace unmask::hostile {

/// A violated property: its name in a word or two, and the observed values.
class violation : public std::runtime_error {
 public:
  violation(std::string what_of, const std::string& seen)
      : std::runtime_error(what_of + ": " + seen)
      , promise(std::move(what_of)) {}
  std::string promise;
};

/// A policy that the reader, or a start, refuses: no failure.
class refusal : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// State of a sequence after a step; before the first one, after its start.
struct step_record {
  /// The requested segments, without slots and rows of the tensor.
  std::vector<segment> segments;
  plan planned;
  index_t winner = 0;  ///< as the plan after the step has it
  std::vector<token_id> tokens;
  sequence_report report;
  std::vector<commit_entry> commits;
  std::vector<candidate_entry> candidates;
  std::vector<token_probability> probabilities;
  std::vector<token_probability> soft_tokens;   ///< of positions that stayed masked
  std::vector<token_probability> alternatives;  ///< of positions that got a token
  std::vector<std::uint32_t> states;            ///< constraint_state() of each field
};

/// A row from the engine, as read by a naive reader.
struct given_row {
  index_t row = 0;
  std::vector<float> logits;
  std::vector<std::uint32_t> allowed;  ///< empty: everything
  std::vector<bool> possible;          ///< by the constraints, for the oracle; empty: everything
};

/// Sees each step of a sequence. Throws violation.
class observer {
 public:
  virtual ~observer() = default;
  observer() = default;
  observer(const observer&) = delete;
  observer& operator=(const observer&) = delete;

  /// Before the start writes masks.
  virtual void on_tokens(std::size_t sequence, const std::vector<token_id>& tokens) = 0;
  virtual void on_start(std::size_t sequence, const step_record& now) = 0;
  /// `rows` are those of each segment.
  virtual void on_step(std::size_t sequence,
                       const step_record& now,
                       const std::vector<std::vector<given_row>>& rows) = 0;
  virtual void on_cancel(std::size_t sequence, const step_record& now) = 0;
};

/// How to decode.
struct way {
  std::string name;
  bool alone = false;
  bool piecewise = false;    ///< read() and decide() instead of supply()
  bool mixed = false;        ///< in slots that were made for another policy
  bool wrong_calls = false;  ///< beside the others; each is refused and changes nothing
  host::instruction_set instruction_set = host::best_instruction_set();
  int threads = 1;
  std::uint64_t slots_seed = 0;
};

/// Upper bound on a sequence's forward passes, as most_forwards() defines it.
struct bound {
  std::int64_t forwards = 0;
  /// The first so many passes may commit nothing.
  std::int64_t waits = 0;
};
[[nodiscard]] bound bound_of(const scenario& s, const sequence_plan& q);

/// Reads the policy of a scenario. Throws refusal.
[[nodiscard]] named_policy parts_of(const scenario& s);

/// All steps of all sequences. Throws refusal, or violation.
[[nodiscard]] std::vector<std::vector<step_record>>
decode(const scenario& s, const way& w, observer* tracking = nullptr);

/// A decode of every sequence alone, as a trace of each. Throws refusal.
[[nodiscard]] std::vector<std::string> recorded(const scenario& s);

/// Decodes a sequence again from its trace, with the engine of `s`, whatever that is, in any slot.
/// Throws refusal for a trace that cannot be replayed, or violation.
[[nodiscard]] std::vector<step_record>
replayed(const scenario& s, std::size_t sequence, const std::string& trace, std::uint64_t seed);

/// The ways to repeat a decode. Together they differ from the first in everything that must not
/// matter.
[[nodiscard]] std::vector<way> ways(const scenario& s);

/// Throws violation unless both are the same bit by bit, slots apart.
void compare(const std::vector<std::vector<step_record>>& got,
             const std::vector<std::vector<step_record>>& expected,
             const std::string& how);

/// A hash of everything that compare() compares.
[[nodiscard]] std::uint64_t digest(const std::vector<std::vector<step_record>>& records);

}  // namespace unmask::hostile
