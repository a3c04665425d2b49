// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "policy_parts.hpp"

#include <unmask/named/argument_values.hpp>
#include <unmask/named/method_parts.hpp>
#include <unmask/named_policy.hpp>

#include <cstdint>
#include <nanobind/stl/string.h>
#include <string>
#include <string_view>

namespace unmask_python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// Lists the parts of a text, as read_policy() reads them.
class parts_lister {
 public:
  explicit parts_lister(const std::string& text)
      : text_(text) {}

  [[nodiscard]] nb::list list() {
    for (const unmask::part_text& written : unmask::parse_policy_text(text_)) {
      add(written);
    }
    return parts_;
  }

 private:
  void add(const unmask::part_text& written) {
    if (const auto part = unmask::detail::with_name(known_, written.name); part != known_.end()) {
      append(written.name, arguments_of(*part, written));
      return;
    }
    if (const auto method = unmask::find_method(written.name)) {
      append(written.name, {});
      for (const unmask::part_text& part : unmask::detail::parts_of(known_, *method, written)) {
        add(part);
      }
      return;
    }
    const bool joins =
        written.name == "any_of" || written.name == "all_of" || written.name == "at_most";
    if (!joins) {
      (void)unmask::read_policy(text_, unmask::no_files);  // throws: no part has this name
    }
    for (const unmask::argument_text& argument : written.arguments) {
      if (argument.value.is == unmask::value_text::kind::part) {
        add(*argument.value.part);
      }
    }
  }

  void append(std::string_view name, const nb::dict& arguments) {
    parts_.append(nb::make_tuple(std::string(name), arguments));
  }

  [[nodiscard]] nb::dict arguments_of(const unmask::known_part& part,
                                      const unmask::part_text& written) const {
    const unmask::argument_values values(text_, part, written, unmask::no_files);
    nb::dict all;
    for (std::size_t i = 0; i < part.arguments.size(); ++i) {
      const unmask::part_argument& a = part.arguments[i];
      all[nb::str(a.name.data(), a.name.size())] = value_of(a, values, i);
    }
    return all;
  }

  [[nodiscard]] static nb::object
  value_of(const unmask::part_argument& a, const unmask::argument_values& values, std::size_t i) {
    using unmask::knob_kind;
    const double number = values.number(i);
    switch (a.kind) {
    case knob_kind::real:
    case knob_kind::exact:
      // A default is a float: 0.9 and not 0.8999999761581421.
      return values.given(i) ? nb::float_(number)
                             : nb::float_(nb::str(unmask::default_text(a).c_str()));
    case knob_kind::whole:
      return nb::int_(static_cast<std::int64_t>(number));
    case knob_kind::token:
      return values.given(i) ? nb::object(nb::int_(static_cast<std::int64_t>(number))) : nb::none();
    case knob_kind::flag:
      return nb::bool_(number != 0.0);
    case knob_kind::word: {
      const std::string_view word = a.word(static_cast<std::size_t>(number));
      return nb::str(word.data(), word.size());
    }
    case knob_kind::tokens:
    case knob_kind::reals: {
      nb::list all;
      for (const double x : values.list(i)) {
        a.kind == knob_kind::reals ? all.append(x) : all.append(static_cast<std::int64_t>(x));
      }
      return all;
    }
    case knob_kind::file:
      break;
    }
    return nb::none();  // no host reads the name of a file
  }

  const std::string& text_;
  // Made once for a text: a policy may name hundreds of parts.
  const decltype(unmask::known_parts()) known_ = unmask::known_parts();
  nb::list parts_;
};

}  // namespace

void bind_policy_parts(nb::module_& m) {
  m.def(
      "policy_parts",
      [](const std::string& text) { return parts_lister(text).list(); },
      "policy"_a,
      nb::sig("def policy_parts(policy: str) -> list[tuple[str, dict[str, object]]]"),
      R"doc(Lists the parts of a policy's text: (name, arguments) of each, in written order, with the
defaults of arguments that are not written. Parts inside any_of(), all_of() and at_most() are listed
instead of these. A method is listed without arguments, and before its parts. None is a token or a
file that was not given. Raises ValueError for a text with unknown parts or arguments; whether the
parts form a policy is checked by Session.)doc");
}

}  // namespace unmask_python
