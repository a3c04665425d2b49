// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The umbrella header alone.
#include <unmask/unmask.hpp>

int main() {}
