// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"

#include <unmask/cuda.cuh>
#include <unmask/named_policy.hpp>

namespace unmask_python {

// A kernel takes long to compile, so these are fewer than on the host: a policy that needs another
// is refused with a message.
using device_compositions =
    unmask::compositions<unmask::edits_and({.branches = true, .edits_tokens = true}),
                         unmask::edits_and(
                             {.branches = true, .draws = true, .edits_tokens = true})>;

std::unique_ptr<unmask::any_session> make_device_session(const std::string& policy,
                                                         const unmask::model_info& model,
                                                         const unmask::session_capacity& capacity,
                                                         std::uintptr_t stream) {
  const unmask::on_stream where{reinterpret_cast<cudaStream_t>(stream)};
  return unmask::make_any_session<device_compositions>(
      unmask::read_policy(policy), model, capacity, where);
}

}  // namespace unmask_python
