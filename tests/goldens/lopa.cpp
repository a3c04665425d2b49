// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/lopa.hpp"

#include <unmask/host/backend.hpp>
#include <unmask/policy/presets/released/lopa.hpp>
#include <unmask/session.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "goldens/witness.hpp"

namespace unmask::goldens {

namespace {

/// Worths and branch scores are recorded with nine digits of a single-precision computation.
bool is_close(float got, double expected) {
  return std::abs(static_cast<double>(got) - expected) <= 1e-5 * std::max(1.0, std::abs(expected));
}

template <class T>
std::string difference_of(const std::string& what, const T& expected, const T& got) {
  return text(what, ": expected ", expected, ", got ", got);
}

/// A lookahead that writes the scores of its branches down, the anchor's first.
template <class Ranking>
struct observed : lookahead_by<Ranking> {
  std::vector<float>* scores = nullptr;

  float score_of_branch(float creation, float future) const {
    scores->push_back(lookahead_by<Ranking>::score_of_branch(creation, future));
    return scores->back();
  }
};

template <class Part>
auto observing(const Part& part, std::vector<float>*) {
  return part;
}
template <class Ranking>
auto observing(const lookahead_by<Ranking>& part, std::vector<float>* scores) {
  observed<Ranking> o;
  static_cast<lookahead_by<Ranking>&>(o) = part;
  o.scores = scores;
  return o;
}

/// One line beside the session that decodes it. Every step is begin(), the rows, finish().
class lopa_trace {
 public:
  explicit lopa_trace(const lopa_line& line, std::size_t max_length)
      : line_(line)
      , x_(line.prompt) {
    x_.resize(max_length, line.model.mask_id);
  }

  [[nodiscard]] tokens& x() { return x_; }

  /// Pairs the segments with the recorded branches and compares them.
  std::string begin(const plan& now, std::span<const segment> segments) {
    if (round_ >= line_.rounds.size()) {
      return text("a round more than the ", line_.rounds.size(), " recorded");
    }
    const lopa_round& r = line_.rounds[round_];
    order_.clear();
    for (std::size_t b = 1; b < segments.size(); ++b) {
      order_.push_back(b);
    }
    order_.push_back(0);
    if (segments.size() > 1 && !anchor_runs()) {
      order_.pop_back();  // the library runs it although it cannot win
    }
    // Without a candidate the release runs the same sequence as a branch and as the anchor.
    runs_ = r.branches.size();
    const bool twice = segments.size() == 1 && runs_ == 2 && r.branches[0].x == r.branches[1].x;
    if (twice) {
      order_.push_back(0);
    }
    if (order_.size() != runs_) {
      return difference_of("branches", runs_, order_.size());
    }
    if (r.prefix_end >= 0 && now.score.first != r.prefix_end) {
      return difference_of("prefix_end", r.prefix_end, now.score.first);
    }
    // An engine with a cache feeds what is to be kept and what is masked; in the first round, all.
    const index_t kept = now.freeze.empty() ? now.score.first : now.freeze.first;
    if (const index_t start = round_ == 0 ? 0 : kept; start != r.input_start) {
      return difference_of("input_start", r.input_start, start);
    }
    if (r.length >= 0) {
      const index_t update = round_ == 0 ? now.score.first : now.freeze.size();
      if (update != r.cache_update) {
        return difference_of("cache_update", r.cache_update, update);
      }
    }
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const segment& s = segments[order_[k]];
      const std::string what = branch_difference(r, r.branches[k], now, s);
      if (!what.empty()) {
        return text("branch ", k, ": ", what);
      }
    }
    return {};
  }

  /// The rows of one segment; those of committed positions are never read and stay NaN.
  void write_rows(const segment& s, float* out) const {
    const lopa_round& r = line_.rounds[round_];
    const auto columns = static_cast<std::size_t>(line_.model.V);
    const tokens x = tokens_of(s);
    for (index_t p = line_.model.row_of(r.input_start); p < s.query.last; ++p) {
      const index_t row = line_.model.row_of(p);
      if (x[static_cast<std::size_t>(p)] != line_.model.mask_id || !s.rows.contains(row)) {
        continue;
      }
      // The row left of what is fed is the one that was kept when it was fed last.
      const bool kept = p == r.input_start && row == r.last_row.first;
      const int c = kept ? r.last_row.second : line_.model.neighbours(row, x);
      const auto at = static_cast<std::size_t>(row - s.rows.first);
      line_.model.raw_row(row, c, std::span<float>(out + at * columns, columns));
    }
  }

  /// Compares what the step decided; `scores` are the branches' in the order of the segments.
  std::string finish(const plan& before,
                     const plan& next,
                     std::span<const commit_entry> committed,
                     const std::vector<float>& scores) {
    const lopa_round& r = line_.rounds[round_];
    if (r.prefix_end >= 0) {
      for (std::size_t k = 0; k < order_.size(); ++k) {
        if (!is_close(scores.at(order_[k]), r.branches[k].score)) {
          return text(
              "branch ",
              k,
              ": ",
              difference_of("score", r.branches[k].score, static_cast<double>(scores[order_[k]])));
        }
      }
      const float best = scores.at(order_.at(static_cast<std::size_t>(r.winner)));
      const bool is_tie = std::count_if(order_.begin(), order_.end(), [&](std::size_t b) {
                            return scores[b] == best;
                          }) > 1;
      if (is_tie != r.winner_tie) {
        return difference_of("winner_tie", r.winner_tie, is_tie);
      }
      const auto winner = static_cast<index_t>(order_.at(static_cast<std::size_t>(r.winner)));
      if (next.winner != winner) {
        return difference_of("winner", winner, next.winner);
      }
    }
    std::vector<commit> filled;
    for (const commit_entry& c : committed) {
      const bool elected = next.winner > 0 && before.branch[next.winner - 1].position == c.position;
      if (!elected) {
        filled.push_back({c.position, c.token});
      }
      if (x_[static_cast<std::size_t>(c.position)] != c.token) {
        return text("committed() tells ", c.position, "=", c.token, ", which is not there");
      }
    }
    if (filled != r.filled) {
      return difference_of("filled", list_of(r.filled), list_of(filled));
    }
    if (r.prefix_end >= 0) {
      std::vector<commit> expected;
      std::vector<commit> got;
      for (const lopa_spawn& s : r.spawned) {
        expected.push_back(s.placed);
      }
      for (index_t b = 0; b < next.branches; ++b) {
        got.push_back({next.branch[b].position, next.branch[b].token});
      }
      if (got != expected) {
        return difference_of("spawn", list_of(expected), list_of(got));
      }
      for (std::size_t k = 0; k < got.size(); ++k) {
        if (!is_close(next.branch[k].lookahead_score, r.spawned[k].conf)) {
          return difference_of(
              "conf", r.spawned[k].conf, static_cast<double>(next.branch[k].lookahead_score));
        }
      }
    }
    forwards_ += static_cast<int>(runs_);
    ++round_;
    return {};
  }

  std::string end(const sequence_report& report) const {
    if (round_ != line_.rounds.size() || report.forwards != static_cast<index_t>(round_)) {
      return difference_of("rounds", static_cast<index_t>(line_.rounds.size()), report.forwards);
    }
    if (forwards_ != line_.forwards) {
      return difference_of("forwards", line_.forwards, forwards_);
    }
    // The round that finds nothing left is counted, too.
    if (line_.reported_steps != static_cast<int>(round_) + 1) {
      return difference_of("reported_steps", line_.reported_steps, static_cast<int>(round_) + 1);
    }
    for (std::size_t p = 0; p < x_.size(); ++p) {
      // Blocks that never joined are not in the recording; the session fills them.
      const token expected = p < line_.final.size() ? line_.final[p] : line_.model.eos_id;
      if (x_[p] != expected) {
        return text("final: position ", p, ": ", difference_of("token", expected, x_[p]));
      }
    }
    return {};
  }

  [[nodiscard]] std::size_t round() const { return round_; }

 private:
  [[nodiscard]] bool anchor_runs() const {
    return line_.args.at("base_branch_competition").get<bool>() ||
           line_.args.at("verification_force_base_winner").get<bool>();
  }

  [[nodiscard]] tokens tokens_of(const segment& s) const {
    tokens x(x_.begin(), x_.begin() + s.query.last);
    for (const auto& placed : s.placed) {
      x.at(static_cast<std::size_t>(placed.position)) = placed.token;
    }
    return x;
  }

  static std::string list_of(const std::vector<commit>& commits) {
    std::string list;
    for (const commit& c : commits) {
      list += text(list.empty() ? "" : " ", c.position, "=", c.value);
    }
    return list.empty() ? "nothing" : list;
  }

  std::string branch_difference(const lopa_round& r,
                                const lopa_branch& recorded,
                                const plan& now,
                                const segment& s) const {
    const tokens x = tokens_of(s);
    if (r.length >= 0 && s.query.last != r.length) {
      return difference_of("length", r.length, s.query.last);
    }
    if (r.prefix_end >= 0) {
      if (tokens(x.begin() + r.prefix_end, x.end()) != recorded.x) {
        return text("x differs, or its length: expected ",
                    recorded.x.size(),
                    ", got ",
                    static_cast<int>(x.size()) - r.prefix_end);
      }
      if (!is_close(s.branch > 0 ? s.placed.front().lookahead_score : 1.0F,
                    recorded.creation_conf)) {
        return difference_of(
            "creation_conf",
            recorded.creation_conf,
            static_cast<double>(s.branch > 0 ? s.placed.front().lookahead_score : 1.0F));
      }
      if (recorded.base != (s.branch == 0)) {
        return difference_of("base", recorded.base, s.branch == 0);
      }
      const bool has_end = std::find(x.begin() + static_cast<int>(line_.prompt.size()),
                                     x.end(),
                                     line_.model.eos_id) != x.end();
      if (has_end != recorded.eos) {
        return difference_of("eos", recorded.eos, has_end);
      }
    }
    index_t last = 0;
    for (const lopa_block& b : recorded.blocks) {
      const auto masks = static_cast<int>(
          std::count(x.begin() + b.at.start, x.begin() + b.at.end, line_.model.mask_id));
      if (b.at.start != last || masks != b.masks) {
        return text("block at ", b.at.start, ": ", difference_of("masks", b.masks, masks));
      }
      last = b.at.end;
      const bool is_fed_to_keep = b.state == "to_cache";
      const bool is_prompt = b.at.start == 0;
      const bool is_frozen = now.freeze.first <= b.at.start && b.at.end <= now.freeze.last;
      if (!is_prompt && is_fed_to_keep != is_frozen) {
        return text(
            "block at ", b.at.start, ": ", difference_of("frozen", is_fed_to_keep, is_frozen));
      }
      const bool is_scored = b.at.start >= now.score.first;
      if ((b.state == "active") != is_scored) {
        return text("block at ", b.at.start, ": ", difference_of("active", !is_scored, is_scored));
      }
      if (is_scored && s.branch == 0) {
        const index_t k = (b.at.start - now.score.first) / (b.at.end - b.at.start);
        const bool is_forced = (now.forced >> static_cast<unsigned>(k) & 1U) != 0;
        if (is_forced != b.fully_activated) {
          return text("block at ",
                      b.at.start,
                      ": ",
                      difference_of("fully_activated", b.fully_activated, is_forced));
        }
      }
    }
    return last == s.query.last ? "" : difference_of("end of the blocks", last, s.query.last);
  }

  const lopa_line& line_;
  tokens x_;
  std::vector<std::size_t> order_;  ///< segments in the recorded order
  std::size_t round_ = 0;
  std::size_t runs_ = 0;
  int forwards_ = 0;
};

template <class Policy>
verdict replay(const lopa_line& line, const Policy& preset, index_t block, index_t answer) {
  std::vector<float> scores;
  const auto p = changed(preset, [&](const auto& part) { return observing(part, &scores); });
  const auto prompt = static_cast<index_t>(line.prompt.size());
  const sequence_shape geometry{
      .prompt_length = prompt, .length = prompt + answer, .block_length = block};
  const model_info model{.vocab = line.model.V,
                         .mask_token = line.model.mask_id,
                         .eos_token = line.model.eos_id,
                         .logits_shift = line.model.logits_shift,
                         .suppress_mask = false};
  lopa_trace trace(line, static_cast<std::size_t>(geometry.length));
  session decode(p, model, trace.x(), geometry);

  std::vector<float> logits;
  while (const auto request = decode.next()) {
    const plan before = decode.planned();
    const std::vector<segment> segments(request->segments.begin(), request->segments.end());
    const auto at_round = [&](const std::string& what) {
      return verdict::fail(text("round ", trace.round(), ": ", what));
    };
    if (const std::string what = trace.begin(before, segments); !what.empty()) {
      return at_round(what);
    }
    const auto columns = static_cast<std::size_t>(line.model.V);
    logits.assign(static_cast<std::size_t>(request->rows) * columns,
                  std::numeric_limits<float>::quiet_NaN());
    for (const segment& s : segments) {
      trace.write_rows(s, logits.data() + static_cast<std::size_t>(s.first_row) * columns);
    }
    scores.clear();
    decode.supply(host_logits<float>{logits.data(), request->rows, line.model.V});
    const std::string what = trace.finish(before, decode.planned(), decode.committed(), scores);
    if (!what.empty()) {
      return at_round(what);
    }
  }
  const std::string what = trace.end(decode.report());
  return what.empty() ? verdict::pass() : verdict::fail(what);
}

/// The arguments of a line, each by name.
template <class T>
T argument(const lopa_line& line, const std::string& name) {
  try {
    return line.args.at(name).get<T>();
  } catch (const json::exception& error) {
    throw schema_error(line.where + ": args: " + name + ": " + error.what());
  }
}

template <class Ranking>
verdict check(const lopa_line& line, const Ranking& order) {
  const auto block = argument<index_t>(line, "block_size");
  const index_t answer = argument<index_t>(line, "max_new_tokens") / block * block;
  const auto threshold = argument<float>(line, "skip_threshold");
  const released::d2f_blocks blocks{.add = argument<float>(line, "block_add_threshold"),
                                    .activate = argument<float>(line, "decoded_token_threshold")};
  if (line.rule == "d2f.single_branch") {
    return replay(line, released::d2f(order, threshold, blocks), block, answer);
  }
  const lookahead_by<Ranking> ahead{
      .branches = argument<index_t>(line, "branching_factor"),
      .lowest_share = argument<float>(line, "branch_topp"),
      .creation_weight = argument<float>(line, "selection_conf_alpha"),
      .anchor_competes = argument<bool>(line, "base_branch_competition"),
      .anchor_wins = argument<bool>(line, "verification_force_base_winner"),
      .order = order};
  return replay(line, released::lopa(ahead, threshold, blocks), block, answer);
}

}  // namespace

verdict check_lopa(const lopa_line& line) {
  const auto strategy = argument<std::string>(line, "sampling_strategy");
  if (strategy == "neg_entropy") {
    return check(line, by_entropy{});
  }
  if (strategy == "margin") {
    return check(line, by_margin{});
  }
  if (strategy == "default") {
    return check(line, by_confidence{});
  }
  throw schema_error(line.where + ": args: sampling_strategy: " + strategy);
}

}  // namespace unmask::goldens
