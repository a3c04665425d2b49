#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds examples/playground and tests it in Debian's Chromium; its decodes are compared with the demo's:
# bash tests/playground.sh [--pictures FOLDER] [CLASS[.TEST]...]   the class is in tests/playground/browser.py
#
# UNMASK_CHROMIUM and UNMASK_CHROMEDRIVER as for tests/viewer.sh; UNMASK_BUILD names the folder of the demo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=tests/viewer/selenium.sh
source tests/viewer/selenium.sh

unmask_selenium build/viewer
bash examples/playground/build.sh build/playground
build=${UNMASK_BUILD:-build/demo}
UNMASK_BUILD=$build bash examples/run.sh --help >/dev/null
exec build/viewer/bin/python tests/playground/browser.py build/playground "$build/examples/unmask_demo" "$@"
