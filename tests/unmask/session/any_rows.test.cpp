// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/pipeline.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/beside.hpp"
#include "support/bound_session.hpp"

namespace unmask::testing::any_rows_test {
namespace {

using tokens_of = std::vector<token_id>;
using rule = policy<by_margin, any_of<threshold, tokens_per_step>, stop_at_eos>;

constexpr model_info model = {.vocab = 33, .mask_token = 32, .eos_token = 31};
constexpr session_capacity capacity = {.sequences = 2, .length = 12, .window = 5};

template <element T>
void supply(auto& s, const rows_view<T, memory::host>& rows) {
  s.supply(rows);
}
template <element T>
void supply(session<rule>& s, const rows_view<T, memory::host>& rows) {
  s.supply(rows);
}

/// Runs a step of any kind of session of two slots; false at the end.
template <element T, class Session>
bool step(Session& s, const std::vector<tokens_of>& tokens) {
  const auto request = s.next();
  if (!request) {
    return false;
  }
  packed_rows<T> rows(request->rows, model.vocab, 2);
  for (const segment& part : request->segments) {
    const fake_model fake{.seed = 17, .vocab = model.vocab};
    for (index_t r = 0; r < part.rows.size(); ++r) {
      fake.row<T>(tokens[static_cast<std::size_t>(part.slot)],
                  part.rows.first + r,
                  rows.row(part.first_row + r));
    }
  }
  supply<T>(s, rows.view());
  return true;
}

template <class T>
class untyped_rows_of : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(untyped_rows_of, elements);

TYPED_TEST(untyped_rows_of, decodes_as_the_session_does) {
  const rule p{by_margin{}, threshold{0.7F} || tokens_per_step{1}, stop_at_eos{}};
  const std::vector<std::uint8_t> editable = {1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1};
  const tokens_of suppressed = {2, 3};
  const sequence_shape g = {.prompt_length = 2, .length = 12, .block_length = 5};
  const start_options options = {.editable = editable, .suppressed = suppressed};

  std::vector<tokens_of> ours(2, tokens_of(12, 1));
  session<rule> s(model, capacity);
  s.start(0, p, ours[0], g);
  s.start(1, p, ours[1], g, options);

  std::vector<tokens_of> theirs(2, tokens_of(12, 1));
  const auto any = make_bound(p, model, capacity);
  any->start(0, theirs[0].data(), 12, g);
  any->start(1, theirs[1].data(), 12, g, options);

  bool more = true;
  while (more) {
    more = step<TypeParam>(s, ours);
    ASSERT_EQ(step<TypeParam>(*any, theirs), more);
    ASSERT_EQ(theirs, ours);
    for (const index_t slot : {0, 1}) {
      const sequence_report& a = s.report(slot);
      const sequence_report& b = any->report(slot);
      ASSERT_EQ(a.end, b.end);
      ASSERT_EQ(a.forwards, b.forwards);
      ASSERT_EQ(a.committed, b.committed);
      const auto mine = s.committed(slot);
      const auto other = any->committed(slot);
      ASSERT_EQ(mine.size(), other.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        ASSERT_EQ(mine[i].position, other[i].position);
        ASSERT_EQ(mine[i].log_probability, other[i].log_probability);
      }
    }
  }
  EXPECT_GT(s.report(0).forwards, 1);
}

TEST(untyped_rows, plans_what_the_session_plans) {
  const policy p{by_confidence{},
                 threshold{0.9F},
                 lookahead{.branches = 2},
                 block_pipeline{.add = 0.3F, .activate = 0.6F}};
  std::vector<tokens_of> ours(2, tokens_of(12, 1)), theirs = ours;
  session_capacity more = capacity;
  more.window = 12;
  more.branches = 2;
  session<std::remove_const_t<decltype(p)>> s(model, more);
  const auto any = make_bound(p, model, more);
  for (const index_t slot : {0, 1}) {
    const sequence_shape g = {.prompt_length = 1 + slot, .length = 12, .block_length = 3};
    s.start(slot, p, ours[static_cast<std::size_t>(slot)], g);
    any->start(slot, theirs[static_cast<std::size_t>(slot)].data(), 12, g);
  }
  index_t winners = 0, frozen = 0, refreshes = 0;
  while (const auto request = s.next()) {
    ASSERT_TRUE(any->next());
    packed_rows<float> rows(request->rows, model.vocab, 0);
    for (const segment& part : request->segments) {
      tokens_of seen = ours[static_cast<std::size_t>(part.slot)];
      for (const auto& placed : part.placed) {
        seen[static_cast<std::size_t>(placed.position)] = placed.token;
      }
      const fake_model fake{.seed = 17, .vocab = model.vocab};
      for (index_t r = 0; r < part.rows.size(); ++r) {
        fake.row<float>(seen, part.rows.first + r, rows.row(part.first_row + r));
      }
    }
    s.supply(rows.view());
    any->supply(rows.view());
    for (const index_t slot : {0, 1}) {
      const plan& a = s.planned(slot);
      const plan& b = any->planned(slot);
      ASSERT_EQ(a.winner, b.winner);
      ASSERT_EQ(a.freeze, b.freeze);
      ASSERT_EQ(a.refresh, b.refresh);
      winners += b.winner > 0 ? 1 : 0;
      frozen += b.freeze.size() > 0 ? 1 : 0;
      refreshes += b.refresh ? 1 : 0;
    }
  }
  EXPECT_GT(winners, 0);
  EXPECT_GT(frozen, 0);
  EXPECT_GT(refreshes, 0);
  EXPECT_THROW(static_cast<void>(any->planned(2)), std::invalid_argument);
}

TEST(untyped_rows, is_cancelled_as_a_session_is) {
  const auto s = make_bound(policy{by_margin{}, tokens_per_step{1}}, model, capacity);
  tokens_of tokens(5);
  s->start(1, tokens.data(), 5, {.length = 5, .block_length = 5});
  s->cancel(1);
  EXPECT_FALSE(s->next());
  EXPECT_EQ(s->report(1).end, ending::cancelled);
}

TYPED_TEST(untyped_rows_of, reads_segments_with_their_modifiers_as_the_session_does) {
  const policy p{by_confidence{}, tokens_per_step{1}};
  std::vector<tokens_of> ours(2, tokens_of(4, 1)), theirs = ours;
  session<std::remove_const_t<decltype(p)>> s(model, capacity);
  const auto any = make_bound(p, model, capacity);
  for (const index_t slot : {0, 1}) {
    const sequence_shape g = {.prompt_length = 1, .length = 4, .block_length = 3};
    s.start(slot, p, ours[static_cast<std::size_t>(slot)], g);
    any->start(slot, theirs[static_cast<std::size_t>(slot)].data(), 4, g);
  }
  packed_rows<TypeParam> logits(3, model.vocab, 3), unconditional(3, model.vocab, 5);
  const fake_model conditional{.seed = 5, .vocab = model.vocab};
  const fake_model other{.seed = 6, .vocab = model.vocab};
  // Odd tokens at positions 1 and 3, even ones at 2; the third word of a row is padding.
  const std::vector<std::uint32_t> allowed = {0xaaaaaaaa, 0, 7, 0x55555555, 1, 7, 0xaaaaaaaa, 0, 7};
  while (const auto request = s.next()) {
    ASSERT_TRUE(any->next());
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const segment& part = request->segments[i];
      for (index_t r = 0; r < part.rows.size(); ++r) {
        const tokens_of& seen = ours[static_cast<std::size_t>(part.slot)];
        conditional.row<TypeParam>(seen, part.rows.first + r, logits.row(r));
        other.row<TypeParam>(seen, part.rows.first + r, unconditional.row(r));
      }
      const auto rows = logits.view().subrows({0, part.rows.size()});
      const std::uint32_t* const words = allowed.data() + 3 * (part.rows.first - 1);
      const TypeParam* const beside = unconditional.data();
      s.read(i, rows, {words, 3, beside, unconditional.stride(), 1.5F});
      any->read(i, rows, {words, 3, beside, unconditional.stride(), 1.5F});
    }
    s.decide();
    any->decide();
    ASSERT_EQ(theirs, ours);
  }
  for (const tokens_of& tokens : theirs) {
    EXPECT_EQ(tokens[1] % 2, 1);
    EXPECT_EQ(tokens[2] % 2, 0);
    EXPECT_EQ(tokens[3] % 2, 1);
  }
}

// Passes of one sequence and of both in turn, a tensor and modifiers for each segment.
TYPED_TEST(untyped_rows_of, takes_a_tensor_for_each_segment_as_the_session_does) {
  const policy p{by_confidence{}, tokens_per_step{1}};
  std::vector<tokens_of> ours(2, tokens_of(8, 1)), theirs = ours;
  session<std::remove_const_t<decltype(p)>> s(model, capacity);
  const auto any = make_bound(p, model, capacity);
  for (const index_t slot : {0, 1}) {
    const sequence_shape g = {.prompt_length = 1, .length = 8, .block_length = 4};
    s.start(slot, p, ours[static_cast<std::size_t>(slot)], g);
    any->start(slot, theirs[static_cast<std::size_t>(slot)].data(), 8, g);
  }
  const fake_model fake{.seed = 5, .vocab = model.vocab};
  const std::vector<std::vector<std::uint32_t>> allowed = {{0xaaaaaaaa, 0}, {0x55555555, 1}};
  const std::vector<std::vector<index_t>> passes = {{0}, {1, 0}, {1}};
  for (std::size_t pass = 0; !s.finished(); ++pass) {
    const auto request = s.next(passes[pass % 3]);
    ASSERT_EQ(any->next(passes[pass % 3]).has_value(), request.has_value());
    if (!request) {
      continue;
    }
    std::vector<packed_rows<TypeParam>> rows;
    std::vector<host_logits<TypeParam>> tensors;
    std::vector<row_modifiers<TypeParam>> modifiers;
    std::vector<any_rows> any_tensors;
    std::vector<any_modifiers> every_modifier;
    for (const segment& part : request->segments) {
      const auto slot = static_cast<std::size_t>(part.slot);
      rows.emplace_back(part.rows.size(), model.vocab, 1 + part.slot);
      for (index_t r = 0; r < part.rows.size(); ++r) {
        fake.row<TypeParam>(ours[slot], part.rows.first + r, rows.back().row(r));
      }
      tensors.push_back(rows.back().view());
      modifiers.push_back({.allowed = allowed[slot].data()});
      any_tensors.emplace_back(tensors.back());
      every_modifier.push_back(modifiers.back());
    }
    s.supply(tensors, modifiers);
    const std::span<const any_rows> all(any_tensors);
    const std::span<const any_modifiers> each(every_modifier);
    EXPECT_THROW(any->supply(all.first(0)), std::invalid_argument);
    if (all.size() > 1) {
      EXPECT_THROW(any->supply(all, each.first(1)), std::invalid_argument);
      any_tensors[1].kind =
          all[0].kind == element_kind::f32 ? element_kind::f16 : element_kind::f32;
      EXPECT_THROW(any->supply(all, each), std::invalid_argument);
      any_tensors[1] = tensors[1];
    }
    any->supply(all, each);
    ASSERT_EQ(theirs, ours);
  }
  for (std::size_t i = 1; i < 8; ++i) {
    EXPECT_EQ(theirs[0][i] % 2, 1);
    EXPECT_EQ(theirs[1][i] % 2, 0);
  }
}

TEST(untyped_rows, refuses_logits_in_the_wrong_memory) {
  const auto s = make_bound(policy{by_margin{}, tokens_per_step{1}}, model, capacity);
  tokens_of tokens(2);
  s->start(0, tokens.data(), 2, {.length = 2, .block_length = 2});
  ASSERT_TRUE(s->next());
  const std::vector<float> z(66, 0.0F);
  try {
    s->supply(any_rows(device_logits<float>(z.data(), 2, 33)));
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("memory space of the logits"), std::string::npos) << said;
    EXPECT_NE(said.find("device"), std::string::npos) << said;
  }
  s->supply(host_logits<float>(z.data(), 2, 33));
  EXPECT_EQ(s->report(0).forwards, 1);
}

TEST(untyped_rows, refuses_what_a_session_refuses) {
  const auto s = make_bound(policy{by_margin{}, tokens_per_step{1}}, model, capacity);
  tokens_of tokens(5);
  const std::vector<float> z(330, 0.0F);
  EXPECT_THROW(s->supply(host_logits<float>(z.data(), 2, 33)), std::logic_error);
  EXPECT_THROW(s->start(2, tokens.data(), 5, {.length = 5, .block_length = 5}),
               std::invalid_argument);
  EXPECT_THROW(s->start(0, tokens.data(), 4, {.length = 5, .block_length = 5}),
               std::invalid_argument);
  s->start(0, tokens.data(), 5, {.length = 5, .block_length = 5});
  ASSERT_TRUE(s->next());
  EXPECT_THROW(s->supply(host_logits<float>(z.data(), 4, 33)), std::invalid_argument);
  EXPECT_THROW(s->supply(host_logits<float>(z.data(), 5, 32)), std::invalid_argument);
  EXPECT_THROW(s->start(1, tokens.data(), 5, {.length = 5, .block_length = 5}), std::logic_error);
  EXPECT_THROW(s->cancel(0), std::logic_error);
  EXPECT_THROW(static_cast<void>(s->report(9)), std::invalid_argument);
  EXPECT_THROW(s->decide(), std::logic_error);
  s->read(0, host_logits<float>(z.data(), 5, 33));
  EXPECT_THROW(s->read(0, host_logits<float>(z.data(), 5, 33)), std::logic_error);
  EXPECT_THROW(s->supply(host_logits<float>(z.data(), 5, 33)), std::logic_error);
  s->decide();
  EXPECT_EQ(s->report(0).forwards, 1);
}

TEST(any_rows, remembers_what_a_view_is) {
  const bfloat16 b{};
  const any_rows x = host_logits<bfloat16>(&b, 3, 4, 7);
  EXPECT_EQ(x.data, &b);
  EXPECT_EQ(x.kind, element_kind::bf16);
  EXPECT_EQ(x.space, memory::host);
  EXPECT_EQ(x.rows, 3);
  EXPECT_EQ(x.columns, 4);
  EXPECT_EQ(x.stride, 7);
  const float16 h{};
  EXPECT_EQ(any_rows(device_logits<float16>(&h, 1, 1)).kind, element_kind::f16);
  EXPECT_EQ(any_rows(device_logits<float16>(&h, 1, 1)).space, memory::device);
  const float f{};
  EXPECT_EQ(any_rows(host_logits<float>(&f, 1, 1)).kind, element_kind::f32);
}

TEST(any_modifiers, are_made_of_row_modifiers) {
  const std::uint32_t words[2] = {};
  const bfloat16 rows[2] = {};
  const row_modifiers<bfloat16> typed{.allowed = words,
                                      .allowed_stride = 1,
                                      .unconditional = rows,
                                      .unconditional_stride = 2,
                                      .cfg_scale = 0.5F};
  const any_modifiers any = typed;
  EXPECT_EQ(any.allowed, words);
  EXPECT_EQ(any.allowed_stride, 1);
  EXPECT_EQ(any.unconditional, rows);
  EXPECT_EQ(any.unconditional_stride, 2);
  EXPECT_EQ(any.cfg_scale, 0.5F);
}

}  // namespace
}  // namespace unmask::testing::any_rows_test
