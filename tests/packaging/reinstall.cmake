# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -S . -B b && cmake --install b installs libraries that are as new as the headers: the first
# time, after a change, and with user-defined parts, which the package then declares.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(COPY "${SOURCE}/include" "${SOURCE}/cmake" "${SOURCE}/CMakeLists.txt" "${SOURCE}/LICENSE"
     DESTINATION "${WORK}/source")
file(COPY "${SOURCE}/.github/CHANGELOG.md" DESTINATION "${WORK}/source/.github")
set(header "${WORK}/source/include/unmask/version.hpp")
set(prefix "${WORK}/prefix")
# CMake takes files whose times differ by less than a second for the same one, and the compiler here
# needs less.
set(ENV{CMAKE_INSTALL_ALWAYS} 1)

# install([option]...)
function(install)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${WORK}/source" -B "${WORK}/build" -G "${GENERATOR}"
            "-DCMAKE_CXX_COMPILER=${CXX}" -DUNMASK_CUDA=OFF -DCMAKE_INSTALL_LIBDIR=lib
            "-DCMAKE_CXX_COMPILER_LAUNCHER=${PYTHON};${SCRIPTS}/stand_in_compiler.py" ${ARGN}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK}/build" --prefix "${prefix}"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# expect(<text> <library>...)
function(expect text)
  foreach(library IN LISTS ARGN)
    file(STRINGS "${prefix}/lib/${library}" found REGEX "^mark: ")
    if(NOT found MATCHES "${text}")
      message(FATAL_ERROR "${library} is not of this source, ${text}: ${found}")
    endif()
  endforeach()
endfunction()

# Without the library for C nothing else would build unmask::compiled.
file(APPEND "${header}" "// the first\n")
install(-DUNMASK_BUILD_C=OFF)
expect("the first" libunmask_compiled.a)

file(APPEND "${header}" "// the second\n")
install(-DUNMASK_BUILD_C=OFF)
expect("the second" libunmask_compiled.a)

install(-DUNMASK_BUILD_C=ON)
expect("the second" libunmask_compiled.a libunmask_c.so)

file(APPEND "${header}" "// the third\n")
install()
expect("the third" libunmask_compiled.a libunmask_c.so)
file(STRINGS "${prefix}/include/unmask/version.hpp" found REGEX "the third")
if(NOT found)
  message(FATAL_ERROR "the installed header is an old one")
endif()

# By the target, which a build without --install has.
file(APPEND "${header}" "// the fourth\n")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${WORK}/build" --prefix "${prefix}"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
expect("the fourth" libunmask_compiled.a libunmask_c.so)

# consume(<library> <what the program says>): with find_package.
function(consume library says)
  file(REMOVE_RECURSE "${WORK}/consumer")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${SCRIPTS}/own_parts" -B "${WORK}/consumer" -G "${GENERATOR}"
            "-DCMAKE_CXX_COMPILER=${CXX}" "-DUNMASK_PREFIX=${prefix}" "-DUNMASK_LIBRARY=${library}"
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/consumer" OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND "${WORK}/consumer/consumer"
    OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL says)
    message(FATAL_ERROR "the program with ${library} says '${output}', not '${says}'")
  endif()
endfunction()
consume(unmask::unmask "0 parts\n")

install("-DUNMASK_OWN_PARTS=${SOURCE}/examples/my_parts.hpp")
expect("my_parts.hpp" libunmask_compiled.a libunmask_c.so)
file(RENAME "${prefix}" "${WORK}/moved")
set(prefix "${WORK}/moved")
consume(unmask::unmask "3 parts\n")

if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/lib/pkgconfig")
  foreach(package IN ITEMS unmask unmask-compiled)
    execute_process(
      COMMAND "${PKG_CONFIG}" --cflags ${package}
      OUTPUT_VARIABLE cflags
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(cflags)
    execute_process(
      COMMAND "${CXX}" -std=c++20 -fsyntax-only -DEXPECTED=3 ${cflags}
              "${SCRIPTS}/own_parts/main.cpp" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endif()

# A program with user-defined parts and a library without: the linker says what to do.
if(COMPILED)
  execute_process(
    COMMAND "${CXX}" -std=c++20 -O0 -DEXPECTED=3 -DUNMASK_COMPILED
            "-DUNMASK_OWN_PARTS=\"${SOURCE}/examples/my_parts.hpp\"" "-I${SOURCE}/include"
            "${SCRIPTS}/own_parts/main.cpp" "${COMPILED}" -o "${WORK}/mixed"
    RESULT_VARIABLE status
    ERROR_VARIABLE said)
  if(status EQUAL 0 OR NOT said MATCHES
                       "compile_this_file_and_unmask_compiled_with_the_same_UNMASK_OWN_PARTS")
    message(FATAL_ERROR "linked with a library that has other parts, status ${status}: ${said}")
  endif()
endif()
