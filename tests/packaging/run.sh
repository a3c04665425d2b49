#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The packages that are too heavy for every run of the tests: bash tests/packaging/run.sh
#
#   source archive   made by cpack, unpacked, configured, installed; a consumer finds the package
#   vcpkg port       its portfile run with the functions of vcpkg replaced by plain CMake; a consumer
#                    finds the package (vcpkg itself is not run)
#   Conan recipe     conan create, with its test package
#   versions         every place that has to repeat the version
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3-venv
root=$PWD
work=$root/build/packaging
rm -rf "$work"/{archive,vcpkg,configured}
mkdir -p "$work"
version=$(for part in MAJOR MINOR PATCH; do
  sed -n "s/^#define UNMASK_VERSION_$part \+//p" include/unmask/version.hpp
done | paste -sd.)
IFS=. read -r major minor patch <<<"$version"
number=$((major * 10000 + minor * 100 + patch))
alone=(-G Ninja -DUNMASK_CUDA=OFF -DUNMASK_BUILD_COMPILED=OFF -DUNMASK_BUILD_TESTS=OFF
  -DUNMASK_BUILD_BENCH=OFF -DUNMASK_BUILD_EXAMPLES=OFF -DUNMASK_BUILD_C=OFF)

# consume <name> <prefix>: tests/packaging/installed finds the package there and runs.
consume() {
  unmask_quietly cmake --fresh -S tests/packaging/installed -B "$work/consumer-$1" -G Ninja \
    "-DUNMASK_PREFIX=$2" "-DUNMASK_EXPECTED=$version"
  unmask_quietly cmake --build "$work/consumer-$1"
  "$work/consumer-$1/consumer" "$number"
}

echo "== versions: $version"
grep -q "\"version\": \"$version\"" cmake/packaging/vcpkg/vcpkg.json || {
  echo "cmake/packaging/vcpkg/vcpkg.json has another version than include/unmask/version.hpp" >&2
  exit 1
}
grep -q "^version: $version$" .github/CITATION.cff || {
  echo ".github/CITATION.cff has another version than include/unmask/version.hpp" >&2
  exit 1
}
grep -q "^## $version" .github/CHANGELOG.md || {
  echo ".github/CHANGELOG.md has no section for $version" >&2
  exit 1
}

echo "== source archive"
unmask_quietly cmake -S . -B "$work/configured" "${alone[@]}"
(cd "$work/configured" && unmask_quietly cpack --config CPackSourceConfig.cmake)
mkdir -p "$work/archive"
tar -xzf "$work/configured/unmask-$version.tar.gz" -C "$work/archive"
if [[ -e .git ]]; then # the archive holds what is tracked, and nothing else
  (cd "$work/archive/unmask-$version" && find . ! -type d -printf '%P\n' | sort) >"$work/held"
  git ls-files --cached --others --exclude-standard | sort >"$work/tracked"
  diff "$work/tracked" "$work/held"
fi
unmask_quietly cmake -S "$work/archive/unmask-$version" -B "$work/archive/build" "${alone[@]}"
unmask_quietly cmake --install "$work/archive/build" --prefix "$work/archive/prefix"
mv "$work/archive/prefix" "$work/archive/moved" # packages are moved
consume archive "$work/archive/moved"

echo "== vcpkg port"
unmask_quietly cmake "-DPORT=$root/cmake/packaging/vcpkg/portfile.cmake" "-DWORK=$work/vcpkg" \
  -P tests/packaging/vcpkg.cmake
consume vcpkg "$work/vcpkg/packages"

echo "== Conan recipe"
if [[ ! -x $work/conan/bin/conan ]]; then
  python3 -m venv "$work/conan"
  unmask_quietly "$work/conan/bin/pip" install -q 'conan>=2,<3'
fi
export CONAN_HOME=$work/conan-home
"$work/conan/bin/conan" profile detect --exist-ok >/dev/null 2>&1
unmask_quietly "$work/conan/bin/conan" create cmake/packaging/conan -s compiler.cppstd=20 \
  -c tools.cmake.cmaketoolchain:generator=Ninja \
  -c tools.cmake.cmake_layout:test_folder="$work/conan-test"
echo "conan created unmask/$version and ran its test package"
