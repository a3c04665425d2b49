#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds libmata and examples/libmata, and compares the languages of its tables with those that the
# library's own compiler makes: bash tests/libmata.sh [-v] [CLASS[.TEST]...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash examples/libmata/run.sh a build/libmata.dfa
"${CXX:-g++}" -std=c++20 -O2 -Iinclude tests/libmata/table.cpp -o build/libmata/table
exec python3 tests/libmata/compare.py build/libmata/examples/libmata/unmask_expression_table build/libmata/table "$@"
