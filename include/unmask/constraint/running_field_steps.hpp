// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/running_field.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/math.hpp>

#include <algorithm>

/// Definitions of running_field.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

UNMASK_LIBRARY void chain::changed(index_t j) {
  if (j >= sets_.end) {
    sets_.ok = math::min(sets_.ok, j);
    return;
  }
  const bool waits = sets_.ok < sets_.end;  // an earlier change was not computed to its end:
  if (waits) {                              // set ok + 1 did not follow from set ok
    same_from_ = math::max(same_from_, sets_.ok + 1);
  }
  same_from_ = waits ? math::max(same_from_, j + 1) : j + 1;
  sets_.ok = math::min(sets_.ok, j);
}

UNMASK_LIBRARY running_field::running_field(std::shared_ptr<set_pool> pool,
                                            const constrained_field& field,
                                            index_t first,
                                            std::span<const token_id> tokens,
                                            const answer_start& with)
    : pool_(std::move(pool))
    , size_(static_cast<index_t>(tokens.size()))
    , fills_(field.fill)
    , suppressed_(with.suppressed.begin(), with.suppressed.end())
    , symbols_(tokens.size())
    , restrictions_(tokens.size(), set_pool::most_restrictions)
    , sets_of_left_(tokens.size() + 1)
    , sets_of_right_(tokens.size() + 1)
    , changed_last_(size_) {
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
  sets_[0] = {sets_of_left_.data(), size_ + 1};
  sets_[1] = {sets_of_right_.data(), size_ + 1};
  pool_->add(sets_, 2);
  is_registered_ = true;
#if defined(__cpp_exceptions)
  try {
#endif
    take_restrictions(first, with);
    take_tokens(first, tokens);
    sets_of_left_[0] = pool_->set_of(first_state_);
    sets_[0].ok = sets_[0].end = 0;
    sets_of_right_[0] = pool_->suffix(field.tokens_after);
    sets_[1].ok = sets_[1].end = 0;
    check(field, first, tokens);
#if defined(__cpp_exceptions)
  } catch (...) {  // the destructor of an object that was not made is not called
    leave();
    throw;
  }
#endif
}

UNMASK_LIBRARY void running_field::leave() {
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

UNMASK_LIBRARY bool running_field::is_suppressed(token_id token) const {
  return std::find(suppressed_.begin(), suppressed_.end(), token) != suppressed_.end();
}

// Finds, for each position, the classes with a token that may be proposed there.
UNMASK_LIBRARY void running_field::take_restrictions(index_t first, const answer_start& with) {
  const token_automaton& a = pool_->automaton();
  std::vector<std::uint64_t> usable(a.class_words());
  for (index_t at = 0; at < size_; ++at) {
    if (at == 0 || with.allows != nullptr) {
      std::fill(usable.begin(), usable.end(), 0);
      for (std::uint32_t c = 0; c < a.classes; ++c) {
        bool any = a.size_of(c) == 0;  // a class without tokens is on no edge
        for (std::uint32_t k = a.first_token[c]; k < a.first_token[c + 1] && !any; ++k) {
          any = !is_suppressed(a.tokens[k]) &&
                (with.allows == nullptr || with.allows(with.policy, a.tokens[k], first + at));
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

UNMASK_LIBRARY void running_field::take_tokens(index_t first, std::span<const token_id> tokens) {
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
UNMASK_LIBRARY void running_field::check(const constrained_field& field,
                                         index_t first,
                                         std::span<const token_id> tokens) {
  if (pool_->intersects(left_of(0), right_of(-1))) {
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
    const bool is_given = !is_masked(at);
    set = pool_->forward(set, is_given ? symbols_[static_cast<std::size_t>(at)] : pool_->any(0));
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

UNMASK_LIBRARY std::uint32_t running_field::left_of(index_t at) {
  left_.compute(
      at,
      [&](index_t k) {
        return pool_->forward(sets_of_left_[static_cast<std::size_t>(k)],
                              symbols_[static_cast<std::size_t>(k)]);
      },
      [&](index_t k) {
        changed_first_ = math::min(changed_first_, k);
        changed_last_ = math::max(changed_last_, k + 1);
      });
  return sets_of_left_[static_cast<std::size_t>(at)];
}

// Set j from the right is that after j positions; it is right of position size - 1 - j.
UNMASK_LIBRARY std::uint32_t running_field::right_of(index_t at) {
  const index_t j = size_ - 1 - at;
  right_.compute(
      j,
      [&](index_t k) {
        return pool_->backward(sets_of_right_[static_cast<std::size_t>(k)],
                               symbols_[static_cast<std::size_t>(size_ - 1 - k)]);
      },
      [&](index_t k) {
        changed_first_ = math::min(changed_first_, size_ - 1 - k);
        changed_last_ = math::max(changed_last_, size_ - k);
      });
  return sets_of_right_[static_cast<std::size_t>(j)];
}

UNMASK_LIBRARY std::uint32_t running_field::possible(index_t at) {
  static_cast<void>(left_of(at));
  const std::uint32_t right = right_of(at);
  return pool_->between(left_of(at), right);  // a flush may have renamed the left one
}

UNMASK_LIBRARY const std::uint32_t* running_field::mask(index_t at, const std::uint32_t* given) {
  const std::uint32_t classes = possible(at);
  return given == nullptr ? pool_->mask(classes) : pool_->mask(classes, given);
}

UNMASK_LIBRARY bool running_field::admits(index_t at, token_id token) {
  const std::uint32_t by = pool_->automaton().class_at(token);
  if (by == no_class) {
    return false;
  }
  static_cast<void>(right_of(at));
  const std::uint32_t after = pool_->forward(left_of(at), by);
  return pool_->intersects(after, right_of(at));
}

UNMASK_LIBRARY void running_field::write(index_t at, token_id token) {
  const auto i = static_cast<std::size_t>(at);
  const std::uint32_t symbol =
      token == no_token ? pool_->any(restrictions_[i]) : pool_->automaton().class_at(token);
  if (symbols_[i] == symbol) {
    return;
  }
  if (symbol == no_class) {  // no string has it: the end of a sequence was not the language's
    is_broken_ = true;
    return;
  }
  if (token == no_token) {  // what is possible there has not changed, but was not looked at
    changed_first_ = math::min(changed_first_, at);
    changed_last_ = math::max(changed_last_, at + 1);
  }
  symbols_[i] = symbol;
  left_.changed(at);
  right_.changed(size_ - 1 - at);
}

void running_field::for_each_usable(index_t at, const auto& use) {
  const std::uint32_t classes = possible(at);
  const std::uint64_t* const usable =
      pool_->restriction(restrictions_[static_cast<std::size_t>(at)]);
  const std::uint64_t* const found = pool_->classes(classes);
  for (std::size_t w = 0; w < pool_->automaton().class_words(); ++w) {
    for (std::uint64_t left = found[w] & usable[w]; left != 0; left &= left - 1) {
      if (!use(static_cast<std::uint32_t>(64 * w) +
               static_cast<std::uint32_t>(__builtin_ctzll(left)))) {
        return;
      }
    }
  }
}

UNMASK_LIBRARY token_id running_field::lowest(index_t at) {
  const token_automaton& a = pool_->automaton();
  token_id best = no_token;
  for_each_usable(at, [&](std::uint32_t c) {
    for (std::uint32_t k = a.first_token[c]; k < a.first_token[c + 1]; ++k) {
      if (!is_suppressed(a.tokens[k])) {
        best = math::min(best, a.tokens[k]);
        break;
      }
    }
    return true;
  });
  return best;
}

// Looks at transitions that are alive until two tokens are found, which is usually at once.
UNMASK_LIBRARY token_id running_field::certain(index_t at) {
  const token_automaton& a = pool_->automaton();
  static_cast<void>(left_of(at));
  static_cast<void>(right_of(at - 1));
  const std::uint64_t* const left = pool_->states_in(left_of(at));
  // For a written token, the states before it and not only those that it leads from.
  const std::uint64_t* const alive =
      pool_->states_in(is_masked(at) ? right_of(at - 1) : left_of(at));
  const std::uint64_t* const right = pool_->states_in(right_of(at));
  const std::uint64_t* const usable =
      pool_->restriction(restrictions_[static_cast<std::size_t>(at)]);
  token_id found = no_token;
  const auto is_second = [&](std::uint32_t c) {
    for (std::uint32_t k = a.first_token[c]; k < a.first_token[c + 1]; ++k) {
      if (a.tokens[k] != found && !is_suppressed(a.tokens[k])) {
        if (found != no_token) {
          return true;
        }
        found = a.tokens[k];
      }
    }
    return false;
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

UNMASK_LIBRARY index_t running_field::next_certain(index_t at, token_id& token) {
  if (!fills_) {
    return size_;
  }
  if (at == 0) {  // all sets, so that the changed ones are known
    static_cast<void>(left_of(size_));
    static_cast<void>(right_of(-1));
  }
  for (index_t i = math::max(at, changed_first_); i < math::min(changed_last_, size_); ++i) {
    token = is_masked(i) ? certain(i) : no_token;
    if (token != no_token) {
      return i;
    }
  }
  changed_first_ = size_;
  changed_last_ = 0;
  return size_;
}

UNMASK_LIBRARY std::uint32_t running_field::state() {
  return is_registered_ ? state_of(symbols_.data()) : last_state_;
}

UNMASK_LIBRARY bool running_field::finish() {
  bool is_met = is_registered_ && !is_broken_;
  for (index_t at = 0; at < size_ && is_met; ++at) {
    const std::uint32_t symbol = symbols_[static_cast<std::size_t>(at)];
    is_met = symbol < pool_->automaton().classes;
  }
  is_met = is_met && pool_->intersects(left_of(size_), sets_of_right_[0]);
  last_state_ = state();
  leave();
  return is_met;
}

}  // namespace unmask::detail::constraints
