// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Adds the table of released models to the module.
void bind_models(nanobind::module_& m);

}  // namespace unmask_python
