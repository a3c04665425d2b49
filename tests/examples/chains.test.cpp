// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The models of the chains folder in the example engine, beside PyTorch, and their problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "beside_pytorch.hpp"
#include "demo/checkers.hpp"
#include "demo/problems.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace example::chains_test {
namespace {

using ::testing::HasSubstr;
using tokens = std::vector<std::int32_t>;

const std::filesystem::path folder = std::filesystem::path(UNMASK_EXAMPLES_DIR) / "chains";

/// A model, and what the names of its files start with.
struct model_files {
  std::string name, reference;
  std::size_t layers;
};
const std::vector<model_files> models{{"chains", "", 12},
                                      {"chains_2", "chains_2_", 12},
                                      {"waiting_1", "waiting_1_", 3},
                                      {"waiting_2", "waiting_2_", 3},
                                      {"block_causal_1", "block_causal_1_", 3},
                                      {"block_causal_2", "block_causal_2_", 3}};

gguf_file file_of(const model_files& m) {
  return gguf_file(folder / (m.name + "-f16.gguf"));
}

std::vector<nlohmann::json> reference(const std::string& name) {
  return testing::json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "chains" /
                             (name + ".jsonl"));
}

TEST(chains, logits_agree_with_pytorch) {
  for (const model_files& m : models) {
    SCOPED_TRACE(m.name);
    llada_model model(file_of(m));
    EXPECT_EQ(model.config().layers, m.layers);
    testing::expect_logits(model, reference(m.reference + "reference_logits"));
  }
}

TEST(chains, decodes_are_those_of_pytorch) {
  for (const model_files& m : models) {
    SCOPED_TRACE(m.name);
    const gguf_file file = file_of(m);
    llada_model model(file);
    const char_tokenizer text(file);
    for (const nlohmann::json& line : reference(m.reference + "reference_decodes")) {
      for (const float threshold : {0.9F, 0.5F}) {
        const nlohmann::json& expected = line[threshold > 0.8F ? "threshold_0.9" : "threshold_0.5"];
        const testing::decode d =
            testing::decode_given(model, text, line["prompt"], line["given"], threshold);
        EXPECT_EQ(d.answer, expected["tokens"].get<tokens>()) << line["given"] << threshold;
        EXPECT_EQ(d.forwards, expected["forwards"].get<int>()) << line["given"] << threshold;
      }
    }
  }
}

/// The message of the loader for the first block-causal model with another number at a key.
std::string refusal(const std::string& key, std::uint32_t value) {
  std::ifstream stream(folder / "block_causal_1-f16.gguf", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  const std::size_t at = text.find(key) + key.size() + 4;  // past the type
  for (std::size_t i = 0; i < 4; ++i) {
    text[at + i] = static_cast<char>(value >> (8 * i));
  }
  const auto bytes = std::as_bytes(std::span(text));
  try {
    llada_weights::load(gguf_file("file", {bytes.begin(), bytes.end()}));
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(chains, a_mask_of_blocks_is_that_of_the_file) {
  const causal_blocks mask = llada_model(file_of(models[4])).config().attention;
  EXPECT_EQ(mask.length, 32U);
  EXPECT_EQ(mask.prefix, 7U);  // begin, "total:"
  EXPECT_EQ(llada_model(file_of(models[2])).config().attention.length, 0U);
  for (const std::string key : {"llada.attention.block_length", "llada.attention.prefix_length"}) {
    EXPECT_EQ(refusal(key, 256), "");
    EXPECT_THAT(refusal(key, 257), HasSubstr("must both be at most the context length 256"));
    EXPECT_THAT(refusal(key, 0), HasSubstr(key + "': 0, must be at least 1"));
  }
}

TEST(chains, test_problems_are_what_the_page_says) {
  std::map<std::string, int> count;
  for (const std::string name : {"problems.jsonl", "waiting.jsonl"}) {
    for (const demo::problem& p : demo::read_problems(folder / name)) {
      ++count[p.task];
      EXPECT_NE(p.given.find('_'), std::string::npos);
      EXPECT_LE(p.given.size(), p.task == "waiting" ? 237U : 128U);
      EXPECT_FALSE(demo::is_right(p, p.given)) << p.given;
      if (p.checker.empty()) {
        EXPECT_TRUE(demo::is_right(p, p.answer)) << p.given;
      }
    }
  }
  EXPECT_EQ(count,
            (std::map<std::string, int>{{"trace", 240},
                                        {"path", 240},
                                        {"reach", 240},
                                        {"copy", 240},
                                        {"sort", 240},
                                        {"shuffle", 240},
                                        {"waiting", 240}}));
}

}  // namespace
}  // namespace example::chains_test
