// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws order maps as SVG: which position of an answer is committed in which forward pass, under
// policies that decode the same prompt with the tiny model.
//
//     order_map                        the picture of README.md, examples/pictures/order_map.svg
//     order_map --families             that of include/unmask/policy/README.md, families.svg
//     order_map [TITLE=]POLICY...      any policies, as texts: order_map "threshold(0.9)" "factor(1)"
#include <unmask/any_layer_session.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "demo/decode.hpp"
#include "demo/engine.hpp"
#include "demo/problems.hpp"

namespace {

constexpr const char* prompt = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?";
constexpr demo::geometry shape{.answer_length = 40, .block_length = 20};

const std::vector<std::string> two = {"Two tokens in each pass=tokens_per_step(2)",
                                      "Every token that is more than 90 % likely=threshold(0.9)"};
const std::vector<std::string> families = {
    "A fixed number of passes for each block=steps_per_block(6)",
    "From the left, four tokens in each pass=left_to_right + tokens_per_step(4)",
    "Every token that is more than 90 % likely=threshold(0.9)",
    "The more tokens together, the likelier each has to be=factor(0.2)",
    "Tokens whose entropies add up to little=by_entropy + entropy_bound(0.1)",
    "The answer as one block=threshold(0.9) + single_block",
    "A block starts before the one before it is complete=threshold(0.9) + "
    "block_pipeline(0.1, whole_canvas=true)"};

/// A position of the answer: when its token was committed, and how probable it was then.
struct commit {
  int pass = 0;  ///< from 0
  double probability = 0.0;
  std::string text;
};
struct recording {
  std::string title;
  int passes = 0;
  std::vector<commit> commits;  ///< [position]
};

/// Decodes the prompt with the policy of `[TITLE=]POLICY`.
recording decode(const std::string& titled, demo::engine& model) {
  const std::size_t end = titled.find('=');
  const bool has_title = end != std::string::npos && titled.find('(') > end;
  const unmask::named_parts parts =
      unmask::read_policy(has_title ? titled.substr(end + 1) : titled);
  const std::vector<demo::problem> problems = {{.task = "", .prompt = prompt, .answer = ""}};
  const auto session = unmask::make_any_layer_session(
      parts, model.info(), demo::capacity_for(model, problems, shape, 1));

  recording result{.title = has_title ? titled.substr(0, end) : titled,
                   .commits = std::vector<commit>(std::size_t(shape.answer_length))};
  const auto record = [&](const demo::step_seen& step) {
    for (const unmask::commit_entry& c : step.committed) {
      const bool ends = c.token == model.text().end();
      result.commits[std::size_t(c.position - step.prompt_length)] = {
          .pass = result.passes,
          .probability = std::exp(double(c.log_probability)),
          .text = ends ? "·" : model.text().decode(std::span(&c.token, 1))};
    }
    ++result.passes;
  };
  static_cast<void>(demo::decode(*session, 1, model, problems, shape, record));
  return result;
}

constexpr int size = 16, left = 44;                        // of a cell; of the first column
constexpr std::array shades = {0.9, 0.99, 0.999, 0.9999};  // each begins the next darker one

void draw_rectangle(int x, int y, int width, int height, const std::string& style) {
  std::printf(
      "<rect x='%d' y='%d' width='%d' height='%d' %s/>\n", x, y, width, height, style.c_str());
}

void draw_text(int x, int y, const std::string& text, const char* style = "") {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  std::printf("<text x='%d' y='%d' %s>%s</text>\n", x, y + 12, style, escaped.c_str());
}

/// A square, the darker the likelier the token.
void draw_square(int x, int y, double probability) {
  const auto shade = std::ranges::upper_bound(shades, probability) - shades.begin();
  draw_rectangle(x, y, size - 1, size - 1, "class='c" + std::to_string(shade) + "'");
}

/// One policy: a row for each forward pass, and the answer. Returns where the next panel begins.
int draw_panel(int top, const recording& r) {
  draw_text(left, top, r.title + ": " + std::to_string(r.passes) + " forward passes", "class='t'");
  top += 20;
  const int bottom = top + r.passes * size;
  for (int pass = 0; pass < r.passes; ++pass) {
    draw_text(left - 6, top + pass * size, std::to_string(pass + 1), "class='n'");
  }
  draw_rectangle(left, top, shape.answer_length * size - 1, bottom - top, "fill='#e9ecef'");
  int x = left;
  for (const commit& c : r.commits) {
    const int y = top + c.pass * size;
    draw_rectangle(x - 1, y, size + 1, bottom - y, "fill='#fff'");
    draw_square(x, y, c.probability);
    draw_text(x + size / 2, y, c.text);
    draw_text(x + size / 2, bottom, c.text);
    x += size;
  }
  return bottom + 2 * size;
}

void draw(std::span<const recording> recordings) {
  const int width = left + shape.answer_length * size + 8;
  int height = 32 + 40;
  for (const recording& r : recordings) {
    height += 20 + size * (r.passes + 2);
  }
  std::printf("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
              "font-family='sans-serif' font-size='11' text-anchor='middle'>\n"
              "<style>.t{text-anchor:start;font-weight:bold}.s{text-anchor:start}"
              ".n{text-anchor:end;fill:#777}.c0{fill:#fff1b8}.c1{fill:#cfe8c9}.c2{fill:#b9dcf2}"
              ".c3{fill:#8cc0ea}.c4{fill:#5ea3dd}</style>\n",
              width,
              height,
              width,
              height);
  draw_rectangle(0, 0, width, height, "fill='#fff'");
  draw_text(left, 8, prompt, "class='s'");
  int y = 32;
  for (const recording& r : recordings) {
    y = draw_panel(y, r);
  }
  int x = left;
  for (const double least : {0.0, 0.9, 0.99, 0.999, 0.9999}) {
    draw_square(x, y, least);
    x += size;
  }
  draw_text(x + 6,
            y,
            "committed in this pass; less than 90 %, 99 %, 99.9 %, 99.99 % likely, more",
            "class='s'");
  draw_text(left,
            y + 18,
            "Columns are positions, rows passes; grey is still masked; a dot is the EOS token.",
            "class='s'");
  std::printf("</svg>\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    demo::engine model(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f32.gguf", 1);
    std::vector<recording> recordings;
    for (const std::string& policy : arguments.empty()              ? two
                                     : arguments[0] == "--families" ? families
                                                                    : arguments) {
      recordings.push_back(decode(policy, model));
    }
    draw(recordings);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "order_map: %s\n", e.what());
    return 1;
  }
}
