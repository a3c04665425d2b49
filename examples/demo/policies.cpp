// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/policies.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace demo {

namespace {

using namespace unmask;

/// One decode with the static rule, recorded, gives the thresholds of all later ones.
std::unique_ptr<any_layer_session>
profiled(named_parts parts, const knob_values& v, const session_setup& s) {
  profile_threshold<> rule;
  rule.slack = v.real(0);
  rule.cap = v.real(1);
  rule.mode = v.yes(2) ? profile_mode::step_block : profile_mode::block;
  rule.statistic = static_cast<metric>(std::clamp(v.whole(3), index_t{0}, index_t{4}));
  rule.recorded = v.yes(4) ? collect::candidates : collect::committed;
  rule.threshold = v.real(5);
  const auto session_of = [&](const limits& capacity) {
    parts.admission = {};
    parts.admission.push(rule);
    return make_any_layer_session(parts, s.model, capacity);
  };
  if (s.decode_first) {
    limits tracing = s.capacity;
    tracing.trace = true;  // candidates are reported, too
    const auto session = session_of(tracing);
    profile_recorder recorder({.block_length = s.block_length}, rule.recorded);
    s.decode_first(*session, [&] { recorder.observe(*session); });
    rule = recorder.calibrate(rule);
  }
  return session_of(s.capacity);
}

const sweep thresholds{"threshold", {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}};

const std::array table{
    known_policy{
        "one",
        "the likeliest token of the block, one a forward",
        {},
        {"one"},
        {"", {}, {}},
        "top_k(1)",
    },
    known_policy{
        "left_to_right",
        "the leftmost open positions, k a forward",
        {{"k", 1, true}},
        {"left_to_right"},
        {"k", {1, 2, 4, 8, 20}, {}},
        "left_to_right + top_k({k})",
    },
    known_policy{
        "random",
        "open positions drawn at random, k a forward",
        {{"k", 1, true}},
        {"random"},
        {"k", {1, 2, 4, 8, 20}, {}},
        "random + top_k({k})",
    },
    known_policy{
        "margin",
        "the largest gaps between best and second, k a forward",
        {{"k", 2, true}},
        {"margin(2)"},
        {"k", {1, 2, 4, 8, 20}, {}},
        "margin + top_k({k})",
    },
    known_policy{
        "steps",
        "a fixed number of forwards for each block (LLaDA)",
        {{"steps", 8, true}},
        {"steps(8)"},
        {"steps", {1, 2, 4, 8, 20}, {}},
        "scheduled({steps})",
    },
    known_policy{
        "threshold",
        "every token that is likelier than the threshold (Fast-dLLM)",
        {{"threshold", 0.9}},
        {"threshold(0.9)", "threshold(0.5)"},
        thresholds,
        "threshold({threshold})",
    },
    known_policy{
        "at_least",
        "the same, the threshold itself included",
        {{"threshold", 0.9}},
        {},
        thresholds,
        "at_least({threshold})",
    },
    known_policy{
        "factor",
        "the more tokens at once, the surer each has to be (Fast-dLLM)",
        {{"factor", 1.0}, {"accept_last", 0, true}},
        {"factor(1)"},
        {"factor", {0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3}, {}},
        "factor({factor}, {accept_last})",
    },
    known_policy{
        "entropy",
        "the surest tokens while their joint uncertainty, in nats, stays small (EB-Sampler)",
        {{"bound", 0.1}},
        {"entropy(0.1)"},
        {"bound", {0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 2}, {}},
        "entropy + entropy_bound({bound})",
    },
    known_policy{
        "adaptive",
        "a threshold for each position, moving with what its logits do (Dynamic-dLLM)",
        {{"start", 0.9}, {"lower", 0.001}, {"raise", 0.0008}, {"least", 0}},
        {},
        {"start", {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}},
        "adaptive_threshold({start}, {lower}, {raise}, {least})",
    },
    known_policy{
        "stable",
        "tokens that are sure and whose logits have come to rest (KLASS)",
        {{"confidence", 0.9}, {"divergence", 0.01}, {"fallback", 1, true}},
        {"stable(0.9)"},
        {"confidence", {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}, {}},
        "stable_and_confident({confidence}, {divergence}, {fallback})",
    },
    known_policy{
        "sampled",
        "threshold on tokens drawn at a temperature instead of the likeliest ones (LLaDA)",
        {{"threshold", 0.9}, {"temperature", 1.0}},
        {},
        thresholds,
        "threshold({threshold}) + sampling({temperature})",
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
        "threshold({threshold}) + temperature({temperature}) + sampling + keep_top_p({top_p}) + "
        "keep_top_k({top_k}) + keep_min_p({min_p}) + confidence_of_kept",
    },
    known_policy{
        "hierarchical",
        "threshold, and the best of each run of open positions at a lower one (dInfer)",
        {{"low", 0.4}, {"threshold", 0.9}},
        {},
        {"low", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {}},
        "hierarchical({low}, {threshold})",
    },
    known_policy{
        "slow_fast",
        "explores how far the model is ready to go, then fills that stretch (SlowFast)",
        {{"threshold", 0.9}, {"exploration", 6, true}, {"promising", 0.3}, {"spread", 1}},
        {},
        thresholds,
        "at_least({threshold}) + slow_fast({exploration}, {promising}, {spread})",
    },
    known_policy{
        "reopen",
        "a low threshold, and tokens that become unlikely are masked again (dInfer)",
        {{"below", 0.4}, {"threshold", 0.5}},
        {"reopen(0.4)"},
        {"below", {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {}},
        "threshold({threshold}) + reopen_below({below})",
    },
    known_policy{
        "remask",
        "hierarchical, and settled positions that became unsure compete again (dInfer)",
        {{"below", 0.4}, {"low", 0.4}, {"threshold", 0.9}},
        {},
        {"below", {0, 0.2, 0.4, 0.6, 0.8}, {}},
        "hierarchical({low}, {threshold}) + remask_below({below})",
    },
    known_policy{
        "credit",
        "threshold on logits raised for tokens that keep leading (CreditDecoding)",
        {{"threshold", 0.9}, {"strength", 0.65}, {"decay", 0.7}, {"exponent", 0.2}},
        {"credit(0.9)"},
        thresholds,
        "threshold({threshold}) + credit({strength}, {decay}, {exponent})",
    },
    known_policy{
        "adaptive_credit",
        "the same without knobs: credit counts as far as the answer is settled",
        {{"threshold", 0.9}},
        {},
        thresholds,
        "threshold({threshold}) + adaptive_credit",
    },
    known_policy{
        "lookahead",
        "threshold, and branches that try further tokens in the same forward (LoPA)",
        {{"branches", 3, true}, {"threshold", 0.9}},
        {"lookahead(3)"},
        {"threshold", {0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}, {"lookahead(7)"}},
        "threshold({threshold}) + lookahead({branches})",
    },
    known_policy{
        "pipeline",
        "threshold, a block starting before the one before it is settled (D2F)",
        {{"add", 0.1}, {"activate", 0.95}, {"threshold", 0.9}},
        {"pipeline(0.1)"},
        thresholds,
        "threshold({threshold}) + block_pipeline({add}, {activate})",
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
        {},  // compiled on its own: its profile is no text
    },
    known_policy{
        "edited",
        "threshold, and settled tokens that the model now sees otherwise are rewritten (SGLang)",
        {{"threshold", 0.9}, {"edit", 0.9}, {"most_edits", 16, true}},
        {},
        {"edit", {0.5, 0.9, 0.99, 0.999, 1}, {}},
        "threshold({threshold}) + edit_settled({edit}) + edited_blocks({most_edits})",
    },
    known_policy{
        "pipeline_lookahead",
        "lookahead over blocks that start early (LoPA over D2F)",
        {{"threshold", 0.9}, {"branches", 3, true}, {"add", 0.1}, {"activate", 0.95}},
        {},
        thresholds,
        "threshold({threshold}) + block_pipeline({add}, {activate}) + "
        "lookahead({branches})",
    },
    known_policy{
        "credit_lookahead",
        "credit and lookahead branches together",
        {{"threshold", 0.9}, {"branches", 3, true}},
        {"credit_lookahead(0.9)"},
        thresholds,
        "threshold({threshold}) + credit + lookahead({branches})",
    },
    known_policy{
        "timesteps",
        "the whole answer along a falling noise level (Dream)",
        {{"steps", 20, true}, {"epsilon", 1e-3}},
        {},
        {"steps", {2, 3, 4, 8, 20, 40}, {}},
        "entropy + timesteps({steps}, {epsilon}) + whole_sequence",
    },
};

/// What a text that no line of the table has the name of is.
const known_policy composed{"composed", "composed by name", {}, {}, {"", {}, {}}, {}};

}  // namespace

std::span<const known_policy> known_policies() {
  return table;
}

const known_policy& composed_policy() {
  return composed;
}

named_parts chosen_policy::parts(bool stop_at_end) const {
  std::string text =
      entry_ == &composed ? name_ : filled(entry_->text, entry_->knobs, values_);
  text = text.empty() ? "threshold" : text;  // profile
  text += cache_.is_none() ? "" : " + " + cache_.text();
  return read_policy(text + (stop_at_end ? " + stop_at_end" : ""));
}

std::unique_ptr<any_layer_session> chosen_policy::make(const session_setup& setup) const {
  const named_parts all = parts(setup.stop_at_end);
  return entry_->name == "profile" ? profiled(all, knob_values(values_), setup)
                                   : make_any_layer_session(all, setup.model, setup.capacity);
}

}  // namespace demo
