// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/core/math.hpp>
#include <unmask/core/thread_group.hpp>

#include <cstddef>
#include <cstdint>

/// The rule of constraints, the same for every backend. A backend provides the sets of states
/// between the tokens of a field: interned sets on the host (constraint/running_field.hpp), bits in
/// memory where a step can call nothing of the host (step/field_walk.hpp).
namespace UNMASK_NAMESPACE::detail {

/// Which sets of states between the tokens of a field are valid, from one end: set j is the set
/// after j tokens. A change of a token makes the sets after it invalid. They are computed again
/// when they are needed, up to the first that is as before.
struct set_chain {
  index_t ok = 0;         ///< sets 0 to ok are valid
  index_t end = 0;        ///< sets ok + 1 to end are as they were before the last changes
  index_t same_from = 0;  ///< sets from here to the end followed from each other before them

  /// The token after set j has changed.
  UNMASK_HD void changed(index_t j) {
    if (j < end) {
      // If an earlier change was not computed to its end, set ok + 1 did not follow from set ok.
      const bool waits = ok < end;
      same_from = waits ? math::max(same_from, math::max(ok, j) + 1) : j + 1;
    }
    ok = math::min(ok, j);
  }
  /// Set ok + 1 was computed. Returns true if it is not what it was, or was not known.
  UNMASK_HD bool advance(bool differs) {
    const bool is_new = differs || ok + 1 > end;
    if (is_new) {
      end = math::max(end, ++ok);
    } else {
      ok = ok + 1 >= same_from ? end : ok + 1;
    }
    return is_new;
  }
};

/// State of a field in addition to its sets.
struct field_state {
  range where;               ///< positions of the sequence
  bool fills = true;         ///< as constrained_field::fill
  bool reads_again = false;  ///< as constrained_field::read_again
  bool is_broken = false;    ///< a token was written that no string of the language has
  set_chain of_left = {};
  set_chain of_right = {};
  // Positions whose possible tokens may have changed since they were last looked at; also those
  // that the sets at both ends would belong to, -1 and the size.
  index_t changed_first = 0;
  index_t changed_last = 0;

  UNMASK_HD void note_changed(index_t p) {
    changed_first = math::min(changed_first, p);
    changed_last = math::max(changed_last, p + 1);
  }
};

/// A constrained field of a running sequence. Functions with a thread group are called by all of
/// its lanes, and are barriers; one lane alone passes serial. Positions count from the beginning of
/// the field.
///
/// Let F be the states that the tokens left of a position can lead to, and B the states from which
/// the tokens right of it can lead to acceptance. A token is possible at the position exactly if it
/// leads from a state of F to a state of B.
///
/// `Sets` is a field_state with, for its positions: size(); symbol(p), the class of the token at a
/// position or, at a masked position, masked_symbol(p), which is at least classes();
/// class_at(token), no_class for a token that no string has. extend(t, l, r) computes the sets up
/// to set l from the left and up to set r from the right. Of a position whose two sets are known:
/// leads(t, c, p) is true if class c is possible there, is_usable(p, c) if a token of the class may
/// be proposed, lowest_in(c) is the lowest such token, and certain_at(b, p) is the only usable
/// token, by each warp of `b` alone. ends_meet(t), of a field whose sets from the left are known,
/// is true in a lane that finds an accepted end.
template <class Sets>
struct field_over : Sets {
  using Sets::Sets;

  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD bool is_masked(index_t p) const {
    return this->symbol(p) >= this->classes();
  }
  /// Computes the sets on both sides of a position.
  UNMASK_CALLS_HOST
  template <class Group>
  UNMASK_HD void know(const Group& t, index_t p) {
    this->extend(t, p, this->size() - 1 - p);
  }

  /// True if a string of the language has the token there and the other tokens where they are.
  UNMASK_CALLS_HOST
  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t p, token_id token) {
    const std::uint32_t c = this->class_at(token);
    if (c == Sets::no_class) {
      return false;
    }
    know(t, p);
    return this->leads(t, c, p);
  }

  /// One lane: writes a token, or masks the position with no_token. A barrier before the sets are
  /// asked for.
  UNMASK_CALLS_HOST
  UNMASK_HD void write(index_t p, token_id token) {
    const std::uint32_t symbol = token == no_token ? this->masked_symbol(p) : this->class_at(token);
    if (this->symbol(p) == symbol) {
      return;
    }
    if (symbol == Sets::no_class) {  // the end of a sequence was not the language's
      this->is_broken = true;
      return;
    }
    if (token == no_token) {  // what is possible there has not changed, but was not looked at
      this->note_changed(p);
    }
    this->set_symbol(p, symbol);
    this->of_left.changed(p);
    this->of_right.changed(this->size() - 1 - p);
  }

  /// One lane: true if the field is filled and no other token is possible at a position.
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD bool is_certain(index_t p) {
    if (!this->fills) {
      return false;
    }
    know(serial{}, p);
    return this->certain_at(serial{}, p) != no_token;
  }

  /// One lane: the lowest token that is possible at a position and may be proposed; no_token if
  /// there is none.
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD token_id lowest(index_t p) {
    know(serial{}, p);
    token_id best = no_token;
    for (std::uint32_t c = 0; c < this->classes(); ++c) {
      if (this->lowest_in(c) < best && this->is_usable(p, c) && this->leads(serial{}, c, p)) {
        best = this->lowest_in(c);
      }
    }
    return best;
  }

  /// Writes the tokens that are certain, and calls put(p, token) for each in lane 0, by position.
  /// All sets are known then, unless the field is not filled and Sets::keeps_all is false.
  /// `certain` has room for a token at each position. What is certain is in every string that is
  /// left, so filling it makes nothing else certain, and nothing uncertain: a warp looks at a
  /// position, one lane writes.
  UNMASK_CALLS_HOST
  template <class Block>
  UNMASK_HD void fill(const Block& b, token_id* certain, const auto& put) {
    if (this->fills || Sets::keeps_all) {
      this->extend(b, this->size(), this->size());
    }
    if (!this->fills) {
      return;
    }
    const index_t first = math::max(this->changed_first, 0);
    const index_t last = math::min(this->changed_last, this->size());
    for (index_t p = first + b.warp(); p < last; p += b.warps()) {
      const token_id token = is_masked(p) ? this->certain_at(b, p) : no_token;
      if (b.warp_lane() == 0) {
        certain[p] = token;
      }
    }
    b.sync();
    if (b.lane() == 0) {
      for (index_t p = first; p < last; ++p) {
        if (certain[p] != no_token) {
          put(p, certain[p]);
          write(p, certain[p]);
        }
      }
    }
    b.sync();
    this->extend(b, this->size(), this->size());
    if (b.lane() == 0) {
      this->changed_first = this->size();
      this->changed_last = 0;
    }
  }

  /// True if the tokens are a string of the language.
  UNMASK_CALLS_HOST
  template <class Group>
  [[nodiscard]] UNMASK_HD bool is_met(const Group& t) {
    this->extend(t, this->size(), 0);
    bool is_whole = true;
    for (index_t p = t.lane(); p < this->size(); p += t.lanes()) {
      is_whole = is_whole && !is_masked(p);
    }
    const std::uint64_t all = t.any((this->ends_meet(t) ? 1U : 0U) | (is_whole ? 0U : 2U));
    return all == 1 && !this->is_broken;
  }
};

/// The constraints of a sequence: its fields, by position in the sequence;
/// outside all fields everything is possible.
template <class Field>
struct answer_over {
  index_t count = 0;  ///< of fields; 0: the sequence has no constraints
  Field* fields = nullptr;
  /// Room for a token at each position of the answer, and one more.
  placed_token* placed = nullptr;
  /// By position of a field: the token that is certain there.
  token_id* certain = nullptr;

  placed_token chosen{0, no_token, false};  ///< by place()
  index_t placed_count = 0;

  [[nodiscard]] UNMASK_HD Field* field_at(index_t position) const {
    for (index_t k = 0; k < count; ++k) {
      if (fields[k].where.contains(position)) {
        return fields + k;
      }
    }
    return nullptr;
  }
  /// The positions of the last field that has any.
  [[nodiscard]] UNMASK_HD range last_field() const {
    index_t k = count;
    while (k > 0 && fields[k - 1].where.empty()) {
      --k;
    }
    return k > 0 ? fields[k - 1].where : range{};
  }
  /// True if the other tokens and this one can be completed.
  UNMASK_CALLS_HOST
  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t position, token_id token) const {
    Field* const f = field_at(position);
    return f == nullptr || f->admits(t, position - f->where.first, token);
  }
  /// One lane, as the rest.
  UNMASK_CALLS_HOST
  UNMASK_HD void write(index_t position, token_id token) const {
    if (Field* const f = field_at(position)) {
      f->write(position - f->where.first, token);
    }
  }
  /// Masks a position; nothing for one that a token is to be placed at.
  UNMASK_CALLS_HOST
  UNMASK_HD void mask(index_t position) const {
    if (chosen.token == no_token || chosen.position != position) {
      write(position, no_token);
    }
  }
  /// True if no other token is possible at a position, which is to be filled then.
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD bool is_certain(const serial& /*t*/, index_t position) const {
    Field* const f = field_at(position);
    return f != nullptr && f->is_certain(position - f->where.first);
  }
  /// True if a refused candidate is read again, at a position or at any.
  [[nodiscard]] UNMASK_HD bool reads_again(index_t position) const {
    const Field* const f = field_at(position);
    return f != nullptr && f->reads_again;
  }
  [[nodiscard]] UNMASK_HD bool reads_again() const {
    bool any = false;
    for (index_t k = 0; k < count; ++k) {
      any = any || fields[k].reads_again;
    }
    return any;
  }
  /// The lowest token that is possible at a position; no_token outside all fields.
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD token_id lowest(index_t position) const {
    Field* const f = field_at(position);
    return f == nullptr ? no_token : f->lowest(position - f->where.first);
  }
  /// Chooses the lowest token for a position; the next place_tokens() lists it. Returns false
  /// outside all fields.
  UNMASK_CALLS_HOST
  [[nodiscard]] UNMASK_HD bool place(index_t position) {
    const token_id token = lowest(position);
    if (token == no_token) {
      return false;
    }
    write(position, token);
    chosen = {position, token, false};
    return true;
  }
  /// The tokens to write now, by position: what place() wrote, and what is certain. Called
  /// after a barrier, and at most once before the next.
  UNMASK_CALLS_HOST
  template <class Group>
  [[nodiscard]] UNMASK_HD placed_tokens place_tokens(const Group& t) {
    if (t.lane() == 0) {
      placed_count = 0;
    }
    for (index_t k = 0; k < count; ++k) {
      Field& f = fields[k];
      f.fill(t, certain, [&](index_t p, token_id token) {
        put_chosen(f.where.first + p);
        placed[placed_count++] = {f.where.first + p, token, true};
      });
    }
    if (t.lane() == 0) {
      put_chosen(0x7fffffff);
    }
    t.sync();  // every lane reads the number
    return {placed, placed_count};
  }
  /// Ends the fields with these tokens, or, if that is null, with those that were written. Returns
  /// true if all are strings of their language.
  UNMASK_CALLS_HOST
  template <class Group>
  [[nodiscard]] UNMASK_HD bool finish(const Group& t, const token_id* tokens, const mark* marks) {
    bool all = true;
    for (index_t k = 0; k < count; ++k) {
      Field& f = fields[k];
      for (index_t p = f.where.first; t.lane() == 0 && tokens != nullptr && p < f.where.last; ++p) {
        f.write(p - f.where.first, marks[p] == mark::masked ? no_token : tokens[p]);
      }
      t.sync();
      const bool is_met = f.is_met(t);
      all = all && is_met;
    }
    return all;
  }

 private:
  // Lane 0: lists the chosen token if it is before a position.
  UNMASK_HD void put_chosen(index_t before) {
    if (chosen.token != no_token && chosen.position < before) {
      placed[placed_count++] = chosen;
      chosen.token = no_token;
    }
  }
};

}  // namespace unmask::detail
