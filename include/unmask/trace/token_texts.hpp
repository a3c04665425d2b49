// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/plan.hpp>
#include <unmask/text/json_text.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail {

/// The texts of the tokens of a trace. Each is written once, in the first line with the
/// token. One that throws is requested again where its token occurs again.
class token_texts {
 public:
  /// Tokens of [0, vocab) have a text, if there is a function for it.
  token_texts(std::function<std::string(token_id)> text, index_t vocab)
      : text_(std::move(text))
      , is_needed_(text_ ? static_cast<std::size_t>(math::max(vocab, index_t{0})) : 0) {}

  /// Makes room for the given number of calls of need() before the next write().
  void reserve(std::size_t tokens) {
    needed_.reserve(std::min(needed_.size() + tokens, is_needed_.size()));
  }

  /// Notes a token of the line.
  void need(token_id token) {
    const auto at = static_cast<std::size_t>(token);
    if (token >= 0 && at < is_needed_.size() && !is_needed_[at]) {
      is_needed_[at] = true;
      needed_.push_back(token);
    }
  }

  /// Adds the noted texts to a line. What prevents one of them is kept for raise().
  void write(json_text& line) {
    bool is_open = false;
    for (const token_id token : needed_) {
      try {
        const std::string text = text_(token);
        line.reserve(json_text::most_bytes(text.size()) + 64);
        if (!std::exchange(is_open, true)) {
          line.key("text");
          line.open('{');
        }
        line.key(std::to_string(token));
        line.string(text);
      } catch (...) {
        is_needed_[static_cast<std::size_t>(token)] = false;
        failure_ = failure_ ? failure_ : std::current_exception();
      }
    }
    if (is_open) {
      line.close('}');
    }
    needed_.clear();
  }

  /// Throws the first exception since the last call, if there was one.
  void raise() {
    if (failure_) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

 private:
  std::function<std::string(token_id)> text_;
  std::vector<bool> is_needed_;  // by token: noted, or written
  std::vector<token_id> needed_;
  std::exception_ptr failure_;
};

}  // namespace UNMASK_NAMESPACE::detail
