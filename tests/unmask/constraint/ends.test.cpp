// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where an EOS token ends an answer with several fields, or with free text before a field.
#include <unmask/constraint.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/policy/presets/released.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/languages.hpp"

namespace unmask::testing::ends_test {
namespace {

/// Decodes answers of one to three fields, the same of every policy of a seed, with free text
/// before and between them. Every answer that ends by itself is in its languages, whatever the
/// policy, and ends with the first EOS token from the last field on, if its policy looks for one.
template <class Policy>
int decode_fields(const auto& policy_for, std::uint64_t seeds, bool delimits) {
  int ended_early = 0;
  int decodes = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    dice d(seed);
    const language l = random_language(d);
    std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
    if (!c || l.model.eos_token == no_token) {
      continue;
    }
    const index_t prompt = d.within(0, 2);
    index_t at = 0;
    std::vector<constrained_field> fields;
    for (int n = d.within(1, 3); n > 0; --n) {
      const index_t first = at + d.within(0, 2);
      at = first + d.within(n == 1 ? 0 : 1, 4);
      fields.push_back({.language = &*c, .first = first, .last = at, .fill = d.chance(0.7)});
    }
    const index_t length = prompt + std::max(at + d.within(0, 2), 1);
    std::vector<token_id> tokens(static_cast<std::size_t>(length), l.model.eos_token);
    const Policy p = policy_for(l.model);
    session<Policy> s(l.model, {.length = length, .window = length});
    try {
      s.start(0,
              p,
              {tokens.data(), length},
              {.prompt_length = prompt, .length = length, .block_length = d.within(1, 6)},
              {.constraints = fields});
    } catch (const std::invalid_argument&) {
      continue;  // no string of that length
    }
    const random_rows rows{seed, 4.0, d.chance(0.2)};
    for (int pass = 0;; ++pass) {
      const auto request = s.next();
      if (!request) {
        break;
      }
      std::vector<float> logits = rows.of(*request, pass, l.model.vocab);
      for (std::size_t i = 0; i < logits.size(); i += static_cast<std::size_t>(l.model.vocab)) {
        logits[i + static_cast<std::size_t>(l.model.eos_token)] += 3.0F;  // it is often the best
      }
      s.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab));
    }
    const sequence_report r = s.report();
    EXPECT_TRUE(r.constraint_met);
    index_t last = 0;
    for (const constrained_field& f : fields) {
      const auto part = std::span(tokens).subspan(static_cast<std::size_t>(prompt + f.first),
                                                  static_cast<std::size_t>(f.last - f.first));
      EXPECT_TRUE(l.has(part));
      last = f.first < f.last ? prompt + f.first : last;
    }
    index_t end = std::max(last, prompt);
    while (end < length && tokens[static_cast<std::size_t>(end)] != l.model.eos_token) {
      ++end;
    }
    if (delimits) {
      EXPECT_EQ(r.answer_end, std::min(end + 1, length));
    }
    ended_early += r.end == ending::eos_token || r.end == ending::stop_tokens ? 1 : 0;
    ++decodes;
  }
  EXPECT_GT(decodes, static_cast<int>(seeds / 4));
  return ended_early;
}

TEST(constraint_ends, no_eos_token_ends_an_answer_before_its_last_field) {
  const std::map<std::string, bool> policies = {
      {"tokens_per_step(1) + stop_at_eos", true},
      {"threshold(0.3) + stop_at_eos", true},
      {"threshold(0.3) + stop_at_eos(whole_block=true)", true},
      {"left_to_right + tokens_per_step(2) + stop_at_eos + dual_cache", true},
      {"threshold(0.4) + block_pipeline(0.1, 0.95, ends_at_eos=true)", false},
      {"threshold(0.5) + edit_committed(0.5) + stop_at_eos", true},
      {"tokens_per_step(1) + stop_sequence([eos])", true},
  };
  for (const auto& [text, delimits] : policies) {
    SCOPED_TRACE(text);
    const auto of = [&text = text](const model_info& m) {
      std::string own = text;
      if (const std::size_t eos = own.find("[eos]"); eos != own.npos) {
        own.replace(eos + 1, 3, std::to_string(m.eos_token));
      }
      return read_policy(own);
    };
    EXPECT_GT(decode_fields<named_policy>(of, 300, delimits), 20);
  }
}

TEST(constraint_ends, of_blocks_that_are_checked_in_groups_are_no_earlier) {
  const policy blocks{by_confidence{}, threshold{0.3F}, released::dinfer_blocks{.unroll = 2}};
  const auto of = [&](const model_info&) { return blocks; };
  EXPECT_GT(decode_fields<std::remove_const_t<decltype(blocks)>>(of, 300, false), 20);
}

}  // namespace
}  // namespace unmask::testing::ends_test
