// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Times several pieces of work in turn, so that what else the machine does meets them alike.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

[[nodiscard]] inline double nanoseconds() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Number `index` of the first line of a file that Linux keeps, behind a word if it begins with
/// one; 0 elsewhere.
[[nodiscard]] inline double number_in(const char* file, int index) {
  double number = 0.0;
  if (std::FILE* const f = std::fopen(file, "r")) {
    int read = std::fscanf(f, "%*[a-z]");
    for (int i = 0; i <= index; ++i) {
      read += std::fscanf(f, "%lf", &number);
    }
    number = read >= index + 1 ? number : 0.0;
    std::fclose(f);
  }
  return number;
}

/// Hundredths of a second in which the host of this virtual machine ran others in its place.
[[nodiscard]] inline double stolen() {
  return number_in("/proc/stat", 7);
}

/// Nanoseconds that this thread was ready to run while others ran on its processor.
[[nodiscard]] inline double waited() {
  return number_in("/proc/thread-self/schedstat", 1);
}

/// Contestants that run one after the other, round by round: A B C A B C ... Only ratios within one
/// race mean anything.
class race {
 public:
  /// Rounds of all races so far in which time was stolen.
  inline static int voided = 0;

  /// The number of the contestant.
  std::size_t enter(std::function<void()> work) {
    runners_.push_back({std::move(work), 1, {}});
    return runners_.size() - 1;
  }

  /// `rounds` rounds, in which each contestant repeats its work for about `least` nanoseconds. A
  /// round in which time was stolen is run again, unless most are.
  void run(int rounds, double least) {
    for (runner& r : runners_) {
      r.work();  // faults memory in, wakes threads
      const double start = nanoseconds();
      r.work();
      const double once = std::max(nanoseconds() - start, 1.0);
      r.repeats = std::max(1, static_cast<int>(least / once));
    }
    for (int i = 0, again = 0; i < rounds;) {
      const double before = stolen();
      for (runner& r : runners_) {
        r.ns.push_back(timed(r) / r.repeats);
      }
      if (stolen() == before || again == 4 * rounds) {
        ++i;
        continue;
      }
      ++again;
      ++voided;
      for (runner& r : runners_) {
        r.ns.pop_back();
      }
    }
  }

  /// Nanoseconds of one piece of work.
  [[nodiscard]] double median(std::size_t i) const {
    std::vector<double> ns = runners_[i].ns;
    std::sort(ns.begin(), ns.end());
    return ns[ns.size() / 2];
  }
  /// The median over the rounds of what contestant i took relative to contestant j.
  [[nodiscard]] double ratio(std::size_t i, std::size_t j) const {
    std::vector<double> each;
    for (std::size_t k = 0; k < runners_[i].ns.size(); ++k) {
      each.push_back(runners_[i].ns[k] / runners_[j].ns[k]);
    }
    std::sort(each.begin(), each.end());
    return each[each.size() / 2];
  }

 private:
  struct runner {
    std::function<void()> work;
    int repeats;
    std::vector<double> ns;
  };
  // Without the time in which other processes had the processor. Both clocks are read inside of
  // each other's interval, at the same cost of some microseconds for every contestant.
  static double timed(const runner& r) {
    const double start = nanoseconds();
    const double before = waited();
    for (int i = 0; i < r.repeats; ++i) {
      r.work();
    }
    const double elsewhere = waited() - before;
    return nanoseconds() - start - elsewhere;
  }

  std::vector<runner> runners_;
};

}  // namespace bench
