// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"

namespace example::engine_test {
namespace {

using tokens = std::vector<std::int32_t>;

const gguf_file& file(const std::string& kind) {
  static const gguf_file f32("f32", testing::weights_bytes("f32"));
  static const gguf_file f16(testing::weights_path());
  static const gguf_file q8_0("q8_0", testing::weights_bytes("q8_0"));
  return kind == "f32" ? f32 : kind == "f16" ? f16 : q8_0;
}

llada_model f16_model() {
  static const auto weights =
      std::make_shared<const llada_weights>(llada_weights::load(file("f16")));
  return llada_model(weights);
}

/// Copies of the token sequences of the reference logits.
std::vector<tokens> sequences() {
  std::vector<tokens> result;
  for (const nlohmann::json& line : testing::reference("reference_logits")) {
    result.push_back(line["tokens"].get<tokens>());
  }
  return result;
}

std::vector<float> copy(const logits_view& logits) {
  return {logits.data, logits.data + logits.rows * logits.vocabulary};
}

/// Whether two rows are the same bits: a NaN equals itself, 0 does not equal -0.
bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// The largest difference to the reference logits; infinite if any of them is not a number.
double largest_difference(const std::string& kind) {
  llada_model model(file(kind));
  double largest = 0;
  for (const nlohmann::json& line : testing::reference("reference_logits")) {
    const auto sequence = line["tokens"].get<tokens>();
    const logits_view logits = model.forward(sequence, 0, sequence.size());
    EXPECT_EQ(logits.rows, line["logits"].size());
    for (std::size_t row = 0; row < logits.rows; ++row) {
      const auto expected = line["logits"][row].get<std::vector<double>>();
      EXPECT_EQ(expected.size(), logits.vocabulary);
      for (std::size_t token = 0; token < logits.vocabulary; ++token) {
        const double difference =
            std::abs(static_cast<double>(logits.row(row)[token]) - expected[token]);
        // std::max would drop a NaN.
        if (!(difference <= largest)) {
          largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
        }
      }
    }
  }
  ::testing::Test::RecordProperty("largest_difference_" + kind, std::to_string(largest));
  return largest;
}

// The reference has the weights as they are in the file; as f32 they are the same numbers.
TEST(engine, logits_agree_with_pytorch_in_f16) {
  EXPECT_LE(largest_difference("f16"), 1e-3);
}
TEST(engine, logits_agree_with_pytorch_in_f32) {
  EXPECT_LE(largest_difference("f32"), 1e-3);
}
// The forward computes in f32 whatever the stored type; q8_0 rounds the weights.
TEST(engine, logits_agree_with_pytorch_in_q8_0) {
  EXPECT_LE(largest_difference("q8_0"), 1.0);
}

TEST(engine, windowed_rows_are_bits_of_the_full_forward) {
  llada_model model = f16_model();
  for (const tokens& sequence : sequences()) {
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    const std::size_t size = sequence.size(), vocabulary = model.config().vocabulary;
    const std::size_t windows[][2] = {
        {size - 40, size}, {size - 40, size - 20}, {0, 1}, {size - 1, size}, {3, 10}, {7, 7}};
    for (const auto& [first, last] : windows) {
      const logits_view part = model.forward(sequence, first, last);
      ASSERT_EQ(part.rows, last - first);
      EXPECT_TRUE(same_bits(std::span(part.data, part.rows * vocabulary),
                            std::span(full).subspan(first * vocabulary, part.rows * vocabulary)))
          << "window " << first << " to " << last << " of " << size;
    }
  }
}

TEST(engine, a_sequence_does_not_feel_its_batch) {
  llada_model model = f16_model();
  const std::vector<tokens> all = sequences();
  std::vector<std::vector<float>> alone;
  std::vector<sequence_window> batch;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const sequence_window window{all[i], i, all[i].size() - 2 * i};
    batch.push_back(window);
    alone.push_back(copy(model.forward(window.tokens, window.first, window.last)));
  }
  for (int round = 0; round < 2; ++round) {
    const logits_view logits = model.forward(batch);
    std::size_t row = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_TRUE(
          same_bits(alone[i], std::span(logits.data + row * logits.vocabulary, alone[i].size())))
          << "sequence " << i << " in round " << round;
      row += batch[i].last - batch[i].first;
    }
    EXPECT_EQ(row, logits.rows);
    std::ranges::reverse(batch);
    std::ranges::reverse(alone);
  }
}

TEST(engine, blocks_of_a_mask) {
  const causal_blocks all, ones{.length = 1}, blocks{.length = 4, .prefix = 3};
  EXPECT_EQ(all.seen(5, 20), 20U);
  EXPECT_EQ(ones.seen(0, 20), 1U);
  EXPECT_EQ(ones.seen(5, 20), 6U);
  EXPECT_EQ(blocks.seen(0, 20), 3U);
  EXPECT_EQ(blocks.seen(2, 20), 3U);
  EXPECT_EQ(blocks.seen(3, 20), 7U);
  EXPECT_EQ(blocks.seen(6, 20), 7U);
  EXPECT_EQ(blocks.seen(7, 20), 11U);
  EXPECT_EQ(blocks.seen(7, 9), 9U);
}

// Each row feels the tokens up to the end of its block, and none after it.
TEST(engine, a_block_feels_no_later_block) {
  llada_weights weights = llada_weights::load(file("f16"));
  weights.config.attention = {.length = 12, .prefix = 5};
  llada_model model(std::make_shared<const llada_weights>(weights));
  const std::size_t vocabulary = model.config().vocabulary;
  for (const tokens& sequence : sequences()) {
    const std::size_t size = sequence.size();
    const std::vector<float> before = copy(model.forward(sequence, 0, size));
    const auto row = [&](const std::vector<float>& of, std::size_t i) {
      return std::span(of).subspan(i * vocabulary, vocabulary);
    };
    for (std::size_t changed = 0; changed < size; changed += 3) {
      tokens other = sequence;
      other[changed] = other[changed] == 20 ? 21 : 20;
      const std::vector<float> after = copy(model.forward(other, 0, size));
      for (std::size_t i = 0; i < size; ++i) {
        const bool sees = changed < model.config().attention.seen(i, size);
        EXPECT_EQ(same_bits(row(before, i), row(after, i)), !sees) << changed << ", " << i;
      }
    }
  }
}

TEST(engine, every_length_up_to_the_context_works) {
  llada_model model = f16_model();
  tokens sequence(model.config().context);
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    sequence[i] = static_cast<std::int32_t>(i * 7 % model.config().vocabulary);
  }
  for (std::size_t size = 1; size <= sequence.size(); size += size < 20 ? 1 : 59) {
    const logits_view logits = model.forward(std::span(sequence).first(size), 0, size);
    ASSERT_EQ(logits.rows, size);
    for (std::size_t row = 0; row < size; ++row) {
      for (const float value : logits.row(row)) {
        ASSERT_TRUE(std::isfinite(value)) << "row " << row << " of " << size;
      }
    }
  }
}

TEST(engine, an_empty_batch_and_empty_windows_give_no_rows) {
  llada_model model = f16_model();
  EXPECT_EQ(model.forward({}).rows, 0U);
  EXPECT_EQ(model.forward(tokens{}, 0, 0).rows, 0U);
  EXPECT_EQ(model.forward(tokens{2, 0}, 1, 1).rows, 0U);
}

TEST(engine, bad_requests_are_refused) {
  llada_model model = f16_model();
  const tokens good = {2, 10, 0}, large(model.config().context + 1, 0);
  EXPECT_THROW(model.forward(large, 0, 1), std::invalid_argument);
  EXPECT_THROW(model.forward(good, 2, 1), std::invalid_argument);
  EXPECT_THROW(model.forward(good, 0, 4), std::invalid_argument);
  EXPECT_THROW(model.forward(tokens{2, 98}, 0, 1), std::invalid_argument);
  EXPECT_THROW(model.forward(tokens{2, -1}, 0, 1), std::invalid_argument);
  EXPECT_THROW(llada_model(std::shared_ptr<const llada_weights>()), std::invalid_argument);
}

/// Decodes as the reference does: two blocks of 20; each forward commits all masked positions of
/// the block whose best token is more likely than 0.9, or else the most likely one; the mask token
/// is never chosen. Returns the number of forwards.
int decode(llada_model& model, std::int32_t mask, tokens& sequence) {
  constexpr std::size_t answer = 40, block = 20;
  int forwards = 0;
  for (std::size_t first = sequence.size() - answer; first < sequence.size(); first += block) {
    const std::span open = std::span(sequence).subspan(first, block);
    while (std::ranges::find(open, mask) != open.end()) {
      const logits_view logits = model.forward(sequence, first, first + block);
      ++forwards;
      std::size_t surest = block;
      double highest = -1;
      tokens best(block);
      std::vector<double> confidence(block, -1);
      for (std::size_t i = 0; i < block; ++i) {
        if (open[i] != mask) {
          continue;
        }
        const std::span<const float> row = logits.row(i).subspan(1);  // the mask token is 0
        const auto top = std::ranges::max_element(row);
        double sum = 0;
        for (const float value : row) {
          sum += std::exp(static_cast<double>(value - *top));
        }
        best[i] = static_cast<std::int32_t>(top - row.begin()) + 1;
        confidence[i] = 1 / sum;
        if (confidence[i] > highest) {
          highest = confidence[i];
          surest = i;
        }
      }
      for (std::size_t i = 0; i < block; ++i) {
        if (confidence[i] > 0.9 || i == surest) {
          open[i] = best[i];
        }
      }
    }
  }
  return forwards;
}

TEST(engine, decodes_to_the_reference_texts) {
  llada_model model = f16_model();
  const char_tokenizer tokenizer(file("f16"));
  const std::vector<nlohmann::json> lines = testing::reference("reference_decodes");
  for (std::size_t i = 0; i < lines.size(); i += 10) {
    const auto prompt = lines[i]["prompt"].get<std::string>();
    tokens sequence = tokenizer.canvas(prompt, 40);
    const int forwards = decode(model, tokenizer.mask(), sequence);
    const nlohmann::json& expected = lines[i]["threshold_0.9"];
    EXPECT_EQ(tokens(sequence.end() - 40, sequence.end()), expected["tokens"].get<tokens>())
        << prompt;
    EXPECT_EQ(forwards, expected["forwards"].get<int>()) << prompt;
  }
}

}  // namespace
}  // namespace example::engine_test
