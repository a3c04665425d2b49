// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several ranks on streams, with emulated kernels, beside ranks on the host and one session there.

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "support/cuts.hpp"
#include "support/ranks_on_stream.hpp"
#include "unmask/device/emulated_launches.hpp"
#include "unmask/device/policies.hpp"

namespace unmask::testing::emulated_ranks_test {
namespace {

constexpr index_t chunk = canonical::chunk_columns;

/// Calls use(policy) for policies that between them use every statistic, tracked tokens, draws,
/// previous rows, branches, committed rows and edits.
void for_each_policy(const auto& use) {
  use(sure_ones);
  use(in_steps);
  use(bounded);
  use(credited);
  use(drawn_edited);
  use(stable);
  use(branching_out);
  use(rewriting);
  use(asking);
}

TEST(EmulatedRanks, DecideBitByBitWhatOneSessionDecides) {
  dice d(1);
  for_each_policy([&](const auto& p) {
    for (const index_t vocab : {33, 2 * chunk + 5}) {
      const auto decode = fake_decode_of(p, vocab, d.bits());
      const auto cuts = random_cuts(d, vocab, d.within(1, 4), chunk);
      expect_ranks_on_stream_equal<float>(decode, cuts, decode.template whole<float>());
    }
  });
}

TEST(EmulatedRanks, CutInsideAChunkDecideBitByBitWhatRanksOnTheHostDo) {
  dice d(2);
  for_each_policy([&](const auto& p) {
    if constexpr (!std::remove_cvref_t<decltype(p)>::required.contains(stat::sampled)) {
      const index_t vocab = d.one_of(std::vector<index_t>{40, chunk + 300});
      const auto decode = fake_decode_of(p, vocab, d.bits());
      const auto cuts = random_cuts(d, vocab, 3, 1);
      expect_ranks_on_stream_equal<float>(decode, cuts, decode.template ranks<float>(cuts));
    }
  });
}

TEST(EmulatedRanks, ShareNodesOfSeveralRunsAmongBlocks) {
  dice d(3);
  const index_t vocab = 37 * chunk + 77;
  auto decode = fake_decode_of(credited, vocab, d.bits());
  decode.sequences = {{.prompt_length = 1, .length = 4, .block_length = 3}};
  const outcome whole = decode.whole<bfloat16>();
  // The second rank has nodes of 8, 16 and 6 chunks, each of several runs where there are many
  // multiprocessors.
  const index_t cuts[] = {0, 8 * chunk, vocab};
  for (const int multiprocessors : {1, 132}) {
    fake_cuda().multiprocessors = multiprocessors;
    expect_ranks_on_stream_equal<bfloat16>(decode, cuts, whole);
  }
  fake_cuda().multiprocessors = 1;
}

TEST(EmulatedRanks, PutMasksGuidanceAndShiftedRowsWhereTheyBelong) {
  dice d(4);
  const index_t vocab = chunk + 77;
  auto decode = fake_decode_of(credited, vocab, d.bits());
  decode.allowed = 0.4;
  decode.guidance = 0.5F;
  decode.model.logits_shift = 1;
  expect_ranks_on_stream_equal<float16>(decode, chunk_cuts(vocab, 2), decode.whole<float16>());
}

TEST(EmulatedRanks, AgreeAboutRowsWithNanAndWithoutAFiniteLogit) {
  dice d(5);
  const index_t vocab = 2 * chunk;
  auto decode = fake_decode_of(drawn_edited, vocab, d.bits());
  decode.rows.trouble = {.nan_rows = 0.3, .empty_rows = 0.3, .infinite_rows = 0.2};
  const auto cuts = random_cuts(d, vocab, 3, chunk);
  expect_ranks_on_stream_equal<float>(decode, cuts, decode.whole<float>());
}

TEST(EmulatedRanks, AgreeAboutTheLowestTokenThatIsAllowed) {
  const float ban = -std::numeric_limits<float>::infinity();
  dice d(15);
  const index_t vocab = 2 * chunk;
  auto decode = fake_decode_of(policy{by_confidence{},
                                      tokens_per_step{2},
                                      allowed_tokens<6>{{1, 3, 4, 30, 2050, 4000}},
                                      logit_bias<1>{{{1, ban}}}},
                               vocab,
                               d.bits());
  decode.rows.trouble = {.absent_columns = 0.5, .nan_rows = 0.1, .empty_rows = 0.5};
  for (const double allowed : {0.3, 0.001}) {
    decode.allowed = allowed;
    const auto cuts = random_cuts(d, vocab, 2, chunk);
    expect_ranks_on_stream_equal<float>(decode, cuts, decode.whole<float>());
  }
}

TEST(EmulatedRanks, WithMoreSegmentsThanABatchHoldsReadThemAll) {
  auto decode = fake_decode_of(sure_ones, 16, 6);
  decode.sequences.assign(device::row_batch::capacity + 3, {.length = 1});
  const auto cuts = padded_cuts(16, 2, 8);
  expect_ranks_on_stream_equal<float>(decode, cuts, decode.ranks<float>(cuts));
}

using one_rank = ranks_on_stream<float, std::remove_const_t<decltype(sure_ones)>>;

TEST(EmulatedRanks, AStepIsThreeLaunchesAndWaitsForNothing) {
  const test_stream stream;
  const index_t cuts[] = {0, 40};
  one_rank one(fake_decode_of(sure_ones, 40, 7), cuts, stream.get());
  const auto request = one.rank(0).next();
  const int waits = fake_cuda().waits;
  const std::vector<float> z(static_cast<std::size_t>(request->rows) * 40, 0.5F);
  const device_array<float> logits(z);
  const auto calls = fake_cuda().calls;
  const auto mine = one.rank(0).read_shard(device_logits<float>(logits.data(), request->rows, 40));
  one.rank(0).supply(mine);
  auto expected = calls;
  expected["launch"] += 3;
  EXPECT_EQ(fake_cuda().calls, expected);
  EXPECT_EQ(fake_cuda().waits, waits);
  EXPECT_EQ(one.rank(0).report().forwards, 1);
}

TEST(EmulatedRanks, ReplayACapturedStep) {
  // As ranks with a stream each: a step of both, from the forward pass to the decisions, is
  // captured once for each block and replayed until other rows are needed.
  constexpr policy one_by_one{by_confidence{}, threshold{1.0F}};  // commits none
  auto decode = fake_decode_of(one_by_one, 40, 8);
  decode.sequences = {{.prompt_length = 0, .length = 12, .block_length = 4}};
  const index_t cuts[] = {0, 25, 40};
  const outcome expected = decode.ranks<float>(cuts);
  test_stream stream;
  ranks_on_stream<float, std::remove_const_t<decltype(one_by_one)>> both(
      decode, cuts, stream.get());
  int captures = 0;
  while (const auto request = both.rank(0).next()) {
    ASSERT_LT(captures++, 3) << "one graph for each block is enough";
    static_cast<void>(both.rank(1).next());
    const std::vector<segment> wanted(request->segments.begin(), request->segments.end());
    const index_t rows = request->rows;
    std::vector<std::vector<float>> z(2);
    for (std::size_t r = 0; r < 2; ++r) {
      const range columns = both.rank(r).columns();
      z[r].resize(static_cast<std::size_t>(rows * (columns.size() + 5)));
    }
    const captured_calls step(stream.get(), [&] {
      fake_enqueue(stream.get(), [&] {
        const auto logits = decode.template forward<float>({wanted, rows}, both.tokens(0));
        for (std::size_t r = 0; r < 2; ++r) {
          const auto mine = decode.template cut_out<float>(logits, both.rank(r).columns());
          std::copy(mine.begin(), mine.end(), z[r].begin());
        }
      });
      for (std::size_t r = 0; r < 2; ++r) {
        const index_t columns = both.rank(r).columns().size();
        both.gather(
            r,
            both.rank(r).read_shard(device_logits<float>(z[r].data(), rows, columns, columns + 5)));
      }
      for (std::size_t r = 0; r < 2; ++r) {
        both.rank(r).supply(both.everyone());
      }
    });
    step.replay(7);  // three of them too many
    EXPECT_EQ(both.rank(0).report().forwards, 4 * captures);
  }
  EXPECT_EQ(captures, 3);
  EXPECT_EQ(both.tokens(0), expected.tokens);
  EXPECT_EQ(both.tokens(1), expected.tokens);
}

TEST(EmulatedRanks, WithABranchEachDecideBitByBitWhatOneSessionDecides) {
  auto decode = fake_decode_of(branching_out, 50, 9);
  const outcome whole = decode.whole<float>();
  const test_stream stream;
  const index_t cuts[] = {0, 50, 50};  // two of them, the second of which has no columns
  const index_t all[] = {0, 50};
  ranks_on_stream<float, std::remove_const_t<decltype(branching_out)>> wide(
      decode, cuts, stream.get());
  ranks_on_stream<float, std::remove_const_t<decltype(branching_out)>> one(
      decode, all, stream.get());
  ranks_on_stream<float, std::remove_const_t<decltype(branching_out)>> two(
      decode, all, stream.get());
  const std::size_t bytes = one.rank(0).most_bytes();
  const device_array<std::byte> everyone(2 * bytes);
  outcome heard;
  while (const auto request = one.rank(0).next()) {
    static_cast<void>(two.rank(0).next());
    const auto count = static_cast<index_t>(request->segments.size());
    std::vector<std::vector<float>> z;
    for (const range mine : {range{0, count / 2}, range{count / 2, count}}) {
      auto& rank = z.empty() ? one.rank(0) : two.rank(0);
      z.push_back(decode.template forward<float>(*request, one.tokens(0), mine));
      const auto rows = static_cast<index_t>(z.back().size() / 50);
      const auto message =
          rank.read_shard(device_logits<float>(z.back().data(), rows, 50), {}, mine);
      cudaMemcpyAsync(everyone.data() + (z.size() - 1) * bytes,
                      message.data(),
                      bytes,
                      cudaMemcpyDeviceToDevice,
                      stream.get());
    }
    one.rank(0).supply({everyone.data(), 2 * bytes});
    two.rank(0).supply({everyone.data(), 2 * bytes});
    decode.listen(one.rank(0), 2, heard);
    static_cast<void>(two.rank(0).report());  // so that the logits may go
  }
  EXPECT_FALSE(two.rank(0).next().has_value());
  EXPECT_EQ(one.tokens(0), whole.tokens);
  EXPECT_EQ(two.tokens(0), whole.tokens);
  EXPECT_EQ(heard.said, whole.said);
  EXPECT_EQ(wide.decode().tokens, whole.tokens);
}

[[nodiscard]] std::string complaint_about(const auto& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(EmulatedRanks, MessagesThatDoNotGoTogetherAreFoundByNextAndChangeNothing) {
  const test_stream stream;
  const auto decode = fake_decode_of(sure_ones, 40, 10);
  const index_t cuts[] = {0, 15, 40};
  one_rank both(decode, cuts, stream.get());
  const auto before = [&] { return both.tokens(0); };
  auto request = both.rank(0).next();
  static_cast<void>(both.rank(1).next());
  const auto masked = before();
  const std::size_t bytes = both.rank(0).message_bytes();
  // Message of the error for `spoilt` messages.
  const auto refused = [&](const ranks::device_messages& spoilt) {
    both.rank(0).supply(spoilt);
    const std::string said = complaint_about([&] { static_cast<void>(both.rank(0).next()); });
    EXPECT_EQ(before(), masked);
    EXPECT_EQ(both.rank(0).report().forwards, 0);
    request = both.rank(0).next();  // out again
    EXPECT_TRUE(request.has_value());
    return said;
  };
  // Copies the messages of both ranks, once they are there.
  const device_array<std::byte> all(2 * bytes);
  const auto read = [&] {
    both.read(*request);
    static_cast<void>(both.rank(0).report());
    cudaMemcpy(all.data(), both.everyone().data(), 2 * bytes, cudaMemcpyDeviceToDevice);
  };
  read();
  EXPECT_EQ(complaint_about([&] { both.rank(0).supply({all.data(), 5}); }),
            "bytes of the messages must be a multiple of message_bytes() = " +
                std::to_string(bytes) + ", got 5");
  EXPECT_NE(complaint_about([&] {
              both.rank(0).supply({all.data() + 1, bytes});
            }).find("must be a multiple of 4"),
            std::string::npos);
  EXPECT_EQ(refused({all.data(), bytes}),
            "columns that the messages have of a row must be all of the vocabulary, 40, got 15");
  EXPECT_EQ(refused({all.data() + bytes, bytes}),
            "first column of a message must be where the messages before it end, 0, got 15");
  constexpr statistics contents = std::remove_const_t<decltype(sure_ones)>::required;
  const ranks::message_header h = ranks::header_of(all.data() + bytes);
  std::byte* const second = all.data() + bytes + ranks::node_offset<contents>(h, 0, 0);
  const auto sums = ranks::detail::load<record<contents>>(second);
  auto damaged = sums;
  damaged.token = 14;  // of the first rank's columns
  ranks::detail::store(second, damaged);
  EXPECT_NE(refused({all.data(), 2 * bytes}).find("records that name tokens of their own columns"),
            std::string::npos);
  ranks::detail::store(second, sums);
  all.data()[bytes] = std::byte{1};
  EXPECT_NE(refused({all.data(), 2 * bytes}).find("message 1 has other bytes"), std::string::npos);
  // The others had the right bytes, and go on; so does this rank once it has them, too.
  both.rank(1).supply(both.everyone());
  EXPECT_EQ(both.rank(1).report().forwards, 1);
  const auto logits = decode.forward<float>(*request, both.tokens(0));
  const auto columns = decode.cut_out<float>(logits, both.rank(0).columns());
  static_cast<void>(
      both.rank(0).read_shard(device_logits<float>(columns.data(), request->rows, 15, 20)));
  EXPECT_NE(complaint_about([&] {
              static_cast<void>(both.rank(0).read_shard(
                  device_logits<float>(columns.data(), request->rows, 15, 20)));
            }).find("twice in a step"),
            std::string::npos);
  both.rank(0).supply(both.everyone());
  EXPECT_EQ(both.rank(0).report().forwards, 1);
  EXPECT_EQ(both.tokens(0), both.tokens(1));
}

TEST(EmulatedRanks, NothingLeaksWhenAnyCallOfTheirConstructionFails) {
  using session_type = sharded_session<std::remove_const_t<decltype(credited)>, on_stream>;
  const index_t cuts[] = {0, 9, 16};
  int failures = 0;
  for (int call = 1;; ++call) {
    fake_cuda().calls_until_failure = call;
    try {
      const session_type s(
          {.vocab = 16, .mask_token = 15}, {.sequences = 2, .length = 6, .window = 6}, cuts, 1);
      fake_cuda().calls_until_failure = -1;
      break;
    } catch (const cuda_error& e) {
      ++failures;
    }
    EXPECT_TRUE(fake_cuda().alive.empty());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    fake_drain(nullptr);
  }
  EXPECT_GE(failures, 13);
  EXPECT_TRUE(fake_cuda().alive.empty());
}

}  // namespace
}  // namespace unmask::testing::emulated_ranks_test
