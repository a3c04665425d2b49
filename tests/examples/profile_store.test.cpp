// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "profile_store.hpp"

#include <unmask/policy/ranking.hpp>
#include <unmask/policy/stop.hpp>

#include <stdexcept>
#include <thread>

#include "support/by_name.hpp"
#include "support/observed_decode.hpp"

namespace unmask::testing::profile_store_test {
namespace {

using example::profile_store;

const sequence_shape geometry{.prompt_length = 2, .length = 34, .block_length = 8};
const made_up_model model{.seed = 21};
using policy_type = policy<by_confidence, calibrated_threshold<>, max_steps>;

// One slot that decodes requests of a store.
struct engine {
  explicit engine(bool trace = false)
      : s{model.info(), {.length = 64, .window = 8, .trace = trace}} {}

  template <class Request>
  void start(const Request& r, index_t budget = 1000, const sequence_shape& g = geometry) {
    tokens.assign(static_cast<std::size_t>(g.length), 0);
    s.start(0, policy_type{by_confidence{}, r.commit_rule(), max_steps{budget}}, tokens, g);
  }
  template <class Request>
  bool step(Request& r) {
    const auto request = s.next();
    if (request) {
      supply_one(s, *request, model, tokens);
      r.observe(s);
    }
    return request.has_value();
  }
  template <class Request>
  void run(Request& r) {
    start(r);
    while (step(r)) {
    }
  }

  session<policy_type> s;
  std::vector<token_id> tokens;
};

const calibrated_threshold<> knobs{.threshold = .6F, .cap = .7F, .slack = .1F};

TEST(profile_store, takes_the_knobs_without_their_profile) {
  calibrated_threshold<> calibrated = knobs;
  calibrated.block_length = 16;
  calibrated.blocks = 1;
  calibrated.ends[0] = 1;
  profile_store store{calibrated};
  const auto first = store.begin("gsm8k", geometry);
  EXPECT_TRUE(first.is_recording());
  EXPECT_FALSE(first.commit_rule().calibrated());
  EXPECT_EQ(first.commit_rule().block_length, 0);
}

TEST(profile_store, the_first_request_of_a_task_is_recorded) {
  profile_store store{knobs};
  engine e;
  auto first = store.begin("gsm8k", geometry);
  EXPECT_TRUE(first.is_recording());
  EXPECT_EQ(first.commit_rule(), knobs);
  EXPECT_FALSE(store.find("gsm8k", 8).has_value());
  e.run(first);
  EXPECT_FALSE(first.is_recording());
  const auto p = store.find("gsm8k", 8);
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->blocks, 4);

  // It is what calibrating() makes of the same sequence.
  std::vector<token_id> tokens(34, 0);
  session s{by_name(policy{by_confidence{}, knobs}), model.info(), tokens, geometry};
  EXPECT_EQ(*p, calibrating(s, geometry, knobs, [&](const forward_request& r) {
    supply_one(s, r, model, tokens);
  }));

  auto second = store.begin("gsm8k", geometry);
  EXPECT_FALSE(second.is_recording());
  EXPECT_EQ(second.commit_rule(), *p);
  e.run(second);
  EXPECT_EQ(store.find("gsm8k", 8), p);  // a profile does not change
}

TEST(profile_store, tasks_and_block_lengths_are_apart) {
  profile_store store{knobs};
  engine e;
  auto a = store.begin("a", geometry);
  e.run(a);
  EXPECT_TRUE(store.begin("b", geometry).is_recording());
  sequence_shape other = geometry;
  other.block_length = 4;
  EXPECT_TRUE(store.begin("a", other).is_recording());
  other.block_length = 8;
  other.length = 60;  // a longer answer takes the same profile
  EXPECT_TRUE(store.begin("a", other).commit_rule().calibrated());
}

TEST(profile_store, requests_before_the_profile_is_there_decode_by_the_static_rule) {
  profile_store store{knobs};
  engine one;
  engine two;
  auto first = store.begin("t", geometry);
  auto second = store.begin("t", geometry);
  EXPECT_FALSE(second.is_recording());
  EXPECT_EQ(second.commit_rule(), knobs);
  two.run(second);
  EXPECT_FALSE(store.find("t", 8).has_value());
  one.run(first);
  EXPECT_TRUE(store.find("t", 8).has_value());
  EXPECT_EQ(one.tokens, two.tokens);
}

TEST(profile_store, a_dropped_or_cancelled_request_leaves_the_recording_to_the_next) {
  profile_store store{knobs};
  engine e;
  {
    const auto dropped = store.begin("t", geometry);
  }
  auto cancelled = store.begin("t", geometry);
  ASSERT_TRUE(cancelled.is_recording());
  e.start(cancelled);
  ASSERT_TRUE(e.step(cancelled));
  EXPECT_FALSE(store.begin("t", geometry).is_recording());
  e.s.cancel(0);
  cancelled.observe(e.s);
  EXPECT_FALSE(cancelled.is_recording());
  EXPECT_FALSE(store.find("t", 8).has_value());
  EXPECT_TRUE(store.begin("t", geometry).is_recording());
}

TEST(profile_store, a_sequence_cut_by_its_budget_still_counts) {
  profile_store store{knobs};
  engine e;
  auto r = store.begin("t", geometry);
  e.start(r, 2);
  while (e.step(r)) {
  }
  ASSERT_TRUE(store.find("t", 8).has_value());
  EXPECT_EQ(store.find("t", 8)->blocks, 1);
}

TEST(profile_store, requests_move) {
  profile_store store{knobs};
  engine e;
  auto a = store.begin("t", geometry);
  auto b = std::move(a);
  EXPECT_TRUE(b.is_recording());
  auto c = store.begin("u", geometry);
  c = std::move(b);  // drops the recording of u
  EXPECT_TRUE(c.is_recording());
  EXPECT_TRUE(store.begin("u", geometry).is_recording());
  e.run(c);
  EXPECT_TRUE(store.find("t", 8).has_value());
}

calibrated_threshold<> profile_of_a_block() {
  calibrated_threshold<> p = knobs;
  p.block_length = 8;
  p.blocks = 1;
  p.ends[0] = 1;
  p.cells[0] = .5F;
  return p;
}

TEST(profile_store, an_assigned_request_has_the_commit_rule_of_the_other) {
  profile_store store{knobs};
  store.put("t", profile_of_a_block());
  auto r = store.begin("u", geometry);
  ASSERT_TRUE(r.is_recording());
  r = store.begin("t", geometry);
  EXPECT_FALSE(r.is_recording());
  EXPECT_EQ(r.commit_rule(), profile_of_a_block());
  EXPECT_TRUE(store.begin("u", geometry).is_recording());  // r has left it
}

TEST(profile_store, profiles_are_put_found_and_forgotten) {
  profile_store store{knobs};
  EXPECT_THROW(store.put("t", knobs), std::invalid_argument);  // no profile
  calibrated_threshold<> p = profile_of_a_block();
  auto recorded = store.begin("t", geometry);
  store.put("t", p);
  EXPECT_EQ(store.find("t", 8), p);
  EXPECT_EQ(store.begin("t", geometry).commit_rule(), p);
  engine e;
  e.run(recorded);
  EXPECT_EQ(store.find("t", 8), p);  // what was put stays
  store.forget("other");
  EXPECT_TRUE(store.find("t", 8).has_value());
  store.forget("t");
  EXPECT_FALSE(store.find("t", 8).has_value());
  EXPECT_TRUE(store.begin("t", geometry).is_recording());
  p.cells[0] = 2.0F;
  EXPECT_THROW(store.put("t", p), std::invalid_argument);
}

TEST(profile_store, recording_candidates_needs_a_trace) {
  calibrated_threshold<> all = knobs;
  all.recorded = collect::candidates;
  profile_store store{all};
  engine without;
  auto r = store.begin("t", geometry);
  without.start(r);
  EXPECT_THROW(without.step(r), std::logic_error);
  EXPECT_FALSE(r.is_recording());
  engine with{true};
  auto again = store.begin("t", geometry);
  ASSERT_TRUE(again.is_recording());
  with.run(again);
  EXPECT_EQ(store.find("t", 8)->recorded, collect::candidates);
}

TEST(profile_store, refuses_what_cannot_work) {
  calibrated_threshold<> bad = knobs;
  bad.cap = 0.0F;
  EXPECT_THROW((profile_store<>{bad}), std::invalid_argument);
  profile_store<2> small{calibrated_threshold<2>{}};
  EXPECT_THROW(static_cast<void>(small.begin("t", geometry)), std::invalid_argument);
  EXPECT_NO_THROW(
      static_cast<void>(small.begin("t", {.prompt_length = 2, .length = 18, .block_length = 8})));
  EXPECT_THROW(static_cast<void>(small.begin("t", {.length = 8, .block_length = 0})),
               std::invalid_argument);
}

TEST(profile_store, one_of_many_threads_records) {
  for (int round = 0; round < 20; ++round) {
    profile_store store{knobs};
    std::vector<int> recorded(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      threads.emplace_back([&, i] {
        engine e;
        auto r = store.begin("t", geometry);
        recorded[i] = r.is_recording() ? 1 : 0;
        e.run(r);
      });
    }
    for (std::thread& t : threads) {
      t.join();
    }
    EXPECT_EQ(recorded[0] + recorded[1] + recorded[2] + recorded[3], 1);
    EXPECT_TRUE(store.find("t", 8).has_value());
  }
}

TEST(profile_store, has_a_cell_for_each_block_of_a_request) {
  profile_store<2> store{calibrated_threshold<2>{}};
  EXPECT_NO_THROW(static_cast<void>(store.begin("two", {.length = 6, .block_length = 3})));
  EXPECT_THROW(static_cast<void>(store.begin("three", {.length = 7, .block_length = 3})),
               std::invalid_argument);
}

TEST(profile_store, has_blocks_of_one_position_and_up_to_its_cells) {
  profile_store<4> store{calibrated_threshold<4>{}};
  EXPECT_NO_THROW(static_cast<void>(store.begin("a", {.length = 4, .block_length = 1})));
  EXPECT_THROW(static_cast<void>(store.begin("a", {.length = 4, .block_length = 0})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(store.begin("a", {.length = 5, .block_length = 1})),
               std::invalid_argument);
  EXPECT_NO_THROW(static_cast<void>(store.begin("a", {.length = 8, .block_length = 2})));
  EXPECT_THROW(static_cast<void>(store.begin("a", {.length = 9, .block_length = 2})),
               std::invalid_argument);
}

}  // namespace
}  // namespace unmask::testing::profile_store_test
