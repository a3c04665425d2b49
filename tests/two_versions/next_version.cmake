# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DFROM=<include> -DTO=<folder> -P next_version.cmake: a copy of the headers that says it is the
# next version, and whose threshold{} is .5 instead of .9.
file(COPY "${FROM}/unmask" DESTINATION "${TO}")
function(change file from to)
  file(READ "${TO}/unmask/${file}" text)
  string(REPLACE "${from}" "${to}" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "${file} does not say '${from}'")
  endif()
  file(WRITE "${TO}/unmask/${file}" "${changed}")
endfunction()
change(version.hpp "VERSION_MINOR 1" "VERSION_MINOR 2")
change(core/config.hpp "inline v0_1" "inline v0_2")
change(core/config.hpp "VERSION_MINOR == 1" "VERSION_MINOR == 2")
change(policy/commit/commit_rules.hpp "float value = 0.9F" "float value = 0.5F")
