#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The plugin for SGLang in the released wheel of SGLang, on a CPU: bash tests/sglang.sh [pytest options]
#
# Of what that wheel requires, this installs only what its engine imports without a GPU. PyTorch and
# our package are those of tests/python.sh, which this calls first; UNMASK_VENV names its environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

folder=$PWD/build/python
base=${UNMASK_VENV:-$folder/venv}
venv=$folder/sglang-venv
bash tests/python.sh --install
if [[ ! -x $venv/bin/python ]]; then
  unmask_quietly "$base/bin/python" -m venv "$venv"
  packages='import sysconfig; print(sysconfig.get_path("purelib"))'
  "$base/bin/python" -c "$packages" >"$("$venv/bin/python" -c "$packages")/base.pth"
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check)

wheel=$folder/sglang-whole-0.5.23
if [[ ! -d $wheel ]]; then
  echo "Unpacking SGLang 0.5.23"
  tag=$("$venv/bin/python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
  unmask_quietly "${pip[@]}" download --no-deps --only-binary :all: --implementation cp --python-version "$tag" \
    --abi "cp$tag" --platform manylinux_2_34_x86_64 --dest "$folder" sglang==0.5.23
  "$venv/bin/python" -m zipfile -e "$folder"/sglang-0.5.23-cp"$tag"-*.whl "$wheel.part"
  mv "$wheel.part" "$wheel"
fi
echo "Installing what its engine imports"
unmask_quietly "${pip[@]}" install transformers==5.19.0 IPython aiohttp attrs dill einops fastapi interegular loguru \
  msgspec openai openai-harmony orjson partial_json_parser pillow prometheus-client psutil pybase64 python-multipart \
  pyyaml pyzmq requests sentencepiece setproctitle tiktoken uvicorn uvloop xxhash zstandard
unmask_quietly "${pip[@]}" install --no-deps apache-tvm-ffi==0.1.11 compressed-tensors llguidance torchvision xgrammar==0.2.7

PYTHONPATH=$wheel "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/python/test_sglang.py "$@"
