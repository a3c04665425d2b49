// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "hostile/fields_oracle.hpp"
#include "support/decode_laws.hpp"

namespace unmask::hostile {

namespace {

/// Facts about a policy on which the checked properties depend.
struct facts {
  bool renoises = false;
  bool rewrites = false;  ///< committed tokens
  bool moves = false;     ///< text, and the end of the answer
  bool remasks = false;
  bool masks_least = false;  ///< committed tokens, by a commit rule
  bool checks = false;       ///< drafts
  bool hides = false;        ///< committed tokens, in some passes
  bool branches = false;
  bool drafts = false;
  bool beams = false;
  bool draws = false;
  bool edits_rows = false;  ///< the best token of a row need not be the one committed
  bool stays = false;       ///< on full blocks, to edit them
  bool leaves = false;      ///< blocks as they are
  bool has_budget = false;
  bool has_eos_stop = false;
  bool has_sequence_stop = false;
  index_t parts = 0;
};

facts facts_of(const scenario& s) {
  const named_policy parts = parts_of(s);
  facts f;
  f.renoises = parts.has_canvas();
  f.moves = step::rewrites_blocks_now(parts);
  f.remasks = names(s.policy, "remask_below");
  f.masks_least = (step::remasks_least_now(parts) || step::reconsiders_now(parts));
  f.checks = names(s.policy, "self_speculation");
  f.hides = names(s.policy, "core");
  f.rewrites = parts.token_edits.count > 0 || f.remasks || f.masks_least || f.checks;
  f.drafts = names(s.policy, "drafts");
  f.beams = names(s.policy, "beam");
  f.branches = names(s.policy, "lookahead") || f.drafts || f.beams;
  f.draws = names(s.policy, "sampling");
  f.edits_rows = names(s.policy, "temperature") || parts.logits_processors.count > 0;
  f.stays =
      names(s.policy, "edited_blocks") || names(s.policy, "remdm_loop") || f.checks || f.hides;
  f.leaves = names(s.policy, "edited_blocks");
  f.has_budget = names(s.policy, "max_steps");
  f.has_sequence_stop = names(s.policy, "stop_sequence");
  f.has_eos_stop = names(s.policy, "stop_at_eos");
  f.parts = parts.count;
  return f;
}

/// Which tokens the parts of a policy take out of a row for good.
class bans {
 public:
  explicit bans(const scenario& s)
      : parts_(parts_of(s))
      , end_(s.model.eos_token) {}

  /// Whether a token may stand at an offset of the answer.
  [[nodiscard]] bool allow(token_id token, index_t offset) const {
    return !parts_.logits_processors.any([&](const auto& r) {
      using rule = std::remove_cvref_t<decltype(r)>;
      if constexpr (std::is_same_v<rule, allowed_tokens<logits_processor_family::most_tokens>>) {
        return range{r.first, r.last}.contains(offset) &&
               std::find(r.tokens, r.tokens + r.count, token) == r.tokens + r.count;
      } else if constexpr (std::is_same_v<rule, min_new_tokens>) {
        return offset < r.tokens && (token == end_ || token == r.also);
      } else {
        return false;
      }
    });
  }

 private:
  named_policy parts_;
  token_id end_;
};

/// Result of a naive read of a row.
struct reading {
  bool is_valid = false;     ///< no NaN, and a finite best
  bool is_moderate = false;  ///< no sum of it can overflow
  token_id best = no_token;
};

/// A step as a session shows it.
struct step_view {
  const step_record& now;
  [[nodiscard]] const sequence_report& report(index_t) const { return now.report; }
  [[nodiscard]] std::span<const commit_entry> committed(index_t) const { return now.commits; }
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t) const {
    return now.candidates;
  }
  [[nodiscard]] std::span<const token_probability> probabilities(index_t) const {
    return now.probabilities;
  }
};

class sequence_oracle {
 public:
  sequence_oracle(const scenario& s, std::size_t i, const facts& f, const bans& b)
      : s_(s)
      , q_(s.sequences[i])
      , g_(q_.shape)
      , f_(f)
      , bans_(b)
      , fields_(s, q_)
      , waits_(bound_of(s, q_).waits)
      , suppressed_(q_.suppressed.begin(), q_.suppressed.end())
      , laws_(parts_of(s), g_, s.model.mask_token, given_in(q_)) {
    if (s.model.suppress_mask) {
      suppressed_.insert(s.model.mask_token);
    }
  }

  void on_tokens(const std::vector<token_id>& tokens) {
    given_ = tokens;
    for (index_t p = 0; p < g_.length; ++p) {
      marks_.push_back(p < g_.prompt_length  ? mark::fixed
                       : q_.editable.empty() ? mark::masked
                                             : static_cast<mark>(q_.editable[at(p)]));
    }
  }

  void on_start(const step_record& now) {
    for (index_t p = 0; p < g_.length; ++p) {
      const token_id token = now.tokens[at(p)];
      if (marks_[at(p)] == mark::masked && !f_.renoises) {
        const bool is_filled = now.report.end != ending::running && token == s_.model.eos_token;
        const bool is_certain = std::any_of(
            now.commits.begin(), now.commits.end(), [&](const auto& e) { return e.position == p; });
        expect(token == s_.model.mask_token || is_filled || is_certain,
               "a masked position holds a mask",
               p);
      }
    }
    expect(now.report.forwards == 0 && now.report.committed == now.report.filled &&
               static_cast<index_t>(now.commits.size()) == now.report.filled,
           "a report",
           "something happened before the first step");
    before_ = now;
    tokens_before_ = now.tokens;
    check_filled_at_start(now);
    if (f_.moves) {
      check_moved(now);
    } else {
      check_answer_end(now);
      fill(now);
      check_rest(now);
      check_constraints(now);
    }
    before_ = now;
  }

  void on_cancel(const step_record& seen) {
    const step_record now = shown(seen);
    expect(now.report.end == ending::cancelled, "a report", "not cancelled");
    expect(now.tokens == before_.tokens, "a cancelled sequence", "its tokens changed");
    expect(now.report.answer_end <= now.report.committed_prefix,
           "a cancelled sequence",
           "answer_end",
           now.report.answer_end,
           now.report.committed_prefix);
    for (index_t p = g_.prompt_length; s_.model.suppress_mask && p < now.report.answer_end; ++p) {
      const bool is_given = !q_.editable.empty() && q_.editable[at(p)] != 1;  // text, masks too
      expect(now.tokens[at(p)] != s_.model.mask_token || is_given,
             "a cancelled sequence",
             "a mask in the text to show",
             p,
             now.report.answer_end);
    }
    if (f_.moves) {
      return;
    }
    expect(now.report.masked == masked_count() &&
               now.report.committed_prefix == before_.report.committed_prefix &&
               now.report.committed == before_.report.committed,
           "a report",
           "of a cancelled sequence");
  }

  void on_step(const step_record& seen, const std::vector<std::vector<given_row>>& rows) {
    check_laws(seen);
    const step_record now = shown(seen);
    if (f_.moves) {
      check_commits_of_moved(now);
      check_moved(now);
      before_ = now;
      return;
    }
    const index_t winner = winner_of(now);
    possible_ = answer_now();
    read(now, rows, winner);
    check_request(now);
    check_keys(now, winner);
    check_lists(now);
    check_candidates(now);
    const index_t committed = apply(now, winner);
    check_progress(now, committed);
    check_filled(now);
    check_answer_end(now);
    fill(now);
    check_rest(now);
    check_constraints(now);
    check_heads(now);
    before_ = now;
  }

 private:
  [[nodiscard]] static std::vector<bool> given_in(const sequence_plan& q) {
    std::vector<bool> given;
    for (const std::uint8_t m : q.editable) {
      given.push_back(static_cast<mark>(m) != mark::masked);
    }
    return given;
  }
  [[nodiscard]] static std::size_t at(index_t p) { return static_cast<std::size_t>(p); }

  static void expect(bool holds, const char* promise, const std::string& seen) {
    if (!holds) {
      throw violation(promise, seen);
    }
  }
  static void expect(bool holds, const char* promise, index_t position) {
    if (!holds) {
      throw violation(promise, "position " + std::to_string(position));
    }
  }
  static void
  expect(bool holds, const char* promise, const char* name, std::int64_t got, std::int64_t wanted) {
    if (!holds) {
      throw violation(promise,
                      std::string(name) + " " + std::to_string(got) + " instead of " +
                          std::to_string(wanted));
    }
  }

  /// The same with the tokens that the next pass hides in their places.
  [[nodiscard]] step_record shown(const step_record& seen) const {
    step_record now = seen;
    std::vector<token_id> written = before_.tokens;
    for (const commit_entry& e : seen.commits) {
      written[at(e.position)] = e.token;
    }
    const bool may_hide =
        f_.hides && (seen.report.end == ending::running || seen.report.end == ending::cancelled);
    for (index_t p = g_.prompt_length; may_hide && p < g_.length; ++p) {
      if (now.tokens[at(p)] == s_.model.mask_token) {
        now.tokens[at(p)] = written[at(p)];
      }
    }
    return now;
  }

  /// The laws of every decode. The rows may be invalid for any reason.
  void check_laws(const step_record& seen) {
    if (f_.renoises || f_.moves || f_.checks || !q_.fields.empty()) {
      return;
    }
    try {
      laws_.begin_step(seen.planned, tokens_before_);
      laws_.end_step(step_view{seen}, seen.tokens, {});
    } catch (const std::logic_error& e) {
      throw violation("a law", e.what());
    }
    tokens_before_ = seen.tokens;
  }

  [[nodiscard]] index_t masked_count() const {
    return static_cast<index_t>(std::count(marks_.begin(), marks_.end(), mark::masked));
  }
  [[nodiscard]] index_t first_masked() const {
    return static_cast<index_t>(std::find(marks_.begin(), marks_.end(), mark::masked) -
                                marks_.begin());
  }
  [[nodiscard]] bool is_masked(index_t p) const { return marks_[at(p)] == mark::masked; }

  /// The branch that the step went on with: the one whose placement was committed with the branch.
  [[nodiscard]] index_t winner_of(const step_record& now) const {
    if (f_.drafts || f_.beams) {
      return now.winner;
    }
    for (const segment& s : now.segments) {
      for (const candidate_entry& e : now.candidates) {
        if (s.branch > 0 && now.planned.places(s.branch, e.position) &&
            e.outcome == candidate_outcome::from_branch) {
          return s.branch;
        }
      }
    }
    return 0;
  }

  /// Keeps the rows of the step by position.
  void
  read(const step_record& now, const std::vector<std::vector<given_row>>& rows, index_t winner) {
    rows_before_ = std::move(rows_);
    rows_.clear();
    for (std::size_t k = 0; k < now.segments.size(); ++k) {
      const segment& s = now.segments[k];
      if (s.branch != winner) {
        continue;
      }
      for (index_t p = g_.prompt_length; p < g_.length; ++p) {
        if (s.attention == attention_kind::shadow && is_masked(p)) {
          continue;  // decided from the sequence
        }
        const index_t row = std::max(p - s.logits_shift, 0);
        for (const given_row& given : rows[k]) {
          if (given.row == row) {
            rows_[p] = given;
            rows_[p].possible = fields_.has(p) ? possible_.possible[p] : std::vector<bool>();
          }
        }
      }
    }
  }

  [[nodiscard]] bool is_masked(const given_row& row, token_id v) const {
    return !row.allowed.empty() && ((row.allowed[at(v) / 32] >> (at(v) % 32)) & 1U) == 0;
  }
  [[nodiscard]] bool is_free(const given_row& row, token_id v) const {
    return suppressed_.count(v) == 0 && (row.possible.empty() || row.possible[at(v)]);
  }

  /// The tokens that the constraints leave possible now.
  [[nodiscard]] fields_oracle::answer answer_now() const {
    return fields_.of(
        [&](index_t p, token_id v) {
          return suppressed_.count(v) == 0 && bans_.allow(v, p - g_.prompt_length);
        },
        [&](index_t p) { return is_masked(p) ? no_token : before_.tokens[at(p)]; });
  }

  /// Tokens that are certain before the first step. They become part of what was before it.
  void check_filled_at_start(const step_record& now) {
    for (index_t p = 0; p < g_.length; ++p) {
      before_.tokens[at(p)] = is_masked(p) ? s_.model.mask_token : given_[at(p)];
    }
    const auto possible = answer_now();
    for (const commit_entry& e : now.commits) {
      const bool is_right =
          fields_.has(e.position) && is_masked(e.position) && e.step == -1 && is_only(possible, e);
      expect(is_right, "a token that is certain", e.position);
      marks_[at(e.position)] = mark::committed;
      before_.tokens[at(e.position)] = e.token;
    }
    before_.tokens = now.tokens;
  }
  /// Whether the token of an entry is the only one that is possible there.
  [[nodiscard]] static bool is_only(const fields_oracle::answer& now, const commit_entry& e) {
    const std::vector<bool>& here = now.possible.at(e.position);
    return here[at(e.token)] && std::count(here.begin(), here.end(), true) == 1;
  }

  /// No other token than one that was filled in is possible. Before the end fills the others.
  void check_filled(const step_record& now) {
    if (q_.fields.empty()) {
      return;
    }
    before_.tokens = now.tokens;
    const auto possible = answer_now();
    for (const candidate_entry& e : now.candidates) {
      expect(e.outcome != candidate_outcome::filled || is_only(possible, e),
             "a token that is certain",
             e.position);
    }
  }

  /// Every field can be completed, and a sequence that ends by itself has strings of the language.
  void check_constraints(const step_record& now) {
    if (q_.fields.empty()) {
      return;
    }
    before_.tokens = now.tokens;
    const bool can_be = answer_now().can_be_completed;
    const bool has_ended = now.report.end != ending::running;
    bool is_whole = true;
    for (index_t p = 0; p < g_.length; ++p) {
      is_whole = is_whole && !(is_masked(p) && fields_.has(p));
    }
    const bool by_itself =
        now.report.end == ending::complete || now.report.end == ending::eos_token;
    expect(can_be || (has_ended && !by_itself), "a constraint", "its fields cannot be completed");
    expect(!by_itself || now.report.constraint_met, "a constraint", "ended by itself, and not met");
    expect(!has_ended || now.report.constraint_met == (is_whole && can_be),
           "a report",
           "constraint_met",
           now.report.constraint_met ? 1 : 0,
           is_whole && can_be ? 1 : 0);
  }

  [[nodiscard]] reading read_row(const given_row& row) const {
    reading r;
    r.is_moderate = true;
    double best = -std::numeric_limits<double>::infinity();
    bool has_nan = false;
    for (token_id v = 0; v < s_.model.vocab; ++v) {
      if (!is_free(row, v) || is_masked(row, v)) {
        continue;
      }
      const double z = double(row.logits[at(v)]);
      has_nan = has_nan || std::isnan(z);
      r.is_moderate = r.is_moderate && (std::fabs(z) < 1e4 || z == -HUGE_VAL);
      if (z > best) {
        best = z;
        r.best = v;
      }
    }
    r.is_valid = !has_nan && std::isfinite(best);
    return r;
  }

  void check_request(const step_record& now) {
    bool any = f_.renoises;
    for (index_t p = now.planned.score.first; p < now.planned.score.last; ++p) {
      any = any || is_masked(p);
    }
    expect(any || f_.stays, "a forward pass", "nothing in it is masked");
    was_masked_ = any;
  }

  /// The keys of the segment with which the sequence goes on were computed in it, or in those of
  /// the passes before. Drafts and members of a beam share what they compute.
  void check_keys(const step_record& now, index_t winner) {
    computed_.resize(at(g_.length));
    for (const segment& s : now.segments) {
      if (s.attention != attention_kind::shadow && (s.branch == winner || f_.drafts || f_.beams)) {
        std::fill(computed_.begin() + s.query.first, computed_.begin() + s.query.last, true);
        for (index_t p = s.keys.first; p < s.keys.last; ++p) {
          expect(computed_[at(p)], "a key that was computed", p);
        }
      }
    }
  }

  void check_lists(const step_record& now) const {
    const index_t step = now.report.forwards - 1;
    expect(step == before_.report.forwards, "a report", "forwards", now.report.forwards, step + 1);
    index_t last = -1;
    for (const commit_entry& e : now.commits) {
      expect(e.position > last, "committed() ascends", e.position);
      last = e.position;
      expect(e.position < g_.length && marks_[at(e.position)] != mark::fixed,
             "a fixed position",
             e.position);
      expect(e.token >= 0 && e.token < s_.model.vocab,
             "a token of the vocabulary",
             std::to_string(e.token) + " at position " + std::to_string(e.position));
      expect(e.step == step, "a commit's step", "step", e.step, step);
      expect(e.block >= 0 && e.block_step >= 0 && e.block_step <= step,
             "a commit's block",
             "block " + std::to_string(e.block) + ", step " + std::to_string(e.block_step) +
                 " of it at position " + std::to_string(e.position));
      expect(!std::isnan(e.log_probability) && e.log_probability <= 1e-5F,
             "a log-probability",
             std::to_string(e.log_probability) + " at position " + std::to_string(e.position));
    }
    last = -1;
    for (const token_probability& e : now.probabilities) {
      expect(e.position >= last && e.position < g_.length && is_masked(e.position) &&
                 e.step == step,
             "probabilities()",
             e.position);
      last = e.position;
      const auto is_share = [](float x) { return x >= 0.0F && x <= 1.00001F; };
      expect(is_share(e.probability) && is_share(e.share),
             "probabilities()",
             std::to_string(e.probability) + ", share " + std::to_string(e.share));
    }
  }

  /// Whether an entry may be of a position that was remasked and, as the sequence ended, filled.
  [[nodiscard]] bool is_filled(const commit_entry& e, const step_record& now) const {
    return now.report.end != ending::running && e.token == s_.model.eos_token &&
           e.log_probability == 0.0F;
  }

  void check_candidates(const step_record& now) const {
    index_t last = -1;
    for (const candidate_entry& e : now.candidates) {
      expect(e.position > last, "candidates() ascends", e.position);
      last = e.position;
      const bool was_committed =
          e.outcome == candidate_outcome::replaced || e.outcome == candidate_outcome::remasked ||
          e.outcome == candidate_outcome::kept ||
          (marks_[at(e.position)] == mark::committed &&  // an edit, or remasked and filled again
           (e.outcome == candidate_outcome::refused || e.outcome == candidate_outcome::filled));
      expect(e.position < g_.length &&
                 (was_committed ? f_.rewrites && marks_[at(e.position)] == mark::committed
                                : is_masked(e.position)),
             "candidates()",
             e.position);
      expect(e.outcome != candidate_outcome::kept || f_.remasks, "a kept candidate", e.position);
      const bool has_part =
          e.outcome != candidate_outcome::invalid && e.outcome != candidate_outcome::forced &&
          e.outcome != candidate_outcome::refused && e.outcome != candidate_outcome::filled;
      const bool is_absorbed = f_.renoises && e.outcome == candidate_outcome::excluded;
      expect(has_part ? (e.part >= 0 && e.part < f_.parts) || (is_absorbed && e.part == -1)
                      : e.part == -1,
             "part of a candidate",
             std::to_string(e.part) + " at position " + std::to_string(e.position));
      expect(e.token >= 0 && e.token < s_.model.vocab,
             "a candidate's token",
             std::to_string(e.token) + " at position " + std::to_string(e.position));
      if (f_.renoises) {
        continue;
      }
      const auto c = std::find_if(now.commits.begin(), now.commits.end(), [&](const auto& x) {
        return x.position == e.position;
      });
      const bool is_written = c != now.commits.end() && c->token == e.token &&
                              e.token != s_.model.mask_token;  // which remasks
      const bool was_filled = c != now.commits.end() && is_filled(*c, now) && !e.committed;
      expect(e.committed == is_written || was_filled, "candidates() and committed()", e.position);
    }
  }

  /// Suppressed tokens are never committed; what row mask and parts forbid, only where they leave
  /// nothing together: then the row mask is disregarded first.
  void check_allowed(const commit_entry& e, const given_row& row) const {
    const auto is_listed = [&](token_id v) {
      return is_free(row, v) && bans_.allow(v, e.position - g_.prompt_length);
    };
    const auto is_allowed = [&](token_id v) { return is_listed(v) && !is_masked(row, v); };
    const auto any = [&](const auto& holds) {
      for (token_id v = 0; v < s_.model.vocab; ++v) {
        if (holds(v)) {
          return true;
        }
      }
      return false;
    };
    const std::string what = "token " + std::to_string(e.token) + " at position " +
                             std::to_string(e.position) +
                             (e.log_probability > -HUGE_VALF ? "" : " of an invalid row");
    expect(suppressed_.count(e.token) == 0, "no suppressed token", what);
    expect(is_free(row, e.token), "a token that a constraint leaves possible", what);
    expect(is_listed(e.token) || !any(is_listed), "lists", what);
    expect(is_allowed(e.token) || !any(is_allowed), "row mask", what);
  }

  /// Whether a step may commit a token at a position, by the row that it was read from.
  void check_token(const commit_entry& e, const given_row& row, bool is_placed) const {
    check_allowed(e, row);
    const std::string what =
        "token " + std::to_string(e.token) + " at position " + std::to_string(e.position);
    const bool is_reported_valid = e.log_probability > -HUGE_VALF;
    if (is_reported_valid && !f_.edits_rows && !s_.engine.has_guidance) {
      const float z = row.logits[at(e.token)];
      expect(std::isfinite(z), "a possible token", what + ", whose logit is " + std::to_string(z));
    }
    if (!f_.draws && !f_.edits_rows && !s_.engine.has_guidance && !is_placed) {
      const reading r = read_row(row);
      expect(!is_reported_valid || r.is_valid, "an invalid row", what);
      expect(!is_reported_valid || r.best == e.token,
             "the most probable token",
             what + " instead of " + std::to_string(r.best));
      expect(is_reported_valid || !(r.is_valid && r.is_moderate), "a valid row", what);
    }
  }

  [[nodiscard]] static bool has_outcome(const step_record& now, index_t p, candidate_outcome o) {
    return std::any_of(now.candidates.begin(), now.candidates.end(), [&](const auto& c) {
      return c.position == p && c.outcome == o;
    });
  }
  /// Whether a part masks a committed token in the step, and nothing else is possible there.
  [[nodiscard]] bool is_filled_again(index_t p, const step_record& now) const {
    return marks_[at(p)] == mark::committed && has_outcome(now, p, candidate_outcome::filled);
  }
  /// Whether a token comes from the constraints and not from the row: it was certain, it took the
  /// place of a refused one as nothing else was committed, or the row was read again.
  [[nodiscard]] bool is_of_constraint(const commit_entry& e, const step_record& now) const {
    return fields_.has(e.position) && (now.report.second_reads > before_.report.second_reads ||
                                       has_outcome(now, e.position, candidate_outcome::filled) ||
                                       has_outcome(now, e.position, candidate_outcome::forced));
  }

  /// Takes over what the step committed. Returns how many positions it committed.
  index_t apply(const step_record& now, index_t winner) {
    index_t committed = 0;
    index_t rewritten = 0;
    const index_t streamed = before_.report.committed_prefix;
    std::vector<token_id> expected = before_.tokens;
    for (const commit_entry& e : now.commits) {
      mark& m = marks_[at(e.position)];
      const bool opens = m == mark::committed && e.token == s_.model.mask_token;
      expect(f_.renoises || opens || e.token != s_.model.mask_token, "no mask token", e.position);
      expect(m == mark::masked || f_.rewrites, "a committed token", e.position);
      expect(
          e.position >= streamed || (f_.rewrites && !f_.checks), "what was streamed", e.position);
      committed += m == mark::masked || is_filled_again(e.position, now) ? 1 : 0;
      rewritten += m == mark::committed ? 1 : 0;
      const bool is_drafted =  // rows of some draft, or of members of a beam
          (f_.drafts && now.planned.places(now.planned.branches, e.position)) ||
          (f_.beams && now.planned.branches > 0);
      if (!opens && !is_drafted) {
        const bool is_placed =
            winner > 0 && std::any_of(now.segments.begin(), now.segments.end(), [&](const auto& s) {
              return s.branch == winner && now.planned.places(winner, e.position);
            });
        const auto& rows = is_placed ? rows_before_ : rows_;
        const auto row = rows.find(e.position);
        const bool is_old = f_.renoises && s_.engine.restless_grammar;  // of an earlier row
        const bool is_eos = m == mark::committed && is_filled(e, now);
        if (row != rows.end() && !is_old && !is_eos && !(is_placed && rows.empty()) &&
            !is_of_constraint(e, now)) {
          f_.renoises ? check_allowed(e, row->second) : check_token(e, row->second, is_placed);
        }
      }
      m = opens ? mark::masked : mark::committed;
      expected[at(e.position)] = e.token;
    }
    for (index_t p = 0; p < static_cast<index_t>(expected.size()); ++p) {
      const token_id token = now.tokens[at(p)];
      const bool was_masked = p < g_.length && is_masked(p);
      expect(token >= 0 && token < s_.model.vocab, "a token of the vocabulary in the buffer", p);
      expect(token == expected[at(p)] || (f_.renoises && was_masked) ||
                 (was_masked && now.report.end != ending::running && token == s_.model.eos_token),
             "committed() is what changed",
             p);
      expect(p < g_.length || token == given_[at(p)], "tokens behind the sequence", p);
    }
    expect(now.report.committed == before_.report.committed + committed,
           "a report",
           "committed",
           now.report.committed,
           before_.report.committed + committed);
    expect(now.report.rewritten == before_.report.rewritten + rewritten,
           "a report",
           "rewritten",
           now.report.rewritten,
           before_.report.rewritten + rewritten);
    expect(now.report.forced >= before_.report.forced &&
               now.report.forced <= before_.report.forced + committed + rewritten,
           "a report",
           "forced",
           now.report.forced,
           before_.report.forced);
    expect(now.report.invalid_rows >= before_.report.invalid_rows,
           "a report",
           "invalid_rows",
           now.report.invalid_rows,
           before_.report.invalid_rows);
    return committed;
  }

  void check_progress(const step_record& now, index_t committed) const {
    const bool may_wait = now.report.forwards <= waits_ || f_.renoises || !s_.model.suppress_mask ||
                          (f_.stays && !was_masked_) ||
                          f_.masks_least ||       // what the step would commit; the bound counts it
                          f_.checks || f_.beams;  // what its members do not have in common
    expect(committed > 0 || may_wait,
           "a commit in every step",
           "step " + std::to_string(now.report.forwards));
  }

  /// Checks text that moves and answers that grow: the prompt stays, every other position
  /// has a token or is masked, nothing is masked at the end.
  void check_moved(const step_record& now) const {
    const sequence_report& r = now.report;
    expect(g_.prompt_length <= r.answer_end && r.answer_end <= g_.length,
           "a report",
           "answer_end",
           r.answer_end,
           g_.length);
    expect(r.end == ending::running || r.answer_end <= r.committed_prefix,
           "a report",
           "answer_end",
           r.answer_end,
           r.committed_prefix);
    // A stop sequence ends the answer before the text.
    const index_t end = r.end == ending::running ? r.answer_end : g_.length;
    index_t masks = 0;
    for (index_t p = 0; p < static_cast<index_t>(now.tokens.size()); ++p) {
      const token_id token = now.tokens[at(p)];
      expect(token >= 0 && token < s_.model.vocab, "a token of the vocabulary in the buffer", p);
      expect((p >= g_.prompt_length && p < g_.length) || token == given_[at(p)],
             "tokens outside the answer",
             p);
      const bool is_text = p >= g_.prompt_length && p < end;
      masks += is_text && token == s_.model.mask_token ? 1 : 0;
    }
    expect(r.masked <= masks, "a report", "masked", r.masked, masks);
    const bool is_filled = s_.model.eos_token != no_token && r.end != ending::max_steps;
    if (r.end == ending::complete || (r.end != ending::running && is_filled)) {
      expect(r.masked == 0, "an ended sequence", "positions are masked");
    }
  }

  void check_commits_of_moved(const step_record& now) const {
    index_t last = g_.prompt_length - 1;
    for (const commit_entry& e : now.commits) {
      expect(e.position > last && e.position < g_.length, "committed() ascends", e.position);
      last = e.position;
      const bool has_ended = now.report.end != ending::running;
      expect(e.token == now.tokens[at(e.position)] || has_ended,
             "committed() is what was written",
             e.position);
      expect(suppressed_.count(e.token) == 0 || e.token == s_.model.mask_token || is_filled(e, now),
             "no suppressed token",
             e.position);
      expect(!std::isnan(e.log_probability) && e.log_probability <= 1e-5F,
             "a log-probability",
             std::to_string(e.log_probability) + " at position " + std::to_string(e.position));
    }
  }

  /// The most probable tokens of the rows that were read: of positions that stayed masked, and of
  /// those that got a token.
  void check_heads(const step_record& now) const {
    for (const auto* const list : {&now.soft_tokens, &now.alternatives}) {
      index_t last = -1;
      for (auto first = list->begin(); first != list->end();) {
        const index_t p = first->position;
        const auto end = std::find_if(
            first, list->end(), [&](const token_probability& e) { return e.position != p; });
        expect(p > last && p < g_.length && is_masked(p) == (list == &now.soft_tokens),
               "the position of soft tokens",
               p);
        check_head({first, end}, now);
        last = p;
        first = end;
      }
    }
  }
  void check_head(std::span<const token_probability> head, const step_record& now) const {
    const index_t p = head.front().position;
    expect(head.size() <= at(q_.soft_tokens), "the number of soft tokens", p);
    double sum = 0.0;
    for (std::size_t k = 0; k < head.size(); ++k) {
      const token_probability& e = head[k];
      expect(
          e.step == now.report.forwards - 1 && suppressed_.count(e.token) == 0, "a soft token", p);
      expect(k == 0 || e.probability <= head[k - 1].probability, "soft tokens, best first", p);
      for (std::size_t j = 0; j < k; ++j) {
        expect(head[j].token != e.token, "soft tokens that differ", p);
      }
      sum += double(e.share);
    }
    expect(std::fabs(sum - 1.0) < 1e-4, "the shares of soft tokens", p);
    const auto found = rows_.find(p);
    if (f_.edits_rows || s_.engine.has_guidance || found == rows_.end() ||
        f_.renoises) {  // a temperature may make logits equal, or infinite
      return;
    }
    const given_row& row = found->second;
    std::vector<token_id> order;
    for (token_id v = 0; v < s_.model.vocab; ++v) {
      if (is_free(row, v) && !is_masked(row, v) && row.logits[at(v)] > -HUGE_VALF) {
        order.push_back(v);
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](token_id a, token_id b) {
      return row.logits[at(a)] > row.logits[at(b)];
    });
    expect(
        head.size() == std::min(at(q_.soft_tokens), order.size()), "the number of soft tokens", p);
    double all = 0.0;
    const auto weight = [&](token_id v) {
      return std::exp(double(row.logits[at(v)]) - double(row.logits[at(order[0])]));
    };
    for (const token_id v : order) {
      all += weight(v);
    }
    for (std::size_t k = 0; k < head.size(); ++k) {
      expect(head[k].token == order[k], "the most probable tokens", p);
      expect(std::fabs(double(head[k].probability) - weight(order[k]) / all) < 1e-5,
             "the probability of a soft token",
             p);
    }
  }

  /// Expected tokens that the end of a sequence fills in.
  void fill(const step_record& now) {
    if (f_.leaves && now.report.end == ending::max_steps && now.report.masked > 0) {
      return;
    }
    if (now.report.end != ending::running && s_.model.eos_token != no_token &&
        (!f_.renoises || now.report.forwards == 0)) {
      for (index_t p = g_.prompt_length; p < g_.length; ++p) {
        if (is_masked(p)) {
          expect(now.tokens[at(p)] == s_.model.eos_token, "an ended sequence holds no mask", p);
          marks_[at(p)] = mark::committed;
        }
      }
    }
  }

  /// The answer of an ended sequence ends before the first position that no decision committed, and
  /// there, unless something else ends it.
  void check_answer_end(const step_record& now) const {
    const sequence_report& r = now.report;
    if (r.end == ending::running) {
      return;
    }
    index_t undecided = first_masked();
    for (const commit_entry& e : now.commits) {  // masked again by the step, then filled
      const bool is_open = has_outcome(now, e.position, candidate_outcome::remasked);
      undecided = is_open ? std::min(undecided, e.position) : undecided;
    }
    const bool is_exact = !f_.rewrites && !f_.has_eos_stop && !f_.has_sequence_stop &&
                          r.end != ending::eos_token && r.end != ending::stop_tokens;
    expect(is_exact ? r.answer_end == undecided : r.answer_end <= undecided,
           "the answer ends before the first undecided position",
           "answer_end",
           r.answer_end,
           undecided);
  }

  void check_rest(const step_record& now) const {
    const sequence_report& r = now.report;
    expect(r.masked == masked_count(), "a report", "masked", r.masked, masked_count());
    expect(f_.checks ? r.committed_prefix <= first_masked() : r.committed_prefix == first_masked(),
           "a report",
           "committed_prefix",
           r.committed_prefix,
           first_masked());
    expect(r.end == ending::running ? r.answer_end == g_.length
                                    : g_.prompt_length <= r.answer_end && r.answer_end <= g_.length,
           "a report",
           "answer_end",
           r.answer_end,
           g_.length);
    expect(r.last_commits == static_cast<index_t>(now.commits.size()),
           "a report",
           "last_commits",
           r.last_commits,
           static_cast<index_t>(now.commits.size()));
    switch (r.end) {
    case ending::running:
      expect(r.masked > 0 || f_.stays, "an end", "nothing is masked, and it goes on");
      break;
    case ending::complete:
      expect(r.masked == 0, "a report", "complete, with masked positions");
      break;
    case ending::eos_token:
      expect(s_.model.eos_token != no_token, "a report", "an EOS token without one");
      break;
    case ending::stop_tokens:
      expect(f_.has_sequence_stop, "a report", "a stop sequence without one");
      break;
    case ending::max_steps:
      expect(f_.has_budget || f_.renoises || f_.stays, "a report", "a limit of steps without one");
      break;
    case ending::cancelled:
      expect(false, "a report", "cancelled by nobody");
      break;
    case ending::idle:
      expect(false, "a report", "idle, with a sequence");
      break;
    }
  }

  const scenario& s_;
  const sequence_plan& q_;
  const sequence_shape& g_;
  const facts& f_;
  const bans& bans_;
  fields_oracle fields_;
  fields_oracle::answer possible_;
  std::int64_t waits_;
  std::vector<bool> computed_;
  bool was_masked_ = false;  ///< anything that was decided about
  std::set<token_id> suppressed_;
  std::vector<token_id> given_;
  std::vector<mark> marks_;
  step_record before_;
  std::map<index_t, given_row> rows_;
  std::map<index_t, given_row> rows_before_;
  testing::decode_laws laws_;
  std::vector<token_id> tokens_before_;  ///< as they are, those that are hidden masked
};

class oracle final : public observer {
 public:
  explicit oracle(const scenario& s)
      : facts_(facts_of(s))
      , bans_(s) {
    for (std::size_t i = 0; i < s.sequences.size(); ++i) {
      sequences_.emplace_back(s, i, facts_, bans_);
    }
  }

  void on_tokens(std::size_t i, const std::vector<token_id>& tokens) override {
    sequences_[i].on_tokens(tokens);
  }
  void on_start(std::size_t i, const step_record& now) override { sequences_[i].on_start(now); }
  void on_step(std::size_t i,
               const step_record& now,
               const std::vector<std::vector<given_row>>& rows) override {
    sequences_[i].on_step(now, rows);
  }
  void on_cancel(std::size_t i, const step_record& now) override { sequences_[i].on_cancel(now); }

 private:
  facts facts_;
  bans bans_;
  std::vector<sequence_oracle> sequences_;
};

}  // namespace

std::unique_ptr<observer> make_oracle(const scenario& s) {
  return std::make_unique<oracle>(s);
}

/// A replay writes the tokens of its trace in as many passes, whatever the rows are.
void check_replays(const scenario& s, const std::vector<std::vector<step_record>>& expected) {
  const std::vector<std::string> traces = recorded(s);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (expected[i].size() < 2) {
      continue;  // no pass, no trace
    }
    scenario other = s;
    other.sequences[i].cancels = -1;
    other.engine.seed += 1;
    for (const mood rows : {mood::sane, mood::all_nan, mood::nothing}) {
      other.engine.moods = {};
      other.engine.moods[static_cast<std::size_t>(rows)] = 1.0;
      std::vector<step_record> again;
      try {
        again = replayed(other, i, traces[i], static_cast<std::uint64_t>(rows));
      } catch (const refusal& e) {
        if (std::string_view(e.what()).find("canvas") == std::string_view::npos) {
          throw violation("a replay, refused", e.what());
        }
        return;
      }
      const auto fails = [&](const char* what) {
        throw violation(what,
                        "sequence " + std::to_string(i) + ", rows of mood " +
                            std::to_string(int(rows)) + "\n" + traces[i]);
      };
      // Behind text that has become shorter stands what was there, if no EOS token fills it.
      const step_record& last = expected[i].back();
      const bool is_filled = s.model.eos_token != no_token && last.report.end != ending::cancelled;
      const auto count = is_filled ? last.tokens.size() : std::size_t(last.report.answer_end);
      if (!std::equal(last.tokens.begin(),
                      last.tokens.begin() + std::ptrdiff_t(count),
                      again.back().tokens.begin())) {
        fails("a replay, tokens");
      }
      if (again.back().report.forwards != expected[i].back().report.forwards) {
        fails("a replay, passes");
      }
      if (again.back().report.end != expected[i].back().report.end) {
        fails("a replay, end");
      }
    }
  }
}

void check(const scenario& s,
           const std::function<void(const std::vector<std::vector<step_record>>&)>& seen) {
  const std::unique_ptr<observer> oracle = make_oracle(s);
  const auto expected = decode(s, {}, oracle.get());
  seen(expected);
  for (const way& w : ways(s)) {
    const auto got = decode(s, w);
    seen(got);
    compare(got, expected, w.name);
  }
  check_replays(s, expected);
}

}  // namespace unmask::hostile
