// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws the picture of README.md: which position is committed in which forward pass, under two
// policies that decode the same prompt with the tiny model. Prints SVG:
//     order_map > examples/pictures/order_map.svg
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

#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace {

constexpr const char* prompt = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?";
constexpr int positions = 40;  // of the answer, in two blocks

/// What became of a position of the answer.
struct commit {
  int pass = 0;  ///< from 0
  double probability = 0.0;
  std::string text;
};
struct recording {
  int passes = 0;
  std::vector<commit> commits;  ///< [position]
};

/// Decodes the prompt and keeps in which forward pass each position was committed.
template <class Policy>
recording decode(const Policy& policy, const example::gguf_file& file) {
  const example::char_tokenizer text(file);
  example::llada_model engine(file);
  auto tokens = text.canvas(prompt, positions);
  const int length = static_cast<int>(tokens.size());
  const int vocab = static_cast<int>(text.vocabulary());
  unmask::session session(policy,
                          {.vocab = vocab, .mask_token = text.mask(), .end_token = text.end()},
                          tokens,
                          {.prompt = length - positions, .length = length, .block_length = 20});

  recording result{.commits = std::vector<commit>(positions)};
  for (; const auto request = session.next(); ++result.passes) {
    const auto [first, last] = request->segments[0].rows;
    const auto logits = engine.forward(tokens, std::size_t(first), std::size_t(last));
    session.supply(unmask::host_logits<float>(logits.data, request->rows, vocab));
    for (const unmask::commit_entry& c : session.committed()) {
      result.commits[std::size_t(c.position - (length - positions))] = {
          .pass = result.passes,
          .probability = std::exp(double(c.log_probability)),
          .text = c.token == text.end() ? "·" : text.decode(std::span(&c.token, 1))};
    }
  }
  return result;
}

constexpr int size = 16, left = 44;                        // of a cell; of the first column
constexpr std::array shades = {0.9, 0.99, 0.999, 0.9999};  // each begins the next darker one

void draw_rectangle(int x, int y, int width, int height, const std::string& style) {
  std::printf(
      "<rect x='%d' y='%d' width='%d' height='%d' %s/>\n", x, y, width, height, style.c_str());
}

void draw_text(int x, int y, const std::string& text, const char* style = "") {
  std::printf("<text x='%d' y='%d' %s>%s</text>\n", x, y + 12, style, text.c_str());
}

/// A square, the darker the likelier the token.
void draw_square(int x, int y, double probability) {
  const auto shade = std::ranges::upper_bound(shades, probability) - shades.begin();
  draw_rectangle(x, y, size - 1, size - 1, "class='c" + std::to_string(shade) + "'");
}

/// One policy: a row for each forward pass, and the answer. Returns where the next panel begins.
int draw_panel(int top, const std::string& title, const recording& r) {
  draw_text(left, top, title + ": " + std::to_string(r.passes) + " forward passes", "class='t'");
  top += 20;
  const int bottom = top + r.passes * size;
  for (int pass = 0; pass < r.passes; ++pass) {
    draw_text(left - 6, top + pass * size, std::to_string(pass + 1), "class='n'");
  }
  draw_rectangle(left, top, positions * size - 1, bottom - top, "fill='#e9ecef'");
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

void draw(const recording& slow, const recording& fast) {
  const int width = left + positions * size + 8;
  const int height = 32 + 2 * (20 + 2 * size) + size * (slow.passes + fast.passes) + 40;
  std::printf(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
      "font-size='11' text-anchor='middle'>\n"
      "<style>.t{text-anchor:start;font-weight:bold}.s{text-anchor:start}"
      ".n{text-anchor:end;fill:#777}.c0{fill:#fff1b8}.c1{fill:#cfe8c9}.c2{fill:#b9dcf2}"
      ".c3{fill:#8cc0ea}.c4{fill:#5ea3dd}</style>\n",
      width,
      height);
  draw_rectangle(0, 0, width, height, "fill='#fff'");
  draw_text(left, 8, prompt, "class='s'");
  int y = draw_panel(32, "Two tokens in each pass", slow);
  y = draw_panel(y, "Every token that is more than 90 % likely", fast);
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
            "Columns are positions, rows passes; grey is still masked; a dot is the end token.",
            "class='s'");
  std::printf("</svg>\n");
}

}  // namespace

int main() {
  try {
    using namespace unmask;
    const example::gguf_file file(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f32.gguf");
    draw(decode(policy{by_confidence{}, top_k{2}}, file),
         decode(policy{by_confidence{}, confidence_above{0.9F}}, file));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "order_map: %s\n", e.what());
    return 1;
  }
}
