// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/trace.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "goldens/reference_run.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

namespace {

template <class T>
std::string difference_of(const char* what, const T& expected, const T& got) {
  return text(what, ": expected ", expected, ", got ", got);
}

std::string text_of(unmask::range r) {
  return text("[", r.first, ", ", r.last, ")");
}

/// The entries of `a` that `b` does not hold; both ascend.
std::vector<commit> without(const std::vector<commit>& a, const std::vector<commit>& b) {
  std::vector<commit> rest;
  std::copy_if(a.begin(), a.end(), std::back_inserter(rest), [&b](const commit& c) {
    return std::find(b.begin(), b.end(), c) == b.end();
  });
  return rest;
}

}  // namespace

trace::trace(const commit_line& line, std::size_t index, const loop_shape& shape)
    : line_(line)
    , recorded_(line.sequences.at(index))
    , shape_(shape)
    , x_(recorded_.start) {
  for (const step& s : recorded_.steps) {
    // The sequences of a recorded batch wait for each other at the end of a block. Slots do not, so
    // the forward that found the block full is followed at once by the next block's first.
    const bool waits = line.sequences.size() > 1 && !steps_.empty() && s.n_masked == 0 &&
                       steps_.back()->n_masked == 0 && s.block == steps_.back()->block;
    if (!waits) {
      steps_.push_back(&s);
    }
  }
}

bool trace::is_masked(index_t position) const {
  return x_[static_cast<std::size_t>(position)] == recorded_.model.mask_id;
}

std::string trace::at_step(const std::string& what) const {
  return text("step ", step_, ": ", what);
}

std::string trace::begin(const plan& next, const segment& wanted) {
  before_ = x_;
  fed_ = wanted.query.last;
  if (step_ >= steps_.size()) {
    return text("a forward pass more than the ", steps_.size(), " recorded");
  }
  const step& recorded = *steps_[step_];

  // Every schedule here ends the scored range where the block ends, or the answer.
  const auto length = static_cast<index_t>(x_.size());
  const index_t last = next.score.last;
  const index_t in_block = (last - 1 - shape_.origin) % shape_.block_length;
  const unmask::range block{last - 1 - in_block, last};
  const unmask::range expected{recorded.block.start, recorded.block.end};
  if (block != expected) {
    return at_step(difference_of("block", text_of(expected), text_of(block)));
  }

  std::vector<int> masks;
  for (index_t p = shape_.block_only ? block.first : 0; p < block.last; ++p) {
    if (is_masked(p)) {
      masks.push_back(p);
    }
  }
  if (static_cast<int>(masks.size()) != recorded.n_masked) {
    return at_step(difference_of("n_masked", recorded.n_masked, static_cast<int>(masks.size())));
  }
  const bool decides = !next.score.empty();
  if (decides && !masks.empty() && masks.front() < next.score.first) {
    return at_step(text("position ", masks.front(), " is a candidate, but not scored"));
  }

  const unmask::range query{0, shape_.cut_at_block ? block.last : length};
  if (wanted.query != query) {
    return at_step(difference_of("feed", text_of(query), text_of(wanted.query)));
  }
  const std::span<const token> visible{x_.data(), static_cast<std::size_t>(fed_)};
  std::vector<int> summed = masks;
  if (shape_.sums_block) {
    summed.resize(static_cast<std::size_t>(block.size()));
    std::iota(summed.begin(), summed.end(), block.first);
  }
  const std::uint64_t sum = recorded_.model.logits_sum(summed, visible);
  if (sum != recorded.logits_sum) {
    return at_step(difference_of("logits_sum", recorded.logits_sum, sum));
  }
  open_.assign(x_.size(), false);
  for (const int p : masks) {
    open_[static_cast<std::size_t>(p)] = decides;
  }
  const auto prompt = static_cast<index_t>(recorded_.prompt.size());
  for (index_t p = std::max(block.first, prompt); shape_.reads_committed && p < block.last; ++p) {
    open_[static_cast<std::size_t>(p)] = decides;
  }
  for (index_t p = block.last; shape_.reads_tail && p < length; ++p) {
    open_[static_cast<std::size_t>(p)] = is_masked(p);
  }
  return {};
}

std::vector<index_t> trace::rows() const {
  std::vector<index_t> rows;
  for (std::size_t p = 0; p < open_.size(); ++p) {
    if (open_[p]) {
      const index_t row = recorded_.model.row_of(static_cast<int>(p));
      if (rows.empty() || rows.back() != row) {
        rows.push_back(row);
      }
    }
  }
  return rows;
}

void trace::write_row(index_t i, std::span<float> out) const {
  recorded_.model.row(i, {before_.data(), static_cast<std::size_t>(fed_)}, out);
}

void trace::write_row(index_t i, std::span<bfloat16> out) const {
  std::vector<float> row(out.size());
  write_row(i, row);
  std::transform(row.begin(), row.end(), out.begin(), [](float x) {
    return bfloat16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U)};
  });
}

bool trace::scores_are_equal(const std::vector<commit>& disputed) const {
  std::vector<prediction> all;
  for (const commit& c : disputed) {
    std::vector<float> row(static_cast<std::size_t>(recorded_.model.V));
    write_row(recorded_.model.row_of(c.position), std::span<float>(row));
    all.push_back(predict(std::span<const float>(row)));
    if (all.back().argmax != c.value) {
      return false;
    }
  }
  // Rows with equal p, second p and entropy have equal scores by any of the rules.
  return std::all_of(all.begin(), all.end(), [&](const prediction& a) {
    return a.p == all.front().p && a.p_second == all.front().p_second &&
           a.neg_entropy_eps == all.front().neg_entropy_eps;
  });
}

std::string trace::finish(std::span<const commit_entry> committed, ending end) {
  std::vector<commit> changed;
  for (std::size_t p = 0; p < x_.size(); ++p) {
    if (x_[p] != before_[p]) {
      changed.push_back({static_cast<int>(p), x_[p]});
    }
  }
  std::vector<commit> reported;
  for (const commit_entry& c : committed) {
    reported.push_back({c.position, c.token});
  }
  // Tokens filled in behind an EOS token were not decided, and are not reported.
  const std::vector<commit> silent = without(changed, reported);
  if (!without(reported, changed).empty() || (!silent.empty() && end != ending::eos_token)) {
    return at_step("committed() tells " + text_of(reported) + ", changed " + text_of(changed));
  }
  const std::vector<commit>& expected = steps_[step_]->commits;
  if (changed != expected) {
    const std::vector<commit> missing = without(expected, changed);
    const std::vector<commit> extra = without(changed, expected);
    std::vector<commit> disputed = missing;
    disputed.insert(disputed.end(), extra.begin(), extra.end());
    tied_ = line_.has_label("tie") && missing.size() == extra.size() && scores_are_equal(disputed);
    const std::string what = "commits: expected " + text_of(missing) + ", got " + text_of(extra);
    return tied_ ? at_step("tie, not compared from here on: " + what) : at_step(what);
  }
  ++step_;
  return {};
}

std::string trace::end(const sequence_report& report) const {
  if (step_ != steps_.size() || report.forwards != static_cast<index_t>(steps_.size())) {
    return difference_of("forwards", static_cast<index_t>(steps_.size()), report.forwards);
  }
  // Sequences of one batch are all run as often as the slowest.
  if (recorded_.steps.size() != static_cast<std::size_t>(line_.nfe)) {
    return difference_of("nfe", line_.nfe, static_cast<int>(recorded_.steps.size()));
  }
  for (std::size_t p = 0; p < x_.size(); ++p) {
    if (x_[p] != recorded_.final[p]) {
      return text("final: position ", p, ": ", difference_of("token", recorded_.final[p], x_[p]));
    }
  }
  return {};
}

}  // namespace unmask::goldens
