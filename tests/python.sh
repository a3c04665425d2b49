#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Installs the Python package from this checkout and tests it with NumPy and PyTorch on a CPU,
# beside the engines of examples/hosts: bash tests/python.sh [--install | pytest options]
#
# --install stops when PyTorch and the package are installed. tests/sglang.sh has SGLang.
#
# UNMASK_VENV names a virtual environment to use (build/python/venv); UNMASK_TORCH what pip is asked
# for to get PyTorch (torch), such as a wheel without CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3 python3-venv python3-dev

folder=build/python
venv=${UNMASK_VENV:-$folder/venv}
mkdir -p "$folder"
[[ -x $venv/bin/python ]] || unmask_quietly python3 -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check)

echo "Installing PyTorch, NumPy and pytest into $venv"
"$venv/bin/python" -c 'import torch' 2>/dev/null ||
  # shellcheck disable=SC2086
  unmask_quietly "${pip[@]}" install ${UNMASK_TORCH:-torch}
unmask_quietly "${pip[@]}" install numpy pytest
echo "Building and installing examples/bindings/python"
unmask_quietly "${pip[@]}" install --config-settings "build-dir=$PWD/$folder/{wheel_tag}" ./examples/bindings/python
[[ ${1-} != --install ]] || exit 0

# dlmserve and ollada require much that only their loading of large models needs.
echo "Installing transformers, diffusers 0.42.1, dlmserve 0.1.1 and ollada 0.3.0"
unmask_quietly "${pip[@]}" install 'transformers>=5.23,<5.24' 'huggingface_hub>=1.32' fastapi uvicorn prometheus-client
unmask_quietly "${pip[@]}" install --no-deps diffusers==0.42.1 dlmserve==0.1.1 ollada==0.3.0
unmask_quietly "${pip[@]}" install pillow importlib_metadata filelock requests pyyaml  # of diffusers and ollada
unmask_quietly "${pip[@]}" install starlette httpx jsonschema rfc3339-validator  # of the server and schemas

# The Python files of a wheel, without its dependencies: name and version, its CPython and ABI. No engine runs here.
python_files_of() {
  local name=$1 version=$2 to=$folder/$1-$2
  if [[ -d $to ]]; then
    return
  fi
  echo "Unpacking the Python files of $name $version"
  unmask_quietly "${pip[@]}" download --no-deps --only-binary :all: --implementation cp \
    --python-version "$3" --abi "$4" --platform manylinux_2_28_x86_64 --dest "$folder" "$name==$version"
  "$venv/bin/python" - "$to"-*.whl "$to.part" <<'PYTHON'
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [n for n in wheel.namelist() if n.endswith((".py", "/METADATA"))])
PYTHON
  mv "$to.part" "$to"
  rm "$to"-*.whl
}
vllm=$folder/vllm-0.33.0
python_files_of vllm 0.33.0 3.12 abi3 # the modules of its sampler
lmdeploy=$folder/lmdeploy-0.18.0
python_files_of lmdeploy 0.18.0 3.11 cp311 # its step and its loop over blocks
unmask_quietly "${pip[@]}" install mmengine-lite fire shortuuid tiktoken sentencepiece
unmask_quietly "${pip[@]}" install --no-deps peft accelerate ray
unmask_quietly "${pip[@]}" install aiohttp cachetools cbor2 cloudpickle einops jinja2 llguidance msgspec openai \
  openai-harmony partial-json-parser psutil py-cpuinfo pybase64 pyzmq uvloop xgrammar

UNMASK_VLLM=$PWD/$vllm UNMASK_LMDEPLOY=$PWD/$lmdeploy "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/python "$@"

# diffusers 0.42.1 needs transformers 5.23; MLX and its models need a later one.
echo "Installing transformers 5.24 and MLX beside it"
newer=$folder/newer
[[ -d $newer ]] ||
  unmask_quietly "${pip[@]}" install --no-deps --target "$newer" transformers==5.24.0 mlx==0.32.4 mlx-cpu==0.32.4 mlx-vlm==0.7.10
PYTHONPATH=$newer "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  tests/python/test_transformers.py tests/python/test_diffusion_gemma.py tests/python/test_mlx.py "$@"
