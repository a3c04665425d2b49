// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/running_field.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/math.hpp>

#include <algorithm>

/// Definitions of running_field.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

UNMASK_LIBRARY interned_sets::interned_sets(std::shared_ptr<set_pool> pool,
                                            const constrained_field& field,
                                            index_t first,
                                            std::span<const token_id> tokens,
                                            const answer_start& with)
    : pool_(std::move(pool))
    , size_(static_cast<index_t>(tokens.size()))
    , lowest_of_(pool_->automaton().classes, no_token)
    , has_several_(lowest_of_.size())
    , symbols_(tokens.size())
    , restrictions_(tokens.size(), set_pool::most_restrictions)
    , sets_of_left_(tokens.size() + 1)
    , sets_of_right_(tokens.size() + 1) {
  const token_automaton& a = pool_->automaton();
  check_argument(field.state == from_start || field.state < a.states,
                 "constrained_field::state",
                 field.state,
                 "from_start or less than the number of states, ",
                 a.states);
  check_argument(field.tokens_after >= any_number && field.tokens_after <= (index_t{1} << 20),
                 "constrained_field::tokens_after",
                 field.tokens_after,
                 "any_number or in [0, 2^20]");
  first_state_ = field.state == from_start ? a.start : field.state;
  where = {first, first + size_};
  fills = field.fill;
  reads_again = field.read_again || with.read_again;
  changed_last = size_;
  of_left.ok = of_left.end = of_right.ok = of_right.end = -1;
  sets_[0] = {sets_of_left_.data(), size_ + 1, &of_left};
  sets_[1] = {sets_of_right_.data(), size_ + 1, &of_right};
  take_proposed(with.suppressed);
  pool_->add(sets_, 2);
  is_registered_ = true;
#if defined(__cpp_exceptions)
  try {
#endif
    take_restrictions(first, with);
    take_tokens(first, tokens);
    sets_of_left_[0] = pool_->set_of(first_state_);
    of_left.ok = of_left.end = 0;
    sets_of_right_[0] = pool_->suffix(field.tokens_after);
    of_right.ok = of_right.end = 0;
    check(field, first, tokens);
#if defined(__cpp_exceptions)
  } catch (...) {  // the destructor of an object that was not made is not called
    leave();
    throw;
  }
#endif
}

UNMASK_LIBRARY void interned_sets::leave() {
  if (is_registered_) {
    pool_->remove(sets_, 2);
    is_registered_ = false;
  }
  for (std::uint32_t& r : restrictions_) {
    if (r < set_pool::most_restrictions) {
      pool_->drop_restriction(r);
      r = set_pool::most_restrictions;
    }
  }
}

UNMASK_LIBRARY void interned_sets::take_proposed(std::span<const token_id> suppressed) {
  const token_automaton& a = pool_->automaton();
  for (std::uint32_t c = 0; c < a.classes; ++c) {
    for (std::uint32_t k = a.first_token[c]; k < a.first_token[c + 1] && has_several_[c] == 0;
         ++k) {
      if (std::find(suppressed.begin(), suppressed.end(), a.tokens[k]) == suppressed.end()) {
        has_several_[c] = lowest_of_[c] != no_token ? 1 : 0;
        lowest_of_[c] = math::min(lowest_of_[c], a.tokens[k]);
      }
    }
  }
}

// Finds, for each position, the classes with at least one token that may be proposed there.
UNMASK_LIBRARY void interned_sets::take_restrictions(index_t first, const answer_start& with) {
  const token_automaton& a = pool_->automaton();
  std::vector<std::uint64_t> usable(a.class_words());
  for (index_t at = 0; at < size_; ++at) {
    if (at == 0 || with.allows != nullptr) {
      std::fill(usable.begin(), usable.end(), 0);
      for (std::uint32_t c = 0; c < a.classes; ++c) {
        bool any = a.size_of(c) == 0;  // a class without tokens is on no edge
        any = any || (lowest_of_[c] != no_token && with.allows == nullptr);
        for (std::uint32_t k = a.first_token[c];
             with.allows != nullptr && k < a.first_token[c + 1] && !any;
             ++k) {
          any = std::find(with.suppressed.begin(), with.suppressed.end(), a.tokens[k]) ==
                    with.suppressed.end() &&
                with.allows(with.policy, a.tokens[k], first + at);
        }
        if (any) {
          add_bit(usable.data(), c);
        }
      }
    }
    const std::uint32_t r = pool_->take_restriction(usable.data());
    check_argument(r < set_pool::most_restrictions,
                   "sets of tokens that running sequences exclude",
                   r,
                   "less than ",
                   set_pool::most_restrictions,
                   " for one constraint: make another with constraint::another()");
    restrictions_[static_cast<std::size_t>(at)] = r;
  }
}

UNMASK_LIBRARY void interned_sets::take_tokens(index_t first, std::span<const token_id> tokens) {
  const token_automaton& a = pool_->automaton();
  for (index_t at = 0; at < size_; ++at) {
    const auto i = static_cast<std::size_t>(at);
    const token_id token = tokens[i];
    if (token == no_token) {
      symbols_[i] = pool_->any(restrictions_[i]);
      continue;
    }
    symbols_[i] = a.class_at(token);
    if (symbols_[i] == no_class) {
      message()
          .add("constraint: position ")
          .add(first + at)
          .add(" holds token ")
          .add(token)
          .add(", which no string of the language has there")
          .refuse();
    }
  }
}

// Refuses a field that no string of the language fills, and says why.
UNMASK_LIBRARY void interned_sets::check(const constrained_field& field,
                                         index_t first,
                                         std::span<const token_id> tokens) {
  extend(serial{}, 0, size_);
  if (pool_->intersects(sets_of_left_[0], sets_of_right_.back())) {
    return;
  }
  const token_automaton& a = pool_->automaton();
  const std::uint64_t room = static_cast<std::uint64_t>(size_) +
                             static_cast<std::uint64_t>(math::max(field.tokens_after, index_t{0}));
  if (field.tokens_after != any_number && a.distance[first_state_] > room) {
    message()
        .add("constraint needs at least ")
        .add(a.distance[first_state_])
        .add(" tokens, but the answer has ")
        .add(room)
        .add(": lengthen the answer or shorten the schema")
        .refuse();
  }
  // The lengths again, without what the request excludes, token by token.
  std::uint32_t set = pool_->set_of(first_state_);
  for (index_t at = 0; at < size_; ++at) {
    const bool is_given = symbol(at) < a.classes;
    set = pool_->forward(set, is_given ? symbol(at) : pool_->any(0));
    if (is_given && !pool_->intersects(set, set)) {
      message()
          .add("constraint: position ")
          .add(first + at)
          .add(" holds token ")
          .add(tokens[static_cast<std::size_t>(at)])
          .add(", which no string of the language has there")
          .refuse();
    }
  }
  if (pool_->intersects(set, sets_of_right_[0])) {
    message()
        .add(
            "constraint: the tokens that are suppressed, or that the policy excludes, are in every "
            "string of the language")
        .refuse();
  }
  const bool any_given =
      std::any_of(tokens.begin(), tokens.end(), [](token_id v) { return v != no_token; });
  message()
      .add("constraint: no answer of ")
      .add(room)
      .add(" tokens is in the language")
      .add(any_given ? " with the tokens that are given" : "")
      .add(a.end_class == no_class ? ": without eos_token the length must be exact" : "")
      .refuse();
}

// The pool reads the chains where it forgets sets, so each is right before the next operation.
UNMASK_LIBRARY void interned_sets::extend(const serial& /*t*/, index_t to_left, index_t to_right) {
  while (of_left.ok < to_left) {
    const auto k = static_cast<std::size_t>(of_left.ok);
    const std::uint32_t set = pool_->forward(sets_of_left_[k], symbols_[k]);
    const bool differs = sets_of_left_[k + 1] != set;
    sets_of_left_[k + 1] = set;
    if (of_left.advance(differs)) {
      note_changed(of_left.ok);
    }
  }
  while (of_right.ok < to_right) {
    const auto k = static_cast<std::size_t>(of_right.ok);
    const std::uint32_t set = pool_->backward(sets_of_right_[k], symbols_[symbols_.size() - 1 - k]);
    const bool differs = sets_of_right_[k + 1] != set;
    sets_of_right_[k + 1] = set;
    if (of_right.advance(differs)) {
      note_changed(size_ - 1 - of_right.ok);
    }
  }
}

UNMASK_LIBRARY bool interned_sets::leads(const serial& /*t*/, std::uint32_t c, index_t at) {
  const std::uint32_t after = pool_->forward(left_of(at), c);
  return pool_->intersects(after, right_of(at));  // a flush may have renamed the right one
}

UNMASK_LIBRARY const std::uint32_t* interned_sets::mask(index_t at, const std::uint32_t* given) {
  extend(serial{}, at, size_ - 1 - at);
  const std::uint32_t possible = pool_->between(left_of(at), right_of(at));
  return given == nullptr ? pool_->mask(possible) : pool_->mask(possible, given);
}

// Looks at transitions that are alive until two tokens are found, which is usually at once.
UNMASK_LIBRARY token_id interned_sets::certain_at(const serial& /*t*/, index_t at) const {
  const token_automaton& a = pool_->automaton();
  const std::uint64_t* const left = pool_->states_in(left_of(at));
  // For a masked position whose right set is known, only states that lead on.
  const bool is_known = symbol(at) >= a.classes && of_right.ok >= size_ - at;
  const std::uint64_t* const alive = is_known ? pool_->states_in(right_of(at - 1)) : left;
  const std::uint64_t* const right = pool_->states_in(right_of(at));
  const std::uint64_t* const usable = usable_at(at);
  token_id found = no_token;
  const auto is_second = [&](std::uint32_t c) {
    const token_id token = lowest_of_[c];
    const bool is_first = found == no_token || found == token;
    found = token != no_token ? token : found;
    return token != no_token && (!is_first || has_several_[c] != 0);
  };
  for (std::size_t w = 0; w < a.state_words(); ++w) {
    for (std::uint64_t states = left[w] & alive[w]; states != 0; states &= states - 1) {
      const std::size_t q = 64 * w + static_cast<std::size_t>(__builtin_ctzll(states));
      for (std::uint32_t k = a.first_pair[q]; k < a.first_pair[q + 1]; ++k) {
        if (!has_bit(right, a.pair_next[k])) {
          continue;
        }
        const std::uint64_t* const by = a.labels.data() + a.class_words() * a.pair_label[k];
        for (std::size_t v = 0; v < a.class_words(); ++v) {
          for (std::uint64_t left_over = by[v] & usable[v]; left_over != 0;
               left_over &= left_over - 1) {
            if (is_second(static_cast<std::uint32_t>(64 * v) +
                          static_cast<std::uint32_t>(__builtin_ctzll(left_over)))) {
              return no_token;
            }
          }
        }
      }
    }
  }
  return found;
}

}  // namespace unmask::detail::constraints
