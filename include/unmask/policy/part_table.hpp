// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/known_part.hpp>

/// The one table of the parts that have a name. A new one is one more entry; help texts, checks and
/// the documentation of bindings come from it.
namespace UNMASK_NAMESPACE {

namespace detail::table {

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
constexpr part_argument reals_of(std::string_view name) {
  return {.name = name, .kind = reals};
}

using parts = named_parts&;
using values = const argument_values&;

inline void rank(parts p, order by) {
  p.ranking.by = by;
}

template <class Leaf>
void admit(parts p, values v, const Leaf& leaf) {
  if (p.admission.size() == admission_expression::capacity) {
    v.fail("an admission has at most " + std::to_string(admission_expression::capacity) + " parts");
  }
  p.admission.push(v.checked_part(leaf));
}

// Watches and answers that the parts without a memory need together.
template <class Part>
void revise(parts p, values v, const Part& part, index_t watched, index_t asked = 0) {
  index_t used = watched;
  index_t asks = asked;
  for (index_t i = 0; i < p.revisions.count; ++i) {
    used += p.revisions.rules[i].visit_on_host([](const auto& r) {
      using rule = std::remove_cvref_t<decltype(r)>;
      if constexpr (requires { r.count; }) {
        return r.count;
      } else if constexpr (std::is_same_v<position_state_of<rule>, no_state>) {
        return rule::watches;
      } else {
        return index_t{0};
      }
    });
    asks += p.revisions.rules[i].visit_on_host([](const auto& r) {
      if constexpr (inquiring<std::remove_cvref_t<decltype(r)>>) {
        return r.count;
      } else {
        return index_t{0};
      }
    });
  }
  const auto fail_above = [&v](index_t count, index_t most, const char* what) {
    if (count > most) {
      v.fail("a policy by name has at most " + std::to_string(most) + " " + what + ", this is " +
             std::to_string(count));
    }
  };
  fail_above(p.revisions.count + 1, revision_list::capacity, "parts that edit or ask about tokens");
  fail_above(used, revision_list::most_watched, "tokens watched at a position");
  fail_above(asks, revision_list::most_asked, "tokens asked about at a position");
  p.revisions.rules[p.revisions.count++] = v.checked_part(part);
  p.has.watches = true;
}

// Fills part.tokens and part.count.
template <class Part>
void list_tokens(values v, Part& part, const std::vector<double>& from) {
  if (from.empty() || from.size() > std::size(part.tokens)) {
    v.fail("a list here has 1 to " + std::to_string(std::size(part.tokens)) + " tokens, this has " +
           std::to_string(from.size()));
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    part.tokens[i] = static_cast<token_id>(from[i]);
  }
  part.count = static_cast<index_t>(from.size());
}

template <class Rule>
void stop(parts p, values v, const Rule& rule) {
  if (p.stops.count == any_stops::capacity) {
    v.fail("a policy by name has at most " + std::to_string(any_stops::capacity) + " stops");
  }
  p.stops.rules[p.stops.count++] = v.checked_part(rule);
}

template <class Cache>
void feed(parts p, values v, feeding how, Cache any_cache::*place, const Cache& cache) {
  p.cache.how = how;
  p.cache.*place = v.checked_part(cache);
}

inline void keep(parts p, const truncation& rule) {
  p.has.keeps = true;
  p.keep.rules = p.keep.rules.tightened(rule);
}

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
    count("at_once", block_pipeline{}.at_once, 1, max_active_blocks)};
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
constexpr part_argument sequence_of[] = {tokens_of("tokens"),
                                         count("min_tokens", stop_sequence<>{}.min_tokens, 0)};
constexpr part_argument budget_of[] = {count("steps", step_budget{}.steps, 1)};

inline void add_adaptive_threshold(parts p, values v) {
  p.has.compares = true;
  admit(p,
        v,
        adaptive_threshold{
            v.real(0), v.real(1), v.real(2), v.real(3), v.word<threshold_scope>(4), v.whole(5)});
}

inline void add_stable_and_confident(parts p, values v) {
  p.has.compares = true;
  admit(p, v, stable_and_confident{v.real(0), v.real(1), v.whole(2)});
}

inline void add_credit(parts p, values v) {
  v.take_only(p.has.remembers, "credit");
  revise(p, v, trace_credit<>{v.real(0), v.real(1), v.real(2)}, 0);
}

inline void add_adaptive_credit(parts p, values v) {
  v.take_only(p.has.remembers, "credit");
  revise(p, v, adaptive_credit<>{v.word<settled_share>(0)}, 0);
}

inline void add_logit_bias(parts p, values v) {
  const std::vector<double>& tokens = v.list(0);
  logit_bias<revision_list::most_tokens> b;
  if (tokens.empty() || tokens.size() > std::size(b.pairs) || tokens.size() != v.list(1).size()) {
    v.fail("logit_bias has 1 to " + std::to_string(std::size(b.pairs)) +
           " tokens and as many biases, this has " + std::to_string(tokens.size()) + " and " +
           std::to_string(v.list(1).size()));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    b.pairs[i] = {static_cast<token_id>(tokens[i]), static_cast<float>(v.list(1)[i])};
  }
  revise(p, v, b, b.watches);
}

inline void add_repetition_penalty(parts p, values v) {
  const repetition_penalty<> r{v.real(0), v.whole(1), v.yes(2)};
  revise(p, v, r, r.watches);
}

inline void add_count_penalty(parts p, values v) {
  const count_penalty<> r{v.real(0), v.real(1), v.whole(2), v.yes(3)};
  revise(p, v, r, r.watches);
}

inline void add_token_list(parts p, values v) {
  token_list<revision_list::most_tokens> l;
  list_tokens(v, l, v.list(0));
  l.first = v.whole(1);
  l.last = v.whole(2);
  revise(p, v, l, l.count);
}

inline void add_probability_of(parts p, values v) {
  probability_of<revision_list::most_tokens> q;
  list_tokens(v, q, v.list(0));
  q.first = v.whole(1);
  q.last = v.whole(2);
  revise(p, v, q, q.count, q.count);
}

inline void add_sampling(parts p, values v) {
  p.has.draws = true;
  p.draw = v.checked_part(sampling{v.real(0)});
}

inline void add_edit_settled(parts p, values v) {
  v.take_only(p.revisits.edits, "edit_settled");
  p.has.revisits = true;
  p.revisits.edit = v.checked_part(edit_settled{v.real(0)});
}

inline void add_reopen_below(parts p, values v) {
  v.take_only(p.revisits.reopens, "reopen_below");
  p.has.revisits = true;
  p.revisits.reopens_first = !p.revisits.edits;
  p.revisits.reopen = v.checked_part(reopen_below{v.real(0), v.whole(1)});
}

inline void add_remask_below(parts p, values v) {
  v.take_only(p.has.remasks, "remask_below");
  p.remask = v.checked_part(remask_below{v.real(0)});
}

inline void add_lookahead(parts p, values v) {
  p.has.branches = true;
  p.look = v.checked_part(lookahead_by<any_worth>{
      v.whole(0), v.real(1), v.real(2), v.yes(3), v.yes(4), v.yes(5), {v.word<order>(6)}});
}

inline void add_canvas(parts p, values v) {
  p.has.paints = true;
  p.paint = v.checked_part(canvas{1, v.whole(0), v.real(1), v.real(2), v.whole(3), v.real(4)});
}

inline void add_block_cache(parts p, values v) {
  feed(p,
       v,
       feeding::block,
       &any_cache::block,
       block_cache{v.whole(0), v.whole(1), v.yes(2), v.yes(3)});
}

inline void add_interval_cache(parts p, values v) {
  feed(p, v, feeding::interval, &any_cache::interval, interval_cache{v.whole(0), v.whole(1)});
}

inline void add_key_eviction(parts p, values v) {
  v.take_only(p.cache.drops_keys, "key_eviction");
  p.cache.dropped = v.checked_part(key_eviction{v.exact(0), v.whole(1), v.whole(2)});
}

inline void add_stop_sequence(parts p, values v) {
  stop_sequence<any_stops::longest> s;
  list_tokens(v, s, v.list(0));
  s.min_tokens = v.whole(1);
  stop(p, v, s);
}

}  // namespace detail::table

}  // namespace unmask
