#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Do the tests notice? Changes the headers of core, stats, step and policy in one place at a time and
# runs the tests that reach this place:
#
#   bash tests/mutation.sh [--sample FRACTION] [--again survived] [FOLDER...]
#
# Folders are step, policy, core and stats; all four by default. --sample takes that share of each
# header's mutants, --tests PATTERN,... some of the test files. Results are kept in build/mutation: a
# second call goes on, and --again survived runs those that survived once more, after a test was
# added. Prints tables and the survivors; tests/mutation/README.md has how it works and the last
# results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages python3-clang-14 libclang1-14 ccache libgtest-dev libgmock-dev libeigen3-dev nlohmann-json3-dev
exec nice /usr/bin/python3 tests/mutation/mutate.py --jobs "${UNMASK_JOBS:-$(nproc)}" "$@"
