#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the library behind the C interface and tests the Rust crate over it, which needs no other
# crate: bash tests/rust.sh [options of cargo test]
# UNMASK_BUILD names another folder to build in than build/demo, UNMASK_CMAKE an option for CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

packages=(libeigen3-dev nlohmann-json3-dev)
command -v cargo >/dev/null || packages+=(cargo)
unmask_packages "${packages[@]}"

build=${UNMASK_BUILD:-build/demo}
unmask_quietly cmake --preset demo -B "$build" ${UNMASK_CMAKE:+"$UNMASK_CMAKE"}
unmask_build "$build" --target unmask_c --parallel "${UNMASK_JOBS:-$(nproc)}"

export UNMASK_LIB_DIR=$PWD/$build/examples/c_api CARGO_TARGET_DIR=$PWD/build/rust
cargo test --offline --quiet --manifest-path examples/rust/Cargo.toml "$@"
cargo run --offline --quiet --manifest-path examples/rust/Cargo.toml --example quickstart
