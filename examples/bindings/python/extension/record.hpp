// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>

namespace unmask_python {

/// A member of a value that Python reads: its name, and what its documentation says. Without one
/// (null) it is part of a pickle alone.
template <class T, class Member>
struct record_member {
  const char* name;
  Member T::* of;
  const char* about = "";
};

/// Lets Python read the members of a class of values, pickle the values, and make dicts of them.
/// The order of the members is that of pickles.
template <class T, class... Members>
void bind_record(nanobind::class_<T>& bound,
                 const std::tuple<record_member<T, Members>...>& members) {
  namespace nb = nanobind;
  const auto each = [members](const auto& use) {
    std::apply([&use](const auto&... member) { (use(member), ...); }, members);
  };
  each([&bound](const auto& member) {
    if (member.about != nullptr && *member.about != '\0') {
      bound.def_ro(member.name, member.of, member.about);
    } else if (member.about != nullptr) {
      bound.def_ro(member.name, member.of);
    }
  });
  bound
      .def("__getstate__",
           [each](const T& value) {
             nb::list state;
             each([&](const auto& member) {
               using type = std::remove_cvref_t<decltype(value.*member.of)>;
               if constexpr (std::is_enum_v<type>) {
                 state.append(static_cast<int>(value.*member.of));
               } else {
                 state.append(value.*member.of);
               }
             });
             return nb::tuple(state);
           })
      .def("__setstate__",
           [each](T& value, const nb::tuple& state) {
             T made{};
             std::size_t count = 0;
             each([&](const auto& member) {
               using type = std::remove_cvref_t<decltype(made.*member.of)>;
               if (count == state.size()) {
                 throw nb::value_error((std::string("a pickle without ") + member.name).c_str());
               }
               if constexpr (std::is_enum_v<type>) {
                 made.*member.of = static_cast<type>(nb::cast<int>(state[count]));
               } else {
                 made.*member.of = nb::cast<type>(state[count]);
               }
               ++count;
             });
             new (&value) T(made);
           })
      .def(
          "_asdict",
          [each](const T& value) {
            nb::dict all;
            each([&](const auto& member) {
              if (member.about == nullptr) {
                return;
              }
              if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value.*member.of)>>) {
                all[member.name] = nb::str(name_of(value.*member.of));
              } else {
                all[member.name] = value.*member.of;
              }
            });
            if constexpr (requires { value.tokens_per_forward(); }) {
              all["tokens_per_forward"] = value.tokens_per_forward();
            }
            return all;
          },
          "The members, for pandas.DataFrame and JSON; an `end` is its name.");
}

}  // namespace unmask_python
