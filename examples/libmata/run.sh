#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds libmata once, and the program that compiles an expression to a table of bytes:
# bash examples/libmata/run.sh [--states N] EXPRESSION FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=examples/libmata/install.sh
source examples/libmata/install.sh

unmask_packages libeigen3-dev nlohmann-json3-dev python3
libmata_install
build=build/libmata
unmask_quietly cmake --preset demo -B "$build" -DUNMASK_LIBMATA=ON -DCMAKE_PREFIX_PATH="$libmata_prefix"
unmask_build "$build" --target unmask_expression_table --parallel "${UNMASK_JOBS:-$(nproc)}"
exec "$build/examples/libmata/unmask_expression_table" "$@"
