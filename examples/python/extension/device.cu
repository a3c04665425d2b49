// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"

#include <unmask/cuda.cuh>

namespace unmask_python {

std::unique_ptr<unmask::basic_mixed_session<unmask::memory::device>>
make_device_session(const unmask::named_parts& policy,
                    const unmask::model_info& model,
                    const unmask::session_capacity& capacity,
                    std::uintptr_t stream) {
  const unmask::on_stream where{reinterpret_cast<cudaStream_t>(stream)};
  return unmask::make_mixed_session<unmask::few_compositions>(policy, model, capacity, where);
}

}  // namespace unmask_python
