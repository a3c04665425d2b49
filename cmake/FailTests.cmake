# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# unmask_fail_tests(<file>...)
#
# Registers one CTest test per `// case: <name>` of each file; it passes if the program of the case
# does not compile and the compiler's message matches its `// expect: <regex>` line. See
# tests/fail/expect.py. The headers are read once for all of them; g++ reads them again for a case with
# flags that they were not read with.
function(unmask_fail_tests)
  set(compile "${CMAKE_CXX_COMPILER}" -std=c++20 "-I${unmask_include}" "-I${PROJECT_SOURCE_DIR}/tests")
  if(UNMASK_CUDA)
    list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem" OUTPUT_VARIABLE cuda_include)
    list(APPEND compile ${cuda_include})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(header "${CMAKE_CURRENT_BINARY_DIR}/fail/unmask.hpp")
    file(CONFIGURE OUTPUT "${header}" CONTENT "#include <unmask/unmask.hpp>\n")
    add_custom_command(
      OUTPUT "${header}.gch"
      COMMAND ${compile} -x c++-header "${header}" -o "${header}.gch"
      DEPENDS ${unmask_headers} ${unmask_texts}
      VERBATIM)
    add_custom_target(unmask_fail_headers ALL DEPENDS "${header}.gch")
    list(APPEND compile -include "${header}")
  endif()
  list(APPEND compile -fsyntax-only)
  set(expect "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/fail/expect.py")
  add_test(NAME fail.selftest COMMAND ${expect} --self-test -- ${compile})
  foreach(file IN LISTS ARGN)
    set_property(
      DIRECTORY
      APPEND
      PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/unmask")
    string(REPLACE "/" "." folder "${folder}")
    file(STRINGS "${file}" cases REGEX "^// case: ")
    if(NOT cases)
      message(FATAL_ERROR "${file} has no line `// case: <name>`")
    endif()
    list(TRANSFORM cases REPLACE "^// case: " "")
    foreach(case IN LISTS cases)
      add_test(NAME fail.${folder}.${case} COMMAND ${expect} ${file} ${case} -- ${compile})
    endforeach()
  endforeach()
endfunction()
