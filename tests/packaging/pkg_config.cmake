# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A build without CMake: the compiler gets the output of pkg-config and nothing else. The prefix has
# been moved since it was installed.
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

set(ENV{PKG_CONFIG_PATH} "${WORK}/moved/share/pkgconfig")
consume(unmask consumer.cpp "${CXX}" -std=c++20)

file(GLOB_RECURSE compiled "${WORK}/moved/unmask-compiled.pc")
if(compiled)
  cmake_path(GET compiled PARENT_PATH compiled)
  set(ENV{PKG_CONFIG_PATH} "${WORK}/moved/share/pkgconfig:${compiled}")
  consume(unmask-compiled named.cpp "${CXX}" -std=c++20)
endif()

file(GLOB_RECURSE c "${WORK}/moved/unmask-c.pc")
if(c)
  cmake_path(GET c PARENT_PATH c)
  set(ENV{PKG_CONFIG_PATH} "${c}")
  cmake_path(GET c PARENT_PATH lib)
  set(ENV{LD_LIBRARY_PATH} "${lib}")
  consume(unmask-c consumer.c "${CC}" -std=c99)
endif()
