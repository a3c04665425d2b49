// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file The lines of freedave.jsonl: drafts, what verifies them, and the accepted one, by round.

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/decode_of_line.hpp"
#include "goldens/lines.hpp"
#include "goldens/place.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// One line beside the session that decodes it.
class freedave_line {
 public:
  explicit freedave_line(const node& line)
      : model_(read_context_model(line.at("model")))
      , args_(line.at("args"))
      , steps_(line.at("steps"))
      , final_(line.get<tokens>("final"))
      , block_(args_.get<index_t>("block_length"))
      , in_blocks_(args_.get<std::string>("mode") == "block")
      , eager_(args_.get<bool>("eager"))
      , has_tokens_without_drafts_(line.get<bool>("same_as_baseline"))
      , partial_(!in_blocks_ && !eager_ && args_.has("confidence_threshold")) {
    x_ = line.get<tokens>("prompt");
    prompt_ = x_.size();
    x_.resize(final_.size(), model_.mask_id);
    state_ = x_;
  }

  [[nodiscard]] verdict replay() {
    const bool has_threshold = args_.has("confidence_threshold");
    if (eager_ && !has_tokens_without_drafts_) {
      return verdict::skip("the tokens are not those of the release without drafts");
    }
    const auto per_step = args_.get<index_t>("token_per_step");
    const std::string policy = text(
        args_.get<double>("alg_temp") < 0 ? "left_to_right" : "by_confidence",
        " + ",
        has_threshold ? text("threshold(", args_.get<double>("confidence_threshold"), ", true)")
                      : text("tokens_per_step(", per_step, ")"),
        " + drafts(",
        args_.get<index_t>("draft_steps") - 1,
        ", ",
        per_step,
        partial_ ? ", true)" : ")");
    const auto length = static_cast<index_t>(x_.size());
    // Blocks of absolute multiples: the prompt is a fixed part of the first ones.
    std::vector<std::uint8_t> editable(x_.size(), 1);
    std::fill_n(editable.begin(), prompt_, std::uint8_t{0});
    session<named_policy, place> decode(
        {.vocab = model_.V,
         .mask_token = model_.mask_id,
         .eos_token = model_.eos_id,
         .suppress_mask = false},
        {.sequences = 1, .length = length, .window = block_, .branches = max_branches});
    const index_t start = in_blocks_ ? 0 : static_cast<index_t>(prompt_);
    decode.start(0,
                 read_policy(policy),
                 tokens_view<place::space>(x_.data(), length),
                 {.prompt_length = start, .length = length, .block_length = block_},
                 {.editable = in_blocks_ ? std::span<const std::uint8_t>(editable)
                                         : std::span<const std::uint8_t>{}});
    while (const auto request = decode.next()) {
      const std::string what = eager_ ? "" : before(*request, decode.planned().score.first);
      if (!what.empty()) {
        return differs(text(policy, ": pass ", passes_, ": ", what), proposes_mask_);
      }
      const std::vector<float> logits = rows(*request);
      decode.supply(rows_view<float, place::space>{logits.data(), request->rows, model_.V});
      static_cast<void>(decode.report());  // and the tokens are there
      ++passes_;
      if (!eager_) {
        after();
        if (is_over() && std::find(x_.begin(), x_.end(), model_.mask_id) != x_.end()) {
          decode.cancel(0);  // the release ends behind a block of EOS tokens alone
          std::replace(x_.begin(), x_.end(), model_.mask_id, model_.eos_id);
          break;
        }
      }
    }
    if (!eager_ && !is_over()) {
      return differs(text(policy, ": fewer passes than recorded"), proposes_mask_);
    }
    return x_ == final_ ? verdict::pass()
                        : differs(text(policy, ": the tokens at the end differ"), proposes_mask_);
  }

 private:
  /// The tokens that the row of position q sees: with attention by block, up to the end of its own.
  [[nodiscard]] std::span<const token> seen(const tokens& x, index_t q) const {
    const std::size_t end =
        in_blocks_ ? static_cast<std::size_t>((q / block_ + 1) * block_) : x.size();
    return std::span(x).first(std::min(end, x.size()));
  }
  [[nodiscard]] static tokens text_of(const segment& s, tokens x) {
    for (const placement& p : s.placed) {
      x[static_cast<std::size_t>(p.position)] = p.token;
    }
    return x;
  }
  [[nodiscard]] std::vector<float> rows(const forward_request& request) {
    const auto columns = static_cast<std::size_t>(model_.V);
    std::vector<float> logits(static_cast<std::size_t>(request.rows) * columns);
    for (const segment& s : request.segments) {
      const tokens x = text_of(s, x_);
      for (index_t p = s.rows.first; p < s.rows.last; ++p) {
        const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * columns;
        const std::span<float> row = std::span(logits).subspan(at, columns);
        model_.row(p, seen(x, p), row);
        proposes_mask_ = proposes_mask_ || (x[static_cast<std::size_t>(p)] == model_.mask_id &&
                                            proposes(row, model_.mask_id));
      }
    }
    return logits;
  }
  /// The `sum` of a forward pass over the masked positions of `window`.
  [[nodiscard]] std::uint64_t sum(const tokens& x, range window) const {
    std::vector<float> logits(static_cast<std::size_t>(model_.V));
    std::uint64_t all = 0;
    for (int p = window.start; p < window.end; ++p) {
      if (x[static_cast<std::size_t>(p)] == model_.mask_id) {
        model_.row(p, seen(x, p), logits);
        all += (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(logits);
      }
    }
    return all;
  }

  [[nodiscard]] tokens with(const node& placed, int start) const {
    tokens x = state_;
    for (std::size_t k = 0; k < placed.size(); ++k) {
      x.at(static_cast<std::size_t>(start + placed.at(k).at(0U).get<int>())) =
          placed.at(k).at(1U).get<token>();
    }
    return x;
  }
  [[nodiscard]] static bool is_complete(const tokens& x, int start, int length, token mask) {
    const auto first = x.begin() + start;
    return std::find(first, first + length, mask) == first + length;
  }
  /// Passes over what needs no pass of logits: stores, a first draft that completes the block.
  void skip() {
    for (; at_ < steps_.size(); ++at_) {
      const node step = steps_.at(at_);
      const auto kind = step.get<std::string>("kind");
      if (kind == "branches") {
        const int start = step.get<int>("start");
        const tokens first = with(step.at("drafts").at(0U), start);
        if (!is_complete(first, start, step.get<int>("window"), model_.mask_id)) {
          return;
        }
        state_ = first;
      } else if (kind == "take_first_draft") {
        state_ = with(step.at("drafts").at(0U), start_);
      } else if (kind == "first") {
        return;
      }
    }
  }
  [[nodiscard]] bool is_over() {
    skip();
    return at_ == steps_.size();
  }

  /// Compares the states that a pass runs with the recorded ones.
  [[nodiscard]] std::string before(const forward_request& request, index_t start) {
    if (is_over()) {
      return "more passes than recorded";
    }
    const node step = steps_.at(at_);
    const node sums = step.at("sums");
    const auto sum_at = [&](std::size_t k) {
      return static_cast<std::uint64_t>(std::stoull(sums.at(k).get<std::string>(), nullptr, 16));
    };
    start_ = start;
    if (step.get<std::string>("kind") == "first") {
      if (request.segments.size() != 1 || x_ != state_) {
        return "expected a pass of the sequence alone";
      }
      const int first = step.get<int>("start");
      const std::uint64_t got = sum(x_, {first, first + step.get<int>("length")});
      return got == sum_at(0) ? "" : text("sum: expected ", sum_at(0), ", got ", got);
    }
    if (step.get<int>("start") != start) {
      return text("expected the block at ", step.get<int>("start"), ", got ", start);
    }
    const node drafts = step.at("drafts");
    const int length = step.get<int>("window");
    const range window =
        in_blocks_ ? range{start_, start_ + length} : range{0, static_cast<int>(x_.size())};
    std::size_t k = 0;
    for (; k < drafts.size(); ++k) {
      const tokens draft = with(drafts.at(k), start_);
      const bool repeats = k > 0 && draft == with(drafts.at(k - 1), start_);
      if (repeats || (!partial_ && is_complete(draft, start_, length, model_.mask_id))) {
        break;  // the release also runs those from which nothing is left to decide
      }
      if (k == request.segments.size() || text_of(request.segments[k], x_) != draft) {
        return text("draft ", k, " differs");
      }
      if (const std::uint64_t got = sum(draft, window); got != sum_at(k)) {
        return text("sum ", k, ": expected ", sum_at(k), ", got ", got);
      }
    }
    return k == request.segments.size()
               ? ""
               : text("expected ", k, " drafts, got ", request.segments.size());
  }
  /// Takes over the state that the recorded pass has led to.
  void after() {
    const node step = steps_.at(at_++);
    if (step.get<std::string>("kind") == "branches") {
      state_ = with(step.at("drafts").at(step.get<std::size_t>("accepted")), start_);
    }
  }

  context_model model_;
  node args_;
  node steps_;
  tokens final_;
  index_t block_;
  bool in_blocks_;
  bool eager_;
  bool has_tokens_without_drafts_;
  bool partial_;
  tokens x_;      ///< the tokens of the session
  tokens state_;  ///< the recorded ones before the round
  std::size_t prompt_ = 0;
  std::size_t at_ = 0;
  int start_ = 0;
  int passes_ = 0;
  bool proposes_mask_ = false;  ///< at a masked position of some pass so far
};

inline verdict check_freedave(const node& line) {
  return freedave_line(line).replay();
}

}  // namespace unmask::goldens
