// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sessions on a CUDA stream for the library of c_library.hpp: one .cu file, which is that library's
// with UNMASK_C_API_CUDA defined in both, says
//
//   #define UNMASK_C_IMPLEMENTATION
//   #include <unmask/cuda/c_library.cuh>
#pragma once

#if defined(UNMASK_C_IMPLEMENTATION)

#  include <unmask/cuda.cuh>
#  include <unmask/cuda/c_device.hpp>
#  include <unmask/cuda/key_selector.cuh>

namespace UNMASK_NAMESPACE::detail::c_api {

std::unique_ptr<mixed_device_session> device_session(const unmask::named_parts& parts,
                                                     const unmask::model_info& model,
                                                     const unmask::session_capacity& capacity,
                                                     void* stream) {
  return device_session_of<few_layer_compositions>(parts, model, capacity, stream);
}

}  // namespace UNMASK_NAMESPACE::detail::c_api

#endif
