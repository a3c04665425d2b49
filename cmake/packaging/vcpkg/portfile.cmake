# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# An overlay port of the checkout it stands in: vcpkg install unmask --overlay-ports=cmake/packaging/vcpkg
# A registry would take SOURCE_PATH from the source archive of a release (cpack) instead.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

set(VCPKG_BUILD_TYPE release) # headers only
vcpkg_cmake_configure(
  SOURCE_PATH
  "${SOURCE_PATH}"
  OPTIONS
  -DUNMASK_CUDA=OFF
  -DUNMASK_BUILD_COMPILED=OFF
  -DUNMASK_BUILD_TESTS=OFF
  -DUNMASK_BUILD_BENCH=OFF
  -DUNMASK_BUILD_EXAMPLES=OFF
  -DUNMASK_BUILD_C=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/unmask)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
