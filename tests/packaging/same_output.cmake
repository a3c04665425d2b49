# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Two programs say the same, but for the times at the end of a line.
foreach(program IN ITEMS ONE OTHER)
  execute_process(
    COMMAND "${${program}}"
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " +[0-9]+\\.[0-9][0-9] +[0-9]+\\.[0-9][0-9][0-9][0-9]\n" "\n" ${program}
                       "${text}")
endforeach()
string(LENGTH "${ONE}" length)
if(length LESS 20 OR NOT ONE STREQUAL OTHER)
  message(FATAL_ERROR "they differ:\n${ONE}\n---\n${OTHER}")
endif()
