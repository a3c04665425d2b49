#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Applies the patches of examples/hosts/patches to the released sources of their hosts, one after the other,
# and runs their tests: bash tests/patches.sh [diffusers | sglang | llama_cpp]...
#
# The tests of a patch must fail before its change and pass after it, and all of a host's must pass in
# the end. Nothing of this library is built or imported. UNMASK_VENV names a virtual environment to
# take PyTorch from; UNMASK_TORCH what pip is asked for otherwise (torch).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=examples/hosts/llama_cpp/install.sh
source examples/hosts/llama_cpp/install.sh
# shellcheck source=tests/python/sglang_install.sh
source tests/python/sglang_install.sh

folder=$PWD/build/patches
python=$folder/venv/bin/python
export GIT_CEILING_DIRECTORIES=$folder # the trees below are not of this checkout
hosts=("$@")
((${#hosts[@]})) || hosts=(diffusers sglang llama_cpp)
for host in "${hosts[@]}"; do
  [[ -d examples/hosts/patches/$host ]] || { echo "$host: there are patches for" examples/hosts/patches/*/ >&2; exit 2; }
done
mkdir -p "$folder"

# An interpreter with PyTorch, once.
python_install() {
  [[ -e $folder/venv/done ]] && return
  unmask_packages python3 python3-venv git
  echo "Installing PyTorch into $folder/venv"
  if [[ -n ${UNMASK_VENV:-} ]]; then
    unmask_quietly "$UNMASK_VENV/bin/python" -m venv "$folder/venv"
    local packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$UNMASK_VENV/bin/python" -c "$packages" >"$("$python" -c "$packages")/base.pth"
  else
    unmask_quietly python3 -m venv "$folder/venv"
    # shellcheck disable=SC2086
    unmask_quietly "$python" -m pip --disable-pip-version-check install ${UNMASK_TORCH:-torch} numpy
  fi
  touch "$folder/venv/done"
}

# <host>_sources: puts the released sources into $tree, where the paths of the patches begin, and sets
# $failed, what a test prints if assertions fail and nothing else does. <host>_test <file>: runs it.
diffusers_sources() {
  python_install
  local pip=("$python" -m pip --disable-pip-version-check)
  unmask_quietly "${pip[@]}" install 'transformers>=5.19' pillow importlib_metadata filelock requests httpx
  unmask_quietly "${pip[@]}" install --no-deps --target "$tree/src" diffusers==0.42.1
  failed='^FAILED \(failures=[0-9]+\)$'
}
diffusers_test() { PYTHONPATH=$tree/src "$python" "$tree/$1"; }

sglang_sources() {
  python_install
  sglang_install "$folder" "$python"
  cp -r "$sglang_wheel" "$tree/python"
  failed='^FAILED \(failures=[0-9]+\)$'
}
sglang_test() { PYTHONPATH=$tree/python "$python" "$tree/$1"; }

llama_cpp_sources() {
  unmask_packages git python3
  llama_cpp_fetch
  mkdir "$tree/examples"
  cp -r "$llama_cpp_source"/{common,include,src,tests} "$tree"
  cp -r "$llama_cpp_source/examples/diffusion" "$tree/examples"
  llama_cpp_flags=(-std=c++17 -O1 -Wall -Wextra -I"$tree/include" -I"$tree/common" -I"$tree/src"
    -I"$llama_cpp_source/ggml/include")
  "${CXX:-g++}" "${llama_cpp_flags[@]}" -c "$tree/src/llama-sampler.cpp" -o "$tree/llama-sampler.o"
  "${CXX:-g++}" "${llama_cpp_flags[@]}" -c tests/patches/libllama.cpp -o "$tree/libllama.o"
  failed='GGML_ASSERT\(.*\) failed$'
}
llama_cpp_test() {
  "${CXX:-g++}" "${llama_cpp_flags[@]}" -Werror "$tree/$1" "$tree"/{llama-sampler,libllama}.o -static \
    -Wl,--unresolved-symbols=ignore-all -o "$tree/test" && "$tree/test"
}

log=$folder/log
for host in "${hosts[@]}"; do
  tree=$folder/$host
  rm -rf "$tree"
  mkdir "$tree"
  "${host}_sources"
  tests=()
  for patch in "$PWD/examples/hosts/patches/$host"/*.patch; do
    cd "$tree"
    mapfile -t own < <(git apply --numstat "$patch" | cut -f3 | grep -E '^tests?/.*\.(py|cpp)$')
    [[ ${#own[@]} == 1 ]] || { echo "$patch: has ${#own[@]} files of tests, must have one" >&2; exit 1; }
    git apply --include='test*/*' "$patch"
    cd - >/dev/null
    if "${host}_test" "${own[0]}" >"$log" 2>&1 || ! grep -qE "$failed" "$log"; then
      cat "$log" >&2
      echo "$patch: ${own[0]} must fail by an assertion before the change" >&2
      exit 1
    fi
    git -C "$tree" apply --exclude='test*/*' "$patch"
    if ! "${host}_test" "${own[0]}" >"$log" 2>&1; then
      cat "$log" >&2
      echo "$patch: ${own[0]} must pass after the change" >&2
      exit 1
    fi
    echo "$host/$(basename "$patch"): fails before, passes after"
    tests+=("${own[0]}")
  done
  for test in "${tests[@]}"; do
    "${host}_test" "$test" >"$log" 2>&1 || { cat "$log" >&2; echo "$host: $test fails with all patches" >&2; exit 1; }
  done
done
