// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/constrained_field.hpp>
#include <unmask/core/sequence_view.hpp>
#include <unmask/step/gate.hpp>

#include <memory>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::detail {

/// The constraints of one sequence: its fields, by position of the sequence. Allocates in its
/// constructor only.
class constrained_answer {
 public:
  /// Starts of the fields: `start` has what is the same for all.
  struct context {
    const model_info& model;
    const sequence_shape& shape;
    const token_id* tokens = nullptr;
    std::span<const std::uint8_t> editable;
    field_start start;
    index_t window = 0;
    bool trace = false;
  };

  /// Errors: std::invalid_argument for fields that overlap or are malformed, for a model that is
  /// not the constraint's, and for a field that no string of its language fills.
  constrained_answer(std::span<const constrained_field> fields, const context& with);

  /// Bitmask of the tokens that are possible at a position, and-ed with `given` unless that is
  /// null; `given` itself outside all fields. `is_there` is false if there is no memory for it
  /// until release().
  [[nodiscard]] const std::uint32_t*
  mask(index_t position, const std::uint32_t* given, bool& is_there) {
    const part* const f = field_at(position);
    if (f == nullptr) {
      return given;
    }
    const std::uint32_t* const own = f->field->mask(position - f->where.first, given);
    is_there = own != nullptr;
    return own;
  }
  void release() {
    for (const part& f : parts_) {
      f.field->release();
    }
  }

  // Called by the gate (step/gate.hpp).
  [[nodiscard]] bool admits(index_t position, token_id token) const {
    const part* const f = field_at(position);
    return f == nullptr || f->field->admits(position - f->where.first, token);
  }
  void write(index_t position, token_id token) const {
    if (const part* const f = field_at(position)) {
      f->field->write(position - f->where.first, token);
    }
  }
  /// Masks a position; nothing for one that step::placed_token is to be written at.
  void mask(index_t position) const {
    if (chosen_.token == no_token || chosen_.position != position) {
      write(position, no_token);
    }
  }
  /// True if no other token is possible at a position, which is to be filled then.
  [[nodiscard]] bool is_certain(index_t position) const {
    const part* const f = field_at(position);
    return f != nullptr && f->field->is_certain(position - f->where.first);
  }
  /// Chooses a token for a position; the next place_tokens() returns it. Returns false outside all
  /// fields.
  [[nodiscard]] bool place(index_t position);
  /// The tokens to write now, by position: those of place(), and those that are certain.
  [[nodiscard]] std::span<const step::placed_token> place_tokens();

  /// Ends the fields with the tokens as they are. Returns whether all are strings of their
  /// language.
  bool finish(const token_id* tokens, const mark* marks);
  /// The state of a field behind its committed prefix.
  [[nodiscard]] std::uint32_t state(std::size_t field) const {
    check_argument(field < parts_.size(),
                   "field",
                   field,
                   "less than the number of constrained fields, ",
                   parts_.size());
    return parts_[field].field->state();
  }

  /// The lists of a step, with room for a token at each position.
  [[nodiscard]] commit_entry* entries() { return entries_.data(); }
  [[nodiscard]] candidate_entry* traced() { return traced_.empty() ? nullptr : traced_.data(); }

 private:
  struct part {
    range where;
    std::unique_ptr<running_field> field;
  };

  [[nodiscard]] const part* field_at(index_t position) const {
    for (const part& f : parts_) {
      if (f.where.contains(position)) {
        return &f;
      }
    }
    return nullptr;
  }

  std::vector<part> parts_;
  step::placed_token chosen_{0, no_token, false};  // by place()
  std::vector<step::placed_token> placed_;
  std::vector<commit_entry> entries_;
  std::vector<candidate_entry> traced_;
};

#if UNMASK_DEFINES
UNMASK_LIBRARY constrained_answer::constrained_answer(std::span<const constrained_field> fields,
                                                      const context& with) {
  const index_t prompt = with.shape.prompt_length;
  const index_t answer = with.shape.length - prompt;
  index_t behind = 0;
  std::vector<token_id> tokens;
  for (const constrained_field& f : fields) {
    check_argument(f.language != nullptr, "constrained_field::language", "null", "a constraint");
    check_argument(f.first >= behind && f.first <= answer,
                   "constrained_field::first",
                   f.first,
                   "behind the field before it, in [",
                   behind,
                   ", length of the answer = ",
                   answer,
                   "]");
    check_argument(f.last >= f.first,
                   "constrained_field::last",
                   f.last,
                   "at least constrained_field::first = ",
                   f.first);
    const model_info& m = f.language->model();
    if (m.vocab != with.model.vocab || m.mask_token != with.model.mask_token ||
        m.eos_token != with.model.eos_token) {
      message()
          .add("constraint was made for a model with vocab, mask_token and eos_token ")
          .add(m.vocab)
          .add(", ")
          .add(m.mask_token)
          .add(", ")
          .add(m.eos_token)
          .add(", the session's has ")
          .add(with.model.vocab)
          .add(", ")
          .add(with.model.mask_token)
          .add(", ")
          .add(with.model.eos_token)
          .refuse();
    }
    const range where = {prompt + f.first, prompt + math::min(f.last, answer)};
    tokens.clear();
    for (index_t p = where.first; p < where.last; ++p) {
      const auto i = static_cast<std::size_t>(p);
      const bool is_masked = with.editable.empty() || with.editable[i] != 0;
      tokens.push_back(is_masked ? no_token : with.tokens[p]);
    }
    field_start start = with.start;
    start.tokens = tokens;
    start.position = where.first;
    parts_.push_back({where, f.language->begin(f, start)});
    behind = where.last - prompt;
  }
  placed_.reserve(static_cast<std::size_t>(answer) + 1);
  entries_.resize(static_cast<std::size_t>(answer) + static_cast<std::size_t>(with.window) + 1);
  traced_.resize(with.trace ? entries_.size() : 0);
}

UNMASK_LIBRARY bool constrained_answer::place(index_t position) {
  const part* const f = field_at(position);
  if (f == nullptr) {
    return false;
  }
  const token_id token = f->field->lowest(position - f->where.first);
  f->field->write(position - f->where.first, token);
  chosen_ = {position, token, false};
  return true;
}

UNMASK_LIBRARY std::span<const step::placed_token> constrained_answer::place_tokens() {
  placed_.clear();
  const auto put = [&](index_t before) {
    if (chosen_.token != no_token && chosen_.position < before) {
      placed_.push_back(chosen_);
      chosen_.token = no_token;
    }
  };
  for (const part& f : parts_) {
    const index_t size = f.where.size();
    token_id token = no_token;
    for (index_t at = f.field->next_certain(0, token); at < size;
         at = f.field->next_certain(at + 1, token)) {
      put(f.where.first + at);
      placed_.push_back({f.where.first + at, token, true});
      f.field->write(at, token);
    }
  }
  put(0x7fffffff);
  return placed_;
}

UNMASK_LIBRARY bool constrained_answer::finish(const token_id* tokens, const mark* marks) {
  bool all = true;
  for (const part& f : parts_) {
    for (index_t p = f.where.first; p < f.where.last; ++p) {
      f.field->write(p - f.where.first, marks[p] == mark::masked ? no_token : tokens[p]);
    }
    const bool is_met = f.field->finish();
    all = all && is_met;
  }
  return all;
}
#endif

}  // namespace unmask::detail
