// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Names of the machine that a benchmark runs on.

#include <unmask/host/instruction_set.hpp>
#include <unmask/version.hpp>

#include <fstream>
#include <string>
#include <thread>

namespace bench {

/// Name of the processor as Linux has it in /proc/cpuinfo; "unknown processor" elsewhere.
[[nodiscard]] inline std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

/// Name of an instruction set.
[[nodiscard]] inline const char* name_of(unmask::host::instruction_set level) {
  constexpr const char* names[] = {"no vector instructions", "AVX2", "AVX-512", "NEON"};
  return names[static_cast<int>(level)];
}

/// Name and version of the compiler.
[[nodiscard]] inline std::string compiler_name() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

/// "unmask 0.1.0, PROCESSOR, 2 processors, AVX-512, g++ 12.2.0".
[[nodiscard]] inline std::string machine_name() {
  std::string version;
  for (const int part : {UNMASK_VERSION_MAJOR, UNMASK_VERSION_MINOR, UNMASK_VERSION_PATCH}) {
    version += (version.empty() ? "" : ".") + std::to_string(part);
  }
  return "unmask " + version + ", " + processor_name() + ", " +
         std::to_string(std::thread::hardware_concurrency()) + " processors, " +
         name_of(unmask::host::best_instruction_set()) + ", " + compiler_name();
}

}  // namespace bench
