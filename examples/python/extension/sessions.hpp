// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/host/backend.hpp>

#include <memory>
#include <string>

/// What costs compile time, in files of its own: sessions of every policy that has a name.
namespace unmask_python {

[[nodiscard]] std::unique_ptr<unmask::any_layer_session>
make_host_session(const std::string& policy,
                  const unmask::model_info& model,
                  const unmask::limits& capacity,
                  const unmask::on_host& where);

/// `stream` is a cudaStream_t. Defined where the package is built with CUDA.
[[nodiscard]] std::unique_ptr<unmask::any_session>
make_device_session(const std::string& policy,
                    const unmask::model_info& model,
                    const unmask::limits& capacity,
                    std::uintptr_t stream);

/// The parts that a policy may name, as text.
[[nodiscard]] std::string describe_parts();

}  // namespace unmask_python
