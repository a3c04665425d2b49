// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library that UNMASK_COMPILED uses. The CMake target unmask::compiled is this; elsewhere one
// source file of a program contains
//
//   #define UNMASK_COMPILED
//   #define UNMASK_IMPLEMENTATION
//   #include <unmask/compiled.hpp>
//
// and all others are compiled with -DUNMASK_COMPILED. To compile it in parallel, each of several
// files defines UNMASK_PART as well, 0 to 4: 0 is the text of policies, 1 the session of policies
// by name, 2 to 4 are reads of rows. Without UNMASK_IMPLEMENTATION this header is empty.
#pragma once

#if defined(UNMASK_IMPLEMENTATION)

#  if !defined(UNMASK_COMPILED)
#    error "UNMASK_IMPLEMENTATION is for programs that are compiled with UNMASK_COMPILED"
#  endif

#  include <unmask/constraint.hpp>
#  include <unmask/language.hpp>
#  include <unmask/named_policy.hpp>
#  include <unmask/named_requirements.hpp>

namespace UNMASK_NAMESPACE {

#  if !defined(UNMASK_PART) || UNMASK_PART == 1
template class on_host::workspace<named_policy>;
UNMASK_NAMED_SESSION(, float)
UNMASK_NAMED_SESSION(, bfloat16)
UNMASK_NAMED_SESSION(, float16)
template class session<named_policy>;
template <class OwnParts, std::size_t Bytes>
const char
    compile_this_file_and_unmask_compiled_with_the_same_UNMASK_OWN_PARTS<OwnParts, Bytes>::linked =
        0;
template struct compile_this_file_and_unmask_compiled_with_the_same_UNMASK_OWN_PARTS<
    own_parts,
    detail::bytes_of(own_parts{})>;
#  endif

namespace host {

#  if !defined(UNMASK_PART) || UNMASK_PART == 2
UNMASK_STATISTICS_A(UNMASK_DEFINE_READS)
#  endif
#  if !defined(UNMASK_PART) || UNMASK_PART == 3
UNMASK_STATISTICS_B(UNMASK_DEFINE_READS)
#  endif
#  if !defined(UNMASK_PART) || UNMASK_PART == 4
UNMASK_STATISTICS_C(UNMASK_DEFINE_READS)
UNMASK_SECOND_READS()
UNMASK_HOLD_ROWS()
UNMASK_DRIFTS()
#  endif

}  // namespace host

}  // namespace unmask

#endif
