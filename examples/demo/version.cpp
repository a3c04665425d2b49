// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/version.hpp"

#include <unmask/version.hpp>

namespace demo {

std::string version() {
  return std::to_string(UNMASK_VERSION_MAJOR) + "." + std::to_string(UNMASK_VERSION_MINOR) + "." +
         std::to_string(UNMASK_VERSION_PATCH);
}

std::string commit() {
#ifdef UNMASK_COMMIT
  return UNMASK_COMMIT;
#else
  return "";
#endif
}

}  // namespace demo
