// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/thread_pool.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/cuts.hpp"
#include "support/draws.hpp"
#include "support/ranks_decode.hpp"
#include "support/three_hold.hpp"

namespace unmask::testing::sharded_session_test {
namespace {

constexpr index_t chunk = canonical::chunk_columns;

/// Calls use(policy) for policies that between them use every statistic, tracked tokens, draws,
/// previous rows, branches, committed rows and a canvas.
void for_each_policy(index_t vocab, const auto& use) {
  const token_id high = vocab - 2;
  use(policy{by_confidence{}, threshold{0.7F}, stop_at_eos{}});
  use(policy{by_margin{}, tokens_per_step{2}, single_block{}});
  use(policy{by_entropy{}, entropy_bound{1.0F}, temperature{0.8F}});
  use(policy{by_confidence{}, threshold{0.6F}, trace_credit<8>{}});
  use(policy{by_margin{},
             threshold{0.6F},
             adaptive_credit<4>{},
             logit_bias<2>{{{1, 0.5F}, {high, 3.0F}}},
             repetition_penalty<4>{},
             probability_of<2>{{1, high}}});
  use(policy{by_confidence{}, tokens_per_step{1}, sampling{0.9F}});
  use(policy{by_confidence{}, tokens_per_step{2}, sampling{1.0F}, logit_bias<1>{{{high, 2.0F}}}});
  use(policy{left_to_right{}, adaptive_threshold{.start = 0.6F}});
  use(policy{by_confidence{}, stable_and_confident{.confidence = 0.4F}});
  use(policy{by_entropy{}, threshold{0.7F}, lookahead{.branches = 2}, block_pipeline{}});
  use(policy{by_confidence{}, threshold{0.5F}, edit_committed{0.6F}, edited_blocks{}});
  use(policy{by_confidence{}, three_hold{0.6F}, trace_credit<8>{}, lookahead{.branches = 2}});
  use(policy{by_margin{}, tokens_per_step{1}, drafts{.branches = 2}, dual_cache{}});
}

TEST(ranks_at_chunks, decide_bit_by_bit_what_one_session_decides) {
  dice d(1);
  for (const index_t vocab : {5, 2048, 3 * 2048 + 5}) {
    for_each_policy(vocab, [&](const auto& p) {
      const auto decode = fake_decode_of(p, vocab, d.bits());
      const outcome whole = decode.template whole<float>();
      for (index_t ranks = 1; ranks <= 8; ranks += d.within(1, 2)) {
        const auto cuts = random_cuts(d, vocab, ranks, chunk);
        const outcome parts = decode.template ranks<float>(cuts);
        ASSERT_EQ(parts.tokens, whole.tokens) << vocab << " tokens, " << ranks << " ranks";
        ASSERT_EQ(parts.said, whole.said);
      }
    });
  }
}

TEST(ranks_at_chunks, decide_the_same_by_an_all_reduce) {
  dice d(2);
  const index_t vocab = 6 * chunk + 300;
  for_each_policy(vocab, [&](const auto& p) {
    auto decode = fake_decode_of(p, vocab, d.bits());
    decode.sequences.resize(1);
    const auto cuts = chunk_cuts(vocab, 4);
    using kind = std::remove_cvref_t<decltype(decode)>;
    const outcome whole = decode.template whole<float>();
    const outcome parts = decode.template ranks<float>(cuts, kind::exchange::reduce);
    ASSERT_EQ(parts.tokens, whole.tokens);
    ASSERT_EQ(parts.said, whole.said);
  });
}

TEST(ranks_at_chunks, put_masks_guidance_and_shifted_rows_where_they_belong) {
  dice d(3);
  const index_t vocab = 3 * chunk + 77;
  auto decode =
      fake_decode_of(policy{by_confidence{}, threshold{0.5F}, trace_credit<8>{}}, vocab, d.bits());
  decode.allowed = 0.4;
  decode.guidance = 0.5F;
  decode.model.logits_shift = 1;
  const outcome whole = decode.whole<float16>();
  for (const index_t ranks : {2, 3, 4}) {
    const outcome parts = decode.ranks<float16>(random_cuts(d, vocab, ranks, chunk));
    EXPECT_EQ(parts.tokens, whole.tokens);
    EXPECT_EQ(parts.said, whole.said);
  }
}

TEST(ranks_at_chunks, agree_about_rows_with_nan_and_without_a_finite_logit) {
  dice d(4);
  const index_t vocab = 4 * chunk;
  const auto compare = [&](const auto& p) {
    auto decode = fake_decode_of(p, vocab, d.bits());
    decode.rows.trouble = {.nan_rows = 0.3, .empty_rows = 0.3, .infinite_rows = 0.2};
    const outcome whole = decode.template whole<float>();
    const outcome parts = decode.template ranks<float>(random_cuts(d, vocab, 5, chunk));
    EXPECT_EQ(parts.tokens, whole.tokens);
    EXPECT_EQ(parts.said, whole.said);
  };
  compare(policy{by_entropy{}, entropy_bound{1.0F}, temperature{0.8F}});
  compare(policy{by_confidence{}, tokens_per_step{2}, sampling{0.8F}});
}

TEST(ranks_at_chunks, agree_about_the_lowest_token_that_is_allowed) {
  const float ban = -std::numeric_limits<float>::infinity();
  dice d(14);
  const index_t vocab = 3 * chunk + 9;
  const auto compare = [&](const auto& p) {
    auto decode = fake_decode_of(p, vocab, d.bits());
    decode.rows.trouble = {.absent_columns = 0.5, .nan_rows = 0.1, .empty_rows = 0.5};
    for (const double allowed : {0.3, 0.0005}) {
      decode.allowed = allowed;
      const outcome whole = decode.template whole<float>();
      const outcome parts = decode.template ranks<float>(random_cuts(d, vocab, 3, chunk));
      EXPECT_EQ(parts.tokens, whole.tokens);
      EXPECT_EQ(parts.said, whole.said);
    }
  };
  for (int k = 0; k < 5; ++k) {
    compare(policy{by_confidence{}, tokens_per_step{2}, max_steps{}});
    compare(
        policy{by_confidence{}, tokens_per_step{2}, min_new_tokens{4}, logit_bias<1>{{{0, ban}}}});
    compare(policy{by_confidence{},
                   tokens_per_step{2},
                   allowed_tokens<6>{{1, 3, 4, 30, 2050, 6000}},
                   logit_bias<1>{{{1, ban}}}});
  }
}

TEST(ranks_at_chunks, share_their_nodes_among_threads) {
  host::thread_pool pool(3);
  dice d(5);
  const index_t vocab = 40 * chunk + 5;  // beyond host::parallel_logits
  auto decode =
      fake_decode_of(policy{by_confidence{}, threshold{0.3F}, trace_credit<8>{}}, vocab, d.bits());
  decode.sequences = {{.prompt_length = 1, .length = 17, .block_length = 16}};
  const outcome whole = decode.whole<bfloat16>();
  decode.threads = pool;
  const outcome parts = decode.ranks<bfloat16>(chunk_cuts(vocab, 2));
  EXPECT_EQ(parts.tokens, whole.tokens);
  EXPECT_EQ(parts.said, whole.said);
}

TEST(ranks_cut_anywhere, commit_the_same_tokens) {
  dice d(6);
  for (const index_t vocab : {5, 40, 2 * 2048 + 300}) {
    for_each_policy(vocab, [&](const auto& p) {
      if constexpr (!std::remove_cvref_t<decltype(p)>::required.contains(stat::sampled)) {
        const auto decode = fake_decode_of(p, vocab, d.bits());
        const outcome whole = decode.template whole<float>();
        for (index_t ranks = 2; ranks <= 8; ranks += d.within(1, 3)) {
          const outcome parts = decode.template ranks<float>(random_cuts(d, vocab, ranks, 1));
          ASSERT_EQ(parts.tokens, whole.tokens) << vocab << " tokens, " << ranks << " ranks";
          ASSERT_EQ(parts.forwards, whole.forwards);
        }
      }
    });
  }
}

TEST(ranks_cut_anywhere, draw_from_the_distribution_of_the_row) {
  const std::vector<float> z{0.5F, 2.0F, 1.0F, 0.0F, 1.5F, -0.5F, 2.5F, 0.2F, -30.0F};
  const model_info model = {.vocab = 9, .mask_token = 8};
  const policy p{by_confidence{}, tokens_per_step{1}, sampling{0.7F}};
  const index_t cuts[] = {0, 3, 4, 9};
  std::vector<sharded_session<std::remove_const_t<decltype(p)>>> ranks;
  for (index_t r = 0; r < 3; ++r) {
    ranks.emplace_back(model, session_capacity{.sequences = 1, .length = 1, .window = 1}, cuts, r);
  }
  const int draws = 5000;
  std::vector<double> counts(z.size(), 0.0);
  std::vector<token_id> token(1);
  for (int i = 0; i < draws; ++i) {
    std::vector<std::byte> all;
    for (auto& rank : ranks) {
      rank.start(0,
                 p,
                 tokens_view<memory::host>(token),
                 {.length = 1, .seed = static_cast<std::uint64_t>(i)});
      static_cast<void>(rank.next());
      const range columns = rank.columns();
      const auto message =
          rank.read_shard(host_logits<float>(z.data() + columns.first, 1, columns.size()));
      all.insert(all.end(), message.begin(), message.end());
    }
    for (auto& rank : ranks) {
      rank.supply(all);
    }
    ++counts[static_cast<std::size_t>(token[0])];
  }
  std::vector<double> expected = softmax({z.begin(), z.end() - 1}, 0.7);
  expected.push_back(0.0);
  expect_draws(counts, expected, draws);
}

TEST(ranks_of_a_vocabulary_of_one, decode_it) {
  auto decode = fake_decode_of(policy{by_confidence{}, tokens_per_step{1}, max_steps{3}}, 1, 1);
  decode.model = {.vocab = 1, .mask_token = 0, .suppress_mask = false};
  const outcome whole = decode.whole<float>();
  const outcome parts = decode.ranks<float>(chunk_cuts(1, 8));
  EXPECT_EQ(parts.tokens, whole.tokens);
  EXPECT_EQ(parts.said, whole.said);
}

TEST(ranks_with_a_branch_each, decide_bit_by_bit_what_one_session_decides) {
  const policy p{by_entropy{}, threshold{0.8F}, lookahead{.branches = 3}, block_pipeline{}};
  using kind = std::remove_const_t<decltype(p)>;
  auto decode = fake_decode_of(p, 50, 7);
  decode.branches = 3;
  const outcome whole = decode.whole<float>();
  const index_t cuts[] = {0, 50};
  std::vector<outcome> results(2);
  std::vector<sharded_session<kind>> sessions;
  for (std::size_t r = 0; r < 2; ++r) {
    sessions.emplace_back(decode.model, decode.capacity(), cuts, 0);
  }
  for (std::size_t r = 0; r < 2; ++r) {
    decode.start(sessions[r], results[r].tokens);
  }
  while (const auto request = sessions[0].next()) {
    static_cast<void>(sessions[1].next());
    const auto count = static_cast<index_t>(request->segments.size());
    std::vector<std::byte> all;
    for (index_t r = 0; r < 2; ++r) {
      const range mine = r == 0 ? range{0, count / 2} : range{count / 2, count};
      const auto logits = decode.forward<float>(*request, results[0].tokens, mine);
      const auto message = sessions[static_cast<std::size_t>(r)].read_shard(
          host_logits<float>(logits.data(), static_cast<index_t>(logits.size() / 50), 50),
          {},
          mine);
      all.insert(all.end(), message.begin(), message.end());
    }
    for (std::size_t r = 0; r < 2; ++r) {
      sessions[r].supply(all);
      decode.listen(sessions[r], 2, results[r]);
    }
  }
  for (const outcome& r : results) {
    EXPECT_EQ(r.tokens, whole.tokens);
    EXPECT_EQ(r.said, whole.said);
  }
}

TEST(cuts, at_chunks_are_even_and_those_of_an_engine_stop_at_its_padding) {
  EXPECT_EQ(chunk_cuts(5 * chunk - 3, 3), (std::vector<index_t>{0, 4096, 8192, 5 * chunk - 3}));
  EXPECT_EQ(chunk_cuts(10, 3), (std::vector<index_t>{0, 10, 10, 10}));
  EXPECT_EQ(padded_cuts(10, 4, 4), (std::vector<index_t>{0, 4, 8, 10, 10}));
  EXPECT_THROW(static_cast<void>(padded_cuts(10, 2, 4)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(chunk_cuts(0, 2)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(chunk_cuts(2, 0)), std::invalid_argument);
  EXPECT_EQ(chunk_cuts(max_vocab, 2), (std::vector<index_t>{0, max_vocab / 2, max_vocab}));
  EXPECT_THROW(static_cast<void>(chunk_cuts(0x7fffffff, 2)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(padded_cuts(0x7fffffff, 2, 1 << 30)), std::invalid_argument);
}

using plain = policy<by_confidence, threshold>;
constexpr model_info small = {.vocab = 6, .mask_token = 5};

[[nodiscard]] std::string complaint_about(const auto& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(sharded_session_errors, name_the_argument_its_value_and_the_rule) {
  const auto make = [](std::vector<index_t> cuts, index_t rank) {
    return complaint_about([&] {
      const sharded_session<plain> s(small, {.sequences = 1, .length = 4, .window = 4}, cuts, rank);
    });
  };
  EXPECT_EQ(make({0, 3, 6}, 1), "nothing");
  EXPECT_EQ(make({0}, 0), "number of cuts must be at least 2: {0, vocab}, got 1");
  EXPECT_EQ(make({1, 6}, 0), "the first cut must be 0, got 1");
  EXPECT_EQ(make({0, 5}, 0), "the last cut must be model_info::vocab = 6, got 5");
  EXPECT_EQ(make({0, 4, 3, 6}, 0), "a cut must be at least the one before, 4, got 3");
  EXPECT_EQ(make({0, 6}, 1), "rank must be in [0, number of shards = 1), got 1");
  using drawn = policy<by_confidence, tokens_per_step, sampling>;
  const index_t two[] = {0, 2, 6};
  EXPECT_EQ(complaint_about([&] {
              const sharded_session<drawn> s(
                  small, {.sequences = 1, .length = 4, .window = 4}, two, 0);
            }),
            "columns of a chunk that a cut leaves to one rank, where tokens are drawn, must be 1 "
            "or at least 3, got 2");
}

TEST(sharded_session, abandons_and_cancels_a_request) {
  const index_t cuts[] = {0, 6};
  const policy rules = plain{by_confidence{}, threshold{0.1F}};
  std::vector<token_id> tokens(4, 1);
  const tokens_view<memory::host> canvas(tokens);
  const sequence_shape shape{.prompt_length = 1, .length = 4, .block_length = 4};
  sharded_session<plain> s(small, {.sequences = 1, .length = 4, .window = 4}, cuts, 0);
  s.start(0, rules, canvas, shape);
  ASSERT_TRUE(s.next());
  s.abandon();
  ASSERT_TRUE(s.next());
  const std::vector<float> z(18, 1.0F);
  const host_logits<float> logits(z.data(), 3, 6);
  const auto message = s.read_shard(logits);
  const std::vector<std::byte> old(message.begin(), message.end());
  EXPECT_EQ(complaint_about([&] { s.abandon(); }),
            "abandon() after read_shard(): supply() the messages, or call cancel_request()");
  EXPECT_EQ(s.cancel_request().size(), 1U);
  EXPECT_EQ(s.report().end, ending::cancelled);
  EXPECT_FALSE(s.next());
  s.start(0, rules, canvas, shape);
  ASSERT_TRUE(s.next());
  EXPECT_NE(complaint_about([&] { s.supply(old); }), "");  // of the cancelled pass
  s.supply(s.read_shard(logits));
  EXPECT_EQ(s.report().forwards, 1);
}

TEST(sharded_session_errors, change_nothing) {
  const index_t cuts[] = {0, 3, 6};
  std::vector<sharded_session<plain>> members;
  std::vector<std::vector<token_id>> tokens(2, std::vector<token_id>(4, 1));
  for (std::size_t r = 0; r < 2; ++r) {
    members.emplace_back(small,
                         session_capacity{.sequences = 1, .length = 4, .window = 4},
                         cuts,
                         static_cast<index_t>(r));
    EXPECT_EQ(complaint_about([&] { members[r].supply({}); }),
              "supply() without a request: call next() first");
    members[r].start(0,
                     {by_confidence{}, threshold{0.1F}},
                     tokens_view<memory::host>(tokens[r]),
                     {.prompt_length = 1, .length = 4, .block_length = 4});
    static_cast<void>(members[r].next());
  }
  const std::vector<float> z{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const host_logits<float> logits(z.data(), 3, 3);
  EXPECT_EQ(complaint_about([&] {
              static_cast<void>(members[0].read_shard(host_logits<float>(z.data(), 2, 3)));
            }),
            "rows of the shard's logits must be those of the request's segments, 3, got 2");
  EXPECT_EQ(complaint_about([&] {
              static_cast<void>(members[0].read_shard(host_logits<float>(z.data(), 3, 2)));
            }),
            "columns of the shard's logits must be at least this rank's, 3, got 2");
  std::vector<std::byte> all;
  for (std::size_t r = 0; r < 2; ++r) {
    const auto message = members[r].read_shard(logits);
    all.insert(all.end(), message.begin(), message.end());
    EXPECT_EQ(complaint_about([&] { static_cast<void>(members[r].read_shard(logits)); }),
              "read_shard() twice in a step: supply() the messages first");
  }
  const std::size_t half = all.size() / 2;
  const auto refused = [&](std::vector<std::byte> bytes) {
    return complaint_about([&] { members[0].supply(bytes); });
  };
  EXPECT_EQ(refused({all.begin(), all.begin() + 5}),
            "bytes of the messages must be a multiple of message_bytes() = " +
                std::to_string(half) + ", got 5");
  EXPECT_EQ(refused({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(half)}),
            "columns that the messages have of a row must be all of the vocabulary, 6, got 3");
  EXPECT_EQ(refused({all.begin() + static_cast<std::ptrdiff_t>(half), all.end()}),
            "first column of a message must be where the messages before it end, 0, got 3");
  std::vector<std::byte> other = all;
  other[half] = std::byte{1};
  EXPECT_NE(refused(other).find("message 1 has other bytes"), std::string::npos);
  constexpr statistics contents = plain::required;
  const ranks::message_header h = ranks::header_of(all.data() + half);
  for (const token_id token : {2, 6, -1, 0x7ffffffe}) {  // the second rank has 3, 4 and 5
    other = all;
    std::byte* const at = other.data() + half + ranks::node_offset<contents>(h, 1, 0);
    auto sums = ranks::detail::load<record<contents>>(at);
    sums.token = token;
    ranks::detail::store(at, sums);
    EXPECT_NE(refused(other).find("records that name tokens of their own columns"),
              std::string::npos);
  }
  sharded_session<plain> stranger(
      small, session_capacity{.sequences = 1, .length = 4, .window = 4}, cuts, 1);
  std::vector<token_id> elsewhere(4, 1);
  stranger.start(0,
                 {by_confidence{}, threshold{0.1F}},
                 tokens_view<memory::host>(elsewhere),
                 {.prompt_length = 1, .length = 4, .block_length = 4, .seed = 7});
  static_cast<void>(stranger.next());
  const auto strange = stranger.read_shard(logits);
  other = all;
  std::copy(strange.begin(), strange.end(), other.begin() + static_cast<std::ptrdiff_t>(half));
  EXPECT_NE(refused(other).find("message 1 differs"), std::string::npos);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(tokens[r], (std::vector<token_id>{1, 5, 5, 5}));
    members[r].supply(all);
    EXPECT_EQ(members[r].report().committed, 3);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

}  // namespace
}  // namespace unmask::testing::sharded_session_test
