// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/config.hpp>

#include <functional>
#include <string>

/// Host only: the files that the text of a policy names.
namespace UNMASK_NAMESPACE {

/// Returns the contents of a file that a text names. Errors: std::invalid_argument with the reason
/// if there are none, which does not quote the file.
using file_source = std::function<std::string(const std::string& name)>;

/// Reads the regular file `name`, of at most 16 MB.
[[nodiscard]] UNMASK_LIBRARY std::string contents_of_file(const std::string& name);

/// Reads the regular file `name`, of at most 1,024 MB: a trace.
[[nodiscard]] UNMASK_LIBRARY std::string contents_of_trace(const std::string& name);

/// Refuses every file, for texts from others: read_policy(text, no_files).
[[noreturn]] UNMASK_LIBRARY std::string no_files(const std::string& name);

}  // namespace unmask

#if UNMASK_DEFINES
#  include <cstddef>
#  include <cstdio>
#  include <memory>
#  include <stdexcept>
#  include <sys/stat.h>

namespace UNMASK_NAMESPACE {

namespace detail {

// The contents of a regular file of at most 16 MB: a pipe or a device is never opened.
[[nodiscard]] inline std::string contents_of_file(const std::string& name, std::size_t most_mb) {
  struct ::stat about = {};
  const auto demand = [](bool holds, const std::string& problem) {
    if (!holds) {
      throw std::invalid_argument("the file " + problem);
    }
  };
  demand(::stat(name.c_str(), &about) == 0, "cannot be read");
  demand(S_ISREG(about.st_mode), "must be a regular file");
  const auto size = static_cast<std::size_t>(about.st_size);
  demand(size <= most_mb << 20U, "must have at most " + std::to_string(most_mb) + " MB");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "rb"),
                                                             &std::fclose);
  demand(file != nullptr, "cannot be read");
  std::string contents(size, '\0');
  contents.resize(std::fread(contents.data(), 1, size, file.get()));
  demand(std::ferror(file.get()) == 0, "cannot be read");
  return contents;
}

}  // namespace detail

UNMASK_LIBRARY std::string contents_of_file(const std::string& name) {
  return detail::contents_of_file(name, 16);
}

UNMASK_LIBRARY std::string contents_of_trace(const std::string& name) {
  return detail::contents_of_file(name, 1024);
}

UNMASK_LIBRARY std::string no_files(const std::string& /*name*/) {
  throw std::invalid_argument("the text names a file, which it may not");
}

}  // namespace unmask
#endif
