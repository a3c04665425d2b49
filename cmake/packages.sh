# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced by tests/*.sh and examples/run.sh, which set -euo pipefail.

# unmask_packages <package>...: makes sure that a compiler, CMake, Ninja and these packages of
# Debian and Ubuntu are there. Elsewhere says what is needed and ends with status 2.
unmask_packages() {
  local wanted=("$@") missing=() package
  local compiler=${CXX:-g++} # Debian calls the package of clang++-19 clang-19
  command -v "${CXX:-c++}" >/dev/null || missing+=("${compiler/#clang++/clang}")
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

# unmask_quietly <command>...: shows the command's output only if it fails, and then ends with its
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

# unmask_configure <folder> [option]...: cmake, as if for the first time, because the compiler and the
# preset may have changed since the last one. What was compiled is kept; cmake --fresh deletes the
# objects of the project's own folder.
unmask_configure() {
  rm -rf "${1:?}/CMakeCache.txt" "$1"/CMakeFiles/[0-9]*
  unmask_quietly cmake -B "$@"
}

# unmask_build <folder> [option]...: on a terminal with Ninja's line of progress, else silent but
# for warnings and errors.
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

# unmask_wheel <program> <version> <install>: puts the path of a program from PyPI, in that version,
# into `program`. The variable UNMASK_<PROGRAM> names it, else it is looked for in build/<program>
# and on PATH. Installs it into build/<program> if <install> is 1; says how to get it and ends with
# status 2 if not.
unmask_wheel() {
  local name=$1 version=$2 install=$3 own folder=build/$1 candidate
  own=UNMASK_${name^^}
  own=${own//-/_}
  for candidate in "${!own:-}" "$folder/bin/$name" "$name" "$name-${version%%.*}"; do
    if [[ -n $candidate && $("$candidate" --version 2>/dev/null) == *"version $version"* ]]; then
      program=$candidate
      return
    fi
  done
  if ((!install)); then
    cat >&2 <<TEXT
$name $version is not here. Either
  python3 -m pip install $name==$version
or run this again with --install, for one of its own in $folder.
TEXT
    exit 2
  fi
  unmask_packages python3 python3-venv
  echo "Installing $name $version into $folder"
  unmask_quietly python3 -m venv "$folder"
  unmask_quietly "$folder/bin/python" -m pip --disable-pip-version-check install "$name==$version"
  program=$folder/bin/$name
}
