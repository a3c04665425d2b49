// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Profiles through the C interface are those of the library, and later decodes read their cells.

#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/presets/methods.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing::c_profiles_test {
namespace {

constexpr std::int32_t vocab = 32, length = 30, prompt = 2, block = 7;
const unmask::testing::fake_model model{.seed = 5, .vocab = vocab, .sharpness = 6.0};
constexpr unmask::sequence_shape shape{
    .prompt_length = prompt, .length = length, .block_length = block};

struct calibrator_end {
  void operator()(unmask_calibrator* c) const { unmask_calibrator_free(c); }
};
using calibrator_pointer = std::unique_ptr<unmask_calibrator, calibrator_end>;

calibrator_pointer calibrator_of(const char* policy, std::int32_t block_length = block) {
  unmask_calibrator* c = nullptr;
  EXPECT_EQ(unmask_calibrator_new(policy, block_length, &c), UNMASK_OK) << unmask_last_error();
  return calibrator_pointer(c);
}

std::vector<float>
rows_of(const std::vector<std::int32_t>& tokens, std::int32_t first, std::int32_t last) {
  std::vector<float> z(std::size_t(last - first) * vocab);
  for (std::int32_t r = first; r < last; ++r) {
    model.row<float>(tokens, r, std::span(z).subspan(std::size_t(r - first) * vocab, vocab));
  }
  return z;
}

/// The tokens of a decode, and its passes.
struct decoded {
  std::vector<std::int32_t> tokens;
  std::int32_t forwards = 0;
};

decoded decode(const std::string& policy, unmask_calibrator* calibrator = nullptr) {
  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = vocab;
  options.mask_token = vocab - 1;
  options.length = length;
  options.window = block;
  options.trace = 1;
  const session_pointer s = made(policy.c_str(), options);
  unmask_sequence sequence = UNMASK_SEQUENCE_INIT;
  sequence.prompt_length = prompt;
  sequence.length = length;
  sequence.block_length = block;
  decoded d{std::vector<std::int32_t>(length, 3)};
  EXPECT_EQ(unmask_start(s.get(), 0, d.tokens.data(), length, &sequence), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    const std::vector<float> z =
        rows_of(d.tokens, request.segments[0].row_first, request.segments[0].row_last);
    const unmask_logits logits = c_logits(z, vocab);
    EXPECT_EQ(unmask_supply(s.get(), &logits), UNMASK_OK) << unmask_last_error();
    if (calibrator != nullptr) {
      EXPECT_EQ(unmask_calibrator_observe(calibrator, s.get(), 0), UNMASK_OK)
          << unmask_last_error();
    }
    ++d.forwards;
  }
  return d;
}

/// The same in C++.
template <class Policy>
decoded decode(const Policy& policy, unmask::threshold_calibrator* calibrator = nullptr) {
  decoded d{std::vector<std::int32_t>(length, 3)};
  unmask::session<Policy> s({.vocab = vocab, .mask_token = vocab - 1},
                            {.length = length, .window = block, .trace = true});
  s.start(0, policy, d.tokens, shape);
  while (const auto request = s.next()) {
    const auto [first, last] = request->segments[0].rows;
    const std::vector<float> z = rows_of(d.tokens, first, last);
    s.supply(unmask::host_logits<float>(z.data(), request->rows, vocab));
    if (calibrator != nullptr) {
      calibrator->observe(s);
    }
    ++d.forwards;
  }
  return d;
}

TEST(c_profiles, are_those_of_the_library_and_later_decodes_read_their_cells) {
  struct setting {
    const char* text;
    unmask::calibrated_threshold<> rule;
  };
  unmask::calibrated_threshold<> by_step = unmask::methods::osdt_gpqa_settings<>;
  by_step.threshold = 0.5F;
  by_step.cap = 1.0F;
  by_step.recorded = unmask::collect::candidates;
  for (const auto& [text, rule] :
       {setting{"osdt_humaneval", unmask::methods::osdt_humaneval_settings<>},
        setting{"osdt_gpqa(threshold=0.5, cap=1, recorded=candidates)", by_step}}) {
    SCOPED_TRACE(text);
    const calibrator_pointer c = calibrator_of(text);
    unmask::threshold_calibrator recorder(shape, rule.recorded);
    const decoded first = decode(text, c.get());
    const decoded expected = decode(unmask::policy{unmask::by_confidence{}, rule}, &recorder);
    EXPECT_EQ(first.tokens, expected.tokens);
    const char* profile = nullptr;
    ASSERT_EQ(unmask_calibrator_profile(c.get(), &profile), UNMASK_OK) << unmask_last_error();
    const unmask::calibrated_threshold<> calibrated = recorder.calibrate(rule);
    EXPECT_EQ(profile, unmask::to_json(calibrated));
    EXPECT_EQ(calibrated.blocks, 4);

    const auto file = std::filesystem::temp_directory_path() / "unmask_c_profile.json";
    std::ofstream(file) << profile;
    const decoded later = decode("calibrated_threshold('" + file.string() + "')");
    const decoded same = decode(unmask::policy{unmask::by_confidence{}, calibrated});
    EXPECT_EQ(later.tokens, same.tokens);
    EXPECT_EQ(later.forwards, same.forwards);
    EXPECT_NE(later.forwards, first.forwards);  // the cells decide, not the static threshold
    std::filesystem::remove(file);
  }
}

TEST(c_profiles, without_a_recorded_step_have_no_blocks) {
  const calibrator_pointer c = calibrator_of("by_margin + osdt_gsm8k");
  const char* profile = nullptr;
  ASSERT_EQ(unmask_calibrator_profile(c.get(), &profile), UNMASK_OK);
  EXPECT_EQ(unmask::profile_from_json(profile), unmask::methods::osdt_gsm8k_settings<>);
}

TEST(c_profiles, say_what_is_wrong_with_a_call) {
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  unmask_calibrator* c = nullptr;
  expect_fails(unmask_calibrator_new(nullptr, 4, &c), bad, {"policy", "null"});
  expect_fails(unmask_calibrator_new("osdt_gsm8k", 0, &c), bad, {"block_length", "0"});
  expect_fails(unmask_calibrator_new("osdt_gsm8k", 4, nullptr), bad, {"calibrator", "null"});
  expect_fails(unmask_calibrator_new("threshold(0.9)", 4, &c),
               bad,
               {"policy", "calibrated_threshold", "threshold(0.9)"});
  expect_fails(unmask_calibrator_new("osdt_gsm8k('p.json')", 4, &c), bad, {"p.json"});
  EXPECT_EQ(c, nullptr);
  unmask_calibrator_free(nullptr);

  unmask_options options = UNMASK_OPTIONS_INIT;
  options.vocab = vocab;
  options.mask_token = vocab - 1;
  options.length = length;
  options.window = block;
  const session_pointer s = made("osdt_gsm8k", options);
  const calibrator_pointer candidates = calibrator_of("osdt_gsm8k(recorded=candidates)");
  expect_fails(unmask_calibrator_observe(nullptr, s.get(), 0), bad, {"calibrator", "null"});
  expect_fails(unmask_calibrator_observe(candidates.get(), nullptr, 0), bad, {"session", "null"});
  expect_fails(unmask_calibrator_observe(candidates.get(), s.get(), 9),
               UNMASK_OUT_OF_ORDER,
               {"unmask_options::trace"});
  const calibrator_pointer committed = calibrator_of("osdt_gsm8k");
  expect_fails(unmask_calibrator_observe(committed.get(), s.get(), 9), bad, {"slot", "9"});
  expect_fails(unmask_calibrator_profile(committed.get(), nullptr), bad, {"text", "null"});
  const char* text = nullptr;
  expect_fails(unmask_calibrator_profile(nullptr, &text), bad, {"calibrator", "null"});
}

}  // namespace
}  // namespace unmask::testing::c_profiles_test
