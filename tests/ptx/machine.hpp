// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Runs launches: blocks of warps whose threads have a counter each.

#include <array>
#include <cstdint>
#include <map>
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
  /// Barriers to leave out, by the line that calls them: "file:line".
  std::vector<std::string> without = {};
  /// Ends the program at the first report.
  bool stops = false;
  /// A file that gets the barriers that were passed, one a line: how often, 1 if it alone ordered
  /// two accesses that would race without it, and where it comes from.
  std::string barriers = {};
  /// Functions that are a barrier and nothing else: it comes from where they are called.
  std::vector<std::string> forwards = {};
  /// A file that gets what was counted of each kernel.
  std::string counts = {};

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

/// Counts of the launches of a kernel. An access is one of a warp; a sector is 32 bytes of
/// global memory; a pass is a turn of the 32 banks of shared memory, of which an access without
/// conflicts takes one for each 128 bytes.
struct kernel_counts {
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t threads = 0;         ///< of a block
  std::uint64_t instructions = 0;    ///< of warps
  std::uint64_t block_barriers = 0;  ///< of warps
  std::uint64_t warp_barriers = 0;
  std::uint64_t bytes_read = 0;  ///< that threads asked for
  std::uint64_t sectors_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t sectors_written = 0;
  std::uint64_t atomics = 0;  ///< of threads
  std::uint64_t shared_passes = 0;
  std::uint64_t least_shared_passes = 0;
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

  /// The line that calls a barrier, of "file:line<file:line" from the innermost on: the first that
  /// is none of schedule::forwards.
  [[nodiscard]] std::string caller_in(const std::string& source) const;
  /// The number of that line.
  [[nodiscard]] std::uint32_t origin_of(const std::string& source);
  [[nodiscard]] std::size_t origins() const { return origins_.size(); }
  /// Counts a barrier that a launch has passed; whether it alone kept accesses from racing.
  void count_barriers(std::uint32_t origin, std::uint64_t times, bool is_needed) {
    passed_[origin] += times;
    needed_[origin] |= is_needed ? 1 : 0;
  }
  void count(const std::string& kernel, const kernel_counts& more);
  /// The lines of barriers that alone kept accesses from racing, if they are counted.
  [[nodiscard]] std::vector<std::string> needed_barriers() const {
    std::vector<std::string> lines;
    for (const auto& [line, number] : origins_) {
      if (needed_[number] != 0) {
        lines.push_back(line);
      }
    }
    return lines;
  }
  void forget_barriers() {
    origins_.clear();
    passed_.clear();
    needed_.clear();
  }
  /// Writes what was counted to the files that the schedule names.
  void write_counts() const;

 private:
  schedule how_;
  testing::dice dice_;
  device_memory memory_;
  std::uint32_t launches_ = 0;
  std::vector<std::string> reports_;
  std::vector<std::vector<std::byte>> registers_;
  std::set<std::pair<const instruction*, int>> seen_;
  std::map<std::string, std::uint32_t> origins_;
  std::vector<std::uint64_t> passed_;  // by origin
  std::vector<char> needed_;           // the same
  std::map<std::string, kernel_counts> counts_;
};

}  // namespace unmask::ptx
