# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
#
# Sourced, behind cmake/packages.sh, by what needs llama.cpp: sets llama_cpp_source, llama_cpp_build
# and llama_cpp_prefix. The sources are those that a Python package carries; they are fetched and
# built once, in some minutes.

llama_cpp_package=llama-cpp-python==0.3.36 # llama.cpp 0.5.0, commit 0c1e57098
llama_cpp_sum=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
llama_cpp_root=${UNMASK_LLAMA_CPP_DIR:-build/llama.cpp-0.5.0}
mkdir -p "$llama_cpp_root"
llama_cpp_root=$(cd "$llama_cpp_root" && pwd)
llama_cpp_source=$llama_cpp_root/source/vendor/llama.cpp
llama_cpp_build=$llama_cpp_root/build
llama_cpp_prefix=$llama_cpp_root/prefix

# llama_cpp_fetch: the sources, in llama_cpp_source.
llama_cpp_fetch() {
  [[ -e $llama_cpp_source/LICENSE ]] && return
  python3 -m pip --version >/dev/null 2>&1 || unmask_packages python3-pip
  local archive=$llama_cpp_root/${llama_cpp_package//==/-}.tar.gz
  archive=${archive/llama-cpp-python/llama_cpp_python}
  if [[ ! -e $archive ]]; then
    echo "Fetching llama.cpp (77 MB)"
    unmask_quietly python3 -m pip download --no-binary llama-cpp-python --no-deps --no-cache-dir \
      --dest "$llama_cpp_root" "$llama_cpp_package"
  fi
  if [[ $(sha256sum <"$archive") != "$llama_cpp_sum  -" ]]; then
    echo "$archive: not the file that was tested, its sha256 must be $llama_cpp_sum" >&2
    exit 1
  fi
  rm -rf "$llama_cpp_root/source.part"
  mkdir -p "$llama_cpp_root/source.part"
  tar xzf "$archive" -C "$llama_cpp_root/source.part" --strip-components=1
  rm -rf "$llama_cpp_root/source"
  mv "$llama_cpp_root/source.part" "$llama_cpp_root/source"
}

# llama_cpp_install: libllama and its headers for the CPU, in llama_cpp_prefix.
llama_cpp_install() {
  [[ -e $llama_cpp_prefix/include/llama.h ]] && return
  llama_cpp_fetch
  echo "Building llama.cpp, once"
  # GGML_NATIVE: off, so that a kept build runs on any machine with AVX2.
  # shellcheck disable=SC2016 # $ORIGIN is for the linker
  unmask_quietly cmake -S "$llama_cpp_source" -B "$llama_cpp_build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$llama_cpp_prefix" \
    -DCMAKE_INSTALL_RPATH='$ORIGIN' -DGGML_NATIVE=OFF -DLLAMA_BUILD_COMMON=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF
  unmask_build "$llama_cpp_build" --parallel "${UNMASK_JOBS:-$(nproc)}"
  unmask_quietly cmake --install "$llama_cpp_build"
}

# llama_cpp_diffusion: beside it what llama.cpp's own diffusion example is made of.
llama_cpp_diffusion() {
  llama_cpp_install
  [[ -e $llama_cpp_build/examples/diffusion/libllama-diffusion.a ]] && return
  echo "Building llama.cpp's diffusion example, once"
  unmask_quietly cmake "$llama_cpp_build" -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_EXAMPLES=ON
  unmask_build "$llama_cpp_build" --target llama-diffusion --parallel "${UNMASK_JOBS:-$(nproc)}"
}
