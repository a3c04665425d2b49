// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parts.hpp"

#include <unmask/named_policy.hpp>

#include <cstdint>
#include <cstring>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

/// Functions of Python that decide for parts of policies: unmask/_parts.py has them.
namespace unmask_python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// _parts.py reads candidates by these places.
static_assert(sizeof(unmask::callback_candidate) == 13 * sizeof(float));

template <class T>
[[nodiscard]] nb::bytes bytes_of(const T* first, std::size_t count) {
  return nb::bytes(static_cast<const void*>(first), count * sizeof(T));
}

// Asks the function with a number for its answers, 32-bit floats. What it raises leaves the call.
void ask(void* context, const unmask::callback_step& s, float* answers) {
  const nb::gil_scoped_acquire python;
  const unmask::sequence_view& q = s.view;
  const auto length = static_cast<std::size_t>(q.length);
  nb::list arguments;
  for (const float x : s.arguments) {  // 0.9, not 0.8999999761581421
    arguments.append(nb::float_(nb::str(unmask::shortest_text(double{x}).c_str())));
  }
  const nb::object made = nb::module_::import_("unmask._parts")
                              .attr("answers")(reinterpret_cast<std::uintptr_t>(context),
                                               bytes_of(s.candidates.data(), s.candidates.size()),
                                               bytes_of(q.tokens, length),
                                               bytes_of(q.marks, length),
                                               arguments,
                                               nb::make_tuple(s.slot,
                                                              q.step,
                                                              s.seed,
                                                              s.sequence,
                                                              q.prompt_length,
                                                              q.committed_prefix,
                                                              q.eos_token,
                                                              q.mask_token));
  const auto given = nb::cast<nb::bytes>(made);
  std::memcpy(answers, given.c_str(), given.size());
}

// name, default, least, most, whether it is whole
using argument = std::tuple<std::string, double, double, double, bool>;

void give_name(int stage,
               const std::string& name,
               const std::string& about,
               const std::vector<argument>& arguments,
               std::uintptr_t function) {
  std::vector<unmask::function_argument> all;
  for (const auto& [of, value, least, most, whole] : arguments) {
    all.push_back({of, value, unmask::within(least, most).finite(), whole});
  }
  unmask::part_function part;
  part.stage = static_cast<unmask::callback_stage>(stage);
  part.name = name;
  part.about = about;
  part.arguments = all;
  part.function = &ask;
  part.context = reinterpret_cast<void*>(function);
  unmask::register_part(part);
}

}  // namespace

void bind_parts(nb::module_& m) {
  m.def("_give_name",
        &give_name,
        "stage"_a,
        "name"_a,
        "about"_a,
        "arguments"_a,
        "function"_a,
        "For unmask.rule() and its like.");
}

}  // namespace unmask_python
