// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/policies.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace demo {

namespace {

using namespace unmask;

/// Stops at the end token if the user wants it to: with the wish in a value instead of in the type,
/// each policy of the table is compiled once and not twice.
struct stop_if_wanted : stop_at_end {
  bool wanted = false;
  UNMASK_HD ending stop(const sequence_view& q, auto& own) const {
    return wanted ? stop_at_end::stop(q, own) : ending::running;
  }
};

/// Policies that the demo compiles with every cache. With the others go those that feed a range,
/// and early skipping: each further kind of rule would double the time that the table takes.
enum class caches : unsigned char { most, all };

[[noreturn]] void refuse(const char* why) {
  throw std::invalid_argument(std::string("--cache ") + why);
}

/// A session whose policy is the product of `parts` and the cache that was asked for.
template <caches With = caches::most, class... Parts>
std::unique_ptr<any_layer_session> session_of(const session_setup& s, const Parts&... parts) {
  stop_if_wanted stop;
  stop.wanted = s.stop_at_end;
  const cache_setup& c = s.cache;
  if (!c.layered()) {
    return make_any_layer_session(policy{parts..., stop, c.cache}, s.model, s.capacity);
  }
  using plain = policy<Parts...>;
  if constexpr (plain::branches || !plain::settles) {
    refuse("must be one that runs a range for a policy that looks ahead: branches have no hidden "
           "states of their own to compare with");
  } else {
    const any_picking_cache cache{c.cache};
    if constexpr (With == caches::all) {
      if (c.which == layer_rule_kind::budget) {
        return make_any_layer_session(policy{parts..., stop, cache, c.budget}, s.model, s.capacity);
      }
      if (c.which == layer_rule_kind::similarity) {
        return make_any_layer_session(
            policy{parts..., stop, cache, c.similarity}, s.model, s.capacity);
      }
    }
    early_skip skip = c.skip;
    if (c.which == layer_rule_kind::none) {
      skip.stage_count = 0;
    } else if (c.which != layer_rule_kind::skip) {
      refuse("similarity and budget are compiled with the policies one, threshold and credit only");
    }
    return make_any_layer_session(policy{parts..., stop, cache, skip}, s.model, s.capacity);
  }
}

using values = const knob_values&;
using setup = const session_setup&;

/// One decode with the static rule, recorded, gives the thresholds of all later ones.
std::unique_ptr<any_layer_session> profiled(values v, setup s) {
  profile_threshold<> rule;
  rule.slack = v.real(0);
  rule.cap = v.real(1);
  rule.mode = v.yes(2) ? profile_mode::step_block : profile_mode::block;
  rule.statistic = static_cast<metric>(std::clamp(v.whole(3), index_t{0}, index_t{4}));
  rule.recorded = v.yes(4) ? collect::candidates : collect::committed;
  rule.threshold = v.real(5);
  if (s.decode_first) {
    session_setup first = s;
    first.capacity.trace = true;  // candidates are reported, too
    const auto session = session_of(first, by_confidence{}, rule);
    profile_recorder recorder({.block_length = s.block_length}, rule.recorded);
    s.decode_first(*session, [&] { recorder.observe(*session); });
    rule = recorder.calibrate(rule);
  }
  return session_of(s, by_confidence{}, rule);
}

const sweep thresholds{"threshold", {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}};

const std::array table{
    known_policy{
        "one",
        "the likeliest token of the block, one a forward",
        {},
        {"one"},
        {"", {}, {}},
        [](values, setup s) { return session_of<caches::all>(s, by_confidence{}, top_k{1}); },
    },
    known_policy{
        "left_to_right",
        "the leftmost open positions, k a forward",
        {{"k", 1, true}},
        {"left_to_right"},
        {"k", {1, 2, 4, 8, 20}, {}},
        [](values v, setup s) { return session_of(s, left_to_right{}, top_k{v.whole(0)}); },
    },
    known_policy{
        "random",
        "open positions drawn at random, k a forward",
        {{"k", 1, true}},
        {"random"},
        {"k", {1, 2, 4, 8, 20}, {}},
        [](values v, setup s) { return session_of(s, at_random{}, top_k{v.whole(0)}); },
    },
    known_policy{
        "margin",
        "the largest gaps between best and second, k a forward",
        {{"k", 2, true}},
        {"margin(2)"},
        {"k", {1, 2, 4, 8, 20}, {}},
        [](values v, setup s) { return session_of(s, by_margin{}, top_k{v.whole(0)}); },
    },
    known_policy{
        "steps",
        "a fixed number of forwards for each block (LLaDA)",
        {{"steps", 8, true}},
        {"steps(8)"},
        {"steps", {1, 2, 4, 8, 20}, {}},
        [](values v, setup s) { return session_of(s, by_confidence{}, scheduled{v.whole(0)}); },
    },
    known_policy{
        "threshold",
        "every token that is likelier than the threshold (Fast-dLLM)",
        {{"threshold", 0.9}},
        {"threshold(0.9)", "threshold(0.5)"},
        thresholds,
        [](values v, setup s) {
          return session_of<caches::all>(s, by_confidence{}, confidence_above{v.real(0)});
        },
    },
    known_policy{
        "at_least",
        "the same, the threshold itself included",
        {{"threshold", 0.9}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s, by_confidence{}, confidence_at_least{v.real(0)});
        },
    },
    known_policy{
        "factor",
        "the more tokens at once, the surer each has to be (Fast-dLLM)",
        {{"factor", 1.0}, {"accept_last", 0, true}},
        {"factor(1)"},
        {"factor", {0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3}, {}},
        [](values v, setup s) {
          return session_of(s, by_confidence{}, factor{v.real(0), v.yes(1)});
        },
    },
    known_policy{
        "entropy",
        "the surest tokens while their joint uncertainty, in nats, stays small (EB-Sampler)",
        {{"bound", 0.1}},
        {"entropy(0.1)"},
        {"bound", {0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 2}, {}},
        [](values v, setup s) { return session_of(s, by_entropy{}, entropy_bound{v.real(0)}); },
    },
    known_policy{
        "adaptive",
        "a threshold for each position, moving with what its logits do (Dynamic-dLLM)",
        {{"start", 0.9}, {"lower", 0.001}, {"raise", 0.0008}, {"least", 0.5}},
        {},
        {"start", {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}},
        [](values v, setup s) {
          return session_of(
              s, by_confidence{}, adaptive_threshold{v.real(0), v.real(1), v.real(2), v.real(3)});
        },
    },
    known_policy{
        "stable",
        "tokens that are sure and whose logits have come to rest (KLASS)",
        {{"confidence", 0.9}, {"divergence", 0.01}, {"fallback", 1, true}},
        {"stable(0.9)"},
        {"confidence", {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}},
        [](values v, setup s) {
          return session_of(
              s, by_confidence{}, stable_and_confident{v.real(0), v.real(1), v.whole(2)});
        },
    },
    known_policy{
        "sampled",
        "threshold on tokens drawn at a temperature instead of the likeliest ones (LLaDA)",
        {{"threshold", 0.9}, {"temperature", 1.0}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s, by_confidence{}, confidence_above{v.real(0)}, sampling{v.real(1)});
        },
    },
    known_policy{
        "nucleus",
        "the same, drawn among the most probable tokens only, by their confidence (Dream)",
        {{"threshold", 0.9},
         {"temperature", 1.0},
         {"top_p", 0.9},
         {"top_k", 50, true},
         {"min_p", 0.0}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_above{v.real(0)},
                            temperature{v.real(1)},
                            sampling{},
                            keep_top_p{v.real(2)},
                            keep_top_k{v.whole(3)},
                            keep_min_p{v.real(4)},
                            confidence_of_kept{});
        },
    },
    known_policy{
        "hierarchical",
        "threshold, and the best of each run of open positions at a lower one (dInfer)",
        {{"low", 0.4}, {"threshold", 0.9}},
        {},
        {"low", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {}},
        [](values v, setup s) {
          return session_of(s, by_confidence{}, hierarchical{v.real(0), v.real(1)});
        },
    },
    known_policy{
        "slow_fast",
        "explores how far the model is ready to go, then fills that stretch (SlowFast)",
        {{"threshold", 0.9}, {"exploration", 6, true}, {"promising", 0.3}, {"spread", 1}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_at_least{v.real(0)},
                            slow_fast{v.whole(1), v.real(2), v.real(3)});
        },
    },
    known_policy{
        "reopen",
        "a low threshold, and tokens that become unlikely are masked again (dInfer)",
        {{"below", 0.4}, {"threshold", 0.5}},
        {"reopen(0.4)"},
        {"below", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {}},
        [](values v, setup s) {
          return session_of(
              s, by_confidence{}, confidence_above{v.real(1)}, reopen_below{v.real(0)});
        },
    },
    known_policy{
        "remask",
        "hierarchical, and settled positions that became unsure compete again (dInfer)",
        {{"below", 0.4}, {"low", 0.4}, {"threshold", 0.9}},
        {},
        {"below", {0, 0.2, 0.4, 0.6, 0.8}, {}},
        [](values v, setup s) {
          return session_of(
              s, by_confidence{}, hierarchical{v.real(1), v.real(2)}, remask_below{v.real(0)});
        },
    },
    known_policy{
        "credit",
        "threshold on logits raised for tokens that keep leading (CreditDecoding)",
        {{"threshold", 0.9}, {"strength", 0.65}, {"decay", 0.7}, {"exponent", 0.2}},
        {"credit(0.9)"},
        thresholds,
        [](values v, setup s) {
          return session_of<caches::all>(s,
                                         by_confidence{},
                                         confidence_above{v.real(0)},
                                         trace_credit<>{v.real(1), v.real(2), v.real(3)});
        },
    },
    known_policy{
        "adaptive_credit",
        "the same without knobs: credit counts as far as the block is settled",
        {{"threshold", 0.9}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s, by_confidence{}, confidence_above{v.real(0)}, adaptive_credit<>{});
        },
    },
    known_policy{
        "lookahead",
        "threshold, and branches that try further tokens in the same forward (LoPA)",
        {{"branches", 3, true}, {"threshold", 0.9}},
        {"lookahead(3)"},
        {"threshold", {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}, {"lookahead(7)"}},
        [](values v, setup s) {
          return session_of(
              s, by_confidence{}, confidence_above{v.real(1)}, lookahead{.branches = v.whole(0)});
        },
    },
    known_policy{
        "pipeline",
        "threshold, a block starting before the one before it is settled (D2F)",
        {{"add", 0.1}, {"activate", 0.95}, {"threshold", 0.9}},
        {"pipeline(0.1)"},
        thresholds,
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_above{v.real(2)},
                            block_pipeline{.add = v.real(0), .activate = v.real(1)});
        },
    },
    known_policy{
        "profile",
        "thresholds that the first prompt of a task is decoded for: one pass, one task (OSDT)",
        {{"slack", 0.2},
         {"cap", 0.75},
         {"by_step", 0, true},
         {"metric", 1, true},
         {"candidates", 0, true},
         {"threshold", 0.9}},
        {"profile(0.2)"},
        {"slack",
         {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6},
         {"profile(cap=1, by_step=1, metric=4, candidates=1)"}},
        [](values v, setup s) { return profiled(v, s); },
    },
    known_policy{
        "edited",
        "threshold, and settled tokens that the model now sees otherwise are rewritten (SGLang)",
        {{"threshold", 0.9}, {"edit", 0.9}, {"most_edits", 16, true}},
        {},
        {"edit", {0.5, 0.9, 0.99, 0.999, 1}, {}},
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_above{v.real(0)},
                            edit_settled{v.real(1)},
                            edited_blocks{v.whole(2)});
        },
    },
    known_policy{
        "pipeline_lookahead",
        "lookahead over blocks that start early (LoPA over D2F)",
        {{"threshold", 0.9}, {"branches", 3, true}, {"add", 0.1}, {"activate", 0.95}},
        {},
        thresholds,
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_above{v.real(0)},
                            block_pipeline{.add = v.real(2), .activate = v.real(3)},
                            lookahead{.branches = v.whole(1)});
        },
    },
    known_policy{
        "credit_lookahead",
        "credit and lookahead branches together",
        {{"threshold", 0.9}, {"branches", 3, true}},
        {"credit_lookahead(0.9)"},
        thresholds,
        [](values v, setup s) {
          return session_of(s,
                            by_confidence{},
                            confidence_above{v.real(0)},
                            trace_credit<>{},
                            lookahead{.branches = v.whole(1)});
        },
    },
    known_policy{
        "timesteps",
        "the whole answer along a falling noise level (Dream)",
        {{"steps", 20, true}, {"epsilon", 1e-3}},
        {},
        {"steps", {2, 3, 4, 8, 20, 40}, {}},
        [](values v, setup s) {
          return session_of(s, by_entropy{}, timesteps{v.whole(0), v.real(1)}, whole_sequence{});
        },
    },
};

}  // namespace

std::span<const known_policy> known_policies() {
  return table;
}

}  // namespace demo
