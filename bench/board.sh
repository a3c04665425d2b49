#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds what decodes and ranks the rules of bench/board/policies.txt: bash bench/board.sh [options of board.py]
# What judge.sh has decoded in the same folder is not decoded again; UNMASK_BUILD names another folder than build/judge.
set -euo pipefail
export UNMASK_JUDGE=bench/board.py
exec bash "$(dirname "${BASH_SOURCE[0]}")/judge.sh" "$@"
