#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The plugin for SGLang in the released wheel of SGLang, on a CPU: bash tests/sglang.sh [pytest options]
#
# PyTorch and our package are those of tests/python.sh, which this calls first; UNMASK_VENV names its
# environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=tests/python/sglang_install.sh
source tests/python/sglang_install.sh

folder=$PWD/build/python
base=${UNMASK_VENV:-$folder/venv}
venv=$folder/sglang-venv
bash tests/python.sh --install
if [[ ! -x $venv/bin/python ]]; then
  unmask_quietly "$base/bin/python" -m venv "$venv"
  packages='import sysconfig; print(sysconfig.get_path("purelib"))'
  "$base/bin/python" -c "$packages" >"$("$venv/bin/python" -c "$packages")/base.pth"
fi
sglang_install "$folder" "$venv/bin/python"

PYTHONPATH=$sglang_wheel "$venv/bin/python" -m pytest -q -p no:cacheprovider \
  tests/python/test_{sglang,conformance}.py "$@"
