#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tests examples/viewer in Debian's Chromium, driven by Selenium from PyPI:
# bash tests/viewer.sh [--pictures FOLDER] [CLASS[.TEST]...]   the classes are in tests/viewer/browser.py
#
# UNMASK_CHROMIUM and UNMASK_CHROMEDRIVER name other programs, such as Chrome's; then nothing but Selenium is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
# shellcheck source=tests/viewer/selenium.sh
source tests/viewer/selenium.sh

unmask_selenium build/viewer
python3 tests/viewer/files.py
python3 tests/viewer/smoke.py
exec build/viewer/bin/python tests/viewer/browser.py "$@"
