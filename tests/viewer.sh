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

packages=(python3 python3-venv)
[[ -n ${UNMASK_CHROMIUM:-} && -n ${UNMASK_CHROMEDRIVER:-} ]] || packages+=(chromium chromium-driver fonts-dejavu-core)
unmask_packages "${packages[@]}"

venv=build/viewer
if ! "$venv/bin/python" -c 'import selenium' 2>/dev/null; then
  echo "Installing Selenium into $venv"
  unmask_quietly python3 -m venv "$venv"
  unmask_quietly "$venv/bin/python" -m pip --disable-pip-version-check install 'selenium>=4.20,<5'
fi

python3 tests/viewer/files.py
python3 tests/viewer/smoke.py
exec "$venv/bin/python" tests/viewer/browser.py "$@"
