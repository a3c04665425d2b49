// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter reports every planted mistake, under any schedule, and nothing that is right.

#include "ptx/planted.hpp"

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "ptx/runtime.hpp"

namespace unmask::ptx {

// Names, for messages of gtest.
void PrintTo(const planted& p, std::ostream* out) {
  *out << p.name;
}

namespace {

class Planted : public ::testing::TestWithParam<planted> {
 protected:
  // Orderly first, then seeds.
  static void under_each_schedule(auto&& body) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      device().use({.seed = seed,
                    .resident = static_cast<unsigned>(seed % 4 + 1),
                    .watches_races = true,
                    .is_late = seed % 3 == 2});
      body();
      static_cast<void>(cudaDeviceSynchronize());
      static_cast<void>(cudaGetLastError());
    }
  }
};

TEST_P(Planted, IsReported) {
  under_each_schedule([] {
    GetParam().run(false);
    static_cast<void>(cudaDeviceSynchronize());
    const auto reports = device().take_reports();
    const bool is_found = std::any_of(reports.begin(), reports.end(), [](const std::string& r) {
      return r.find(GetParam().report) != std::string::npos;
    });
    EXPECT_TRUE(is_found) << reports.size()
                          << " reports, the first: " << (reports.empty() ? "none" : reports[0]);
  });
}

TEST_P(Planted, IsNotReportedWhereThereIsNone) {
  under_each_schedule([] {
    GetParam().run(true);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto reports = device().take_reports();
    EXPECT_TRUE(reports.empty()) << reports[0];
  });
}

INSTANTIATE_TEST_SUITE_P(Defects,
                         Planted,
                         ::testing::ValuesIn(planted_defects()),
                         [](const auto& one) { return std::string(one.param.name); });

// A barrier that a run calls needed is missed by a run without it.
TEST(Barriers, OfWhichARunSaysThatTheyAreNeededAreMissedWhereTheyAreLeftOut) {
  int found = 0;
  for (const planted& p : planted_defects()) {
    for (std::uint64_t seed = 1; seed < 5; ++seed) {
      SCOPED_TRACE(std::string(p.name) + ", seed " + std::to_string(seed));
      const schedule watched{.seed = seed, .resident = 1, .watches_races = true};
      schedule counted = watched;
      counted.barriers = "/dev/null";
      device().use(counted);
      p.run(true);
      static_cast<void>(cudaDeviceSynchronize());
      EXPECT_TRUE(device().take_reports().empty());
      for (const std::string& line : device().needed_barriers()) {
        if (line.find("planted.cu") == std::string::npos) {
          continue;
        }
        schedule without = watched;
        without.without = {line};
        device().use(without);
        p.run(true);
        static_cast<void>(cudaDeviceSynchronize());
        static_cast<void>(cudaGetLastError());
        const auto reports = device().take_reports();
        EXPECT_FALSE(reports.empty()) << line << " is not missed";
        ++found;
      }
      device().forget_barriers();
    }
  }
  EXPECT_GT(found, 8) << "hardly any barrier was left out";
}

// A run says so of each barrier of these: those before a release and behind an acquire, of a block
// and of a warp, and one between the reads of others and what follows a read of the thread's own.
TEST(Barriers, AreNeededForOtherBlocksAndForReadsBeforeAWrite) {
  const std::map<std::string_view, std::size_t> barriers = {{"barrier_between", 1},
                                                            {"last_block_adds", 2},
                                                            {"one_lane_acquires", 2},
                                                            {"updated_behind_the_reads", 3}};
  std::size_t found = 0;
  for (const planted& p : planted_defects()) {
    const auto wanted = barriers.find(p.name);
    if (wanted == barriers.end()) {
      continue;
    }
    ++found;
    for (std::uint64_t seed = 1; seed < 5; ++seed) {
      device().use({.seed = seed, .resident = 2, .watches_races = true, .barriers = "/dev/null"});
      p.run(true);
      static_cast<void>(cudaDeviceSynchronize());
      EXPECT_TRUE(device().take_reports().empty());
      const auto lines = device().needed_barriers();
      EXPECT_EQ(std::count_if(lines.begin(),
                              lines.end(),
                              [](const std::string& line) {
                                return line.find("planted.cu") != std::string::npos;
                              }),
                static_cast<std::ptrdiff_t>(wanted->second))
          << p.name << ", seed " << seed;
      device().forget_barriers();
    }
  }
  EXPECT_EQ(found, barriers.size());
}

TEST(Schedule, AStreamWorksWhenTheHostWaits) {
  device().use({.is_late = true});
  int* there = nullptr;
  int* here = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&there), sizeof(int)), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&here), sizeof(int)), cudaSuccess);
  cudaStream_t s = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaSuccess);
  *here = 1;
  ASSERT_EQ(cudaMemsetAsync(there, 0, sizeof(int), s), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(here, there, sizeof(int), cudaMemcpyDeviceToHost, s), cudaSuccess);
  EXPECT_EQ(*here, 1) << "nobody has waited";
  ASSERT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(*here, 0);
  static_cast<void>(cudaStreamDestroy(s));
  static_cast<void>(cudaFreeHost(here));
  static_cast<void>(cudaFree(there));
  EXPECT_TRUE(device().take_reports().empty());
}

}  // namespace
}  // namespace unmask::ptx
