#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes the files of a release: bash cmake/packaging/release.sh [--tag v0.1.0] [FOLDER]
# FOLDER is build/release-files by default. In it are then:
#
#   unmask-VERSION.tar.gz       the sources, by cpack
#   unmask.hpp                  the library as one header
#   unmask-VERSION-site.tar.gz  pages, reference, viewer and, where there is an emscripten, the playground
#   unmask-*.whl and the source distribution, if the workflow has put them there
#   SHA256SUMS                  of all of them
#
# With --tag it fails unless tag, version.hpp, CITATION.cff and the change log have the same version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages doxygen python3
tag=
if [[ ${1:-} == --tag ]]; then
  tag=$2
  shift 2
fi
out=${1:-build/release-files}
work=build/release-work
version=$(for part in MAJOR MINOR PATCH; do
  sed -n "s/^#define UNMASK_VERSION_$part \+//p" include/unmask/version.hpp
done | paste -sd.)

require() {
  grep -q "$2" "$1" || {
    echo "$1 has another version than include/unmask/version.hpp, $version" >&2
    exit 1
  }
}
require .github/CITATION.cff "^version: $version$"
require .github/CHANGELOG.md "^## $version"
if [[ -n $tag ]]; then
  [[ $tag == "v$version" ]] || {
    echo "the tag must be v$version, got $tag" >&2
    exit 1
  }
  if grep -q "^## $version, not released" .github/CHANGELOG.md; then
    echo ".github/CHANGELOG.md says that $version is not released" >&2
    exit 1
  fi
fi

mkdir -p "$out"
rm -rf "$work"
echo "Source archive"
unmask_quietly cmake --preset package -B "$work/package" -DUNMASK_BUILD_COMPILED=OFF
(cd "$work/package" && unmask_quietly cpack --config CPackSourceConfig.cmake)
mv "$work/package/unmask-$version.tar.gz" "$out"

echo "One header"
unmask_quietly python3 cmake/amalgamate.py "$out/unmask.hpp"

echo "Site"
unmask_quietly python3 cmake/docs/build.py "$work/docs"
mkdir -p "$work/site/viewer"
cp -r "$work/docs/html/." "$work/site"
cp examples/viewer/viewer.html "$work/site/viewer/index.html"
if command -v em++ >/dev/null; then
  bash examples/playground/build.sh "$work/site/playground"
else
  echo "no em++: the site has no playground"
fi
tar -czf "$out/unmask-$version-site.tar.gz" -C "$work/site" .

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
cat "$out/SHA256SUMS"
