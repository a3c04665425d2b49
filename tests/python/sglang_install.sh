# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced, behind cmake/packages.sh, by what runs SGLang on a CPU.

# sglang_install <folder> <python>: unpacks the released wheel of SGLang below the folder, once, sets
# sglang_wheel to where, and installs for that interpreter, which has PyTorch, what SGLang's engine
# imports without a GPU; it requires more.
sglang_install() {
  local folder=$1 pip=("$2" -m pip --disable-pip-version-check) tag
  sglang_wheel=$folder/sglang-whole-0.5.23
  if [[ ! -d $sglang_wheel ]]; then
    echo "Unpacking SGLang 0.5.23"
    tag=$("$2" -c 'import sys; print("%d%d" % sys.version_info[:2])')
    unmask_quietly "${pip[@]}" download --no-deps --only-binary :all: --implementation cp --python-version "$tag" \
      --abi "cp$tag" --platform manylinux_2_34_x86_64 --dest "$folder" sglang==0.5.23
    "$2" -m zipfile -e "$folder"/sglang-0.5.23-cp"$tag"-*.whl "$sglang_wheel.part"
    mv "$sglang_wheel.part" "$sglang_wheel"
  fi
  echo "Installing what its engine imports"
  unmask_quietly "${pip[@]}" install transformers==5.19.0 IPython aiohttp attrs dill einops fastapi gguf interegular \
    loguru msgspec openai openai-harmony orjson partial_json_parser pillow prometheus-client psutil pybase64 \
    python-multipart pyyaml pyzmq requests sentencepiece setproctitle tiktoken uvicorn uvloop xxhash zstandard
  unmask_quietly "${pip[@]}" install --no-deps apache-tvm-ffi==0.1.11 compressed-tensors llguidance torchvision \
    xgrammar==0.2.7
}
