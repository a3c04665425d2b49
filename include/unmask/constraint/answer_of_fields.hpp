// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/running_field.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/math.hpp>
#include <unmask/core/part/sequence_view.hpp>

#include <memory>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE::detail::constraints {

/// The constraints of one sequence: its fields, by position. Allocates in its constructor only.
class answer_of_fields final : public constrained_answer {
 public:
  using pool_of_field = const std::shared_ptr<set_pool>& (*)(const constrained_field& field);

  /// Errors: as for any_constraint::begin().
  answer_of_fields(std::span<const constrained_field> fields,
                   pool_of_field pool,
                   const answer_start& with);

  [[nodiscard]] const std::uint32_t*
  mask(index_t position, const std::uint32_t* given, bool& is_there) override {
    const part* const f = field_at(position);
    if (f == nullptr) {
      return given;
    }
    const std::uint32_t* const own = f->field->mask(position - f->where.first, given);
    is_there = own != nullptr;
    return own;
  }
  void release() override {
    for (const part& f : parts_) {
      f.field->release();
    }
  }
  [[nodiscard]] range last_field() const override {
    range last;
    for (const part& f : parts_) {
      last = f.where.empty() ? last : f.where;
    }
    return last;
  }
  [[nodiscard]] bool admits(index_t position, token_id token) override {
    const part* const f = field_at(position);
    return f == nullptr || f->field->admits(position - f->where.first, token);
  }
  void write(index_t position, token_id token) override {
    if (const part* const f = field_at(position)) {
      f->field->write(position - f->where.first, token);
    }
  }
  void mask(index_t position) override {
    if (chosen_.token == no_token || chosen_.position != position) {
      write(position, no_token);
    }
  }
  [[nodiscard]] bool is_certain(index_t position) override {
    const part* const f = field_at(position);
    return f != nullptr && f->field->is_certain(position - f->where.first);
  }
  [[nodiscard]] bool reads_again(index_t position) override {
    const part* const f = field_at(position);
    return f != nullptr && f->reads_again;
  }
  [[nodiscard]] bool reads_again() override {
    for (const part& f : parts_) {
      if (f.reads_again) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] token_id lowest(index_t position) override {
    const part* const f = field_at(position);
    return f == nullptr ? no_token : f->field->lowest(position - f->where.first);
  }
  [[nodiscard]] bool place(index_t position) override;
  [[nodiscard]] placed_tokens place_tokens() override;
  bool finish(const token_id* tokens, const mark* marks) override;
  [[nodiscard]] std::uint32_t state(std::size_t field) override {
    check_field(field);
    return parts_[field].field->state();
  }
  [[nodiscard]] std::size_t fields() override { return parts_.size(); }
  [[nodiscard]] field_sizes sizes(std::size_t field) override {
    return parts_[field].field->sizes();
  }
  void write_tables(std::size_t field, field_tables& to) override {
    parts_[field].field->write_tables(to);
    to.where = parts_[field].where;
  }
  [[nodiscard]] std::uint32_t state_of(std::size_t field, const std::uint32_t* symbols) override {
    return parts_[field].field->state_of(symbols);
  }
  void check_field(std::size_t field) override {
    check_argument(field < parts_.size(),
                   "field",
                   field,
                   "less than the number of constrained fields, ",
                   parts_.size());
  }
  [[nodiscard]] bool is_met(std::size_t field, const std::uint32_t* symbols) override {
    return parts_[field].field->is_met(symbols);
  }
  [[nodiscard]] commit_entry* entries() override { return entries_.data(); }
  [[nodiscard]] candidate_entry* traced() override {
    return traced_.empty() ? nullptr : traced_.data();
  }

 private:
  struct part {
    range where;
    std::unique_ptr<running_field> field;
    bool reads_again = false;
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
  placed_token chosen_{0, no_token, false};  // by place()
  std::vector<placed_token> placed_;
  std::vector<commit_entry> entries_;
  std::vector<candidate_entry> traced_;
};

#if UNMASK_DEFINES
UNMASK_LIBRARY answer_of_fields::answer_of_fields(std::span<const constrained_field> fields,
                                                  pool_of_field pool,
                                                  const answer_start& with) {
  const index_t prompt = with.shape.prompt_length;
  const index_t answer = with.shape.length - prompt;
  index_t after = 0;
  std::vector<token_id> tokens;
  for (const constrained_field& f : fields) {
    check_argument(f.language != nullptr, "constrained_field::language", "null", "a constraint");
    check_argument(f.first >= after && f.first <= answer,
                   "constrained_field::first",
                   f.first,
                   "after the field before it, in [",
                   after,
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
      const bool is_masked =
          with.editable.empty() || with.editable[i] == static_cast<std::uint8_t>(mark::masked);
      tokens.push_back(is_masked ? no_token : with.tokens[p]);
    }
    parts_.push_back({where,
                      std::make_unique<running_field>(pool(f), f, where.first, tokens, with),
                      f.read_again || with.read_again});
    after = where.last - prompt;
  }
  placed_.reserve(static_cast<std::size_t>(answer) + 1);
  entries_.resize(static_cast<std::size_t>(answer) + static_cast<std::size_t>(with.window) + 1);
  traced_.resize(with.trace ? entries_.size() : 0);
}

UNMASK_LIBRARY bool answer_of_fields::place(index_t position) {
  const token_id token = lowest(position);
  if (token == no_token) {
    return false;
  }
  write(position, token);
  chosen_ = {position, token, false};
  return true;
}

UNMASK_LIBRARY placed_tokens answer_of_fields::place_tokens() {
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
  return {placed_.data(), static_cast<index_t>(placed_.size())};
}

UNMASK_LIBRARY bool answer_of_fields::finish(const token_id* tokens, const mark* marks) {
  bool all = true;
  for (const part& f : parts_) {
    for (index_t p = f.where.first; tokens != nullptr && p < f.where.last; ++p) {
      f.field->write(p - f.where.first, marks[p] == mark::masked ? no_token : tokens[p]);
    }
    const bool is_met = f.field->finish();
    all = all && is_met;
  }
  return all;
}
#endif

}  // namespace unmask::detail::constraints
