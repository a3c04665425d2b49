// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_session.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace unmask_python {

/// A session on a stream, which is a cudaStream_t. Defined where the package is built with CUDA.
[[nodiscard]] std::unique_ptr<unmask::any_session>
make_device_session(const std::string& policy,
                    const unmask::model_info& model,
                    const unmask::session_capacity& capacity,
                    std::uintptr_t stream);

}  // namespace unmask_python
