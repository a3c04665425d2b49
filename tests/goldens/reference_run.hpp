// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Common code of the reference rules: a sequence under decoding that records its steps, the naive
/// statistics of a row in double precision, ranking, and the arguments of a line. Written from
/// the published formulas; nothing of the library under test is used.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "goldens/lines.hpp"

namespace unmask::goldens {

/// The naive statistics of one row.
struct prediction {
  token argmax = 0;  ///< lowest id among equals
  double p = 0;      ///< its probability
  double p_second = 0;
  double neg_entropy_eps = 0;  ///< sum of p ln(p + 1e-10), the confidence of Dream's `entropy`
};

/// Softmax in double precision.
template <class Real>
[[nodiscard]] prediction predict(std::span<const Real> row) {
  const auto best = std::max_element(row.begin(), row.end());
  prediction result;
  result.argmax = static_cast<token>(best - row.begin());
  double sum = 0;
  double second = 0;
  for (std::size_t v = 0; v < row.size(); ++v) {
    const double e = std::exp(static_cast<double>(row[v]) - static_cast<double>(*best));
    sum += e;
    if (v != static_cast<std::size_t>(result.argmax)) {
      second = std::max(second, e);
    }
  }
  result.p = 1 / sum;
  result.p_second = second / sum;
  for (const Real z : row) {
    const double p = std::exp(static_cast<double>(z) - static_cast<double>(*best)) / sum;
    result.neg_entropy_eps += p * std::log(p + 1e-10);
  }
  return result;
}

/// The arguments of a line. A missing or mistyped one names the line.
class arguments {
 public:
  explicit arguments(const commit_line& line)
      : line_(&line) {}

  template <class T>
  [[nodiscard]] T get(const std::string& key) const {
    try {
      return line_->args.at(key).template get<T>();
    } catch (const json::exception& error) {
      throw schema_error(line_->where + ": args: " + key + ": " + error.what());
    }
  }

  template <class T>
  [[nodiscard]] T get_or(const std::string& key, T otherwise) const {
    return optional<T>(key).value_or(otherwise);
  }

  /// Nothing where the argument is missing or null.
  template <class T>
  [[nodiscard]] std::optional<T> optional(const std::string& key) const {
    const auto found = line_->args.find(key);
    if (found == line_->args.end() || found->is_null()) {
      return std::nullopt;
    }
    return get<T>(key);
  }

 private:
  const commit_line* line_;
};

/// A sequence under decoding. One forward is `begin_forward`, any number of `read` and `write`,
/// `end_forward`; reads see the tokens as they were when the forward began.
class decode_run {
 public:
  /// `hint`: the recorded steps. Equal scores then rank the recorded choice first, because the
  /// order among equals is torch's and not specified; without it the lower position ranks first.
  /// `bf16_softmax`: probabilities are bf16 numbers, and so is what they are compared with.
  decode_run(const fake_model& model,
             tokens start,
             bool bf16_softmax = false,
             const std::vector<step>* hint = nullptr)
      : model_(&model)
      , x_(std::move(start))
      , bf16_softmax_(bf16_softmax)
      , hint_(hint) {}

  [[nodiscard]] const fake_model& model() const noexcept { return *model_; }
  [[nodiscard]] const tokens& x() const noexcept { return x_; }
  [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }
  [[nodiscard]] step& last_step() { return steps_.back(); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(x_.size()); }
  [[nodiscard]] bool is_masked(int p) const { return at(p) == model_->mask_id; }
  [[nodiscard]] token at(int p) const { return x_.at(static_cast<std::size_t>(p)); }

  /// The masked positions of [start, end), ascending.
  [[nodiscard]] std::vector<int> masked(int start, int end) const {
    std::vector<int> result;
    for (int p = start; p < end; ++p) {
      if (is_masked(p)) {
        result.push_back(p);
      }
    }
    return result;
  }
  [[nodiscard]] std::vector<int> masked(range r) const { return masked(r.start, r.end); }

  /// Grows or cuts the sequence; new positions are masked.
  void resize(int length) { x_.resize(static_cast<std::size_t>(length), model_->mask_id); }

  /// `considered`: the positions of `logits_sum`.
  void begin_forward(range block, const std::vector<int>& considered) {
    before_ = x_;
    step s;
    s.block = block;
    s.n_masked = static_cast<int>(std::count_if(
        considered.begin(), considered.end(), [this](int p) { return is_masked(p); }));
    s.logits_sum = model_->logits_sum(considered, before_);
    steps_.push_back(std::move(s));
  }

  /// The logits that predict position p, after the rule's suppression.
  [[nodiscard]] std::vector<float> logits(int p) const {
    std::vector<float> row(static_cast<std::size_t>(model_->V));
    model_->row(model_->row_of(p), before_, row);
    for (const token v : model_->suppress) {
      row.at(static_cast<std::size_t>(v)) = -std::numeric_limits<float>::infinity();
    }
    return row;
  }

  /// The statistics of the row that predicts p.
  [[nodiscard]] prediction read(int p) const {
    prediction result = predict(std::span<const float>(logits(p)));
    result.p = in_dtype(result.p);
    return result;
  }

  /// A number as the softmax's dtype holds it: torch rounds a threshold to bf16 before it
  /// compares a bf16 tensor with it. Lines with float32 softmax keep clear of their rounding.
  [[nodiscard]] double in_dtype(double value) const {
    return bf16_softmax_ ? static_cast<double>(round_to_bf16(static_cast<float>(value))) : value;
  }

  void write(int p, token value) { x_.at(static_cast<std::size_t>(p)) = value; }

  /// Records what changed. Called again, it amends the last step (dInfer's fill after a block).
  void end_forward() {
    std::vector<commit>& commits = steps_.back().commits;
    commits.clear();
    for (int p = 0; p < size(); ++p) {
      if (at(p) != before_.at(static_cast<std::size_t>(p))) {
        commits.push_back({p, at(p)});
      }
    }
  }

  /// `candidates` ordered by score, best first. `scores` is parallel to `candidates`.
  [[nodiscard]] std::vector<std::size_t> ranked(const std::vector<int>& candidates,
                                                const std::vector<double>& scores) const {
    std::vector<std::size_t> order(candidates.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      order[k] = k;
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (scores[a] != scores[b]) {
        return scores[a] > scores[b];
      }
      const bool a_hinted = hinted(candidates[a]);
      const bool b_hinted = hinted(candidates[b]);
      return a_hinted != b_hinted ? a_hinted : candidates[a] < candidates[b];
    });
    return order;
  }

 private:
  [[nodiscard]] bool hinted(int p) const {
    if (hint_ == nullptr || steps_.empty() || steps_.size() > hint_->size()) {
      return false;
    }
    const std::vector<commit>& recorded = (*hint_)[steps_.size() - 1].commits;
    return std::any_of(
        recorded.begin(), recorded.end(), [p](const commit& c) { return c.position == p; });
  }

  const fake_model* model_;
  tokens x_;
  tokens before_;
  std::vector<step> steps_;
  bool bf16_softmax_;
  const std::vector<step>* hint_;
};

/// The rows of some positions, read together.
struct candidate_rows {
  std::vector<int> positions;
  std::vector<prediction> rows;

  candidate_rows(const decode_run& run, std::vector<int> at)
      : positions(std::move(at)) {
    for (const int p : positions) {
      rows.push_back(run.read(p));
    }
  }

  [[nodiscard]] std::vector<double> confidences() const {
    std::vector<double> result;
    for (const prediction& row : rows) {
      result.push_back(row.p);
    }
    return result;
  }
};

/// A line that the reference cannot follow: the rule would never end on it.
class stalled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// More forwards in one block than any line holds.
inline constexpr int stall_limit = 10000;

}  // namespace unmask::goldens
