// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/live.hpp"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <string_view>
#include <thread>

namespace demo {

namespace {

constexpr std::string_view indent = "  ";
constexpr std::string_view dim = "\033[2m";
constexpr std::string_view highlight = "\033[30;42m";
constexpr std::string_view green = "\033[32m";
constexpr std::string_view red = "\033[31m";
constexpr std::string_view normal = "\033[0m";

constexpr std::string_view open_block = "\u2591";
constexpr std::string_view end_mark = "\u00b7";
constexpr std::size_t printed_states = 8;

std::string styled(std::string_view style, std::string_view text) {
  return std::string(style) + std::string(text) + std::string(normal);
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// At most `columns` bytes of the text, on one line.
std::string clipped(std::string text, std::size_t columns) {
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (text.size() > columns) {
    text.resize(columns - 3);
    text += "...";
  }
  return text;
}

}  // namespace

live_view::live_view(std::ostream& out,
                     const display& how,
                     const example::char_tokenizer& text,
                     std::span<const problem> problems,
                     const geometry& shape)
    : out_(out)
    , how_(how)
    , text_(text)
    , problems_(problems)
    , sequences_(problems.size()) {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    sequence& s = sequences_[i];
    s.answer = text.encode_masked(problems[i].given);
    if (s.answer.empty()) {
      s.answer.assign(static_cast<std::size_t>(answer_length(problems[i], shape)), text.mask());
    }
    s.fresh.assign(s.answer.size(), false);
  }
  draw();
}

std::size_t
live_view::height(const display& how, std::span<const problem> problems, const geometry& shape) {
  const std::size_t width = how.columns - indent.size();
  auto longest = static_cast<std::size_t>(shape.answer_length);
  for (const problem& p : problems) {  // tokens of several characters: no fewer than in the answer
    longest = std::max({longest, p.given.size(), p.answer.size()});
  }
  return (longest + width - 1) / width + 3;  // the prompt, the status and an empty line
}

std::string live_view::legend(const display& how) {
  const std::string masked = how.in_place ? styled(dim, open_block) : "_";
  const std::string end = how.in_place ? styled(dim, end_mark) : std::string(end_mark);
  return masked + " masked, " + end + " EOS" +
         (how.in_place ? ", " + styled(highlight, "a") + " committed in this pass"
                       : "; in front of an answer: the number of its forward pass");
}

void live_view::see(const step_seen& step) {
  sequence& s = sequences_[step.problem];
  s.answer.assign(step.answer.begin(), step.answer.end());
  s.report = step.report;
  s.fresh.assign(s.answer.size(), false);
  for (const unmask::commit_entry& c : step.committed) {
    s.fresh[static_cast<std::size_t>(c.position - step.prompt_length)] = true;
  }
  if (how_.in_place) {
    draw();
    if (step.last_of_forward) {
      std::this_thread::sleep_for(how_.pause);
    }
  } else {
    std::string state;
    for (const token_id token : s.answer) {
      state += cell(token, false);
    }
    s.states.push_back(state);
  }
}

void live_view::finish() {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    sequences_[i].fresh.assign(sequences_[i].answer.size(), false);
    if (!how_.in_place) {
      print(i);
    }
  }
  draw();
}

std::string live_view::cell(token_id token, bool fresh) const {
  if (token == text_.mask()) {
    return how_.in_place ? styled(dim, open_block) : "_";
  }
  std::string text = token == text_.end() ? std::string(end_mark) : text_.decode({&token, 1});
  if (text.size() == 1 && static_cast<unsigned char>(text[0]) < ' ') {
    text = " ";  // a line break would tear the display
  }
  if (!how_.in_place) {
    return text;
  }
  return fresh ? styled(highlight, text) : token == text_.end() ? styled(dim, text) : text;
}

std::vector<std::string> live_view::answer_lines(const sequence& s) const {
  const std::size_t width = how_.columns - indent.size();
  std::vector<std::string> lines;
  std::size_t used = width;
  for (std::size_t i = 0; i < s.answer.size(); ++i) {
    const token_id token = s.answer[i];
    const bool text = token != text_.mask() && token != text_.end();  // the others have one column
    const std::size_t columns = text ? text_.decode({&token, 1}).size() : 1;
    if (used + columns > width) {
      lines.emplace_back(indent);
      used = 0;
    }
    lines.back() += cell(token, s.fresh[i]);
    used += columns;
  }
  return lines;
}

std::string live_view::status(std::size_t index) const {
  const sequence& s = sequences_[index];
  const bool running = s.report.end == unmask::ending::running;
  std::string line = std::to_string(s.report.forwards) +
                     (s.report.forwards == 1 ? " forward, " : " forwards, ") +
                     one_decimal(s.report.tokens_per_forward()) + " tokens a forward";
  const problem& p = problems_[index];
  if (running || !p.answered) {
    return line;
  }
  const bool right = is_right(p, text_.decode(s.answer));
  std::string verdict = right ? "right" : "wrong";
  if (const std::vector<token_id> wanted = right_tokens(text_, p); !right && !wanted.empty()) {
    const std::vector<token_id> given = text_.encode_masked(p.given);
    std::size_t masked = 0;
    std::size_t restored = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      masked += given[i] != wanted[i] ? 1U : 0U;
      restored += given[i] != wanted[i] && s.answer[i] == wanted[i] ? 1U : 0U;
    }
    verdict += ", " + std::to_string(restored) + " of " + std::to_string(masked) + " restored";
  }
  if (!right && !p.answer.empty()) {
    verdict += ", the answer is " + p.answer;
  }
  const std::size_t used = indent.size() + line.size() + 2;
  const std::string shown = clipped(verdict, how_.columns > used + 3 ? how_.columns - used : 8);
  return line + ", " + (how_.in_place ? styled(right ? green : red, shown) : verdict);
}

void live_view::draw() {
  if (!how_.in_place) {
    return;
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::string prompt = clipped(problems_[i].prompt, how_.columns - indent.size());
    lines.push_back(std::string(indent) + styled(dim, prompt));
    for (std::string& line : answer_lines(sequences_[i])) {
      lines.push_back(std::move(line));
    }
    lines.push_back(std::string(indent) + status(i));
    lines.emplace_back();
  }
  if (drawn_lines_ > 0) {
    out_ << "\033[" << drawn_lines_ << 'A' << "\r\033[J";  // there may be fewer lines now
  }
  for (const std::string& line : lines) {
    out_ << "\r\033[2K" << line << '\n';
  }
  out_.flush();
  drawn_lines_ = lines.size();
}

void live_view::print(std::size_t index) {
  const sequence& s = sequences_[index];
  const problem& p = problems_[index];
  out_ << indent << (p.given.empty() ? p.prompt : p.prompt + p.given) << '\n';
  // A few states, evenly spaced, the last one always among them.
  const std::size_t count = s.states.size();
  const std::size_t every = (count + printed_states - 1) / printed_states;
  for (std::size_t i = 0; i < count; ++i) {
    if ((count - 1 - i) % every == 0) {
      char number[32];
      std::snprintf(number, sizeof number, "%5zu  ", i + 1);
      out_ << number << s.states[i] << '\n';
    }
  }
  out_ << indent << status(index) << "\n\n";
}

}  // namespace demo
