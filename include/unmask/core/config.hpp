// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/version.hpp>

/// Marks a function that runs on the host and inside a CUDA kernel. Never put it on a defaulted
/// function: the compiler already gives those both execution spaces.
#if defined(__CUDACC__)
#  define UNMASK_HD __host__ __device__
#else
#  define UNMASK_HD
#endif

/// Checks a documented precondition. Active in debug builds and with UNMASK_CHECKED; never part of
/// a type's layout.
#if defined(UNMASK_CHECKED) || !defined(NDEBUG)
#  include <cassert>
#  define UNMASK_EXPECTS(condition) assert(condition)
#else
#  define UNMASK_EXPECTS(condition) static_cast<void>(0)
#endif

/// The versioned namespace: types of two versions can live in one program.
#define UNMASK_NAMESPACE unmask::inline v0_1

static_assert(UNMASK_VERSION_MAJOR == 0 && UNMASK_VERSION_MINOR == 1,
              "UNMASK_NAMESPACE must name the version in version.hpp");
