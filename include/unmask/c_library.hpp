// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The implementation of <unmask/c_api.h>, <unmask/c_layers.h>, <unmask/c_constraints.h>,
// <unmask/c_language.h> and <unmask/c_parts.h>. The CMake target unmask::c is this; elsewhere one
// source file contains this and nothing else
//
//   #define UNMASK_C_IMPLEMENTATION
//   #include <unmask/c_library.hpp>
//
// With UNMASK_C_API_CUDA it also has sessions on a stream: see cuda/c_library.cuh. Without
// UNMASK_C_IMPLEMENTATION this header is empty.
#pragma once

#if defined(UNMASK_C_IMPLEMENTATION)

#  include <unmask/c_api/calls.hpp>
#  include <unmask/c_api/constraint_calls.hpp>
#  include <unmask/c_api/language_calls.hpp>
#  include <unmask/c_api/layer_calls.hpp>
#  include <unmask/c_api/part_calls.hpp>
#  include <unmask/c_api/profile_calls.hpp>
#  include <unmask/c_api/results.hpp>

#endif
