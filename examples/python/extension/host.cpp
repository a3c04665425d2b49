// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/any_layer_session.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include "sessions.hpp"

namespace unmask_python {

std::unique_ptr<unmask::any_layer_session> make_host_session(const std::string& policy,
                                                             const unmask::model_info& model,
                                                             const unmask::limits& capacity,
                                                             const unmask::on_host& where) {
  return unmask::make_any_layer_session(unmask::read_policy(policy), model, capacity, where);
}

std::string describe_parts() {
  return unmask::describe_parts();
}

}  // namespace unmask_python
