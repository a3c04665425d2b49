// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/known_part.hpp>

/// The arguments of the parts that have a name, with their ranges and defaults.
namespace UNMASK_NAMESPACE::detail::table {

using enum argument_kind;

constexpr double infinite = std::numeric_limits<double>::infinity();

constexpr part_argument share(std::string_view name, double value) {
  return {.name = name, .kind = real, .value = value, .least = 0.0, .most = 1.0};
}
constexpr part_argument from_zero(std::string_view name, double value) {
  return {.name = name, .kind = real, .value = value, .least = 0.0};
}
constexpr part_argument positive(std::string_view name, double value) {
  return {.name = name, .kind = real, .value = value, .least = 0.0, .without_least = true};
}
constexpr part_argument warmth(std::string_view name, double value) {
  return {.name = name, .kind = real, .value = value, .least = least_temperature};
}
constexpr part_argument finite(std::string_view name, double value) {
  return {.name = name, .kind = real, .value = value};
}
constexpr part_argument
count(std::string_view name, index_t value, index_t least, double most = infinite) {
  return {.name = name,
          .kind = whole,
          .value = static_cast<double>(value),
          .least = static_cast<double>(least),
          .most = most};
}
constexpr part_argument yes_or_no(std::string_view name, bool value) {
  return {.name = name, .kind = flag, .value = value ? 1.0 : 0.0, .least = 0.0, .most = 1.0};
}
constexpr part_argument choice(std::string_view name, std::string_view words, int value) {
  return {.name = name, .kind = word, .value = static_cast<double>(value), .words = words};
}
constexpr part_argument token(std::string_view name) {
  return {.name = name,
          .kind = whole,
          .value = static_cast<double>(no_token),
          .least = 0.0,
          .is_token = true};
}
constexpr part_argument tokens_of(std::string_view name) {
  return {.name = name, .kind = tokens};
}
constexpr part_argument reals_of(std::string_view name, std::string_view unless_given = {}) {
  return {.name = name, .kind = reals, .list = unless_given};
}
constexpr part_argument read(feature by_the_rule, std::string_view words) {
  return choice("reads", words, static_cast<int>(by_the_rule));
}

constexpr std::string_view features = "hidden|input|query|key|value";
constexpr std::string_view orders = "confidence|margin|entropy|left_to_right";
constexpr std::string_view worths = "confidence|margin|entropy";

constexpr part_argument loosely_of[] = {choice("order", orders, 0), warmth("temperature", 1.0)};
constexpr part_argument threshold_of[] = {share("threshold", confidence_above{}.threshold)};
constexpr part_argument at_least_of[] = {share("threshold", confidence_at_least{}.threshold)};
constexpr part_argument top_k_of[] = {count("k", top_k{}.k, 0)};
constexpr part_argument scheduled_of[] = {count("steps", scheduled{}.steps, 1)};
constexpr part_argument factor_of[] = {from_zero("value", factor{}.value),
                                       yes_or_no("accept_last", factor{}.accept_last)};
constexpr part_argument bound_of[] = {from_zero("bound", entropy_bound{}.bound)};
constexpr part_argument hierarchical_of[] = {share("low", hierarchical{}.low),
                                             share("threshold", hierarchical{}.threshold)};
constexpr part_argument timesteps_of[] = {count("steps", timesteps{}.steps, 1),
                                          {.name = "epsilon",
                                           .kind = real,
                                           .value = timesteps{}.epsilon,
                                           .least = 0.0,
                                           .most = 1.0,
                                           .without_least = true,
                                           .without_most = true}};
constexpr part_argument frontier_of[] = {count("reach", at_frontier{}.reach, 0),
                                         count("first", at_frontier{}.first, 0),
                                         count("last", at_frontier{}.last, 0)};
constexpr part_argument adaptive_of[] = {share("start", adaptive_threshold{}.start),
                                         from_zero("lower", adaptive_threshold{}.lower),
                                         from_zero("raise", adaptive_threshold{}.raise),
                                         share("least", adaptive_threshold{}.least),
                                         choice("scope", "answer|block", 0),
                                         count("begin", adaptive_threshold{}.begin, 1)};
constexpr part_argument stable_of[] = {share("confidence", stable_and_confident{}.confidence),
                                       from_zero("divergence", stable_and_confident{}.divergence),
                                       count("fallback", stable_and_confident{}.fallback, 0)};
constexpr part_argument credit_of[] = {from_zero("strength", trace_credit<>{}.strength),
                                       share("decay", trace_credit<>{}.decay),
                                       from_zero("exponent", trace_credit<>{}.exponent)};
constexpr part_argument share_of[] = {choice("of", "answer|block", 0)};
constexpr part_argument bias_of[] = {tokens_of("tokens"), reals_of("biases")};
constexpr part_argument repetition_of[] = {positive("penalty", repetition_penalty<>{}.penalty),
                                           count("window", repetition_penalty<>{}.window, 1),
                                           yes_or_no("prompt", repetition_penalty<>{}.prompt)};
constexpr part_argument counts_of[] = {finite("presence", count_penalty<>{}.presence),
                                       finite("frequency", count_penalty<>{}.frequency),
                                       count("window", count_penalty<>{}.window, 1),
                                       yes_or_no("prompt", count_penalty<>{}.prompt)};
constexpr part_argument guard_of[] = {from_zero("penalty", neighbour_guard{}.penalty),
                                      yes_or_no("both_sides", neighbour_guard{}.both_sides)};
constexpr part_argument list_of[] = {tokens_of("tokens"),
                                     count("first", token_list<>{}.first, 0),
                                     count("last", token_list<>{}.last, 0)};
constexpr part_argument end_penalty_of[] = {finite("penalty", end_penalty{}.penalty),
                                            token("also")};
constexpr part_argument no_end_of[] = {count("tokens", no_end_before{}.tokens, 0), token("also")};
constexpr part_argument hold_of[] = {yes_or_no("until_first", hold_end{}.until_first),
                                     token("also")};
constexpr part_argument last_of[] = {token("also")};
constexpr part_argument unequal_of[] = {yes_or_no("end_too", no_equal_neighbours{}.end_too)};
constexpr part_argument temperature_of[] = {warmth("value", temperature{}.value)};
constexpr part_argument sampling_of[] = {positive("temperature", sampling{}.temperature)};
constexpr part_argument keep_k_of[] = {count("k", keep_top_k{}.k, 1)};
constexpr part_argument keep_p_of[] = {share("p", keep_top_p{}.p)};
constexpr part_argument keep_min_of[] = {share("ratio", keep_min_p{}.ratio)};
constexpr part_argument edit_of[] = {share("threshold", edit_settled{}.threshold)};
constexpr part_argument reopen_of[] = {share("confidence", reopen_below{}.confidence),
                                       count("allowance", reopen_below{}.allowance, 0)};
constexpr part_argument remask_of[] = {share("confidence", remask_below{}.confidence)};
constexpr part_argument lookahead_of[] = {count("branches", lookahead{}.branches, 0, max_branches),
                                          {.name = "lowest_share",
                                           .kind = real,
                                           .value = lookahead{}.lowest_share,
                                           .least = 0.0,
                                           .most = 1.0,
                                           .without_least = true},
                                          share("creation_weight", lookahead{}.creation_weight),
                                          yes_or_no("anchor_competes", lookahead{}.anchor_competes),
                                          yes_or_no("anchor_wins", lookahead{}.anchor_wins),
                                          yes_or_no("complete_wins", lookahead{}.complete_wins),
                                          choice("by", worths, 0)};
constexpr part_argument pipeline_of[] = {
    share("add", block_pipeline{}.add),
    share("activate", block_pipeline{}.activate),
    count("at_once", block_pipeline{}.at_once, 1, max_active_blocks),
    yes_or_no("whole_canvas", block_pipeline{}.whole_canvas)};
constexpr part_argument slow_fast_of[] = {count("exploration", slow_fast{}.exploration, 1),
                                          share("promising", slow_fast{}.promising),
                                          from_zero("spread", slow_fast{}.spread)};
constexpr part_argument edited_of[] = {count("most_edits", edited_blocks{}.most_edits, 0)};
constexpr part_argument canvas_of[] = {count("steps", canvas{}.steps, 1),
                                       warmth("coldest", canvas{}.coldest),
                                       warmth("hottest", canvas{}.hottest),
                                       count("stable_steps", canvas{}.stable_steps, 1),
                                       from_zero("certain", canvas{}.certain)};
constexpr part_argument prefix_of[] = {count("period", prefix_cache{}.period, 0)};
constexpr part_argument dual_of[] = {count("period", dual_cache{}.period, 0),
                                     count("whole", dual_cache{}.whole, 1)};
constexpr part_argument block_of[] = {count("prompt_period", block_cache{}.prompt_period, 0),
                                      count("block_period", block_cache{}.block_period, 0),
                                      yes_or_no("reaches_back", block_cache{}.reaches_back),
                                      yes_or_no("aligned", block_cache{}.aligned)};
constexpr part_argument interval_of[] = {count("prompt_period", interval_cache{}.prompt_period, 0),
                                         count("answer_period", interval_cache{}.answer_period, 0)};
constexpr part_argument eviction_of[] = {share("keep", key_eviction{}.keep),
                                         count("delay", key_eviction{}.delay, 0),
                                         count("pool", key_eviction{}.pool, 1)};
constexpr part_argument delayed_of[] = {count("period", delayed_cache{}.period, 0)};
constexpr part_argument skip_of[] = {share("weight", early_skip{}.weight),
                                     reals_of("depths", "[0.125, 0.25]"),
                                     reals_of("keeps", "[0.5, 0.25]"),
                                     yes_or_no("floor", early_skip{}.floor),
                                     yes_or_no("cap", early_skip{}.cap),
                                     from_zero("first_open", early_skip{}.first_open),
                                     from_zero("committed", early_skip{}.committed),
                                     from_zero("confident", early_skip{}.confident),
                                     yes_or_no("forgets_held", early_skip{}.forgets_held),
                                     read(early_skip::reads, features)};
constexpr part_argument layer_budget_of[] = {
    count("budget", cache_budget{}.budget, 0),
    count("window", cache_budget{}.window, 0),
    count("full_layers", cache_budget{}.full_layers, 0),
    choice("share", "by_change|released", static_cast<int>(cache_budget{}.share)),
    choice("scope", "all|outside_window", static_cast<int>(cache_budget{}.scope)),
    yes_or_no("answer_only", cache_budget{}.answer_only),
    yes_or_no("latest_only", cache_budget{}.latest_only),
    yes_or_no("whole_window", cache_budget{}.whole_window),
    count("refresh_stride", cache_budget{}.refresh_stride, 0),
    read(cache_budget::reads, features)};
constexpr part_argument similarity_of[] = {share("share", similarity_refresh{}.share),
                                           read(similarity_refresh::reads, features)};
constexpr part_argument profile_of[] = {{.name = "file", .kind = argument_kind::file}};
constexpr part_argument sequence_of[] = {tokens_of("tokens"),
                                         count("min_tokens", stop_sequence<>{}.min_tokens, 0)};
constexpr part_argument budget_of[] = {count("steps", step_budget{}.steps, 1)};

}  // namespace unmask::detail::table
