// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "support/beside.hpp"

namespace unmask::testing::batch_test {
namespace {

using tokens_of = std::vector<token_id>;

// Everything that has a knob, and everything that has state.
using rich =
    policy<at_random,
           any_of<all_of<threshold, tokens_per_step>, all_of<steps_per_block, entropy_bound>>,
           stop_at_eos,
           max_steps>;

constexpr model_info model = {.vocab = 37, .mask_token = 36, .eos_token = 5, .logits_shift = 1};
constexpr index_t longest = 20;

/// A sequence with its own policy values, and what is known of it in the end.
struct job {
  rich p{at_random{},
         (threshold{} && tokens_per_step{}) || (steps_per_block{} && entropy_bound{}),
         stop_at_eos{},
         max_steps{}};
  sequence_shape geometry;
  fake_model fake;
  tokens_of prompt;
  std::vector<std::uint8_t> editable;
  tokens_of suppressed;

  tokens_of tokens;
  std::vector<commit_entry> entries;
  sequence_report report;
};

job random_job(dice& d) {
  job j;
  j.geometry = {.prompt_length = d.within(0, 4),
                .block_length = d.within(1, 8),
                .seed = d.bits(),
                .sequence = static_cast<std::uint32_t>(d.within(0, 3))};
  j.geometry.length = j.geometry.prompt_length + d.within(1, longest - 4);
  j.p = rich{at_random{},
             (threshold{d.real(0, 1)} && tokens_per_step{d.within(0, 4)}) ||
                 (steps_per_block{d.within(1, 6)} && entropy_bound{d.real(0, 3)}),
             stop_at_eos{},
             max_steps{d.chance(0.2) ? d.within(1, 4) : 1000}};
  j.fake = {.seed = d.bits(), .vocab = model.vocab};
  for (index_t i = 0; i < longest; ++i) {
    j.prompt.push_back(d.within(0, model.vocab - 1));
    if (d.chance(0.5)) {
      j.editable.push_back(d.chance(0.7) ? 1 : 0);
    }
  }
  if (j.editable.size() < static_cast<std::size_t>(j.geometry.length)) {
    j.editable.clear();
  }
  if (d.chance(0.4)) {
    j.suppressed = {d.within(0, model.vocab - 1), d.within(0, model.vocab - 1)};
  }
  return j;
}

void begin(session<rich>& s, index_t slot, job& j) {
  j.tokens = j.prompt;
  j.entries.clear();
  s.start(slot, j.p, j.tokens, j.geometry, {.editable = j.editable, .suppressed = j.suppressed});
}

/// Writes the rows of one segment.
void forward(const segment& part, const job& j, packed_rows<float>& rows, index_t first_row) {
  const std::span<const token_id> own(j.tokens.data(), static_cast<std::size_t>(j.geometry.length));
  for (index_t r = 0; r < part.rows.size(); ++r) {
    j.fake.row<float>(own, part.rows.first + r, rows.row(first_row + r));
  }
}

void note(session<rich>& s, index_t slot, job& j) {
  const auto entries = s.committed(slot);
  j.entries.insert(j.entries.end(), entries.begin(), entries.end());
  j.report = s.report(slot);
}

/// The job alone in a session of one slot.
job alone(job j) {
  session<rich> s(model, {.length = longest, .window = longest});
  begin(s, 0, j);
  note(s, 0, j);
  while (const auto request = s.next()) {
    packed_rows<float> rows(request->rows, model.vocab, 0);
    forward(request->segments[0], j, rows, 0);
    s.supply(rows.view());
    note(s, 0, j);
  }
  return j;
}

void expect_same(const job& got, const job& expected) {
  ASSERT_EQ(got.tokens, expected.tokens);
  ASSERT_EQ(got.entries.size(), expected.entries.size());
  for (std::size_t i = 0; i < got.entries.size(); ++i) {
    const commit_entry& a = got.entries[i];
    const commit_entry& b = expected.entries[i];
    ASSERT_EQ(std::tie(a.position, a.token, a.step), std::tie(b.position, b.token, b.step)) << i;
    ASSERT_EQ(math::bits_of(a.log_probability), math::bits_of(b.log_probability)) << i;
  }
  const sequence_report& r = got.report;
  const sequence_report& q = expected.report;
  ASSERT_EQ(
      std::tie(
          r.end, r.forwards, r.committed, r.committed_prefix, r.masked, r.forced, r.invalid_rows),
      std::tie(
          q.end, q.forwards, q.committed, q.committed_prefix, q.masked, q.forced, q.invalid_rows));
}

/// The three ways to hand logits over.
enum class handing { packed, by_segment, one_by_one };

/// Runs jobs through the slots of one session; they join and leave at random.
void run_batch(dice& d, index_t slots, std::vector<job>& jobs, handing how, const on_host& where) {
  session<rich> s(model, {.sequences = slots, .length = longest, .window = longest}, where);
  std::vector<job*> in_slot(static_cast<std::size_t>(slots), nullptr);
  std::size_t started = 0;
  while (true) {
    for (index_t slot = 0; slot < slots; ++slot) {
      job*& current = in_slot[static_cast<std::size_t>(slot)];
      const bool ended = current == nullptr || s.report(slot).end != ending::running;
      // A slot may stay empty, or keep an ended sequence, for a while.
      if (ended && started < jobs.size() && d.chance(0.6)) {
        current = &jobs[started++];
        begin(s, slot, *current);
        note(s, slot, *current);
      }
    }
    const auto request = s.next();
    if (!request) {
      if (started == jobs.size()) {
        break;
      }
      continue;
    }
    std::vector<packed_rows<float>> tensors;
    std::vector<host_logits<float>> views;
    packed_rows<float> all(request->rows, model.vocab, 3);
    index_t expected_row = 0;
    for (const segment& part : request->segments) {
      const job& j = *in_slot[static_cast<std::size_t>(part.slot)];
      ASSERT_EQ(part.first_row, expected_row);
      expected_row += part.rows.size();
      forward(part, j, all, part.first_row);
      tensors.emplace_back(part.rows.size(), model.vocab, d.within(0, 5));
      forward(part, j, tensors.back(), 0);
    }
    ASSERT_EQ(request->rows, expected_row);
    for (packed_rows<float>& t : tensors) {
      views.push_back(t.view());
    }
    const std::vector<segment> parts(request->segments.begin(), request->segments.end());
    if (how == handing::packed) {
      s.supply(all.view());
    } else if (how == handing::by_segment) {
      s.supply(std::span<const host_logits<float>>(views));
    } else {
      for (const std::int32_t i : d.permutation(static_cast<std::int32_t>(views.size()))) {
        s.read(static_cast<std::size_t>(i), views[static_cast<std::size_t>(i)]);
      }
      s.decide();
    }
    for (const segment& part : parts) {
      note(s, part.slot, *in_slot[static_cast<std::size_t>(part.slot)]);
    }
  }
}

void expect_batch_invariance(std::uint64_t seed,
                             index_t slots,
                             handing how,
                             const on_host& where = {}) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    dice d(mixed(seed, static_cast<std::uint64_t>(round)));
    std::vector<job> jobs;
    std::vector<job> expected;
    for (int i = 0; i < 25; ++i) {
      jobs.push_back(random_job(d));
      expected.push_back(alone(jobs.back()));
    }
    run_batch(d, slots, jobs, how, where);
    ASSERT_FALSE(::testing::Test::HasFailure());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      SCOPED_TRACE("job " + std::to_string(i));
      expect_same(jobs[i], expected[i]);
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
}

TEST(batch, of_any_size_decodes_each_sequence_as_if_alone) {
  for (const index_t slots : {2, 3, 8}) {
    SCOPED_TRACE(slots);
    expect_batch_invariance(static_cast<std::uint64_t>(slots), slots, handing::packed);
  }
}

TEST(batch, may_be_supplied_segment_by_segment) {
  expect_batch_invariance(20, 4, handing::by_segment);
}

TEST(batch, may_be_read_in_any_order_of_segments) {
  expect_batch_invariance(21, 4, handing::one_by_one);
}

TEST(batch, may_be_read_by_several_threads) {
  host::thread_pool pool(3);
  expect_batch_invariance(22, 5, handing::packed, {.executor = pool});
}

TEST(batch, of_one_slot_decodes_sequence_after_sequence_as_if_fresh) {
  expect_batch_invariance(23, 1, handing::packed);
}

TEST(batch, does_not_disturb_a_sequence_by_restarting_its_neighbour) {
  dice d(31);
  const job first = alone(random_job(d));
  job steady = random_job(d);
  const job expected = alone(steady);
  job restless = first;
  session<rich> s(model, {.sequences = 2, .length = longest, .window = longest});
  begin(s, 1, steady);
  note(s, 1, steady);
  while (s.report(1).end == ending::running) {
    begin(s, 0, restless);  // never gets beyond its first step
    const auto request = s.next();
    ASSERT_TRUE(request);
    packed_rows<float> rows(request->rows, model.vocab, 0);
    for (const segment& part : request->segments) {
      forward(part, part.slot == 0 ? restless : steady, rows, part.first_row);
    }
    s.supply(rows.view());
    note(s, 1, steady);
  }
  expect_same(steady, expected);
}

TEST(batch, does_not_disturb_a_sequence_by_cancelling_its_neighbour) {
  dice d(32);
  job steady = random_job(d);
  const job expected = alone(steady);
  job cancelled = random_job(d);
  session<rich> s(model, {.sequences = 2, .length = longest, .window = longest});
  begin(s, 1, steady);
  begin(s, 0, cancelled);
  note(s, 1, steady);
  bool once = false;
  while (const auto request = s.next()) {
    packed_rows<float> rows(request->rows, model.vocab, 0);
    for (const segment& part : request->segments) {
      forward(part, part.slot == 0 ? cancelled : steady, rows, part.first_row);
    }
    s.supply(rows.view());
    note(s, 1, steady);
    if (!once) {
      s.cancel(0);
      once = true;
    }
  }
  expect_same(steady, expected);
}

TEST(batch, asks_for_the_segments_of_running_slots_in_slot_order) {
  dice d(33);
  std::vector<job> jobs;
  session<rich> s(model, {.sequences = 4, .length = longest, .window = longest});
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(random_job(d));
    jobs.back().editable.clear();
  }
  const index_t slots[] = {3, 0, 2};
  for (std::size_t i = 0; i < 3; ++i) {
    begin(s, slots[i], jobs[i]);
  }
  const auto request = s.next();
  ASSERT_EQ(request->segments.size(), 3U);
  EXPECT_EQ(request->segments[0].slot, 0);
  EXPECT_EQ(request->segments[1].slot, 2);
  EXPECT_EQ(request->segments[2].slot, 3);
}

}  // namespace
}  // namespace unmask::testing::batch_test
