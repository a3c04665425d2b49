// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// One step of a decoding session: everything that happens between two forward passes.

#include <unmask/unmask.hpp>

#include <vector>

#include "support/rows.hpp"

namespace bench {

/// A session of one sequence whose answer is one block, started anew for each step, so that every
/// step decides about all of its positions.
template <class Policy, unmask::element T = float>
class first_step {
 public:
  first_step(const Policy& policy, const logits<T>& rows, const unmask::on_host& where = {})
      : policy_(policy)
      , rows_(rows)
      , window_(static_cast<index_t>(rows.rows().size()))
      , vocab_(rows.rows().front().columns)
      , tokens_(rows.rows().size())
      , session_({.vocab = vocab_, .mask_token = vocab_ - 1, .eos_token = vocab_ - 2},
                 {.sequences = 1, .length = window_, .window = window_},
                 where) {}

  void start() {
    session_.start(0,
                   policy_,
                   {tokens_.data(), window_},
                   {.prompt_length = 0, .length = window_, .block_length = window_});
  }

  void operator()(const unmask::row_modifiers<T>& modifiers = {}) {
    start();
    const auto request = session_.next();
    session_.supply(unmask::host_logits<T>(rows_.data(), request->rows, vocab_), modifiers);
  }

 private:
  Policy policy_;
  const logits<T>& rows_;
  index_t window_;
  index_t vocab_;
  std::vector<token_id> tokens_;
  unmask::session<Policy> session_;
};

}  // namespace bench
