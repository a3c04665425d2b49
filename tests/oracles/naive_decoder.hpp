// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The specification as slow code: one sequence, double precision, no streaming, no state that the
/// formulas do not name. Every decision has its distance from the opposite one, so that a
/// test can distinguish a rounding difference from a mistake.

#include <unmask/core/plan.hpp>
#include <unmask/core/types.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace unmask::testing {

inline constexpr double far_away = std::numeric_limits<double>::infinity();

/// Distance of two numbers, relative to the larger one where that exceeds 1.
[[nodiscard]] inline double gap_between(double a, double b) {
  if (a == b) {
    return 0.0;
  }
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return far_away;
  }
  return std::fabs(a - b) / std::max({1.0, std::fabs(a), std::fabs(b)});
}

/// One masked position as given to a rule: the softmax of its row, from the definitions.
struct naive_row {
  index_t position = 0;
  std::vector<double> logits;
  bool valid = false;
  token_id token = no_token;
  /// The lowest token that is neither suppressed nor forbidden: proposed where no logit is finite.
  token_id lowest = no_token;
  double confidence = 0.0;
  double log_probability = 0.0;
  double margin = 0.0;
  double entropy = 0.0;
};

/// The statistics of a row whose suppressed and forbidden columns are -inf already.
[[nodiscard]] inline naive_row naive_statistics(index_t position, std::vector<double> z) {
  naive_row r;
  r.position = position;
  double best = -far_away;
  bool has_nan = false;
  for (std::size_t v = 0; v < z.size(); ++v) {
    has_nan = has_nan || std::isnan(z[v]);
    if (z[v] > best) {
      best = z[v];
      r.token = static_cast<token_id>(v);
    }
  }
  r.valid = !has_nan && std::isfinite(best);
  if (r.valid) {
    double total = 0.0;
    for (const double x : z) {
      total += std::exp(x - best);
    }
    double second = 0.0;
    for (std::size_t v = 0; v < z.size(); ++v) {
      const double p = std::exp(z[v] - best) / total;
      r.entropy -= p > 0.0 ? p * std::log(p) : 0.0;
      second = static_cast<token_id>(v) == r.token ? second : std::max(second, p);
    }
    r.confidence = 1.0 / total;
    r.log_probability = -std::log(total);
    r.margin = r.confidence - second;
  }
  r.logits = std::move(z);
  return r;
}

/// The step that a decision belongs to.
struct naive_step {
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;
  index_t step = 0;
  index_t block_step = 0;
  index_t block_masked_at_first = 0;
};

/// Decision of a rule about one candidate, and its distance to the opposite decision.
struct opinion {
  bool commits = false;
  double gap = far_away;
};

/// The larger number is the better candidate.
using naive_score = std::function<double(const naive_row&, const naive_step&)>;
/// One opinion for each candidate; they come best first.
using naive_rule =
    std::function<std::vector<opinion>(std::span<const naive_row>, const naive_step&)>;

/// A sequence, the model and the policy.
struct naive_request {
  model_info model;
  sequence_shape geometry;
  std::vector<std::uint8_t> editable;
  std::vector<token_id> suppressed;
  naive_score score;
  naive_rule rule;
  bool single_block = false;
  std::int64_t waits = 0;  // steps at the start that may commit nothing
  bool stop_at_eos = false;
  std::optional<index_t> max_steps;
};

struct naive_commit {
  index_t position = 0;
  token_id token = no_token;
  double log_probability = 0.0;
  friend bool operator<(const naive_commit& a, const naive_commit& b) {
    return a.position < b.position;
  }
};

struct naive_decision {
  std::vector<naive_commit> commits;
  index_t forced = 0;
  index_t invalid = 0;
  double gap = far_away;
};

class naive_decoder {
 public:
  naive_decoder(naive_request request, std::vector<token_id> tokens)
      : request_(std::move(request))
      , tokens_(std::move(tokens)) {
    const sequence_shape& g = request_.geometry;
    open_.assign(tokens_.size(), false);
    for (index_t p = g.prompt_length; p < g.length; ++p) {
      if (request_.editable.empty() || request_.editable[at(p)] == 1) {
        open_[at(p)] = true;
        tokens_[at(p)] = request_.model.mask_token;
      }
    }
    advance();
  }

  [[nodiscard]] const std::vector<token_id>& tokens() const { return tokens_; }
  [[nodiscard]] ending end() const { return end_; }
  [[nodiscard]] index_t step() const { return step_; }

  [[nodiscard]] index_t masked_count() const {
    return static_cast<index_t>(std::count(open_.begin(), open_.end(), true));
  }
  [[nodiscard]] index_t committed_prefix() const {
    const auto first = std::find(open_.begin(), open_.begin() + request_.geometry.length, true);
    return static_cast<index_t>(first - open_.begin());
  }

  /// The positions whose rows are read in this step, ascending.
  [[nodiscard]] std::vector<index_t> candidates() const {
    std::vector<index_t> positions;
    const range scored = block(block_);
    for (index_t p = scored.first; p < scored.last; ++p) {
      if (open_[at(p)]) {
        positions.push_back(p);
      }
    }
    return positions;
  }

  /// The row of logits that predicts position p.
  [[nodiscard]] index_t row_of(index_t p) const {
    return std::max(p - request_.model.logits_shift, 0);
  }

  /// Whether v may not be proposed at all.
  [[nodiscard]] bool is_suppressed(token_id v) const {
    const auto& list = request_.suppressed;
    return (request_.model.suppress_mask && v == request_.model.mask_token) ||
           std::find(list.begin(), list.end(), v) != list.end();
  }

  /// Decision of the rules about the rows of candidates(), in the same order. Changes nothing.
  [[nodiscard]] naive_decision decide(const std::vector<naive_row>& rows) const {
    const naive_step at_step = {request_.geometry.seed,
                                request_.geometry.sequence,
                                step_,
                                step_ - block_first_step_,
                                block_opened_};
    naive_decision d;
    std::vector<std::pair<double, naive_row>> scored;
    for (const naive_row& r : rows) {
      if (r.valid) {
        scored.emplace_back(request_.score(r, at_step), r);
      } else {
        ++d.invalid;
      }
    }
    std::stable_sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) {
      return a.first > b.first;
    });
    std::vector<naive_row> ranked;
    for (std::size_t i = 0; i < scored.size(); ++i) {
      if (i > 0) {
        d.gap = std::min(d.gap, order_gap(scored[i - 1], scored[i]));
      }
      ranked.push_back(scored[i].second);
    }
    const std::vector<opinion> opinions = request_.rule(ranked, at_step);
    bool any = false;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      d.gap = std::min(d.gap, opinions[i].gap);
      if (opinions[i].commits) {
        any = true;
        propose(d, ranked[i]);
      }
    }
    if (!any && step_ >= request_.waits && !rows.empty()) {
      propose(d, ranked.empty() ? rows.front() : ranked.front());
      d.forced = static_cast<index_t>(d.commits.size());
    }
    std::sort(d.commits.begin(), d.commits.end());
    return d;
  }

  /// Writes given commits and advances by a step.
  void apply(std::span<const naive_commit> commits) {
    for (const naive_commit& c : commits) {
      tokens_[at(c.position)] = c.token;
      open_[at(c.position)] = false;
    }
    ++step_;
    advance();
  }

 private:
  [[nodiscard]] static std::size_t at(index_t p) { return static_cast<std::size_t>(p); }

  [[nodiscard]] index_t block_length() const {
    const sequence_shape& g = request_.geometry;
    return request_.single_block ? g.length - g.prompt_length : g.block_length;
  }
  [[nodiscard]] range block(index_t b) const {
    const sequence_shape& g = request_.geometry;
    const index_t first = g.prompt_length + b * block_length();
    return {first, std::min(first + block_length(), g.length)};
  }

  // Equal scores of different rows are a certain tie only where rounding cannot part them.
  [[nodiscard]] static double order_gap(const std::pair<double, naive_row>& a,
                                        const std::pair<double, naive_row>& b) {
    const bool exact = a.first == b.first &&
                       (a.second.logits == b.second.logits || a.first == 0.0 || a.first == 1.0);
    return exact ? far_away : gap_between(a.first, b.first);
  }

  void propose(naive_decision& d, const naive_row& r) const {
    token_id token = r.token == no_token ? r.lowest : r.token;
    for (token_id v = 0; token == no_token; ++v) {
      token = is_suppressed(v) ? no_token : v;
    }
    if (token != request_.model.mask_token) {
      d.commits.push_back({r.position, token, r.valid ? r.log_probability : -far_away});
    }
  }

  void advance() {
    const sequence_shape& g = request_.geometry;
    if (request_.stop_at_eos) {
      for (index_t p = g.prompt_length; p < g.length && !open_[at(p)]; ++p) {
        if (tokens_[at(p)] == request_.model.eos_token) {
          return finish(ending::eos_token);
        }
      }
    }
    if (masked_count() == 0) {
      end_ = ending::complete;
      return;
    }
    if (request_.max_steps && step_ >= *request_.max_steps) {
      return finish(ending::max_steps);
    }
    const index_t before = block_;
    while (candidates().empty()) {
      ++block_;
    }
    if (block_ != before || step_ == 0) {
      block_first_step_ = step_;
      block_opened_ = static_cast<index_t>(candidates().size());
    }
  }

  void finish(ending why) {
    end_ = why;
    for (std::size_t p = 0; request_.model.eos_token != no_token && p < open_.size(); ++p) {
      if (open_[p]) {
        tokens_[p] = request_.model.eos_token;
        open_[p] = false;
      }
    }
  }

  naive_request request_;
  std::vector<token_id> tokens_;
  std::vector<bool> open_;
  index_t step_ = 0;
  index_t block_ = 0;
  index_t block_first_step_ = 0;
  index_t block_opened_ = 0;
  ending end_ = ending::running;
};

}  // namespace unmask::testing
