// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text that moves: laws of its primitives, and what holds for every decode with rules that rewrite
// blocks.
#include <unmask/named_policy.hpp>
#include <unmask/step/rewrite_block.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::moving_text_test {
namespace {

/// A part with state at each position, and one that lets text move.
struct counting {
  struct position_state {
    int value = 0;
  };
  static constexpr statistics required = stat::none;
  UNMASK_HD void process(auto&, auto&) const {}
};
struct moving {
  static constexpr statistics required = stat::confidence;
  static constexpr bool paces = true;
  static constexpr bool rewrites_blocks = true;
  [[nodiscard]] std::int64_t extra_forwards(const sequence_shape&) const { return 0; }
  UNMASK_HD bool commits(const auto&, const rank_info&) const { return false; }
  UNMASK_HD void schedule(sequence_view&, plan& next, auto&) const { next.end = ending::complete; }
  UNMASK_HD void rewrite_block(auto&, auto&) const {}
};
using policy_type = policy<by_confidence, counting, moving>;

/// A slot with `length` positions whose tokens, states and flags tell them apart.
class slot {
 public:
  explicit slot(index_t length)
      : capacity_{.sequences = 1, .length = length, .window = length, .vocab = 100}
      , bytes_(step::slot_bytes<policy_type>(capacity_))
      , tokens_(static_cast<std::size_t>(length))
      , m(step::slot_at<policy_type>(bytes_.data(), capacity_)) {
    m.status = &status_;
    ::new (static_cast<void*>(m.state)) step::slot_state{};
    m.state->tokens = tokens_.data();
    m.state->model = {.vocab = 100, .mask_token = 99};
    m.state->geometry.length = length;
    m.state->view.marks = m.marks;
    m.state->view.length = length;
    for (index_t p = 0; p < length; ++p) {
      tokens_[static_cast<std::size_t>(p)] = p;
      m.marks[p] = p % 3 == 0 ? mark::masked : mark::committed;
      m.inserted[p] = p % 5 == 0;
      value(p) = 100 + p;
    }
  }
  [[nodiscard]] int& value(index_t p) const {
    return m.state_at<1, counting::position_state>(m.cell_of(p)).value;
  }
  /// The position that this one was, by everything that belongs to it; -1 for an inserted mask.
  [[nodiscard]] index_t origin(index_t p) const {
    const token_id token = tokens_[static_cast<std::size_t>(p)];
    if (token == 99) {
      EXPECT_EQ(m.marks[p], mark::masked);
      EXPECT_TRUE(m.inserted[p]);
      EXPECT_EQ(value(p), 0);
      return -1;
    }
    EXPECT_EQ(m.marks[p], token % 3 == 0 ? mark::masked : mark::committed);
    EXPECT_EQ(m.inserted[p], token % 5 == 0);
    EXPECT_EQ(value(p), 100 + token);
    return token;
  }

 private:
  session_capacity capacity_;
  std::vector<std::byte> bytes_;
  std::vector<token_id> tokens_;
  step::slot_status status_;

 public:
  step::slot_memory<policy_type> m;
};

TEST(moving_text, a_permutation_and_its_inverse_change_nothing) {
  dice d(1);
  for (int round = 0; round < 200; ++round) {
    const index_t length = d.within(2, 12);
    slot s(length + 1);  // the last position is free
    const std::vector<std::int32_t> order = d.permutation(length);
    // Cycles by way of the free position, there and back.
    const auto permute = [&](const std::vector<std::int32_t>& to) {
      std::vector<bool> done(to.size());
      for (std::size_t start = 0; start < to.size(); ++start) {
        std::vector<index_t> cycle;
        for (auto p = static_cast<index_t>(start); !done[static_cast<std::size_t>(p)];
             p = to[static_cast<std::size_t>(p)]) {
          done[static_cast<std::size_t>(p)] = true;
          cycle.push_back(p);
        }
        if (cycle.size() > 1) {
          step::move_position(s.m, cycle.back(), length);
          for (std::size_t k = cycle.size() - 1; k > 0; --k) {
            step::move_position(s.m, cycle[k - 1], cycle[k]);
          }
          step::move_position(s.m, length, cycle[0]);
        }
      }
    };
    permute(order);
    std::vector<std::int32_t> inverse(order.size());
    for (std::size_t p = 0; p < order.size(); ++p) {
      ASSERT_EQ(s.origin(order[p]), static_cast<index_t>(p));
      inverse[static_cast<std::size_t>(order[p])] = static_cast<std::int32_t>(p);
    }
    permute(inverse);
    for (index_t p = 0; p < length; ++p) {
      ASSERT_EQ(s.origin(p), p);
    }
  }
}

TEST(moving_text, is_put_together_from_left_to_right_and_cut) {
  dice d(2);
  for (int round = 0; round < 2000; ++round) {
    const index_t first = d.within(0, 3);
    const index_t size = d.within(1, 9);
    const index_t room = first + size + d.within(0, 4);
    slot s(room);
    const index_t wanted = d.within(0, room - first);
    std::vector<index_t> expected;
    for (index_t i = 0; i < size; ++i) {
      s.m.keys[i] = step::text_edit::of(i, 0);
      const int kind = d.within(0, 3);
      if (kind == 0) {
        s.m.keys[i] |= step::text_edit::erases;
        continue;
      }
      const index_t inserts = kind == 1 ? d.within(1, 3) : 0;
      s.m.keys[i] = step::text_edit::of(i, inserts);
      expected.insert(expected.end(), static_cast<std::size_t>(inserts), -1);
      expected.push_back(first + i);
    }
    expected.resize(static_cast<std::size_t>(wanted), -1);
    static_cast<void>(step::phase::put_together(s.m, {first, first + size}, wanted));
    for (index_t p = 0; p < first; ++p) {
      ASSERT_EQ(s.origin(p), p);
    }
    for (index_t k = 0; k < wanted; ++k) {
      ASSERT_EQ(s.origin(first + k), expected[static_cast<std::size_t>(k)]) << round;
    }
    for (index_t i = 0; i < size; ++i) {
      const auto to = std::find(expected.begin(), expected.end(), first + i);
      ASSERT_EQ(s.m.ranks[i], to == expected.end() ? -1 : to - expected.begin());
    }
  }
}

TEST(moving_text, of_an_empty_answer_takes_no_pass) {
  for (const char* text : {"joint_threshold_indel", "joint_threshold_indel(0.5, 0.5, 2, 2, 3)"}) {
    for (const index_t prompt : {5, 6, 9, 10}) {
      const model_info model{.vocab = 12, .mask_token = 11, .eos_token = 1};
      const sequence_shape shape{.prompt_length = prompt, .length = prompt, .block_length = 5};
      std::vector<token_id> tokens(static_cast<std::size_t>(prompt), 5);
      session<named_policy, on_host> s(read_policy(std::string(text) + " + prefix_cache"),
                                       model,
                                       tokens_view<memory::host>(tokens.data(), prompt),
                                       shape);
      EXPECT_FALSE(s.next()) << text << ", " << prompt;
      EXPECT_EQ(s.report().end, ending::complete) << text << ", " << prompt;
    }
  }
}

TEST(moving_text, of_every_decode_ends_in_time_without_a_mask) {
  int grown = 0;
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    dice d(seed);
    const bool grows = d.chance(0.5);
    const std::string text = grows ? "daedal(" + std::to_string(d.within(1, 12)) + ", 0." +
                                         std::to_string(d.within(1, 9)) + ", 0." +
                                         std::to_string(d.within(1, 9)) + ", " +
                                         std::to_string(d.within(1, 5)) + ", 0.4, 0.7, " +
                                         std::to_string(d.within(1, 6)) + ")"
                                   : "joint_threshold_indel(0." + std::to_string(d.within(1, 9)) +
                                         ", 0." + std::to_string(d.within(0, 9)) + ", " +
                                         std::to_string(d.within(0, 6)) + ", 2, 3)";
    const bool is_dense = grows && d.chance(0.5);
    const std::string dense = "rho_eos(" + std::to_string(d.within(1, 12)) + ", 0." +
                              std::to_string(d.within(1, 9)) + ", " +
                              std::to_string(d.within(1, 5)) + ", 0.2, 0.6)";
    const named_policy parts = read_policy(is_dense ? dense : text);
    const model_info model{.vocab = 12,
                           .mask_token = 11,
                           .eos_token = is_dense || d.chance(0.5) ? 1 : no_token,
                           .suppress_mask = true};
    const index_t prompt = d.within(0, 5);
    const sequence_shape shape{.prompt_length = prompt,
                               .length = prompt + d.within(1, 24),
                               .block_length = d.within(1, 8)};
    std::vector<token_id> tokens(static_cast<std::size_t>(shape.length), 5);
    session<named_policy, on_host> s(
        parts, model, tokens_view<memory::host>(tokens.data(), shape.length), shape);
    std::vector<float> logits;
    const std::int64_t most = most_forwards(parts, shape);
    index_t passes = 0;
    index_t length = s.report().answer_end;
    while (const auto request = s.next()) {
      ASSERT_LT(passes, most) << text;
      ++passes;
      logits.resize(static_cast<std::size_t>(request->rows) * 12);
      for (float& x : logits) {
        x = static_cast<float>(d.within(0, 60)) / 10.0F;
      }
      s.supply(host_logits<float>{logits.data(), request->rows, 12, 12});
      const auto from = tokens.begin() + prompt;
      ASSERT_TRUE(std::all_of(tokens.begin(), from, [](token_id v) { return v == 5; })) << text;
      ASSERT_EQ(std::count(from, tokens.begin() + s.report().answer_end, 11), s.report().masked)
          << text;
      grown += s.report().answer_end != length ? 1 : 0;
      length = s.report().answer_end;
      for (const commit_entry& c : s.committed()) {
        ASSERT_EQ(c.token, tokens[static_cast<std::size_t>(c.position)]) << text;
        moved += !grows && (c.token == 2 || c.token == 3) ? 1 : 0;
      }
    }
    ASSERT_EQ(s.report().end, ending::complete) << text;
    ASSERT_EQ(s.report().masked, 0) << text;
  }
  EXPECT_GT(grown, 100);
  EXPECT_EQ(moved, 0);  // commands are never left in the text
}

}  // namespace
}  // namespace unmask::testing::moving_text_test
