// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions of the C interface on a device: they decode what they decode on the host, profiles of
// OSDT and a policy for each sequence included.

#include <unmask/c_api.h>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/presets/methods.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "support/c_calls.hpp"
#include "support/fake_logits.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {
namespace {

constexpr std::int32_t vocab = 50;
constexpr std::int32_t length = 14;

class CApiOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) {
      GTEST_SKIP() << "there is no CUDA device";
    }
  }
};

/// A decode of two sequences: its tokens, its commits and its reports.
struct decode {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<std::int32_t>> commits;  ///< a line for each entry
  std::vector<std::vector<std::int32_t>> reports;

  bool operator==(const decode&) const = default;
};

/// Decodes with a policy of the session and, if it is one, another of the second sequence.
[[nodiscard]] decode decoded(const char* policy, const char* other, cudaStream_t stream) {
  const bool on_device = stream != nullptr;
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.memory_space = on_device ? UNMASK_DEVICE : UNMASK_HOST;
  o.stream = stream;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.sequences = 2;
  o.length = length;
  o.window = 6;
  const session_pointer s = made(policy, o);
  const fake_model model{.seed = 3, .vocab = vocab};
  decode d{
      .tokens = std::vector(2, std::vector<std::int32_t>(length, 4)), .commits = {}, .reports = {}};
  const device_array<std::int32_t> there[] = {device_array<std::int32_t>(d.tokens[0]),
                                              device_array<std::int32_t>(d.tokens[1])};
  const auto fetch = [&] {
    for (std::size_t slot = 0; on_device && slot < 2; ++slot) {
      d.tokens[slot] = there[slot].to_host();
    }
  };
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    const auto at = static_cast<std::size_t>(slot);
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.prompt_length = 2;
    q.length = length;
    q.block_length = 6;
    q.policy = slot == 1 ? other : nullptr;
    std::int32_t* const tokens = on_device ? there[at].data() : d.tokens[at].data();
    EXPECT_EQ(unmask_start(s.get(), slot, tokens, length, &q), UNMASK_OK) << unmask_last_error();
  }
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    fetch();
    std::vector<float> z;
    for (std::int32_t k = 0; k < request.count; ++k) {
      const unmask_segment& g = request.segments[k];
      for (std::int32_t r = g.row_first; r < g.row_last; ++r) {
        z.resize(z.size() + std::size_t{vocab});
        model.row<float>(d.tokens[std::size_t(g.slot)], r, std::span(z).last(std::size_t{vocab}));
      }
    }
    const device_array<float> rows(z);
    unmask_logits l = c_logits(z, vocab);
    if (on_device) {
      l.memory_space = UNMASK_DEVICE;
      l.data = rows.data();
    }
    EXPECT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    for (std::int32_t slot = 0; slot < 2; ++slot) {  // waits, and the logits may go
      const unmask_commit* entries = nullptr;
      std::int32_t count = 0;
      EXPECT_EQ(unmask_committed(s.get(), slot, sizeof(unmask_commit), &entries, &count), UNMASK_OK)
          << unmask_last_error();
      for (std::int32_t i = 0; i < count; ++i) {
        d.commits.push_back({slot,
                             entries[i].position,
                             entries[i].token,
                             std::bit_cast<std::int32_t>(entries[i].log_probability)});
      }
    }
  }
  fetch();
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_report report = UNMASK_REPORT_INIT;
    EXPECT_EQ(unmask_get_report(s.get(), slot, &report), UNMASK_OK);
    d.reports.push_back({report.end, report.forwards, report.committed, report.committed_prefix});
  }
  return d;
}

TEST_F(CApiOnDevice, DecodesWhatItDecodesOnTheHost) {
  const test_stream stream;
  for (const char* const policy : {"by_margin + threshold(0.4) + trace_credit + temperature(0.9)",
                                   "threshold(0.4) + remask_below(0.2) + sampling(0.9)"}) {
    SCOPED_TRACE(policy);
    const decode host = decoded(policy, nullptr, nullptr);
    EXPECT_EQ(decoded(policy, nullptr, stream.get()), host);
    EXPECT_GT(host.reports[0][1], 2);
  }
}

TEST_F(CApiOnDevice, HasAPolicyForEachSequence) {
  const test_stream stream;
  const decode host = decoded("threshold(0.4)", "by_margin + tokens_per_step(3)", nullptr);
  EXPECT_EQ(decoded("threshold(0.4)", "by_margin + tokens_per_step(3)", stream.get()), host);
  EXPECT_EQ(host.reports[1][1], 4) << "12 tokens, three in each pass";
}

// The thresholds of a profile come to the device with the policy's value.
TEST_F(CApiOnDevice, ReadsAProfileByTheRuleOfOsdt) {
  const test_stream stream;
  calibrated_threshold<> profile = methods::osdt_gpqa_settings<256>;
  profile.block_length = 6;
  profile.blocks = 2;
  profile.ends[0] = 2;
  profile.ends[1] = 3;
  profile.cells[0] = 0.7F;
  profile.cells[1] = 0.25F;
  profile.cells[2] = 0.5F;
  const std::string file = ::testing::TempDir() + "unmask_profile_on_a_device.json";
  save_profile(profile, file);
  const std::string policy = "osdt_gpqa('" + file + "')";
  const decode host = decoded(policy.c_str(), "osdt_gpqa(threshold=0.9)", nullptr);
  EXPECT_EQ(decoded(policy.c_str(), "osdt_gpqa(threshold=0.9)", stream.get()), host);
  EXPECT_NE(host.reports[0][1], host.reports[1][1]) << "the profile decides nothing";
  std::remove(file.c_str());
}

}  // namespace
}  // namespace unmask::testing
