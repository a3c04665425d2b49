// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of released models: words, what they stand for, and the numbers that belong to them.
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace unmask::known_models_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read_policy(text));
  } catch (const policy_text_error& e) {
    return e.what();
  }
  return "";
}

TEST(known_models, are_their_texts) {
  std::set<std::string_view> words;
  for (const known_model& m : known_models()) {
    EXPECT_EQ(m.word.rfind("model:", 0), 0U) << m.word;
    EXPECT_TRUE(words.insert(m.word).second) << m.word;
    EXPECT_EQ(error_of(std::string(m.word)), "");
    EXPECT_EQ(part_texts(m.word), part_texts(m.text)) << m.word;
    EXPECT_EQ(read_policy(m.word).count, read_policy(m.text).count) << m.word;
    EXPECT_EQ(find_model(m.word), &m);
    EXPECT_EQ(find_model(m.name()), &m);
    EXPECT_GE(m.answer_length, 1) << m.word;
    EXPECT_FALSE(m.models.empty() || m.source.empty()) << m.word;
    EXPECT_EQ(m.date.size(), std::string_view("2026-11-28").size()) << m.word;
    EXPECT_TRUE(m.eos_tokens[0] == no_token || m.eos_tokens[0] != m.mask_token) << m.word;
    EXPECT_THAT(describe_models(), HasSubstr(std::string(m.word) + "\n"));
    EXPECT_THAT(describe_models(), HasSubstr("= " + std::string(m.text) + "\n"));
  }
  EXPECT_GE(words.size(), 19U);
  EXPECT_EQ(find_model("llada9"), nullptr);
  EXPECT_EQ(find_model(""), nullptr);
}

// C gives the texts as they stand in the table.
TEST(known_models, have_texts_that_end_with_a_null_character) {
  for (const known_model& m : known_models()) {
    for (const std::string_view text : {m.word, m.models, m.text, m.source, m.date}) {
      EXPECT_EQ(std::string_view(text.data()), text);
    }
  }
}

TEST(known_models, go_on_and_take_arguments) {
  EXPECT_THAT(part_texts("model:llada2_1(0.6, threshold=0.1, most_edits=3) + trace_credit"),
              ElementsAre("threshold(value=0.6)",
                          "tokens_per_step(1)",
                          "edit_committed(threshold=0.1)",
                          "edited_blocks(aligned=true, ends_at_eos=true, most_edits=3)",
                          "trace_credit"));
  EXPECT_THAT(part_texts("left_to_right + model:sdar(0.5, steps=2, temperature=0)"),
              ElementsAre("left_to_right",
                          "threshold(value=0.5)",
                          "steps_per_block(whole_block=true, steps=2)",
                          "semi_autoregressive(aligned=true)",
                          "sampling(temperature=0)",
                          "stop_at_eos(whole_block=true)"));
  EXPECT_THAT(error_of("model:llada2_1(x=1)"), HasSubstr("has no argument 'x'"));
  EXPECT_THAT(error_of("model:llada2_1(1.5)"), HasSubstr("value of threshold must be in [0, 1]"));
  EXPECT_THAT(error_of("model:llada2_1 + threshold(0.5)"), HasSubstr("at most one commit rule"));
  EXPECT_THAT(error_of("any_of(model:llada, threshold)"), HasSubstr("of commit rules"));
}

TEST(known_models, are_suggested) {
  EXPECT_THAT(error_of("llada2_1"), HasSubstr("did you mean model:llada2_1?"));
  EXPECT_THAT(error_of("model:llada2_9"), HasSubstr("there is no model 'model:llada2_9': did you"));
  EXPECT_THAT(error_of("model:what"), HasSubstr("there are model:d3llm, model:llada"));
  EXPECT_THAT(error_of("model"), HasSubstr("model:llada"));
  EXPECT_THAT(error_of("model:"), HasSubstr("column 7: expected the name of a part"));
  EXPECT_THAT(error_of("model::llada"), HasSubstr("column 7"));
  EXPECT_THAT(error_of("modell:llada"), HasSubstr("expected '+' or the end, got ':'"));
  EXPECT_EQ(error_of("MODEL:llada").find("column 1"), std::string::npos);
}

TEST(known_models, are_found_by_type_and_checkpoint) {
  const auto name = [](std::string_view type, std::string_view checkpoint) {
    const known_model* const m = model_of(type, checkpoint);
    return std::string(m == nullptr ? "none" : m->name());
  };
  EXPECT_EQ(name("llada", "GSAI-ML/LLaDA-8B-Instruct"), "llada");
  EXPECT_EQ(name("llada", "d3LLM/d3LLM_LLaDA"), "d3llm");
  EXPECT_EQ(name("LLaDA-MoE", ""), "llada_moe");
  EXPECT_EQ(name("llada2_moe", "inclusionAI/LLaDA2.0-mini"), "llada2");
  EXPECT_EQ(name("llada2_moe", ""), "llada2");
  EXPECT_EQ(name("llada2_moe", "inclusionAI/LLaDA2.1-flash"), "llada2_1");
  EXPECT_EQ(name("llada2_moe", "/models/llada2.2-mini"), "llada2_2");
  EXPECT_EQ(name("Dream", "Dream-org/Dream-v0-Instruct-7B"), "dream");
  EXPECT_EQ(name("Dream", "apple/DiffuCoder-7B-cpGRPO"), "diffucoder");
  EXPECT_EQ(name("sdar_moe", "JetLM/SDAR-30B-A3B"), "sdar");
  EXPECT_EQ(name("Fast_dLLM_Qwen", ""), "fast_dllm_v2");
  EXPECT_EQ(name("diffusion_gemma", ""), "diffusion_gemma");
  for (const char* none : {"", "qwen2", "sdar|sdar_moe", "|", "lla", "model:llada"}) {
    EXPECT_EQ(name(none, "LLaDA2.1"), "none") << none;
  }
}

// A type leads to one word: those with a checkpoint come before the one without.
TEST(known_models, are_all_reached) {
  for (const known_model& m : known_models()) {
    if (!m.types.empty()) {
      const std::string_view first = m.types.substr(0, m.types.find('|'));
      EXPECT_EQ(model_of(first, m.checkpoint), &m) << m.word;
    }
  }
}

TEST(known_models, have_shapes) {
  const auto shape = [](const char* word, index_t prompt, index_t answer) {
    const sequence_shape s = shape_of(*find_model(word), prompt, answer);
    EXPECT_EQ(s.prompt_length, prompt);
    return std::pair{s.length, s.block_length};
  };
  EXPECT_EQ(shape("llada", 10, 0), std::pair(138, 32));
  EXPECT_EQ(shape("llada", 10, 5), std::pair(15, 32));
  EXPECT_EQ(shape("llada2", 10, 5), std::pair(32, 32)) << "a whole block";
  EXPECT_EQ(shape("llada2", 10, 54), std::pair(64, 32));
  EXPECT_EQ(shape("llada2", 10, 55), std::pair(96, 32));
  EXPECT_EQ(shape("dream", 7, 0), std::pair(519, 512)) << "one block";
  EXPECT_EQ(shape("wedlm", 7, 20), std::pair(43, 20)) << "beyond the answer";
  const known_model& llada2 = *find_model("llada2");
  EXPECT_THROW(static_cast<void>(shape_of(llada2, -1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(shape_of(llada2, 0, -1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(shape_of(llada2, max_length)), std::invalid_argument);
  EXPECT_LE(shape_of(llada2, max_length - 2048).length, max_length);
  EXPECT_THROW(static_cast<void>(shape_of(*find_model("wedlm"), 1, max_length)),
               std::invalid_argument);
}

}  // namespace
}  // namespace unmask::known_models_test
