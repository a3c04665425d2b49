# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A project that includes unmask as a subproject gets two targets and nothing else.
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
foreach(property IN ITEMS COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES)
  get_directory_property(value ${property})
  if(value)
    message(FATAL_ERROR "unmask set ${property} of the directory to '${value}'")
  endif()
endforeach()
