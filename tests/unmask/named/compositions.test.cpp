// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>

#include "support/count_allocations.hpp"
#include "unmask/named/lockstep.hpp"

namespace unmask::testing {

std::unique_ptr<any_session>
named_session(std::string_view text, const model_info& model, const session_capacity& capacity) {
  return make_any_session(text, model, capacity);
}

namespace {

// Random texts of parts that cost nothing: the plainest type and the one with all edits decide
// alike, so which one a composition gets does not show.
TEST(named_policy, decides_alike_in_every_type_that_fits) {
  chances c(7);
  const auto number = [&c](double low, double high) { return shortest_text(c.real(low, high)); };
  const auto one_of = [&c](std::vector<std::string> from) {
    return from[static_cast<std::size_t>(c.within(0, static_cast<index_t>(from.size()) - 1))];
  };
  const auto part = [&] {
    return one_of({"threshold(" + number(0.2, 0.9) + ")",
                   "threshold(" + number(0.2, 0.9) + ", inclusive=true)",
                   "tokens_per_step(" + std::to_string(c.within(0, 4)) + ")",
                   "steps_per_block(" + std::to_string(c.within(1, 6)) + ")",
                   "factor(" + number(0, 2) + ")",
                   "entropy_bound(" + number(0, 2) + ")",
                   "hierarchical(" + number(0, 0.5) + ")",
                   "timesteps(" + std::to_string(c.within(1, 30)) + ")",
                   "independent_timesteps(" + std::to_string(c.within(1, 30)) + ")"});
  };
  index_t committed = 0;
  for (int k = 0; k < 150; ++k) {
    const auto limited = [&](const std::string& rule) {
      return c.within(0, 2) > 0 ? rule
                                : "at_most(" + std::to_string(c.within(0, 3)) + "," + rule + ")";
    };
    const std::string inside =
        limited(one_of({"any_of(", "all_of("}) + part() + "," + limited(part()) + ")");
    std::string text = limited(one_of({"any_of(", "all_of("}) + part() + "," + inside + ")");
    const bool by_confidence =
        text.find("factor") != text.npos || text.find("hierarchical") != text.npos;
    text += "+" + (by_confidence ? "by_confidence"
                                 : one_of({"by_confidence",
                                           "by_margin",
                                           "by_entropy",
                                           "left_to_right",
                                           "at_random",
                                           "alg_temperature(by_margin, " + number(0.1, 2) + ")"}));
    text += one_of({"", "+single_block", "+block_pipeline", "+slow_fast", "+edited_blocks"});
    text += one_of({"", "+eos_gate", "+eos_last", "+no_equal_neighbours"});
    text += one_of({"", "+stop_at_eos", "+stop_sequence([3])", "+max_steps(4)"});
    text += "+max_steps(60)";  // a step that may wait may wait for ever
    text += one_of({"",
                    "+prefix_cache(2)",
                    "+suffix_window(2, 3)",
                    "+dual_cache",
                    "+block_cache(3,2)",
                    "+interval_cache"});
    const named_parts parts = read_policy(text);
    const dense_request q = random_named_request(c, false);
    SCOPED_TRACE(text);
    committed += expect_same_decode(
        {named_session(text, q.model, capacity_of(q))},
        {make_any_session<compositions<edits_and({})>>(parts, q.model, capacity_of(q))},
        q);
  }
  EXPECT_GT(committed, 500);
}

// Types by name have abilities that a composition leaves unused; those that it has go together.
TEST(named_policy, decides_as_the_policy_composed_of_its_parts) {
  chances c(11);
  index_t committed = 0;
  const auto compare = [&](const std::string& text, const auto& composed) {
    for (int k = 0; k < 12; ++k) {
      const dense_request q = random_named_request(c, false);
      SCOPED_TRACE(text);
      session_capacity capacity = capacity_of(q);
      capacity.branches = 2;
      committed += expect_same_decode({named_session(text, q.model, capacity)},
                                      {make_any_session(composed, q.model, capacity)},
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
    const named_parts parts = read_policy("any_of(calibrated_threshold('p.json'), "
                                          "all_of(tokens_per_step(2), threshold(0.8))) + by_margin",
                                          [&](const std::string&) { return to_json(profile); });
    const policy composed{by_margin{}, profile || (tokens_per_step{2} && threshold{0.8F})};
    committed += expect_same_decode(
        {make_any_session<compositions<edits_and({})>>(parts, q.model, capacity_of(q))},
        {make_any_session(composed, q.model, capacity_of(q))},
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
    const auto s = named_session(text, model, capacity);
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

TEST(named_policy, says_what_is_not_compiled_together) {
  try {
    static_cast<void>(make_any_session<compositions<abilities{}>>(
        read_policy("trace_credit+lookahead+threshold"), {.vocab = 4, .mask_token = 0}, {}));
    ADD_FAILURE();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("credit, lookahead"), std::string::npos) << e.what();
  }
}

// Up to four parts that select the type: what goes together has one, but for three combinations.
TEST(named_policy, has_a_type_for_what_goes_together) {
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
                                           "canvas",
                                           "early_skip(0.5)"};
  const auto has_type = []<abilities... A>(compositions<A...>, const abilities& has) {
    return (fits(has, A) || ...);
  };
  index_t typed = 0;
  index_t without = 0;
  for (unsigned chosen = 0; chosen < 1U << pieces.size(); ++chosen) {
    if (__builtin_popcount(chosen) > 4) {
      continue;
    }
    std::string text = "by_confidence";
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      text += (chosen >> i & 1U) != 0 ? " + " + pieces[i] : "";
    }
    text += text.find("stable") == text.npos ? " + threshold" : "";
    named_parts parts;
    try {
      parts = read_policy(text);
    } catch (const policy_text_error&) {
      continue;
    }
    const abilities& has = parts.has;
    const bool is_left_out = (has.edits_tokens && has.compares) ||
                             (has.edits_tokens && has.branches && has.keeps) ||
                             (has.renoises && (has.keeps || has.compares));
    EXPECT_EQ(has_type(common_layer_compositions{}, has), !is_left_out) << text;
    (is_left_out ? without : typed) += 1;
  }
  EXPECT_GT(typed, 250);
  EXPECT_LT(without, typed / 4);
}

TEST(named_policy, has_room_for_the_branches_that_it_asks_for) {
  std::vector<token_id> text(6);
  const session_capacity capacity{.sequences = 1, .length = 6, .window = 6};
  const model_info model{.vocab = 12, .mask_token = 11};
  const auto session = named_session("lookahead(5)+threshold", model, capacity);
  session->start(0, text.data(), 6, {.length = 6});
  EXPECT_TRUE(session->next().has_value());
}

}  // namespace
}  // namespace unmask::testing
