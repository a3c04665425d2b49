# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced by tests/viewer.sh and tests/playground.sh, after cmake/packages.sh.

# unmask_selenium <folder>: Chromium and its driver, and Selenium in a virtual environment.
unmask_selenium() {
  local packages=(python3 python3-venv)
  [[ -n ${UNMASK_CHROMIUM:-} && -n ${UNMASK_CHROMEDRIVER:-} ]] ||
    packages+=(chromium chromium-driver fonts-dejavu-core)
  unmask_packages "${packages[@]}"
  if ! "$1/bin/python" -c 'import selenium' 2>/dev/null; then
    echo "Installing Selenium into $1"
    unmask_quietly python3 -m venv "$1"
    unmask_quietly "$1/bin/python" -m pip --disable-pip-version-check install 'selenium>=4.20,<5'
  fi
}
