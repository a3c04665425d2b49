#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes the playground, a folder of static files, with Debian's emscripten:
# bash examples/playground/build.sh [FOLDER]     build/playground by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages emscripten libeigen3-dev python3

export NODE_PATH=${NODE_PATH:-/usr/share/nodejs} # for a node that is not Debian's
site=${1:-build/playground}
objects=build/playground.objects
mkdir -p "$site" "$objects"
here=examples/playground
flags=(-std=c++20 -O2 -DNDEBUG -DUNMASK_COMPILED -fwasm-exceptions -msimd128
  -Iinclude -Iexamples -isystem /usr/include/eigen3)

sources=("$here/playground.cpp" examples/demo/{checkers,engine}.cpp examples/engine/*.cpp)
for part in {0..8}; do # the library by parts, as <unmask/compiled.hpp> says
  printf '#define UNMASK_IMPLEMENTATION\n#define UNMASK_PART %s\n#include <unmask/compiled.hpp>\n' \
    "$part" >"$objects/part$part.cpp"
  sources+=("$objects/part$part.cpp")
done

compile() {
  em++ "${@:3}" -c "$1" -o "$2/$(basename "$1" .cpp).o"
}
export -f compile
echo "Compiling ${#sources[@]} files"
printf '%s\0' "${sources[@]}" |
  xargs -0 -I{} -P "${UNMASK_JOBS:-$(nproc)}" bash -c 'compile "$@"' _ {} "$objects" "${flags[@]}"

calls=(load check column language start solves step said trace answer refused filled parts)
exported=$(printf ',"_playground_%s"' "${calls[@]}")
em++ -O2 -fwasm-exceptions "$objects"/*.o -o "$objects/playground.js" \
  -sMODULARIZE -sEXPORT_NAME=makePlayground -sENVIRONMENT=web -sALLOW_MEMORY_GROWTH -sFORCE_FILESYSTEM \
  -sEXPORTED_RUNTIME_METHODS='["ccall","FS"]' -sEXPORTED_FUNCTIONS="[${exported:1}]"

# Pages without a server may not fetch: the models and the program are text in a script.
python3 - "$objects/playground.wasm" examples/tiny_llada/tiny-f16.gguf examples/sudoku/sudoku-f16.gguf >"$site/data.js" <<'PYTHON'
import base64
import sys

print("globalThis.playgroundData = {", end="")
for name, path in zip(("wasm", "text", "sudoku"), sys.argv[1:]):
    with open(path, "rb") as file:
        print(f'{name}: "{base64.b64encode(file.read()).decode()}",', end="")
print("};")
PYTHON
cp "$objects/playground.js" "$here"/{index.html,page.js,page.css,languages.js} examples/viewer/viewer.html \
  "$site"
cat examples/viewer/src/{colours,style}.css >"$site/viewer.css"
echo "Open $site/index.html"
