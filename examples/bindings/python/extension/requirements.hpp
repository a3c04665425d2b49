// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Adds requirements() and the values that it returns to the module.
void bind_requirements(nanobind::module_& m);

}  // namespace unmask_python
