// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Laws of every decode, whatever its policy, checked in each step of a written one.

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace unmask::testing {

/// The laws of one decode. Errors: std::logic_error.
class decode_laws {
 public:
  /// Probabilities of a pass, [position of the answer][token]; one of NaN is NaN throughout. None
  /// where they are not known.
  using rows = std::vector<std::vector<double>>;

  /// `given` are positions whose tokens the caller gave, besides the prompt.
  decode_laws(const named_policy& parts,
              const sequence_shape& shape,
              token_id mask,
              std::vector<bool> given = {})
      : shape_(shape)
      , mask_(mask)
      , given_(std::move(given))
      , is_canvas_(parts.has_canvas())
      , reconsiders_(step::reconsiders_now(parts))
      , rewrites_blocks_(step::rewrites_blocks_now(parts))
      , grows_(detail::policy_begin_length(parts, shape) < shape.length)
      , has_one_part_(parts.count == 1)
      , delimits_(parts.stops.any([]<class P>(const P&) { return delimiting<P>; }))
      , undecided_(shape.length) {}

  /// Before a step, with its plan.
  void begin_step(const plan& planned, const std::vector<token_id>& tokens) {
    planned_ = planned;
    before_ = tokens;
    check_ranges(planned);
    check_placed(planned, tokens);
    freeze(planned.freeze, tokens);
  }

  /// After it.
  template <class Session>
  void end_step(Session&& session, const std::vector<token_id>& tokens, const rows& seen) {
    const sequence_report report = session.report(0);
    const std::span<const commit_entry> committed = session.committed(0);
    const std::span<const candidate_entry> candidates = session.candidates(0);
    freeze({}, tokens);
    if (!is_canvas_ && !reconsiders_ && !rewrites_blocks_) {
      check_reported(report.end, committed, tokens);
    }
    for (const commit_entry& e : committed) {
      if (std::size_t(e.position) < given_.size()) {
        given_[std::size_t(e.position)] = false;
      }
    }
    if (is_canvas_ && report.end == ending::running &&
        candidates.size() != std::size_t(planned_.score.size())) {
      throw std::logic_error("a position of the canvas is not reported");
    }
    if (rewrites_blocks_) {
      check_confidences(candidates, seen);
    } else {
      check_candidates(report.end, candidates, committed, seen);
    }
    if (!is_canvas_ && !rewrites_blocks_) {
      check_counts(report, candidates);
    }
    check_parts(candidates);
    if (!reconsiders_) {
      check_blocks(committed);
      check_probabilities(session.probabilities(0));
    }
    held_.clear();
    for (const candidate_entry& c : candidates) {
      if (c.outcome == candidate_outcome::held) {
        held_.emplace_back(c.position, c.token);
      }
    }
    check_end(report);
    if (!is_canvas_ && !reconsiders_) {
      check_view(report, tokens);
    }
    ++pass_;
  }

 private:
  // A pass returns the rows of all positions that it decides, and attends to all that it computes.
  void check_ranges(const plan& p) const {
    const auto is_in = [](range a, range b) {
      return a.empty() || (b.first <= a.first && a.last <= b.last);
    };
    const range read{std::max(p.score.first - p.logits_shift, 0), p.score.last - p.logits_shift};
    if (!is_in(read, p.query) || !is_in(p.query, p.keys) || !is_in(p.keys, {0, shape_.length})) {
      throw std::logic_error("decides positions " + text_of(p.score) + " from computed ones " +
                             text_of(p.query) + " with keys " + text_of(p.keys));
    }
  }
  [[nodiscard]] static std::string text_of(range r) {
    return std::to_string(r.first) + " to " + std::to_string(r.last);
  }

  // The tokens of branches are of masked positions that the pass decides, or stand there by now;
  // those of a beam's members may be left of them. Those of drafts are what the last step held.
  void check_placed(const plan& p, const std::vector<token_id>& tokens) const {
    for (index_t b = 0; b <= p.branches; ++b) {
      const range placed = p.placed(b);
      for (index_t k = placed.first; k < placed.last; ++k) {
        const placement& at = p.branch[k];
        const std::size_t i = std::size_t(at.position);
        const bool is_free = is_masked(i, tokens) || tokens[i] == at.token;
        const bool is_decided = p.kind == pass_kind::beam || p.score.contains(at.position);
        const bool is_draft =
            p.placed_last[1] > 0 && p.kind != pass_kind::beam && is_masked(i, tokens);
        const bool was_held =
            std::find(held_.begin(), held_.end(), std::pair{at.position, at.token}) != held_.end();
        if (!is_decided || !is_free || (is_draft && !was_held) || at.token == mask_ ||
            at.token < 0) {
          throw std::logic_error("branch " + std::to_string(b) + " places token " +
                                 std::to_string(at.token) + " at position " +
                                 std::to_string(at.position));
        }
      }
    }
  }

  // The entries of a report have ascending positions.
  static void check_ascending(const auto& entries) {
    index_t last = -1;
    for (const auto& e : entries) {
      if (e.position <= last) {
        throw std::logic_error("position " + std::to_string(e.position) + " is reported after " +
                               std::to_string(last));
      }
      last = e.position;
    }
  }

  // A step reports the tokens that it wrote, and those alone; an end may fill what is left with the
  // EOS token.
  void check_reported(ending end,
                      std::span<const commit_entry> committed,
                      const std::vector<token_id>& tokens) {
    check_ascending(committed);
    std::vector<token_id> expected = before_;
    for (const commit_entry& c : committed) {
      expected[std::size_t(c.position)] = c.token;
    }
    undecided_ = shape_.length;
    is_undecided_known_ = planned_.kind != pass_kind::drafting &&
                          std::all_of(committed.begin(), committed.end(), [&](const auto& c) {
                            return is_masked(std::size_t(c.position), before_);
                          });
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (is_masked(i, expected)) {
        undecided_ = std::min(undecided_, static_cast<index_t>(i));
      }
      const bool may_be_filled = end != ending::running && end != ending::complete &&
                                 is_masked(i, expected) && !is_masked(i, tokens);
      if (expected[i] != tokens[i] && !may_be_filled) {
        throw std::logic_error("position " + std::to_string(i) + " has token " +
                               std::to_string(tokens[i]) + ", but with its reports " +
                               std::to_string(expected[i]));
      }
    }
  }

  [[nodiscard]] bool is_masked(std::size_t i, const std::vector<token_id>& tokens) const {
    const bool is_given = i < std::size_t(shape_.prompt_length) || (i < given_.size() && given_[i]);
    return tokens[i] == mask_ && !is_given;
  }

  // Positions that are frozen keep the tokens that they have by then.
  void freeze(range more, const std::vector<token_id>& tokens) {
    if (more.first < 0 || more.last < more.first || std::size_t(more.last) > tokens.size()) {
      throw std::logic_error("frozen from position " + std::to_string(more.first) + " to " +
                             std::to_string(more.last));
    }
    frozen_.resize(tokens.size(), no_token);
    for (index_t p = more.first; p < more.last; ++p) {
      token_id& token = frozen_[std::size_t(p)];
      token = token == no_token ? tokens[std::size_t(p)] : token;
    }
    for (std::size_t i = 0; i < frozen_.size(); ++i) {
      if (frozen_[i] != no_token && (frozen_[i] != tokens[i] || is_masked(i, tokens))) {
        throw std::logic_error("position " + std::to_string(i) + " changes, which was frozen");
      }
    }
  }

  // The candidates that were written are the tokens that the step reports, but for those that an
  // end fills in, and only rows of NaN are invalid.
  void check_candidates(ending end,
                        std::span<const candidate_entry> candidates,
                        std::span<const commit_entry> committed,
                        const rows& seen) const {
    check_ascending(candidates);
    const bool has_nan = seen.empty() || std::any_of(seen.begin(), seen.end(), [](const auto& row) {
                           return std::isnan(row[0]);
                         });
    index_t open = 0;
    for (const commit_entry& e : committed) {
      open += e.token == mask_ ? 0 : 1;  // a position that was masked again
    }
    for (const candidate_entry& c : candidates) {
      for (const commit_entry& e : committed) {
        open -= c.committed && e.position == c.position && e.token == c.token ? 1 : 0;
      }
      if (c.outcome == candidate_outcome::invalid && !has_nan) {
        throw std::logic_error("the row of position " + std::to_string(c.position) + " is invalid");
      }
    }
    if (open != 0 && (end == ending::running || end == ending::complete)) {
      throw std::logic_error(std::to_string(open) + " reported tokens are of no candidate");
    }
  }

  // If there is one part, it is the one that decided.
  void check_parts(std::span<const candidate_entry> candidates) const {
    for (const candidate_entry& c : candidates) {
      const bool is_by_a_part = c.outcome == candidate_outcome::committed ||
                                c.outcome == candidate_outcome::replaced ||
                                c.outcome == candidate_outcome::remasked;
      if (has_one_part_ && is_by_a_part && c.part != 0) {
        throw std::logic_error("position " + std::to_string(c.position) + " is decided by part " +
                               std::to_string(c.part));
      }
    }
  }

  // A part that rewrites its block sees the rows of the model.
  void check_confidences(std::span<const candidate_entry> candidates, const rows& seen) const {
    if (seen.empty()) {
      return;
    }
    for (const candidate_entry& c : candidates) {
      const double p = seen[std::size_t(c.position - shape_.prompt_length)][std::size_t(c.token)];
      if (std::abs(double(c.confidence) - (std::isnan(p) ? 0.0 : p)) > 1e-3) {
        throw std::logic_error("position " + std::to_string(c.position) + " has confidence " +
                               std::to_string(c.confidence) + ", not " + std::to_string(p));
      }
    }
  }

  // A report counts the outcomes of all candidates so far.
  void check_counts(const sequence_report& report, std::span<const candidate_entry> candidates) {
    using enum candidate_outcome;
    for (const candidate_entry& c : candidates) {
      const candidate_outcome o = c.outcome;
      committed_ += o == committed || o == forced || o == from_branch ? 1 : 0;
      forced_ += o == forced ? 1 : 0;
      replaced_ += o == replaced ? 1 : 0;
      remasked_ += o == remasked ? 1 : 0;
    }
    const auto expect = [](const char* name, index_t found, index_t least, index_t most) {
      if (found < least || found > most) {
        throw std::logic_error(std::string(name) + " is " + std::to_string(found) + ", but " +
                               std::to_string(least) + " candidates are");
      }
    };
    expect("committed", report.committed, committed_, committed_);
    // A position that a part opened again may be forced, too, and is reported as replaced.
    expect("forced", report.forced, forced_, forced_ + replaced_);
    expect("rewritten", report.rewritten, replaced_ + remasked_, replaced_ + remasked_);
  }

  // A token is decided with the active block that is nearest to its own, so many passes after the
  // one that first had that block.
  void check_blocks(std::span<const commit_entry> committed) {
    first_pass_.resize(std::max(first_pass_.size(), std::size_t(planned_.last_block)), pass_);
    for (const commit_entry& e : committed) {
      const index_t own = (e.position - shape_.prompt_length) / shape_.block_length;
      const index_t block = std::clamp(
          own, planned_.first_block, std::max(planned_.first_block, planned_.last_block - 1));
      const index_t in_block = pass_ - first_pass_[std::size_t(block)];
      check_pass(e.position, e.step);
      if (e.block != block || e.block_step != in_block) {
        throw std::logic_error("position " + std::to_string(e.position) +
                               " is decided with block " + std::to_string(e.block) +
                               " in its pass " + std::to_string(e.block_step) + ", not with " +
                               std::to_string(block) + " in " + std::to_string(in_block));
      }
    }
  }

  // The step of an entry is its pass.
  void check_pass(index_t position, index_t step) const {
    if (step != pass_) {
      throw std::logic_error("position " + std::to_string(position) + " is of pass " +
                             std::to_string(step) + ", not of " + std::to_string(pass_));
    }
  }

  // Probabilities are of this pass; the shares of a position are those of its probabilities, unless
  // several probes have it: each has shares of its own.
  void check_probabilities(std::span<const token_probability> all) const {
    for (const token_probability& p : all) {
      check_pass(p.position, p.step);
      double sum = 0.0;
      double shares = 0.0;
      for (const token_probability& other : all) {
        sum += other.position == p.position ? double(other.probability) : 0.0;
        shares += other.position == p.position ? double(other.share) : 0.0;
      }
      if (sum > 1e-30 && shares < 1.5 &&
          std::abs(double(p.share) - double(p.probability) / sum) > 1e-4) {
        throw std::logic_error("token " + std::to_string(p.token) + " of position " +
                               std::to_string(p.position) + " has a share of " +
                               std::to_string(p.share));
      }
    }
  }

  // The answer of a running sequence has all positions. That of an ended one ends before the first
  // position that no decision committed, and there if no part determines where answers end: of
  // several reasons to end the first one is reported, and a part may have found an EOS token or a
  // stop sequence all the same.
  void check_end(const sequence_report& report) const {
    const bool is_running = report.end == ending::running;
    const bool is_known =
        is_running || report.end == ending::complete
            ? !grows_
            : report.end == ending::max_steps && (is_canvas_ || is_undecided_known_) && !delimits_;
    const index_t end = is_running ? shape_.length : undecided_;
    if (report.answer_end > end || (is_known && report.answer_end < end)) {
      throw std::logic_error("the answer ends at " + std::to_string(report.answer_end) +
                             ", but position " + std::to_string(end) +
                             " is the first without a decision");
    }
  }

  // The committed prefix ends at the first masked position, or at a draft before it, and a report
  // counts the masked positions, not those that the answer has not grown to.
  void check_view(const sequence_report& report, const std::vector<token_id>& tokens) const {
    if (grows_ && report.end != ending::running) {
      return;  // EOS tokens follow the answer
    }
    index_t first = 0;
    while (first < shape_.length && !is_masked(std::size_t(first), tokens)) {
      ++first;
    }
    index_t masked = 0;
    for (index_t p = first; p < shape_.length; ++p) {
      masked += is_masked(std::size_t(p), tokens) ? 1 : 0;
    }
    const bool is_prefix =
        planned_.kind == pass_kind::drafting || planned_.kind == pass_kind::checking
            ? report.committed_prefix <= first
            : report.committed_prefix == first;
    if (!is_prefix || (grows_ ? report.masked > masked : report.masked != masked)) {
      throw std::logic_error("committed_prefix is " + std::to_string(report.committed_prefix) +
                             " and masked is " + std::to_string(report.masked) + ", but " +
                             std::to_string(masked) + " are masked, the first one is " +
                             std::to_string(first));
    }
  }

  sequence_shape shape_;
  token_id mask_;
  std::vector<bool> given_;
  bool is_canvas_;
  bool reconsiders_;
  bool rewrites_blocks_;
  bool grows_;
  bool has_one_part_;
  bool delimits_;
  /// The first position without a decision, or one after it: a draft is no decision, and the last
  /// step may have masked a position that the end of the sequence filled.
  index_t undecided_;
  bool is_undecided_known_ = false;
  plan planned_;
  std::vector<token_id> before_;
  std::vector<std::pair<index_t, token_id>> held_;  ///< candidates of the last step
  std::vector<token_id> frozen_;                    ///< no_token: not frozen
  std::vector<index_t> first_pass_;                 ///< of each block
  index_t pass_ = 0;
  index_t committed_ = 0;
  index_t forced_ = 0;
  index_t replaced_ = 0;
  index_t remasked_ = 0;
};

}  // namespace unmask::testing
