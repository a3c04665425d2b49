// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

/// A prompt, and which answers are right.
struct problem {
  std::string task;
  std::string prompt;
  std::string answer;      ///< the one that is right, unless there is a checker
  bool answered = true;    ///< whether is_right() can tell: there is an answer or a checker
  std::string given = {};  ///< the answer's positions at the start, one character each and '_' for
                           ///< a masked one; empty: all are masked
  std::string checker = {};  ///< name of a checker, which may accept several answers
  bool edit = false;  ///< whether the given tokens may be edited: they are committed, not fixed
};

/// True if a text answers the problem. False where that is not known.
bool is_right(const problem& p, std::string_view text);

/// Reads lines of JSON `{"task": ..., "prompt": ..., "answer": ..., "given": ..., "checker": ...,
/// "edit": true}`; all but the task may be missing. Throws std::runtime_error naming the file, the
/// line and what is wrong with it.
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
