// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/near_tie.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace demo {

namespace {

double log_odds(double p) {
  constexpr double least = 1e-12;  // keeps certainty finite
  p = std::clamp(p, least, 1.0 - least);
  return std::log(p / (1.0 - p));
}

std::string name_of(token_id token, const example::char_tokenizer& text) {
  return token == text.end() ? "end" : std::string("'") + text.decode({&token, 1}) + "'";
}

}  // namespace

double close_call::distance() const {
  return std::abs(log_odds(first) - log_odds(second));
}

bool close_call::near_tie() const {
  constexpr double logits = 1e-3;
  constexpr double rounding = 2e-7;  // of a probability close to 1, as a float
  return distance() <= logits || std::abs(first - second) <= rounding;
}

std::string close_call::text() const {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, ": %.7f against %.7f", first, second);
  return "forward " + std::to_string(forward) + ", " + between + numbers;
}

tie_finder::tie_finder(const example::char_tokenizer& text,
                       std::vector<token_id> reference,
                       std::optional<double> threshold)
    : text_(text)
    , reference_(std::move(reference))
    , threshold_(threshold)
    , open_(reference_.size(), true) {}

tie_finder::row tie_finder::read(const step_seen& step, index_t r) const {
  row result;
  result.position = static_cast<std::size_t>(step.rows.first + r - step.prompt_length);
  const float* const z = step.logits.row(r);
  token_id second = unmask::no_token;
  for (token_id v = 0, best = unmask::no_token; v < step.logits.columns; ++v) {
    if (v == text_.mask()) {
      continue;
    }
    if (best == unmask::no_token || z[v] > z[best]) {
      second = std::exchange(best, v);
      result.best = v;
    } else if (second == unmask::no_token || z[v] > z[second]) {
      second = v;
    }
  }
  const auto weight = [&](token_id v) {
    return std::exp(static_cast<double>(z[v]) - static_cast<double>(z[result.best]));
  };
  double total = 0.0;
  for (token_id v = 0; v < step.logits.columns; ++v) {
    total += v == text_.mask() ? 0.0 : weight(v);
  }
  result.confidence = 1.0 / total;
  result.second = weight(second) / total;
  result.wanted = weight(reference_[result.position]) / total;
  return result;
}

void tie_finder::consider(const close_call& call) {
  if (!closest_ || call.distance() < closest_->distance()) {
    closest_ = call;
  }
}

void tie_finder::see(const step_seen& step) {
  if (difference_) {
    return;
  }
  const index_t forward = step.report.forwards;
  std::vector<row> rows;
  for (index_t r = 0; r < step.rows.size(); ++r) {
    if (open_[static_cast<std::size_t>(step.rows.first + r - step.prompt_length)]) {
      rows.push_back(read(step, r));
    }
  }

  // Which positions commit: against the threshold, or among each other.
  std::ranges::sort(rows, std::ranges::greater{}, &row::confidence);
  const auto place = [](const row& r) { return "position " + std::to_string(r.position); };
  if (threshold_) {
    for (const row& r : rows) {
      consider({forward, place(r) + " and the threshold", r.confidence, *threshold_});
    }
  }
  const bool best_alone = !threshold_ || rows.front().confidence <= *threshold_;
  if (best_alone && rows.size() > 1) {
    consider({forward,
              place(rows[0]) + " and " + place(rows[1]),
              rows[0].confidence,
              rows[1].confidence});
  }

  // Which token they commit to.
  for (const unmask::commit_entry& c : step.committed) {
    const auto position = static_cast<std::size_t>(c.position - step.prompt_length);
    const row& r = *std::ranges::find(rows, position, &row::position);
    open_[position] = false;
    consider({forward, place(r) + ", its best two tokens", r.confidence, r.second});
    if (c.token != reference_[position] && !difference_) {
      difference_ = {forward,
                     place(r) + ", " + name_of(c.token, text_) + " and the reference's " +
                         name_of(reference_[position], text_),
                     r.confidence,
                     r.wanted};
    }
  }
}

}  // namespace demo
