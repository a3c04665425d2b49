// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/commit/profile_json.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/observed_decode.hpp"

namespace unmask::testing::profile_json_test {
namespace {

calibrated_threshold<16> random_profile(std::uint64_t seed) {
  std::uint64_t h = made_up_model::hash(seed, 1);
  const auto real = [&] {
    return static_cast<float>(made_up_model::unit(h = made_up_model::hash(h, 2)));
  };
  calibrated_threshold<16> p;
  p.threshold = real();
  p.cap = 1.0F - real() * 0.999F;
  p.slack = real() * 0.999F;
  p.mode = seed % 2 == 0 ? profile_mode::block : profile_mode::step_block;
  p.statistic = static_cast<metric>(seed % 5);
  p.recorded = static_cast<collect>(seed / 2 % 2);
  p.block_length = static_cast<index_t>(1 + seed % 64);
  index_t used = 0;
  const index_t blocks = static_cast<index_t>(seed % 5);
  for (index_t b = 0; b < blocks; ++b) {
    const index_t steps = p.mode == profile_mode::block ? 1 : 1 + static_cast<index_t>(h % 4);
    for (index_t i = 0; i < steps && used < 16; ++i) {
      p.cells[used++] = real();
    }
    if (used > p.first_cell(b)) {
      p.ends[b] = static_cast<std::uint16_t>(used);
      p.blocks = b + 1;
    }
  }
  return p;
}

TEST(profile_json, comes_back_as_it_was) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto p = random_profile(seed);
    const std::string text = to_json(p);
    ASSERT_EQ(profile_from_json<16>(text), p) << text;
    EXPECT_EQ(to_json(profile_from_json<16>(text)), text);
    EXPECT_EQ(profile_from_json<300>(text).blocks, p.blocks);  // room for more does no harm
  }
}

TEST(profile_json, special_floats_come_back) {
  for (const float x : {0.0F,
                        1.0F,
                        0.1F,
                        1e-30F,
                        std::numeric_limits<float>::denorm_min(),
                        std::nextafter(1.0F, 0.0F),
                        1.0F / 3.0F}) {
    calibrated_threshold<1> p;
    p.block_length = 4;
    p.blocks = 1;
    p.ends[0] = 1;
    p.cells[0] = x;
    EXPECT_EQ(profile_from_json<1>(to_json(p)), p) << to_json(p);
  }
}

const std::string good = R"({
  "unmask_profile":1,
  "mode":"step_block",
  "statistic":"median",
  "recorded":"committed",
  "threshold":0.9,
  "cap":0.75,
  "slack":0.2,
  "block_length":32,
  "blocks":[
    [0.95,0.91,0.93],
    [0.9]
  ]
}
)";

TEST(profile_json, is_easy_to_read) {
  calibrated_threshold<4> p{
      .cap = .75F, .slack = .2F, .mode = profile_mode::step_block, .statistic = metric::median};
  p.block_length = 32;
  p.blocks = 2;
  p.ends[0] = 3;
  p.ends[1] = 4;
  const float cells[] = {.95F, .91F, .93F, .9F};
  std::copy(std::begin(cells), std::end(cells), p.cells);
  EXPECT_EQ(to_json(p), good);
  EXPECT_EQ(profile_from_json<4>(good), p);
  p.blocks = 1;
  EXPECT_NE(to_json(p).find("[0.95,0.91,0.93]\n  ]"), std::string::npos);
  p.blocks = 0;
  EXPECT_NE(to_json(p).find("\"blocks\":[]"), std::string::npos);
}

std::string replaced(const std::string& what, const std::string& with) {
  std::string text = good;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(profile_json, white_space_and_order_do_not_matter) {
  std::string tight;
  for (const char c : good) {
    if (c != ' ' && c != '\n') {
      tight += c;
    }
  }
  EXPECT_EQ(profile_from_json<4>(tight), profile_from_json<4>(good));
  const std::string moved = replaced("  \"cap\":0.75,\n", "");
  EXPECT_EQ(profile_from_json<4>(std::string{moved}.insert(1, "\r\n\t\"cap\" :\t7.5e-1 ,")),
            profile_from_json<4>(good));
}

struct bad_text {
  std::string text;
  std::string complaint;
};

TEST(profile_json, bad_texts_are_refused_with_key_and_rule) {
  const std::vector<bad_text> table{
      {"", "profile, line 1, column 1: expected {"},
      {"[]", "profile, line 1, column 1: expected {"},
      {"{}", "profile: unmask_profile must be there"},
      {replaced("\"unmask_profile\":1", "\"unmask_profile\":2"),
       "line 2, column 21: unmask_profile: must be 1, the version that this library reads, got 2"},
      {replaced("\"unmask_profile\":1,", ""), "unmask_profile must be there"},
      {replaced("  \"cap\":0.75,\n", ""), "cap must be there"},
      {replaced("\"slack\":0.2", "\"cap\":0.2"), "line 8, column 9: cap: it must be there once"},
      {replaced("\"slack\"", "\"slak\""), "line 8, column 10: expected a key of a profile"},
      {replaced("\"cap\":0.75", "\"cap\":1.5"),
       "calibrated_threshold::cap must be in (0, 1], got 1.5"},
      {replaced("\"cap\":0.75", "\"cap\":0"), "calibrated_threshold::cap must be in (0, 1], got 0"},
      {replaced("\"cap\":0.75", "\"cap\":\"0.75\""), "line 7, column 9: cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":nan"), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":1e999"), "cap: expected a number that fits"},
      {replaced("\"cap\":0.75", "\"cap\":.75"), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":0.75.1"), "cap: expected }"},
      {replaced("\"cap\":0.75", "\"cap\":+0.75"), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":0x1p-1"), "cap: expected }"},
      {replaced("\"cap\":0.75", "\"cap\":00.75"), "cap: expected }"},
      {replaced("\"cap\":0.75", "\"cap\":1."), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":1e"), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\":null"), "cap: expected a number"},
      {replaced("\"cap\":0.75", "\"cap\" 0.75"), "expected :"},
      {replaced("\"cap\":0.75,", "\"cap\":0.75"), "line 8, column 3: cap: expected }"},
      {replaced("\"slack\":0.2", "\"slack\":1"),
       "calibrated_threshold::slack must be in [0, 1), got 1"},
      {replaced("\"threshold\":0.9", "\"threshold\":-0.1"),
       "calibrated_threshold::threshold must be in [0, 1], got -0.1"},
      {replaced("\"mode\":\"step_block\"", "\"mode\":\"layer\""),
       "line 3, column 10: mode: expected one of \"block\" \"step_block\""},
      {replaced("\"mode\":\"step_block\"", "\"mode\":\"block\""), "in mode block, got 3"},
      {replaced("\"mode\":\"step_block\"", "\"mode\":1"), "mode: expected \""},
      {replaced("\"mode\":\"step_block\"", "\"mode\":\"step"), "mode: a string has no control"},
      {replaced("median", "medium"), "statistic: expected one of"},
      {replaced("committed", "all"), "recorded: expected one of"},
      {replaced("\"block_length\":32", "\"block_length\":0"),
       "calibrated_threshold::block_length must be at least 1, got 0"},
      {replaced("\"block_length\":32", "\"block_length\":-1"),
       "calibrated_threshold::block_length must be at least 1, got -1"},
      {replaced("\"block_length\":32", "\"block_length\":3.5"),
       "block_length: expected a whole number that fits"},
      {replaced("\"block_length\":32", "\"block_length\":99999999999"), "number that fits"},
      {replaced("0.91", "1.91"), "calibrated_threshold::cells must be in [0, 1], got 1.91"},
      {replaced("[0.9]", "[]"), "line 12, column 7: blocks: expected a threshold in each block"},
      {replaced("[0.9]", "0.9"), "blocks: expected ["},
      {replaced("[0.9]", "[0.9],"), "blocks: expected ["},
      {replaced("[0.9]", "[0.9,]"), "blocks: expected a number"},
      {replaced("[0.9]", "[0.9 0.8]"), "blocks: expected ]"},
      {replaced("[0.9]", "[[0.9]]"), "blocks: expected a number"},
      {replaced("[0.9]", "[0.9,0.8]"), "blocks: expected at most 4 thresholds in all"},
      {replaced("],\n    [", "]\n    ["), "blocks: expected ]"},
      {good + "x", "line 15, column 1: blocks: expected the end"},
      {good + good, "expected the end"},
      {good.substr(0, good.size() / 2), "expected"},
      {"\xEF\xBB\xBF" + good, "line 1, column 1: expected {"},
      {replaced("0.75", "\xEF\xBB\xBF"), "cap: expected a number"},
  };
  for (const bad_text& bad : table) {
    try {
      static_cast<void>(profile_from_json<4>(bad.text));
      ADD_FAILURE() << "taken: " << bad.text;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string{e.what()}.find(bad.complaint), std::string::npos)
          << e.what() << "\nwanted: " << bad.complaint;
    }
  }
}

// JSON with floats, as nlohmann/json reads it.
using json = nlohmann::
    basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t, float>;

// The profile of a text by that reader, a schema and check_values(); nothing where one refuses it.
std::optional<calibrated_threshold<4>> oracle(const std::string& text) {
  const auto demand = [](bool holds) {
    if (!holds) {
      throw std::invalid_argument("not a profile");
    }
  };
  std::set<std::string> keys;
  const auto once = [&](int depth, json::parse_event_t event, const json& value) {
    demand(depth != 1 || event != json::parse_event_t::key || keys.insert(value).second);
    return true;
  };
  const auto word = [&](const json& value, const std::vector<std::string>& names) {
    const auto found = std::find(names.begin(), names.end(), value.get<std::string>());
    demand(found != names.end());
    return found - names.begin();
  };
  const auto real = [&](const json& value) {
    demand(value.is_number());
    return value.get<float>();
  };
  const auto whole = [&](const json& value) {
    demand(value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 31U));
    return value.get<index_t>();
  };
  try {
    demand(text.find('\0') == text.npos);  // for that reader the end
    const json all = json::parse(text, once);
    demand(all.size() == 9 && whole(all.at("unmask_profile")) == 1);
    calibrated_threshold<4> p;
    p.mode = static_cast<profile_mode>(word(all.at("mode"), {"block", "step_block"}));
    p.statistic = static_cast<metric>(
        word(all.at("statistic"), {"mean", "q1", "median", "q3", "min_whisker"}));
    p.recorded = static_cast<collect>(word(all.at("recorded"), {"committed", "candidates"}));
    p.threshold = real(all.at("threshold"));
    p.cap = real(all.at("cap"));
    p.slack = real(all.at("slack"));
    p.block_length = whole(all.at("block_length"));
    demand(all.at("blocks").is_array());
    std::uint16_t used = 0;
    for (const json& block : all.at("blocks")) {
      demand(block.is_array() && !block.empty());
      for (const json& cell : block) {
        demand(used < 4);
        p.cells[used++] = real(cell);
      }
      p.ends[p.blocks++] = used;
    }
    p.check_values();
    return p;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Whatever a text is, it is refused with invalid_argument or gives a profile that may be used, as
// the other reader finds.
void read_anything(const std::string& text, int& taken, int& refused) {
  std::optional<calibrated_threshold<4>> p;
  try {
    p = profile_from_json<4>(text);
    ASSERT_EQ(profile_from_json<4>(to_json(*p)), p);
    ++taken;
  } catch (const std::invalid_argument& e) {
    ASSERT_NE(std::string{e.what()}, "");
    ++refused;
  }
  ASSERT_EQ(p, oracle(text));
}

TEST(profile_json, survives_damaged_texts) {
  int taken = 0;
  int refused = 0;
  for (std::size_t size = 0; size <= good.size(); ++size) {
    read_anything(good.substr(0, size), taken, refused);
  }
  const std::string alphabet = "{}[]\",:.-+eE0123456789 \n\t\\\0x\xff" + std::string(1, '\0');
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    std::string text = good;
    std::uint64_t h = made_up_model::hash(seed, 5);
    for (std::uint64_t edits = 1 + h % 3; edits > 0; --edits) {
      h = made_up_model::hash(h, edits);
      const std::size_t at = h % text.size();
      const char c = alphabet[(h >> 20U) % alphabet.size()];
      switch ((h >> 40U) % 4) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      case 2:
        text.erase(at, 1 + (h >> 50U) % 5);
        break;
      default:
        text.insert(at, text.substr(h % text.size(), (h >> 50U) % 40));
      }
      if (text.empty()) {
        text = "{";
      }
    }
    read_anything(text, taken, refused);
    if (HasFatalFailure()) {
      FAIL() << text;
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(refused, 5000);
}

TEST(profile_json, is_not_written_of_a_profile_that_cannot_be) {
  calibrated_threshold<4> p;
  p.cap = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(static_cast<void>(to_json(p)), std::invalid_argument);
}

TEST(profile_json, goes_through_a_file) {
  const std::string path = ::testing::TempDir() + "unmask_profile_test.json";
  const auto p = random_profile(13);
  save_profile(p, path);
  EXPECT_EQ(load_profile<16>(path), p);
  save_profile(random_profile(14), path);  // over the old one
  EXPECT_EQ(load_profile<16>(path), random_profile(14));
  try {
    static_cast<void>(load_profile<1>(path));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(std::string{e.what()}.rfind(path + ": profile, line", 0), 0U) << e.what();
  }
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_THROW(static_cast<void>(load_profile<16>(path)), std::runtime_error);
  EXPECT_THROW(save_profile(p, ::testing::TempDir() + "no/such/folder/profile.json"),
               std::runtime_error);
}

}  // namespace
}  // namespace unmask::testing::profile_json_test
