// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Many rows on many threads: neither the threads, nor how the rows are cut, nor the other rows of
// the batch may change a bit. And nothing is allocated.
#include <unmask/host/read_rows.hpp>
#include <unmask/host/thread_pool.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "oracles/oracle.hpp"
#include "support/count_allocations.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing::read_rows_test {
namespace {

/// Makes all calls in reverse order on this thread, and reports `threads` threads.
struct backward {
  index_t threads;
  [[nodiscard]] index_t concurrency() const { return threads; }
  void run(index_t count, host::task work) const {
    for (index_t i = count - 1; i >= 0; --i) {
      work(i);
    }
  }
};
static_assert(host::executor<backward>);

struct scaled {
  float factor;
  float operator()(float z, token_id) const { return factor * z; }
};

/// Rows of one vocabulary, each with a token kept apart.
template <element T>
struct batch {
  std::vector<std::vector<T>> memory;
  std::vector<token_id> excluded;
  std::vector<float> reported;
  std::vector<row_input<T>> rows;

  batch(index_t count, index_t columns, std::uint64_t seed) {
    excluded = {5, columns / 2, columns - 1, columns + 10};
    reported.assign(static_cast<std::size_t>(count) * excluded.size(), 77.0F);
    for (index_t r = 0; r < count; ++r) {
      const scene kind = r % 3 == 2 ? scene::ties : scene::ordinary;
      memory.push_back(hard_row<T>(kind, columns, seed + static_cast<std::uint64_t>(r)));
      row_input<T> in;
      in.logits = memory.back().data();
      in.columns = columns;
      in.excluded = excluded.data();
      in.excluded_count = static_cast<index_t>(excluded.size());
      in.excluded_logits = reported.data() + static_cast<std::size_t>(r) * excluded.size();
      rows.push_back(in);
    }
  }
};

/// `edits` are those of the rows, or null.
template <element T>
void expect_equal_to_single_rows(batch<T>& b,
                                 const host::row_transform* edits,
                                 host::executor_ref threads) {
  std::vector<record<every_sum>> expected;
  for (std::size_t r = 0; r < b.rows.size(); ++r) {
    const host::row_transform edit = edits == nullptr ? host::row_transform{} : edits[r];
    expected.push_back(host::read_row<every_sum>(b.rows[r], edit, host::best_instruction_set()));
  }
  const std::vector<float> expected_report = b.reported;
  std::fill(b.reported.begin(), b.reported.end(), 77.0F);
  std::vector<record<every_sum>> out(b.rows.size());
  std::vector<record<every_sum>> scratch(host::scratch_records(threads.concurrency()));
  host::read_rows<every_sum, T>(
      b.rows, edits, out.data(), threads, host::best_instruction_set(), scratch);
  for (std::size_t r = 0; r < out.size(); ++r) {
    EXPECT_TRUE(same_bits(out[r], expected[r])) << "row " << r;
  }
  EXPECT_EQ(b.reported, expected_report);
}

template <class T>
class read_rows : public ::testing::Test {};
using elements = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(read_rows, elements);

TYPED_TEST(read_rows, nodes_of_runs_make_the_row) {
  for (const index_t columns : {1, 2048, 2049, 40000, 126464}) {
    batch<TypeParam> b(1, columns, 1);
    const row_input<TypeParam>& row = b.rows[0];
    const auto expected = host::read_row<every_sum>(row, identity{}, host::best_instruction_set());
    const std::vector<float> expected_report = b.reported;
    const index_t chunks = canonical::chunks_of(columns);
    for (index_t run = 1; run < 2 * chunks; run *= 2) {
      for (const host::instruction_set level : instruction_sets()) {
        host::clear_excluded_logits(row);
        canonical::chunk_tree<every_sum> tree;
        for (index_t first = 0; first < chunks; first += run) {
          const range wanted{first, std::min(first + run, chunks)};
          tree.push(host::read_run<every_sum>(row, wanted, identity{}, level));
        }
        EXPECT_TRUE(same_bits(tree.finish(), expected)) << columns << " by " << run;
        EXPECT_EQ(b.reported, expected_report);
      }
    }
  }
}

TYPED_TEST(read_rows, do_not_depend_on_the_number_of_threads) {
  for (const index_t rows : {1, 2, 3, 7, 40}) {
    batch<TypeParam> b(rows, 126464, 2);
    for (const index_t count : {1, 2, 3, 4}) {
      SCOPED_TRACE(count);
      host::thread_pool pool(count);
      expect_equal_to_single_rows(b, nullptr, pool);
      backward other{count};
      expect_equal_to_single_rows(b, nullptr, other);
    }
  }
}

TYPED_TEST(read_rows, each_have_their_own_edit) {
  for (const index_t rows : {1, 3, 20}) {
    batch<TypeParam> b(rows, 151936, 3);
    backward threads{3};
    std::vector<scaled> edits;
    for (index_t r = 0; r < rows; ++r) {
      edits.push_back({1.0F + 0.25F * static_cast<float>(r)});
    }
    const std::vector<host::row_transform> each(edits.begin(), edits.end());
    expect_equal_to_single_rows(b, each.data(), threads);
  }
}

TYPED_TEST(read_rows, may_differ_in_length) {
  batch<TypeParam> b(4, 151936, 4);
  b.rows[0].columns = 1;
  b.rows[1].columns = 100000;
  b.rows[3].columns = 0;
  for (const index_t count : {2, 4, 16}) {
    backward threads{count};
    expect_equal_to_single_rows(b, nullptr, threads);
  }
}

TYPED_TEST(read_rows, of_no_row_do_nothing) {
  batch<TypeParam> b(0, 100, 5);
  host::thread_pool pool(2);
  expect_equal_to_single_rows(b, nullptr, pool);
}

TEST(divide_rows, fits_the_scratch_memory_and_uses_every_thread) {
  for (index_t concurrency = 2; concurrency <= 130; ++concurrency) {
    for (index_t rows = 1; rows <= 1100; rows = rows < 20 ? rows + 1 : rows * 3 / 2) {
      for (const index_t chunks : {1, 3, 4, 16, 62, 75, 128, 1000}) {
        const auto cut = host::detail::divide_rows(rows, chunks, concurrency);
        const index_t pieces = rows * cut.runs_per_row;
        if (cut.runs_per_row == 1) {
          EXPECT_TRUE(rows >= concurrency || chunks <= 4) << rows << " rows, " << concurrency;
          continue;
        }
        EXPECT_LE(static_cast<std::size_t>(pieces), host::scratch_records(concurrency));
        EXPECT_EQ(cut.run & (cut.run - 1), 0);
        EXPECT_GE(cut.run * cut.runs_per_row, chunks);
        EXPECT_TRUE(pieces >= 4 * concurrency || cut.run == 4);
      }
    }
  }
}

TEST(read_rows_allocate, nothing) {
  batch<float> few(1, 151936, 6);
  batch<float> many(30, 32000, 7);
  host::thread_pool pool(3);
  host::executor_ref threads = pool;
  std::vector<record<every_sum>> out(many.rows.size());
  std::vector<record<every_sum>> scratch(host::scratch_records(threads.concurrency()));
  if (!counts_allocations || allocations == 0) {
    GTEST_SKIP() << "nobody counts";
  }
  const scaled edit{1.25F};
  const host::row_transform edits[] = {edit};
  const allocation_count count;
  for (int i = 0; i < 20; ++i) {
    for (const host::instruction_set level :
         {host::instruction_set::portable, host::best_instruction_set()}) {
      host::read_rows<every_sum, float>(few.rows, edits, out.data(), threads, level, scratch);
      host::read_rows<every_sum, float>(many.rows, nullptr, out.data(), threads, level, scratch);
    }
  }
  EXPECT_EQ(count.value(), 0);
}

}  // namespace
}  // namespace unmask::testing::read_rows_test
