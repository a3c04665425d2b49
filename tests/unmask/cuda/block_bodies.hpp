// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Operations of a whole block, as functions of a block that emulated threads and a
/// device run alike: from an array of numbers to another.

#include <unmask/cuda/choose.hpp>
#include <unmask/cuda/hold_chunk.hpp>
#include <unmask/stats/last_key.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unmask::testing {

/// One number a thread: the sums before it and of all.
struct sums_body {
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t, std::uint64_t* out) const {
    const lane_sum<std::uint64_t> sum = b.exclusive_sum(in[b.lane()]);
    const lane_sum<std::uint32_t> narrow =
        b.exclusive_sum(static_cast<std::uint32_t>(in[b.lane()]));
    const lane_count odd = b.count(in[b.lane()] % 2 == 1);
    std::uint64_t* const own = out + 6 * b.lane();
    own[0] = sum.before;
    own[1] = sum.all;
    own[2] = narrow.before;
    own[3] = narrow.all;
    own[4] = static_cast<std::uint64_t>(odd.before);
    own[5] = static_cast<std::uint64_t>(odd.all);
  }
};

/// One number a thread: the bitwise or, twice.
struct any_body {
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t, std::uint64_t* out) const {
    const std::uint64_t all = b.any(in[b.lane()]);
    out[b.lane()] = b.any(~in[b.lane()]);  // the memory of the first may be used again
    out[b.lanes() + b.lane()] = all;
  }
};

/// Each warp's first keys of its share of the `n`, in its list; the last 64 of the share are a
/// list.
struct hold_body {
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t n, std::uint64_t* out) const {
    const index_t share = n / b.warps();
    const std::uint64_t* const mine = in + b.warp() * share;
    auto& list = reinterpret_cast<device::warp_list*>(out)[b.warp()];
    device::warp_holder holder(b, list);
    const index_t single = share - device::warp_list::held;
    for (index_t i = b.warp_lane(); i < single; i += device::warp_threads) {
      holder.push(mine[i]);
    }
    holder.sort();
    holder.push_list(mine + single);
  }
};

/// Sorts a power of two of keys.
struct sort_body {
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t n, std::uint64_t* out) const {
    for (index_t i = b.lane(); i < n; i += b.lanes()) {
      out[i] = in[i];
    }
    step::sort(b, out, n);
  }
};

/// Selects from keys: the number of indices, then the indices.
struct choose_body {
  index_t wanted = 0;
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t n, std::uint64_t* out) const {
    auto* const space = reinterpret_cast<device::digit_counts*>(out + n + 1);
    auto* const keys = reinterpret_cast<std::uint32_t*>(space + 1);
    auto* const chosen = reinterpret_cast<index_t*>(keys + n);
    for (index_t i = b.lane(); i < n; i += b.lanes()) {
      keys[i] = static_cast<std::uint32_t>(in[i]);
    }
    b.sync();
    const index_t count = device::choose(b, keys, n, wanted, chosen, *space);
    b.sync();
    for (index_t i = b.lane(); i < n; i += b.lanes()) {
      out[1 + i] = i < count ? static_cast<std::uint64_t>(chosen[i]) : 0;
    }
    if (b.lane() == 0) {
      out[0] = static_cast<std::uint64_t>(count);
    }
  }
  /// Numbers that `out` needs.
  [[nodiscard]] static std::size_t size(std::size_t n) {
    return 2 * n + 2 + sizeof(device::digit_counts) / sizeof(std::uint64_t) + 1;
  }
};

/// Finds the last kept column of a row: out[0] is its key. Numbers are bits of floats.
struct last_key_body {
  canonical::row_limits limits;
  canonical::value_bins values;
  using bins = canonical::key_bins<8>;
  UNMASK_HD void
  operator()(const auto& b, const std::uint64_t* in, index_t n, std::uint64_t* out) const {
    const auto sweep = [&](float /*least*/, const auto& use) {
      for (index_t i = b.lane(); i < n; i += b.lanes()) {
        use(math::from_bits(static_cast<std::uint32_t>(in[i])), i);
      }
    };
    const std::uint64_t last =
        canonical::last_key_of(b, limits, n, values, *reinterpret_cast<bins*>(out + 1), sweep);
    if (b.lane() == 0) {
      out[0] = last;
    }
  }
  [[nodiscard]] static std::size_t size() { return 2 + sizeof(bins) / sizeof(std::uint64_t); }
};

/// Runs `body` by one block of 128 or 256 threads on the device; needs one. `out` is the size of
/// the output, which is zero before.
template <class Body>
[[nodiscard]] std::vector<std::uint64_t> run_on_device(const Body& body,
                                                       index_t threads,
                                                       const std::vector<std::uint64_t>& in,
                                                       std::size_t out);

/// The tickets that blocks take of one counter for each group of them, and for each group the
/// number of blocks whose writes its last one saw; needs a device.
struct tickets_taken {
  static constexpr index_t group = 8;
  std::vector<std::uint32_t> tickets;
  std::vector<std::uint32_t> seen;
};
[[nodiscard]] tickets_taken take_tickets_on_device(index_t groups);

}  // namespace unmask::testing
