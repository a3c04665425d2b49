// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/cuda.cuh>
#include <unmask/named_policy.hpp>

#include "sessions.hpp"

namespace unmask_python {

std::unique_ptr<unmask::any_session> make_device_session(const std::string& policy,
                                                         const unmask::model_info& model,
                                                         const unmask::limits& capacity,
                                                         std::uintptr_t stream) {
  const unmask::on_stream where{reinterpret_cast<cudaStream_t>(stream)};
  return unmask::make_any_session(policy, model, capacity, where);
}

}  // namespace unmask_python
