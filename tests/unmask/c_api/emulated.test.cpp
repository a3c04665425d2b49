// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C interface as a library built with a device serves it, with emulated kernels and a fake
// runtime: it decodes what it decodes on the host.

#include <unmask/c_api.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "c_api/device_session.hpp"
#include "support/fake_logits.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace example {

// In the place of device.cu, with fewer types.
std::unique_ptr<unmask::any_session> device_session(const unmask::named_parts& parts,
                                                    const unmask::model_info& model,
                                                    const unmask::session_capacity& capacity,
                                                    void* stream) {
  using few = unmask::compositions<unmask::edits_and({})>;
  return device_session_of<few>(parts, model, capacity, stream);
}

void fetch_tokens(const std::int32_t* from, std::int32_t* to, std::size_t count, void* stream) {
  copy_tokens(from, to, count, static_cast<cudaStream_t>(stream));
}

}  // namespace example

namespace unmask::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t vocab = 50;

struct destroy {
  void operator()(unmask_session* s) const { unmask_destroy(s); }
};
using session_pointer = std::unique_ptr<unmask_session, destroy>;

[[nodiscard]] unmask_options options_on(cudaStream_t stream) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.memory_space = stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE;
  o.stream = stream;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.sequences = 2;
  o.length = 14;
  o.window = 6;
  o.trace = 1;
  return o;
}

[[nodiscard]] session_pointer made(const char* policy, const unmask_options& o) {
  unmask_session* s = nullptr;
  EXPECT_EQ(unmask_create(policy, &o, &s), UNMASK_OK) << unmask_last_error();
  return session_pointer(s);
}

[[nodiscard]] unmask_logits
logits_in(const std::vector<float>& z, std::int32_t space, std::int32_t rows) {
  unmask_logits l = UNMASK_LOGITS_INIT;
  l.memory_space = space;
  l.rows = rows;
  l.columns = vocab;
  l.data = z.data();
  return l;
}

/// All results of a decode of two sequences.
[[nodiscard]] std::vector<std::vector<std::int32_t>> decoded(const char* policy,
                                                             cudaStream_t stream) {
  const session_pointer s = made(policy, options_on(stream));
  const fake_model model{.seed = 3, .vocab = vocab};
  std::vector<std::vector<std::int32_t>> said(2, std::vector<std::int32_t>(14, 4));
  std::vector<std::uint8_t> editable(14, 1);
  editable[9] = 0;
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.prompt_length = 2 + slot;
    q.length = 14;
    q.block_length = 6;
    q.editable = editable.data();
    EXPECT_EQ(unmask_start(s.get(), slot, said[std::size_t(slot)].data(), 14, &q), UNMASK_OK)
        << unmask_last_error();
  }
  said.emplace_back();
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    std::vector<float> z;
    for (std::int32_t k = 0; k < request.count; ++k) {
      const unmask_segment& g = request.segments[k];
      for (std::int32_t r = g.row_first; r < g.row_last; ++r) {
        z.resize(z.size() + std::size_t{vocab});
        model.row<float>(said[std::size_t(g.slot)], r, std::span(z).last(std::size_t{vocab}));
      }
    }
    const unmask_logits l =
        logits_in(z, stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE, request.rows);
    EXPECT_EQ(unmask_supply(s.get(), &l), UNMASK_OK) << unmask_last_error();
    for (std::int32_t slot = 0; slot < 2; ++slot) {  // waits, and the logits may go
      const unmask_candidate* entries = nullptr;
      std::int32_t count = 0;
      EXPECT_EQ(unmask_candidates(s.get(), slot, &entries, &count), UNMASK_OK);
      unmask_plan plan = UNMASK_PLAN_INIT;
      EXPECT_EQ(unmask_get_plan(s.get(), slot, &plan), UNMASK_OK);
      said[2].insert(said[2].end(),
                     {plan.winner, plan.freeze_first, plan.freeze_last, plan.refresh});
      for (std::int32_t i = 0; i < count; ++i) {
        said[2].insert(said[2].end(),
                       {entries[i].commit.position,
                        entries[i].commit.token,
                        entries[i].commit.committed,
                        entries[i].outcome,
                        entries[i].part,
                        std::bit_cast<std::int32_t>(entries[i].confidence),
                        std::bit_cast<std::int32_t>(entries[i].margin),
                        std::bit_cast<std::int32_t>(entries[i].entropy)});
      }
    }
  }
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    unmask_report report = UNMASK_REPORT_INIT;
    EXPECT_EQ(unmask_get_report(s.get(), slot, &report), UNMASK_OK);
    said.push_back({report.end, report.forwards, report.committed, report.committed_prefix});
    EXPECT_GT(report.forwards, 2);
  }
  return said;
}

TEST(CApiOnADevice, DecodesWhatItDecodesOnTheHost) {
  CUstream_st stream;
  const char* const policy = "by_margin + threshold(0.4) + trace_credit + temperature(0.9)";
  EXPECT_EQ(decoded(policy, &stream), decoded(policy, nullptr));
  EXPECT_TRUE(fake_cuda().alive.empty()) << "a session left memory behind";
}

TEST(CApiOnADevice, SuppliesWithoutWaiting) {
  CUstream_st stream;
  const session_pointer s = made("tokens_per_step(2)", options_on(&stream));
  std::vector<std::int32_t> tokens(6);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.block_length = 6;
  ASSERT_EQ(unmask_start(s.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * vocab, 0.5F);
  const unmask_logits l = logits_in(z, UNMASK_DEVICE, 6);
  const int waits = fake_cuda().waits;
  ASSERT_EQ(unmask_supply(s.get(), &l), UNMASK_OK);
  EXPECT_EQ(fake_cuda().waits, waits);
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  EXPECT_EQ(request.count, 1);
}

TEST(CApiOnADevice, DecidesOnceFromTokensAndLogits) {
  std::vector<float> z(6 * std::size_t{vocab}, 0.0F);
  z[0 * vocab + 2] = 9.0F;
  z[4 * vocab + 7] = 9.0F;
  CUstream_st stream;
  const std::int32_t mask = vocab - 1;
  for (const bool marked : {false, true}) {
    std::vector<std::vector<std::int32_t>> tokens(2, {mask, 3, mask, mask, mask, 5});
    std::vector<std::vector<std::uint8_t>> transfer(2, std::vector<std::uint8_t>(6, 7));
    const std::vector<std::uint8_t> editable = {0, 0, 1, 1, 1, 0};
    for (std::size_t k = 0; k < 2; ++k) {
      const session_pointer s = made("threshold(0.7)", options_on(k == 0 ? nullptr : &stream));
      const unmask_logits l = logits_in(z, k == 0 ? UNMASK_HOST : UNMASK_DEVICE, 6);
      ASSERT_EQ(unmask_decide(s.get(),
                              1,
                              tokens[k].data(),
                              6,
                              marked ? editable.data() : nullptr,
                              0,
                              &l,
                              transfer[k].data()),
                UNMASK_OK)
          << unmask_last_error();
    }
    EXPECT_EQ(tokens[1], tokens[0]);
    EXPECT_EQ(transfer[1], transfer[0]);
    EXPECT_EQ(transfer[0],
              (std::vector<std::uint8_t>{std::uint8_t(marked ? 0 : 1), 0, 0, 0, 1, 0}));
  }
}

TEST(CApiOnADevice, SaysWhatIsWrong) {
  CUstream_st stream;
  unmask_session* s = nullptr;
  unmask_options o = options_on(&stream);
  o.memory_space = UNMASK_HOST;
  EXPECT_EQ(unmask_create("tokens_per_step", &o, &s), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("options->stream must be null"));
  o = options_on(&stream);
  EXPECT_EQ(unmask_create("lookahead + tokens_per_step", &o, &s), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("not compiled by name"));
  const std::string file = ::testing::TempDir() + "unmask_c_api_on_a_device.jsonl";
  std::ofstream(file)
      << R"({"format":"unmask-trace/1","model":{"vocab":50,"mask":49},"sequences":)"
      << R"([{"shape":{"prompt_length":0,"length":1,"block_length":1},"tokens":[49]}]})" << '\n';
  const std::string replay = "replay('" + file + "')";
  EXPECT_EQ(unmask_check_policy(replay.c_str()), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(unmask_create(replay.c_str(), &o, &s), UNMASK_UNSUPPORTED);
  EXPECT_THAT(unmask_last_error(), HasSubstr("a replay"));
  std::remove(file.c_str());
  fake_cuda().calls_until_failure = 3;
  EXPECT_EQ(unmask_create("tokens_per_step", &o, &s), UNMASK_OUT_OF_MEMORY) << unmask_last_error();
  EXPECT_EQ(s, nullptr);
  EXPECT_TRUE(fake_cuda().alive.empty());

  const session_pointer there = made("tokens_per_step", o);
  std::vector<std::int32_t> tokens(6);
  unmask_sequence q = UNMASK_SEQUENCE_INIT;
  q.length = 6;
  q.block_length = 6;
  ASSERT_EQ(unmask_start(there.get(), 0, tokens.data(), 6, &q), UNMASK_OK);
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(there.get(), &request), UNMASK_OK);
  const std::vector<float> z(6 * vocab, 0.5F);
  const unmask_logits l = logits_in(z, UNMASK_HOST, 6);
  EXPECT_EQ(unmask_supply(there.get(), &l), UNMASK_INVALID_ARGUMENT);
  EXPECT_THAT(unmask_last_error(), HasSubstr("host"));
}

}  // namespace
}  // namespace unmask::testing
