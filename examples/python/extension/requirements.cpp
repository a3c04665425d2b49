// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "requirements.hpp"

#include <unmask/named_requirements.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string>

namespace unmask_python {

namespace nb = nanobind;
using namespace nb::literals;
using unmask::policy_requirements;

void bind_requirements(nb::module_& m) {
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
      [](const std::string& policy,
         int vocab,
         int mask_token,
         std::optional<int> eos_token,
         int length,
         int prompt_length,
         int block_length,
         int window,
         int sequences,
         int layers,
         int branches) {
        return unmask::requirements_of(
            unmask::read_policy(policy),
            {.vocab = vocab,
             .mask_token = mask_token,
             .eos_token = eos_token.value_or(unmask::no_token),
             .layers = layers},
            {.sequences = sequences, .length = length, .window = window, .branches = branches},
            {.prompt_length = prompt_length, .length = length, .block_length = block_length});
      },
      "policy"_a,
      nb::kw_only(),
      "vocab"_a,
      "mask_token"_a,
      "eos_token"_a = nb::none(),
      "length"_a,
      "prompt_length"_a,
      "block_length"_a = 32,
      "window"_a = 0,
      "sequences"_a = 1,
      "layers"_a = 0,
      "branches"_a = 0,
      "Requirements of a policy, before a Session of these arguments is made. Not of a replay.");
}

}  // namespace unmask_python
