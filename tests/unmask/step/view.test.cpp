// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sequence_view that a part has of a step, compared with the tokens that the step wrote.
#include <unmask/constraint.hpp>
#include <unmask/policy/beam.hpp>
#include <unmask/policy/drafts.hpp>
#include <unmask/policy/remask/joint_threshold_indel.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/languages.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::view_test {
namespace {

/// Keeps the views that it is given after the steps of a pass: one, or more with drafts.
struct watch {
  std::vector<sequence_view>* seen = nullptr;
  static constexpr statistics required = stat::none;
  ending stop(const sequence_view& q, auto&) const {
    seen->push_back(q);
    return ending::running;
  }
};
static_assert(stopping<watch>);

struct counts {
  int rewritten = 0;
  int several = 0;  ///< steps that commit several tokens
  int none = 0;     ///< steps that commit nothing
  int placed = 0;   ///< tokens that a constraint placed
  int spared = 0;   ///< passes that more than one step is decided from
};

/// Compares the view after each step of a decode that was started.
template <class Session>
void follow(Session& s,
            std::vector<sequence_view>& views,
            const std::vector<token_id>& tokens,
            const random_rows& rows,
            const model_info& model,
            counts& n) {
  const auto length = static_cast<index_t>(tokens.size());
  index_t latest = views.back().latest;
  int pass = 0;
  while (const auto request = s.next()) {
    SCOPED_TRACE("pass " + std::to_string(pass));
    const std::vector<float> logits = rows.of(*request, pass, model.vocab);
    const std::vector<token_id> before = tokens;
    views.clear();
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
    ++pass;
    if (s.report().end != ending::running) {
      return;  // the end may fill what is left
    }
    index_t fresh = 0;
    index_t rewritten = length;
    index_t changed = length;
    for (index_t p = length - 1; p >= 0; --p) {
      const auto i = static_cast<std::size_t>(p);
      if (tokens[i] != before[i]) {
        fresh += before[i] == model.mask_token ? 1 : 0;
        rewritten = before[i] == model.mask_token ? rewritten : p;
        changed = p;
      }
    }
    const auto written = s.committed();
    latest = written.empty() ? latest : written.back().position;
    const sequence_view& view = views.back();
    sequence_view whole;
    whole.rewritten = length;
    whole.first_changed = length;
    for (const sequence_view& step : views) {
      whole.commit_count += step.commit_count;
      whole.changed += step.changed;
      whole.new_commits += step.new_commits;
      whole.rewritten = std::min(whole.rewritten, step.rewritten);
      whole.first_changed = std::min(whole.first_changed, step.first_changed);
    }
    EXPECT_EQ(whole.commit_count, static_cast<index_t>(written.size()));
    EXPECT_EQ(whole.changed, static_cast<index_t>(written.size()));
    EXPECT_EQ(whole.new_commits, fresh);
    EXPECT_EQ(whole.rewritten, rewritten);
    EXPECT_EQ(whole.first_changed, changed);
    if (views.size() == 1) {
      EXPECT_EQ(view.latest, latest);
      EXPECT_EQ(view.step, pass);
    }
    EXPECT_EQ(view.masked_count, s.report().masked);
    pass = view.step;
    n.spared += views.size() > 1 ? 1 : 0;
    n.rewritten += rewritten < length ? 1 : 0;
    n.several += fresh > 1 ? 1 : 0;
    n.none += fresh == 0 ? 1 : 0;
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

template <class... Part>
counts decodes(const Part&... part) {
  counts n;
  const model_info model{.vocab = 7, .mask_token = 6, .eos_token = 0};
  for (std::uint64_t seed = 0; seed < 60 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice d(seed);
    const index_t prompt = d.within(0, 3);
    const index_t length = prompt + d.within(1, 20);
    std::vector<sequence_view> views;
    const policy p{part..., watch{&views}};
    session<std::remove_const_t<decltype(p)>> s(
        model, {.length = length, .window = length, .branches = 3});
    std::vector<token_id> tokens(static_cast<std::size_t>(length), 1);
    s.start(
        0,
        p,
        tokens,
        {.prompt_length = prompt, .length = length, .block_length = d.within(1, 20), .seed = seed});
    follow(s, views, tokens, random_rows{seed, 3.0, false}, model, n);
  }
  return n;
}

TEST(view, of_a_step_has_what_it_wrote) {
  EXPECT_GT(decodes(by_confidence{}, threshold{0.3F}).several, 30);
  for (const float edited : {0.0F, 0.5F, 1.0F}) {
    EXPECT_GT(
        decodes(
            by_margin{}, tokens_per_step{2}, edit_committed{edited}, remask_current_below{0.2F, 9})
            .rewritten,
        30);
  }
  EXPECT_GT(decodes(by_confidence{}, threshold{0.5F}, lookahead{3}).several, 30);
  EXPECT_GT(decodes(by_confidence{}, threshold{0.9F}, beam{3}).none, 30);
  EXPECT_GT(decodes(by_confidence{}, threshold{0.4F}, beam{2}).several, 30);
  EXPECT_GT(decodes(by_confidence{}, tokens_per_step{1}, drafts{.branches = 3}).spared, 5);
}

/// Notes how many tokens a step commits, as it asks about a committed one.
struct notes_commits {
  index_t* seen = nullptr;
  static constexpr statistics required = stat::none;
  verdict edit_token(const auto&, const auto& context) const {
    *seen = context.at.commits;
    return verdict::keep;
  }
};

TEST(view, of_a_committed_token_has_the_number_that_the_step_commits) {
  const model_info model{.vocab = 7, .mask_token = 6};
  index_t seen = -1;
  int several = 0;
  const policy p{by_confidence{}, threshold{0.4F}, notes_commits{&seen}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    session<std::remove_const_t<decltype(p)>> s(model, {.length = 12, .window = 12});
    std::vector<token_id> tokens(12);
    s.start(0, p, tokens, {.length = 12, .block_length = 12});
    const random_rows rows{seed, 3.0, false};
    for (int pass = 0; const auto request = s.next(); ++pass) {
      const std::vector<float> logits = rows.of(*request, pass, model.vocab);
      seen = -1;
      s.supply(host_logits<float>(logits.data(), request->rows, 7));
      if (pass > 0) {
        EXPECT_EQ(seen, static_cast<index_t>(s.committed().size()));
        several += seen > 1 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(several, 10);
}

// Text moves in some steps, and not in others.
TEST(view, of_a_step_has_where_it_moved_text) {
  const model_info model{.vocab = 7, .mask_token = 6};
  int moved = 0;
  int stayed = 0;  // after a step that moved
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<sequence_view> views;
    const policy p{
        by_confidence{}, joint_threshold_indel{.erase_token = 1, .insert_token = 2}, watch{&views}};
    session<std::remove_const_t<decltype(p)>> s(model, {.length = 12, .window = 12});
    std::vector<token_id> tokens(12, 3);
    s.start(0, p, tokens, {.prompt_length = 2, .length = 12, .block_length = 5});
    EXPECT_EQ(views.back().moved, 12) << "before the first step";
    const random_rows rows{seed, 3.0, false};
    index_t before = -1;
    for (int pass = 0; const auto request = s.next(); ++pass) {
      const std::vector<float> logits = rows.of(*request, pass, model.vocab);
      s.supply(host_logits<float>(logits.data(), request->rows, 7));
      const index_t at = s.report().last_moved;
      EXPECT_EQ(views.back().moved, at >= 0 ? at : 12) << "seed " << seed << ", pass " << pass;
      moved += at >= 0 ? 1 : 0;
      stayed += before >= 0 && at < 0 ? 1 : 0;
      before = at;
    }
  }
  EXPECT_GT(moved, 40);
  EXPECT_GT(stayed, 10);
}

/// Counts the rows of a position while it is masked.
struct counts_rows {
  std::vector<std::pair<index_t, int>>* seen = nullptr;
  struct position_state {
    int rows = 0;
  };
  static constexpr statistics required = stat::none;
  void process(auto&, auto& context) const {
    seen->emplace_back(context.at.position, ++context.state.rows);
  }
};

// Whatever committed a token that a part masks again: the rule, or a constraint.
TEST(position_state, begins_anew_when_its_position_is_masked_again) {
  int again = 0;
  for (std::uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice d(seed);
    const language l = random_language(d);
    std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
    if (!c) {
      continue;
    }
    const constrained_request r = random_constrained_request(d, l);
    const index_t length = r.prompt + r.answer;
    const constrained_field field{.language = &*c, .tokens_after = any_number, .fill = true};
    std::vector<std::pair<index_t, int>> seen;
    const policy p{
        by_confidence{}, threshold{0.3F}, remask_current_below{0.7F, 9}, counts_rows{&seen}};
    session<std::remove_const_t<decltype(p)>> s(l.model, {.length = length, .window = r.answer});
    std::vector<token_id> tokens = r.tokens;
    try {
      s.start(0,
              p,
              tokens,
              {.prompt_length = r.prompt, .length = length, .block_length = r.block},
              {.editable = r.editable, .suppressed = r.suppressed, .constraints = {&field, 1}});
    } catch (const std::invalid_argument&) {
      continue;  // no string of the language fits
    }
    const random_rows rows{seed, 3.0, false};
    std::vector<int> masked(tokens.size());  // passes that a position has been masked and read
    std::vector<bool> was_committed(tokens.size());
    for (int pass = 0; const auto request = s.next(); ++pass) {
      const std::vector<float> logits = rows.of(*request, pass, l.model.vocab);
      seen.clear();
      s.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab));
      for (const auto& [position, count] : seen) {
        const auto i = static_cast<std::size_t>(position);
        EXPECT_EQ(count, ++masked[i]) << "position " << position << ", pass " << pass;
        again += was_committed[i] && count == 1 ? 1 : 0;
      }
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool is_committed = tokens[i] != l.model.mask_token;
        masked[i] = is_committed ? 0 : masked[i];
        was_committed[i] = was_committed[i] || is_committed;
      }
    }
  }
  EXPECT_GT(again, 30);
}

TEST(view, of_a_step_has_what_a_constraint_placed) {
  counts n;
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice d(seed);
    const language l = random_language(d);
    std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
    if (!c) {
      continue;
    }
    const constrained_request r = random_constrained_request(d, l);
    const index_t length = r.prompt + r.answer;
    const constrained_field field{.language = &*c, .tokens_after = any_number, .fill = true};
    std::vector<sequence_view> views;
    const policy p{by_confidence{}, threshold{0.3F}, watch{&views}};
    session<std::remove_const_t<decltype(p)>> s(l.model, {.length = length, .window = r.answer});
    std::vector<token_id> tokens = r.tokens;
    try {
      s.start(0,
              p,
              tokens,
              {.prompt_length = r.prompt, .length = length, .block_length = r.block},
              {.editable = r.editable, .suppressed = r.suppressed, .constraints = {&field, 1}});
    } catch (const std::invalid_argument&) {
      continue;  // no string of the language fits
    }
    follow(s, views, tokens, random_rows{seed, 3.0, false}, l.model, n);
    n.placed += s.report().filled;
  }
  EXPECT_GT(n.placed, 100);
}

}  // namespace
}  // namespace unmask::testing::view_test
