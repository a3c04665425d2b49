# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A build without CMake: the compiler gets the output of pkg-config and nothing else. The prefix has
# been moved since it was installed.
file(REMOVE_RECURSE "${WORK}")
file(COPY "${PREFIX}/" DESTINATION "${WORK}/moved")
set(ENV{PKG_CONFIG_LIBDIR} "${WORK}/nowhere")

# consume(<package> <source>)
function(consume package source)
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
  execute_process(COMMAND "${CXX}" -std=c++20 ${cflags} "${SOURCES}/${source}" ${libs} -o
                          "${WORK}/consumer" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK}/consumer" "${NUMBER}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(ENV{PKG_CONFIG_PATH} "${WORK}/moved/share/pkgconfig")
consume(unmask consumer.cpp)

file(GLOB_RECURSE compiled "${WORK}/moved/unmask-compiled.pc")
if(compiled)
  cmake_path(GET compiled PARENT_PATH compiled)
  set(ENV{PKG_CONFIG_PATH} "${WORK}/moved/share/pkgconfig:${compiled}")
  consume(unmask-compiled named.cpp)
endif()
