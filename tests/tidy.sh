#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# clang-tidy on every header, with the checks of .clang-tidy: bash tests/tidy.sh [--install]
# --install installs clang-tidy from PyPI into build/clang-tidy if it is not found;
# UNMASK_CLANG_TIDY names the program itself. Takes half a minute.
#
# All headers are one translation unit, and the CUDA side for .cpp files is another where there is a
# toolkit; a program at the end of the first makes templates into code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

install=0
[[ ${1:-} != --install ]] || install=1
unmask_wheel clang-tidy 21.1.6 "$install"

build=build/clang-tidy/sources
mkdir -p "$build"
includes=() units=()
# unit <name> <header>...
unit() {
  units+=("$build/$1.cpp")
  printf '#include <%s>\n' "${@:2}" >"$build/$1.cpp"
}
# Not these: headers of the CUDA side and of other libraries, unless those are here.
mapfile -t headers < <(cd include && find unmask -name '*.hpp' -o -name '*.h' | sort)
host=() cuda=()
for header in "${headers[@]}"; do
  case $header in
    */cuda/* | unmask/cuda.hpp | */interop/half.hpp) cuda+=("$header") ;;
    */interop/eigen.hpp) [[ ! -d /usr/include/eigen3 ]] || host+=("$header") ;;
    *) host+=("$header") ;;
  esac
done
unit host "${host[@]}"
sed 's/int main()/int first_program()/' examples/first.cpp >"$build/program.hpp"
echo '#include "program.hpp"' >>"$build/host.cpp"
toolkit=${CUDA_HOME:-/usr/local/cuda}
if [[ -e $toolkit/include/cuda_runtime_api.h ]]; then
  includes+=(-isystem "$toolkit/include")
  unit cuda "${cuda[@]}"
fi
printf '%s\0' "${units[@]}" |
  xargs -0 -P "${UNMASK_JOBS:-$(nproc)}" -I '{}' "$program" --quiet '{}' -- -std=c++20 \
    "-I$PWD/include" -isystem /usr/include/eigen3 "${includes[@]}" 2>&1 |
  sed '/^[0-9]* warnings generated\.$/d'
