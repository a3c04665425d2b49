// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Rows of logits to read, and the plain read of the same memory that a kernel is compared with.

#include <unmask/host/read_rows.hpp>
#include <unmask/host/thread_pool.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <type_traits>
#include <vector>

namespace bench {

using unmask::bfloat16;
using unmask::float16;
using unmask::index_t;
using unmask::record;
using unmask::row_input;
using unmask::statistics;
using unmask::token_id;
namespace host = unmask::host;
namespace stat = unmask::stat;

/// Statistics of a policy that ranks by entropy and margin.
inline constexpr statistics all_statistics = stat::margin | stat::entropy;

template <unmask::element T>
[[nodiscard]] T from_float(float x) {
  const auto bits = unmask::math::bits_of(x);
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {static_cast<std::uint16_t>(bits >> 16U)};
  } else {  // a normal number of moderate size, truncated
    const std::uint32_t rest = (bits & 0x7fffffffU) >> 13U;
    const std::uint32_t low = 113U << 10U;
    return {static_cast<std::uint16_t>(((bits >> 16U) & 0x8000U) |
                                       (rest < low ? 0U : rest - (112U << 10U)))};
  }
}

struct freed {
  void operator()(void* memory) const { std::free(memory); }
};

/// Rows as a model writes them: a spread of 2.5 and one peak of 18, a third of the way along the
/// row, or in column 0 of a row that is to fit into the first cache: there the search for the best
/// column would otherwise weigh more than it does in a whole vocabulary.
template <unmask::element T>
class logits {
 public:
  logits(index_t rows, index_t vocab)
      : size_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab))
      , memory_(
            static_cast<T*>(std::aligned_alloc(4096, (size_ * sizeof(T) + 4095) / 4096 * 4096))) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
    std::mt19937 random(1);
    std::normal_distribution<float> spread(0.0F, 2.5F);
    std::vector<float> some(1 << 16);
    for (float& x : some) {
      x = spread(random);
    }
    for (std::size_t i = 0; i < size_; ++i) {
      memory_.get()[i] = from_float<T>(some[(i * 7919 + i / some.size()) % some.size()]);
    }
    for (index_t r = 0; r < rows; ++r) {
      row_input<T> in;
      in.logits = memory_.get() + static_cast<std::size_t>(r) * static_cast<std::size_t>(vocab);
      in.columns = vocab;
      memory_.get()[in.logits - memory_.get() + (vocab < 10000 ? 0 : vocab / 3)] =
          from_float<T>(18.0F);
      rows_.push_back(in);
    }
  }

  [[nodiscard]] const std::vector<row_input<T>>& rows() const { return rows_; }
  [[nodiscard]] const T* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::unique_ptr<T, freed> memory_;
  std::vector<row_input<T>> rows_;
};

using words = std::uint64_t __attribute__((vector_size(64)));

/// Reads `count` words in order and returns a number that depends on all. With `Ahead`, prefetches
/// the words so many further on: the processor's own guesses do not reach the memory's speed
/// everywhere.
template <std::size_t Ahead>
[[nodiscard]] std::uint64_t read_words(const words* p, std::size_t count) {
  words a{};
  words b{};
  words c{};
  words d{};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t k = 0; Ahead > 0 && k < 4; ++k) {
      const auto at = reinterpret_cast<std::uintptr_t>(p + i) + (k + Ahead) * sizeof(words);
      __builtin_prefetch(reinterpret_cast<const void*>(at));
    }
    a |= p[i];
    b |= p[i + 1];
    c |= p[i + 2];
    d |= p[i + 3];
  }
  a |= b | c | d;
  return a[0] | a[1] | a[2] | a[3] | a[4] | a[5] | a[6] | a[7];
}

/// The plain read of all rows by a pool's threads, in pieces of 512 KB.
template <std::size_t Ahead, unmask::element T>
void read_plainly(const logits<T>& all, host::thread_pool& pool, std::vector<std::uint64_t>& seen) {
  const auto* p = reinterpret_cast<const words*>(all.data());
  const std::size_t count = all.size() * sizeof(T) / sizeof(words);
  constexpr std::size_t piece = (std::size_t{1} << 19U) / sizeof(words);
  seen.resize(count / piece + 1);
  const auto work = [&](index_t i) noexcept {
    const std::size_t first = static_cast<std::size_t>(i) * piece;
    seen[static_cast<std::size_t>(i)] =
        read_words<Ahead>(p + first, std::min(piece, count - first));
  };
  pool.run(static_cast<index_t>(seen.size()), work);
}

/// A kernel with everything it needs, for one size.
template <statistics S, unmask::element T>
class reading {
 public:
  reading(const logits<T>& all, host::thread_pool& pool, host::instruction_set level)
      : all_(all)
      , pool_(pool)
      , level_(level)
      , out_(all.rows().size())
      , scratch_(host::scratch_records(pool.concurrency())) {}

  void operator()() {
    host::read_rows<S, T>(all_.rows(), nullptr, out_.data(), pool_, level_, scratch_);
    asm volatile("" : : "r"(out_.data()) : "memory");
  }

 private:
  const logits<T>& all_;
  host::thread_pool& pool_;
  host::instruction_set level_;
  std::vector<record<S>> out_;
  std::vector<record<S>> scratch_;
};

}  // namespace bench
