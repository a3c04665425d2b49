// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An engine in C decodes the tiny model with every policy that decides inside the layers as the
// engine in C++ does: the same tokens, passes and computed positions. Both are those of
// tests/data/tiny_llada/layered_decodes.jsonl, which the Python package is compared with, too.
//
// A change of a rule that is meant to change them: UNMASK_RECORD_LAYERED=FILE writes the file anew.

#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/c/layers.h"
#include "demo/hooked_pass.hpp"
#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"
#include "examples/engine_files.hpp"
#include "support/bound_session.hpp"

namespace example {
namespace {

using unmask::index_t;

constexpr index_t answer_length = 40, block_length = 20;

struct decoded {
  std::vector<std::int32_t> tokens;
  index_t forwards = 0;
  std::int64_t computed = 0;
};

const gguf_file& file() {
  static const gguf_file f(testing::weights_path());
  return f;
}
const char_tokenizer& text() {
  static const char_tokenizer t(file());
  return t;
}

/// The decode in C++.
decoded by_library(const std::string& policy, const std::string& prompt) {
  llada_model model(file());
  decoded d;
  d.tokens = text().canvas(prompt, answer_length);
  const auto length = static_cast<index_t>(d.tokens.size());
  const unmask::named_policy parts = unmask::read_policy(policy);
  const auto session =
      unmask::testing::make_bound(parts,
                                  {.vocab = static_cast<index_t>(text().vocabulary()),
                                   .mask_token = text().mask(),
                                   .eos_token = text().end(),
                                   .layers = static_cast<index_t>(model.config().layers)},
                                  {.length = length, .window = length});
  session->start(
      0,
      d.tokens.data(),
      length,
      {.prompt_length = length - answer_length, .length = length, .block_length = block_length});
  sequence_memory memory;
  for (; session->next(); ++d.forwards) {
    demo::hooked_pass pass(session->pass(0),
                           [](auto& of, const auto&... at) { return of.at_layer(at...); });
    const unmask::range blocks = session->planned(0).score;
    const logits_view z = model.forward(pass,
                                        d.tokens,
                                        memory,
                                        {blocks.first,
                                         blocks.last,
                                         parts.eviction.find<unmask::key_eviction>().keep,
                                         parts.eviction.find<unmask::key_eviction>().pool});
    session->read(0,
                  unmask::host_logits<float>(
                      z.data, static_cast<index_t>(z.rows), static_cast<index_t>(z.vocabulary)));
    session->decide();
  }
  d.computed = memory.computed;
  return d;
}

/// The decode in C.
decoded by_engine_in_c(const std::string& policy, const std::string& prompt) {
  engine* const e = engine_open(testing::weights_path().c_str());
  decoded d;
  d.tokens.resize(1024);
  const std::int32_t length =
      engine_tokens(e, prompt.c_str(), answer_length, d.tokens.data(), 1024);
  d.tokens.resize(static_cast<std::size_t>(length));
  EXPECT_EQ(decode_in_layers(e,
                             policy.c_str(),
                             d.tokens.data(),
                             length - answer_length,
                             length,
                             block_length,
                             &d.forwards),
            UNMASK_OK)
      << unmask_last_error();
  d.computed = engine_computed(e);
  engine_close(e);
  return d;
}

const char* const prompts[] = {"Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?",
                               "Q:Fay has 9 coins. Gets 3. Eats 4. How many?"};
const char* const policies[] = {
    "tokens_per_step(2)",
    "threshold(0.9) + prefix_cache",
    "tokens_per_step(2) + dual_cache + stop_at_eos",
    "threshold(0.9) + suffix_window(8)",
    "tokens_per_step(2) + block_cache(64, 16)",
    "tokens_per_step(2) + interval_cache(8, 2)",
    "tokens_per_step(2) + delayed_cache(8)",
    "tokens_per_step(2) + entropy_cache",
    "tokens_per_step(2) + dual_cache(whole=2) + key_eviction(0.5, pool=3)",
    "tokens_per_step(2) + similarity_refresh(0.25) + interval_cache(50, 7)",
    "tokens_per_step(2) + similarity_refresh(0.25, reads=key) + interval_cache(50, 7)",
    "tokens_per_step(2) + cache_budget(8, 8) + interval_cache(1, 0)",
    "tokens_per_step(2) + cache_budget(8, 8, reads=query) + interval_cache(1, 0)",
    "tokens_per_step(2) + early_skip(0.5, [0.125, 0.25], [0.5, 0.25]) + dual_cache",
    "tokens_per_step(2) + early_skip(reads=input) + block_cache(64, 16)",
    "es_dllm",
    "es_dllm_sparse + trace_credit",
    "es_dllm_parallel_sparse",
    "dynamic_dllm"};

nlohmann::json line_of(const std::string& policy, const std::string& prompt, const decoded& d) {
  return {{"policy", policy},
          {"prompt", prompt},
          {"answer", answer_length},
          {"block", block_length},
          {"tokens", d.tokens},
          {"forwards", d.forwards},
          {"computed", d.computed}};
}

// States that hardly change are as similar to the ones before as rounding has it, which is another
// where the engine is compiled for the machine.
#if defined(UNMASK_EXAMPLE_NATIVE)
constexpr bool rounds_otherwise = true;
#else
constexpr bool rounds_otherwise = false;
#endif

bool compares_states(std::string_view policy) {
  const auto has = [policy](std::string_view part) {
    return policy.find(part) != std::string_view::npos;
  };
  return has("cache_budget") || has("similarity_refresh") || has("dynamic_dllm");
}

TEST(CEngine, DecodesAsTheLibraryDoes) {
  if (const char* const record = std::getenv("UNMASK_RECORD_LAYERED")) {
    std::ofstream out(record);
    for (const char* policy : policies) {
      for (const char* prompt : prompts) {
        out << line_of(policy, prompt, by_library(policy, prompt)).dump() << '\n';
      }
    }
    return;
  }
  const std::vector<nlohmann::json> lines = testing::reference("layered_decodes");
  ASSERT_EQ(lines.size(), std::size(policies) * std::size(prompts));
  std::size_t i = 0;
  std::int64_t computed = 0, most = 0;
  for (const char* policy : policies) {
    for (const char* prompt : prompts) {
      SCOPED_TRACE(policy);
      const nlohmann::json line = line_of(policy, prompt, by_library(policy, prompt));
      if (!rounds_otherwise || !compares_states(policy)) {
        EXPECT_EQ(line, lines[i]);
      }
      const decoded in_c = by_engine_in_c(policy, prompt);
      EXPECT_EQ(line_of(policy, prompt, in_c), line);
      const auto length = static_cast<std::int64_t>(in_c.tokens.size());
      const std::int64_t whole = in_c.forwards * length * 6;
      EXPECT_EQ(in_c.computed == whole, i < std::size(prompts)) << "a cache saves work";
      computed += in_c.computed;
      most += whole;
      ++i;
    }
  }
  EXPECT_LT(computed, most / 2);
}

TEST(CEngine, RefusesWhatItCannotDecode) {
  engine* const e = engine_open(testing::weights_path().c_str());
  std::vector<std::int32_t> tokens(1024);
  const std::int32_t length = engine_tokens(e, "Q:1+1", 8, tokens.data(), 1024);
  ASSERT_EQ(length, 14);
  std::int32_t forwards = 0;
  const auto decode = [&](const char* policy) {
    return decode_in_layers(e, policy, tokens.data(), 6, length, 8, &forwards);
  };
  EXPECT_EQ(decode("threshold(0.9) + lookahead"), UNMASK_UNSUPPORTED);
  EXPECT_EQ(decode("threshold(2)"), UNMASK_INVALID_ARGUMENT);
  EXPECT_EQ(decode("es_dllm"), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(engine_tokens(e, "\x01", 8, tokens.data(), 1024), -1);
  EXPECT_EQ(engine_tokens(e, "Q:1+1", 8, tokens.data(), 13), -1);
  EXPECT_EQ(engine_open("/no/such/file"), nullptr);
  engine_close(e);
}

}  // namespace
}  // namespace example
