// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/calibrated_threshold.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/ranking.hpp>

#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "support/observed_decode.hpp"

namespace unmask::testing::calibrated_threshold_test {
namespace {

// 4 bytes a cell and 2 to find it.
static_assert(sizeof(calibrated_threshold<>) == 256 * 6 + 24);
static_assert(std::is_trivially_copyable_v<calibrated_threshold<>>);

step_info at(index_t block, index_t block_step) {
  step_info s;
  s.block_index = block;
  s.block_step = block_step;
  return s;
}

commit_entry entry(index_t block, index_t block_step, double confidence) {
  commit_entry e;
  e.block = block;
  e.block_step = block_step;
  e.log_probability = static_cast<float>(std::log(confidence));
  return e;
}

const std::vector<double> vector_15{.55, .62, .9, .91, .93, .95, .97, .99};

TEST(metric, test_vector_15) {
  EXPECT_NEAR(measured(metric::mean, vector_15), .8525, 1e-12);
  EXPECT_NEAR(measured(metric::q1, vector_15), .83, 1e-12);
  EXPECT_NEAR(measured(metric::median, vector_15), .92, 1e-12);
  EXPECT_NEAR(measured(metric::q3, vector_15), .955, 1e-12);
  EXPECT_NEAR(measured(metric::min_whisker, vector_15), .90, 1e-12);
}

TEST(metric, of_one_or_no_confidence) {
  const std::vector<double> one{.7};
  for (const metric m :
       {metric::mean, metric::q1, metric::median, metric::q3, metric::min_whisker}) {
    EXPECT_EQ(measured(m, one), .7);
    EXPECT_TRUE(std::isnan(measured(m, {})));
  }
}

TEST(metric, does_not_depend_on_what_stands_behind_the_sample) {
  const double values[] = {.7, std::numeric_limits<double>::quiet_NaN()};
  for (const metric m :
       {metric::mean, metric::q1, metric::median, metric::q3, metric::min_whisker}) {
    EXPECT_EQ(measured(m, {values, 1}), .7);
  }
}

TEST(metric, the_whisker_is_always_one_of_the_sample) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::vector<double> x(1 + seed % 9);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = made_up_model::unit(made_up_model::hash(seed, i));
    }
    std::sort(x.begin(), x.end());
    const double w = measured(metric::min_whisker, x);
    EXPECT_TRUE(std::find(x.begin(), x.end(), w) != x.end());
    // The first confidence at or above q1 is never beyond the fence.
    const auto above = static_cast<std::size_t>(std::ceil(.25 * static_cast<double>(x.size() - 1)));
    EXPECT_LE(w, x[above]);
  }
}

TEST(calibrated_threshold, test_vector_15) {
  for (const auto& [cap, slack, bound] :
       {std::tuple{.75F, .2F, .60F}, std::tuple{.8F, .1F, .72F}}) {
    threshold_calibrator r{{.length = 8, .block_length = 8}};
    for (const double c : vector_15) {
      r.add(std::vector{entry(0, 0, c)});
    }
    const auto p = r.calibrate(calibrated_threshold<>{.cap = cap, .slack = slack});
    EXPECT_NEAR(p.cells[0], .83F, 1e-6F);
    EXPECT_NEAR(p.bound(at(0, 0)), bound, 1e-6F);
  }
}

TEST(calibrated_threshold, holds_the_last_calibrated_step_and_block) {
  calibrated_threshold<8> p{.cap = 1.0F, .slack = 0.5F, .mode = profile_mode::step_block};
  p.block_length = 4;
  p.blocks = 2;
  p.ends[0] = 2;
  p.ends[1] = 5;
  const float cells[] = {.1F, .2F, .3F, .4F, .5F};
  std::copy(std::begin(cells), std::end(cells), p.cells);
  EXPECT_NO_THROW(p.check({.length = 8, .block_length = 4}));
  EXPECT_EQ(p.bound(at(0, 0)), .05F);
  EXPECT_EQ(p.bound(at(0, 1)), .1F);
  EXPECT_EQ(p.bound(at(0, 2)), .1F);
  EXPECT_EQ(p.bound(at(0, 1000)), .1F);
  EXPECT_EQ(p.bound(at(1, 0)), .15F);
  EXPECT_EQ(p.bound(at(1, 9)), .25F);
  EXPECT_EQ(p.bound(at(7, 0)), .15F);
  EXPECT_EQ(p.bound(at(7, 9)), .25F);
}

TEST(calibrated_threshold, the_cap_comes_before_the_slack) {
  calibrated_threshold<2> p{.cap = .5F, .slack = .5F};
  p.block_length = 1;
  p.blocks = 2;
  p.ends[0] = 1;
  p.ends[1] = 2;
  p.cells[0] = .9F;
  p.cells[1] = .4F;
  EXPECT_EQ(p.bound(at(0, 0)), .25F);
  EXPECT_EQ(p.bound(at(1, 0)), .2F);
}

struct even_model {
  [[nodiscard]] model_info info() const { return {.vocab = 8, .mask_token = 7}; }
  void row(std::span<const token_id>, index_t, std::span<float> out) const { write_even_row(out); }
};

TEST(calibrated_threshold, the_comparison_is_strict) {
  const auto first_step = [](const calibrated_threshold<4>& p) {
    return commits_of(policy{by_confidence{}, p}, even_model{}, {.length = 4, .block_length = 4})[0]
        .size();
  };
  const float below = std::nextafter(.5F, 0.0F);
  EXPECT_EQ(first_step({.threshold = below}), 4U);
  EXPECT_EQ(first_step({.threshold = .5F}), 1U);
  calibrated_threshold<4> p{.cap = 1.0F, .slack = 0.0F};
  p.block_length = 4;
  p.blocks = 1;
  p.ends[0] = 1;
  p.cells[0] = below;
  EXPECT_EQ(first_step(p), 4U);
  p.cells[0] = .5F;
  EXPECT_EQ(first_step(p), 1U);
}

const sequence_shape geometry{.prompt_length = 2, .length = 34, .block_length = 8};

TEST(calibrated_threshold, without_a_profile_is_the_static_rule) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed};
    const float t = .3F + .07F * static_cast<float>(seed % 10);
    const calibrated_threshold<> empty{.threshold = t, .cap = .2F, .slack = .9F};
    EXPECT_EQ(commits_of(policy{by_confidence{}, empty}, model, geometry),
              commits_of(policy{by_confidence{}, unmask::threshold{t}}, model, geometry));
  }
}

// Decodes once and gives the profile and everything that was reported.
template <int Cells>
calibrated_threshold<Cells> calibrated_on(const made_up_model& model,
                                          const calibrated_threshold<Cells>& knobs,
                                          std::vector<candidate_entry>* reported = nullptr) {
  std::vector<token_id> tokens(34, 0);
  const policy p{by_confidence{}, knobs};
  session<std::remove_const_t<decltype(p)>> s{model.info(),
                                              {.length = 34, .window = 8, .trace = true}};
  s.start(0, p, tokens, geometry);
  return calibrating(s, geometry, knobs, [&](const forward_request& r) {
    supply_one(s, r, model, tokens);
    if (reported != nullptr) {
      reported->insert(reported->end(), s.candidates().begin(), s.candidates().end());
    }
  });
}

TEST(calibrated_threshold, below_every_cell_is_a_constant) {
  // policies.md, L: a profile above the cap is Fast-dLLM's strict rule at cap (1 - slack).
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const made_up_model model{.seed = seed};
    const auto p = calibrated_on(
        model,
        calibrated_threshold<>{.cap = .05F + .01F * static_cast<float>(seed % 5), .slack = .1F});
    for (index_t i = 0; i < p.first_cell(p.blocks); ++i) {
      ASSERT_GT(p.cells[i], p.cap);
    }
    const unmask::threshold constant{p.cap * (1.0F - p.slack)};
    EXPECT_EQ(commits_of(policy{by_confidence{}, p}, model, geometry),
              commits_of(policy{by_confidence{}, constant}, model, geometry));
  }
}

// The definitions of policies.md C.2 once more, from all entries of a decode.
std::vector<std::vector<double>> naive_cells(const std::vector<candidate_entry>& all,
                                             const calibrated_threshold<>& knobs) {
  std::map<index_t, std::map<index_t, std::vector<double>>> kept;
  for (const candidate_entry& e : all) {
    if ((knobs.recorded == collect::candidates || e.committed) &&
        std::isfinite(e.log_probability)) {
      kept[e.block][e.block_step].push_back(std::exp(static_cast<double>(e.log_probability)));
    }
  }
  const auto statistic = [&](std::vector<double> x) {
    std::sort(x.begin(), x.end());
    const auto n = static_cast<double>(x.size());
    const auto quantile = [&](double q) {
      const double h = q * (n - 1);
      const auto i = static_cast<std::size_t>(std::floor(h));
      const auto j = static_cast<std::size_t>(std::ceil(h));
      return x[i] * (1.0 - (h - std::floor(h))) + x[j] * (h - std::floor(h));
    };
    double sum = 0.0;
    for (const double c : x) {
      sum += c;
    }
    switch (knobs.statistic) {
    case metric::mean:
      return sum / n;
    case metric::q1:
      return quantile(.25);
    case metric::median:
      return quantile(.5);
    case metric::q3:
      return quantile(.75);
    case metric::min_whisker:
      break;
    }
    const double fence = quantile(.25) - 1.5 * (quantile(.75) - quantile(.25));
    return *std::find_if(x.begin(), x.end(), [&](double c) { return c >= fence; });
  };
  std::vector<std::vector<double>> cells;
  const index_t blocks = kept.empty() ? 0 : kept.rbegin()->first + 1;
  for (index_t b = 0; b < blocks; ++b) {
    if (kept.count(b) == 0) {
      cells.push_back(cells.empty() ? std::vector<double>{static_cast<double>(knobs.threshold)}
                                    : cells.back());
      continue;
    }
    std::vector<double> pooled;
    for (const auto& [step, x] : kept[b]) {
      pooled.insert(pooled.end(), x.begin(), x.end());
    }
    cells.emplace_back();
    if (knobs.mode == profile_mode::block) {
      cells.back().push_back(statistic(pooled));
      continue;
    }
    for (index_t s = 0; s <= kept[b].rbegin()->first; ++s) {
      cells.back().push_back(kept[b].count(s) > 0 ? statistic(kept[b][s])
                             : s == 0             ? statistic(pooled)
                                                  : cells.back().back());
    }
  }
  return cells;
}

void expect_cells(const calibrated_threshold<>& p, const std::vector<std::vector<double>>& want) {
  ASSERT_EQ(p.blocks, static_cast<index_t>(want.size()));
  for (index_t b = 0; b < p.blocks; ++b) {
    const auto& row = want[static_cast<std::size_t>(b)];
    ASSERT_EQ(p.first_cell(b + 1) - p.first_cell(b), static_cast<index_t>(row.size()))
        << "block " << b;
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(
          static_cast<double>(p.cells[p.first_cell(b) + static_cast<index_t>(i)]), row[i], 1e-6);
    }
  }
}

const std::vector<metric> metrics{
    metric::mean, metric::q1, metric::median, metric::q3, metric::min_whisker};

TEST(threshold_calibrator, agrees_with_the_definitions_in_double_precision) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const made_up_model model{.seed = seed, .sharpness = 3.0 + static_cast<double>(seed % 6)};
    calibrated_threshold<> knobs{.threshold = .6F};
    knobs.mode = seed % 2 == 0 ? profile_mode::block : profile_mode::step_block;
    knobs.statistic = metrics[seed % 5];
    knobs.recorded = seed % 3 == 0 ? collect::candidates : collect::committed;
    std::vector<candidate_entry> reported;
    const auto p = calibrated_on(model, knobs, &reported);
    expect_cells(p, naive_cells(reported, knobs));
    EXPECT_EQ(p.block_length, 8);
    EXPECT_EQ(p.recorded, knobs.recorded);
    EXPECT_NO_THROW(p.check(geometry));
  }
}

TEST(threshold_calibrator, records_candidates_of_masked_positions) {
  using enum candidate_outcome;
  for (const auto& [outcome, is_recorded] : {std::pair{committed, true},
                                             {forced, true},
                                             {held, true},
                                             {excluded, true},
                                             {replaced, false},
                                             {remasked, false},
                                             {kept, false},
                                             {from_branch, false}}) {
    threshold_calibrator r{geometry, collect::candidates};
    candidate_entry e;
    e.log_probability = -0.5F;
    e.outcome = outcome;
    r.add(std::span<const candidate_entry>(&e, 1));
    EXPECT_EQ(r.size(), is_recorded ? 1U : 0U) << static_cast<int>(outcome);
  }
}

TEST(threshold_calibrator, fills_what_was_not_recorded) {
  // Random entries: any block and any step may be missing, invalid rows are among them.
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    calibrated_threshold<> knobs{.threshold = .65F};
    knobs.mode = seed % 2 == 0 ? profile_mode::block : profile_mode::step_block;
    knobs.statistic = metrics[seed % 5];
    knobs.recorded = collect::candidates;
    std::vector<candidate_entry> all;
    for (std::uint64_t i = 0; i < seed % 13; ++i) {
      const std::uint64_t h = made_up_model::hash(seed, i);
      candidate_entry e{entry(static_cast<index_t>(h % 5),
                              static_cast<index_t>(h / 5 % 6),
                              .01 + .99 * made_up_model::unit(h)),
                        false};
      if (h % 11 == 0) {
        e.log_probability = -std::numeric_limits<float>::infinity();
      } else if (h % 13 == 0) {
        e.log_probability = std::numeric_limits<float>::quiet_NaN();
      }
      all.push_back(e);
    }
    threshold_calibrator r{geometry, collect::candidates};
    r.add(all);
    expect_cells(r.calibrate(knobs), naive_cells(all, knobs));
  }
}

TEST(threshold_calibrator, of_nothing_leaves_the_static_rule) {
  threshold_calibrator r{geometry};
  r.add(std::vector<commit_entry>{});
  const calibrated_threshold<> knobs{.threshold = .7F, .cap = .8F, .slack = .1F};
  EXPECT_EQ(r.calibrate(knobs), knobs);
  EXPECT_FALSE(r.calibrate(knobs).calibrated());
}

TEST(threshold_calibrator, forgets_the_profile_of_its_knobs) {
  threshold_calibrator r{geometry};
  r.add(std::vector{entry(0, 0, .5)});
  auto knobs = r.calibrate(calibrated_threshold<>{});
  threshold_calibrator again{geometry};
  again.add(std::vector{entry(0, 0, .25)});
  EXPECT_EQ(again.calibrate(knobs), again.calibrate(calibrated_threshold<>{}));
}

TEST(threshold_calibrator, refuses_what_does_not_fit) {
  threshold_calibrator r{geometry};
  for (index_t s = 0; s < 5; ++s) {
    r.add(std::vector{entry(0, s, .5)});
  }
  calibrated_threshold<4> knobs;
  EXPECT_NO_THROW(static_cast<void>(r.calibrate(knobs)));
  knobs.mode = profile_mode::step_block;
  try {
    static_cast<void>(r.calibrate(knobs));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "cells of the profile must be at most Cells = 4: use a larger "
                 "calibrated_threshold<Cells>, got 5");
  }
}

TEST(threshold_calibrator, needs_a_trace_for_candidates) {
  const made_up_model model;
  std::vector<token_id> tokens(34, 0);
  const calibrated_threshold<> knobs{.recorded = collect::candidates};
  session s{policy{by_confidence{}, knobs}, model.info(), tokens, geometry};
  EXPECT_THROW(
      static_cast<void>(calibrating(
          s, geometry, knobs, [&](const forward_request& r) { supply_one(s, r, model, tokens); })),
      std::logic_error);
}

TEST(threshold_calibrator, refuses_a_profile_of_other_blocks_before_the_first_pass) {
  const made_up_model model;
  std::vector<token_id> tokens(34, 0);
  session s{policy{by_confidence{}, calibrated_threshold<>{}}, model.info(), tokens, geometry};
  calibrated_threshold<> other{.block_length = geometry.block_length + 1, .blocks = 1};
  other.ends[0] = 1;
  EXPECT_THROW(
      static_cast<void>(calibrating(
          s, geometry, other, [&](const forward_request& r) { supply_one(s, r, model, tokens); })),
      std::invalid_argument);
  EXPECT_EQ(s.report().forwards, 0);
}

TEST(calibrated_threshold, decodes_by_its_profile_in_double_precision) {
  int compared = 0;
  int skipped = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    calibrated_threshold<> knobs{
        .threshold = .6F, .cap = 1.0F, .slack = .02F * static_cast<float>(seed % 8)};
    knobs.mode = seed % 2 == 0 ? profile_mode::block : profile_mode::step_block;
    knobs.statistic = metrics[seed % 5];
    const auto p = calibrated_on(made_up_model{.seed = seed}, knobs);
    std::vector<std::vector<double>> cells;
    for (index_t b = 0; b < p.blocks; ++b) {
      cells.emplace_back(p.cells + p.first_cell(b), p.cells + p.first_cell(b + 1));
    }
    index_t block = -1;
    index_t first = 0;
    // Another sequence of the task.
    observe_decode(
        policy{by_confidence{}, p},
        made_up_model{.seed = seed + 1000},
        {.prompt_length = 2, .length = 44, .block_length = 8},
        [&](const observed_step& s) {
          const index_t b = (s.planned.score.first - 2) / 8;
          first = b == block ? first : s.step;
          block = b;
          const auto& row = cells[std::min(static_cast<std::size_t>(b), cells.size() - 1)];
          const double t = row[std::min(static_cast<std::size_t>(s.step - first), row.size() - 1)];
          const double bound =
              std::min(t, static_cast<double>(p.cap)) * (1.0 - static_cast<double>(p.slack));
          std::vector<index_t> want;
          for (const observed_row& r : s.masked) {
            if (is_close(r.confidence, bound)) {
              ++skipped;
              return;
            }
            if (r.confidence > bound) {
              want.push_back(r.position);
            }
          }
          if (want.empty()) {
            want.push_back(best_of(s.masked));
          }
          ++compared;
          EXPECT_EQ(positions_of(s.committed), want);
        });
  }
  EXPECT_GT(compared, 1500);
  EXPECT_LT(skipped, compared / 20);
}

TEST(calibrated_threshold, each_sequence_of_a_batch_has_its_own) {
  const made_up_model model{.seed = 77};
  std::vector<calibrated_threshold<>> profiles{{.threshold = .5F}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    calibrated_threshold<> knobs{
        .threshold = .6F, .cap = .3F + .2F * static_cast<float>(i), .slack = .1F};
    knobs.mode = i == 1 ? profile_mode::step_block : profile_mode::block;
    profiles.push_back(calibrated_on(made_up_model{.seed = i}, knobs));
  }
  using policy_type = policy<by_confidence, calibrated_threshold<>>;
  std::vector<std::vector<token_id>> alone;
  for (const auto& p : profiles) {
    alone.push_back(observe_decode(
        policy_type{by_confidence{}, p}, model, geometry, [](const observed_step&) {}));
  }
  EXPECT_NE(alone[1], alone[3]);
  session<policy_type> s{model.info(), {.sequences = 4, .length = 34, .window = 8}};
  std::vector<std::vector<token_id>> together(4, std::vector<token_id>(34, 0));
  for (index_t slot = 0; slot < 4; ++slot) {
    s.start(slot,
            policy_type{by_confidence{}, profiles[static_cast<std::size_t>(slot)]},
            together[static_cast<std::size_t>(slot)],
            geometry);
  }
  while (const auto request = s.next()) {
    std::vector<float> logits;
    for (const segment& part : request->segments) {
      for (index_t r = part.rows.first; r < part.rows.last; ++r) {
        std::vector<float> z(static_cast<std::size_t>(model.vocab));
        model.row(together[static_cast<std::size_t>(part.slot)], r, z);
        logits.insert(logits.end(), z.begin(), z.end());
      }
    }
    s.supply(host_logits<float>{logits.data(), request->rows, model.vocab});
  }
  EXPECT_EQ(together, alone);
}

TEST(calibrated_threshold, refuses_knobs_and_profiles_that_cannot_be) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  calibrated_threshold<4> good{.mode = profile_mode::step_block};
  good.block_length = 8;
  good.blocks = 2;
  good.ends[0] = 1;
  good.ends[1] = 3;
  EXPECT_NO_THROW(good.check(geometry));
  const auto complaint = [&](const auto& change,
                             const sequence_shape& g = geometry) -> std::string {
    calibrated_threshold<4> p = good;
    change(p);
    try {
      p.check(g);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  using p4 = calibrated_threshold<4>;
  EXPECT_EQ(complaint([](p4& p) { p.cap = 0.0F; }),
            "calibrated_threshold::cap must be in (0, 1], got 0");
  EXPECT_EQ(complaint([](p4& p) { p.cap = 1.5F; }),
            "calibrated_threshold::cap must be in (0, 1], got 1.5");
  EXPECT_EQ(complaint([](p4& p) { p.slack = 1.0F; }),
            "calibrated_threshold::slack must be in [0, 1), got 1");
  EXPECT_EQ(complaint([](p4& p) { p.slack = -.5F; }),
            "calibrated_threshold::slack must be in [0, 1), got -0.5");
  EXPECT_EQ(complaint([](p4& p) { p.threshold = 2.0F; }),
            "calibrated_threshold::threshold must be in [0, 1], got 2");
  EXPECT_EQ(complaint([](p4& p) { p.threshold = 0.0F; }), "");
  EXPECT_EQ(complaint([](p4& p) { p.threshold = 1.0F; }), "");
  for (float p4::* field : {&p4::cap, &p4::slack, &p4::threshold}) {
    EXPECT_NE(complaint([&](p4& p) { p.*field = nan; }), "");
  }
  EXPECT_EQ(complaint([](p4& p) { p.blocks = 5; }),
            "calibrated_threshold::blocks must be in [0, Cells = 4], got 5");
  EXPECT_NE(complaint([](p4& p) { p.blocks = -1; }), "");
  EXPECT_NE(complaint([](p4& p) { p.ends[0] = 0; }), "");
  EXPECT_NE(complaint([](p4& p) { p.ends[0] = 3; }), "");
  EXPECT_EQ(complaint([](p4& p) { p.ends[1] = 4; }), "");
  EXPECT_EQ(complaint([](p4& p) { p.ends[1] = 5; }),
            "calibrated_threshold::ends must be at most Cells = 4, got 5");
  EXPECT_NE(complaint([](p4& p) { p.mode = profile_mode::block; }), "");
  EXPECT_NE(complaint([&](p4& p) { p.cells[2] = nan; }), "");
  EXPECT_NE(complaint([](p4& p) { p.cells[2] = 1.5F; }), "");
  EXPECT_EQ(complaint([](p4& p) { p.cells[3] = 1.5F; }), "");  // behind the profile
  EXPECT_EQ(complaint([](p4&) {}, {.length = 8, .block_length = 16}),
            "calibrated_threshold::block_length must be sequence_shape::block_length = 16, or the "
            "profile was made "
            "for other blocks, got 8");
}

TEST(threshold_calibrator, counts_certain_tokens) {
  std::vector<token_id> tokens(4, 0);
  const sequence_shape two_blocks{.length = 4, .block_length = 2};
  const calibrated_threshold<> knobs{.cap = 1.0F, .slack = 0.0F};
  const model_info info{.vocab = 3, .mask_token = 2};
  session s{policy{by_confidence{}, knobs}, info, tokens, two_blocks};
  const auto profile = calibrating(s, two_blocks, knobs, [&](const forward_request& r) {
    std::vector<float> logits;
    for (index_t k = 0; k < r.rows; ++k) {
      logits.insert(logits.end(), {0.0F, -300.0F, 0.0F});
    }
    s.supply(host_logits<float>{logits.data(), r.rows, 3});
  });
  ASSERT_EQ(profile.blocks, 2);
  EXPECT_EQ(profile.cells[0], 1.0F);
  EXPECT_EQ(profile.cells[1], 1.0F);
}

TEST(calibrated_threshold, a_profile_for_other_blocks_does_not_start) {
  const made_up_model model;
  const auto p = calibrated_on(model, calibrated_threshold<>{});
  std::vector<token_id> tokens(34, 0);
  const policy with{by_confidence{}, p};
  session<std::remove_const_t<decltype(with)>> s{model.info(), {.length = 34, .window = 16}};
  EXPECT_THROW(s.start(0, with, tokens, {.length = 34, .block_length = 16}), std::invalid_argument);
  EXPECT_NO_THROW(s.start(0, with, tokens, {.length = 34, .block_length = 8}));
}

TEST(threshold_calibrator, counts_what_it_records) {
  threshold_calibrator r{{.length = 8, .block_length = 8}};
  EXPECT_EQ(r.size(), 0U);
  commit_entry e{};
  e.log_probability = -0.5F;
  const std::vector<commit_entry> two(2, e);
  r.add(two);
  EXPECT_EQ(r.size(), 2U);
  e.log_probability = -std::numeric_limits<float>::infinity();  // of an invalid row
  r.add(std::vector<commit_entry>(3, e));
  EXPECT_EQ(r.size(), 2U);
}

}  // namespace
}  // namespace unmask::testing::calibrated_threshold_test
