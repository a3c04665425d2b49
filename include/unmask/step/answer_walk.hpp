// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/constrained_field.hpp>
#include <unmask/step/field_walk.hpp>

#include <cstddef>
#include <cstdint>

/// The constraints of a sequence where a step can call nothing of the host.
namespace UNMASK_NAMESPACE::step {

/// The constraints of a sequence on a device: what constrained_answer is on the host. In memory of
/// the device, which the host writes when the sequence starts.
struct answer_walk {
  index_t count = 0;  ///< of fields; 0: the sequence has no constraints
  field_walk* fields = nullptr;
  /// Room for a token at each position of the answer.
  detail::placed_token* placed = nullptr;
  /// By position of a field: the token that is certain there.
  token_id* certain = nullptr;
  /// The lists of a step, with room for a token at each position; traced is null without a trace.
  commit_entry* entries = nullptr;
  candidate_entry* traced = nullptr;
  /// Pieces in which a mask is written, each by one thread block.
  static constexpr index_t mask_pieces = 8;
  /// By scored position: the mask of its row, and for each piece the classes that are possible, a
  /// bit each.
  std::uint32_t* masks = nullptr;
  std::uint32_t* classes = nullptr;
  std::size_t mask_words = 0;
  std::size_t class_words = 0;

  detail::placed_token chosen{0, no_token, false};  ///< by place()
  index_t placed_count = 0;

  [[nodiscard]] UNMASK_HD field_walk* field_at(index_t position) const {
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
  [[nodiscard]] UNMASK_HD std::uint32_t* mask_of(index_t i) const {
    return masks + static_cast<std::size_t>(i) * mask_words;
  }
  [[nodiscard]] UNMASK_HD std::uint32_t* classes_of(index_t i, index_t piece) const {
    return classes + static_cast<std::size_t>(i * mask_pieces + piece) * class_words;
  }

  template <class Group>
  [[nodiscard]] UNMASK_HD bool admits(const Group& t, index_t position, token_id token) const {
    field_walk* const f = field_at(position);
    return f == nullptr || f->admits(t, position - f->where.first, token);
  }
  UNMASK_HD void write(index_t position, token_id token) const {
    if (field_walk* const f = field_at(position)) {
      f->write(position - f->where.first, token);
    }
  }
  UNMASK_HD void mask(index_t position) const {
    if (chosen.token == no_token || chosen.position != position) {
      write(position, no_token);
    }
  }
  /// One lane.
  [[nodiscard]] UNMASK_HD bool is_certain(const serial& /*t*/, index_t position) const {
    field_walk* const f = field_at(position);
    return f != nullptr && f->fills && f->certain(position - f->where.first) != no_token;
  }
  [[nodiscard]] UNMASK_HD static constexpr bool reads_again(index_t /*position*/) { return false; }
  [[nodiscard]] UNMASK_HD static constexpr bool reads_again() { return false; }

  /// One lane: chooses the lowest possible token for a position; place_tokens() lists it.
  [[nodiscard]] UNMASK_HD bool place(index_t position) {
    field_walk* const f = field_at(position);
    const token_id token = f == nullptr ? no_token : f->lowest(position - f->where.first);
    if (token == no_token) {
      return false;
    }
    write(position, token);
    chosen = {position, token, false};
    return true;
  }
  /// The tokens to write now, by position: the tokens of place(), and the certain ones. All sets
  /// are known then. Called after a barrier, and at most once before the next.
  template <class Group>
  [[nodiscard]] UNMASK_HD detail::placed_tokens place_tokens(const Group& t) {
    if (t.lane() == 0) {
      placed_count = 0;
    }
    for (index_t k = 0; k < count; ++k) {
      field_walk& f = fields[k];
      f.know_all(t);
      if (f.fills) {
        fill(t, f);
      }
    }
    if (t.lane() == 0) {
      put_chosen(0x7fffffff);
    }
    t.sync();  // every lane reads the number
    return {placed, placed_count};
  }

  /// Ends the fields with the tokens as they are. Returns whether all are strings of their
  /// language.
  template <class Group>
  [[nodiscard]] UNMASK_HD bool finish(const Group& t, const token_id* tokens, const mark* marks) {
    bool all = true;
    for (index_t k = 0; k < count; ++k) {
      field_walk& f = fields[k];
      for (index_t p = f.where.first; t.lane() == 0 && p < f.where.last; ++p) {
        f.write(p - f.where.first, marks[p] == mark::masked ? no_token : tokens[p]);
      }
      t.sync();  // where a field has not seen a token, as of a canvas: on the host alone so far
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
  // Fills the positions of a field that hold a certain token. All sets of the field are known. What
  // is certain is in every string that is left, so filling it makes nothing else certain, and
  // nothing uncertain: a warp looks at a position, one lane writes.
  template <class Block>
  UNMASK_HD void fill(const Block& b, field_walk& f) {
    const index_t first = f.changed_first;
    const index_t last = math::min(f.changed_last, f.size());
    for (index_t p = first + b.warp(); p < last; p += b.warps()) {
      const token_id token = f.is_masked(p) ? f.certain_by_warp(b, p) : no_token;
      if (b.warp_lane() == 0) {
        certain[p] = token;
      }
    }
    b.sync();
    if (b.lane() == 0) {
      for (index_t p = first; p < last; ++p) {
        if (certain[p] != no_token) {
          put_chosen(f.where.first + p);
          placed[placed_count++] = {f.where.first + p, certain[p], true};
          f.write(p, certain[p]);
        }
      }
    }
    b.sync();
    f.know_all(b);
    if (b.lane() == 0) {
      f.changed_first = f.size();
      f.changed_last = 0;
    }
  }
};

}  // namespace unmask::step
