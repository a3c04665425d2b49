// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Calls of the C interface for its tests.

#include <unmask/c_api.h>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lent.hpp"

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
[[nodiscard]] inline unmask_logits c_logits(const std::vector<float>& z, std::int32_t columns) {
  unmask_logits l = UNMASK_LOGITS_INIT;
  l.rows = static_cast<std::int32_t>(z.size()) / columns;
  l.columns = columns;
  l.data = z.data();
  return l;
}

/// unmask_record() whose arguments are gone behind the call.
inline unmask_status record_lent(unmask_session* s, std::string_view file, std::string_view model) {
  lent<char> file_copy(file);
  lent<char> model_copy(model);
  return unmask_record(s, file_copy.data(), model_copy.data());
}

/// unmask_start() whose arguments are gone behind the call, but for the tokens.
inline unmask_status start_lent(unmask_session* s,
                                std::int32_t slot,
                                std::span<std::int32_t> tokens,
                                const unmask_sequence& sequence) {
  lent<unmask_sequence> q(sequence);
  std::optional<lent<std::uint8_t>> editable;
  if (sequence.editable != nullptr) {
    editable.emplace(std::span(sequence.editable, static_cast<std::size_t>(sequence.length)));
    q.data()->editable = editable->data();
  }
  lent<std::int32_t> suppressed(std::span(sequence.suppressed, sequence.suppressed_count));
  q.data()->suppressed = suppressed.data();
  std::optional<lent<char>> policy;
  if (sequence.policy != nullptr) {
    q.data()->policy = policy.emplace(std::string_view(sequence.policy)).data();
  }
  return unmask_start(s, slot, tokens.data(), static_cast<std::int32_t>(tokens.size()), q.data());
}

/// unmask_supply() of packed rows that are gone behind the call.
inline unmask_status
supply_lent(unmask_session* s, const std::vector<float>& z, std::int32_t columns) {
  lent<float> rows(z);
  unmask_logits logits = c_logits(z, columns);
  logits.data = rows.data();
  lent<unmask_logits> l(logits);
  return unmask_supply(s, l.data());
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
