// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: unmask needs C\+\+20: compile with -std=c\+\+20
// expect: fatal error: '?unmask needs C\+\+20
// flags: -std=c++17
// lines: 20
#include <unmask/unmask.hpp>
