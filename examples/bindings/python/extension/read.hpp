// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>

namespace unmask_python {

/// Rows of logits without a session: read_rows().
void bind_read(nanobind::module_& m);

}  // namespace unmask_python
