// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nanobind/nanobind.h>
#include <optional>

namespace unmask_python {

/// Lets other threads of Python run while it lives.
///
/// A daemon thread that asks for the GIL of an interpreter that has ended never returns, and up to
/// Python 3.13 takes the process with it. So the interpreter waits at its exit for the calls that
/// run without the GIL, and those that begin later keep it.
class without_gil {
 public:
  without_gil() {
    if (!is_exiting) {
      ++calls;
      released_.emplace();
    }
  }
  ~without_gil() {
    if (released_) {
      released_.reset();
      --calls;
    }
  }
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;

  /// Whether other threads run. If not, none may be waited for.
  [[nodiscard]] bool released() const { return released_.has_value(); }

  /// Makes the interpreter wait at its exit.
  static void wait_at_exit();

 private:
  // Written with the GIL only.
  static inline int calls = 0;
  static inline bool is_exiting = false;

  std::optional<nanobind::gil_scoped_release> released_;
};

}  // namespace unmask_python
