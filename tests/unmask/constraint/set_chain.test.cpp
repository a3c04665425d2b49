// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Which sets of a constrained field are computed again: beside values that are computed anew.

#include <unmask/core/constraint_rule.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/dice.hpp"

namespace unmask::testing::set_chain_test {
namespace {

/// Values of which each follows from the one before it and an input. A large input hides what is
/// left of it.
class kept_values {
 public:
  explicit kept_values(index_t size)
      : inputs_(static_cast<std::size_t>(size))
      , values_(inputs_.size() + 1) {}  // memory may happen to be what is computed

  void change(index_t j, int input) {
    if (inputs_[static_cast<std::size_t>(j)] != input) {
      inputs_[static_cast<std::size_t>(j)] = input;
      chain_.changed(j);
    }
  }
  /// Returns how many values it computed.
  int know(index_t to) {
    int computed = 0;
    for (; chain_.ok < to; ++computed) {
      const auto k = static_cast<std::size_t>(chain_.ok);
      const int now = next(values_[k], inputs_[k]);
      const bool differs = now != values_[k + 1];
      values_[k + 1] = now;
      static_cast<void>(chain_.advance(differs));
    }
    return computed;
  }
  /// The first value that is said to be known and is not what it must be; -1 if there is none.
  [[nodiscard]] index_t first_wrong() const {
    int value = 0;
    for (index_t k = 0; k <= chain_.ok; ++k) {
      value = k == 0 ? 0 : next(value, inputs_[static_cast<std::size_t>(k - 1)]);
      if (value != values_[static_cast<std::size_t>(k)]) {
        return k;
      }
    }
    return -1;
  }
  /// After changes of these inputs, all values known before: the least number to compute, which
  /// ends where a value stays and no input right of it has changed.
  [[nodiscard]] int least(const std::vector<index_t>& changed) const {
    const index_t first = *std::min_element(changed.begin(), changed.end());
    const index_t last = *std::max_element(changed.begin(), changed.end());
    int count = 0;
    int value = values_[static_cast<std::size_t>(first)];
    for (index_t k = first; k < static_cast<index_t>(inputs_.size()); ++k) {
      value = next(value, inputs_[static_cast<std::size_t>(k)]);
      ++count;
      if (k >= last && value == values_[static_cast<std::size_t>(k + 1)]) {
        break;
      }
    }
    return count;
  }
  [[nodiscard]] int input(index_t j) const { return inputs_[static_cast<std::size_t>(j)]; }

 private:
  [[nodiscard]] static int next(int value, int input) { return std::max(value - 1, input); }

  detail::set_chain chain_;
  std::vector<int> inputs_;
  std::vector<int> values_;
};

TEST(set_chain, knows_what_follows_from_the_inputs) {
  dice d(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const index_t size = d.within(1, 12);
    kept_values values(size);
    for (int call = 0; call < 20; ++call) {
      for (index_t k = d.within(0, 3); k > 0; --k) {
        values.change(d.within(0, size - 1), d.within(0, 4));
      }
      values.know(d.within(0, size));
      ASSERT_EQ(values.first_wrong(), -1) << "trial " << trial << ", call " << call;
    }
  }
}

TEST(set_chain, computes_no_more_than_it_has_to) {
  dice d(2);
  for (int trial = 0; trial < 2000; ++trial) {
    const index_t size = d.within(1, 12);
    kept_values values(size);
    EXPECT_EQ(values.know(size), size);
    for (int call = 0; call < 10; ++call) {
      std::vector<index_t> changed;
      for (index_t k = d.within(1, 3); k > 0; --k) {
        const index_t j = d.within(0, size - 1);
        const int input = d.within(0, 4);
        if (input != values.input(j)) {
          values.change(j, input);
          changed.push_back(j);
        }
      }
      const int least = changed.empty() ? 0 : values.least(changed);
      ASSERT_EQ(values.know(size), least) << "trial " << trial << ", call " << call;
    }
  }
}

}  // namespace
}  // namespace unmask::testing::set_chain_test
