// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/token_automaton.hpp>
#include <unmask/core/check.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

/// Memory of a constraint with a fixed size: interned sets, and a table of results.
namespace UNMASK_NAMESPACE::detail::constraints {

struct free_memory {
  void operator()(void* data) const { std::free(data); }
};

/// Zeroed memory for `count` numbers. Pages that are never used take no memory. Those at the
/// beginning are fetched at once, so that the first steps need not wait for them.
template <class T>
[[nodiscard]] std::unique_ptr<T[], free_memory> zeroed(std::size_t count) {
  auto* const data = static_cast<T*>(std::calloc(count > 0 ? count : 1, sizeof(T)));
  if (data == nullptr) {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    raise<std::runtime_error>("out of memory");
#endif
  }
  constexpr std::size_t page = 4096;
  volatile char* const bytes = reinterpret_cast<char*>(data);
  for (std::size_t i = 0; i < count * sizeof(T) / 16 && i < (std::size_t{1} << 21U); i += page) {
    bytes[i] = 0;
  }
  return std::unique_ptr<T[], free_memory>(data);
}

/// The smallest power of two that is at least n.
[[nodiscard]] constexpr std::size_t power_of_two(std::size_t n) {
  std::size_t p = 1;
  while (p < n) {
    p *= 2;
  }
  return p;
}

/// Sets of bits of one width, each stored once and named by an index. A set never changes. The
/// table begins with a small part of its memory, so that few sets touch few pages.
class bit_sets {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  bit_sets(std::size_t words, std::uint32_t capacity)
      : words_(words)
      , capacity_(capacity)
      , last_mask_(power_of_two(2 * std::size_t{capacity}) - 1)
      , mask_(last_mask_ < first_mask ? last_mask_ : first_mask)
      , bits_(zeroed<std::uint64_t>(words * capacity))
      , tags_(zeroed<std::uint32_t>(capacity))
      , table_(zeroed<entry>(last_mask_ + 1)) {}

  /// Bytes that one set takes.
  [[nodiscard]] static constexpr std::size_t bytes_of(std::size_t words) {
    return 8 * words + 4 * sizeof(entry) + sizeof(std::uint32_t);
  }
  [[nodiscard]] std::size_t words() const { return words_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] const std::uint64_t* operator[](std::uint32_t i) const {
    return bits_.get() + words_ * i;
  }

  /// The index of a set equal to `set`, which is added if it is missing; `none` if it is missing
  /// and there is no room.
  [[nodiscard]] std::uint32_t find_or_add(const std::uint64_t* set) {
    const std::uint32_t tag = hash(set);
    std::size_t at = tag & mask_;
    while (table_[at].name != 0) {
      const entry e = table_[at];
      if (e.tag == tag && std::memcmp((*this)[e.name - 1], set, 8 * words_) == 0) {
        return e.name - 1;
      }
      at = (at + 1) & mask_;
    }
    if (size_ == capacity_) {
      return none;
    }
    std::memcpy(bits_.get() + words_ * size_, set, 8 * words_);
    tags_[size_] = tag;
    table_[at] = {tag, ++size_};
    if (2 * std::size_t{size_} > mask_ && mask_ < last_mask_) {
      enlarge_table();
    }
    return size_ - 1;
  }

  /// Makes room for the given number of sets. Keeps those that are there, and their indices.
  void grow(std::uint32_t capacity) {
    bit_sets larger(words_, capacity);
    for (std::uint32_t i = 0; i < size_; ++i) {
      static_cast<void>(larger.find_or_add((*this)[i]));
    }
    *this = std::move(larger);
  }

  /// Removes all sets but some: `is_kept(i)` says which, in ascending order, and `rename(i, to)` is
  /// told the new index of each.
  void keep(const auto& is_kept, const auto& rename) {
    const std::uint32_t before = size_;
    size_ = 0;
    std::memset(static_cast<void*>(table_.get()), 0, sizeof(entry) * (mask_ + 1));
    for (std::uint32_t i = 0; i < before; ++i) {
      if (is_kept(i)) {
        rename(i, find_or_add((*this)[i]));  // never after i
      }
    }
  }
  void clear() {
    keep([](std::uint32_t) { return false; }, [](std::uint32_t, std::uint32_t) {});
  }

 private:
  static constexpr std::size_t first_mask = 4095;

  struct entry {
    std::uint32_t tag;   // of its bits, so that few other sets are looked at
    std::uint32_t name;  // index + 1; 0 is empty
  };

  void enlarge_table() {
    const std::size_t larger = 8 * (mask_ + 1) - 1;
    std::memset(static_cast<void*>(table_.get()), 0, sizeof(entry) * (mask_ + 1));
    mask_ = larger < last_mask_ ? larger : last_mask_;
    for (std::uint32_t i = 0; i < size_; ++i) {
      std::size_t at = tags_[i] & mask_;
      while (table_[at].name != 0) {
        at = (at + 1) & mask_;
      }
      table_[at] = {tags_[i], i + 1};
    }
  }

  [[nodiscard]] std::uint32_t hash(const std::uint64_t* set) const {
    std::uint64_t h = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      h = (h ^ set[w]) * 0x9e3779b97f4a7c15U;
      h ^= h >> 29U;
    }
    return static_cast<std::uint32_t>(mixed_bits(h) >> 32U);
  }

  std::size_t words_;
  std::uint32_t capacity_;
  std::size_t last_mask_;
  std::size_t mask_;  // of the part of the table in use
  std::unique_ptr<std::uint64_t[], free_memory> bits_;
  std::unique_ptr<std::uint32_t[], free_memory> tags_;
  std::unique_ptr<entry[], free_memory> table_;
  std::uint32_t size_ = 0;
};

/// Results by key, until they are too many; then it is empty again. It begins with a small part of
/// its memory, so that few results touch few pages.
class memo {
 public:
  explicit memo(std::uint32_t entries)
      : last_mask_(power_of_two(2 * std::size_t{entries}) - 1)
      , most_(entries)
      , mask_(last_mask_ < first_mask ? last_mask_ : first_mask)
      , entries_(zeroed<entry>(last_mask_ + 1)) {}

  [[nodiscard]] static constexpr std::size_t bytes_of_entry() { return 2 * sizeof(entry); }

  /// Finds the result of a key, which is not 0. Returns false if it is not there.
  [[nodiscard]] bool find(std::uint64_t key, std::uint32_t& result) const {
    for (std::size_t at = place_of(key); entries_[at].key != 0; at = (at + 1) & mask_) {
      if (entries_[at].key == key) {
        result = entries_[at].result;
        return true;
      }
    }
    return false;
  }
  /// Adds the result of a key that is not there.
  void add(std::uint64_t key, std::uint32_t result) {
    if (size_ == most_ || 2 * std::size_t{size_} > mask_) {
      clear();
      const std::size_t larger = 8 * (mask_ + 1) - 1;
      mask_ = larger < last_mask_ ? larger : last_mask_;
    }
    std::size_t at = place_of(key);
    while (entries_[at].key != 0) {
      at = (at + 1) & mask_;
    }
    entries_[at] = {key, result};
    ++size_;
  }
  void clear() {
    std::memset(static_cast<void*>(entries_.get()), 0, sizeof(entry) * (mask_ + 1));
    size_ = 0;
  }

 private:
  static constexpr std::size_t first_mask = 8191;

  struct entry {
    std::uint64_t key;
    std::uint32_t result;
  };

  [[nodiscard]] std::size_t place_of(std::uint64_t key) const {
    return static_cast<std::size_t>(mixed_bits(key)) & mask_;
  }

  std::size_t last_mask_;
  std::uint32_t most_;
  std::size_t mask_;  // of the part in use
  std::unique_ptr<entry[], free_memory> entries_;
  std::uint32_t size_ = 0;
};

}  // namespace unmask::detail::constraints
