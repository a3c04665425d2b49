// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/noise_level.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/edit_committed.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/schedule/slow_fast.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/fixed_rows.hpp"

namespace unmask::testing::decide_test {
namespace {

using positions = std::vector<index_t>;
using steps = std::vector<positions>;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const row empty_row = {-inf, -inf, -inf, -inf, 0.0F};
const row nan_row = {0.0F, nan, 2.0F, 1.0F, 0.0F};
const row infinite_row = {0.0F, 1.0F, 2.0F, inf, 0.0F};
const row all_nan_row = {nan, nan, nan, nan, nan};

history decode_surest(const std::vector<row>& table) {
  return decode_rows(policy{by_confidence{}, tokens_per_step{1}},
                     table,
                     {.block_length = static_cast<index_t>(table.size())});
}

TEST(decide, takes_a_row_without_a_valid_number_last) {
  const history h = decode_surest(
      {nan_row, row_with_confidence(0.3), empty_row, row_with_confidence(0.5), infinite_row});
  EXPECT_EQ(h.order(), (positions{3, 1, 0, 2, 4}));
  EXPECT_EQ(h.report.end, ending::complete);
}

TEST(decide, commits_the_best_finite_logit_of_an_invalid_row) {
  EXPECT_EQ(decode_surest({nan_row}).tokens, std::vector<token_id>{2});
}

TEST(decide, commits_the_infinite_logit_of_a_row_that_has_one) {
  EXPECT_EQ(decode_surest({infinite_row}).tokens, std::vector<token_id>{3});
}

TEST(decide, commits_the_lowest_token_where_a_row_holds_nothing) {
  EXPECT_EQ(decode_surest({empty_row}).tokens, std::vector<token_id>{0});
  EXPECT_EQ(decode_surest({all_nan_row}).tokens, std::vector<token_id>{0});
}

TEST(decide, does_not_take_a_suppressed_token_for_the_lowest) {
  std::vector<token_id> tokens(1);
  const std::vector<token_id> suppressed = {1, 0, 1};
  session<policy<by_confidence, tokens_per_step>> s(small_model, {.length = 1, .window = 1});
  s.start(0,
          {by_confidence{}, tokens_per_step{1}},
          tokens,
          {.length = 1},
          {.editable = {}, .suppressed = suppressed});
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(empty_row.data(), 1, small_vocab));
  EXPECT_EQ(tokens[0], 2);
}

TEST(decide, counts_invalid_rows_and_forced_commits) {
  const history h = decode_rows(policy{by_confidence{}, threshold{0.8F}},
                                {nan_row, row_with_confidence(0.9), empty_row},
                                {.block_length = 3});
  EXPECT_EQ(h.positions, (steps{{1}, {0}, {2}}));
  EXPECT_EQ(h.report.forced, 2);
  EXPECT_EQ(h.report.invalid_rows, 2 + 2 + 1);
}

/// Records the leftmost positions that each step wrote, and replaced or remasked.
struct change_witness {
  inline static std::vector<index_t> changed;
  inline static std::vector<index_t> rewritten;
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto&) const {
    changed.push_back(q.first_changed);
    rewritten.push_back(q.rewritten);
    return ending::running;
  }
};
static_assert(stopping<change_witness>);

TEST(decide, tells_parts_of_no_change_where_a_step_commits_nothing) {
  change_witness::changed.clear();
  const std::vector<row> table(3, row_with_confidence(0.9));
  const history h = decode_rows(
      policy{left_to_right{}, timesteps{.steps = 6}, change_witness{}}, table, {.block_length = 3});
  ASSERT_EQ(h.positions, (steps{{}, {}, {}, {}, {0}, {1, 2}}));
  EXPECT_EQ(change_witness::changed, (positions{3, 3, 3, 3, 3, 0, 1}));  // 3: nothing
}

TEST(decide, tells_parts_of_the_leftmost_token_that_was_replaced) {
  change_witness::rewritten.clear();
  std::vector<token_id> tokens(3);
  session s{policy{left_to_right{},
                   tokens_per_step{1},
                   edit_committed{},
                   edited_blocks{2},
                   change_witness{}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 3, .block_length = 3}};
  int step = 0;
  while (const auto request = s.next()) {
    // Once all are committed, the rows of the last two have another token.
    const row later = row_with_confidence(0.9, step < 3 ? 0 : 1);
    const range rows = request->segments[0].rows;
    const row logits = packed({row_with_confidence(0.9), later, later}, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    ++step;
  }
  EXPECT_EQ(tokens, (std::vector<token_id>{0, 1, 1}));
  EXPECT_EQ(change_witness::rewritten, (positions{3, 3, 3, 3, 1, 3}));  // 3: none
}

/// Records the rank information of each candidate, and commits them all.
struct rank_witness {
  inline static std::vector<rank_info> seen;
  static constexpr statistics required = stat::none;
  bool commits(const auto&, const rank_info& s) const {
    seen.push_back(s);
    return true;
  }
};
static_assert(commit_rule<rank_witness>);

TEST(decide, tells_the_commit_rule_the_scores_before_a_candidate) {
  rank_witness::seen.clear();
  const std::vector<row> table = {
      row_with_confidence(0.5), row_with_confidence(0.9), row_with_confidence(0.7)};
  const history h =
      decode_rows(policy{by_confidence{}, rank_witness{}}, table, {.block_length = 3});
  ASSERT_EQ(h.counts(), std::vector<std::size_t>{3});
  ASSERT_EQ(rank_witness::seen.size(), 3U);
  const float before[] = {inf, confidence_of(table[1]), confidence_of(table[2])};
  for (index_t r = 0; r < 3; ++r) {
    SCOPED_TRACE(r);
    const rank_info& s = rank_witness::seen[static_cast<std::size_t>(r)];
    EXPECT_EQ(s.rank, r);
    EXPECT_EQ(s.candidates, 3);
    EXPECT_EQ(s.best_score, confidence_of(table[1]));
    EXPECT_EQ(s.score_before, before[r]);
  }
}

TEST(decide, gives_the_commit_of_an_invalid_row_the_log_probability_of_nothing) {
  std::vector<token_id> tokens(1);
  session s{policy{by_confidence{}, tokens_per_step{1}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 1}};
  ASSERT_TRUE(s.next());
  s.supply(host_logits<float>(nan_row.data(), 1, small_vocab));
  ASSERT_EQ(s.committed().size(), 1U);
  EXPECT_EQ(s.committed()[0].log_probability, -inf);
}

TEST(decide, lets_a_nan_in_the_mask_column_do_no_harm) {
  row z = row_with_confidence(0.9, 1);
  z[4] = nan;
  const history h =
      decode_rows(policy{by_confidence{}, threshold{0.5F}}, {z, z}, {.block_length = 2});
  EXPECT_EQ(h.tokens, (std::vector<token_id>{1, 1}));
  EXPECT_EQ(h.report.forwards, 1);
  EXPECT_EQ(h.report.invalid_rows, 0);
}

TEST(decide, leaves_a_proposed_mask_token_where_it_may_be_proposed) {
  model_info model = small_model;
  model.suppress_mask = false;
  row z = row_with_confidence(0.9, 1);
  z[4] = 1.0F;  // e against .9: the mask token wins
  const std::vector<row> table = {z, row_with_confidence(0.9, 2)};
  std::vector<row> usual = table;
  usual[1][4] = -inf;
  const history h = decode_rows(
      policy{by_confidence{}, tokens_per_step{2}}, usual, {.block_length = 2}, model, 5);
  EXPECT_EQ(h.tokens, (std::vector<token_id>{4, 2}));
  EXPECT_EQ(h.positions, (steps{{1}, {}, {}, {}, {}}));
  EXPECT_EQ(h.report.forced, 0);
  EXPECT_EQ(h.report.masked, 1);
}

// Record of the arguments of a commit rule.
struct heard {
  index_t position = 0;
  rank_info place;
  step_info at;
};
struct listening {
  std::vector<heard>* log = nullptr;
  index_t commit_below = 1;
  static constexpr statistics required = stat::confidence;
  bool commits(const auto& c, const rank_info& s, const auto& context) const {
    log->push_back({c.position, s, context.at});
    return s.rank < commit_below;
  }
};

TEST(decide, tells_a_commit_rule_the_place_of_each_candidate) {
  std::vector<heard> log;
  const std::vector<double> c = {0.4, 0.9, 0.4, 0.7};
  const history h = decode_confidences(policy{by_confidence{}, listening{&log, 4}}, c);
  ASSERT_EQ(log.size(), 4U);
  const positions order = {1, 3, 0, 2};
  for (std::size_t r = 0; r < 4; ++r) {
    SCOPED_TRACE(r);
    EXPECT_EQ(log[r].position, order[r]);
    EXPECT_EQ(log[r].place.rank, static_cast<index_t>(r));
    EXPECT_EQ(log[r].place.candidates, 4);
  }
  EXPECT_EQ(log[0].place.score_before, inf);
  EXPECT_NEAR(log[1].place.score_before, 0.9F, 1e-6F);
  EXPECT_NEAR(log[2].place.score_before, 0.7F, 1e-6F);
  EXPECT_EQ(h.report.forced, 0);
}

TEST(decide, tells_a_commit_rule_where_in_the_block_it_is) {
  std::vector<heard> log;
  const std::vector<row> table(6, row_with_confidence(0.5));
  static_cast<void>(decode_rows(policy{left_to_right{}, listening{&log}},
                                table,
                                {.prompt_length = 1, .block_length = 3, .seed = 8, .sequence = 9}));
  // Blocks [1, 4) and [4, 6), a position a step: 3 + 2 + 1 + 2 + 1 questions.
  ASSERT_EQ(log.size(), 9U);
  const index_t step[] = {0, 0, 0, 1, 1, 2, 3, 3, 4};
  const index_t block[] = {0, 0, 0, 0, 0, 0, 1, 1, 1};
  const index_t block_step[] = {0, 0, 0, 1, 1, 2, 0, 0, 1};
  const index_t opened[] = {3, 3, 3, 3, 3, 3, 2, 2, 2};
  for (std::size_t i = 0; i < log.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(log[i].at.step, step[i]);
    EXPECT_EQ(log[i].at.block_index, block[i]);
    EXPECT_EQ(log[i].at.block_step, block_step[i]);
    EXPECT_EQ(log[i].at.block_masked_at_first, opened[i]);
    EXPECT_EQ(log[i].at.block_length, opened[i]);
    EXPECT_EQ(log[i].at.seed, 8U);
    EXPECT_EQ(log[i].at.sequence, 9U);
  }
}

TEST(decide, counts_the_fixed_positions_of_a_block_as_not_opened) {
  std::vector<heard> log;
  std::vector<token_id> tokens(4, 3);
  const std::vector<std::uint8_t> editable = {1, 0, 0, 1};
  session<policy<left_to_right, listening>> s(small_model, {.length = 4, .window = 4});
  s.start(0,
          {left_to_right{}, listening{&log, 2}},
          tokens,
          {.length = 4, .block_length = 4},
          {.editable = editable, .suppressed = {}});
  ASSERT_TRUE(s.next());
  const row logits = packed(std::vector<row>(4, row_with_confidence(0.5)), {0, 4});
  s.supply(host_logits<float>(logits.data(), 4, small_vocab));
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[1].position, 3);
  EXPECT_EQ(log[1].at.block_masked_at_first, 2);
  EXPECT_EQ(log[1].at.block_length, 4);
}

// Two blocks at a time.
struct in_pairs {
  std::uint64_t forced = 1;
  static constexpr statistics required = stat::none;
  [[nodiscard]] index_t reach(const sequence_shape& g) const { return 2 * g.block_length; }
  void schedule(sequence_view& q, plan& next, auto&) const {
    index_t b = 0;
    while (q.masked_in(q.block(b)) == 0) {
      ++b;
    }
    next.first_block = b;
    next.last_block = std::min(b + 2, q.blocks());
    next.score = {q.block(b).first, q.block(next.last_block - 1).last};
    next.forced = forced;
  }
};

TEST(decide, commits_the_best_candidate_of_all_blocks_where_no_block_must_commit) {
  const std::vector<row> table = {row_with_confidence(0.5),
                                  row_with_confidence(0.6),
                                  row_with_confidence(0.8),
                                  row_with_confidence(0.7)};
  const history h = decode_rows(policy{by_confidence{}, threshold{0.9F}, in_pairs{.forced = 0}},
                                table,
                                {.block_length = 2},
                                small_model,
                                6);
  EXPECT_EQ(h.positions, (steps{{2}, {3}, {1}, {0}}));
  EXPECT_EQ(h.report.forced, 4);
}

// Excludes every candidate.
struct excludes_all {
  static constexpr statistics required = stat::none;
  filter_result filter(const auto&, const auto&) const { return filter_result::excluded; }
};

TEST(decide, commits_the_first_excluded_candidate_of_all_blocks_where_no_block_must_commit) {
  std::vector<row> table(4, row_with_confidence(0.5));
  for (const std::uint64_t forced : {0U, 1U, 3U}) {
    const history h = decode_rows(
        policy{by_confidence{}, tokens_per_step{2}, excludes_all{}, in_pairs{.forced = forced}},
        table,
        {.block_length = 2},
        small_model,
        6);
    EXPECT_EQ(h.positions, (steps{{0}, {1}, {2}, {3}})) << forced;
    EXPECT_EQ(h.report.forced, 4);
  }
}

TEST(decide, counts_the_steps_of_each_block_from_its_own_opening) {
  std::vector<heard> log;
  const std::vector<row> table(6, row_with_confidence(0.5));
  static_cast<void>(decode_rows(
      policy{left_to_right{}, listening{&log}, in_pairs{}}, table, {.block_length = 2}));
  // Block 1 is scored from step 0 on, block 2 from step 2 on, when block 0 is full.
  for (std::size_t i = 0; i < log.size(); ++i) {
    SCOPED_TRACE(i);
    const heard& h = log[i];
    EXPECT_EQ(h.at.block_index, h.position / 2);
    EXPECT_EQ(h.at.block_step, h.position < 4 ? h.at.step : h.at.step - 2);
    EXPECT_EQ(h.at.block_masked_at_first, 2);
  }
  EXPECT_EQ(log.size(), 4U + 3U + 4U + 3U + 2U + 1U);
}

struct costing {
  std::vector<heard>* log = nullptr;
  static constexpr statistics required = stat::none;
  float cost(const auto& c) const { return static_cast<float>(c.position + 1); }
  bool commits(const auto& c, const rank_info& s, const auto& context) const {
    log->push_back({c.position, s, context.at});
    return true;
  }
};

TEST(decide, sums_the_cost_along_the_ranks) {
  std::vector<heard> log;
  static_cast<void>(decode_confidences(policy{by_confidence{}, tokens_per_step{9} && costing{&log}},
                                       {0.4, 0.9, 0.3, 0.7}));
  // Ranks: positions 1, 3, 0, 2 with costs 2, 4, 1, 3.
  ASSERT_EQ(log.size(), 4U);
  const float before[] = {0.0F, 2.0F, 6.0F, 7.0F};
  const float largest[] = {-inf, 2.0F, 4.0F, 4.0F};
  for (std::size_t r = 0; r < 4; ++r) {
    SCOPED_TRACE(r);
    EXPECT_EQ(log[r].place.cost_before, before[r]);
    EXPECT_EQ(log[r].place.largest_before, largest[r]);
  }
}

// Would remask whatever is committed, as a candidate or by an edit.
struct remasks_all {
  static constexpr statistics required = stat::none;
  bool remasks(const auto&, auto&) const { return true; }
};
struct edits_all {
  static constexpr statistics required = stat::none;
  verdict edit_token(const auto&, auto&) const { return verdict::remask; }
};

template <class Part>
void expect_kept_by(const Part& part) {
  const history h = decode_rows(policy{by_confidence{}, tokens_per_step{2}, part},
                                {nan_row, nan_row, empty_row, nan_row, nan_row},
                                {.block_length = 5});
  EXPECT_EQ(h.report.rewritten, 0);
  EXPECT_EQ(h.report.committed, 5);
  EXPECT_EQ(h.report.end, ending::complete);
}

TEST(decide, keeps_a_committed_token_whose_row_is_invalid) {
  expect_kept_by(remasks_all{});
  expect_kept_by(edits_all{});
}

/// Remasks what has an invalid row, if it were asked.
struct remasks_invalid {
  static constexpr statistics required = stat::confidence;
  bool remasks(const auto& c, auto&) const { return !c.valid(); }
};

TEST(decide, does_not_ask_whether_an_invalid_row_is_remasked) {
  std::vector<token_id> tokens(3);
  session s{policy{by_confidence{}, tokens_per_step{1}, remasks_invalid{}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 3, .block_length = 3}};
  for (index_t step = 0; step < 3; ++step) {  // position 0 commits, and then its row is broken
    const row first = step == 0 ? row_with_confidence(0.9) : nan_row;
    const range rows = s.next()->segments[0].rows;
    const row logits = packed({first, row_with_confidence(0.9), row_with_confidence(0.9)}, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    ASSERT_EQ(s.committed().size(), 1U);
    EXPECT_EQ(s.committed()[0].position, step);
  }
}

/// Commits the last of six positions first, and the others left to right from the fourth step on.
struct last_first {
  static constexpr statistics required = stat::none;
  bool commits(const auto& c, const rank_info&, const auto& context) const {
    return context.at.step >= 3 || c.position == 5;
  }
};
/// Notes the positions that it may edit.
struct noting_edits {
  std::vector<index_t>* seen = nullptr;
  static constexpr statistics required = stat::none;
  verdict edit_token(const auto& c, auto&) const {
    seen->push_back(c.position);
    return verdict::keep;
  }
};

TEST(decide, edits_positions_of_the_scored_range_only) {
  positions seen;
  std::vector<token_id> tokens(6);
  session s{policy{left_to_right{},
                   last_first{},
                   noting_edits{&seen},
                   slow_fast{.exploration = 2, .promising = 0.4F}},
            small_model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 6, .block_length = 6}};
  std::vector<row> table(6, row_with_confidence(0.5));
  table[5] = row_with_confidence(0.3);  // not promising: behind the stretch that is filled
  steps edited;
  while (const auto request = s.next()) {
    seen.clear();
    const range rows = request->segments[0].rows;
    const row logits = packed(table, rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
    edited.push_back(seen);
  }
  EXPECT_EQ(edited, (steps{{}, {5}, {0}, {0, 1}}));
}

/// Reads the draw and does not say at which temperature.
struct reads_the_draw {
  static constexpr statistics required = stat::sampled;
  ending stop(const sequence_view&, auto&) const { return ending::running; }
};

TEST(decide, draws_at_temperature_1_if_no_part_names_another) {
  const history h = decode_rows(policy{left_to_right{}, tokens_per_step{400}, reads_the_draw{}},
                                std::vector<row>(400, row_with_confidence(0.7)),
                                {.block_length = 400});
  const auto best = static_cast<double>(std::count(h.tokens.begin(), h.tokens.end(), 0));
  EXPECT_NEAR(best, 280.0, 46.0);  // 5 deviations of 9.2
}

// Scores one position less in each step, from the first of a block of four on.
struct shrinking {
  static constexpr statistics required = stat::none;
  void schedule(sequence_view& q, plan& next, auto&) const {
    next.score = {0, 4 - q.step};
    next.last_block = 1;
    next.forced = 1;
  }
};

// Notes how many candidates each step reduces.
struct counts_candidates {
  std::vector<index_t>* counts = nullptr;
  struct step_reduction {
    index_t candidates = 0;
    void merge(const step_reduction& other) { candidates += other.candidates; }
  };
  static constexpr statistics required = stat::none;
  step_reduction reduce(const auto&, auto&) const { return {1}; }
  ending stop(const sequence_view& q, auto& context) const {
    if (q.step > 0) {
      counts->push_back(context.step_reduction.candidates);
    }
    return ending::running;
  }
};

TEST(decide, reduces_the_candidates_of_the_scored_range_only) {
  std::vector<index_t> counts;
  const std::vector<row> table(4, row_with_confidence(0.5));
  static_cast<void>(decode_rows(
      policy{left_to_right{}, tokens_per_step{1}, shrinking{}, counts_candidates{&counts}},
      table,
      {.block_length = 4},
      small_model,
      2));
  EXPECT_EQ(counts, (std::vector<index_t>{4, 2}));  // of 0 to 3, then of 1 and 2
}

// The last position is an anchor; commits what has none beside it.
struct away_from_the_last {
  static constexpr statistics required = stat::none;
  bool anchors(const auto& c) const { return c.position == 3; }
  [[nodiscard]] index_t anchor_radius() const { return 1; }
  bool commits(const auto&, const rank_info_by_anchors& s) const {
    return s.anchor_distance == no_anchor;
  }
};

TEST(decide, knows_the_anchors_of_the_scored_range_only) {
  const std::vector<row> table(4, row_with_confidence(0.5));
  const history h = decode_rows(policy{left_to_right{}, away_from_the_last{}, shrinking{}},
                                table,
                                {.block_length = 4},
                                small_model,
                                2);
  EXPECT_EQ(h.positions, (steps{{0, 1}, {2}}));
  EXPECT_EQ(h.report.forced, 0);
}

// Notes the positions whose neighbours have a valid row: on the left, and on the right.
struct notes_neighbours {
  std::vector<index_t>* left = nullptr;
  std::vector<index_t>* right = nullptr;
  static constexpr statistics required = stat::confidence;
  filter_result filter(const auto& c, const auto& beside, const auto&) const {
    EXPECT_EQ(beside.left.position, c.position - 1);
    EXPECT_EQ(beside.right.position, c.position + 1);
    if (beside.left.valid()) {
      left->push_back(c.position);
    }
    if (beside.right.valid()) {
      right->push_back(c.position);
    }
    return filter_result::keep;
  }
};

TEST(decide, knows_the_neighbours_of_the_scored_range_only) {
  positions left;
  positions right;
  const std::vector<row> table(4, row_with_confidence(0.5));
  static_cast<void>(decode_rows(
      policy{left_to_right{}, tokens_per_step{1}, shrinking{}, notes_neighbours{&left, &right}},
      table,
      {.block_length = 4},
      small_model,
      2));
  // Position 0 commits, then 1 and 2 are candidates: 3 is masked, and not scored.
  EXPECT_EQ(left, (positions{1, 2, 3, 2}));
  EXPECT_EQ(right, (positions{0, 1, 2, 1}));
}

// Notes how many tokens each step writes.
struct counts_writes {
  std::vector<index_t>* counts = nullptr;
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto&) const {
    counts->push_back(q.changed);
    return ending::running;
  }
};

TEST(decide, tells_parts_how_many_tokens_a_step_has_written) {
  std::vector<index_t> counts;
  const std::vector<row> table(5, row_with_confidence(0.5));
  static_cast<void>(decode_rows(policy{left_to_right{}, tokens_per_step{2}, counts_writes{&counts}},
                                table,
                                {.block_length = 5}));
  EXPECT_EQ(counts, (std::vector<index_t>{0, 2, 2, 1}));
}

// Remasks position 0 in the second step.
struct remasks_the_first {
  static constexpr statistics required = stat::none;
  verdict edit_token(const auto& c, auto& context) const {
    return c.position == 0 && context.at.step == 1 ? verdict::remask : verdict::keep;
  }
};

TEST(decide, reports_the_eos_token_where_the_last_step_has_remasked) {
  model_info model = small_model;
  model.eos_token = 3;
  std::vector<token_id> tokens(4);
  session s{policy{left_to_right{}, tokens_per_step{2}, remasks_the_first{}, max_steps{2}},
            model,
            tokens_view<memory::host>(tokens),
            sequence_shape{.length = 4, .block_length = 4}};
  while (const auto request = s.next()) {
    const range rows = request->segments[0].rows;
    const row logits = packed(std::vector<row>(4, row_with_confidence(0.5)), rows);
    s.supply(host_logits<float>(logits.data(), rows.size(), small_vocab));
  }
  EXPECT_EQ(tokens, (std::vector<token_id>{3, 0, 0, 0}));
  ASSERT_EQ(s.committed().size(), 3U);
  EXPECT_EQ(s.committed()[0].position, 0);
  EXPECT_EQ(s.committed()[0].token, 3);
  EXPECT_EQ(s.committed()[0].log_probability, 0.0F);
  EXPECT_EQ(s.committed()[1].token, 0);
}

// State of a position: how often it was looked at.
struct patient {
  struct position_state {
    index_t looks = 0;
  };
  static constexpr statistics required = stat::none;
  bool commits(const auto&, const rank_info&, auto& context) const {
    return ++context.state.looks >= 3;
  }
};

TEST(decide, starts_the_state_of_a_position_afresh_in_each_block) {
  // The cells of block 0 are those of block 1: a count left over would commit too early.
  const std::vector<row> table(8, row_with_confidence(0.5));
  const history h = decode_rows(policy{left_to_right{}, patient{}}, table, {.block_length = 4});
  EXPECT_EQ(h.positions, (steps{{0}, {1}, {2, 3}, {4}, {5}, {6, 7}}));
}

// The view that a stop rule is given before the first step of a sequence.
struct first_told {
  inline static std::vector<index_t> told;
  struct step_reduction {
    index_t candidates = 0;
    void merge(const step_reduction& other) { candidates += other.candidates; }
  };
  static constexpr statistics required = stat::none;
  step_reduction reduce(const auto&, auto&) const { return {1}; }
  ending stop(const sequence_view& q, auto& context) const {
    if (q.step == 0) {
      told.insert(
          told.end(),
          {context.step_reduction.candidates, q.committed_prefix, q.commit_count, q.latest});
    }
    return ending::running;
  }
};
static_assert(step_reducing<first_told> && stopping<first_told>);

TEST(decide, starts_all_state_afresh_with_the_slot) {
  first_told::told.clear();
  session<policy<left_to_right, patient, first_told>> s(small_model, {.length = 5, .window = 4});
  std::vector<token_id> tokens(5);
  const row logits = packed(std::vector<row>(5, row_with_confidence(0.5)), {0, 5});
  for (int run = 0; run < 3; ++run) {
    SCOPED_TRACE(run);
    s.start(
        0, {left_to_right{}, patient{}, first_told{}}, tokens, {.prompt_length = 1, .length = 5});
    // Two steps, then the slot is given to another sequence: looks of 2 must not stay.
    for (int i = 0; i < 2; ++i) {
      const auto request = s.next();
      ASSERT_TRUE(request);
      s.supply(host_logits<float>(logits.data(), request->rows, small_vocab));
      EXPECT_EQ(s.committed().size(), 1U);
    }
  }
  EXPECT_EQ(first_told::told, (positions{0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0, -1}));
}

// A filter that rejects a candidate leaves the worst one, of an invalid row as of any other.
TEST(worst_record, has_confidence_0_and_infinite_entropy_whatever_the_row_holds) {
  constexpr statistics all = stat::confidence | stat::entropy | stat::second_moment;
  for (const float sum :
       {1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    record<all> row = record<all>::empty();
    row.weighted = sum;
    row.square = sum;
    row.rest = sum;
    const record<all> worst = step::worst_record(row);
    EXPECT_EQ(worst.entropy(), std::numeric_limits<float>::infinity()) << sum;
    EXPECT_EQ(candidate<all>::of(worst, 3, 5).confidence(), 0.0F) << sum;
    EXPECT_EQ(worst.second_moment(), 0.0F) << sum;
  }
}

}  // namespace
}  // namespace unmask::testing::decide_test
