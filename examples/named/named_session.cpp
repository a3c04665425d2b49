// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "named/named_session.hpp"

#include <unmask/named_policy.hpp>

namespace example {

std::unique_ptr<unmask::any_layer_session> named_session(const unmask::named_parts& parts,
                                                         const unmask::model_info& model,
                                                         const unmask::limits& capacity,
                                                         const unmask::on_host& where) {
  return unmask::make_any_layer_session(parts, model, capacity, where);
}

}  // namespace example
