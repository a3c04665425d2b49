# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# unmask_header_tests(<target> <extension> <libraries> <header>...)
#
# Compiles every header alone, as the only line of a generated source file. For the headers that
# VERIFY_INTERFACE_HEADER_SETS cannot take: it compiles .cuh files as C++, and skips them silently
# when compiled as CUDA.
function(unmask_header_tests target extension libraries)
  if(NOT ARGN)
    return()
  endif()
  set(sources "")
  foreach(header IN LISTS ARGN)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${unmask_include}" OUTPUT_VARIABLE name)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.${extension}")
    # Twice, so that a missing #pragma once shows.
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${name}>\n#include <${name}>\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PRIVATE ${libraries} unmask_warnings)
endfunction()
