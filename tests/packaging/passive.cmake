# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A project that includes unmask as a subproject gets its targets and nothing else, and builds none
# that it does not link.
foreach(variable IN ITEMS CMAKE_CXX_STANDARD CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE CMAKE_CUDA_COMPILER)
  if(NOT "${${variable}}" STREQUAL "")
    message(FATAL_ERROR "unmask set ${variable} to '${${variable}}'")
  endif()
endforeach()
foreach(target IN ITEMS unmask_warnings unmask_test_support unmask_example_engine unmask::cuda)
  if(TARGET ${target})
    message(FATAL_ERROR "unmask defined ${target} without being asked")
  endif()
endforeach()
get_target_property(idle unmask_compiled EXCLUDE_FROM_ALL)
if(NOT idle)
  message(FATAL_ERROR "unmask::compiled is built without being asked")
endif()
foreach(property IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
  get_directory_property(value ${property})
  if(value)
    message(FATAL_ERROR "unmask set ${property} of the directory to '${value}'")
  endif()
endforeach()
