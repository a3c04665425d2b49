// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/summary.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

namespace demo {

namespace {

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(text.size(), width), ' ') + text;
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace

summary summarize(std::string policy,
                  std::string about,
                  std::span<const problem> problems,
                  const decoding& results) {
  summary s;
  s.policy = std::move(policy);
  s.about = std::move(about);
  for (const std::string& task : tasks_of(problems)) {
    s.tasks.push_back({.task = task});
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const problem& p = problems[i];
    const decoded& answer = results.answers[i];
    const bool correct = is_right(p, answer.text);
    exact_match& task = *std::ranges::find(s.tasks, p.task, &exact_match::task);
    task.of += p.answered ? 1 : 0;
    task.right += correct ? 1 : 0;
    s.answers.push_back(answer.text);
    s.right += correct ? '1' : '0';
    s.whole += correct && answer.clean_end ? 1 : 0;
    s.forwards += answer.forwards;
    s.forwards_each.push_back(answer.forwards);
    s.segments_each.push_back(answer.segments);
    s.masked_each.push_back(answer.masked);
    s.restored_each.push_back(answer.restored);
    s.wrong_each.push_back(answer.wrong);
    s.committed += answer.committed;
    s.forced += answer.forced;
    s.answer_tokens += answer.answer_tokens;
  }
  s.segments = results.segments;
  s.computed = results.computed;
  s.in_full = results.in_full;
  s.engine_seconds = results.engine_seconds;
  s.policy_seconds = results.policy_seconds;
  return s;
}

double summary::share_restored() const {
  const auto masked = std::accumulate(masked_each.begin(), masked_each.end(), 0.0);
  return masked > 0 ? std::accumulate(restored_each.begin(), restored_each.end(), 0.0) / masked
                    : -1.0;
}

table_text::table_text(std::vector<std::string> tasks,
                       std::size_t widest,
                       std::size_t problems,
                       bool restored)
    : tasks_(std::move(tasks))
    , name_width_(std::max<std::size_t>(widest, 6))
    , restored_(restored) {
  const std::string most = std::to_string(problems / std::max<std::size_t>(1, tasks_.size()));
  task_width_ = std::max<std::size_t>(6, 2 * most.size() + 2);
  for (const std::string& task : tasks_) {
    task_width_ = std::max(task_width_, task.size() + 1);
  }
}

std::string table_text::header() const {
  const std::size_t tasks = tasks_.size() * task_width_ + (restored_ ? 10 : 0);
  std::string above = std::string(name_width_, ' ') + right("exact match", tasks) +
                      right("tokens/forward", 19) + right("layer-", 16) + right("seconds in", 14);
  std::string line = left("policy", name_width_);
  for (const std::string& task : tasks_) {
    line += right(task, task_width_);
  }
  line += restored_ ? right("restored", 10) : "";
  line += right("whole", 6) + right("all", 6) + right("answer", 7) + right("forwards", 9) +
          right("rows", 7) + right("engine", 7) + right("policy", 7);
  return above + "\n" + line + "\n";
}

std::string table_text::row(const summary& s) const {
  std::string line = left(s.label(), name_width_);
  for (const std::string& name : tasks_) {
    const auto task = std::ranges::find(s.tasks, name, &exact_match::task);
    const bool known = task != s.tasks.end() && task->of > 0;
    line += right(known ? std::to_string(task->right) + "/" + std::to_string(task->of) : "-",
                  task_width_);
  }
  if (restored_) {
    const double share = s.share_restored();
    line += right(share < 0 ? "-" : fixed(100 * share, 1) + "%", 10);
  }
  return line + right(std::to_string(s.whole), 6) + right(fixed(s.tokens_per_forward(), 2), 6) +
         right(fixed(s.answer_tokens_per_forward(), 2), 7) + right(std::to_string(s.forwards), 9) +
         right(fixed(100.0 * s.share_computed(), 0) + "%", 7) +
         right(fixed(s.engine_seconds, 2), 7) + right(fixed(s.policy_seconds, 4), 7) + "\n";
}

}  // namespace demo
