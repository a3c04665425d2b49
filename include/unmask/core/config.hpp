// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#  error "unmask needs C++20: compile with -std=c++20"
// There is no such file: the compiler stops here with this name in its message, before the other
// headers.
#  define UNMASK_STOP_COMPILING <unmask needs C++20>
#  include UNMASK_STOP_COMPILING
#endif

#include <unmask/version.hpp>

/// Marks a function that runs on the host and inside a CUDA kernel. Never put it on a defaulted
/// function: the compiler already gives those both execution spaces.
#if defined(__CUDACC__)
#  define UNMASK_HD __host__ __device__
#else
#  define UNMASK_HD
#endif

/// Precedes a function template that is marked UNMASK_HD and calls functions of the host with
/// arguments that only a host has.
#if defined(__CUDACC__)
#  define UNMASK_CALLS_HOST _Pragma("nv_exec_check_disable")
#else
#  define UNMASK_CALLS_HOST
#endif

/// Checks a documented precondition. Active in debug builds, and with UNMASK_CHECKED in all; never
/// part of a type's layout.
#if !defined(NDEBUG)
#  include <cassert>
#  define UNMASK_EXPECTS(condition) assert(condition)
#elif defined(UNMASK_CHECKED)
#  include <cstdio>
#  include <cstdlib>
#  if defined(__CUDA_ARCH__)
#    define UNMASK_STOP(...) (printf(__VA_ARGS__), __trap())
#  else
#    define UNMASK_STOP(...) (std::fprintf(stderr, __VA_ARGS__), std::abort())
#  endif
#  define UNMASK_EXPECTS(condition)                                                                \
    ((condition) ? static_cast<void>(0)                                                            \
                 : UNMASK_STOP("%s:%d: expected %s\n", __FILE__, __LINE__, #condition))
#else
#  define UNMASK_EXPECTS(condition) static_cast<void>(0)
#endif

/// UNMASK_COMPILED, which linking the CMake target unmask::compiled defines, turns into
/// declarations whatever that library contains: sessions of policies composed by name and the
/// reader of their text, kernels of the statistics that most policies require, checks and their
/// messages. Define it in all source files of a program or in none. Without CMake, one source file
/// of the program contains the definitions: see compiled.hpp.
///
/// UNMASK_LIBRARY marks functions of that library; they are defined where UNMASK_DEFINES is 1.
#if !defined(UNMASK_COMPILED)
#  define UNMASK_LIBRARY inline
#  define UNMASK_DEFINES 1
#else
#  define UNMASK_LIBRARY
#  if defined(UNMASK_IMPLEMENTATION) && (!defined(UNMASK_PART) || UNMASK_PART == 0)
#    define UNMASK_DEFINES 1
#  else
#    define UNMASK_DEFINES 0
#  endif
#endif

/// UNMASK_KERNELS is 1 where kernels that read rows of logits or of a layer are defined: everywhere
/// but in programs with UNMASK_COMPILED, which need not compile them. Such a program defines it as
/// 1 for a policy that requires statistics that the library has no kernel for; the compiler says
/// so.
#if !defined(UNMASK_KERNELS)
#  if !defined(UNMASK_COMPILED) || defined(UNMASK_IMPLEMENTATION)
#    define UNMASK_KERNELS 1
#  else
#    define UNMASK_KERNELS 0
#  endif
#endif

/// An installation with user-defined parts has their header and defines this.
#if defined(UNMASK_INSTALLED_OWN_PARTS) && !defined(UNMASK_OWN_PARTS)
#  define UNMASK_OWN_PARTS <unmask/installed_own_parts.hpp>
#endif

/// The versioned namespace: types of two versions can live in one program, and so can types with
/// user-defined parts (named/own_parts.hpp) and types without or, with another
/// UNMASK_OWN_PARTS_TAG, with others.
#if !defined(UNMASK_OWN_PARTS)
#  define UNMASK_NAMESPACE unmask::inline v0_1
#else
#  if !defined(UNMASK_OWN_PARTS_TAG)
#    define UNMASK_OWN_PARTS_TAG own_parts
#  endif
#  define UNMASK_PASTE_WITH(tag) with_##tag
#  define UNMASK_WITH(tag) UNMASK_PASTE_WITH(tag)
#  define UNMASK_NAMESPACE unmask::inline v0_1::inline UNMASK_WITH(UNMASK_OWN_PARTS_TAG)
#endif

static_assert(UNMASK_VERSION_MAJOR == 0 && UNMASK_VERSION_MINOR == 1,
              "UNMASK_NAMESPACE must name the version in version.hpp");
