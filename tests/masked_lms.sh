#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Fetches rxnmapper, antiberty and sapiens from PyPI (107 MB), writes them as GGUF into build/masked_lms, and compares the
# example engine with transformers on them; then the demo restores some masked sequences: bash tests/masked_lms.sh
#
# UNMASK_VENV names a virtual environment to use (build/masked_lms/venv); UNMASK_TORCH what pip is asked for to get
# PyTorch (torch); UNMASK_BUILD another folder to build in than build/masked_lms/cmake. With --reference the stored
# logits and decodes are computed again, which needs transformers, and must not change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3 python3-venv libeigen3-dev nlohmann-json3-dev libgtest-dev libgmock-dev

folder=build/masked_lms
venv=${UNMASK_VENV:-$folder/venv}
build=${UNMASK_BUILD:-$folder/cmake}
mkdir -p "$folder"
[[ -x $venv/bin/python ]] || unmask_quietly python3 -m venv "$venv"
python=$venv/bin/python

# shellcheck disable=SC2086
"$python" -c 'import torch' 2>/dev/null ||
  unmask_quietly "$python" -m pip --disable-pip-version-check install ${UNMASK_TORCH:-torch}
"$python" -c 'import gguf' 2>/dev/null ||
  unmask_quietly "$python" -m pip --disable-pip-version-check install gguf numpy

for model in rxnmapper antiberty sapiens_heavy; do
  [[ -f $folder/$model.gguf ]] || "$python" examples/masked_lms/make/export.py "$model" "$folder/$model.gguf" --fetch
done

if [[ ${1:-} == --reference ]]; then
  "$python" -c 'import transformers' 2>/dev/null ||
    unmask_quietly "$python" -m pip --disable-pip-version-check install transformers
  for pair in rxnmapper:reactions antiberty:antibodies sapiens_heavy:heavy_chains; do
    model=${pair%%:*}
    "$python" examples/masked_lms/make/reference.py "$model" "$folder" "examples/masked_lms/${pair##*:}.jsonl" \
      "$folder/$model.jsonl"
    "$python" tests/examples/same_reference.py "tests/data/masked_lms/$model.jsonl" "$folder/$model.jsonl"
  done
fi

unmask_quietly cmake --preset demo -B "$build" -DUNMASK_BUILD_TESTS=ON
unmask_build "$build" --target unmask_tests_examples unmask_demo --parallel "${UNMASK_JOBS:-$(nproc)}"
UNMASK_MASKED_LMS=$folder "$(find "$build" -name unmask_tests_examples -type f)" --gtest_filter='*masked_lms*'
"$python" tests/examples/masked_lms.py "$build/examples/unmask_demo" "$folder"
