# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced by tests/run.sh and examples/run.sh, which set -euo pipefail.

# unmask_packages <package>...: makes sure that a compiler, CMake, Ninja and these packages of
# Debian and Ubuntu are there. Elsewhere says what is needed and ends with status 2.
unmask_packages() {
  local wanted=("$@") missing=() package
  command -v "${CXX:-c++}" >/dev/null || missing+=(g++)
  command -v cmake >/dev/null || missing+=(cmake)
  command -v ninja >/dev/null || missing+=(ninja-build)

  if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    for package in "${wanted[@]}"; do
      [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
        missing+=("$package")
    done
    if ((${#missing[@]})); then
      _unmask_apt_get "${missing[@]}"
    fi
  elif [[ ${UNMASK_PACKAGES:-} != present ]]; then
    cat >&2 <<TEXT
This script installs packages on Debian and Ubuntu only. Needed here, by the names they have there:
  g++ cmake ninja-build ${wanted[*]}
(GCC 12 or Clang 14 or newer, CMake 3.25 or newer.) Once they are installed, run it again with
UNMASK_PACKAGES=present in the environment.
TEXT
    exit 2
  fi

  # Presets of version 6 and a few commands need it; say so before CMake does, at length.
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  if [[ $(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1) != 3.25 ]]; then
    echo "CMake 3.25 or newer is needed, found ${version:-none}" >&2
    exit 2
  fi
}

_unmask_apt_get() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q)
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "not installed: $*; install them as root, then run this again" >&2
      exit 2
    fi
    apt=(sudo "${apt[@]}")
  fi
  echo "Installing $*"
  unmask_quietly "${apt[@]}" update
  unmask_quietly "${apt[@]}" install --yes --no-install-recommends "$@"
}

# unmask_quietly <command>...: shows what the command says only if it fails, and then ends with its
# status.
unmask_quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status)); then
    cat "$log" >&2
    echo "failed with status $status: $*" >&2
  fi
  rm -f "$log"
  ((status == 0)) || exit "$status"
}

# unmask_build <folder> [option]...: on a terminal with Ninja's line of progress, else silent but for
# warnings and errors.
unmask_build() {
  local folder=$1
  shift
  if [[ -t 1 ]]; then
    cmake --build "$folder" "$@"
  else
    # The one thing that a quiet Ninja still says when all is well.
    cmake --build "$folder" "$@" -- --quiet | sed '/^ninja: no work to do\.$/d'
  fi
}
