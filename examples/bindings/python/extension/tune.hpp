// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Adds tune() and the values that it returns to the module.
void bind_tune(nanobind::module_& m);

}  // namespace unmask_python
