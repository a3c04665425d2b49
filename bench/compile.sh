#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compile times of programs, beside one with nlohmann/json: bash bench/compile.sh [--check]
# compile.py's head says more.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/compile.py" "$@"
