// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layer rules and caches of a user: what they are told, and what the library adds to a selection.

#include <gtest/gtest.h>

#include "support/layered_decode.hpp"

namespace unmask::testing::rules_test {
namespace {

const toy_transformer model;
constexpr sequence_shape shape{.prompt_length = 6, .length = 54, .block_length = 16, .seed = 5};
constexpr threshold sure{0.35F};

/// Rows and sum of positions.
struct row_sums {
  index_t rows = 0;
  index_t positions = 0;
  void merge(const row_sums& other) {
    rows += other.rows;
    positions += other.positions;
  }
};

/// A row, its layer and the reduction over the rows of the layer, as a rule is told them.
struct told_row {
  layer_row row;
  layer_info info;
  row_sums sums;
};

/// Keeps the left half of the rows at two layers.
struct telling_rule {
  using layer_reduction = row_sums;
  std::vector<told_row>* told = nullptr;
  static constexpr statistics required = stat::none;
  static constexpr feature reads = feature::hidden;
  static constexpr drift_terms measures = drift_terms::distance_1;
  static constexpr skipping skipped = skipping::dropped;
  bool hooks(index_t layer, index_t) const { return layer < 2; }
  float measure(const drift_sums& d) const { return d.distance_1; }
  row_sums look(const layer_row& row, const layer_info&, const auto&) const {
    return {1, row.position};
  }
  float importance(const layer_row& row, const layer_info& info, const auto& context) const {
    told->push_back({row, info, context.step_reduction});
    return -static_cast<float>(row.position);
  }
  index_t quota(const layer_info& info, const auto&) const { return info.active / 2; }
};
static_assert(looking<telling_rule>);

TEST(LayerRules, AreToldTheRowsOfALayer) {
  for (const auto& [shift, prompt] : {std::pair<index_t, index_t>{0, 6}, {1, 6}, {0, 0}}) {
    sequence_shape g = shape;
    g.prompt_length = prompt;
    std::size_t rows = 0;
    std::size_t written = 0;
    std::vector<told_row> told;
    const auto observe = [&](auto& session, auto&, const auto&, const auto& tokens) {
      const plan& now = session.planned();
      const auto is_masked = [&](index_t p) {
        return now.score.contains(p) && tokens[static_cast<std::size_t>(p)] == model.vocab - 1;
      };
      const auto was_written = [&](index_t p) {
        return std::any_of(session.committed().begin(),
                           session.committed().end(),
                           [p](const commit_entry& e) { return e.position == p; });
      };
      index_t first = now.score.first;
      while (!is_masked(first)) {
        ++first;
      }
      for (const index_t layer : {0, 1}) {
        row_sums sums;
        double drift = 0.0;
        float largest = 0.0F;
        for (const told_row& t : told) {
          if (t.info.layer == layer) {
            sums.merge({1, t.row.position});
            drift += static_cast<double>(t.row.drift);
            largest = std::max(largest, t.row.drift);
          }
        }
        for (const auto& [row, info, seen] : told) {
          if (info.layer != layer) {
            continue;
          }
          EXPECT_EQ(row.target, row.position + shift);
          EXPECT_EQ(row.masked, is_masked(row.target));
          EXPECT_EQ(row.first_masked, row.target == first);
          EXPECT_EQ(row.committed, was_written(row.target));
          EXPECT_EQ(row.written, was_written(row.position));
          EXPECT_EQ(info.commits, static_cast<index_t>(session.committed().size()));
          EXPECT_EQ(info.active, sums.rows);
          EXPECT_EQ(seen.rows, sums.rows);
          EXPECT_EQ(seen.positions, sums.positions);
          EXPECT_FLOAT_EQ(info.mean, static_cast<float>(drift / sums.rows));
          EXPECT_EQ(info.largest, largest);
          ++rows;
          written += row.written ? 1 : 0;
        }
      }
      told.clear();
    };
    const policy p{by_confidence{}, sure, telling_rule{&told}};
    EXPECT_EQ(decode_layered(model, p, {g}, shift, observe)[0].report.end, ending::complete);
    EXPECT_GT(rows, 500U);
    EXPECT_GT(written, 20U);
  }
}

/// Keeps the rows of the lowest positions.
struct keeps_the_left {
  index_t most = 0;
  static constexpr statistics required = stat::none;
  static constexpr feature reads = feature::hidden;
  static constexpr drift_terms measures = drift_terms::none;
  static constexpr skipping skipped = skipping::dropped;
  bool hooks(index_t layer, index_t) const { return layer == 0; }
  float measure(const drift_sums&) const { return 0.0F; }
  float importance(const layer_row& row, const layer_info&, const auto&) const {
    return -static_cast<float>(row.position);
  }
  index_t quota(const layer_info&, const auto&) const { return most; }
};
static_assert(layer_rule<keeps_the_left>);

/// Decodes with rules that keep no masked row, and expects the one with the largest importance.
template <class... Parts>
void expect_the_first_masked_row(const Parts&... parts) {
  int passes = 0;
  const auto observe = [&](auto& session, auto& pass, const auto&, const auto& tokens) {
    if (!session.planned().refresh) {
      index_t first = session.planned().score.first;
      while (tokens[static_cast<std::size_t>(first)] != model.vocab - 1) {
        ++first;
      }
      ASSERT_EQ(pass.rows().size(), 1U);
      EXPECT_EQ(pass.positions()[static_cast<std::size_t>(pass.rows()[0])], first);
      ++passes;
    }
  };
  const policy p{by_confidence{}, sure, parts...};
  EXPECT_EQ(decode_layered(model, p, {shape}, 0, observe)[0].report.end, ending::complete);
  EXPECT_GT(passes, 0);
}

TEST(LayerRules, KeepTheMostImportantMaskedRowInAnyCase) {
  expect_the_first_masked_row(keeps_the_left{shape.prompt_length});
  expect_the_first_masked_row(keeps_the_left{0}, dual_cache{});
}

// Of a model with shifted rows the first row is that of targets 0 and 1, of which either may be
// given.
TEST(LayerRules, ReturnEachRowOnceWhicheverTargetsAreMasked) {
  using whole_passes = policy<by_confidence, tokens_per_step, delayed_cache>;
  for (unsigned masked = 1; masked < 8; ++masked) {
    SCOPED_TRACE(masked);
    std::vector<std::uint8_t> editable(3);
    std::vector<token_id> expected(3, 5);
    std::vector<index_t> rows;
    for (index_t p = 0; p < 3; ++p) {
      if ((masked >> p & 1U) != 0) {
        editable[static_cast<std::size_t>(p)] = 1;
        expected[static_cast<std::size_t>(p)] = std::max(p - 1, 0);
        rows.push_back(std::max(p - 1, 0));
      }
    }
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    std::vector<token_id> tokens(3, 5);
    session<whole_passes> s(info_of(model, 1), {.sequences = 1, .length = 3, .window = 3});
    s.start(0,
            {by_confidence{}, tokens_per_step{3}, delayed_cache{}},
            tokens,
            {.length = 3},
            {.editable = editable, .suppressed = {}});
    ASSERT_TRUE(s.next());
    const auto listed = s.pass(0).rows();
    EXPECT_EQ(std::vector<index_t>(listed.begin(), listed.end()), rows);
    std::vector<float> logits(listed.size() * static_cast<std::size_t>(model.vocab));
    for (std::size_t r = 0; r < rows.size(); ++r) {  // the best token of a row is its position
      logits[r * static_cast<std::size_t>(model.vocab) + static_cast<std::size_t>(rows[r])] = 9.0F;
    }
    s.supply(host_logits<float>(logits.data(), static_cast<index_t>(rows.size()), model.vocab));
    EXPECT_EQ(tokens, expected);
  }
}

/// Notes what it is told of position 0.
struct notes_the_first_row : keeps_the_left {
  std::vector<layer_row>* seen = nullptr;
  float importance(const layer_row& row, const layer_info& at, const auto& context) const {
    if (row.position == 0) {
      seen->push_back(row);
    }
    return keeps_the_left::importance(row, at, context);
  }
};

struct right_to_left {
  static constexpr statistics required = stat::none;
  float score(const auto& c) const { return static_cast<float>(c.position); }
};

// The first pass runs everything and asks about nothing; then position 0 is committed, or 3.
TEST(LayerRules, AreToldOfTargetZeroWhileItIsMasked) {
  const auto first_row = [](const auto& order) {
    std::vector<layer_row> seen;
    const policy p{order, tokens_per_step{1}, notes_the_first_row{{99}, &seen}};
    const sequence_shape alone{.length = 4, .block_length = 4};
    EXPECT_EQ(decode_layered(model, p, alone, 1).report.end, ending::complete);
    return seen.at(0);
  };
  EXPECT_EQ(first_row(left_to_right{}).target, 1);
  const layer_row row = first_row(right_to_left{});
  EXPECT_EQ(row.target, 0);
  EXPECT_TRUE(row.masked);
  EXPECT_TRUE(row.first_masked);
}

/// Distributes nothing, and notes the means that it is given.
struct noting_means : keeps_the_left {
  std::vector<float>* seen = nullptr;
  static constexpr drift_terms measures = drift_terms::distance_1;
  float measure(const drift_sums& d) const { return d.distance_1; }
  void allocate(const float* means, index_t*, index_t layers, const auto&) const {
    seen->insert(seen->end(), means, means + layers);
  }
};
static_assert(allocating<noting_means>);

TEST(LayerRules, AreGivenTheMeansOfTheirOwnSequence) {
  std::vector<float> seen;
  toy_transformer two = model;
  two.layers = 2;
  const policy p{by_confidence{}, sure, noting_means{{99}, &seen}};
  session<std::remove_const_t<decltype(p)>> s(
      info_of(two), {.sequences = 1, .length = shape.length, .window = shape.block_length});
  for (int k = 0; k < 2; ++k) {
    seen.clear();
    std::vector<token_id> tokens = prompted(two, shape);
    toy_memory memory(two.layers, shape.length, toy_transformer::width);
    s.start(0, p, tokens, shape);
    EXPECT_EQ(seen, (std::vector<float>{-1.0F, -1.0F}));
    seen.clear();
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(s.next());
      auto pass = s.pass(0);
      const std::vector<float> logits = two.forward(pass, tokens.data(), memory);
      s.supply(
          host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), two.vocab));
    }
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0], 0.0F) << "no row had been computed before";
    EXPECT_GT(seen[2], 0.0F);
    EXPECT_EQ(seen[3], -1.0F) << "no hook there";
  }
}

/// A cache that evicts the first two keys.
struct without_two_keys {
  static constexpr statistics required = stat::none;
  void set_query(const sequence_view& q, plan& next, auto&) const { next.keys = {2, q.length}; }
};
static_assert(caching<without_two_keys>);

TEST(LayerRules, ComputeNothingLeftOfTheKeys) {
  std::vector<token_id> tokens = prompted(model, shape);
  session s(policy{by_confidence{}, sure, without_two_keys{}}, info_of(model), tokens, shape);
  EXPECT_EQ(s.planned().query, (range{2, shape.length}));
  EXPECT_EQ(s.planned().keys, (range{2, shape.length}));
}

/// The same, which picks no other position if asked.
struct picks_nothing : without_two_keys {
  bool in_query(const layer_row&, const auto&) const { return false; }
};
static_assert(picking<picks_nothing>);

TEST(LayerRules, WithACacheThatSaysNothingOfItRefreshEachPass) {
  int passes = 0;
  const auto observe = [&](auto& session, auto& pass, const auto&, const auto&) {
    EXPECT_TRUE(session.planned().refresh);
    EXPECT_EQ(pass.positions().size(), static_cast<std::size_t>(shape.length - 2));
    ++passes;
  };
  decode_layered(model, policy{by_confidence{}, sure, picks_nothing{}}, {shape}, 0, observe);
  EXPECT_GT(passes, 3);
}

/// A cache that asks for any positions.
struct asks_for {
  range query;
  range keys;
  static constexpr statistics required = stat::none;
  void set_query(const sequence_view&, plan& next, auto&) const {
    next.query = query;
    next.keys = keys;
    next.refresh = false;
  }
};
static_assert(caching<asks_for>);

// Positions that are decided run in any case, and those that no pass has computed, all within the
// keys.
TEST(LayerRules, RunWhatIsDecidedWhateverACacheAsksFor) {
  dice d(4);
  for (int trial = 0; trial < 300; ++trial) {
    const index_t shift = d.within(0, 1);
    const sequence_shape g{
        .prompt_length = d.within(0, 3), .length = 20, .block_length = d.within(3, 9)};
    const range first_block{g.prompt_length, g.prompt_length + g.block_length};
    asks_for cache;
    cache.keys.first = d.within(0, std::max(first_block.first - shift, 0));
    cache.keys.last = d.within(first_block.last, 20);
    cache.query.first = d.within(0, 20);
    cache.query.last = d.within(cache.query.first, 20);
    std::vector<token_id> tokens = prompted(model, g);
    const policy p{by_confidence{}, sure, cache};
    session<std::remove_const_t<decltype(p)>> s(info_of(model, shift), {.length = 20, .window = 9});
    s.start(0, p, tokens, g);
    index_t reached = 0;
    for (int pass = 0; pass < 2 && s.next(); ++pass) {
      const range score = s.planned().score;
      range expected = {std::min(cache.query.first, std::max(score.first - shift, 0)),
                        std::max(cache.query.last, score.last - shift)};
      if (reached < cache.keys.last) {
        expected = {std::min(expected.first, reached), cache.keys.last};
      }
      expected = {std::max(expected.first, cache.keys.first),
                  std::min(expected.last, cache.keys.last)};
      EXPECT_EQ(s.planned().query, expected) << "trial " << trial << ", pass " << pass;
      EXPECT_EQ(s.planned().keys, cache.keys);
      EXPECT_EQ(s.planned().refresh, pass == 0);
      reached = expected.last;
      const auto rows = static_cast<index_t>(s.pass(0).rows().size());
      const std::vector<float> logits(static_cast<std::size_t>(rows * model.vocab));
      s.supply(host_logits<float>(logits.data(), rows, model.vocab));
    }
  }
}

/// A cache whose keys grow with each pass, and which picks no position by itself.
struct growing_keys {
  static constexpr statistics required = stat::none;
  void set_query(const sequence_view& q, plan& next, auto&) const {
    next.refresh = false;
    next.keys.last = std::min(q.length, std::max(next.score.last, q.prompt_length + 3 * q.step));
    next.query = next.keys;
  }
  bool in_query(const layer_row&, const auto&) const { return false; }
};
static_assert(picking<growing_keys>);

// Positions that no pass has computed enter although nothing is decided there: every second one is
// given.
TEST(LayerRules, ComputeAPositionOnceBeforeItIsAttendedTo) {
  for (const index_t shift : {0, 1}) {
    const sequence_shape g{.prompt_length = 3, .length = 41, .block_length = 4};
    std::vector<token_id> tokens = prompted(model, g);
    std::vector<std::uint8_t> editable(tokens.size());
    for (std::size_t p = 3; p < tokens.size(); ++p) {
      editable[p] = p % 2 == 0 ? 1 : 0;
      tokens[p] = p % 2 == 0 ? tokens[p] : 1;
    }
    const policy p{by_confidence{}, tokens_per_step{1}, growing_keys{}};
    session<std::remove_const_t<decltype(p)>> s(info_of(model, shift),
                                                {.length = g.length, .window = 4});
    toy_memory memory(model.layers, g.length, toy_transformer::width);
    s.start(0, p, tokens, g, {.editable = editable});
    index_t reached = 0;
    int grown = 0;
    while (s.next()) {
      auto pass = s.pass(0);
      const range keys = s.planned().keys;
      std::vector<index_t> expected;
      for (index_t k = keys.first; k < keys.last; ++k) {
        const index_t target = k + shift;
        const bool is_decided = s.planned().score.contains(target) &&
                                tokens[static_cast<std::size_t>(target)] == model.vocab - 1;
        if (k >= reached || is_decided) {
          expected.push_back(k);
        }
      }
      const auto ran = pass.positions();
      EXPECT_EQ(std::vector<index_t>(ran.begin(), ran.end()), expected) << "pass " << grown;
      grown += keys.last > reached ? 1 : 0;
      reached = keys.last;
      const std::vector<float> logits = model.forward(pass, tokens.data(), memory);
      s.supply(
          host_logits<float>(logits.data(), static_cast<index_t>(pass.rows().size()), model.vocab));
    }
    EXPECT_EQ(s.report().end, ending::complete);
    EXPECT_GT(grown, 8);
  }
}

/// Finds all rows equally important, and keeps none.
struct finds_all_equal : keeps_the_left {
  float importance(const layer_row&, const layer_info&, const auto&) const { return 1.0F; }
};

TEST(LayerRules, KeepTheLeftmostOfEquallyImportantMaskedRows) {
  expect_the_first_masked_row(finds_all_equal{{0}}, dual_cache{});
}

/// Keeps the rows of the lowest positions up to date, and the others as they were.
struct updates_the_left : keeps_the_left {
  static constexpr feature reads = feature::input;
  static constexpr skipping skipped = skipping::kept;
};

/// A pass that notes how many positions each layer computes.
template <class Pass>
struct counting_pass {
  static constexpr feature reads = feature::input;
  static constexpr skipping skipped = skipping::kept;
  Pass& of;
  std::vector<std::size_t>& counts;

  [[nodiscard]] auto positions() const { return of.positions(); }
  [[nodiscard]] range keys() const { return of.keys(); }
  [[nodiscard]] bool hooks(index_t layer) const { return of.hooks(layer); }
  layer_choice
  at_layer(index_t layer, const host_hidden<float>& now, const host_state<float>& previous) {
    const layer_choice choice = of.at_layer(layer, now, previous);
    counts.push_back(choice.positions.size());
    return choice;
  }
  [[nodiscard]] auto rows() const { return of.rows(); }
};

// Where rows that a layer skips stay, commits need no more of them than the rule keeps.
TEST(LayerRules, ThatDropNothingAreNotAddedTo) {
  for (const index_t most : {0, 1, 3}) {
    int passes = 0;
    std::vector<std::size_t> chosen;
    session_capacity capacity{.sequences = 1, .length = shape.length, .window = shape.block_length};
    const policy p{by_confidence{}, sure, updates_the_left{{most}}};
    session<std::remove_const_t<decltype(p)>> s(info_of(model), capacity);
    std::vector<token_id> tokens = prompted(model, shape);
    toy_memory memory(model.layers, shape.length, toy_transformer::width);
    s.start(0, p, tokens, shape);
    while (const auto request = s.next()) {
      const bool refresh = s.planned().refresh;
      auto pass = s.pass(0);
      counting_pass<decltype(pass)> noted{pass, chosen};
      chosen.clear();
      const std::vector<float> logits = model.forward(noted, tokens.data(), memory);
      const auto rows = static_cast<index_t>(pass.rows().size());
      s.supply(host_logits<float>(logits.data(), rows, model.vocab));
      if (!refresh) {
        ASSERT_EQ(chosen.size(), 1U);
        EXPECT_EQ(chosen[0], static_cast<std::size_t>(most));
        ++passes;
      }
    }
    EXPECT_GT(passes, 2);
  }
}

}  // namespace
}  // namespace unmask::testing::rules_test
