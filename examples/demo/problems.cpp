// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/problems.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <stdexcept>

namespace demo {

namespace {

problem problem_of(const nlohmann::json& line) {
  problem p;
  line.at("task").get_to(p.task);
  line.at("prompt").get_to(p.prompt);
  p.answered = line.contains("answer");
  if (p.answered) {
    line.at("answer").get_to(p.answer);
  }
  return p;
}

}  // namespace

std::vector<problem> read_problems(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    throw std::runtime_error(file.string() + ": can not be read");
  }
  std::vector<problem> problems;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    try {
      problems.push_back(problem_of(nlohmann::json::parse(line)));
    } catch (const nlohmann::json::exception& e) {
      throw std::runtime_error(file.string() + ", line " + std::to_string(number) +
                               ": must be an object with the strings 'task', 'prompt' and, if "
                               "known, 'answer'; " +
                               e.what());
    }
  }
  if (problems.empty()) {
    throw std::runtime_error(file.string() + ": holds no prompt");
  }
  return problems;
}

std::vector<std::string> tasks_of(std::span<const problem> problems) {
  std::vector<std::string> tasks;
  for (const problem& p : problems) {
    if (std::ranges::find(tasks, p.task) == tasks.end()) {
      tasks.push_back(p.task);
    }
  }
  return tasks;
}

std::vector<problem>
choose(std::span<const problem> problems, std::span<const std::string> tasks, int limit, int skip) {
  const std::vector<std::string> known = tasks_of(problems);
  for (const std::string& task : tasks) {
    if (std::ranges::find(known, task) == known.end()) {
      std::string names;
      for (const std::string& name : known) {
        names += (names.empty() ? "" : ", ") + name;
      }
      throw std::invalid_argument("must be one of " + names + ", got '" + task + "'");
    }
  }
  std::vector<problem> chosen;
  std::map<std::string, int> seen;
  for (const problem& p : problems) {
    if (tasks.empty() || std::ranges::find(tasks, p.task) != tasks.end()) {
      const int behind = seen[p.task]++ - skip;
      if (behind >= 0 && (limit == 0 || behind < limit)) {
        chosen.push_back(p);
      }
    }
  }
  return chosen;
}

}  // namespace demo
