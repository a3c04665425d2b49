// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/order_svg.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace demo {

namespace {

constexpr std::array shades = {0.9, 0.99, 0.999, 0.9999};  // each begins the next darker one
constexpr std::array reported_shades = {0.01, 0.1, 0.5, 0.9};

// b: background, m: masked, o: masked outside the blocks that are decided, c0 to c4: a written
// token by its probability, r: run, k: K/V reused, i: text on a shade.
constexpr const char* style =
    "<style>text{fill:#1f2328}.b{fill:#fff}.m{fill:#ced4da}.o{fill:#eef0f2}.n{text-anchor:end}"
    ".n,.p{fill:#6b7280}.c0{fill:#fff1b8}.c1{fill:#cfe8c9}.c2{fill:#b9dcf2}.c3{fill:#8cc0ea}"
    ".c4{fill:#5ea3dd}.r{fill:#5ea3dd}.k{fill:#d6e6f5}.w{fill:#e8590c}.i{fill:#1f2328}"
    ".t{text-anchor:start;font-weight:bold}.s{text-anchor:start}"
    ".f{font-family:monospace;font-size:10px}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}.m{fill:#48505a}"
    ".o{fill:#21262d}.n,.p{fill:#9aa4af}.k{fill:#1d3550}.r{fill:#4a90d0}.i{fill:#1f2328}}"
    "</style>\n";

std::string number(int x) {
  return std::to_string(x);
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return safe;
}

std::string text_at(int x, int y, const std::string& text, const char* kind) {
  const std::string of = *kind == '\0' ? "" : " class='" + std::string(kind) + "'";
  return "<text x='" + number(x) + "' y='" + number(y) + "'" + of + ">" + escaped(text) +
         "</text>\n";
}

std::string rectangle(int x, int y, int width, int height, const std::string& kind) {
  return "<rect x='" + number(x) + "' y='" + number(y) + "' width='" + number(width) +
         "' height='" + number(height) + "' class='" + kind + "'/>\n";
}

std::string head(int width, int height, const char* attributes) {
  const std::string size = number(width) + "' height='" + number(height);
  return "<svg xmlns='http://www.w3.org/2000/svg' width='" + size + "' viewBox='0 0 " +
         number(width) + " " + number(height) + "' font-family='sans-serif' font-size='11'" +
         attributes + ">\n" + style + rectangle(0, 0, width, height, "b");
}

int shade_of(double probability, const std::array<double, 4>& steps) {
  return static_cast<int>(std::ranges::upper_bound(steps, probability) - steps.begin());
}

/// Cells of one colour as one path. Neighbours in a row are one rectangle if `joined`.
class cells {
 public:
  cells(int width, int height, bool joined = true)
      : width_(width)
      , height_(height)
      , joined_(joined) {}

  void add(int x, int y) {
    if (joined_ && count_ > 0 && y == y_ && x == x_ + width_ * count_) {
      ++count_;
      return;
    }
    flush();
    x_ = x;
    y_ = y;
    count_ = 1;
  }
  std::string path(const std::string& kind) {
    flush();
    return path_.empty() ? "" : "<path class='" + kind + "' d='" + path_ + "'/>\n";
  }

 private:
  void flush() {
    if (count_ > 0) {
      const std::string wide = number(width_ * count_ - 1);
      path_ += "M" + number(x_) + " " + number(y_) + "h" + wide + "v" + number(height_ - 1) + "h-" +
               wide + "z";
    }
    count_ = 0;
  }
  int width_, height_;
  bool joined_;
  int x_ = 0, y_ = 0, count_ = 0;
  std::string path_;
};

struct measures {
  int cell = 7;     ///< width of a position
  int row = 7;      ///< height of a row
  int columns = 3;  ///< panels side by side
};

measures measures_of(view what) {
  return what == view::positions ? measures{5, 5, 2}
         : what == view::layers  ? measures{5, 4, 2}
                                 : measures{};
}

int positions_of(view what, const recording& r) {
  const bool whole = what == view::positions || what == view::layers;
  return static_cast<int>(r.answer.size()) + (whole ? r.prompt_length : 0);
}

int rows_of(view what, const recording& r) {
  std::size_t rows = r.passes.size();
  if (what == view::layers && rows > 0) {
    rows *= r.passes[0].layers.size();
  }
  return static_cast<int>(rows);
}

/// The title in lines that are at most as wide as the panel, cut before a "+".
std::vector<std::string> lines_of(const std::string& title, int width) {
  const auto most = static_cast<std::size_t>(width / 6);
  std::vector<std::string> lines(1);
  for (std::size_t from = 0; from < title.size();) {
    const std::size_t plus = title.find(" + ", from + 3);
    const std::string part = title.substr(from, plus - from);
    if (!lines.back().empty() && lines.back().size() + part.size() > most) {
      lines.emplace_back(part.substr(part.rfind(' ', 0) == 0 ? 1 : 0));
    } else {
      lines.back() += part;
    }
    from = plus == std::string::npos ? title.size() : plus;
  }
  return lines;
}

int height_of(view what, const panel& p, const measures& m) {
  const int lines =
      static_cast<int>(lines_of(p.title, positions_of(what, p.decode) * m.cell).size());
  return lines * 13 + 15 + rows_of(what, p.decode) * m.row + 34;
}

std::string draw_rows(view what, const recording& r, const measures& m, int left, int top) {
  cells masked(m.cell, m.row), other(m.cell, m.row), run(m.cell, m.row), reused(m.cell, m.row);
  std::vector<cells> shaded(shades.size() + 1, cells(m.cell, m.row, false));
  cells written(m.cell, m.row, false);
  int y = top;
  for (const recorded_pass& pass : r.passes) {
    const auto x_of = [&](index_t position) { return left + m.cell * position; };
    if (what == view::positions) {
      for (const index_t p : pass.run) {
        const auto is_here = [&](const written_token& w) {
          return w.position + r.prompt_length == p;
        };
        (std::ranges::any_of(pass.written, is_here) ? written : run).add(x_of(p), y);
      }
      for (const index_t p : pass.reused) {
        reused.add(x_of(p), y);
      }
    } else if (what == view::layers) {
      for (const std::vector<index_t>& layer : pass.layers) {
        for (const index_t p : layer) {
          run.add(x_of(p), y);
        }
        y += m.row;
      }
      continue;
    } else if (what == view::reported) {
      for (const written_token& w : pass.reported) {
        shaded[std::size_t(shade_of(w.probability, reported_shades))].add(x_of(w.position), y);
      }
    } else {
      for (std::size_t p = 0; p < pass.masked.size(); ++p) {
        const auto position = static_cast<index_t>(p);
        const auto is_here = [&](const written_token& w) { return w.position == position; };
        if (pass.masked[p] && std::ranges::none_of(pass.written, is_here)) {
          (pass.decided.contains(position) ? masked : other).add(x_of(position), y);
        }
      }
      for (const written_token& w : pass.written) {
        shaded[std::size_t(shade_of(w.probability, shades))].add(x_of(w.position), y);
      }
    }
    y += m.row;
  }
  std::string all =
      other.path("o") + masked.path("m") + reused.path("k") + run.path("r") + written.path("w");
  for (std::size_t s = 0; s < shaded.size(); ++s) {
    all += shaded[s].path("c" + number(static_cast<int>(s)));
  }
  return all;
}

std::string draw_small(view what, const panel& p, const measures& m, int left, int top) {
  const recording& r = p.decode;
  const int width = positions_of(what, r) * m.cell;
  std::string all;
  int y = top + 10;
  for (const std::string& line : lines_of(p.title, width)) {
    all += text_at(left, y, line, "f");
    y += 13;
  }
  all += text_at(left, y, number(static_cast<int>(r.passes.size())) + " passes", "p");
  y += 5;
  all += draw_rows(what, r, m, left, y);
  y += rows_of(what, r) * m.row;
  if (what == view::order) {
    std::string places;
    std::string letters;
    for (std::size_t i = 0; i < r.answer.size(); ++i) {
      places += (i == 0 ? "" : " ") + number(left + static_cast<int>(i) * m.cell);
      letters += r.answer[i] == " " ? "\u00a0" : escaped(r.answer[i]);
    }
    all += "<text class='f' y='" + number(y + 10) + "' x='" + places + "'>" + letters + "</text>\n";
  } else if (what != view::reported) {
    all += rectangle(left + r.prompt_length * m.cell - 1, y + 2, 1, 5, "r");
    all += text_at(left, y + 10, "prompt", "p");
    all += text_at(left + r.prompt_length * m.cell + 3, y + 10, "answer", "p");
  }
  return all;
}

/// The colours, with what each of them stands for.
std::string legend(view what, int left, int y) {
  std::string all;
  const auto entry = [&](const std::string& kind, const std::string& text) {
    all += rectangle(left, y - 8, 9, 9, kind) + text_at(left + 13, y, text, "s");
    left += 13 + 6 * static_cast<int>(text.size()) + 12;
  };
  const auto scale = [&](const std::string& text) {
    for (std::size_t s = 0; s <= shades.size(); ++s) {
      all += rectangle(left, y - 8, 9, 9, "c" + number(static_cast<int>(s)));
      left += 10;
    }
    all += text_at(left + 3, y, text, "s");
  };
  if (what == view::positions) {
    entry("r", "run");
    entry("w", "run, and its token is written");
    entry("k", "not run, its K/V are reused; none: not attended to");
  } else if (what == view::layers) {
    entry("r", "computed by the layer: a row a layer, pass below pass");
  } else if (what == view::reported) {
    scale("probability reported: below 1 %, 10 %, 50 %, 90 %, and above");
  } else {
    entry("m", "masked, in a block that is decided");
    entry("o", "masked, elsewhere");
    scale("written: probability below 90 %, 99 %, 99.9 %, 99.99 %, and above");
  }
  return all;
}

}  // namespace

std::string small_multiples(view what, std::span<const panel> panels) {
  measures m = measures_of(what);
  m.columns = std::min(m.columns, static_cast<int>(panels.size()));
  const int across = positions_of(what, panels.front().decode) * m.cell + 20;
  const auto columns = static_cast<std::size_t>(m.columns);
  std::string all;
  int y = 8;
  for (std::size_t first = 0; first < panels.size(); first += columns) {
    int tallest = 0;
    for (std::size_t i = first; i < std::min(first + columns, panels.size()); ++i) {
      all += draw_small(what, panels[i], m, 10 + across * static_cast<int>(i - first), y);
      tallest = std::max(tallest, height_of(what, panels[i], m));
    }
    y += tallest;
  }
  all += legend(what, 10, y + 4);
  return head(std::max(m.columns * across, 780), y + 16, "") + all + "</svg>\n";
}

namespace {

constexpr int size = 16, margin = 44;  // of a cell; left of the first column

/// One policy: a row for each forward pass, and the answer. Moves `top` after it.
std::string draw_large(int& top, const panel& p) {
  const recording& r = p.decode;
  const auto passes = static_cast<int>(r.passes.size());
  std::string all =
      text_at(margin, top + 12, p.title + ": " + number(passes) + " forward passes", "t");
  top += 20;
  cells masked(size, size);
  std::string letters;
  for (const recorded_pass& pass : r.passes) {
    all +=
        text_at(margin - 6, top + 12, number(static_cast<int>(&pass - r.passes.data()) + 1), "n");
    for (std::size_t i = 0; i < pass.masked.size(); ++i) {
      const int x = margin + static_cast<int>(i) * size;
      const auto is_here = [&](const written_token& w) {
        return static_cast<std::size_t>(w.position) == i;
      };
      const auto w = std::ranges::find_if(pass.written, is_here);
      if (w != pass.written.end()) {
        letters +=
            rectangle(x, top, size - 1, size - 1, "c" + number(shade_of(w->probability, shades)));
        letters += text_at(x + size / 2, top + 12, r.answer[i], "i");
      } else if (pass.masked[i]) {
        masked.add(x, top);
      }
    }
    top += size;
  }
  all += masked.path("m") + letters;
  for (std::size_t i = 0; i < r.answer.size(); ++i) {
    all += text_at(margin + static_cast<int>(i) * size + size / 2, top + 12, r.answer[i], "");
  }
  top += 2 * size;
  return all;
}

}  // namespace

std::string order_maps(std::string_view prompt, std::span<const panel> panels) {
  std::string all = text_at(margin, 20, std::string(prompt), "s");
  int y = 32;
  for (const panel& p : panels) {
    all += draw_large(y, p);
  }
  int x = margin;
  for (std::size_t s = 0; s <= shades.size(); ++s) {
    all += rectangle(x, y, size - 1, size - 1, "c" + number(static_cast<int>(s)));
    x += size;
  }
  all += text_at(x + 6,
                 y + 12,
                 "written in this pass; less than 90 %, 99 %, 99.9 %, 99.99 % likely, more",
                 "s");
  all +=
      text_at(margin,
              y + 30,
              "Columns are positions, rows passes; grey is still masked; a dot is the EOS token.",
              "s");
  const auto columns = static_cast<int>(panels.front().decode.answer.size());
  return head(margin + columns * size + 8, y + 40, " text-anchor='middle'") + all + "</svg>\n";
}

}  // namespace demo
