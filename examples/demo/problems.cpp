// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/problems.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <stdexcept>

#include "demo/checkers.hpp"

namespace demo {

namespace {

problem problem_of(const nlohmann::json& line) {
  problem p;
  line.at("task").get_to(p.task);
  const auto read = [&](const char* name, std::string& text) {
    if (line.contains(name)) {
      line.at(name).get_to(text);
    }
  };
  read("prompt", p.prompt);
  read("answer", p.answer);
  read("given", p.given);
  read("checker", p.checker);
  p.edit = line.value("edit", false);
  p.answered = line.contains("answer") || !p.checker.empty();
  return p;
}

}  // namespace

bool is_right(const problem& p, std::string_view text) {
  if (!p.checker.empty()) {
    return find_checker(p.checker)(p, text);
  }
  return p.answered && text == p.answer;
}

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
      if (const std::string& name = problems.back().checker; !name.empty()) {
        static_cast<void>(find_checker(name));
      }
    } catch (const nlohmann::json::exception& e) {
      throw std::runtime_error(
          file.string() + ", line " + std::to_string(number) +
          ": must be an object with the string 'task' and, where they apply, "
          "'prompt', 'answer', 'given' and 'checker', and 'edit', true or false; " +
          e.what());
    } catch (const std::invalid_argument& e) {
      throw std::runtime_error(file.string() + ", line " + std::to_string(number) + ": " +
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
