// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>

// The calls of c_api.h that make profiles. For c_library.hpp.

/// A record of the C interface.
struct unmask_calibrator {
  unmask::calibrated_threshold<> settings;
  unmask::threshold_calibrator recorder;
  std::string text = {};
};

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_calibrator_new(const char* policy,
                                    std::int32_t block_length,
                                    unmask_calibrator** calibrator) {
  return guarded([&] {
    needed(calibrator, "calibrator") = nullptr;
    check_argument(policy != nullptr, "policy", "null", "a text");
    check_argument(block_length >= 1, "block_length", block_length, "at least 1");
    const unmask::named_policy parts = unmask::read_policy(policy, unmask::no_files);
    check_argument(parts.commit_rule.needs_profile(),
                   "policy",
                   policy,
                   "one with calibrated_threshold, such as osdt_gsm8k");
    const unmask::calibrated_threshold<>& settings = parts.commit_rule.profile();
    *calibrator = new unmask_calibrator{
        settings, unmask::threshold_calibrator({.block_length = block_length}, settings.recorded)};
  });
}

void unmask_calibrator_free(unmask_calibrator* calibrator) {
  delete calibrator;
}

unmask_status unmask_calibrator_observe(unmask_calibrator* calibrator,
                                        unmask_session* session,
                                        std::int32_t slot) {
  return guarded([&] {
    unmask_calibrator& to = needed(calibrator, "calibrator");
    needed(session, "session").with([&](auto& q) { to.recorder.observe(q, slot); });
  });
}

unmask_status unmask_calibrator_profile(unmask_calibrator* calibrator, const char** text) {
  return guarded([&] {
    unmask_calibrator& from = needed(calibrator, "calibrator");
    needed(text, "text") = nullptr;
    from.text = unmask::to_json(from.recorder.calibrate(from.settings));
    *text = from.text.c_str();
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
