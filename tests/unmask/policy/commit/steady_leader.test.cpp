// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/commit/steady_leader.hpp>
#include <unmask/policy/logits/tokens.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "support/by_name.hpp"
#include "support/dice.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::steady_leader_test {
namespace {

constexpr index_t vocab = 9;

// The leader of each row, drawn for each step and position; -1: an invalid row.
struct scripted {
  std::vector<std::vector<token_id>> leaders;  // [step][position]
  index_t step = 0;

  [[nodiscard]] model_info info() const { return {.vocab = vocab, .mask_token = vocab - 1}; }
  [[nodiscard]] token_id leader(index_t s, index_t position) const {
    return leaders[static_cast<std::size_t>(s)][static_cast<std::size_t>(position)];
  }
  void row(std::span<const token_id>, index_t position, std::span<float> out) const {
    std::fill(out.begin(), out.end(), 0.0F);
    const token_id token = leader(step, position);
    if (token < 0) {
      out[1] = std::numeric_limits<float>::quiet_NaN();
    } else {
      out[static_cast<std::size_t>(token)] = 1.0F;
    }
  }
};

using commits = std::vector<std::pair<index_t, token_id>>;

// Commits of each step, in position order.
template <class Session>
std::vector<commits> decode(Session& s, scripted model, std::vector<token_id>& tokens) {
  std::vector<commits> all;
  while (const auto request = s.next()) {
    supply_one(s, *request, model, tokens);
    all.emplace_back();
    for (const commit_entry& e : s.committed()) {
      all.back().emplace_back(e.position, e.token);
    }
    ++model.step;
  }
  return all;
}

scripted random_script(dice& d, index_t length) {
  scripted model;
  for (int s = 0; s < 60; ++s) {
    model.leaders.emplace_back();
    for (index_t p = 0; p < length; ++p) {
      const bool stays = s > 0 && d.chance(0.7);
      const auto at = static_cast<std::size_t>(p);
      model.leaders.back().push_back(stays           ? model.leaders[model.leaders.size() - 2][at]
                                     : d.chance(0.1) ? -1
                                                     : d.within(0, vocab - 2));
    }
  }
  return model;
}

// The rule from its words, left to right where nothing has held for long enough. Every position has
// a row in every step.
std::vector<commits> expected(const scripted& model, index_t length, index_t steps) {
  std::vector<bool> open(static_cast<std::size_t>(length), true);
  std::vector<commits> all;
  for (index_t s = 0; std::find(open.begin(), open.end(), true) != open.end(); ++s) {
    all.emplace_back();
    index_t first_valid = -1;
    for (index_t p = 0; p < length; ++p) {
      if (!open[static_cast<std::size_t>(p)] || model.leader(s, p) < 0) {
        continue;
      }
      first_valid = first_valid < 0 ? p : first_valid;
      index_t held = 0;
      for (index_t back = s; back >= 0 && held < steps; --back) {
        if (model.leader(back, p) >= 0) {
          if (model.leader(back, p) != model.leader(s, p)) {
            break;
          }
          ++held;
        }
      }
      if (held == steps) {
        all.back().emplace_back(p, model.leader(s, p));
      }
    }
    if (all.back().empty()) {
      if (first_valid < 0) {
        return {};  // what commits of invalid rows alone is another rule's
      }
      all.back().emplace_back(first_valid, model.leader(s, first_valid));
    }
    for (const auto& [p, token] : all.back()) {
      open[static_cast<std::size_t>(p)] = false;
    }
  }
  return all;
}

TEST(steady_leader, commits_what_has_led_for_so_many_steps) {
  std::map<std::size_t, int> sizes;
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    dice d(seed);
    const index_t length = d.within(1, 14);
    const index_t steps = d.within(1, 5);
    const scripted model = random_script(d, length);
    const auto wanted = expected(model, length, steps);
    if (wanted.empty()) {
      continue;
    }
    const auto p = by_name(policy{left_to_right{}, steady_leader{steps}, single_block{}});
    std::vector<token_id> tokens(static_cast<std::size_t>(length), vocab - 1);
    session<std::remove_const_t<decltype(p)>> s{
        model.info(), {.sequences = 1, .length = length, .window = length}};
    s.start(0, p, tokens, {.length = length, .block_length = length});
    EXPECT_EQ(decode(s, model, tokens), wanted) << "seed " << seed;
    for (const commits& c : wanted) {
      ++sizes[c.size()];
    }
    ++compared;
  }
  EXPECT_GT(compared, 40);
  EXPECT_GT(sizes[1], 20);
  EXPECT_GT(sizes[2] + sizes[3], 20);
}

TEST(steady_leader, decides_by_name_as_the_part_does) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    dice d(seed);
    const index_t length = d.within(4, 14);
    const scripted model = random_script(d, length);
    const auto p = by_name(policy{
        by_confidence{}, steady_leader{2} && threshold{0.2F}, eos_penalty{0.5F}, single_block{}});
    model_info info = model.info();
    info.eos_token = 2;
    std::vector<token_id> tokens(static_cast<std::size_t>(length), vocab - 1);
    session<std::remove_const_t<decltype(p)>> s{
        info, {.sequences = 1, .length = length, .window = length}};
    s.start(0, p, tokens, {.length = length, .block_length = length});
    const auto typed = decode(s, model, tokens);

    const named_policy by_name =
        read_policy("all_of(steady_leader(2), threshold(0.2)) + eos_penalty(0.5) + single_block");
    std::vector<token_id> same(static_cast<std::size_t>(length), vocab - 1);
    named_session named{info, {.sequences = 1, .length = length, .window = length}};
    named.start(0, by_name, same, {.length = length, .block_length = length});
    EXPECT_EQ(decode(named, model, same), typed) << "seed " << seed;
  }
}

TEST(steady_leader, has_a_range_and_one_state_by_name) {
  EXPECT_THROW(check_part(steady_leader{0}, sequence_shape{}), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(read_policy("any_of(steady_leader, steady_leader(2))")),
               policy_text_error);
  EXPECT_THAT(describe_parts(), ::testing::HasSubstr("steady_leader(steps=3)"));
}

}  // namespace
}  // namespace unmask::testing::steady_leader_test
