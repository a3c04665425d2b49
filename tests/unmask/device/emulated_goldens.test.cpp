// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decisions of the released code of ES-dLLM and Dynamic-dLLM at its layers, replayed on a stream
// with emulated kernels. The host replays it in unmask_goldens.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "goldens/by_name.hpp"
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

// Every sixth line of each rule that a text decodes: unmask_goldens replays all of them.
TEST(EmulatedGoldens, RulesByName) {
  std::map<std::string, int> count;
  for (const char* file : {"frechet.jsonl",
                           "d3llm.jsonl",
                           "dsb.jsonl",
                           "adablock.jsonl",
                           "uncode.jsonl",
                           "remdm_loop.jsonl",
                           "remdm_conf.jsonl",
                           "rcr.jsonl",
                           "freedave.jsonl",
                           "wino.jsonl",
                           "linear_spec.jsonl",
                           "core.jsonl",
                           "soar.jsonl",
                           "indel.jsonl",
                           "daedal.jsonl"}) {
    for (const node& line : read_json_lines(golden_file(file))) {
      const auto name = line.get<std::string>("rule");
      const auto rules = rules_by_name();
      const auto found =
          std::find_if(rules.begin(), rules.end(), [&](const rule& r) { return r.name == name; });
      ASSERT_NE(found, rules.end()) << name;
      if (count[name]++ % 6 == 0) {
        const verdict v = found->check(line);
        EXPECT_TRUE(v.passed || v.skipped) << line.get<std::string>("id") << ": " << v.detail;
      }
    }
  }
  EXPECT_EQ(count.size(), 17U);
}

}  // namespace
}  // namespace unmask::goldens
