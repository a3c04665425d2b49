// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decisions of the released code of ES-dLLM and Dynamic-dLLM at its layers, replayed on a stream
// with emulated kernels. The host replays it in unmask_goldens.

#include <gtest/gtest.h>

#include "goldens/dynamic_dcu.hpp"
#include "goldens/es_dllm.hpp"
#include "goldens/lines.hpp"

namespace unmask::goldens {
namespace {

void replay(const std::string& file, const std::string& rule, line_check check, int lines) {
  int count = 0;
  for (const node& line : read_json_lines(golden_file(file))) {
    if (line.get<std::string>("rule") == rule) {
      const verdict v = check(line);
      EXPECT_TRUE(v.passed) << line.get_or<std::string>("id", line.where()) << ": " << v.detail;
      ++count;
    }
  }
  EXPECT_GE(count, lines) << "the recorded lines are gone";
}

TEST(EmulatedGoldens, WholeDecodesOfEsDllm) {
  replay("es_dllm.jsonl", "es.loop", check_es_loop, 5);
}

TEST(EmulatedGoldens, PassesOfDynamicDllm) {
  replay("dynamic_dllm.jsonl", "dynamic.dcu", check_dynamic_dcu, 3);
}

}  // namespace
}  // namespace unmask::goldens
