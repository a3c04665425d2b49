// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that reads policies by name; UNMASK_TEST_READ is its function.
#include <unmask/named/read_policy.hpp>

#include <vector>

/// The number of parts of a text, 0 if a part is not known; -1 if what was read is not what the
/// text says, or memory beside the policy was written.
extern "C" int UNMASK_TEST_READ(const char* text) {
  struct {
    unsigned char before[64] = {};
    unmask::named_policy policy;
    unsigned char behind[64] = {};
  } read;
  try {
    read.policy = unmask::read_policy(text);
  } catch (const unmask::policy_text_error&) {
    return 0;
  }
  bool same = read.policy.commit_rule.size() == read.policy.count;
  for (int i = 0; i < 64; ++i) {
    same = same && read.before[i] == 0 && read.behind[i] == 0;
  }
  return same ? read.policy.count : -1;
}
