// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "demo/decode.hpp"

namespace demo {

/// Number of right answers of one task.
struct exact_match {
  std::string task;
  int right = 0;
  int of = 0;  ///< problems whose answer is known
};

/// One line of the table: what a policy got right and what it cost.
struct summary {
  std::string policy;
  std::string cache = "none";
  std::string about;
  std::vector<exact_match> tasks;
  std::vector<std::string> answers;  ///< texts up to the EOS token, task by task
  std::string right;          ///< '1' for each problem answered right, else '0', task by task
  int whole = 0;              ///< right answers with nothing but EOS tokens after their end
  std::int64_t forwards = 0;  ///< of single sequences, however many ran together
  std::vector<index_t> forwards_each;  ///< the same, of each problem
  std::int64_t segments = 0;           ///< the same, lookahead branches counted, too
  std::vector<index_t> segments_each;
  std::vector<index_t> masked_each;    ///< masked or wrong positions whose right token is known
  std::vector<index_t> restored_each;  ///< those of them that got it
  std::vector<index_t> wrong_each;     ///< all positions that have another token at the end
  std::int64_t committed = 0;          ///< tokens that decisions committed
  std::int64_t forced = 0;             ///< among them, forced commits
  std::int64_t answer_tokens = 0;      ///< tokens before the EOS tokens
  std::int64_t computed = 0;  ///< layer-positions: positions that each layer computed, summed
  std::int64_t in_full = 0;   ///< those of the same passes, had each been a full forward
  std::string profile;  ///< what a policy learned from the first problem of the last task, as JSON
  double engine_seconds = 0.0;
  double policy_seconds = 0.0;

  /// The policy, with its cache if it has one.
  std::string label() const { return policy + (cache == "none" ? "" : " + " + cache); }
  double share_computed() const {
    return in_full > 0 ? static_cast<double>(computed) / static_cast<double>(in_full) : 0.0;
  }
  /// Share of the masked positions that got the right token; -1 where none is known.
  double share_restored() const;
  double tokens_per_forward() const { return per_forward(committed); }
  double answer_tokens_per_forward() const { return per_forward(answer_tokens); }

 private:
  double per_forward(std::int64_t count) const {
    return forwards > 0 ? static_cast<double>(count) / static_cast<double>(forwards) : 0.0;
  }
};

/// Adds up what became of the problems under one policy.
summary summarize(std::string policy,
                  std::string about,
                  std::span<const problem> problems,
                  const decoding& results);

/// The table as text, so that rows can be printed as they are computed.
class table_text {
 public:
  /// `widest` is the length of the longest policy name; `problems` is how many there are in all;
  /// `restored` adds a column with the share of right tokens.
  table_text(std::vector<std::string> tasks,
             std::size_t widest,
             std::size_t problems,
             bool restored = false);
  std::string header() const;
  std::string row(const summary& s) const;

 private:
  std::vector<std::string> tasks_;
  std::size_t name_width_;
  std::size_t task_width_ = 0;
  bool restored_ = false;
};

}  // namespace demo
