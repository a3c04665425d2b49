// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/stats/truncate.hpp>

/// The column at which a truncated row ends, where the read did not hold it: found by a few sweeps
/// over the row, exactly.
namespace UNMASK_NAMESPACE::canonical {

/// Bins of equal width for the logits of a row, larger ones first: what ends a row is found where
/// its columns are, and columns lie apart. Any bins find the same end.
///
/// Bin 0 has the logits that are not below `from`, the last bin all that are too low for the
/// others.
struct value_bins {
  float from = 0.0F;
  float per_logit = 1.0F;
  index_t size = 1;

  /// `size` bins below the columns that a read held. If its list is full, the width of the bins
  /// follows from the spread of the lower half of the held logits. The bins cover 85 times that
  /// spread, about 16 standard deviations for 10^5 normal logits.
  template <index_t Held>
  [[nodiscard]] UNMASK_HD static value_bins
  below(const held_list<Held>& held, const row_limits& limits, index_t size) {
    if (!held.full()) {
      return {limits.best, static_cast<float>(size) / 16.0F, size};
    }
    const float least = held[Held - 1].logit;
    const float half = held[Held / 2].logit - least;
    return {least,
            math::divide(static_cast<float>(size), 85.0F * math::clamp(half, 0.125F, 64.0F)),
            size};
  }

  [[nodiscard]] UNMASK_HD index_t of(float logit) const {
    const float x = math::product(math::difference(from, logit), per_logit);
    const auto most = static_cast<float>(size - 2);
    return logit >= from ? 0 : x < most ? 1 + static_cast<index_t>(x) : size - 1;
  }
  /// No logit of a bin, or of those before it, is below this.
  [[nodiscard]] UNMASK_HD float least_of(index_t bin) const {
    return bin == size - 1 ? -math::infinity() : edge(bin, -0x1p-20F);
  }
  /// No logit of a bin, or of those after it, is above this. `best` is the best of the row.
  [[nodiscard]] UNMASK_HD float most_of(index_t bin, float best) const {
    return bin == 0 ? best : edge(bin - 1, 0x1p-20F);
  }

 private:
  // The lower end of a bin, moved by more than what rounding may have moved a logit.
  [[nodiscard]] UNMASK_HD float edge(index_t bin, float rounding) const {
    const float depth = math::divide(static_cast<float>(bin), per_logit);
    const float moved = math::product(rounding, (from < 0.0F ? -from : from) + depth);
    return math::difference(from, depth) + moved;
  }
};

/// Counts and masses of the columns of a row by bin, or a list of a few of its columns.
template <int Digit>
struct key_bins {
  static constexpr index_t size = index_t{1} << Digit;
  static constexpr index_t room = size < 256 ? size : 256;  ///< of the list

  std::uint32_t tokens[size];
  mass_units masses[size];  ///< also by column of the list
  std::uint64_t keys[room];
  std::uint32_t listed;
  /// Bin at which the walk stopped, and the sums before it; written by one lane, read by all.
  index_t stop;
  index_t tokens_before;
  mass_units mass_before;
  /// Key of the last kept column, written by one lane.
  std::uint64_t last;

  UNMASK_HD void clear(const auto& t) {
    t.sync();
    for (index_t i = t.lane(); i < size; i += t.lanes()) {
      tokens[i] = 0;
      masses[i] = 0;
    }
    t.sync();
  }
  /// May be called by several lanes at once if their thread group adds atomically.
  UNMASK_HD void add(const auto& t, index_t bin, mass_units mass) {
    if constexpr (requires { t.add(&mass, mass); }) {
      t.add(tokens + bin, 1U);
      t.add(masses + bin, mass);
    } else {
      ++tokens[bin];
      masses[bin] += mass;
    }
  }
  /// Lists a column. May be called by several lanes, as add(). There is room.
  UNMASK_HD void list(const auto& t, std::uint64_t key, mass_units mass) {
    const std::uint32_t n = [&] {
      if constexpr (requires { t.add(&listed, 1U); }) {
        return t.add(&listed, 1U);
      } else {
        return listed++;
      }
    }();
    keys[n] = key;
    masses[n] = mass;
  }
  /// Finds the first bin that is not kept completely. True if there is one: the last kept column is
  /// in it.
  [[nodiscard]] UNMASK_HD bool stops(const auto& t, const row_limits& limits, index_t bins) {
    t.sync();
    std::uint32_t count = static_cast<std::uint32_t>(tokens_before);
    mass_units mass = mass_before;
    for (index_t first = 0; first < bins; first += t.lanes()) {
      const index_t i = first + t.lane();
      const auto counted = t.exclusive_sum(i < bins ? tokens[i] : 0U);
      const auto weighed = t.exclusive_sum(i < bins ? masses[i] : mass_units{0});
      const std::uint32_t before = count + counted.before;
      const bool ends = i < bins && limits.end_after(static_cast<index_t>(before + tokens[i]),
                                                     mass + weighed.before + masses[i]);
      const auto found = t.count(ends);
      if (ends && found.before == 0) {
        stop = i;
        tokens_before = static_cast<index_t>(before);
        mass_before = mass + weighed.before;
      }
      if (found.all > 0) {
        t.sync();
        return true;
      }
      count += counted.all;
      mass += weighed.all;
    }
    return false;
  }
};

/// Key of the last kept column of a row: columns that the ratio keeps and whose key is not smaller
/// are kept, all others are not.
///
/// sweep(least, use) calls use(logit, token) once for each column whose logit is not below `least`,
/// in any lane, and perhaps for others; `end` exceeds every token, `values` has as many bins as
/// `bins`. A sweep finds the bin of values in which the kept columns end, first among the few
/// largest ones; another one lists its columns, and each of them counts those before it. As long as
/// there are too many, the digits of the key are found one after the other, in a sweep each. For a
/// thread group whose lanes add to the bins at the same time.
template <int Digit, class Sweep>
[[nodiscard]] UNMASK_HD std::uint64_t last_key_of(const auto& t,
                                                  const row_limits& limits,
                                                  token_id end,
                                                  const value_bins& values,
                                                  key_bins<Digit>& bins,
                                                  const Sweep& sweep) {
  using bins_type = key_bins<Digit>;
  const auto mass_of = [&](float logit) {  // if it matters
    return limits.mass == ~mass_units{0} ? 0 : limits.mass_of(logit);
  };
  const auto find_value = [&](index_t size) {
    const float least = values.least_of(size - 1);
    bins.clear(t);
    sweep(least, [&](float logit, token_id /*token*/) {
      if (logit >= least && limits.reaches(logit)) {
        const index_t bin = values.of(logit);
        if (bin < size) {
          bins.add(t, bin, mass_of(logit));
        }
      }
    });
    return bins.stops(t, limits, size);
  };
  constexpr index_t few = bins_type::size / 24 + 1;  // some three quarters of a standard deviation
  if (t.lane() == 0) {
    bins.tokens_before = 0;
    bins.mass_before = 0;
  }
  if (!find_value(few) && !find_value(bins_type::size)) {
    return 0;  // no rule but the ratio's ends the walk
  }
  const index_t value = bins.stop;
  const float least = values.least_of(value);
  // Ascending keys with some known bits.
  std::uint64_t known = 0;
  std::uint64_t found = 0;
  const auto for_each_left = [&](const auto& use) {
    sweep(least, [&](float logit, token_id token) {
      const std::uint64_t key = rank_key(logit, token);
      if (logit >= least && limits.reaches(logit) && values.of(logit) == value &&
          (~key & known) == found) {
        use(key, mass_of(logit));
      }
    });
  };
  int token_bits = 0;
  while (end > 0 && (end - 1) >> token_bits != 0) {
    ++token_bits;
  }
  // The values of a bin have their first bits in common.
  int top = 32;
  const std::uint64_t apart = rank_key(least, 0) ^ rank_key(values.most_of(value, limits.best), 0);
  while (top < 64 && apart >> static_cast<unsigned>(top) != 0) {
    ++top;
  }
  bool is_token = false;
  while (bins.tokens[bins.stop] > static_cast<std::uint32_t>(bins_type::room)) {
    if (top == 32 && !is_token) {
      is_token = true;
      known |= ~std::uint64_t{0} << static_cast<unsigned>(token_bits) & 0xffffffffU;
      top = token_bits;
    }
    const int to = is_token ? 0 : 32;
    const int shift = top - Digit > to ? top - Digit : to;
    const index_t size = index_t{1} << (top - shift);
    bins.clear(t);
    for_each_left([&](std::uint64_t key, mass_units mass) {
      bins.add(t, static_cast<index_t>(~key >> static_cast<unsigned>(shift)) & (size - 1), mass);
    });
    static_cast<void>(bins.stops(t, limits, size));
    known |= static_cast<std::uint64_t>(size - 1) << static_cast<unsigned>(shift);
    found |= static_cast<std::uint64_t>(bins.stop) << static_cast<unsigned>(shift);
    top = shift;
  }
  const auto columns = static_cast<index_t>(bins.tokens[bins.stop]);
  if (t.lane() == 0) {
    bins.listed = 0;
    bins.last = 0;
  }
  t.sync();
  for_each_left([&](std::uint64_t key, mass_units mass) { bins.list(t, key, mass); });
  t.sync();
  for (index_t i = t.lane(); i < columns; i += t.lanes()) {
    index_t before = bins.tokens_before;
    mass_units mass = bins.mass_before;
    for (index_t j = 0; j < columns; ++j) {
      const bool is_before = bins.keys[j] > bins.keys[i];
      before += is_before ? 1 : 0;
      mass += is_before ? bins.masses[j] : 0;
    }
    if (!limits.end_after(before, mass) && limits.end_after(before + 1, mass + bins.masses[i])) {
      bins.last = bins.keys[i];
    }
  }
  t.sync();
  return bins.last;
}

/// The logit of the last kept column, whose key is last_key_of(): no kept one is below it.
[[nodiscard]] UNMASK_HD inline float least_of(std::uint64_t last) {
  return last == 0 ? -math::infinity() : ranked(last).logit;
}

}  // namespace unmask::canonical
