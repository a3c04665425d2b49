// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Links libunmask_c, from the folder that UNMASK_LIB_DIR names or from where the linker looks.

fn main() {
    println!("cargo:rerun-if-env-changed=UNMASK_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=unmask_c");
    if let Ok(folder) = std::env::var("UNMASK_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        // So that examples and tests of this crate find it when they run.
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
