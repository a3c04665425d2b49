// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

void bind_parts(nanobind::module_& m);

}  // namespace unmask_python
