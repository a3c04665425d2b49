// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

namespace nb = nanobind;

/// The compilers of expressions and schemas. After bind_constraints().
void bind_languages(nb::module_& m);

}  // namespace unmask_python
