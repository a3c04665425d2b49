// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// PTX as the interpreter runs it: the modules of a program, and their kernels as lists of
/// instructions. Decoded from text when a kernel is launched first.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::ptx {

/// Threads of a warp, and all of them as a mask.
inline constexpr unsigned warp_size = 32;
using lane_mask = std::uint32_t;
inline constexpr lane_mask every_lane = 0xffffffffU;

/// Calls body(lane) for each lane of a mask.
void for_each_lane(lane_mask lanes, const auto& body) {
  if (lanes == every_lane) {
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      body(lane);
    }
  } else {
    for (; lanes != 0; lanes &= lanes - 1) {
      body(static_cast<unsigned>(std::countr_zero(lanes)));
    }
  }
}

/// PTX that the interpreter does not know, with its text.
struct unknown_ptx : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Place of an operand, in bytes: in the registers of a warp or, if negative, ~place in the
/// constants of the kernel. A predicate is a lane_mask; any other operand has a slot of 4 or 8
/// bytes for each lane, with a value of fewer bytes in front.
using place = std::int32_t;
inline constexpr place nowhere = INT32_MIN;

/// Operands of one warp.
struct operands {
  std::byte* registers = nullptr;
  std::byte* constants = nullptr;
  lane_mask lanes = 0;

  template <class T>
  [[nodiscard]] T* at(place p) const {
    return reinterpret_cast<T*>(p >= 0 ? registers + p : constants + ~p);
  }
};

enum class state_space : std::uint8_t { generic, global, shared, local, parameters };
enum class memory_order : std::uint8_t { weak, relaxed, acquire, release, acq_rel };

/// Kinds of instructions: `compute` touches nothing but registers.
enum class action : std::uint8_t {
  compute,
  load,
  store,
  atomic,
  branch,
  leave,
  block_barrier,
  warp_barrier,
  shuffle,
  vote,
  reduction,
  fence,
  pause,  ///< other warps go on
};

struct instruction {
  action kind = action::compute;
  state_space space = state_space::generic;
  memory_order order = memory_order::weak;
  /// Bytes of an element, whether it is signed, and the number of elements.
  std::uint8_t bytes = 0;
  bool is_signed = false;
  std::uint8_t count = 1;
  /// Bit n: element n is in a register of 64 bits.
  std::uint8_t wide = 0;
  bool guard_is_negated = false;
  place guard = nowhere;
  /// Destinations and sources in the order of the text; address: args[0] of loads and atomics.
  place to[4] = {nowhere, nowhere, nowhere, nowhere};
  place args[4] = {nowhere, nowhere, nowhere, nowhere};
  std::int64_t offset = 0;
  /// Index of the next instruction of a branch that is taken.
  std::uint32_t target = 0;
  /// Bytes that are used of those loaded.
  std::uint32_t used = 0xffffffffU;
  /// What a compute instruction, an atomic (on one lane's old value), or a shuffle does.
  void (*compute)(const operands&, const instruction&) = nullptr;
  std::uint64_t (*combine)(std::uint64_t old, std::uint64_t value, std::uint64_t other) = nullptr;
  std::uint8_t variant = 0;
  /// Index of the call by which it is here, in kernel::calls.
  std::uint32_t call = 0;
  /// Line in the module, and index in kernel::sources if the compiler says where it comes from.
  std::uint32_t line = 0;
  std::uint32_t source = 0;
};

struct parameter {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A variable of shared memory, as an offset in a block's.
struct shared_variable {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// Places of the special registers.
enum special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  specials,
};
inline constexpr std::size_t slot_bytes = std::size_t{4} * warp_size;

/// A line of a source file.
struct source_line {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
};

/// A call of a device function: its line, and the index of the call around it. The first is none.
struct device_call {
  std::uint32_t line = 0;
  std::uint32_t from = 0;
};

struct kernel {
  std::string name;
  std::vector<device_call> calls = {{}};
  /// Where instructions come from: a line, then the lines of the calls that were inlined.
  std::vector<std::vector<source_line>> sources = {{}};
  std::vector<instruction> code;
  std::vector<std::string_view> texts;  ///< of the instructions, in the module
  std::vector<std::byte> constants;
  std::vector<parameter> parameters;
  std::vector<shared_variable> shared;
  /// Bytes of the registers of a warp, with the special ones first; of shared memory whose size the
  /// kernel knows, where the rest begins; of a thread's local memory.
  std::size_t register_bytes = 0;
  std::size_t shared_bytes = 0;
  bool takes_dynamic_shared = false;
  std::size_t local_bytes = 0;
  unsigned most_threads = 1024;

  [[nodiscard]] std::size_t parameter_bytes() const {
    return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
  }
};

/// Addresses of the windows in which a thread sees memory that is not global.
inline constexpr std::uint64_t window_mask = 0xfULL << 60U;
inline constexpr std::uint64_t shared_window = 1ULL << 60U;
inline constexpr std::uint64_t local_window = 2ULL << 60U;
inline constexpr std::uint64_t parameter_window = 3ULL << 60U;
/// Where the shared memory begins whose size a launch gives.
inline constexpr std::uint64_t dynamic_shared_address = shared_window + (1U << 20U);

/// The text of one translation unit.
class module {
 public:
  /// The text stays alive.
  explicit module(std::string_view text);

  /// The kernel of a name, decoded when it is first asked for; null if it is not here.
  [[nodiscard]] const kernel* find(const std::string& name);

  [[nodiscard]] const std::string& file(std::uint32_t number) const;

 private:
  struct entry {
    std::size_t begin = 0;
    std::uint32_t line = 0;
  };
  struct variable {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    std::uint32_t align = 1;
    bool is_extern = false;
  };
  friend class decoder;

  std::string_view text_;
  std::map<std::string, entry, std::less<>> entries_;
  std::map<std::string, kernel, std::less<>> kernels_;
  std::map<std::string, variable, std::less<>> shared_;
  std::map<std::string, variable, std::less<>> globals_;
  std::map<std::uint32_t, std::string> files_;
  std::vector<std::vector<std::uint64_t>> memory_;
};

/// What an opcode with its types does with registers.
struct operation {
  void (*compute)(const operands&, const instruction&) = nullptr;
  /// Bytes of the slots of the destination and of each source; 1 is a predicate, 0 none.
  std::uint8_t to = 0;
  std::uint8_t args[4] = {};
};

/// Null for an opcode that nvcc has not made of the kernels yet.
[[nodiscard]] const operation* find_operation(std::string_view opcode);

}  // namespace unmask::ptx
