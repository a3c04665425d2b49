// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>
#include <unmask/c_api/constraint.hpp>
#include <unmask/c_constraints.h>

// The calls of c_constraints.h. For c_library.hpp, which defines them.

namespace UNMASK_NAMESPACE::detail::c_api {

inline unmask::constraint_limits limits_of(const unmask_constraint_limits* limits) {
  unmask_constraint_limits known = UNMASK_CONSTRAINT_LIMITS_INIT;
  if (limits != nullptr) {
    known = known_part_of(limits, known, "limits");
  }
  return {.states = known.states, .bytes = static_cast<std::size_t>(known.bytes)};
}

template <class Make>
unmask_status make_constraint(unmask_constraint** constraint, const Make& make) {
  return guarded([&] {
    needed(constraint, "constraint") = nullptr;
    *constraint = new unmask_constraint{make()};
  });
}

}  // namespace UNMASK_NAMESPACE::detail::c_api

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_vocabulary_new(const unmask_token_bytes* tokens,
                                    std::int32_t count,
                                    const unmask_options* options,
                                    const std::int32_t* also_eos,
                                    std::int32_t also_eos_count,
                                    unmask_vocabulary** vocabulary) {
  return guarded([&] {
    needed(vocabulary, "vocabulary") = nullptr;
    const unmask_options o = known_part_of(options, UNMASK_OPTIONS_INIT, "options");
    unmask::validate(model_of(o));
    check_argument(count >= 0, "count", count, "at least 0");
    check_argument(tokens != nullptr || count == 0, "tokens", "null", "a pointer");
    check_argument(also_eos_count >= 0, "also_eos_count", also_eos_count, "at least 0");
    check_argument(also_eos != nullptr || also_eos_count == 0, "also_eos", "null", "a pointer");
    std::vector<std::string_view> bytes;
    for (std::int32_t i = 0; i < count; ++i) {
      check_argument(
          tokens[i].data != nullptr || tokens[i].size == 0, "tokens->data", "null", "a pointer");
      bytes.emplace_back(tokens[i].data, tokens[i].size);
    }
    *vocabulary = new unmask_vocabulary{unmask::vocabulary(
        bytes, model_of(o), {also_eos, static_cast<std::size_t>(also_eos_count)})};
  });
}

void unmask_vocabulary_free(unmask_vocabulary* vocabulary) {
  delete vocabulary;
}

unmask_status unmask_constraint_new(const unmask_byte_automaton* automaton,
                                    const unmask_vocabulary* vocabulary,
                                    const unmask_constraint_limits* limits,
                                    unmask_constraint** constraint) {
  return make_constraint(constraint, [&] {
    const unmask_byte_automaton a =
        known_part_of(automaton, UNMASK_BYTE_AUTOMATON_INIT, "automaton");
    check_field(a.next != nullptr, "automaton", "next", "null", "a pointer");
    check_field(a.accepting != nullptr, "automaton", "accepting", "null", "a pointer");
    check_field(a.reserved == 0, "automaton", "reserved", a.reserved, "0");
    const unmask::byte_automaton bytes{
        {a.next, std::size_t{256} * a.states}, {a.accepting, a.states}, a.start};
    return unmask::constraint(bytes, needed(vocabulary, "vocabulary").words, limits_of(limits));
  });
}

unmask_status unmask_constraint_read(const char* file,
                                     const unmask_vocabulary* vocabulary,
                                     const unmask_constraint_limits* limits,
                                     unmask_constraint** constraint) {
  return make_constraint(constraint, [&] {
    return unmask::constraint::read(
        &needed(file, "file"), needed(vocabulary, "vocabulary").words, limits_of(limits));
  });
}

unmask_status unmask_constraint_from_transitions(const unmask_token_transition* transitions,
                                                 std::size_t count,
                                                 std::uint32_t states,
                                                 std::uint32_t start,
                                                 const std::uint8_t* accepting,
                                                 const unmask_vocabulary* vocabulary,
                                                 const unmask_constraint_limits* limits,
                                                 unmask_constraint** constraint) {
  return make_constraint(constraint, [&] {
    check_argument(transitions != nullptr || count == 0, "transitions", "null", "a pointer");
    check_argument(accepting != nullptr, "accepting", "null", "a pointer");
    std::vector<unmask::token_transition> list;
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back({transitions[i].from, transitions[i].token, transitions[i].next});
    }
    const unmask::vocabulary& words = needed(vocabulary, "vocabulary").words;
    return unmask::constraint::from_transitions(list,
                                                states,
                                                start,
                                                {accepting, states},
                                                words.model(),
                                                words.data().ends,
                                                limits_of(limits));
  });
}

unmask_status unmask_constraint_another(const unmask_constraint* constraint,
                                        unmask_constraint** another) {
  return make_constraint(another,
                         [&] { return needed(constraint, "constraint").language.another(); });
}

void unmask_constraint_free(unmask_constraint* constraint) {
  delete constraint;
}

std::int32_t unmask_constraint_shortest(const unmask_constraint* constraint) {
  return constraint == nullptr ? 0 : constraint->language.shortest();
}

unmask_status unmask_constraint_accepts(const unmask_constraint* constraint,
                                        const std::int32_t* tokens,
                                        std::int32_t count,
                                        std::int32_t* accepts) {
  return guarded([&] {
    check_argument(count >= 0, "count", count, "at least 0");
    check_argument(tokens != nullptr || count == 0, "tokens", "null", "a pointer");
    const bool is_in = needed(constraint, "constraint")
                           .language.accepts({tokens, static_cast<std::size_t>(count)});
    needed(accepts, "accepts") = is_in ? 1 : 0;
  });
}

unmask_status unmask_constraint_state(unmask_session* session,
                                      std::int32_t slot,
                                      std::uint32_t field,
                                      std::uint32_t* state) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    needed(state, "state") = s.with([&](auto& q) { return q.constraint_state(slot, field); });
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
