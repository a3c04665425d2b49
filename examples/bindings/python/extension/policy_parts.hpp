// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Adds policy_parts() to the module.
void bind_policy_parts(nanobind::module_& m);

}  // namespace unmask_python
