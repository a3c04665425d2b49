// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace demo {

/// A prompt with the one answer that is right.
struct problem {
  std::string task;
  std::string prompt;
  std::string answer;
  bool answered = true;  ///< whether `answer` is known
};

/// Reads lines of JSON `{"task": ..., "prompt": ..., "answer": ...}`; the answer may be missing.
/// Throws std::runtime_error naming the file, the line and what is wrong with it.
std::vector<problem> read_problems(const std::filesystem::path& file);

/// The tasks in the order of their first problem.
std::vector<std::string> tasks_of(std::span<const problem> problems);

/// The first `limit` problems of each of `tasks` (of every task if there are none named) behind the
/// first `skip` of it. A limit of 0 takes all. Throws std::invalid_argument for a task without a
/// problem.
std::vector<problem> choose(std::span<const problem> problems,
                            std::span<const std::string> tasks,
                            int limit,
                            int skip = 0);

}  // namespace demo
