# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cmake -DFROM=<include> -DTO=<folder> -P newer_version.cmake: the header of C as it will be when the
# structures of arrays have grown.
file(READ "${FROM}/unmask/c_api.h" text)
foreach(structure IN ITEMS segment commit candidate probability)
  string(REPLACE "\n} unmask_${structure};" "\n  int32_t grown[3];\n} unmask_${structure};" grown
                 "${text}")
  if(grown STREQUAL text)
    message(FATAL_ERROR "c_api.h does not end unmask_${structure}")
  endif()
  set(text "${grown}")
endforeach()
file(WRITE "${TO}/unmask/c_api.h" "${text}")
