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
for part in {0..4}; do # the library by parts, as <unmask/compiled.hpp> says
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

calls=(load check line column language start right step said trace answer segments committed refused filled parts)
exported=$(printf ',"_playground_%s"' "${calls[@]}")
em++ -O2 -fwasm-exceptions "$objects"/*.o -o "$objects/playground.js" \
  -sMODULARIZE -sEXPORT_NAME=makePlayground -sENVIRONMENT=web -sALLOW_MEMORY_GROWTH -sFORCE_FILESYSTEM \
  -sEXPORTED_RUNTIME_METHODS='["ccall","FS"]' -sEXPORTED_FUNCTIONS="[${exported:1}]"

# Pages without a server may not fetch: the models, their problems and the program are text in scripts.
python3 - "$objects/playground.wasm" "$site" <<'PYTHON'
import base64
import json
import pathlib
import sys

OF_A_TASK = 200
MODELS = {"text": ("tiny_llada/tiny-f16.gguf", "tiny_llada/prompts.jsonl"), "sudoku": ("sudoku/sudoku-f16.gguf", "sudoku/puzzles.jsonl"),
          "chains": ("chains/chains-f16.gguf", "chains/problems.jsonl"), "waiting": ("chains/waiting_1-f16.gguf", "chains/waiting.jsonl")}
program, site = map(pathlib.Path, sys.argv[1:])
files, problems = {"wasm": program}, {}
for name, (weights, lines) in MODELS.items():
    files[name] = pathlib.Path("examples", weights)
    problems[name] = {}
    for line in pathlib.Path("examples", lines).read_text(encoding="utf-8").splitlines():
        problem = json.loads(line)
        problems[name].setdefault(problem.pop("task"), []).append(problem)
    problems[name] = {task: of[:OF_A_TASK] for task, of in problems[name].items()}
with open(site / "data.js", "w", encoding="utf-8") as out:
    out.write("globalThis.playgroundData = {")
    for name, file in files.items():
        out.write(f'{name}: "{base64.b64encode(file.read_bytes()).decode()}",\n')
    out.write("};\n")
with open(site / "problems.js", "w", encoding="utf-8") as out:
    out.write(f"globalThis.playgroundProblems = {json.dumps(problems, separators=(',', ':'))};\n")
PYTHON
cp "$objects/playground.js" "$here"/{index.html,page.js,score.js,page.css} examples/viewer/viewer.html \
  "$site"
cat examples/viewer/src/{colours,style}.css >"$site/viewer.css"
echo "Open $site/index.html"
