// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "languages.hpp"

#include <unmask/language.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <string>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "constraints.hpp"
#include "gil.hpp"

using namespace nanobind::literals;

namespace unmask_python {
namespace {

namespace languages = unmask::language;

// The bytes of a str or of bytes. Half of a surrogate pair becomes what is no UTF-8, which the
// compilers refuse at its place.
[[nodiscard]] nb::bytes bytes_of(nb::handle given, const char* name) {
  if (nb::isinstance<nb::bytes>(given)) {
    return nb::borrow<nb::bytes>(given);
  }
  if (!nb::isinstance<nb::str>(given)) {
    refuse_type(std::string(name) + " must be str or bytes, got " + type_of(given));
  }
  nb::object encoded = nb::steal(PyUnicode_AsEncodedString(given.ptr(), "utf-8", "surrogatepass"));
  if (!encoded.is_valid()) {
    throw nb::python_error();
  }
  return nb::borrow<nb::bytes>(encoded);
}

// The language that `compile` makes of a text while other threads of Python run.
template <class Compile>
[[nodiscard]] languages::automaton compiled(const nb::bytes& text, const Compile& compile) {
  languages::compiled made;
  {
    const std::string_view bytes(text.c_str(), text.size());
    const without_gil others;
    made = compile(bytes);
  }
  if (PyErr_CheckSignals() != 0) {
    throw nb::python_error();  // an interruption, which the compilation has waited for
  }
  if (!made) {
    throw nb::value_error(made.refused->message.c_str());
  }
  return std::move(made.bytes);
}

// An array that owns what `from` has.
template <class T, class... Shape>
[[nodiscard]] nb::object array_of(std::vector<T> from, Shape... shape) {
  auto* const kept = new std::vector<T>(std::move(from));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {shape...}, owner));
}

// A static method whose texts have schemas in them.
void bind_of_schemas(nb::class_<languages::automaton>& to,
                     const char* name,
                     const char* argument,
                     const char* about,
                     languages::compiled (*compile)(std::string_view,
                                                    const languages::schema_options&)) {
  constexpr languages::compile_limits usual;
  constexpr languages::schema_options schemas;
  const std::string signature =
      "def " + std::string(name) + "(" + argument +
      ": str | bytes, *, whitespace: str = ' ?', any_depth: int = 2, recursion: int = 3, longest: "
      "int = 0, closed_objects: bool = True, unicode_escapes: bool = False, integer_fractions: "
      "bool = False, refuse_unknown_formats: bool = False, states: int = 262144, positions: int = "
      "8000000, milliseconds: int = 10000) -> Language";
  to.def_static(
      name,
      [compile, argument](nb::handle given,
                          const std::string& whitespace,
                          std::uint32_t any_depth,
                          std::uint32_t recursion,
                          std::uint64_t longest,
                          bool closed_objects,
                          bool unicode_escapes,
                          bool integer_fractions,
                          bool refuse_unknown_formats,
                          std::uint32_t states,
                          std::uint32_t positions,
                          std::uint32_t milliseconds) {
        const languages::schema_options options{.limits = {states, positions, milliseconds},
                                                .whitespace = whitespace,
                                                .any_depth = any_depth,
                                                .recursion = recursion,
                                                .longest = longest,
                                                .closed_objects = closed_objects,
                                                .unicode_escapes = unicode_escapes,
                                                .integer_fractions = integer_fractions,
                                                .refuse_unknown_formats = refuse_unknown_formats};
        return compiled(bytes_of(given, argument),
                        [&](std::string_view text) { return compile(text, options); });
      },
      nb::arg(argument).none(),
      nb::kw_only(),
      "whitespace"_a = std::string(schemas.whitespace),
      "any_depth"_a = schemas.any_depth,
      "recursion"_a = schemas.recursion,
      "longest"_a = schemas.longest,
      "closed_objects"_a = schemas.closed_objects,
      "unicode_escapes"_a = schemas.unicode_escapes,
      "integer_fractions"_a = schemas.integer_fractions,
      "refuse_unknown_formats"_a = schemas.refuse_unknown_formats,
      "states"_a = usual.states,
      "positions"_a = usual.positions,
      "milliseconds"_a = usual.milliseconds,
      nb::sig(signature.c_str()),
      about);
}

}  // namespace

void bind_languages(nb::module_& m) {
  constexpr languages::compile_limits usual;
  constexpr languages::grammar_options grammars;
  nb::class_<languages::automaton> bound(
      m, "Language", R"doc(A regular language as the smallest automaton over bytes.

`states`, `positions` and `milliseconds` limit the compilation: the states of any automaton on the way,
the positions of nondeterministic ones, 40 bytes each, and its time. Other threads run meanwhile. A text
that is refused is a ValueError that begins with its place: the column of an expression, the JSON pointer
of a keyword, the line and column of a grammar. Texts are str, or bytes of UTF-8.)doc");
  bind_of_schemas(
      bound,
      "json_schema",
      "schema",
      "JSON that obeys a schema, given as its text. unmask.constraints.json_schema() has "
      "the options.",
      languages::compile_schema);
  bind_of_schemas(
      bound,
      "structural_tag",
      "tag",
      "Texts between tags that obey schemas, with free text around them, as SGLang, vLLM "
      "and xgrammar have it. The options are those of json_schema().",
      languages::compile_structural_tag);
  bound
      .def_static(
          "regex",
          [](nb::handle expression,
             bool search,
             bool strict,
             bool json_string,
             bool unicode_escapes,
             std::uint32_t states,
             std::uint32_t positions,
             std::uint32_t milliseconds) {
            const languages::expression_options options{
                .limits = {states, positions, milliseconds},
                .form =
                    json_string ? languages::text_form::json_string : languages::text_form::utf8,
                .search = search,
                .strict = strict,
                .unicode_escapes = unicode_escapes};
            return compiled(bytes_of(expression, "expression"), [&](std::string_view text) {
              return languages::compile_expression(text, options);
            });
          },
          "expression"_a.none(),
          nb::kw_only(),
          "search"_a = false,
          "strict"_a = false,
          "json_string"_a = false,
          "unicode_escapes"_a = true,
          "states"_a = usual.states,
          "positions"_a = usual.positions,
          "milliseconds"_a = usual.milliseconds,
          nb::sig("def regex(expression: str | bytes, *, search: bool = False, strict: bool = "
                  "False, json_string: bool = False, unicode_escapes: bool = True, states: int = "
                  "262144, positions: int = 8000000, milliseconds: int = 10000) -> Language"),
          "Strings that match a regular expression of ECMA-262 with flag u; with `search` those "
          "with a match in them, with `json_string` as JSON strings.")
      .def_static(
          "grammar",
          [](nb::handle grammar,
             const std::string& root,
             std::uint32_t recursion,
             std::uint32_t states,
             std::uint32_t positions,
             std::uint32_t milliseconds) {
            const languages::grammar_options options{
                .limits = {states, positions, milliseconds}, .root = root, .recursion = recursion};
            return compiled(bytes_of(grammar, "grammar"), [&](std::string_view text) {
              return languages::compile_grammar(text, options);
            });
          },
          "grammar"_a.none(),
          nb::kw_only(),
          "root"_a = std::string(grammars.root),
          "recursion"_a = grammars.recursion,
          "states"_a = usual.states,
          "positions"_a = usual.positions,
          "milliseconds"_a = usual.milliseconds,
          nb::sig("def grammar(grammar: str | bytes, *, root: str = 'root', recursion: int = 3, "
                  "states: int = 262144, positions: int = 8000000, milliseconds: int = 10000) -> "
                  "Language"),
          "Texts of a grammar in the notation of llama.cpp (GBNF), the EBNF of xgrammar; rules are "
          "entered `recursion` times in themselves.")
      .def_prop_ro("states", [](const languages::automaton& a) { return a.states(); })
      .def(
          "accepts",
          [](const languages::automaton& a, nb::handle text) {
            const nb::bytes bytes = bytes_of(text, "text");
            return a.accepts({bytes.c_str(), bytes.size()});
          },
          "text"_a.none(),
          nb::sig("def accepts(self, text: str | bytes) -> bool"),
          "Whether a text is a string of the language.")
      .def(
          "table",
          [](const languages::automaton& a) {
            unmask::byte_table table;
            {
              const without_gil others;
              table = a.table();
            }
            const std::size_t states = a.states();
            return nb::make_tuple(array_of(std::move(table.next), states, std::size_t{256}),
                                  array_of(std::move(table.accepting), states),
                                  table.start);
          },
          nb::sig("def table(self) -> tuple[typing.Annotated[numpy.typing.NDArray[numpy.uint32], "
                  "dict(shape=(None, 256))], numpy.typing.NDArray[numpy.uint8], int]"),
          "What Constraint() takes: the states after each state and byte, 1 kB a state, which "
          "states accept, and the start.")
      .def(
          "constraint",
          [](const languages::automaton& a,
             const unmask::vocabulary& vocabulary,
             std::uint32_t states,
             std::size_t memory) {
            if (a.states() > states) {
              throw nb::value_error(
                  ("the language has " + std::to_string(a.states()) + " states, the limit is " +
                   std::to_string(states) +
                   ": a maxLength of hundreds counts every character; leave it out or raise states")
                      .c_str());
            }
            return lifted(
                [&] { return a.table(); }, vocabulary, {.states = states, .bytes = memory});
          },
          "vocabulary"_a,
          nb::kw_only(),
          "states"_a = 65536,
          "memory"_a = std::size_t{64} << 20U,
          "The language over the tokens of a vocabulary.")
      .def("__repr__", [](const languages::automaton& a) {
        return "Language(states=" + std::to_string(a.states()) + ")";
      });
}

}  // namespace unmask_python
