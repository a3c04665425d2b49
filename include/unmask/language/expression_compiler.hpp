// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/budget.hpp>
#include <unmask/language/expression.hpp>
#include <unmask/language/expression_tree.hpp>
#include <unmask/language/look_around.hpp>
#include <unmask/language/nfa.hpp>
#include <unmask/language/operations.hpp>
#include <unmask/language/text_bytes.hpp>
#include <unmask/text/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Definitions of expression.hpp.
namespace UNMASK_NAMESPACE {

namespace detail::languages {

/// The tree of an expression as an automaton over code points.
class expression_compiler {
 public:
  /// `looks` receives the looks of a whole expression with looks; or nullptr.
  explicit expression_compiler(budget& left, look_around* looks = nullptr)
      : left_(left)
      , looks_(looks)
      , nfa_(left) {}

  /// The smallest automaton; with `search` of any text that has a match in it.
  [[nodiscard]] automaton compile(const expression_node& tree, bool search) {
    const std::uint32_t start = nfa_.add();
    const std::uint32_t final = nfa_.add();
    const std::uint32_t first = nfa_.add();
    nfa_.link(start, first);
    const std::uint32_t last = build(tree, first);
    std::uint32_t any = dead_state;
    if (search) {
      any = nfa_.add();
      for (const std::uint32_t s : {start, any}) {
        nfa_.any_code(s, s);
      }
      nfa_.link(any, final);
    }
    nfa_.link(last, search ? any : final);
    return looks_ != nullptr ? looks_->resolve(nfa_, start, final, any)
                             : smallest(nfa_, start, final, left_, any);
  }
  /// Adds a look, and returns its number.
  [[nodiscard]] std::uint32_t add_look(const expression_node& body, bool is_behind) {
    const std::uint32_t start = nfa_.add();
    const std::uint32_t first = nfa_.add();
    nfa_.link(start, first);
    const std::uint32_t final = nfa_.add();
    nfa_.link(build(body, first), final);
    const std::uint32_t open = is_behind ? start : final;
    nfa_.any_code(open, open);
    return looks_->add(is_behind, std::move(nfa_), start, final);
  }

 private:
  using kind = expression_node::kind;

  // Adds a tree behind a state, and returns the state after it.
  std::uint32_t build(const expression_node& tree, std::uint32_t from) {
    switch (tree.is) {
    case kind::characters: {
      const std::uint32_t to = nfa_.add();
      left_.spend(tree.set.size());
      for (const auto& [first, last] : tree.set) {
        nfa_.arc(from, first, last, to);
      }
      return to;
    }
    case kind::sequence:
      for (const expression_node& part : tree.parts) {
        from = build(part, from);
      }
      return from;
    case kind::choice: {
      const std::uint32_t to = nfa_.add();
      for (const expression_node& part : tree.parts) {
        const std::uint32_t begin = nfa_.add();
        nfa_.link(from, begin);
        nfa_.link(build(part, begin), to);
      }
      return to;
    }
    case kind::repetition:
      return repeat(tree, from);
    case kind::start:
    case kind::end:
    case kind::look:
      break;
    }
    const std::uint32_t to = nfa_.add();
    place_in_text where = place_in_text::at_end;
    if (tree.is == kind::look) {
      where = look_around::condition(number_of(tree.parts[0], tree.is_behind), tree.is_negated);
    } else if (tree.is == kind::start && looks_ != nullptr) {  // nothing is before it
      expression_node any;
      any.is = kind::characters;
      any.set = complement({});
      where = look_around::condition(number_of(any, true), true);
    } else if (tree.is == kind::start) {
      where = place_in_text::at_start;
    }
    nfa_.link(from, to, where);
    return to;
  }
  // The number of a look; those at one character are one.
  std::uint32_t number_of(const expression_node& body, bool is_behind) {
    if (body.is != kind::characters) {
      return expression_compiler(left_, looks_).add_look(body, is_behind);
    }
    const auto key = std::make_pair(is_behind, body.set);
    if (const auto known = looks_->characters.find(key); known != looks_->characters.end()) {
      return known->second;
    }
    return looks_->characters[key] = expression_compiler(left_, looks_).add_look(body, is_behind);
  }
  // A part that is repeated by counts is made smallest first, and copied.
  std::uint32_t repeat(const expression_node& tree, std::uint32_t from) {
    const expression_node& part = tree.parts[0];
    const bool has_counts = tree.least > 1 || (tree.most != no_most && tree.most > 1);
    const bool is_copied = has_counts && !tree.has_anchors && part.is != kind::characters;
    automaton copy;
    std::uint32_t least = tree.least;
    std::uint32_t most = tree.most;
    if (is_copied) {
      copy = expression_compiler(left_).compile(part, false);
      drop_empty(copy, least, most);
    }
    return languages::repeat(nfa_, from, least, most, [&](std::uint32_t behind) {
      if (!is_copied) {
        return build(part, behind);
      }
      const std::uint32_t to = nfa_.add();
      nfa_.put(copy, behind, to);
      return to;
    });
  }

  budget& left_;
  look_around* looks_;
  nfa nfa_;
};

/// Throws refused if a text is not UTF-8.
inline void check_utf8(std::string_view text, const char* what) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = utf8_character_size(text.substr(i));
    if (size == 0) {
      throw refused(std::string(what) + " is not UTF-8 at byte " + std::to_string(i + 1));
    }
    i += size;
  }
}

/// An expression as the smallest automaton over code points. Throws refused.
[[nodiscard]] inline automaton
expression_codes(std::string_view expression, bool search, bool is_strict, budget& left) {
  check_utf8(expression, "the expression");
  const expression_node tree = expression_reader(expression, is_strict).read();
  look_around looks(left);
  return expression_compiler(left, tree.has_looks ? &looks : nullptr).compile(tree, search);
}

}  // namespace detail::languages

namespace language {

UNMASK_LIBRARY compiled compile_expression(std::string_view expression,
                                           const expression_options& options) {
  namespace inner = detail::languages;
  return inner::guarded(options.limits, [&](inner::budget& left) {
    const automaton codes =
        inner::expression_codes(expression, options.search, options.strict, left);
    automaton bytes = inner::bytes_of(codes, options.form, options.unicode_escapes, left);
    if (bytes.empty()) {
      throw inner::refused("the expression matches no text");
    }
    return bytes;
  });
}

}  // namespace language

}  // namespace UNMASK_NAMESPACE
