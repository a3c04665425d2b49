// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/answer_of_fields.hpp>
#include <unmask/constraint/byte_automaton.hpp>
#include <unmask/constraint/lift.hpp>
#include <unmask/constraint/set_pool.hpp>
#include <unmask/constraint/vocabulary.hpp>
#include <unmask/core/constrained_field.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

/// Answers that obey a regular language, in any order of commits: a regular expression, a JSON
/// Schema, a list of choices.
namespace UNMASK_NAMESPACE {

/// A regular language over the tokens of a model, and the memory that its sequences share.
///
///     const unmask::vocabulary words(bytes_of_each_token, model);
///     unmask::constraint date(unmask::read_byte_table("date.dfa"), words);
///     const unmask::constrained_field whole_answer{.language = &date};
///     session.start(0, tokens, shape, {.constraints = {&whole_answer, 1}});
///
/// Every answer of a sequence that ends by itself is then a string of the language, padded with EOS
/// tokens, whatever the policy, the order of its commits and the logits. A step commits a candidate
/// only if the tokens committed before it, and it, can still be completed; the others are refused
/// and stay masked. The bound on forward passes, most_forwards(), stays as it is.
///
/// A handle: copies share the language and the memory, and a sequence keeps what it needs. One
/// thread at a time may use the sessions that share a memory; another() makes a constraint with
/// separate memory.
///
/// State: constraint_limits::bytes, whose unused pages take no memory, and the
/// automaton, about 1 MB for 150,000 tokens and a small language.
/// Cost: of a step, two look-ups for each position whose possible tokens change, and the first time
/// that a set of states occurs its images; bench/results/constraints.md has times.
class constraint final : public detail::any_constraint {
 public:
  /// Lifts an automaton over bytes to the tokens of a vocabulary.
  ///
  /// Cost: up to a second for 1,200 rows that differ (constraint_limits::rows) and 150,000 tokens.
  /// Errors: std::invalid_argument if the automaton is malformed, has more states than
  /// `limits.states` or more rows than `limits.rows`, or has no string that the tokens can write.
  constraint(const byte_automaton& bytes,
             const vocabulary& words,
             const constraint_limits& limits = {})
      : constraint(detail::constraints::lift(bytes, words.data(), limits), limits) {}

  /// A language given by transitions over tokens, such as those of an outlines-core Index.
  ///
  /// After an accepting state EOS tokens may follow, and after them only EOS tokens: transitions
  /// of EOS tokens in the list are replaced by these. Errors: std::invalid_argument for states or
  /// tokens that do not exist, two states after one state and token, an EOS token after a state
  /// that does not accept, too many states, a language without a string.
  [[nodiscard]] static constraint from_transitions(std::span<const token_transition> transitions,
                                                   std::uint32_t states,
                                                   std::uint32_t start,
                                                   std::span<const std::uint8_t> accepting,
                                                   const model_info& model,
                                                   std::span<const token_id> also_eos = {},
                                                   const constraint_limits& limits = {}) {
    return {detail::constraints::automaton_of(
                transitions, states, start, accepting, model, also_eos, limits.states),
            limits};
  }

  /// Reads a file of write_byte_table() and lifts it. Errors: as for both.
  [[nodiscard]] static constraint
  read(const std::string& path, const vocabulary& words, const constraint_limits& limits = {}) {
    return {read_byte_table(path, std::max(limits.states, 65'536U)).view(), words, limits};
  }

  /// A constraint of the same language with separate memory, for sessions of another thread.
  [[nodiscard]] constraint another() const { return {pool_->shared(), limits_}; }

  /// Fewest tokens of a string of the language.
  [[nodiscard]] index_t shortest() const {
    const auto& a = automaton();
    return static_cast<index_t>(a.distance[a.start]);
  }
  /// Number of states of the automaton over tokens.
  [[nodiscard]] std::uint32_t states() const { return automaton().states; }
  /// Number of classes of tokens that the language tells apart.
  [[nodiscard]] std::uint32_t classes() const { return automaton().classes; }
  /// Bytes of the automaton.
  [[nodiscard]] std::size_t bytes() const { return automaton().bytes(); }
  /// The model that it was made for.
  [[nodiscard]] const model_info& model() const override { return automaton().model; }
  /// The state after a token, or dead_state. from_start counts as the first state.
  [[nodiscard]] std::uint32_t after(std::uint32_t state, token_id token) const {
    const auto& a = automaton();
    const std::uint32_t by = a.class_at(token);
    const std::uint32_t from = state == from_start ? a.start : state;
    return by == detail::constraints::no_class || from >= a.states ? dead_state : a.after(from, by);
  }
  /// Whether these tokens are a string of the language, with or without EOS tokens after it.
  [[nodiscard]] bool accepts(std::span<const token_id> tokens) const {
    std::uint32_t state = automaton().start;
    for (const token_id v : tokens) {
      state = state == dead_state ? dead_state : after(state, v);
    }
    return state != dead_state && detail::constraints::has_bit(automaton().accepting.data(), state);
  }

 private:
  constraint(detail::constraints::token_automaton automaton, const constraint_limits& limits)
      : constraint(
            std::make_shared<const detail::constraints::token_automaton>(std::move(automaton)),
            limits) {}
  constraint(std::shared_ptr<const detail::constraints::token_automaton> automaton,
             const constraint_limits& limits)
      : limits_(limits)
      , pool_(std::make_shared<detail::constraints::set_pool>(std::move(automaton), limits)) {}

  [[nodiscard]] const detail::constraints::token_automaton& automaton() const {
    return pool_->automaton();
  }
  [[nodiscard]] detail::owned_answer begin(std::span<const constrained_field> fields,
                                           const detail::answer_start& with) const override {
    // Nothing else is a detail::any_constraint.
    const auto pool_of = [](const constrained_field& f) -> const auto& {
      return static_cast<const constraint*>(f.language)->pool_;
    };
    return detail::owned_answer(new detail::constraints::answer_of_fields(fields, pool_of, with));
  }

  constraint_limits limits_;
  std::shared_ptr<detail::constraints::set_pool> pool_;
};

}  // namespace unmask
