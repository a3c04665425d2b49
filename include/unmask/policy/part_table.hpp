// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/part_arguments.hpp>
#include <unmask/policy/profile_json.hpp>

/// What the entries of the table of parts do with their arguments.
namespace UNMASK_NAMESPACE {

namespace detail::table {

using parts = named_parts&;
using values = const argument_values&;

inline void rank(parts p, order by) {
  p.ranking.by = by;
}

template <class Leaf>
void admit_checked(parts p, values v, const Leaf& leaf) {
  if (p.admission.size() == admission_expression::capacity) {
    v.fail("an admission has at most " + std::to_string(admission_expression::capacity) + " parts");
  }
  p.admission.push(leaf);
}

template <class Leaf>
void admit(parts p, values v, const Leaf& leaf) {
  admit_checked(p, v, v.checked_part(leaf));
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

inline void choose_rows(parts p, const any_layer_rule& rule) {
  p.layers = rule;
  p.has.layered = true;
}

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

// Whether the profile is for the blocks of a sequence shows when one starts.
inline void add_profile_threshold(parts p, values v) {
  const auto read = [](const std::string& text) {
    return profile_from_json<profile_threshold<>::capacity>(text);
  };
  admit_checked(p, v, v.from_file(0, read));
}

inline void add_delayed_cache(parts p, values v) {
  feed(p, v, feeding::delayed, &any_cache::delayed, delayed_cache{v.whole(0)});
  p.has.layered = true;
}

inline void add_early_skip(parts p, values v) {
  early_skip s;
  s.weight = v.real(0);
  const std::vector<double>& depths = v.list(1);
  const std::vector<double>& keeps = v.list(2);
  if (!depths.empty() || !keeps.empty()) {
    if (depths.size() != keeps.size() || depths.size() > std::size_t{max_skip_stages}) {
      v.fail("early_skip has at most " + std::to_string(max_skip_stages) +
             " depths and as many keeps, this has " + std::to_string(depths.size()) + " and " +
             std::to_string(keeps.size()));
    }
    s.stage_count = static_cast<index_t>(depths.size());
    for (std::size_t i = 0; i < depths.size(); ++i) {
      s.stages[i] = {depths[i], keeps[i]};
    }
  }
  s.floor = v.yes(3);
  s.cap = v.yes(4);
  s.first_open = v.real(5);
  s.committed = v.real(6);
  s.confident = v.real(7);
  s.forgets_held = v.yes(8);
  choose_rows(p, any_layer_rule(v.checked_part(s), v.word<feature>(9)));
}

inline void add_cache_budget(parts p, values v) {
  cache_budget b;
  b.budget = v.whole(0);
  b.window = v.whole(1);
  b.full_layers = v.whole(2);
  b.share = v.word<sharing>(3);
  b.scope = v.word<budget_scope>(4);
  b.answer_only = v.yes(5);
  b.latest_only = v.yes(6);
  b.whole_window = v.yes(7);
  b.refresh_stride = v.whole(8);
  choose_rows(p, any_layer_rule(v.checked_part(b), v.word<feature>(9)));
}

inline void add_similarity_refresh(parts p, values v) {
  const similarity_refresh s{v.exact(0)};
  choose_rows(p, any_layer_rule(v.checked_part(s), v.word<feature>(1)));
}

inline void add_stop_sequence(parts p, values v) {
  stop_sequence<any_stops::longest> s;
  list_tokens(v, s, v.list(0));
  s.min_tokens = v.whole(1);
  stop(p, v, s);
}

}  // namespace detail::table

}  // namespace unmask
