// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine_files.hpp"

namespace example::tokenizer_test {
namespace {

using tokens = std::vector<std::int32_t>;

char_tokenizer tokenizer() {
  return char_tokenizer(gguf_file(testing::weights_path()));
}

TEST(tokenizer, has_the_tokens_of_the_file) {
  const char_tokenizer t = tokenizer();
  EXPECT_EQ(t.vocabulary(), 98U);
  EXPECT_EQ(t.mask(), 0);
  EXPECT_EQ(t.end(), 1);
  EXPECT_EQ(t.begin(), 2);
  EXPECT_EQ(t.encode(" A~"), (tokens{3, 36, 97}));
}

TEST(tokenizer, prompts_and_answers_round_trip) {
  const char_tokenizer t = tokenizer();
  for (const nlohmann::json& line : testing::prompts()) {
    for (const char* field : {"prompt", "answer"}) {
      const auto text = line[field].get<std::string>();
      const tokens encoded = t.encode(text);
      EXPECT_EQ(encoded.size(), text.size());
      EXPECT_EQ(t.decode(encoded), text);
    }
  }
}

TEST(tokenizer, every_printable_character_round_trips) {
  const char_tokenizer t = tokenizer();
  std::string text = "  ";
  for (char c = ' '; c <= '~'; ++c) {
    text += c;
  }
  EXPECT_EQ(t.decode(t.encode(text)), text);
  EXPECT_EQ(t.encode("<s></s><mask>").size(), 13U) << "special tokens are not parsed in text";
  EXPECT_TRUE(t.encode("").empty());
}

TEST(tokenizer, a_canvas_is_begin_prompt_masks) {
  EXPECT_EQ(tokenizer().canvas("a b", 2), (tokens{2, 68, 3, 69, 0, 0}));
}

TEST(tokenizer, tells_masked_tokens) {
  EXPECT_EQ(tokenizer().masked(tokens{2, 68, 0, 0, 1}), (std::vector<std::uint8_t>{0, 0, 1, 1, 0}));
}

TEST(tokenizer, a_token_has_a_text) {
  const char_tokenizer t = tokenizer();
  const std::string all = t.text_of(2) + t.text_of(68) + t.text_of(0) + t.text_of(1);
  EXPECT_EQ(all, "<bos>a_<eos>");
  EXPECT_THROW(static_cast<void>(t.text_of(98)), std::invalid_argument);
}

TEST(tokenizer, decoding_stops_at_the_first_eos_token) {
  const char_tokenizer t = tokenizer();
  EXPECT_EQ(t.decode(tokens{2, 68, 0, 69, 1, 70, 1}), "a_b");
  EXPECT_EQ(t.decode(tokens{0, 68}, "[]"), "[]a");
  EXPECT_EQ(t.decode(tokens{1}), "");
  EXPECT_THROW(t.decode(tokens{68, 98}), std::invalid_argument);
  EXPECT_THROW(t.decode(tokens{-1}), std::invalid_argument);
}

TEST(tokenizer, text_outside_the_vocabulary_is_named) {
  const char_tokenizer t = tokenizer();
  const struct {
    std::string text, shown, offset;
  } cases[] = {{"ab\ncd", "\\x0a", "offset 2"},
               {"na\xC3\xAFve", "\xC3\xAF", "offset 2"},
               {std::string("\0", 1), "\\x00", "offset 0"},
               {"abc\xE2\x96", "\\xe2", "offset 3"},
               {"\xE2\x96\x81", "\xE2\x96\x81", "offset 0"},
               {"x\xFF", "\\xff", "offset 1"}};
  for (const auto& each : cases) {
    try {
      t.encode(each.text);
      ADD_FAILURE() << "accepted " << each.text;
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(each.shown), std::string::npos) << message;
      EXPECT_NE(message.find(each.offset), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace example::tokenizer_test
