// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>
#include <unmask/c_parts.h>
#include <unmask/named_policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The calls of c_parts.h. For c_library.hpp.

namespace UNMASK_NAMESPACE::detail::c_api {

static_assert(sizeof(unmask_step_candidate) == 52 && sizeof(unmask_step) == 88 &&
                  sizeof(unmask_part) == 64 && sizeof(unmask_part_argument) == 40,
              "the sizes of version 1");
// The function sees the candidates of the library, not copies.
static_assert(sizeof(unmask_step_candidate) == sizeof(unmask::callback_candidate) &&
              offsetof(unmask_step_candidate, entropy) ==
                  offsetof(unmask::callback_candidate, entropy) &&
              offsetof(unmask_step_candidate, rank) == offsetof(unmask::callback_candidate, rank) &&
              offsetof(unmask_step_candidate, block_length) ==
                  offsetof(unmask::callback_candidate, block_length));
static_assert(static_cast<int>(unmask::callback_stage::stop) == UNMASK_STOP &&
              static_cast<int>(unmask::filter_result::excluded) == UNMASK_EXCLUDE &&
              static_cast<int>(unmask::ending::max_steps) == UNMASK_MAX_STEPS);

// A function of the caller. Never freed: policies point to it.
struct function_of_caller {
  unmask_function function;
  void* context;

  static void call(void* self, const unmask::callback_step& s, float* answers) {
    const auto& own = *static_cast<const function_of_caller*>(self);
    const unmask_step step{reinterpret_cast<const unmask_step_candidate*>(s.candidates.data()),
                           s.view.tokens,
                           reinterpret_cast<const std::uint8_t*>(s.view.marks),
                           s.arguments.data(),
                           s.seed,
                           s.sequence,
                           static_cast<std::int32_t>(s.candidates.size()),
                           static_cast<std::int32_t>(s.arguments.size()),
                           s.slot,
                           s.view.step,
                           s.view.prompt_length,
                           s.view.length,
                           s.view.masked_count,
                           s.view.committed_prefix,
                           s.view.eos_token,
                           s.view.mask_token};
    const std::int32_t status = own.function(own.context, &step, answers);
    if (status != 0) {
      throw std::runtime_error("its function has returned " + std::to_string(status));
    }
  }
};

}  // namespace UNMASK_NAMESPACE::detail::c_api

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_register_part(const unmask_part* part) {
  return guarded([&] {
    const unmask_part p = known_part_of(part, UNMASK_PART_INIT, "part");
    const auto check_size = [](std::uint32_t size, std::size_t own, const char* field) {
      check_field(size == own, "part", field, size, "the sizeof of the structure, ", own);
    };
    check_size(p.step_size, sizeof(unmask_step), "step_size");
    check_size(p.candidate_size, sizeof(unmask_step_candidate), "candidate_size");
    check_size(p.argument_size, sizeof(unmask_part_argument), "argument_size");
    check_field(p.stage >= UNMASK_RULE && p.stage <= UNMASK_STOP,
                "part",
                "stage",
                p.stage,
                "one of unmask_stages");
    check_field(p.name != nullptr, "part", "name", "null", "a text");
    check_field(p.function != nullptr, "part", "function", "null", "a function");
    check_field(p.argument_count >= 0 && p.argument_count <= unmask::max_callback_arguments,
                "part",
                "argument_count",
                p.argument_count,
                "in [0, ",
                unmask::max_callback_arguments,
                "]");
    check_field(
        p.arguments != nullptr || p.argument_count == 0, "part", "arguments", "null", "a pointer");
    std::vector<unmask::function_argument> arguments;
    for (std::int32_t i = 0; i < p.argument_count; ++i) {
      const unmask_part_argument& a = p.arguments[i];
      check_field(a.name != nullptr, "part", "arguments->name", "null", "a text");
      const bool is_bounded = a.least != 0.0 || a.most != 0.0;
      arguments.push_back({a.name,
                           a.value,
                           is_bounded ? unmask::within(a.least, a.most) : unmask::any_finite(),
                           a.whole != 0});
    }
    unmask::part_function made;
    made.stage = static_cast<unmask::callback_stage>(p.stage);
    made.name = p.name;
    made.about = p.about != nullptr ? p.about : "";
    made.arguments = arguments;
    made.function = &function_of_caller::call;
    auto own = std::make_unique<function_of_caller>(function_of_caller{p.function, p.context});
    made.context = own.get();
    unmask::register_part(made);
    static_cast<void>(own.release());
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
