// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/expression_compiler.hpp>
#include <unmask/language/grammar.hpp>
#include <unmask/language/grammar_calls.hpp>
#include <unmask/language/grammar_reader.hpp>
#include <unmask/language/nfa.hpp>
#include <unmask/language/text_bytes.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Definitions of grammar.hpp.
namespace UNMASK_NAMESPACE {

namespace detail::languages {

/// A grammar as an automaton over code points.
class grammar_compiler {
 public:
  grammar_compiler(const std::vector<grammar_rule>& rules, std::uint32_t recursion, budget& left)
      : left_(left)
      , rules_(rules)
      , calls_(rules, left)
      , recursion_(recursion) {}

  [[nodiscard]] automaton compile() {
    // Rules wait for those that they copy.
    std::vector<key> todo{key_of(0, recursion_)};
    while (!todo.empty()) {
      const key k = todo.back();
      const std::size_t before = todo.size();
      if (known_.count(k) == 0) {
        for (const std::uint32_t r : calls_.members(k.first)) {
          calls_.visit(rules_[r].body, true, true, [&](std::uint32_t to, bool first, bool last) {
            if (!calls_.is_link(r, to, first, last) && levels_of(r, to, k.second) > 0) {
              const key needed = key_of(to, levels_of(r, to, k.second));
              if (known_.count(needed) == 0) {
                todo.push_back(needed);
              }
            }
          });
        }
      }
      if (todo.size() > before) {
        left_.check_positions(todo.size());
        continue;
      }
      todo.pop_back();
      if (known_.count(k) == 0) {
        const auto made = known_.emplace(k, rule(k)).first;
        left_.check_positions(kept_ += made->second.states());
      }
    }
    return known_.at(key_of(0, recursion_));
  }

 private:
  using kind = grammar_node::kind;
  using key = std::pair<std::uint32_t, std::uint32_t>;  // a rule and the levels that are left

  [[nodiscard]] key key_of(std::uint32_t rule, std::uint32_t levels) const {
    return {rule, calls_.is_bounded(rule) ? levels : recursion_};
  }
  // The levels that are left in a copy.
  [[nodiscard]] std::uint32_t
  levels_of(std::uint32_t from, std::uint32_t to, std::uint32_t levels) const {
    return !calls_.is_in_cycle(from, to) ? recursion_ : levels - (calls_.is_head(to) ? 1 : 0);
  }
  [[nodiscard]] automaton rule(key of) {
    try {
      nfa n(left_);
      const std::uint32_t start = n.add();
      const std::uint32_t final = n.add();
      places_.clear();
      for (const std::uint32_t r : calls_.members(of.first)) {
        places_[r] = n.add();
      }
      levels_ = of.second;
      const bool is_left = calls_.is_left(of.first);
      for (const std::uint32_t r : calls_.members(of.first)) {
        rule_ = r;
        const std::uint32_t end =
            build(n, rules_[r].body, is_left ? start : places_[r], true, true);
        n.link(end, is_left ? places_[r] : final);
      }
      n.link(is_left ? places_[of.first] : start, is_left ? final : places_[of.first]);
      return smallest(n, start, final, left_);
    } catch (const refused& error) {
      if (error.why().line > 0) {
        throw;
      }
      throw refused("the rule '" + rules_[of.first].name + "' with " + std::to_string(of.second) +
                    " levels left of the option `recursion`: " + error.why().message);
    }
  }
  // Adds a part of a rule behind a state, and returns the state after it.
  std::uint32_t
  build(nfa& n, const grammar_node& node, std::uint32_t from, bool is_first, bool is_last) {
    switch (node.is) {
    case kind::characters: {
      const std::uint32_t to = n.add();
      left_.spend(node.set.size());
      for (const auto& [first, last] : node.set) {
        n.arc(from, first, last, to);
      }
      return to;
    }
    case kind::sequence:
      for (std::size_t i = 0; i < node.parts.size(); ++i) {
        from = build(
            n, node.parts[i], from, is_first && i == 0, is_last && i + 1 == node.parts.size());
      }
      return from;
    case kind::choice: {
      const std::uint32_t to = n.add();
      for (const grammar_node& part : node.parts) {
        const std::uint32_t begin = n.add();
        n.link(from, begin);
        n.link(build(n, part, begin, is_first, is_last), to);
      }
      return to;
    }
    case kind::repetition:
      return repetition(n, node, from, is_first, is_last);
    case kind::call:
      break;
    }
    const std::uint32_t to = n.add();
    if (!calls_.is_link(rule_, node.rule, is_first, is_last)) {
      if (const std::uint32_t levels = levels_of(rule_, node.rule, levels_); levels > 0) {
        n.put(known_.at(key_of(node.rule, levels)), from, to);
      }
    } else if (calls_.is_left(rule_)) {
      n.link(places_[node.rule], to);  // behind what the other rule derived
    } else {
      n.link(from, places_[node.rule]);  // the other rule continues to the end
    }
    return to;
  }
  std::uint32_t
  repetition(nfa& n, const grammar_node& node, std::uint32_t from, bool is_first, bool is_last) {
    const grammar_node& part = node.parts[0];
    const bool is_once = grammar_calls::is_once(node);
    const bool has_counts = node.least > 1 || (node.most != dead_state && node.most > 1);
    if (!has_counts || part.is == kind::characters) {
      return repeat(n, from, node.least, node.most, [&](std::uint32_t behind) {
        return build(n, part, behind, is_first && is_once, is_last && is_once);
      });
    }
    // A part that is repeated by counts is made smallest first, and copied.
    nfa inner(left_);
    const std::uint32_t start = inner.add();
    const std::uint32_t final = inner.add();
    inner.link(build(inner, part, start, false, false), final);
    automaton copy = smallest(inner, start, final, left_);
    std::uint32_t least = node.least;
    std::uint32_t most = node.most;
    drop_empty(copy, least, most);
    return repeat(n, from, least, most, [&](std::uint32_t behind) {
      const std::uint32_t to = n.add();
      n.put(copy, behind, to);
      return to;
    });
  }

  budget& left_;
  const std::vector<grammar_rule>& rules_;
  grammar_calls calls_;
  std::uint32_t recursion_;
  std::map<key, automaton> known_;
  std::size_t kept_ = 0;  // their states
  // The group that is being built: its states, the rule, the levels that are left.
  std::map<std::uint32_t, std::uint32_t> places_;
  std::uint32_t rule_ = 0;
  std::uint32_t levels_ = 0;
};

/// A grammar as the smallest automaton over code points; without states where nothing is in it.
[[nodiscard]] inline automaton grammar_codes(std::string_view grammar,
                                             std::string_view root,
                                             std::uint32_t recursion,
                                             budget& left) {
  if (recursion == 0) {
    throw refused("the option `recursion` must be at least 1, got 0");
  }
  check_utf8(grammar, "the grammar");
  check_utf8(root, "the option `root`");
  const std::vector<grammar_rule> rules = grammar_reader(grammar, left).read(root);
  return grammar_compiler(rules, recursion, left).compile();
}

}  // namespace detail::languages

namespace language {

UNMASK_LIBRARY compiled compile_grammar(std::string_view grammar, const grammar_options& options) {
  namespace inner = detail::languages;
  return inner::guarded(options.limits, [&](inner::budget& left) {
    const automaton codes = inner::grammar_codes(grammar, options.root, options.recursion, left);
    automaton bytes = inner::bytes_of(codes, text_form::utf8, true, left);
    if (bytes.empty()) {
      throw inner::refused(
          "the grammar derives no text in which rules contain themselves at most " +
          std::to_string(options.recursion) +
          " times: give a greater `recursion`, or an alternative that ends");
    }
    return bytes;
  });
}

}  // namespace language

}  // namespace UNMASK_NAMESPACE
