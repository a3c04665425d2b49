// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Memory that kernels may touch: where it is, which of its bytes were written, and who touched it
/// in the running launch.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx/races.hpp"

namespace unmask::ptx {

/// A block of global memory.
struct allocation {
  std::uint64_t begin = 0;
  std::size_t bytes = 0;
  std::string name;
  /// Whether each byte was written; empty for memory that the host writes.
  std::vector<std::uint8_t> written;
  access_history history;

  allocation(std::uint64_t at, std::size_t size, std::string what, bool is_written)
      : begin(at)
      , bytes(size)
      , name(std::move(what))
      , written(is_written ? 0 : size, 0)
      , history(size) {}

  [[nodiscard]] bool contains(std::uint64_t address, std::size_t size) const {
    return address >= begin && address - begin <= bytes && size <= bytes - (address - begin);
  }
  void mark_written(std::uint64_t address, std::size_t size) {
    if (!written.empty()) {
      std::memset(written.data() + (address - begin), 1, size);
    }
  }
  /// True if all bytes were written that `used` has a bit for.
  [[nodiscard]] bool is_written(std::uint64_t address, std::size_t size, std::uint32_t used) const {
    if (!written.empty()) {
      const std::uint8_t* const at = written.data() + (address - begin);
      for (std::size_t n = 0; n < size; ++n) {
        if (at[n] == 0 && (used >> n & 1U) != 0) {
          return false;
        }
      }
    }
    return true;
  }
};

class device_memory {
 public:
  void add(const void* p, std::size_t bytes, std::string name, bool is_written) {
    const auto begin = reinterpret_cast<std::uint64_t>(p);
    all_.insert_or_assign(begin,
                          std::make_unique<allocation>(begin, bytes, std::move(name), is_written));
    recent_[0] = recent_[1] = nullptr;
  }
  void remove(const void* p) {
    all_.erase(reinterpret_cast<std::uint64_t>(p));
    recent_[0] = recent_[1] = nullptr;
  }

  /// The allocation that has these bytes; null if there is none.
  [[nodiscard]] allocation* find(std::uint64_t address, std::size_t size) {
    if (recent_[0] != nullptr && recent_[0]->contains(address, size)) {
      return recent_[0];
    }
    if (recent_[1] != nullptr && recent_[1]->contains(address, size)) {
      std::swap(recent_[0], recent_[1]);
      return recent_[0];
    }
    const auto after = all_.upper_bound(address);
    if (after == all_.begin()) {
      return nullptr;
    }
    allocation* const found = std::prev(after)->second.get();
    if (!found->contains(address, size)) {
      return nullptr;
    }
    recent_[1] = recent_[0];
    recent_[0] = found;
    return found;
  }

  /// "byte 12 of a cudaMalloc of 64 bytes".
  [[nodiscard]] std::string describe(std::uint64_t address) const {
    const auto after = all_.upper_bound(address);
    if (after != all_.begin()) {
      const allocation& a = *std::prev(after)->second;
      if (address - a.begin < a.bytes + 4096) {
        return "byte " + std::to_string(address - a.begin) + " of " + a.name + " of " +
               std::to_string(a.bytes) + " bytes";
      }
    }
    return "an address in no allocation";
  }

 private:
  std::map<std::uint64_t, std::unique_ptr<allocation>> all_;
  allocation* recent_[2] = {};
};

}  // namespace unmask::ptx
