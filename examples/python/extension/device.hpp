// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/mixed_session.hpp>

#include <cstdint>
#include <memory>

namespace unmask_python {

/// A session on a stream, which is a cudaStream_t. Defined where the package is built with CUDA.
[[nodiscard]] std::unique_ptr<unmask::basic_mixed_session<unmask::memory::device>>
make_device_session(const unmask::named_parts& policy,
                    const unmask::model_info& model,
                    const unmask::session_capacity& capacity,
                    std::uintptr_t stream);

}  // namespace unmask_python
