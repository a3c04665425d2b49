// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/thread_group.hpp>

namespace UNMASK_NAMESPACE::step {

/// A key that sorts after every candidate.
inline constexpr std::uint64_t no_key = ~std::uint64_t{0};

/// Smallest power of two >= n <= max_rows, the size that sort() works on.
[[nodiscard]] UNMASK_HD constexpr index_t sort_size(index_t n) {
  index_t size = 1;
  while (size < n) {
    size *= 2;
  }
  return size;
}

/// The key of a candidate: ascending keys are descending scores, ties in ascending index. NaN
/// scores sort behind every number; -0 equals +0.
[[nodiscard]] UNMASK_HD inline std::uint64_t order_key(float score, index_t index) {
  const float clean = math::is_nan(score) ? -math::infinity() : score + 0.0F;
  const std::uint32_t bits = math::bits_of(clean);
  const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{~ascending} << 32U) | static_cast<std::uint32_t>(index);
}

/// The index in a key of order_key().
[[nodiscard]] UNMASK_HD constexpr index_t key_index(std::uint64_t key) {
  return static_cast<index_t>(key & 0xffffffffU);
}

/// The score in a key of order_key().
[[nodiscard]] UNMASK_HD inline float key_score(std::uint64_t key) {
  const std::uint32_t ascending = ~static_cast<std::uint32_t>(key >> 32U);
  return math::from_bits((ascending & 0x80000000U) != 0 ? ascending & 0x7fffffffU : ~ascending);
}

namespace sorting {

// a, or b if `second` is 1: by arithmetic, because g++ would compile a conditional to a branch.
[[nodiscard]] UNMASK_HD inline std::uint64_t
picked(std::uint64_t a, std::uint64_t b, std::uint64_t second) {
  return a ^ ((a ^ b) & (std::uint64_t{0} - second));
}

// Orders keys[low] and keys[high] without a branch.
UNMASK_HD inline void exchange(std::uint64_t* keys, index_t low, index_t high) {
  const std::uint64_t a = keys[low];
  const std::uint64_t b = keys[high];
  keys[low] = b < a ? b : a;
  keys[high] = b < a ? a : b;
}

// Merges two ascending runs of `run` keys at `from` into `to`: the lower half from the front, the
// upper half from the back, so that neither run can be exhausted and the only test is which key is
// smaller.
UNMASK_HD inline void merge(const std::uint64_t* from, index_t run, std::uint64_t* to) {
  const std::uint64_t* a = from;
  const std::uint64_t* b = from + run;
  const std::uint64_t* a_back = b - 1;
  const std::uint64_t* b_back = b + run - 1;
  for (index_t k = 0; k < run; ++k) {
    const std::uint64_t takes_b = *b < *a ? 1U : 0U;
    to[k] = picked(*a, *b, takes_b);
    a += 1 - takes_b;
    b += takes_b;
    const std::uint64_t takes_a = *b_back < *a_back ? 1U : 0U;
    to[2 * run - 1 - k] = picked(*b_back, *a_back, takes_a);
    a_back -= takes_a;
    b_back -= 1 - takes_a;
  }
}

// sort() by one lane, for which branches would be unpredictable: a merge sort of pieces that fit on
// the stack, and a network over those.
UNMASK_HD inline void sort_alone(std::uint64_t* keys, index_t size) {
  constexpr index_t piece = 256;
  std::uint64_t other[piece];
  for (index_t first = 0; first < size; first += piece) {
    std::uint64_t* from = keys + first;
    std::uint64_t* to = other;
    const index_t end = size < piece ? size : piece;
    for (index_t run = 1; run < end; run *= 2) {
      for (index_t i = 0; i < end; i += 2 * run) {
        merge(from + i, run, to + i);
      }
      std::uint64_t* const last = from;
      from = to;
      to = last;
    }
    for (index_t i = 0; from == other && i < end; ++i) {
      to[i] = from[i];
    }
  }
  for (index_t run = piece; run < size; run *= 2) {
    for (index_t first = 0; first < size; first += 2 * run) {
      for (index_t i = 0; i < run; ++i) {
        exchange(keys, first + i, first + 2 * run - 1 - i);
      }
    }
    for (index_t stride = run / 2; stride > 0; stride /= 2) {
      for (index_t first = 0; first < size; first += 2 * stride) {
        for (index_t i = 0; i < stride; ++i) {
          exchange(keys, first + i, first + i + stride);
        }
      }
    }
  }
}

// Sorts each run of `run` keys, a power of two and at most the number of lanes: a lane finds the
// place of its key by comparing it with those of its run. Equal keys keep their order.
template <thread_group T>
UNMASK_HD void sort_runs(const T& t, std::uint64_t* keys, index_t size, index_t run) {
  const index_t width = t.lanes() - (t.lanes() & (run - 1));  // whole runs
  for (index_t first = 0; first < size; first += width) {
    const index_t own = first + t.lane();
    const bool is_there = t.lane() < width && own < size;
    const index_t begin = own - (own & (run - 1));
    index_t place = begin;
    std::uint64_t key = 0;
    t.sync();
    if (is_there) {
      key = keys[own];
#if defined(__CUDA_ARCH__)
#  pragma unroll 8
#endif
      for (index_t i = begin; i < begin + run; ++i) {
        // No branch: neither outcome is likely.
        const bool is_equal = keys[i] == key;
        place += static_cast<index_t>(keys[i] < key) + static_cast<index_t>(is_equal & (i < own));
      }
    }
    t.sync();
    if (is_there) {
      keys[place] = key;
    }
  }
}

// Most keys of a lane that merge_runs() holds.
inline constexpr index_t held_keys = 4;

// Merges adjacent ascending runs of `run` keys; a lane has at most `held_keys`. It finds
// the place of each by a search in the other run. Equal keys are no_key.
template <thread_group T>
UNMASK_HD void merge_runs(const T& t, std::uint64_t* keys, index_t size, index_t run) {
  std::uint64_t key[held_keys] = {};
  index_t before[held_keys] = {};
  // Calls use(n, the place of key n), as often for each lane: the searches of a lane overlap.
  const auto for_each = [&](const auto& use) {
    for (index_t n = 0; n < held_keys; ++n) {
      if (n * t.lanes() < size) {
        use(n, math::min(t.lane() + n * t.lanes(), size - 1));
      }
    }
  };
  t.sync();
  for_each([&](index_t n, index_t own) { key[n] = keys[own]; });
  for (index_t half = run / 2; half > 0; half /= 2) {
    for_each([&](index_t n, index_t own) {
      const std::uint64_t* const other = keys + ((own & -run) ^ run);
      before[n] += other[before[n] + half - 1] < key[n] ? half : 0;
    });
  }
  for_each([&](index_t n, index_t own) {
    before[n] += keys[((own & -run) ^ run) + before[n]] < key[n] ? 1 : 0;
  });
  t.sync();
  for_each([&](index_t n, index_t own) {
    if (t.lane() + n * t.lanes() < size) {
      const bool is_second = (own & run) != 0;
      const index_t others = is_second && key[n] == no_key ? run : before[n];
      keys[(own & -(2 * run)) + (own & (run - 1)) + others] = key[n];
    }
  });
}

// Merges runs of any number of keys, in place: a bitonic network.
template <thread_group T>
UNMASK_HD void exchange_runs(const T& t, std::uint64_t* keys, index_t size, index_t run) {
  for (index_t stride = run; stride > 0; stride /= 2) {
    t.sync();
    for (index_t pair = t.lane(); pair < size / 2; pair += t.lanes()) {
      const index_t within = pair & (stride - 1);
      const index_t first = 2 * (pair - within);
      // The second run is taken from its end first, so that the two are one that rises and falls.
      const index_t low = first + within;
      const index_t high = stride == run ? first + 2 * run - 1 - within : low + stride;
      const std::uint64_t a = keys[low];
      const std::uint64_t b = keys[high];
      if (b < a) {
        keys[low] = b;
        keys[high] = a;
      }
    }
  }
}

}  // namespace sorting

/// Sorts `size` keys (a power of two), distinct except for no_key, ascending with the whole thread
/// group: runs of 32 by comparing each key with each of its run, which are merged; a single lane
/// merges from the start.
/// Cost: O(size log^2 size) comparisons.
template <thread_group T>
UNMASK_HD void sort(const T& t, std::uint64_t* keys, index_t size) {
  if constexpr (std::same_as<T, serial>) {
    sorting::sort_alone(keys, size);
  } else {
    index_t run = 1;
    while (run < 32 && 2 * run <= t.lanes() && 2 * run <= size) {
      run *= 2;
    }
    sorting::sort_runs(t, keys, size, run);
    for (; run < size; run *= 2) {
      if (size <= sorting::held_keys * t.lanes()) {
        sorting::merge_runs(t, keys, size, run);
      } else {
        sorting::exchange_runs(t, keys, size, run);
      }
    }
    t.sync();
  }
}

/// Moves the `wanted` lowest of `size` distinct keys (a power of two) to the front, ascending,
/// followed by the others in some order. Implemented as sort().
/// Cost: O(size * wanted) for a single lane.
template <thread_group T>
UNMASK_HD void sort_front(const T& t, std::uint64_t* keys, index_t size, index_t wanted) {
  if constexpr (std::same_as<T, serial>) {
    for (index_t i = 0; i < size; ++i) {
      const std::uint64_t key = keys[i];
      index_t at = i;
      if (i >= wanted) {
        if (wanted == 0 || !(key < keys[wanted - 1])) {
          continue;
        }
        at = wanted - 1;
        keys[i] = keys[at];
      }
      for (; at > 0 && key < keys[at - 1]; --at) {
        keys[at] = keys[at - 1];
      }
      keys[at] = key;
    }
  } else {
    sort(t, keys, size);
  }
}

}  // namespace unmask::step
