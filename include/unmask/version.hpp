// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The only place where the version is written: the build, the package and the ABI namespace read it
// here.
#define UNMASK_VERSION_MAJOR 0
#define UNMASK_VERSION_MINOR 1
#define UNMASK_VERSION_PATCH 0

// One number to compare: 0.1.0 is 100, 1.2.3 is 10203.
#define UNMASK_VERSION                                                                             \
  (UNMASK_VERSION_MAJOR * 10000 + UNMASK_VERSION_MINOR * 100 + UNMASK_VERSION_PATCH)
