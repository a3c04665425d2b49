# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# unmask_header_tests(<target> <extension> <libraries> <header>...)
#
# Compiles every header alone, as the only line of a generated source file, but for those that another
# of them includes before all else: there they are compiled alone, too.
function(unmask_header_tests target extension libraries)
  set(first "")
  foreach(header IN LISTS ARGN)
    file(STRINGS "${header}" lines LIMIT_COUNT 2 REGEX "^ *#")
    if(lines MATCHES "^#pragma once;#include <(unmask/[^>]+)>$")
      list(APPEND first "${unmask_include}/${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(headers ${ARGN})
  list(REMOVE_ITEM headers ${first})
  set(sources "")
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${unmask_include}" OUTPUT_VARIABLE name)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.${extension}")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${name}>\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  add_library(${target} OBJECT ${sources})
  target_link_libraries(${target} PRIVATE ${libraries} unmask_warnings)
endfunction()
