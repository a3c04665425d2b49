// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/attention.hpp>
#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/schedule.hpp>

namespace UNMASK_NAMESPACE {

/// Drafts a few tokens with the policy's ranking and commit rule, and checks them in one causal
/// pass, which writes one token more: the answer is token for token the greedy decode of the causal
/// model, or with sampling{} a decode drawn from it.
///
/// The first pass is causal, over the prompt, and writes the first token. From then on
/// bidirectional passes over the last checked token and n - 1 positions right of it commit drafts
/// until none is masked, and a causal pass over the same n positions keeps the drafts that its rows
/// also propose, up to the first other one, and writes its own token there. n begins with `start`,
/// doubles up to `window` when all n stay, and is halved down to `start` when at most half do; it
/// ends with the answer. One position needs no draft.
///
/// A pass attends to the K/V of the last pass that computed a position, which is a causal one for
/// all text left of it: the engine keeps K/V. It must run causal attention
/// (model_info::causal_attention), whose row p - 1 predicts position p. Tokens from
/// sequence_report::committed_prefix on are drafts, also in a sequence that is cancelled or ended
/// by max_steps. Combines with every commit rule; threshold(0, inclusive=true) drafts in one pass.
/// Range: window >= 1, start >= 1; a start above `window` counts as `window`. A prompt of at least
/// one token.
/// State: 24 bytes a sequence.
/// Cost: O(n) a step. With L tokens to decode at most (L - 1) (window - 1) passes more than L, with
/// drafts of one pass 2 L - 1 in all.
/// Example: `threshold(0, inclusive=true) + self_speculation(3)`, prompt x, rows a90 b90 c90 d90:
/// `a___` `abc_` `abcd`.
/// Source: Y. Gao et al., Self speculative decoding for diffusion large language models (2025), has
/// the idea; this is `linear_spec_generate` of mlx-vlm for Nemotron-Labs-Diffusion. SGLang's
/// LinearSpec has a fixed window.
struct self_speculation {
  index_t window = 32;
  index_t start = 8;

  struct sequence_state {
    index_t checked = 0;  ///< the text left of it is final
    index_t cached = 0;   ///< so are the causal K/V left of it
    index_t end = 0;      ///< of the positions of the last plan
    index_t size = 0;     ///< n; 0 before the first plan
    bool checks = false;  ///< of the last plan
  };

  static constexpr statistics required = stat::none;
  static constexpr attention_kind attention = attention_kind::causal;
  static constexpr bool paces = true;
  static constexpr part_label label{
      "self_speculation",
      "drafts tokens, and checks them in a causal pass; needs causal attention"};
  static constexpr knob<self_speculation> knobs[] = {
      {"window", &self_speculation::window, at_least(1)},
      {"start", &self_speculation::start, at_least(1)}};

  void check(const sequence_shape& g, const model_info&) const {
    check_argument(g.prompt_length >= 1,
                   "sequence_shape::prompt_length",
                   g.prompt_length,
                   "at least 1 for self_speculation, whose first pass reads the prompt");
  }

  [[nodiscard]] index_t reach(const sequence_shape& g) const {
    return math::min(window, g.length - g.prompt_length);
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    const std::int64_t rounds = std::int64_t{g.length} - g.prompt_length - 1;
    return rounds * (math::min(window, g.length) - 1);
  }

  UNMASK_HD bool accepts(const auto& c, const auto&) const { return c.token == c.current; }

  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    sequence_state& s = context.sequence;
    q.block_length = q.length - q.prompt_length;
    if (s.size == 0) {
      s.size = math::min(start, window);
      s.checked = q.first_masked_in({q.prompt_length, q.length});
      s.end = s.checked;
    } else if (s.checks) {
      const index_t n = s.end - s.checked + 1;
      const index_t first = s.checked;
      s.checked = q.first_masked_in({first, q.length});
      if (s.cached > 0) {
        resize(s, n, s.checked - first);
      }
      s.cached = math::min(math::min(s.end, q.first_changed), s.checked - 1);
      s.end = s.checked - 1 + math::min(s.size, q.length - s.checked);
    }
    if (s.checked == q.length) {
      next.end = ending::complete;
      return;
    }
    const bool drafts = q.masked_in({s.checked, s.end}) > 0;
    s.checks = !drafts;
    next.last_block = 1;
    next.freeze = {0, s.cached};
    next.query = {s.cached, s.end};
    next.keys = {0, s.end};
    next.score = {s.checked, drafts ? s.end : s.end + 1};
    next.forced = drafts ? 1 : 0;
    next.kind = drafts ? pass_kind::drafting : pass_kind::checking;
    if (!drafts) {
      next.attention = attention_kind::causal;
      next.logits_shift = 1;
    }
  }

 private:
  // The next n, if `stand` of the last n positions stayed.
  UNMASK_HD void resize(sequence_state& s, index_t n, index_t stand) const {
    if (stand == n && s.size < window) {
      s.size = s.size > window / 2 ? window : 2 * s.size;
    } else if (stand <= math::max(index_t{1}, n / 2) && s.size > start) {
      s.size = math::max(start, s.size / 2);
    }
  }
};
static_assert(scheduling<self_speculation> && pacing<self_speculation> &&
              verifying<self_speculation> && attending<self_speculation>);

}  // namespace unmask
