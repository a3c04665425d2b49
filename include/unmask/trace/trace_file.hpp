// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/types.hpp>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace UNMASK_NAMESPACE {

/// A file that takes the lines of a trace: a trace_sink. "-" is the standard output. Copies share
/// the file, which closes with the last one.
///
/// Each line is written whole before the call returns, so that a trace on a full disk, or of a
/// program that ends early, can be read up to its last whole line.
class trace_file {
 public:
  /// Opens the file and empties it. Errors: std::runtime_error that names the file; std::bad_alloc.
  explicit trace_file(const std::string& name)
      : name_(name)
      , file_(name == "-" ? stdout : std::fopen(name.c_str(), "wb"), &close) {
    if (file_ == nullptr && errno == ENOMEM) {
      throw std::bad_alloc();
    }
    if (file_ == nullptr) {
      throw std::runtime_error("trace " + name_ + ": " + reason(errno));
    }
  }

  /// Writes a line; false if the file does not take it all. Nothing is written after that.
  bool operator()(std::string_view line) {
    state& s = *state_;
    if (s.error == 0 && (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
                         std::fflush(file_.get()) != 0)) {
      s.error = errno != 0 ? errno : EIO;
    }
    s.lines += s.error == 0 ? 1 : 0;
    return s.error == 0;
  }

  /// The error of the line that was refused; "" if there was none.
  [[nodiscard]] std::string error() const {
    return state_->error == 0
               ? std::string()
               : "trace " + name_ + ": " + reason(state_->error) +
                     "; its last whole line is number " + std::to_string(state_->lines);
  }

 private:
  struct state {
    int error = 0;  // errno of the line that was refused
    long long lines = 0;
  };

  static void close(std::FILE* file) {
    if (file != nullptr && file != stdout) {
      static_cast<void>(std::fclose(file));
    }
  }
  [[nodiscard]] static std::string reason(int error) {
    return std::error_code(error, std::generic_category()).message();
  }

  std::string name_;
  std::shared_ptr<std::FILE> file_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace unmask
