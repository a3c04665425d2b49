#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds libmata and examples/libmata, and compares the languages of its tables with those that
# outlines-core compiles: bash tests/libmata.sh [-v] [CLASS[.TEST]...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3-venv
python=build/libmata.python
if [[ ! -d $python ]]; then
  python3 -m venv "$python.part"
  unmask_quietly "$python.part/bin/pip" install -q "outlines-core>=0.2.11,<0.3"
  mv "$python.part" "$python"
fi
bash examples/libmata/run.sh a build/libmata.dfa
exec "$python/bin/python" tests/libmata/compare.py build/libmata/examples/libmata/unmask_expression_table "$@"
