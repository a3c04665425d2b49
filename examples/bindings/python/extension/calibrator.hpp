// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Adds Calibrator to the module.
void bind_calibrator(nanobind::module_& m);

}  // namespace unmask_python
