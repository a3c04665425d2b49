// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "requirements.hpp"

#include <unmask/named_requirements.hpp>

#include <nanobind/stl/string.h>
#include <string>

#include "arguments.hpp"
#include "gil.hpp"
#include "policy_of.hpp"

namespace unmask_python {

namespace nb = nanobind;
using unmask::policy_requirements;

void bind_requirements(nb::module_& m) {
  static constexpr const char* signature =
      "def requirements(policy: str, *, vocab: int, mask_token: int, eos_token: int | None = None, "
      "length: int, prompt_length: int, block_length: int = 32, window: int = 0, "
      "sequences: int = 1, layers: int = 0, branches: int = 0, files: bool = True) -> Requirements";
  nb::class_<policy_requirements>(
      m, "Requirements", "Requirements of sequences of one shape under a policy.")
      .def_ro("window", &policy_requirements::window, "Least `window` of a Session.")
      .def_ro("most_forwards",
              &policy_requirements::most_forwards,
              "Upper bound on the forward passes of a sequence.")
      .def_ro("state_bytes",
              &policy_requirements::state_bytes,
              "Memory of a session's slots, with at least that window.")
      .def("__repr__", [](const policy_requirements& r) {
        return "Requirements(window=" + std::to_string(r.window) +
               ", most_forwards=" + std::to_string(r.most_forwards) +
               ", state_bytes=" + std::to_string(r.state_bytes) + ")";
      });
  m.def(
      "requirements",
      [](const nb::args& by_place, const nb::kwargs& by_name) {
        arguments given("requirements()", signature, by_place, by_name);
        const auto policy = given.get<std::string>("policy");
        const bool files = given.get("files", true);
        const auto length = given.get<int>("length");
        const unmask::model_info model = {
            .vocab = given.get<int>("vocab"),
            .mask_token = given.get<int>("mask_token"),
            .eos_token = given.optional<int>("eos_token").value_or(unmask::no_token),
            .layers = given.get("layers", 0)};
        const unmask::session_capacity capacity = {.sequences = given.get("sequences", 1),
                                                   .length = length,
                                                   .window = given.get("window", 0),
                                                   .branches = given.get("branches", 0)};
        const unmask::sequence_shape shape = {.prompt_length = given.get<int>("prompt_length"),
                                              .length = length,
                                              .block_length = given.get("block_length", 32)};
        const without_gil others;
        return unmask::requirements_of(policy_of(policy, files), model, capacity, shape);
      },
      nb::sig(signature),
      "Requirements of a policy, before a Session of these arguments is made. Not of a replay.");
}

}  // namespace unmask_python
