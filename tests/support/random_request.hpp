// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Small random sequences to decode, of every shape that a request may have.

#include <unmask/core/policy.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/policy/schedule/schedule.hpp>
#include <unmask/policy/stop.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oracles/naive_rules.hpp"
#include "support/beside.hpp"
#include "support/bound_session.hpp"
#include "support/by_name.hpp"

namespace unmask::testing {

/// Vocabularies around the widths of registers and bit masks.
inline const std::vector<index_t> vocabularies = {1, 2, 5, 31, 32, 33, 1000};

/// A random model, geometry, prompt, set of masked positions and list of suppressed tokens.
[[nodiscard]] inline naive_request random_request(dice& d, index_t vocab) {
  naive_request r;
  r.model.vocab = vocab;
  r.model.suppress_mask = vocab > 1 && d.chance(0.9);
  r.model.mask_token = d.within(0, vocab - 1);
  r.model.eos_token = d.chance(0.3) || vocab == 1 ? no_token : d.within(0, vocab - 2);
  r.model.eos_token +=
      r.model.eos_token != no_token && r.model.eos_token >= r.model.mask_token ? 1 : 0;
  r.model.logits_shift = d.within(0, 1);
  sequence_shape& g = r.geometry;
  g.prompt_length = d.within(0, 5);
  g.length = g.prompt_length + (d.chance(0.03) ? 0 : d.within(1, vocab >= 1000 ? 12 : 24));
  g.length = std::max(g.length, 1);
  g.block_length = d.within(1, 10);
  g.seed = d.bits();
  g.sequence = static_cast<std::uint32_t>(d.bits());
  if (d.chance(0.3)) {
    for (index_t p = 0; p < g.length; ++p) {
      // Also in the prompt, where it means nothing.
      r.editable.push_back(d.chance(0.5) ? 1 : d.chance(0.3) ? 2 : 0);
    }
  }
  if (vocab > 4 && d.chance(0.4)) {
    for (int i = d.within(1, 3); i > 0; --i) {
      r.suppressed.push_back(d.within(0, vocab - 1));  // perhaps the mask token, perhaps twice
    }
  }
  return r;
}

/// The prompt, and what stands in the answer before it is opened. The mask token occurs in both.
[[nodiscard]] inline std::vector<token_id> random_tokens(dice& d, const naive_request& r) {
  std::vector<token_id> tokens;
  for (index_t p = 0; p < r.geometry.length; ++p) {
    tokens.push_back(d.chance(0.2) ? r.model.mask_token : d.within(0, r.model.vocab - 1));
  }
  return tokens;
}

/// Options of compare().
struct plenty {
  std::uint64_t seed = 0;
  int decodes = 400;
  mischief trouble = {};
};

/// Decodes many random sequences of a ranking and a commit rule by name, in either order of blocks,
/// beside the naive decoder. `commit_rule_of(dice)` gives the commit rule with random knobs.
template <class Ranking, class Draw>
void compare(const plenty& wanted, const Ranking& ranks, const Draw& commit_rule_of) {
  comparisons sum;
  for (int i = 0; i < wanted.decodes; ++i) {
    dice d(mixed(wanted.seed, static_cast<std::uint64_t>(i)));
    SCOPED_TRACE("seed " + std::to_string(wanted.seed) + ", decode " + std::to_string(i));
    const auto chosen_rule = commit_rule_of(d);
    const bool whole = d.chance(0.5);
    naive_request request = random_request(d, d.one_of(vocabularies));
    request.score = naive(ranks);
    request.rule = naive(chosen_rule);
    const sequence_shape& g = request.geometry;
    const index_t answer = g.length - g.prompt_length;
    request.single_block = whole && answer > std::min(g.block_length, answer);
    request.stop_at_eos = request.model.eos_token != no_token;
    // Enough for every policy that commits one token a step, too few for one decode in five. A
    // model that may propose its mask token may do so for ever.
    request.max_steps = d.chance(0.2) || !request.model.suppress_mask ? d.within(1, 9) : 2000;
    const named_policy p = read_policy(
        (request.stop_at_eos ? "stop_at_eos + " : "") + text_of(max_steps{*request.max_steps}) +
        " + " + text_of(chosen_rule) + " + " + text_of(ranks) + (whole ? " + single_block" : ""));
    request.waits = most_forwards(p, g) - answer;

    fake_model model{.seed = d.bits(), .vocab = request.model.vocab, .trouble = wanted.trouble};
    std::vector<token_id> tokens = random_tokens(d, request);
    const index_t reach = request.single_block ? answer : std::min(g.block_length, answer);
    const session_capacity capacity = {.sequences = 1,
                                       .length = g.length + d.within(0, 2),
                                       .window = std::max(reach, 1) + d.within(0, 2)};
    const auto s = make_bound(p, request.model, capacity);
    start_options options;
    options.editable = request.editable;
    options.suppressed = request.suppressed;
    naive_decoder beside(request, tokens);
    s->start(0, tokens.data(), static_cast<index_t>(tokens.size()), g, options);
    switch (d.within(0, 2)) {
    case 0:
      decode_beside<float>(*s, tokens, beside, model, {}, unedited{}, sum);
      break;
    case 1:
      decode_beside<bfloat16>(*s, tokens, beside, model, {}, unedited{}, sum);
      break;
    default:
      decode_beside<float16>(*s, tokens, beside, model, {}, unedited{}, sum);
    }
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_EQ(sum.decodes, wanted.decodes);
  EXPECT_GT(sum.commits, wanted.decodes);
  EXPECT_LE(sum.excused, sum.steps / 200) << "of " << sum.steps << " steps";
}

}  // namespace unmask::testing
