// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Runs launches: blocks of warps whose threads have a counter each.

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptx/memory.hpp"
#include "ptx/program.hpp"
#include "support/dice.hpp"

namespace unmask::ptx {

/// How launches are run; read from the environment, see README.md.
struct schedule {
  /// 0 is orderly: block by block, warp by warp, diverged threads as soon as they may converge.
  std::uint64_t seed = 0;
  /// Most blocks that run at a time.
  unsigned resident = 1;
  bool watches_races = false;
  /// Multiprocessors that the device claims to have.
  int multiprocessors = 132;
  /// Streams work when the host waits for them; else at once, or at any time between with a seed.
  bool is_late = false;

  [[nodiscard]] static schedule from_environment();
};

struct dimensions {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  [[nodiscard]] std::uint64_t size() const { return std::uint64_t{x} * y * z; }
};

struct launch {
  const kernel* code = nullptr;
  const module* from = nullptr;
  dimensions grid;
  dimensions block;
  std::size_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
};

/// Ends a launch: what is wrong was reported.
struct launch_failed {};

class machine {
 public:
  explicit machine(const schedule& how);

  [[nodiscard]] device_memory& memory() { return memory_; }
  [[nodiscard]] const schedule& how() const { return how_; }
  /// Runs the launches from here on in another way.
  void use(const schedule& how) {
    how_ = how;
    dice_ = testing::dice(how.seed);
  }
  [[nodiscard]] testing::dice& choices() { return dice_; }

  /// Registers of a warp. Those of a warp before it have its values: what nvcc makes writes a
  /// register before it reads it, and to fill megabytes for each warp takes longer than to run it.
  [[nodiscard]] std::vector<std::byte> take_registers(std::size_t bytes) {
    std::vector<std::byte> r;
    if (!registers_.empty()) {
      r = std::move(registers_.back());
      registers_.pop_back();
    }
    if (r.size() < bytes) {
      r.assign(bytes, std::byte{0xcd});
    }
    return r;
  }
  void give_back(std::vector<std::byte> registers) { registers_.push_back(std::move(registers)); }

  /// Runs a launch to its end; false if it had to be ended.
  bool run(const launch& what);

  /// Records a mistake of the program.
  void report(const std::string& what);
  /// True once for a kind of report about an instruction.
  [[nodiscard]] bool first_time(const instruction* in, int kind) {
    return seen_.insert({in, kind}).second;
  }
  /// Reports so far, the first 20; forgets them.
  [[nodiscard]] std::vector<std::string> take_reports();
  [[nodiscard]] std::size_t report_count() const { return reports_.size(); }

 private:
  schedule how_;
  testing::dice dice_;
  device_memory memory_;
  std::uint32_t launches_ = 0;
  std::vector<std::string> reports_;
  std::vector<std::vector<std::byte>> registers_;
  std::set<std::pair<const instruction*, int>> seen_;
};

}  // namespace unmask::ptx
