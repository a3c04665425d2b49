#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the site of the pages and the reference: bash tests/docs.sh [folder]. Fails where a public name
# has no comment, Doxygen has a warning, or a link leads nowhere or is shown as plain text. Prints the
# file to open. UNMASK_REPOSITORY is the address that links to sources lead to; without it they lead to
# the files of this checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

unmask_packages doxygen python3

python3 cmake/docs/build.py --self-test
python3 cmake/docs/build.py "${1:-build/docs}"
