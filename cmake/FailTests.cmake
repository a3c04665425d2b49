# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# unmask_fail_tests(<file>...)
#
# Registers one CTest test per file; it passes if the file does not compile and the compiler's
# message matches the `// expect: <regex>` line of the file. See tests/fail/expect.py.
function(unmask_fail_tests)
  set(compile "${CMAKE_CXX_COMPILER}" -std=c++20 -fsyntax-only "-I${unmask_include}"
              "-I${PROJECT_SOURCE_DIR}/tests")
  if(UNMASK_CUDA)
    list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem" OUTPUT_VARIABLE cuda_include)
    list(APPEND compile ${cuda_include})
  endif()
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
