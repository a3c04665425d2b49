// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/knob.hpp>
#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

/// Reports the probabilities of some tokens, in the whole row and among themselves, for questions
/// such as "yes or no, and how sure?". It decides nothing; after each step session::probabilities()
/// has them for every masked position that the step scored, so a decode of one position is a
/// classifier.
///
///     policy{by_confidence{}, tokens_per_step{1}, probability_of<2>{{yes, no}},
///            allowed_tokens<2>{{yes, no}}}
///
/// The row is the one that the statistics use (after temperature{} and masks) with the edits of the
/// parts written before this one: written before allowed_tokens it reports the probability of the
/// list in the whole row, written after it both numbers are equal. Tokens dropped by top_k, top_p
/// and min_p count in the whole row. A token that is suppressed, not allowed or not in the
/// vocabulary has probability 0. Positions whose row is invalid are left out.
///
/// Applies to the answer offsets [first, last). The tokens are the given ones among the first
/// `count`, at least one and all different. Combines with every other part but adaptive_threshold
/// and stable_and_confident, as all parts that track tokens. Reads stat::confidence.
/// Range: count in [1, Count].
/// Cost: O(count log tracked) a row and 48 bytes a token and position; no state.
/// Example: `tokens_per_step + probability_of([0, 1])`, rows a60b30: reports 0.6 0.3.
/// Source: label probabilities as in classifiers made of language models, T. Brown et al., Language
/// models are few-shot learners (2020), section 2.4.
template <int Count = 2>
struct probability_of {
  static_assert(Count >= 1, "a probability_of no tokens reads nothing: leave it out");

  listed_token tokens[Count] = {};  ///< The probed tokens.
  index_t count = Count;            ///< Number of tokens.
  index_t first = 0;
  index_t last = 0x7fffffff;

  static constexpr statistics required = stat::confidence;
  static constexpr index_t tracks = Count;
  static constexpr index_t probes = Count;

  static constexpr part_label label{
      "probability_of",
      "reports the probabilities of tokens at answer positions [first, last); at most 16"};
  static constexpr knob<probability_of> knobs[] = {
      {"tokens", knob_kind::tokens, Count, &detail::fill_tokens<probability_of>},
      {"first", &probability_of::first, at_least(0)},
      {"last", &probability_of::last, at_least(0)}};

  void check(const sequence_shape&) const {
    check_argument(count >= 1 && count <= Count,
                   "probability_of::count",
                   count,
                   "in [1, Count = ",
                   Count,
                   "]");
    detail::check_tokens(tokens, count, "probability_of::tokens");
    for (index_t k = 0; k < count && k < Count; ++k) {  // g++ 12 does not see that count <= Count
      for (index_t j = 0; j < k; ++j) {
        check_argument(tokens[j] != tokens[k] || tokens[k] == no_token,
                       "probability_of::tokens",
                       tokens[k],
                       "different from the others: a repeat would count twice among them");
      }
    }
    check_argument(
        last >= first, "probability_of::last", last, "at least probability_of::first = ", first);
  }

  UNMASK_HD void track(auto& list, const auto& context) const {
    for (index_t k = 0; k < (applies(context.at) ? count : 0); ++k) {
      if (tokens[k] != no_token) {
        list.add(tokens[k]);
      }
    }
  }

  UNMASK_HD index_t probe(const auto& row, const auto& context, token_probability* out) const {
    if (!applies(context.at)) {
      return 0;
    }
    const auto whole = row.total();
    if (!whole.valid()) {
      return 0;  // an edit before this one has taken it out of the range of float
    }
    index_t found = 0;
    float best = -math::infinity();
    for (index_t k = 0; k < count; ++k) {
      if (tokens[k] != no_token) {
        out[found++].token = tokens[k];
        best = math::max(best, row.logit(tokens[k]));
      }
    }
    float sum = 0.0F;
    for (index_t k = 0; k < found; ++k) {
      const float z = row.logit(out[k].token);
      const bool possible = z > -math::infinity();
      out[k].share = possible ? math::exp_nonpositive(z - best) : 0.0F;
      out[k].probability =
          possible ? math::divide(math::exp_nonpositive(z - whole.best), whole.total()) : 0.0F;
      sum += out[k].share;
    }
    for (index_t k = 0; k < found && sum > 0.0F; ++k) {
      out[k].share = math::divide(out[k].share, sum);
    }
    return found;
  }

 private:
  [[nodiscard]] UNMASK_HD bool applies(const step_info& at) const {
    return range{first, last}.contains(at.position - at.view->prompt_length);
  }
};
static_assert(tracking<probability_of<>> && probing<probability_of<>>);

}  // namespace unmask
