# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
set(PACKAGE_VERSION 0.6.0)
