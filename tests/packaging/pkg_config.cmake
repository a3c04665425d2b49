# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A build without CMake: the compiler gets the output of pkg-config and nothing else. The prefix has
# been moved since it was installed.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${WORK}")
file(COPY "${PREFIX}/" DESTINATION "${WORK}/moved")
set(ENV{PKG_CONFIG_LIBDIR} "${WORK}/nowhere")

# consume(<package> <source> <compiler> [option]...)
function(consume package source compiler)
  foreach(ask IN ITEMS modversion cflags libs)
    execute_process(
      COMMAND "${PKG_CONFIG}" --${ask} ${package}
      OUTPUT_VARIABLE ${ask}
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(${ask})
  endforeach()
  if(NOT modversion STREQUAL EXPECTED)
    message(FATAL_ERROR "pkg-config says version ${modversion}, not ${EXPECTED}")
  endif()
  execute_process(COMMAND "${compiler}" ${ARGN} ${cflags} "${SOURCES}/${source}" ${libs} -o
                          "${WORK}/consumer" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK}/consumer" "${NUMBER}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# All packages are in one folder, that of the libraries if there are some.
file(GLOB_RECURSE all "${WORK}/moved/unmask*.pc")
set(folders "")
foreach(file IN LISTS all)
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file STEM package)
  list(APPEND folders "${folder}")
  list(APPEND packages "${package}")
endforeach()
list(REMOVE_DUPLICATES folders)
list(LENGTH folders count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "the packages of pkg-config are in ${count} folders: ${folders}")
endif()
set(ENV{PKG_CONFIG_PATH} "${folders}")
cmake_path(GET folders PARENT_PATH lib)
set(ENV{LD_LIBRARY_PATH} "${lib}")

consume(unmask consumer.cpp "${CXX}" -std=c++20)
if("unmask-compiled" IN_LIST packages)
  consume(unmask-compiled named.cpp "${CXX}" -std=c++20)
endif()
if("unmask-c" IN_LIST packages)
  consume(unmask-c consumer.c "${CC}" -std=c99)
endif()
