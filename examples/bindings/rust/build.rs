// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Links libunmask_c, from the folder that UNMASK_LIB_DIR names or from where the linker looks.

use std::path::Path;

const FOLDERS: [&str; 6] = [
    "/usr/local/lib",
    "/usr/lib",
    "/usr/lib64",
    "/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

fn main() {
    println!("cargo:rerun-if-env-changed=UNMASK_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=unmask_c");
    if let Ok(folder) = std::env::var("UNMASK_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        // So that examples and tests of this crate find it when they run.
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        return;
    }
    let named = std::env::var("LIBRARY_PATH").unwrap_or_default();
    let mut folders = named.split(':').chain(FOLDERS);
    if !folders.any(|folder| Path::new(folder).join("libunmask_c.so").exists()) {
        println!("cargo:warning=libunmask_c.so is in no folder of the linker: UNMASK_LIB_DIR names another one");
    }
}
