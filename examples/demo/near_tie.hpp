// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "demo/decode.hpp"

namespace demo {

/// A decision between two numbers: which of them was larger decided what happened.
struct close_call {
  index_t forward = 0;  ///< counted from 1
  std::string between;  ///< what competed
  double first = 0.0;   ///< the probabilities, or a probability and the threshold
  double second = 0.0;

  /// Distance of the two, as logits: two correct engines that add in another order move a
  /// logit by some 1e-5.
  double distance() const;

  /// Whether such an engine may have decided otherwise.
  bool near_tie() const;

  std::string text() const;
};

/// Observes a second decode of one problem to find out why it does not come out as the reference
/// did: the first committed token that differs, and the closest decision up to that forward.
class tie_finder {
 public:
  /// `threshold` is that of the rule; none for the rule that commits the best position alone.
  tie_finder(const example::char_tokenizer& text,
             std::vector<token_id> reference,
             std::optional<double> threshold);

  void see(const step_seen& step);

  /// The first committed token that is not the reference's; none if all tokens agree.
  const std::optional<close_call>& difference() const { return difference_; }

  /// The closest decision up to there.
  const std::optional<close_call>& closest() const { return closest_; }

 private:
  struct row {
    std::size_t position = 0;  // of the answer
    token_id best = 0;
    double confidence = 0.0;
    double second = 0.0;
    double wanted = 0.0;  // probability of the reference's token
  };

  row read(const step_seen& step, index_t r) const;
  void consider(const close_call& call);

  const example::char_tokenizer& text_;
  std::vector<token_id> reference_;
  std::optional<double> threshold_;
  std::vector<bool> open_;
  std::optional<close_call> difference_;
  std::optional<close_call> closest_;
};

}  // namespace demo
