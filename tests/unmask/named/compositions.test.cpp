// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>

#include "support/count_allocations.hpp"
#include "unmask/named/lockstep.hpp"

namespace unmask::testing {

namespace {

// Stages that a text does not name are idle.
TEST(named_policy, decides_as_the_policy_composed_of_its_parts) {
  chances c(11);
  index_t committed = 0;
  const auto compare = [&](const std::string& text, const auto& composed) {
    for (int k = 0; k < 12; ++k) {
      const dense_request q = random_named_request(c, false);
      SCOPED_TRACE(text);
      session_capacity capacity = capacity_of(q);
      capacity.branches = 2;
      committed += expect_same_decode({make_bound(read_policy(text), q.model, capacity)},
                                      decoding{make_bound(composed, q.model, capacity)},
                                      q);
    }
  };
  compare("threshold(0.5) + top_p(0.7) + confidence_after_truncation",
          policy{by_confidence{}, threshold{0.5F}, top_p{0.7F}, confidence_after_truncation{}});
  compare("by_margin + threshold(0.3) + sampling(0.8) + top_k(5) + remask_below(0.4)",
          policy{by_margin{}, threshold{0.3F}, sampling{0.8F}, top_k{5}, remask_below{0.4F}});
  compare("threshold(0.4) + sampling + top_k(5) + lookahead(2)",
          policy{by_confidence{}, threshold{0.4F}, sampling{}, top_k{5}, lookahead{2}});
  compare("any_of(stable_and_confident, tokens_per_step(1)) + stop_at_eos",
          policy{by_confidence{}, stable_and_confident{} || tokens_per_step{1}, stop_at_eos{}});
  compare(
      "any_of(stable_and_confident, tokens_per_step(1)) + sampling(0.7) + top_k(3)",
      policy{
          by_confidence{}, stable_and_confident{} || tokens_per_step{1}, sampling{0.7F}, top_k{3}});
  EXPECT_GT(committed, 300);
}

TEST(named_policy, decides_as_a_profile_does) {
  chances c(9);
  index_t committed = 0;
  for (int k = 0; k < 12; ++k) {
    const dense_request q = random_named_request(c, false);
    calibrated_threshold<> profile{.cap = 0.9F, .slack = 0.1F, .mode = profile_mode::step_block};
    profile.block_length = q.geometry.block_length;
    profile.blocks = c.within(1, 3);
    std::uint16_t cells = 0;
    for (index_t b = 0; b < profile.blocks; ++b) {
      for (index_t i = c.within(1, 3); i > 0; --i) {
        profile.cells[cells++] = c.real(0.2, 1.0);
      }
      profile.ends[b] = cells;
    }
    const named_policy by_name =
        read_policy("any_of(calibrated_threshold('p.json'), "
                    "all_of(tokens_per_step(2), threshold(0.8))) + by_margin",
                    [&](const std::string&) { return to_json(profile); });
    const policy composed{by_margin{}, profile || (tokens_per_step{2} && threshold{0.8F})};
    committed += expect_same_decode({make_bound(by_name, q.model, capacity_of(q))},
                                    decoding{make_bound(composed, q.model, capacity_of(q))},
                                    q);
  }
  EXPECT_GT(committed, 50);
}

TEST(named_policy, allocates_nothing_in_a_step) {
  const model_info model{.vocab = 3000, .mask_token = 0, .eos_token = 1};
  const session_capacity capacity{.sequences = 1, .length = 36, .window = 32};
  std::vector<float> logits(std::size_t{4} * 32 * 3000);
  for (const char* text :
       {"any_of(threshold(0.3), all_of(tokens_per_step(2), hierarchical)) + stop_at_eos",
        "trace_credit + repetition_penalty + probability_of([2, 3]) + threshold + lookahead(3)",
        "sampling + top_k(20) + logit_bias([4], [1]) + tokens_per_step(2)",
        "any_of(adaptive_threshold, stable_and_confident) + block_pipeline(at_once=1)"}) {
    chances c(1);
    std::vector<token_id> tokens(36, 2);
    const auto s = make_bound(read_policy(text), model, capacity);
    s->start(0, tokens.data(), 36, {.prompt_length = 4, .length = 36, .block_length = 8});
    int steps = 0;
    for (bool runs = true; runs; ++steps) {
      const allocation_count count;
      const auto request = s->next();
      runs = request.has_value();
      if (runs) {
        for (float& z : logits) {
          z = c.real(-2.0, 8.0);
        }
        s->supply(host_logits<float>(logits.data(), request->rows, 3000));
      }
      EXPECT_EQ(counts_allocations ? count.value() : 0, 0) << text << " step " << steps;
    }
    EXPECT_GT(steps, 4) << text;
  }
}

// Up to four parts of every stage that costs time or memory: whatever goes together decodes.
TEST(named_policy, decodes_whatever_goes_together) {
  const std::vector<std::string> pieces = {"temperature(0.7)",
                                           "repetition_penalty",
                                           "trace_credit",
                                           "stable_and_confident",
                                           "lookahead(2)",
                                           "sampling",
                                           "top_k(5)",
                                           "confidence_after_truncation",
                                           "edit_committed",
                                           "remask_current_below(0.3)",
                                           "remask_below(0.3)",
                                           "canvas(3)"};
  const model_info model{.vocab = 12, .mask_token = 11, .suppress_mask = true};
  std::vector<float> logits(std::size_t{12} * 8 * 3);
  chances c(5);
  named_session session(model, {.length = 8, .window = 8, .branches = 2});
  index_t decoded = 0;
  for (unsigned chosen = 0; chosen < 1U << pieces.size(); ++chosen) {
    if (__builtin_popcount(chosen) > 4) {
      continue;
    }
    std::string text = "by_confidence";
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      text += (chosen >> i & 1U) != 0 ? " + " + pieces[i] : "";
    }
    text += text.find("stable") == text.npos ? " + threshold(0.6)" : "";
    SCOPED_TRACE(text);
    named_policy policy;
    try {
      policy = read_policy(text);
    } catch (const policy_text_error&) {
      continue;
    }
    std::vector<token_id> tokens(8);
    constexpr sequence_shape shape{.length = 8, .block_length = 8};
    session.start(0, policy, tokens, shape);
    std::int64_t forwards = 0;
    while (const auto request = session.next()) {
      ASSERT_LE(++forwards, most_forwards(policy, shape));
      for (float& z : logits) {
        z = c.real(-2.0, 5.0);
      }
      session.supply(host_logits<float>(logits.data(), request->rows, 12));
    }
    EXPECT_NE(session.report(0).end, ending::running);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 11), 0);
    ++decoded;
  }
  EXPECT_GT(decoded, 200);
}

TEST(named_policy, has_room_for_the_branches_that_it_asks_for) {
  std::vector<token_id> text(6);
  const session_capacity capacity{.sequences = 1, .length = 6, .window = 6};
  const model_info model{.vocab = 12, .mask_token = 11};
  const auto session = make_bound(read_policy("lookahead(5)+threshold"), model, capacity);
  session->start(0, text.data(), 6, {.length = 6});
  EXPECT_TRUE(session->next().has_value());
}

}  // namespace
}  // namespace unmask::testing
