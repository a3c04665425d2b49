// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "demo/frontier.hpp"

namespace demo {

namespace {

constexpr double width = 980.0;
constexpr std::string_view baseline = "fast_dllm";
constexpr double floor_of_axis = 0.8;  // a policy that fails should not flatten all others
constexpr const char* colour = "#0b6bcb";
constexpr const char* grey = "#b4b9c0";

std::string fixed(double value, int decimals = 1) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Text as it may stand in XML.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return result;
}

std::string text_at(double x, double y, std::string_view text, std::string_view attributes = "") {
  return "<text x='" + fixed(x) + "' y='" + fixed(y) + "' " + std::string(attributes) + ">" +
         escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2) {
  return "<line x1='" + fixed(x1) + "' y1='" + fixed(y1) + "' x2='" + fixed(x2) + "' y2='" +
         fixed(y2) + "' stroke='#e3e6ea'/>\n";
}

/// Range of the axes: forwards a prompt, logarithmic, and the share of right answers.
struct span_of_axes {
  double least_forwards;
  double most_forwards;
  double least_exact;
};

/// A rectangle with both axes.
class panel {
 public:
  panel(const span_of_axes& axes, double left, double top, double wide, double high)
      : axes_(axes)
      , left_(left)
      , top_(top)
      , wide_(wide)
      , high_(high) {}

  std::string frame(bool labels) const {
    std::string svg = "<rect x='" + fixed(left_) + "' y='" + fixed(top_) + "' width='" +
                      fixed(wide_) + "' height='" + fixed(high_) +
                      "' fill='none' stroke='#c9ced4'/>\n";
    const double step = axes_.least_exact < 0.5 ? 0.2 : 0.1;
    for (double exact = std::ceil(axes_.least_exact / step) * step; exact < 1.001; exact += step) {
      svg += line(left_, y(exact), left_ + wide_, y(exact));
      svg += text_at(left_ - 4, y(exact) + 3, fixed(100 * exact, 0), "text-anchor='end'");
    }
    for (const double forwards : {1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0}) {
      if (forwards >= axes_.least_forwards && forwards <= axes_.most_forwards) {
        svg += line(x(forwards), top_, x(forwards), top_ + high_);
        svg += text_at(x(forwards),
                       top_ + high_ + 12,
                       fixed(forwards, forwards == std::floor(forwards) ? 0 : 1),
                       "text-anchor='middle'");
      }
    }
    if (labels) {
      svg += text_at(left_, top_ - 6, "exact match, per cent");
      svg += text_at(left_ + wide_,
                     top_ + high_ + 26,
                     "forward passes a prompt (logarithmic)",
                     "text-anchor='end'");
    }
    return svg;
  }

  std::string curve(std::span<const frontier_point> points, const char* stroke) const {
    std::string svg = "<polyline fill='none' stroke='" + std::string(stroke) + "' points='";
    for (const frontier_point& p : points) {
      svg += fixed(x(p.forwards)) + "," + fixed(y(p.exact)) + " ";
    }
    return svg + "'/>\n";
  }

  std::string dot(const frontier_point& p, const char* fill, double radius) const {
    const bool below = p.exact < axes_.least_exact;
    return "<circle cx='" + fixed(x(p.forwards)) + "' cy='" + fixed(y(p.exact)) + "' r='" +
           fixed(radius) + "' stroke='" + fill + "' fill='" + (below ? "white" : fill) +
           "'><title>" + escaped(p.label) + ": " + fixed(100 * p.exact) + "%, " +
           fixed(p.forwards, 2) + " forwards</title></circle>\n";
  }

 private:
  double x(double forwards) const {
    const double low = std::log(axes_.least_forwards);
    return left_ + wide_ * (std::log(forwards) - low) / (std::log(axes_.most_forwards) - low);
  }
  double y(double exact) const {
    const double shown = std::max(exact, axes_.least_exact);
    return top_ + high_ * (1.0 - (shown - axes_.least_exact) / (1.0 - axes_.least_exact));
  }

  span_of_axes axes_;
  double left_;
  double top_;
  double wide_;
  double high_;
};

span_of_axes axes_of(std::span<const frontier_point> points) {
  span_of_axes axes{points.front().forwards, points.front().forwards, 0.9};
  for (const frontier_point& p : points) {
    axes.least_forwards = std::min(axes.least_forwards, p.forwards);
    axes.most_forwards = std::max(axes.most_forwards, p.forwards);
    axes.least_exact = std::min(axes.least_exact, p.exact);
  }
  axes.least_forwards = std::max(0.9 * axes.least_forwards, 0.5);
  axes.most_forwards *= 1.1;
  axes.least_exact =
      std::clamp(std::floor(20.0 * axes.least_exact - 0.2) / 20.0, floor_of_axis, 0.9);
  return axes;
}

/// The points of each series, which stand together.
std::vector<std::span<const frontier_point>> by_series(std::span<const frontier_point> points) {
  std::vector<std::span<const frontier_point>> groups;
  while (!points.empty()) {
    const auto end = std::ranges::find_if(
        points, [&](const frontier_point& p) { return p.series != points.front().series; });
    const auto count = static_cast<std::size_t>(end - points.begin());
    groups.push_back(points.first(count));
    points = points.subspan(count);
  }
  return groups;
}

/// All points, the efficient ones joined and listed beside.
std::string overview(std::span<const frontier_point> points, const span_of_axes& axes) {
  const panel all(axes, 44, 66, 600, 330);
  std::vector<frontier_point> best;
  std::string svg = all.frame(true);
  for (const frontier_point& p : points) {
    svg += all.dot(p, p.efficient ? colour : grey, p.efficient ? 4 : 2.5);
    if (p.efficient) {
      best.push_back(p);
    }
  }
  std::ranges::stable_sort(best, {}, &frontier_point::forwards);
  const auto equals = std::ranges::unique(best, {}, &frontier_point::forwards);
  best.erase(equals.begin(), equals.end());
  svg += all.curve(best, colour);
  double y = 78;
  svg += text_at(664, 60, "not beaten by any other point", "font-weight='bold'");
  for (const frontier_point& p : best) {
    svg += text_at(700, y, fixed(p.forwards, 2), "text-anchor='end'");
    svg += text_at(746, y, fixed(100 * p.exact) + "%", "text-anchor='end'");
    svg += text_at(756, y, p.label, "font-size='8'");
    y += 15;
  }
  return svg;
}

}  // namespace

std::string frontier_svg(std::span<const frontier_point> points, const std::string& caption) {
  constexpr std::size_t columns = 4;
  constexpr double cell_wide = (width - 20.0) / columns;
  constexpr double cell_high = 190;
  constexpr double grid_top = 450;
  const span_of_axes axes = axes_of(points);
  const auto groups = by_series(points);
  const auto plain = std::ranges::find_if(
      groups, [](const auto& group) { return group.front().series == baseline; });
  const std::size_t rows = (groups.size() + columns - 1) / columns;
  const double height = grid_top + cell_high * static_cast<double>(rows);

  std::string svg = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " + fixed(width, 0) +
                    " " + fixed(height, 0) +
                    "' font-family='sans-serif' font-size='10' fill='#30363d'>\n" +
                    "<rect width='100%' height='100%' fill='white'/>\n";
  svg += text_at(44, 24, "Accuracy against forward passes, by decoding policy", "font-size='16'");
  svg += text_at(44, 40, caption);
  svg += overview(points, axes);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double left = 40 + cell_wide * static_cast<double>(i % columns);
    const double top = grid_top + cell_high * static_cast<double>(i / columns);
    // Its own forwards and the threshold's, so that near points stay apart.
    span_of_axes own = axes;
    const span_of_axes mine = axes_of(groups[i]);
    const span_of_axes beside = plain != groups.end() ? axes_of(*plain) : mine;
    own.least_forwards = std::min(mine.least_forwards, beside.least_forwards);
    own.most_forwards = std::max(mine.most_forwards, beside.most_forwards);
    const panel one(own, left, top + 8, cell_wide - 36, cell_high - 54);
    const frontier_point& first = groups[i].front();
    const std::string over = first.knob.empty() ? "" : " over " + first.knob;
    const std::size_t name = std::min(first.series.find('('), first.series.size());
    svg += text_at(left, top - 9, first.series.substr(0, name) + over, "font-weight='bold'");
    svg += text_at(left, top + 2, first.series.substr(name), "font-size='8'");
    svg += one.frame(false);
    if (plain != groups.end() && first.series != baseline) {
      svg += one.curve(*plain, grey);
    }
    svg += one.curve(groups[i], colour);
    for (const frontier_point& p : groups[i]) {
      svg += one.dot(p, colour, 2.5);
    }
  }
  if (plain != groups.end()) {
    svg += text_at(
        width - 20, grid_top - 22, "grey: fast_dllm; hollow: below the axis", "text-anchor='end'");
  }
  return svg + "</svg>\n";
}

}  // namespace demo
