// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library behind UNMASK_COMPILED. The CMake target unmask::compiled is this; elsewhere one
// source file of a program says
//
//   #define UNMASK_COMPILED
//   #define UNMASK_IMPLEMENTATION
//   #include <unmask/compiled.hpp>
//
// and all others are compiled with -DUNMASK_COMPILED. To distribute the minute that this takes over
// several files, each defines UNMASK_PART as well, 0 to 8: 0 is the text of policies, 1 to 4 are
// types of sessions by name, 5 replays of traces and what policies require, 6 to 8 reads of rows.
// Without UNMASK_IMPLEMENTATION this header is empty.
#pragma once

#if defined(UNMASK_IMPLEMENTATION)

#  if !defined(UNMASK_COMPILED)
#    error "UNMASK_IMPLEMENTATION is for programs that are compiled with UNMASK_COMPILED"
#  endif

#  include <unmask/named_policy.hpp>
#  include <unmask/named_requirements.hpp>
#  include <unmask/trace/replay_by_name.hpp>

#  include <array>
#  include <utility>

namespace UNMASK_NAMESPACE {

namespace detail {

template <abilities... A>
[[nodiscard]] constexpr auto listed(compositions<A...>) {
  return std::array{A...};
}
inline constexpr auto compiled_types = listed(common_layer_compositions{});

// The part that contains a type: the types of one part use the same kernels, or nearly so.
[[nodiscard]] constexpr int part_of(const abilities& type) {
  return type.compares ? 1 : type.keeps ? 2 : type.remasks ? 3 : 4;
}

// A session of a type of a part.
template <int Part>
std::unique_ptr<named_session> compiled_session(std::size_t type,
                                                const named_parts& parts,
                                                const model_info& model,
                                                const session_capacity& capacity,
                                                const on_host& where);

#  if !defined(UNMASK_PART) || (UNMASK_PART > 0 && UNMASK_PART < 5)
template <int Part>
std::unique_ptr<named_session> compiled_session(std::size_t type,
                                                const named_parts& parts,
                                                const model_info& model,
                                                const session_capacity& capacity,
                                                const on_host& where) {
  std::unique_ptr<named_session> made;
  const auto make = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
    if constexpr (part_of(compiled_types[I]) == Part) {
      if (I == type) {
        made = std::make_unique<named_session_of<compiled_types[I]>>(
            parts, model, with_branches(parts, capacity), where);
      }
    }
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (make(std::integral_constant<std::size_t, I>{}), ...);
  }(std::make_index_sequence<compiled_types.size()>());
  return made;
}
#  endif

#  if defined(UNMASK_PART) && UNMASK_PART > 0 && UNMASK_PART < 5
template std::unique_ptr<named_session> compiled_session<UNMASK_PART>(
    std::size_t, const named_parts&, const model_info&, const session_capacity&, const on_host&);
#  endif

}  // namespace detail

#  if UNMASK_DEFINES

std::unique_ptr<named_session> make_any_layer_session(const named_parts& parts,
                                                      const model_info& model,
                                                      const session_capacity& capacity,
                                                      const on_host& where) {
  using maker = decltype(&detail::compiled_session<1>);
  constexpr maker makers[] = {&detail::compiled_session<1>,
                              &detail::compiled_session<2>,
                              &detail::compiled_session<3>,
                              &detail::compiled_session<4>};
  for (std::size_t type = 0; type < detail::compiled_types.size(); ++type) {
    if (fits(parts.has, detail::compiled_types[type])) {
      const int part = detail::part_of(detail::compiled_types[type]);
      return makers[part - 1](type, parts, model, capacity, where);
    }
  }
  detail::refuse_together(parts.has);
}

std::unique_ptr<any_session> make_any_session(const named_parts& parts,
                                              const model_info& model,
                                              const session_capacity& capacity,
                                              const on_host& where) {
  detail::refuse_layers(parts);
  return make_any_layer_session(parts, model, capacity, where);
}

#  endif

#  if !defined(UNMASK_PART) || UNMASK_PART == 5
std::unique_ptr<any_layer_session> make_replay_layer_session(const named_parts& parts,
                                                             const replay_view& trace,
                                                             const model_info& model,
                                                             const session_capacity& capacity,
                                                             const on_host& where) {
  return make_replay_layer_session<on_host>(parts, trace, model, capacity, where);
}

policy_requirements requirements_of(const named_parts& parts,
                                    const model_info& model,
                                    const session_capacity& capacity,
                                    const sequence_shape& shape) {
  return requirements_of<common_layer_compositions>(parts, model, capacity, shape);
}
#  endif

namespace host {

#  if !defined(UNMASK_PART) || UNMASK_PART == 6
UNMASK_STATISTICS_A(UNMASK_DEFINE_READS)
#  endif
#  if !defined(UNMASK_PART) || UNMASK_PART == 7
UNMASK_STATISTICS_B(UNMASK_DEFINE_READS)
#  endif
#  if !defined(UNMASK_PART) || UNMASK_PART == 8
UNMASK_STATISTICS_C(UNMASK_DEFINE_READS)
UNMASK_SECOND_READS()
UNMASK_DRIFTS()
#  endif

}  // namespace host

}  // namespace unmask

#endif
