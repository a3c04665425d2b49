# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced, after cmake/packages.sh, by what needs libmata: sets libmata_source and libmata_prefix. The
# sources are those that a Python package carries; they are fetched and built once, in some minutes.

libmata_package=libmata==1.28.2 # newer ones need GCC 13
libmata_sum=420801631788d3f83c43f3d76be704e0e0033617bfb5f049c48f60cbde4224ff
libmata_root=${UNMASK_LIBMATA_DIR:-build/libmata-1.28.2}
mkdir -p "$libmata_root"
libmata_root=$(cd "$libmata_root" && pwd)
libmata_source=$libmata_root/source/mata
libmata_prefix=$libmata_root/prefix

# libmata_fetch: the sources, in libmata_source.
libmata_fetch() {
  [[ -e $libmata_source/LICENSE ]] && return
  python3 -m pip --version >/dev/null 2>&1 || unmask_packages python3-pip
  local archive=$libmata_root/${libmata_package//==/-}.tar.gz
  if [[ ! -e $archive ]]; then
    echo "Fetching libmata (2 MB)"
    unmask_quietly python3 -m pip download --no-binary libmata --no-deps --no-cache-dir \
      --dest "$libmata_root" "$libmata_package"
  fi
  if [[ $(sha256sum <"$archive") != "$libmata_sum  -" ]]; then
    echo "$archive: not the file that was tested, its sha256 must be $libmata_sum" >&2
    exit 1
  fi
  mkdir -p "$libmata_root/source"
  tar xzf "$archive" -C "$libmata_root/source" --strip-components=1
}

# libmata_install: the library and its headers, in libmata_prefix.
libmata_install() {
  [[ -e $libmata_prefix/include/mata/nfa/nfa.hh ]] && return
  libmata_fetch
  echo "Building libmata, once"
  unmask_quietly cmake -S "$libmata_source" -B "$libmata_root/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DMATA_BUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF
  unmask_quietly cmake --build "$libmata_root/build" --parallel "${UNMASK_JOBS:-$(nproc)}"
  unmask_quietly cmake --install "$libmata_root/build" --prefix "$libmata_prefix"
}
