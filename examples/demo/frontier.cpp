// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/frontier.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "demo/measure.hpp"
#include "demo/terminal.hpp"

namespace demo {

namespace {

std::string number(double value, const char* format = "%.10g") {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double share(int right, int of) {
  return of > 0 ? static_cast<double>(right) / static_cast<double>(of) : 0.0;
}

frontier_point point_of(const chosen_policy& policy, double value, const summary& s) {
  frontier_point p;
  p.series = policy.series();
  p.label = s.label();
  p.knob = policy.knob();
  p.value = value;
  p.tasks = s.tasks;
  int right = 0;
  int of = 0;
  for (const exact_match& task : s.tasks) {
    right += task.right;
    of += task.of;
  }
  const double prompts = of;
  p.exact = share(right, of);
  p.forwards = static_cast<double>(s.forwards) / prompts;
  p.segments = static_cast<double>(s.segments) / prompts;
  p.tokens_per_forward = s.tokens_per_forward();
  return p;
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) {
    throw std::runtime_error(file.string() + ": can not be written");
  }
  std::cout << "wrote " << file.string() << '\n';
}

}  // namespace

void mark_efficient(std::span<frontier_point> points) {
  for (frontier_point& p : points) {
    p.efficient = std::ranges::none_of(points, [&](const frontier_point& q) {
      return q.forwards <= p.forwards && q.exact >= p.exact &&
             (q.forwards < p.forwards || q.exact > p.exact);
    });
  }
}

std::string frontier_csv(std::span<const frontier_point> points) {
  std::string text = "series,label,knob,value,exact";
  for (const exact_match& task : points.front().tasks) {
    text += ",exact_" + task.task;
  }
  text += ",forwards,segments,tokens_per_forward,efficient\n";
  for (const frontier_point& p : points) {
    text += "\"" + p.series + "\",\"" + p.label + "\"," + p.knob + "," +
            (p.knob.empty() ? "" : number(p.value)) + "," + number(p.exact);
    for (const exact_match& task : p.tasks) {
      text += "," + number(share(task.right, task.of));
    }
    text += "," + number(p.forwards) + "," + number(p.segments) + "," +
            number(p.tokens_per_forward) + "," + (p.efficient ? "1" : "0") + "\n";
  }
  return text;
}

bool write_frontier(std::span<const chosen_policy> policies,
                    engine& model,
                    std::span<const problem> problems,
                    const options& o) {
  if (std::ranges::any_of(problems, [](const problem& p) { return !p.answered; })) {
    throw std::invalid_argument("--frontier needs prompts whose answers are known");
  }
  std::vector<frontier_point> points;
  std::cout << "  exact  forwards  policy\n";
  const auto take = [&](const chosen_policy& policy, double value) {
    points.push_back(point_of(policy, value, measure(policy, model, problems, o)));
    const frontier_point& p = points.back();
    std::cout << number(100.0 * p.exact, "%6.1f%%") << number(p.forwards, "%10.2f") << "  "
              << p.label << '\n'
              << std::flush;
  };
  bool is_whole = true;
  try {
    for (const chosen_policy& policy : policies) {
      for (const double value : policy.sweep()) {
        take(policy.with(value), value);
      }
      if (policy.sweep().empty()) {
        take(policy, 0.0);
      }
    }
  } catch (const interrupted&) {
    std::cout << "interrupted\n";
    is_whole = false;
    if (points.empty()) {
      return false;
    }
  }
  mark_efficient(points);
  const std::string caption = std::to_string(problems.size()) + " prompts, answers of " +
                              std::to_string(o.shape.answer_length) + " positions in blocks of " +
                              std::to_string(o.shape.block_length) + ", " +
                              o.model_file.filename().string();
  write(o.frontier.string() + ".csv", frontier_csv(points));
  write(o.frontier.string() + ".svg", frontier_svg(points, caption));
  return is_whole;
}

}  // namespace demo
