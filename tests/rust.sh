#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the library behind the C interface and tests the Rust crate over it, which needs no other
# crate: bash tests/rust.sh [options of cargo test]
# UNMASK_BUILD names another folder to build in than build/rust.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

packages=()
command -v cargo >/dev/null || packages+=(cargo)
unmask_packages ${packages[@]+"${packages[@]}"}

build=$(realpath -m "${UNMASK_BUILD:-build/rust}")
unmask_quietly cmake -S . -B "$build" -G Ninja -DUNMASK_CUDA=OFF
unmask_build "$build" --target unmask_c --parallel "${UNMASK_JOBS:-$(nproc)}"

export UNMASK_LIB_DIR=$build CARGO_TARGET_DIR=$build/cargo
cargo test --offline --quiet --manifest-path examples/bindings/rust/Cargo.toml "$@"
cargo run --offline --quiet --manifest-path examples/bindings/rust/Cargo.toml --example quickstart
