// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The headers that tests share are compiled for this file, once; there is nothing else in it.
