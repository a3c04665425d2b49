# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a portfile without vcpkg: its functions follow vcpkg's documentation, in plain CMake.
set(CURRENT_PACKAGES_DIR "${WORK}/packages")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCE_PATH)
    message(FATAL_ERROR "vcpkg_cmake_configure(${ARGV})")
  endif()
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${WORK}/build" -G Ninja
      "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${WORK}/build" --target install)
endfunction()

# Moves the package files to share/<port>.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  set(from "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
  if(NOT EXISTS "${from}/unmaskConfig.cmake")
    message(FATAL_ERROR "no package in ${from}")
  endif()
  file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/unmask")
  file(GLOB files "${from}/*")
  file(COPY ${files} DESTINATION "${CURRENT_PACKAGES_DIR}/share/unmask")
  file(REMOVE_RECURSE "${from}" "${CURRENT_PACKAGES_DIR}/share/cmake")
  # One folder less above the files: vcpkg rewrites the prefix that CMake computes from it.
  foreach(file IN ITEMS unmaskConfig.cmake unmaskTargets.cmake unmaskCudaTargets.cmake)
    set(path "${CURRENT_PACKAGES_DIR}/share/unmask/${file}")
    file(READ "${path}" text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text
                   "${text}")
    string(
      REPLACE "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nget_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nget_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n"
              "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\nget_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n"
              text "${text}")
    file(WRITE "${path}" "${text}")
  endforeach()
endfunction()

# vcpkg checks the file, and searches it for absolute paths.
function(vcpkg_fixup_pkgconfig)
  file(READ "${CURRENT_PACKAGES_DIR}/share/pkgconfig/unmask.pc" text)
  string(FIND "${text}" "${WORK}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "unmask.pc has an absolute path")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/unmask/copyright")
endfunction()

include("${PORT}")
