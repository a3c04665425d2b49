#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compile times of programs, beside one with nlohmann/json: bash bench/compile.sh [--check]
# See the head of compile.py.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/compile.py" "$@"
