// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <new>
#include <string>
#include <type_traits>

namespace unmask_python {

/// Lets a class of values be pickled, and be a dict of its members. `each(value, use)` calls
/// use(name, member) for every member, in an order that stays.
template <class T, class Each>
void bind_record(nanobind::class_<T>& bound, Each each) {
  namespace nb = nanobind;
  bound
      .def("__getstate__",
           [each](const T& value) {
             nb::list state;
             each(value, [&state](const char*, const auto& member) {
               using type = std::remove_cvref_t<decltype(member)>;
               if constexpr (std::is_enum_v<type>) {
                 state.append(static_cast<int>(member));
               } else {
                 state.append(member);
               }
             });
             return nb::tuple(state);
           })
      .def("__setstate__",
           [each](T& value, const nb::tuple& state) {
             T made{};
             std::size_t count = 0;
             each(made, [&](const char* name, auto& member) {
               using type = std::remove_cvref_t<decltype(member)>;
               if (count == state.size()) {
                 throw nb::value_error((std::string("a pickle without ") + name).c_str());
               }
               if constexpr (std::is_enum_v<type>) {
                 member = static_cast<type>(nb::cast<int>(state[count]));
               } else {
                 member = nb::cast<type>(state[count]);
               }
               ++count;
             });
             new (&value) T(made);
           })
      .def(
          "_asdict",
          [each](const T& value) {
            nb::dict all;
            each(value, [&all](const std::string& name, const auto& member) {
              if (name.starts_with("last_")) {
                return;  // sizes of lists
              }
              if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(member)>>) {
                all[name.c_str()] = nb::str(name_of(member));
              } else {
                all[name.c_str()] = member;
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
