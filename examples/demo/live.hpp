// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "demo/decode.hpp"
#include "demo/terminal.hpp"

namespace demo {

/// Shows answers filling in while they are decoded.
///
/// In a terminal each answer is drawn over in place: committed characters plain, those that the
/// last step committed highlighted, masked positions as dim blocks. Elsewhere finish() prints some
/// of the states that each answer went through, as lines.
class live_view {
 public:
  live_view(std::ostream& out,
            const display& how,
            const example::char_tokenizer& text,
            std::span<const problem> problems,
            const geometry& shape);

  /// Notes a step and draws it.
  void see(const step_seen& step);

  /// Ends the view. Call once, after all steps.
  void finish();

  /// The meaning of what is shown, on one line.
  static std::string legend(const display& how);

  /// Lines that one of the problems takes in a terminal, at most.
  static std::size_t
  height(const display& how, std::span<const problem> problems, const geometry& shape);

 private:
  struct sequence {
    std::vector<token_id> answer;
    std::vector<bool> fresh;
    unmask::sequence_report report;
    std::vector<std::string> states;  // one for each forward, if not in place
  };

  std::string cell(token_id token, bool fresh) const;
  std::vector<std::string> answer_lines(const sequence& s) const;
  std::string status(std::size_t index) const;
  void draw();
  void print(std::size_t index);

  std::ostream& out_;
  display how_;
  const example::char_tokenizer& text_;
  std::span<const problem> problems_;
  std::vector<sequence> sequences_;
  std::size_t drawn_lines_ = 0;
};

}  // namespace demo
