# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# unmask_fail_tests(<file>...)
#
# Registers one CTest test per file; it passes if the file does not compile and the compiler's
# message matches the `// expect: <regex>` line of the file. See tests/fail/expect.py. The headers are
# read once for all of them; g++ reads them again for a file with flags that they were not read with.
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
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests/unmask"
               OUTPUT_VARIABLE name)
    string(REGEX REPLACE "\\.fail\\.cpp$" "" name "${name}")
    string(REPLACE "/" "." name "${name}")
    add_test(NAME fail.${name} COMMAND ${expect} ${file} -- ${compile})
  endforeach()
endfunction()
