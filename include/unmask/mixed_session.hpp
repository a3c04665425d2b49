// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/lent_tokens.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/step/pending_request.hpp>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// A session of policies by name in which each sequence has a policy of its own, so that the
/// requests of one batch may name theirs.
///
///     const auto session = unmask::make_mixed_session(
///         unmask::read_policy("threshold(0.9)"), model, capacity);
///     session->start(0, tokens, length, shape);
///     session->start(1, unmask::read_policy("es_dllm"), more_tokens, more_length, shape);
///
/// Decodes each sequence as a session of its policy alone does, bit for bit. Sequences whose
/// policies are of one type are read and decided together, on a stream in one launch; each type
/// that was used has the memory of a session with all the slots. Only the start of a sequence with
/// a policy of a new type allocates. The segments of a request are ordered by type, then by slot.
/// Cost beyond those sessions: some virtual calls a segment.
template <memory M>
class basic_mixed_session final : public basic_any_layer_session<M> {
  using base = basic_any_layer_session<M>;
  using named = basic_named_session<M>;
  using typename base::layer_rule_info;
  using typename base::list;

 public:
  /// Makes the session of a type, for the sequences of this policy and of others like it.
  using maker = std::function<std::unique_ptr<named>(const named_parts&)>;

  /// `policy` is that of sequences that are started without one. Errors: those of `make`.
  basic_mixed_session(const named_parts& policy,
                      const model_info& model,
                      const session_capacity& capacity,
                      maker make)
      : policy_(policy)
      , vocab_(model.vocab)
      , capacity_(capacity)
      , make_(std::move(make))
      , request_(validated(capacity).sequences, max_branches)
      , lent_(capacity.sequences)
      , slots_(static_cast<std::size_t>(capacity.sequences))
      , reports_(slots_.size()) {
    groups_.push_back({make_(policy)});
    rule_info_ = groups_.front().session->rule_info();
    tensors_.reserve(slots_.size() * (1 + std::size_t{max_branches}));
    modifiers_.reserve(tensors_.capacity());
  }

  /// Starts a sequence with the session's policy.
  void start(index_t slot,
             token_id* tokens,
             index_t count,
             const sequence_shape& geometry,
             const start_options& options = {}) override {
    start(slot, policy_, tokens, count, geometry, options);
  }
  /// Starts a sequence with a policy of its own. Errors: as session::start and as the session of
  /// that policy.
  void start(index_t slot,
             const named_parts& policy,
             token_id* tokens,
             index_t count,
             const sequence_shape& geometry,
             const start_options& options = {}) {
    request_.check_start();
    const std::size_t before = group_index(slot);
    lent_.check(slot, tokens, geometry.length, [this](std::size_t other) {
      return planned(static_cast<index_t>(other)).active();
    });
    const std::size_t now = group_for(policy);
    groups_[now].session->start(slot, tokens, count, geometry, options);
    lent_.record(slot, tokens, geometry.length);
    slots_[static_cast<std::size_t>(slot)] = now;
    if (before != now) {
      groups_[before].session->cancel(slot);
    }
  }

  [[nodiscard]] std::optional<forward_request> next() override {
    if (!request_.is_out()) {
      request([](named& session) { return session.next(); });
    }
    return pending();
  }
  [[nodiscard]] std::optional<forward_request> next(std::span<const index_t> slots) override {
    request_.choose(slots);
    request([&](named& session) { return session.next(slots); });
    return pending();
  }

  void supply(const any_rows& logits, const any_modifiers& modifiers = {}) override {
    request_.check_supply();
    const index_t rows = cut(logits, modifiers);
    check_supply(tensors_, modifiers_);
    check_argument(
        logits.rows == rows, "rows of the logits", logits.rows, "those of the segments, ", rows);
    detail::validate(logits, modifiers, vocab_);  // the strides, where each segment has one row
    supply_each(tensors_, modifiers_);
  }
  void supply(std::span<const any_rows> tensors,
              std::span<const any_modifiers> modifiers = {}) override {
    check_supply(tensors, modifiers);
    supply_each(tensors, modifiers);
  }
  void check_supply(std::span<const any_rows> tensors,
                    std::span<const any_modifiers> modifiers = {}) override {
    const std::size_t count = request_.segments().size();
    request_.check_supply();
    request_.check_count("number of tensors", tensors.size());
    request_.check_count("number of modifiers", modifiers.empty() ? count : modifiers.size());
    each_in_request(
        [&](const group& g) { g.session->check_supply(g.part_of(tensors), g.part_of(modifiers)); });
  }
  void
  read(std::size_t index, const any_rows& logits, const any_modifiers& modifiers = {}) override {
    request_.check_read(index);
    const place at = place_of(index);
    at.session->read(at.segment, logits, modifiers);
    request_.was_read(index);
  }
  void decide() override {
    request_.check_decide();
    each_in_request([&](const group& g) { g.session->decide(); });
    was_decided();
  }

  [[nodiscard]] const sequence_report& report(index_t slot) override {
    const sequence_report& of = session_of(slot).report(slot);
    if (was_in_step(slot)) {
      return of;
    }
    sequence_report& idle = reports_[static_cast<std::size_t>(slot)];
    idle = of;
    idle.last_commits = idle.last_candidates = idle.last_probabilities = 0;
    return idle;
  }
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot) override {
    const auto all = session_of(slot).committed(slot);
    return was_in_step(slot) ? all : all.first(0);
  }
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot) override {
    const auto all = session_of(slot).candidates(slot);
    return was_in_step(slot) ? all : all.first(0);
  }
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot) override {
    const auto all = session_of(slot).probabilities(slot);
    return was_in_step(slot) ? all : all.first(0);
  }
  [[nodiscard]] const plan& planned(index_t slot) override {
    return session_of(slot).planned(slot);
  }
  void cancel(index_t slot) override {
    request_.check_cancel();
    session_of(slot).cancel(slot);
  }
  void abandon() override {
    request_.abandon();
    each_in_request([&](const group& g) { g.session->abandon(); });
  }
  std::span<const segment> cancel_request() override {
    const auto cancelled = request_.cancel();
    each_in_request([&](const group& g) { g.session->cancel_request(); });
    return cancelled;
  }

  /// The constants of the policy of sequences that are started without one.
  [[nodiscard]] layer_rule_info rule_info() const override { return rule_info_; }
  /// Sequences of one type together. Errors: as layer_session::at_layer(), thrown before anything
  /// is selected for the sequences of that type.
  void at_layer(index_t layer, std::span<layer_hook<float, M>> hooks) override {
    each_group(layer, hooks);
  }
  void at_layer(index_t layer, std::span<layer_hook<bfloat16, M>> hooks) override {
    each_group(layer, hooks);
  }
  void at_layer(index_t layer, std::span<layer_hook<float16, M>> hooks) override {
    each_group(layer, hooks);
  }

 private:
  // The session of a type, and its share of the request: segments [first, first + count).
  struct group {
    std::unique_ptr<named> session;
    std::size_t first = 0;
    std::size_t count = 0;
    bool was_decided = false;  ///< by the last step

    template <class T>
    [[nodiscard]] std::span<const T> part_of(std::span<const T> all) const {
      return all.empty() ? all : all.subspan(first, count);
    }
  };
  // A segment in its group's request.
  struct place {
    named* session = nullptr;
    std::size_t segment = 0;
  };

  // The first group whose type has the policy's abilities, which then uses the policy.
  [[nodiscard]] std::size_t group_for(const named_parts& policy) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].session->use(policy)) {
        return i;
      }
    }
    groups_.push_back({make_(policy)});
    return groups_.size() - 1;
  }
  [[nodiscard]] std::size_t group_index(index_t slot) const {
    validate_slot(slot, capacity_);
    return slots_[static_cast<std::size_t>(slot)];
  }
  [[nodiscard]] named& session_of(index_t slot) { return *groups_[group_index(slot)].session; }
  [[nodiscard]] bool was_in_step(index_t slot) const {
    return groups_[slots_[static_cast<std::size_t>(slot)]].was_decided;
  }

  void each_in_request(const auto& use) const {
    for (const group& g : groups_) {
      if (g.count > 0) {
        use(g);
      }
    }
  }
  void request(const auto& next_of) {
    request_.begin();
    for (group& g : groups_) {
      g.first = request_.segments().size();
      if (const auto part = next_of(*g.session)) {
        for (const segment& s : part->segments) {
          request_.add(s);
        }
      }
      g.count = request_.segments().size() - g.first;
    }
    static_cast<void>(request_.end());
  }
  [[nodiscard]] std::optional<forward_request> pending() const {
    return request_.is_out() ? std::optional(request_.view()) : std::nullopt;
  }
  void supply_each(std::span<const any_rows> tensors, std::span<const any_modifiers> modifiers) {
    each_in_request(
        [&](const group& g) { g.session->supply(g.part_of(tensors), g.part_of(modifiers)); });
    was_decided();
  }
  void was_decided() {
    for (group& g : groups_) {
      g.was_decided = g.count > 0;
    }
    request_.was_decided();
  }

  // Cuts packed rows into those of each segment; returns their number.
  index_t cut(const any_rows& logits, const any_modifiers& modifiers) {
    tensors_.clear();
    modifiers_.clear();
    index_t first = 0;
    for (std::size_t i = 0; i < request_.segments().size(); ++i) {
      const index_t count = size_of(rows(i));
      tensors_.push_back(logits.subrows({first, first + count}));
      modifiers_.push_back(modifiers.from_row(first, logits.kind));
      first += count;
    }
    return first;
  }
  [[nodiscard]] static index_t size_of(const list& l) {
    if constexpr (M == memory::host) {
      return static_cast<index_t>(l.size());
    } else {
      return l.most;
    }
  }

  [[nodiscard]] place place_of(std::size_t index) const {
    check_order(request_.is_out(), "pass() without a request: call next() first");
    check_argument(index < request_.segments().size(),
                   "index of the segment",
                   index,
                   "less than the number of segments, ",
                   request_.segments().size());
    for (const group& g : groups_) {
      if (index - g.first < g.count) {
        return {g.session.get(), index - g.first};
      }
    }
    return {};
  }
  [[nodiscard]] auto pass_of(std::size_t index) const {
    const place at = place_of(index);
    return at.session->pass(at.segment);
  }
  [[nodiscard]] layer_rule_info rule_of(const segment& s) const override {
    return pass_of(static_cast<std::size_t>(&s - request_.segments().data()));
  }
  [[nodiscard]] const segment& about(std::size_t index) override {
    static_cast<void>(place_of(index));
    return request_.segments()[index];
  }
  [[nodiscard]] list positions(std::size_t index) override { return pass_of(index).positions(); }
  [[nodiscard]] bool hooks(std::size_t index, index_t layer) override {
    return pass_of(index).hooks(layer);
  }
  basic_layer_choice<list> at_layer(std::size_t index,
                                    index_t layer,
                                    const any_rows& now,
                                    const any_state& previous) override {
    const auto chosen = pass_of(index).at_layer(layer, now, previous);
    request_.was_hooked();
    return chosen;
  }
  [[nodiscard]] list rows(std::size_t index) override { return pass_of(index).rows(); }

  // The hooks of each group's segments, which are counted in its own request meanwhile.
  template <element T>
  void each_group(index_t layer, std::span<layer_hook<T, M>> hooks) {
    for (std::size_t first = 0; first < hooks.size();) {
      const place at = place_of(hooks[first].segment);
      const std::size_t shift = hooks[first].segment - at.segment;
      std::size_t last = first;
      for (; last < hooks.size() && place_of(hooks[last].segment).session == at.session; ++last) {
      }
      const std::span some = hooks.subspan(first, last - first);
      const auto move_by = [&](std::size_t distance) {
        for (layer_hook<T, M>& h : some) {
          h.segment += distance;
        }
      };
      move_by(0 - shift);
      try {
        at.session->at_layer(layer, some);
      } catch (...) {
        move_by(shift);
        throw;
      }
      move_by(shift);
      request_.was_hooked();
      first = last;
    }
  }

  named_parts policy_;
  index_t vocab_;
  session_capacity capacity_;
  maker make_;
  layer_rule_info rule_info_;
  std::vector<group> groups_;  ///< one for each type in use; the first is that of policy_
  step::pending_request request_;
  lent_tokens lent_;
  std::vector<std::size_t> slots_;  ///< by slot: index of the group
  std::vector<sequence_report> reports_;
  std::vector<any_rows> tensors_;  ///< by segment
  std::vector<any_modifiers> modifiers_;
};

/// Mixed sessions on the host.
using mixed_session = basic_mixed_session<memory::host>;

/// Makes a session in which each sequence may have a policy of its own; `policy` is that of those
/// without one. Errors: as make_any_layer_session.
template <class Compositions = common_layer_compositions, class Backend = on_host>
[[nodiscard]] std::unique_ptr<basic_mixed_session<Backend::space>>
make_mixed_session(const named_parts& policy,
                   const model_info& model,
                   const session_capacity& capacity,
                   const Backend& where = {}) {
  return std::make_unique<basic_mixed_session<Backend::space>>(
      policy, model, capacity, [=](const named_parts& parts) {
        return make_any_layer_session<Compositions>(parts, model, capacity, where);
      });
}

#if defined(UNMASK_COMPILED)
/// The same with the types of the library.
[[nodiscard]] inline std::unique_ptr<mixed_session>
make_mixed_session(const named_parts& policy,
                   const model_info& model,
                   const session_capacity& capacity,
                   const on_host& where = {}) {
  return std::make_unique<mixed_session>(policy, model, capacity, [=](const named_parts& parts) {
    return make_any_layer_session(parts, model, capacity, where);
  });
}
#endif

}  // namespace unmask
