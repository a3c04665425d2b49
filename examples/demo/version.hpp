// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace demo {

/// The version of the library, "0.1.0".
std::string version();
/// The commit of the checkout when it was last configured; empty if it is none.
std::string commit();

}  // namespace demo
