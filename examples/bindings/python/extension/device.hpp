// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#ifdef UNMASK_PYTHON_CUDA
#  include <unmask/cuda.hpp>

namespace unmask_python {

/// A session on a stream, whose kernels device.cu has.
using device_session = unmask::session<unmask::named_policy, unmask::on_stream>;

}  // namespace unmask_python
#endif
