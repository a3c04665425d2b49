// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Calls of the C interface for its tests.

#include <unmask/c_api.h>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace unmask::testing {

struct destroy_session {
  void operator()(unmask_session* s) const { unmask_destroy(s); }
};
using session_pointer = std::unique_ptr<unmask_session, destroy_session>;

[[nodiscard]] inline session_pointer made(const char* policy, const unmask_options& options) {
  unmask_session* s = nullptr;
  EXPECT_EQ(unmask_create(policy, &options, &s), UNMASK_OK) << unmask_last_error();
  return session_pointer(s);
}

/// Packed rows of `columns` numbers in host memory.
[[nodiscard]] inline unmask_logits logits_of(const std::vector<float>& z, std::int32_t columns) {
  unmask_logits l = UNMASK_LOGITS_INIT;
  l.rows = static_cast<std::int32_t>(z.size()) / columns;
  l.columns = columns;
  l.data = z.data();
  return l;
}

/// Expects the status of a call, and in its error message these words and no structure of C++.
inline void
expect_fails(unmask_status got, unmask_status status, const std::vector<const char*>& words) {
  EXPECT_EQ(got, status) << unmask_last_error();
  for (const char* word : words) {
    EXPECT_THAT(unmask_last_error(), ::testing::HasSubstr(word));
  }
  for (const char* structure : {"model_info",
                                "session_capacity",
                                "sequence_shape",
                                "start_options",
                                "row_modifiers",
                                "forward_request",
                                " segment::"}) {
    EXPECT_THAT(unmask_last_error(), ::testing::Not(::testing::HasSubstr(structure)));
  }
}

}  // namespace unmask::testing
