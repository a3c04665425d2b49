// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The tokens that the constraints of a sequence leave possible, computed without the library.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "hostile/scenario.hpp"

namespace unmask::hostile {

/// Which tokens the constraints of a sequence leave possible, by sets of states before and after
/// each position. Shares no code with the library.
class fields_oracle {
 public:
  fields_oracle(const scenario& s, const sequence_plan& q)
      : q_(q) {
    if (q.fields.empty()) {
      return;
    }
    const testing::language& l = *s.language;
    vocab_ = static_cast<std::size_t>(s.model.vocab);
    states_ = l.bytes.accepting.size();
    ends_ = set{1} << states_;  // after an EOS token
    for (std::size_t state = 0; state <= states_; ++state) {
      const bool is_end = state == states_;
      ends_ |= !is_end && l.bytes.accepting[state] != 0 ? set{1} << state : 0;
      for (token_id v = 0; v < s.model.vocab; ++v) {
        const std::uint32_t next =
            l.walk({&v, 1}, is_end ? testing::language::ended : static_cast<std::uint32_t>(state));
        next_.push_back(next == dead_state                 ? 0
                        : next == testing::language::ended ? set{1} << states_
                                                           : set{1} << next);
      }
    }
    for (const field_plan& f : q.fields) {
      const std::uint32_t state = l.walk(f.before);
      starts_.push_back(state == dead_state                 ? 0
                        : state == testing::language::ended ? set{1} << states_
                                                            : set{1} << state);
      // The states from which so many tokens end a string; an EOS token may follow another.
      set after = ends_;
      const std::size_t steps =
          f.tokens_after == any_number ? states_ + 1 : static_cast<std::size_t>(f.tokens_after);
      for (std::size_t i = 0; i < steps; ++i) {
        set earlier = f.tokens_after == any_number ? after : 0;
        for_each_move(std::vector<bool>(vocab_, true), [&](std::size_t from, set to) {
          earlier |= (after & to) != 0 ? set{1} << from : 0;
        });
        after = earlier;
      }
      ends_of_.push_back(after);
    }
  }

  [[nodiscard]] bool has(index_t p) const {
    return std::any_of(q_.fields.begin(), q_.fields.end(), [&](const field_plan& f) {
      return range{f.first, f.last}.contains(p - q_.shape.prompt_length);
    });
  }

  /// The tokens that are possible at each position of a field, if the other tokens stay, and
  /// whether there is a string for each field. `usable(p, v)`: whether nothing else forbids a
  /// token; `token(p)`: that of a position, no_token if it is masked.
  struct answer {
    std::map<index_t, std::vector<bool>> possible;
    bool can_be_completed = true;
  };
  [[nodiscard]] answer of(const auto& usable, const auto& token) const {
    answer a;
    for (std::size_t k = 0; k < q_.fields.size(); ++k) {
      const field_plan& f = q_.fields[k];
      const index_t first = q_.shape.prompt_length + f.first;
      const auto size = static_cast<std::size_t>(f.last - f.first);
      std::vector<set> before(size + 1, starts_[k]);
      std::vector<set> after(size + 1, ends_of_[k]);  // from which the rest can be written
      std::vector<std::vector<bool>> may(size);
      for (std::size_t i = 0; i < size; ++i) {
        const index_t p = first + static_cast<index_t>(i);
        for (token_id v = 0; v < static_cast<token_id>(vocab_); ++v) {
          may[i].push_back(token(p) == no_token ? usable(p, v) : token(p) == v);
        }
        before[i + 1] = 0;
        for_each_move(may[i], [&](std::size_t from, set to) {
          before[i + 1] |= (before[i] >> from & 1U) != 0 ? to : 0;
        });
      }
      for (std::size_t i = size; i-- > 0;) {
        after[i] = 0;
        for_each_move(may[i], [&](std::size_t from, set to) {
          after[i] |= (after[i + 1] & to) != 0 ? set{1} << from : 0;
        });
      }
      a.can_be_completed = a.can_be_completed && (after[0] & starts_[k]) != 0;
      for (std::size_t i = 0; i < size; ++i) {
        const index_t p = first + static_cast<index_t>(i);
        std::vector<bool>& here = a.possible[p];
        for (token_id v = 0; v < static_cast<token_id>(vocab_); ++v) {
          bool any = false;
          for (std::size_t from = 0; from <= states_; ++from) {
            any = any || ((before[i] >> from & 1U) != 0 && (after[i + 1] & move(from, v)) != 0);
          }
          here.push_back(any && usable(p, v));
        }
      }
    }
    return a;
  }

 private:
  using set = std::uint32_t;
  [[nodiscard]] set move(std::size_t from, token_id v) const {
    return next_[from * vocab_ + static_cast<std::size_t>(v)];
  }
  void for_each_move(const std::vector<bool>& may, const auto& use) const {
    for (std::size_t from = 0; from <= states_; ++from) {
      for (token_id v = 0; v < static_cast<token_id>(vocab_); ++v) {
        if (may[static_cast<std::size_t>(v)]) {
          use(from, move(from, v));
        }
      }
    }
  }

  const sequence_plan& q_;
  std::size_t vocab_ = 0;
  std::size_t states_ = 0;
  set ends_ = 0;
  std::vector<set> next_;     ///< by state and token
  std::vector<set> starts_;   ///< by field
  std::vector<set> ends_of_;  ///< by field: from which the tokens after it end a string
};

}  // namespace unmask::hostile
