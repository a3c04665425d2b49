// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/running_field.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/fixed_array.hpp>
#include <unmask/core/math.hpp>
#include <unmask/core/part/sequence_view.hpp>

#include <memory>
#include <new>
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

  answer_of_fields(const answer_of_fields&) = delete;
  answer_of_fields& operator=(const answer_of_fields&) = delete;
  ~answer_of_fields() override { drop_fields(); }

  [[nodiscard]] const std::uint32_t*
  mask(index_t position, const std::uint32_t* given, bool& is_there) override {
    running_field* const f = all_.field_at(position);
    if (f == nullptr) {
      return given;
    }
    const std::uint32_t* const own = f->mask(position - f->where.first, given);
    is_there = own != nullptr;
    return own;
  }
  void release() override {
    for (running_field& f : fields_of()) {
      f.release();
    }
  }
  [[nodiscard]] range last_field() const override { return all_.last_field(); }
  [[nodiscard]] bool admits(index_t position, token_id token) override {
    return all_.admits(serial{}, position, token);
  }
  void write(index_t position, token_id token) override { all_.write(position, token); }
  void mask(index_t position) override { all_.mask(position); }
  [[nodiscard]] bool is_certain(index_t position) override {
    return all_.is_certain(serial{}, position);
  }
  [[nodiscard]] bool reads_again(index_t position) override { return all_.reads_again(position); }
  [[nodiscard]] bool reads_again() override { return all_.reads_again(); }
  [[nodiscard]] token_id lowest(index_t position) override { return all_.lowest(position); }
  [[nodiscard]] bool place(index_t position) override { return all_.place(position); }
  [[nodiscard]] placed_tokens place_tokens() override { return all_.place_tokens(serial{}); }
  bool finish(const token_id* tokens, const mark* marks) override;
  void check_field(std::size_t field) override {
    check_argument(
        field < fields(), "field", field, "less than the number of constrained fields, ", fields());
  }
  [[nodiscard]] std::size_t fields() override { return static_cast<std::size_t>(all_.count); }
  [[nodiscard]] field_sizes sizes(std::size_t field) override { return all_.fields[field].sizes(); }
  void write_tables(std::size_t field, field_tables& to) override {
    all_.fields[field].write_tables(to);
  }
  [[nodiscard]] std::uint32_t state_of(std::size_t field, const std::uint32_t* symbols) override {
    check_field(field);
    return all_.fields[field].state_of(symbols);
  }
  [[nodiscard]] bool is_string(std::size_t field, const std::uint32_t* symbols) override {
    return all_.fields[field].is_string(symbols);
  }
  [[nodiscard]] commit_entry* entries() override { return entries_.data(); }
  [[nodiscard]] candidate_entry* traced() override {
    return traced_.empty() ? nullptr : traced_.data();
  }

 private:
  [[nodiscard]] std::span<running_field> fields_of() { return {all_.fields, fields()}; }
  void drop_fields() {
    for (running_field& f : fields_of()) {
      f.~running_field();
    }
  }
  void add_field(const constrained_field& field,
                 const std::shared_ptr<set_pool>& pool,
                 index_t after,
                 const answer_start& with);

  block memory_;  // of the fields, which cannot be moved
  answer_over<running_field> all_;
  bool has_ended_ = false;
  std::vector<placed_token> placed_;
  std::vector<token_id> certain_;
  std::vector<commit_entry> entries_;
  std::vector<candidate_entry> traced_;
};

#if UNMASK_DEFINES
UNMASK_LIBRARY answer_of_fields::answer_of_fields(std::span<const constrained_field> fields,
                                                  pool_of_field pool,
                                                  const answer_start& with)
    : memory_(fields.size(), sizeof(running_field))
    , placed_(static_cast<std::size_t>(with.shape.length - with.shape.prompt_length) + 1)
    , certain_(placed_.size())
    , entries_(placed_.size() + static_cast<std::size_t>(with.window))
    , traced_(with.trace ? entries_.size() : 0) {
  all_.fields = static_cast<running_field*>(memory_.data());
  all_.placed = placed_.data();
  all_.certain = certain_.data();
  index_t after = 0;
#  if defined(__cpp_exceptions)
  try {
#  endif
    for (const constrained_field& f : fields) {
      check_argument(f.language != nullptr, "constrained_field::language", "null", "a constraint");
      add_field(f, pool(f), after, with);
      after = all_.fields[all_.count - 1].where.last - with.shape.prompt_length;
    }
#  if defined(__cpp_exceptions)
  } catch (...) {  // the destructor of an object that was not made is not called
    drop_fields();
    throw;
  }
#  endif
}

UNMASK_LIBRARY void answer_of_fields::add_field(const constrained_field& f,
                                                const std::shared_ptr<set_pool>& pool,
                                                index_t after,
                                                const answer_start& with) {
  const index_t prompt = with.shape.prompt_length;
  const index_t answer = with.shape.length - prompt;
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
  std::vector<token_id> tokens;
  for (index_t p = where.first; p < where.last; ++p) {
    const auto i = static_cast<std::size_t>(p);
    const bool is_masked =
        with.editable.empty() || with.editable[i] == static_cast<std::uint8_t>(mark::masked);
    tokens.push_back(is_masked ? no_token : with.tokens[p]);
  }
  ::new (static_cast<void*>(all_.fields + all_.count))
      running_field(pool, f, where.first, tokens, with);
  ++all_.count;
}

UNMASK_LIBRARY bool answer_of_fields::finish(const token_id* tokens, const mark* marks) {
  if (has_ended_) {
    return false;
  }
  has_ended_ = true;
  const bool is_met = all_.finish(serial{}, tokens, marks);
  for (running_field& f : fields_of()) {
    f.leave();
  }
  return is_met;
}
#endif

}  // namespace unmask::detail::constraints
