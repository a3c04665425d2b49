// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "constraints.hpp"

#include <algorithm>
#include <cstdint>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <string>
#include <string_view>

#include "arguments.hpp"
#include "gil.hpp"
#include "tensor.hpp"

using namespace nanobind::literals;

namespace unmask_python {
namespace {

using shared_language = std::shared_ptr<language>;
using table_of_states =
    nb::ndarray<const std::uint32_t, nb::shape<-1, 256>, nb::c_contig, nb::device::cpu>;
using bytes_of_states = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using triples = nb::ndarray<const std::uint32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

[[nodiscard]] unmask::byte_table
table_of(const table_of_states& next, const bytes_of_states& accepting, std::uint32_t start) {
  return {{next.data(), next.data() + next.size()},
          {accepting.data(), accepting.data() + accepting.size()},
          start};
}

[[nodiscard]] unmask::constraint_limits limits_of(std::uint32_t states, std::size_t bytes) {
  return {.states = states, .bytes = bytes};
}

// Takes the bytes of each token.
void make_vocabulary(unmask::vocabulary* place,
                     const nb::sequence& token_bytes,
                     int vocab,
                     int mask_token,
                     std::optional<int> eos_token,
                     const std::vector<int>& also_eos) {
  std::vector<nb::bytes> kept;
  std::vector<std::string_view> bytes;
  for (const nb::handle token : token_bytes) {
    if (!nb::isinstance<nb::bytes>(token)) {
      refuse_type("token_bytes must be bytes, got " + type_of(token));
    }
    kept.push_back(nb::borrow<nb::bytes>(token));
    bytes.emplace_back(kept.back().c_str(), kept.back().size());
  }
  const unmask::model_info model{
      .vocab = vocab, .mask_token = mask_token, .eos_token = eos_token.value_or(unmask::no_token)};
  new (place) unmask::vocabulary(bytes, model, also_eos);
}

void bind_vocabulary(nb::module_& m) {
  nb::class_<unmask::vocabulary>(m, "Vocabulary", R"doc(The bytes of each token of a model.

`token_bytes` has the bytes of every token, b"" for tokens without text, such as special tokens.
`also_eos` are tokens other than `eos_token` that end an answer. unmask.constraints.vocabulary() makes
one from a tokenizer.)doc")
      .def(
          "__init__",
          &make_vocabulary,
          "token_bytes"_a,
          nb::kw_only(),
          "vocab"_a,
          "mask_token"_a,
          "eos_token"_a = nb::none(),
          "also_eos"_a = std::vector<int>(),
          nb::sig("def __init__(self, token_bytes: collections.abc.Sequence[bytes], *, vocab: int, "
                  "mask_token: int, eos_token: int | None = None, also_eos: "
                  "collections.abc.Sequence[int] = []) -> None"))
      .def_prop_ro("vocab", [](const unmask::vocabulary& v) { return v.model().vocab; })
      .def_prop_ro("mask_token", [](const unmask::vocabulary& v) { return v.model().mask_token; })
      .def_prop_ro("eos_token", [](const unmask::vocabulary& v) {
        const int token = v.model().eos_token;
        return token == unmask::no_token ? std::nullopt : std::optional(token);
      });
}

void bind_language(nb::module_& m) {
  nb::class_<language>(
      m,
      "Constraint",
      R"doc(A regular language that answers obey: an automaton over bytes, lifted to the
tokens of a vocabulary.

`next` is uint32 [states, 256], the state after each byte, or 0xffffffff; `accepting` is uint8
[states]; `start` is the state before the first byte. `states` is the most states that it may have over
tokens, `memory` the bytes of the memory of each session's sets and masks.
unmask.constraints makes them from regular expressions and JSON Schemas.)doc")
      .def(nb::new_([](const table_of_states& next,
                       const bytes_of_states& accepting,
                       const unmask::vocabulary& vocabulary,
                       std::uint32_t start,
                       std::uint32_t states,
                       std::size_t memory) {
             unmask::byte_table table = table_of(next, accepting, start);
             return lifted([&] { return std::move(table); }, vocabulary, limits_of(states, memory));
           }),
           "next"_a,
           "accepting"_a,
           "vocabulary"_a,
           nb::kw_only(),
           "start"_a = 0,
           "states"_a = 65536,
           "memory"_a = std::size_t{64} << 20U)
      .def_static(
          "from_transitions",
          [](const triples& transitions,
             std::uint32_t states,
             const bytes_of_states& accepting,
             const unmask::vocabulary& vocabulary,
             std::uint32_t start,
             std::uint32_t most_states,
             std::size_t memory) {
            std::vector<unmask::token_transition> list;
            for (std::size_t i = 0; i < transitions.shape(0); ++i) {
              const std::uint32_t token = transitions(i, 1);
              list.push_back({transitions(i, 0),
                              static_cast<unmask::token_id>(std::min(token, 0x7fffffffU)),
                              transitions(i, 2)});
            }
            const without_gil others;
            const auto& data = vocabulary.data();
            unmask::constraint c =
                unmask::constraint::from_transitions(list,
                                                     states,
                                                     start,
                                                     {accepting.data(), accepting.size()},
                                                     vocabulary.model(),
                                                     data.ends,
                                                     limits_of(most_states, memory));
            return std::make_shared<language>(language{std::move(c), std::nullopt});
          },
          "transitions"_a,
          "count"_a,
          "accepting"_a,
          "vocabulary"_a,
          nb::kw_only(),
          "start"_a = 0,
          "states"_a = 65536,
          "memory"_a = std::size_t{64} << 20U,
          "From transitions over tokens, uint32 [n, 3]: state, token, state. `count` is the number "
          "of states.")
      .def_static(
          "read",
          [](const std::string& path,
             const unmask::vocabulary& vocabulary,
             std::uint32_t states,
             std::size_t memory) {
            const std::uint32_t most = std::max(65536U, 4 * std::min(states, 1U << 20U));
            return lifted([&] { return unmask::read_byte_table(path, most); },
                          vocabulary,
                          limits_of(states, memory));
          },
          "path"_a,
          "vocabulary"_a,
          nb::kw_only(),
          "states"_a = 65536,
          "memory"_a = std::size_t{64} << 20U,
          "Reads a file of save().")
      .def(
          "save",
          [](const language& l, const std::string& path) {
            if (!l.table) {
              refuse("constraint", "be made from bytes, to be saved", "one from transitions");
            }
            unmask::write_byte_table(path, l.table->view());
          },
          "path"_a,
          "Writes the automaton over bytes to a file, for hosts in C++ and C.")
      .def_prop_ro(
          "states",
          [](const language& l) { return l.lifted.states(); },
          "States of the automaton over tokens.")
      .def_prop_ro(
          "classes",
          [](const language& l) { return l.lifted.classes(); },
          "Classes of tokens that it tells apart.")
      .def_prop_ro(
          "shortest",
          [](const language& l) { return l.lifted.shortest(); },
          "Fewest tokens of a string of the language.")
      .def(
          "accepts",
          [](const language& l, const std::vector<int>& tokens) {
            return l.lifted.accepts(tokens);
          },
          "tokens"_a,
          nb::sig("def accepts(self, tokens: collections.abc.Sequence[int]) -> bool"),
          "Whether tokens are a string of the language, with or without EOS tokens after it.")
      .def("__repr__", [](const language& l) {
        return "Constraint(states=" + std::to_string(l.lifted.states()) +
               ", classes=" + std::to_string(l.lifted.classes()) +
               ", shortest=" + std::to_string(l.lifted.shortest()) + ")";
      });
  nb::class_<field>(
      m,
      "Field",
      R"doc(Positions [first, last) of an answer, counted from the end of the prompt, that are to be
a string of a language.

`tokens_after` is the number of tokens that follow in later sequences, None for any number; `state` is
Session.constraint_state() of the sequence with the block before. With `fill` False tokens that are
certain wait for a forward pass. With `read_again` a refused candidate is read again, under the tokens
that are possible by then, and committed in the same step: rules with a fixed number of passes keep it.
Its logits then go to supply(), not to read().)doc")
      .def(
          "__init__",
          [](field* place,
             std::shared_ptr<language> constraint,
             int first,
             std::optional<int> last,
             std::optional<int> tokens_after,
             std::optional<std::uint32_t> state,
             bool fill,
             bool read_again) {
            if (constraint == nullptr) {
              refuse_type("constraint must be Constraint, got NoneType");
            }
            new (place)
                field{std::move(constraint), first, last, tokens_after, state, fill, read_again};
          },
          "constraint"_a,
          "first"_a = 0,
          "last"_a = nb::none(),
          nb::kw_only(),
          "tokens_after"_a.none() = 0,
          "state"_a = nb::none(),
          "fill"_a = true,
          "read_again"_a = false);
}

[[nodiscard]] field field_of(nb::handle given) {
  field out;
  if (nb::isinstance<field>(given)) {
    return nb::cast<field>(given);
  }
  if (nb::isinstance<nb::tuple>(given) && nb::len(given) == 3) {
    out.first = taken<int>(nb::borrow(given[0]), "first position of a field", "int");
    const nb::object last = nb::borrow(given[1]);
    if (!last.is_none()) {
      out.last = taken<int>(last, "last position of a field", "int");
    }
    const nb::object constraint = nb::borrow(given[2]);
    shared_language l;
    if (!nb::try_cast(constraint, l) || l == nullptr) {
      refuse_type("fields must be tuples (first, last, Constraint), got " + type_of(constraint));
    }
    out.of = std::move(l);
    return out;
  }
  refuse_type("fields must be Field or tuples (first, last, Constraint), got " + type_of(given));
}

}  // namespace

std::vector<field> fields_of(nb::handle constraint, nb::handle fields) {
  std::vector<field> out;
  const bool has_constraint = constraint.is_valid() && !constraint.is_none();
  if (has_constraint && nb::isinstance<field>(constraint)) {
    out.push_back(nb::cast<field>(constraint));
  } else if (has_constraint) {
    shared_language l;
    if (!nb::try_cast(nb::borrow(constraint), l) || l == nullptr) {
      refuse_type("constraint must be Constraint or Field, got " + type_of(constraint));
    }
    out.push_back({.of = std::move(l)});
  }
  if (fields.is_valid() && !fields.is_none()) {
    if (has_constraint) {
      refuse("fields", "be None where `constraint` is given", "both");
    }
    for (const nb::handle f : nb::borrow<nb::sequence>(fields)) {
      out.push_back(field_of(f));
    }
  }
  return out;
}

void bind_constraints(nb::module_& m) {
  bind_vocabulary(m);
  bind_language(m);
}

}  // namespace unmask_python
