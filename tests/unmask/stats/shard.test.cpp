// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/host/read_row.hpp>
#include <unmask/ranks/message.hpp>
#include <unmask/ranks/shard.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/cuts.hpp"

namespace unmask::testing::shard_test {
namespace {

using ::testing::ElementsAre;
using cut_list = std::vector<index_t>;
using node_list = std::vector<std::pair<index_t, index_t>>;
constexpr index_t chunk = canonical::chunk_columns;
constexpr statistics everything =
    stat::margin | stat::entropy | stat::sampled | stat::drift | stat::divergence | stat::top3_mass;

/// The nodes of a shard, in chunks where they are whole.
[[nodiscard]] node_list nodes(range columns, index_t vocab) {
  node_list list;
  while (!columns.empty()) {
    const range node = ranks::first_node(columns, vocab);
    list.emplace_back(node.first, node.last);
    columns.first = node.last;
  }
  return list;
}

TEST(shard_nodes, are_the_largest_aligned_runs_of_chunks) {
  const index_t vocab = 20 * chunk;
  EXPECT_THAT(nodes({0, 8 * chunk}, vocab), ElementsAre(std::pair(0, 8 * chunk)));
  EXPECT_THAT(nodes({3 * chunk, 11 * chunk}, vocab),
              ElementsAre(std::pair(3 * chunk, 4 * chunk),
                          std::pair(4 * chunk, 8 * chunk),
                          std::pair(8 * chunk, 10 * chunk),
                          std::pair(10 * chunk, 11 * chunk)));
}

TEST(shard_nodes, at_the_end_of_the_vocabulary_are_runs_that_it_cuts_short) {
  const index_t vocab = 13 * chunk + 7;
  EXPECT_THAT(nodes({0, vocab}, vocab), ElementsAre(std::pair(0, vocab)));
  EXPECT_THAT(nodes({8 * chunk, vocab}, vocab), ElementsAre(std::pair(8 * chunk, vocab)));
  EXPECT_THAT(nodes({6 * chunk, vocab}, vocab),
              ElementsAre(std::pair(6 * chunk, 8 * chunk), std::pair(8 * chunk, vocab)));
  EXPECT_THAT(nodes({13 * chunk, vocab}, vocab), ElementsAre(std::pair(13 * chunk, vocab)));
}

TEST(shard_nodes, of_cut_chunks_are_pieces) {
  EXPECT_THAT(nodes({5, 2 * chunk + 9}, 4 * chunk),
              ElementsAre(std::pair(5, chunk),
                          std::pair(chunk, 2 * chunk),
                          std::pair(2 * chunk, 2 * chunk + 9)));
  EXPECT_THAT(nodes({5, 9}, 4 * chunk), ElementsAre(std::pair(5, 9)));
  EXPECT_THAT(nodes({5, 9}, 9), ElementsAre(std::pair(5, 9)));
}

TEST(shard_nodes, of_the_largest_vocabulary_fit_their_bound) {
  const index_t most = 0x7fffffff;
  EXPECT_EQ(ranks::nodes_of({0, most}, most), 1);
  EXPECT_LE(ranks::nodes_of({1, most - 1}, most), ranks::max_nodes);
  EXPECT_GE(ranks::nodes_of({1, most - 1}, most), 40);  // the bound is nearly reached
  EXPECT_EQ(ranks::nodes_of({7, 7}, most), 0);
}

TEST(shard_nodes, of_neighbours_put_together_are_those_of_their_union) {
  dice d(1);
  for (int round = 0; round < 2000; ++round) {
    const index_t vocab = d.within(1, 40 * chunk);
    cut_list at = random_cuts(d, vocab, 4, d.chance(0.5) ? chunk : 1);
    ranks::node_stack<stat::none> sum{vocab};
    for (std::size_t k = 1; k + 2 < at.size(); ++k) {
      for (const auto& [first, last] : nodes({at[k], at[k + 1]}, vocab)) {
        sum.push({first, last}, record<stat::none>::empty());
      }
    }
    const range both{at[1], at[3]};
    ASSERT_EQ(sum.size(), ranks::nodes_of(both, vocab)) << both.first << " " << both.last;
  }
}

/// One row, read by shards, and what the reads leave of it.
template <statistics S>
struct sharded_row {
  std::vector<float> logits;
  std::vector<float> before;
  draw_request draw{.key = {.seed = 3, .sequence = 1, .step = 2, .position = 5}};
  host::instruction_set level = host::best_instruction_set();

  [[nodiscard]] index_t vocab() const { return static_cast<index_t>(logits.size()); }

  [[nodiscard]] record<S> read(range columns) {
    row_input<float> in;
    in.logits = logits.data() + columns.first;
    in.columns = columns.size();
    in.first_token = columns.first;
    in.draw = draw;
    if constexpr (canonical::compares<S>) {
      kept.assign(before.begin() + columns.first, before.begin() + columns.last);
      in.previous = kept.data();
      in.before = {.seen = true, .best = 2.0F, .log_total = 3.0F, .square = 1.5F};
    }
    return host::read_row<S>(in, identity{}, level);
  }

  /// The nodes of a shard as a stack.
  [[nodiscard]] ranks::node_stack<S> shard(range columns) {
    ranks::node_stack<S> sum{vocab()};
    for (const auto& [first, last] : nodes(columns, vocab())) {
      sum.push({first, last}, read({first, last}));
    }
    return sum;
  }

  std::vector<float> kept = {};
};

template <statistics S>
void push_all(ranks::node_stack<S>& sum, const ranks::node_stack<S>& other, index_t vocab) {
  range rest = other.columns();
  for (index_t k = 0; k < other.size(); ++k) {
    const range node = ranks::first_node(rest, vocab);
    sum.push(node, other[k]);
    rest.first = node.last;
  }
}

/// Merges neighbours, any two at a time, until one is left.
template <statistics S>
[[nodiscard]] record<S>
merged_in_random_order(dice& d, std::vector<ranks::node_stack<S>> parts, index_t vocab) {
  while (parts.size() > 1) {
    const auto k = static_cast<std::size_t>(d.within(0, static_cast<index_t>(parts.size()) - 2));
    ranks::node_stack<S> both{vocab};
    push_all(both, parts[k], vocab);
    push_all(both, parts[k + 1], vocab);
    parts[k] = both;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k) + 1);
  }
  EXPECT_TRUE(parts[0].complete());
  return parts[0][0];
}

template <statistics S>
[[nodiscard]] std::vector<ranks::node_stack<S>> shards_of(sharded_row<S>& row,
                                                          const cut_list& cuts) {
  std::vector<ranks::node_stack<S>> parts;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    parts.push_back(row.shard({cuts[r], cuts[r + 1]}));
  }
  return parts;
}

constexpr index_t sizes[] = {1, 2, 63, 2047, 2048, 2049, 5 * 2048 + 17, 13 * 2048, 21 * 2048 + 1};

template <statistics S>
void expect_equal_bits_of_shards(std::uint64_t seed) {
  dice d(seed);
  for (const scene kind : every_scene) {
    for (const index_t vocab : sizes) {
      sharded_row<S> row{hard_row<float>(kind, vocab, d.bits()),
                         hard_row<float>(scene::ordinary, vocab, d.bits())};
      const record<S> whole = row.read({0, vocab});
      for (index_t ranks = 1; ranks <= 8; ++ranks) {
        const cut_list cuts = random_cuts(d, vocab, ranks, chunk);
        const record<S> merged = merged_in_random_order(d, shards_of(row, cuts), vocab);
        ASSERT_TRUE(same_bits(merged, whole)) << "scene " << static_cast<int>(kind) << ", " << vocab
                                              << " columns, " << ranks << " ranks";
      }
    }
  }
}

TEST(shards_at_chunks, have_the_bits_of_the_row_for_any_order_of_merging) {
  expect_equal_bits_of_shards<everything>(2);
}
TEST(shards_at_chunks, have_the_bits_of_the_row_for_every_set_of_statistics) {
  expect_equal_bits_of_shards<stat::none>(3);
  expect_equal_bits_of_shards<stat::confidence>(4);
  expect_equal_bits_of_shards<stat::margin>(5);
  expect_equal_bits_of_shards<stat::entropy>(6);
  expect_equal_bits_of_shards<stat::second_moment>(7);
  expect_equal_bits_of_shards<stat::sampled>(8);
  expect_equal_bits_of_shards<stat::drift>(9);
  expect_equal_bits_of_shards<stat::divergence>(10);
  expect_equal_bits_of_shards<stat::top3_mass>(14);
}

TEST(shards_anywhere, agree_with_extended_precision) {
  dice d(11);
  for (const scene kind : finite_scenes) {
    for (const index_t vocab : sizes) {
      sharded_row<every_sum> row{hard_row<float>(kind, vocab, d.bits()), {}};
      for (index_t ranks = 2; ranks <= 8; ++ranks) {
        const cut_list cuts = random_cuts(d, vocab, ranks, 1);
        expect_close(merged_in_random_order(d, shards_of(row, cuts), vocab), row.logits, ranks);
      }
    }
  }
}

TEST(shards_anywhere, have_the_best_columns_of_the_row) {
  dice d(12);
  constexpr statistics S = stat::margin | stat::top3_mass;
  for (const scene kind : every_scene) {
    for (const index_t vocab : sizes) {
      sharded_row<S> row{hard_row<float>(kind, vocab, d.bits()), {}};
      const record<S> whole = row.read({0, vocab});
      for (index_t ranks = 2; ranks <= 8; ++ranks) {
        const cut_list cuts = random_cuts(d, vocab, ranks, 1);
        const record<S> merged = merged_in_random_order(d, shards_of(row, cuts), vocab);
        ASSERT_EQ(merged.best, whole.best);
        ASSERT_EQ(merged.token, whole.token);
        ASSERT_EQ(merged.second, whole.second);
        ASSERT_EQ(merged.next[0], whole.next[0]);
        ASSERT_EQ(merged.next[1], whole.next[1]);
        ASSERT_EQ(merged.valid(), whole.valid());
      }
    }
  }
}

TEST(shards_that_cut_a_chunk_once, merge_in_any_order_to_the_same_bits) {
  dice d(13);
  for (const scene kind : every_scene) {
    for (const index_t vocab : sizes) {
      sharded_row<everything> row{hard_row<float>(kind, vocab, d.bits()),
                                  hard_row<float>(scene::ordinary, vocab, d.bits())};
      const cut_list cuts = sparse_cuts(d, vocab, 8);
      const auto parts = shards_of(row, cuts);
      const record<everything> one = merged_in_random_order(d, parts, vocab);
      for (int again = 0; again < 5; ++again) {
        ASSERT_TRUE(same_bits(merged_in_random_order(d, parts, vocab), one)) << vocab;
      }
    }
  }
}

/// A message about `rows`, each with its own logits for three tracked tokens.
template <statistics S>
[[nodiscard]] std::vector<std::byte> message_of(std::vector<sharded_row<S>>& rows,
                                                range columns,
                                                index_t capacity,
                                                const std::vector<index_t>& tracked) {
  ranks::message_header h;
  h.contents = S.bits;
  h.vocab = rows[0].vocab();
  h.columns = columns;
  h.all_rows = static_cast<index_t>(rows.size());
  h.rows = {0, h.all_rows};
  h.nodes = capacity;
  h.tracked = static_cast<index_t>(tracked.size());
  std::vector<std::byte> bytes(ranks::message_bytes<S>(h));
  std::memcpy(bytes.data(), &h, sizeof h);
  for (index_t r = 0; r < h.all_rows; ++r) {
    sharded_row<S>& row = rows[static_cast<std::size_t>(r)];
    std::vector<record<S>> records;
    for (const auto& [first, last] : nodes(columns, h.vocab)) {
      records.push_back(row.read({first, last}));
    }
    std::vector<float> logits;
    for (const index_t token : tracked) {
      logits.push_back(columns.contains(token) ? row.logits[static_cast<std::size_t>(token)]
                                               : -math::infinity());
    }
    ranks::pack<S>(h, r, records.data(), logits.data(), bytes.data());
  }
  return bytes;
}

TEST(messages, that_were_merged_in_place_hold_the_rows_and_every_tracked_logit) {
  constexpr statistics S = stat::entropy | stat::sampled;
  const index_t vocab = 9 * chunk + 100;
  const std::vector<index_t> tracked{3, 5 * chunk, vocab - 1};
  std::vector<sharded_row<S>> rows;
  for (std::uint64_t r = 0; r < 5; ++r) {
    rows.push_back({hard_row<float>(scene::ordinary, vocab, r), {}});
  }
  rows[3].logits[static_cast<std::size_t>(tracked[1])] = std::numeric_limits<float>::quiet_NaN();
  const cut_list cuts{0, 3 * chunk, 3 * chunk, 7 * chunk, vocab};
  std::vector<std::byte> sum = message_of(rows, {0, cuts[1]}, 6, tracked);
  for (std::size_t k = 1; k + 1 < cuts.size(); ++k) {
    std::vector<std::byte> next = message_of(rows, {cuts[k], cuts[k + 1]}, 6, tracked);
    std::vector<std::byte>& out = k % 2 == 0 ? sum : next;  // either side may be overwritten
    ASSERT_EQ(ranks::merge<S>(sum.data(), next.data(), out.data()), ranks::fault::none);
    sum = out;
  }
  const ranks::message_header h = ranks::header_of(sum.data());
  for (index_t r = 0; r < h.all_rows; ++r) {
    sharded_row<S>& row = rows[static_cast<std::size_t>(r)];
    ranks::node_stack<S> whole{vocab};
    ranks::unpack<S>(h, sum.data(), r, whole);
    ASSERT_TRUE(whole.complete());
    EXPECT_TRUE(same_bits(whole[0], row.read({0, vocab})));
    for (index_t w = 0; w < h.tracked; ++w) {
      const auto token = static_cast<std::size_t>(tracked[static_cast<std::size_t>(w)]);
      EXPECT_EQ(bits_of(ranks::tracked_logit<S>(h, sum.data(), r, w)), bits_of(row.logits[token]));
    }
  }
}

TEST(messages, that_do_not_go_together_are_refused_and_left_as_they_were) {
  constexpr statistics S = stat::confidence;
  const index_t vocab = 4 * chunk;
  std::vector<sharded_row<S>> rows{{hard_row<float>(scene::ordinary, vocab, 1), {}}};
  const std::vector<std::byte> left = message_of(rows, {0, chunk}, 3, {});
  const auto refused = [&](ranks::fault why, const auto& change) {
    std::vector<std::byte> right = message_of(rows, {chunk, 2 * chunk}, 3, {});
    ranks::message_header h = ranks::header_of(right.data());
    change(h);
    std::memcpy(right.data(), &h, sizeof h);
    std::vector<std::byte> out(left.size(), std::byte{7});
    EXPECT_EQ(ranks::merge<S>(left.data(), right.data(), out.data()), why);
    if (why != ranks::fault::none) {
      EXPECT_THAT(out, ::testing::Each(std::byte{7}));
    }
  };
  using header = ranks::message_header;
  refused(ranks::fault::none, [](header&) {});
  refused(ranks::fault::not_a_message, [](header& h) { h.mark = 0; });
  refused(ranks::fault::not_a_message, [](header& h) { h.columns.last = 5 * chunk; });
  refused(ranks::fault::not_a_message, [](header& h) { h.rows.last = 2; });
  refused(ranks::fault::other_record, [](header& h) { h.contents = stat::margin.bits; });
  refused(ranks::fault::other_record, [](header& h) { h.vocab = 5 * chunk; });
  refused(ranks::fault::other_step, [](header& h) { ++h.step; });
  refused(ranks::fault::other_step, [](header& h) { ++h.tracked; });
  refused(ranks::fault::other_step, [](header& h) { h.rows = {0, 0}; });
  refused(ranks::fault::not_adjacent, [](header& h) { h.columns = {2 * chunk, 3 * chunk}; });
}

TEST(messages, without_room_for_the_nodes_are_refused) {
  constexpr statistics S = stat::confidence;
  const index_t vocab = 8 * chunk;
  std::vector<sharded_row<S>> rows{{hard_row<float>(scene::ordinary, vocab, 1), {}}};
  std::vector<std::byte> left = message_of(rows, {chunk, 2 * chunk}, 1, {});
  std::vector<std::byte> right = message_of(rows, {2 * chunk, 4 * chunk}, 1, {});
  EXPECT_EQ(ranks::merge<S>(left.data(), right.data(), right.data()), ranks::fault::too_many_nodes);
}

}  // namespace
}  // namespace unmask::testing::shard_test
