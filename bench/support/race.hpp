// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Times several pieces of work in turn, so that what else the machine does meets them alike.

#include <algorithm>
#include <chrono>
#include <cstddef>
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

/// Contestants that run one after the other, round by round: A B C A B C ... Only ratios within one
/// race mean anything.
class race {
 public:
  /// The number of the contestant.
  std::size_t enter(std::function<void()> work) {
    runners_.push_back({std::move(work), 1, {}});
    return runners_.size() - 1;
  }

  /// `rounds` rounds, in which each contestant repeats its work for about `least` nanoseconds.
  void run(int rounds, double least) {
    for (runner& r : runners_) {
      r.work();  // faults memory in, wakes threads
      const double once = std::max(timed(r), 1.0);
      r.repeats = std::max(1, static_cast<int>(least / once));
    }
    for (int i = 0; i < rounds; ++i) {
      for (runner& r : runners_) {
        r.ns.push_back(timed(r) / r.repeats);
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
  static double timed(const runner& r) {
    const double start = nanoseconds();
    for (int i = 0; i < r.repeats; ++i) {
      r.work();
    }
    return nanoseconds() - start;
  }

  std::vector<runner> runners_;
};

}  // namespace bench
