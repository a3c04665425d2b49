// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calibrator.hpp"

#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "policy_of.hpp"

namespace unmask_python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// The rule of a policy, which says what its profile is to be.
unmask::calibrated_threshold<> settings_of(const std::string& policy) {
  const unmask::named_policy parts = policy_of(policy, false);
  if (!parts.commit_rule.needs_profile()) {
    throw std::invalid_argument(
        "policy must be one with calibrated_threshold, such as osdt_gsm8k, got " + policy);
  }
  return parts.commit_rule.profile();
}

class calibrator {
 public:
  calibrator(const std::string& policy, unmask::index_t block_length)
      : settings_(settings_of(policy))
      , recorder_({.block_length = block_length}, settings_.recorded) {
    if (block_length < 1) {
      throw std::invalid_argument("block_length must be at least 1, got " +
                                  std::to_string(block_length));
    }
  }

  void observe(const nb::object& session, unmask::index_t slot) {
    if (settings_.recorded == unmask::collect::candidates) {
      recorder_.add(
          nb::cast<std::vector<unmask::candidate_entry>>(session.attr("candidates")(slot)));
    } else {
      recorder_.add(nb::cast<std::vector<unmask::commit_entry>>(session.attr("committed")(slot)));
    }
  }

  [[nodiscard]] std::string profile() const {
    return unmask::to_json(recorder_.calibrate(settings_));
  }
  void save(const std::string& file) const {
    unmask::save_profile(recorder_.calibrate(settings_), file);
  }

 private:
  unmask::calibrated_threshold<> settings_;
  unmask::threshold_calibrator recorder_;
};

}  // namespace

void bind_calibrator(nb::module_& m) {
  nb::class_<calibrator>(
      m, "Calibrator", R"doc(Makes the profile of OSDT from the decode of one sequence.

    calibrator = unmask.Calibrator("osdt_gsm8k", block_length=32)
    while (request := session.next()) is not None:  # a session of the same policy
        session.supply(...)
        calibrator.observe(session)
    calibrator.save("profile.json")                 # for "osdt_gsm8k('profile.json')"

`policy` has calibrated_threshold without a file, which says what the profile is to be. With
recorded=candidates the session needs trace=True.)doc")
      .def(nb::init<const std::string&, unmask::index_t>(), "policy"_a, "block_length"_a)
      .def("observe",
           &calibrator::observe,
           "session"_a,
           "slot"_a = 0,
           nb::sig("def observe(self, session: Session, slot: int = 0) -> None"),
           "Records the last step of a slot: call it once after each supply(), the last included.")
      .def("profile", &calibrator::profile, "Text of the profile of what has been recorded.")
      .def("save",
           &calibrator::save,
           "file"_a,
           "Writes that text to a file. Errors: RuntimeError with its name.");
}

}  // namespace unmask_python
