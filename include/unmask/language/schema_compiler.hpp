// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/nfa.hpp>
#include <unmask/language/schema.hpp>
#include <unmask/language/schema_cases.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Definitions of schema.hpp.
namespace UNMASK_NAMESPACE {

namespace detail::languages {

/// The cases of schemas as automata over bytes: each conjunction is one automaton with copies of
/// the automata of items and members.
class schema_compiler : public schema_cases {
 public:
  schema_compiler(schema_document& document, const language::schema_options& options)
      : schema_cases(document, options)
      , space_(space_of(options.whitespace, document.left())) {}

  [[nodiscard]] automaton compile() {
    automaton out = *value_of(only(document_.root()), options_.recursion);
    if (out.empty()) {
      throw refused("the schema: no finite JSON value obeys it");
    }
    return out;
  }

 private:
  static constexpr std::size_t most_levels = 64;
  static constexpr std::uint64_t no_bound = value_case::no_bound;

  static automaton space_of(std::string_view whitespace, budget& left) {
    try {
      automaton out = expression_codes(whitespace, false, true, left);
      for (const std::vector<run>& runs : out.runs) {
        for (const run& r : runs) {
          for (std::uint32_t c = r.first; c <= r.last; ++c) {
            if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
              throw refused("it has " + json_string_of(utf8_of(c)) +
                            ", which is not white space of JSON");
            }
          }
        }
      }
      if (out.empty()) {
        throw refused("it matches nothing");
      }
      return out;
    } catch (const refused& error) {
      throw refused("the option `whitespace`: " + error.why().message);
    }
  }
  std::uint32_t space(nfa& n, std::uint32_t from) {
    const std::uint32_t to = n.add();
    n.put(space_, from, to);
    return to;
  }
  std::uint32_t spaced(nfa& n, std::uint32_t from, std::string_view sign) {
    return space(n, n.text(space(n, from), sign));
  }
  // A constant behind a state; returns the state after it.
  std::uint32_t write(nfa& n, std::uint32_t at, const json_value& v) {
    if (!v.is_list() && !v.is_object()) {
      return n.text(at, scalar(v));
    }
    at = n.text(at, v.is_list() ? "[" : "{");
    for (std::size_t i = 0; i < v.items.size(); ++i) {
      at = i == 0 ? space(n, at) : spaced(n, at, ",");
      if (v.is_object()) {
        at = spaced(n, n.text(at, json_string_of(v.names[i])), ":");
      }
      at = write(n, at, v.items[i]);
    }
    return n.text(space(n, at), v.is_list() ? "]" : "}");
  }
  [[nodiscard]] static std::string scalar(const json_value& v) {
    switch (v.is) {
    case json_value::kind::boolean:
      return v.truth ? "true" : "false";
    case json_value::kind::string:
      return json_string_of(v.text);
    case json_value::kind::number: {
      const decimal d = decimal::of(v.text);
      const bool is_short = d.exponent > -40 && d.exponent < 40;
      return is_short ? d.plain() : v.text;
    }
    default:
      return "null";
    }
  }
  void put_constants(nfa& n,
                     std::uint32_t from,
                     std::uint32_t to,
                     const std::vector<schema_ptr>& values,
                     std::vector<automaton>& parts) {
    std::vector<std::string> texts;
    for (const schema_ptr v : values) {
      left_.spend(8);
      if (v->is_list() || v->is_object()) {
        n.link(write(n, from, *v), to);
      } else {
        texts.push_back(scalar(*v));
      }
    }
    parts.push_back(words(std::move(texts), false));
  }

  static constexpr const char* any_number = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?";

  // Values of any kind, of the given depth.
  [[nodiscard]] shared_automaton any_value(std::uint32_t depth) {
    const auto known = any_.find(depth);
    if (known != any_.end()) {
      return known->second;
    }
    if (depth > most_levels) {
      throw refused("the option `any_depth` is over " + std::to_string(most_levels));
    }
    nfa n(left_);
    const std::uint32_t from = n.add();
    const std::uint32_t to = n.add();
    n.put(words({"null", "true", "false"}, false), from, to);
    n.put(number_text(any_number), from, to);
    n.put(any_string(), from, to);
    if (depth > 0) {
      put_any_list(n, from, to, depth);
      put_any_object(n, from, to, depth);
    }
    return any_[depth] = share(smallest(n, from, to, left_));
  }
  void put_any_list(nfa& n, std::uint32_t from, std::uint32_t to, std::uint32_t depth) {
    const std::uint32_t open = space(n, n.text(from, "["));
    const std::uint32_t before = n.add();
    const std::uint32_t after = n.add();
    n.link(open, before);
    if (depth > 0) {
      n.put(*any_value(depth - 1), before, after);
    }
    const std::uint32_t end = space(n, after);
    n.link(space(n, n.text(end, ",")), before);
    n.link(n.text(end, "]"), to);
    n.link(n.text(open, "]"), to);
  }
  void put_any_object(nfa& n, std::uint32_t from, std::uint32_t to, std::uint32_t depth) {
    const std::uint32_t open = space(n, n.text(from, "{"));
    const std::uint32_t before = n.add();
    const std::uint32_t name = n.add();
    const std::uint32_t after = n.add();
    n.link(open, before);
    if (depth > 0) {
      n.put(any_string(), before, name);
      n.put(*any_value(depth - 1), spaced(n, name, ":"), after);
    }
    const std::uint32_t end = space(n, after);
    n.link(space(n, n.text(end, ",")), before);
    n.link(n.text(end, "}"), to);
    n.link(n.text(open, "}"), to);
  }

  // The schema that one names by references alone.
  [[nodiscard]] schema_ptr meant(schema_ptr s) {
    for (int i = 0; i < 50 && s->is_object(); ++i) {
      const json_value* reference = nullptr;
      for (std::size_t k = 0; k < s->items.size(); ++k) {
        if (document_.counts(*s, s->names[k])) {
          if (reference != nullptr || s->names[k] != "$ref") {
            return s;
          }
          reference = &s->items[k];
        }
      }
      if (reference == nullptr) {
        return s;
      }
      s = document_.follow(*reference);
    }
    return s;
  }
  /// Values that obey a conjunction. Each turn of a cycle of schemas costs one of `turns`.
  [[nodiscard]] shared_automaton value_of(conjunction all, std::uint32_t turns) {
    if (all.size() == 1 && !all[0].is_not) {
      all = only(meant(all[0].schema));
    }
    if (all.empty()) {
      return any_value(options_.any_depth);
    }
    const auto is_same = [&](const auto& open) { return open.first == all; };
    const auto last = std::find_if(open_.rbegin(), open_.rend(), is_same);
    if (last != open_.rend() && last->second == turns) {
      if (turns <= 1) {
        return share({});
      }
      --turns;
    }
    const auto key = std::make_pair(all, turns);
    if (const auto known = known_.find(key); known != known_.end()) {
      return known->second;
    }
    if (open_.size() > most_levels) {
      document_.refuse(all[0].schema, "values are nested over 64 deep");
    }
    open_.emplace_back(all, turns);
    shared_automaton out =
        share(document_.at_place(all[0].schema, [&] { return value(all, turns); }));
    open_.pop_back();
    return known_[key] = out;
  }
  [[nodiscard]] automaton value(const conjunction& all, std::uint32_t turns) {
    nfa n(left_);
    const std::uint32_t from = n.add();
    const std::uint32_t to = n.add();
    std::vector<automaton> parts;  // of values other than lists and objects
    if (const auto values = listed(all)) {
      put_constants(n, from, to, *values, parts);
      return joined(n, from, to, parts);
    }
    for (value_case& c : cases_of(all)) {
      if (options_.longest > 0) {  // bounds that no answer reaches
        const auto drop = [&](std::uint64_t& bound, std::uint64_t bytes) {
          bound =
              bound != no_bound && bound < no_bound / bytes && bytes * bound + 2 < options_.longest
                  ? bound
                  : no_bound;
        };
        drop(c.max_length, 1);
        drop(c.max_items, 2);
        drop(c.max_members, 5);
      }
      if (c.values) {
        std::erase_if(*c.values, [&](schema_ptr v) {
          return (schema_document::kind_of(*v) & c.kinds) == 0 || !obeys(all, *v);
        });
        put_constants(n, from, to, *c.values, parts);
        continue;
      }
      std::vector<std::string> texts;
      for (const auto& [kind, text] :
           {std::pair{null_kind, "null"}, {true_kind, "true"}, {false_kind, "false"}}) {
        if ((c.kinds & kind) != 0) {
          texts.emplace_back(text);
        }
      }
      parts.push_back(words(std::move(texts), false));
      if ((c.kinds & number_kinds) != 0) {
        parts.push_back(numbers(c));
      }
      if ((c.kinds & string_kind) != 0) {
        const bool is_any = c.texts.empty() && c.min_length == 0 && c.max_length == no_bound;
        parts.push_back(is_any ? any_string() : json_bytes(texts_of(c, all)));
      }
      if ((c.kinds & list_kind) != 0) {
        put_list(n, from, to, c, turns);
      }
      if ((c.kinds & object_kind) != 0) {
        put_object(n, from, to, c, turns, all[0].schema);
      }
    }
    return joined(n, from, to, parts);
  }
  // A text that leads from one state to another, or is in one of some smallest automata. Long
  // strings are most often alone: then nothing is made again.
  [[nodiscard]] automaton
  joined(nfa& n, std::uint32_t from, std::uint32_t to, std::vector<automaton>& parts) {
    std::erase_if(parts, [](const automaton& a) { return a.empty(); });
    if (n.size() == 2 && parts.size() == 1) {
      return trim(std::move(parts[0]), left_);
    }
    for (const automaton& a : parts) {
      n.put(a, from, to);
    }
    automaton out = determinise(n, from, to, left_);
    // A large value in one list or object stays nearly smallest; the whole schema's is made so.
    const bool is_nearly_smallest =
        n.largest() > n.size() / 10 * 9 && out.states() <= n.size() && open_.size() > 1;
    return is_nearly_smallest ? trim(std::move(out), left_) : minimise(std::move(out), left_);
  }
  [[nodiscard]] automaton numbers(const value_case& c) {
    const unsigned kinds = c.kinds & number_kinds;
    if (kinds == number_kinds && c.bounds.empty() && c.multiples.empty()) {
      return number_text(any_number);
    }
    const char* const whole =
        options_.integer_fractions ? "0(\\.0+)?|-?[1-9][0-9]*(\\.0+)?" : "0|-?[1-9][0-9]*";
    automaton out = number_text(
        kinds == integer_kind   ? whole
        : kinds == number_kinds ? "0(\\.[0-9]+)?|-?[1-9][0-9]*(\\.[0-9]+)?|-0\\.[0-9]*[1-9][0-9]*"
                                : "-?(0|[1-9][0-9]*)\\.[0-9]*[1-9][0-9]*");
    for (const auto& [bound, mask] : c.bounds) {
      out = product(out, compared(bound, mask), combination::both, left_);
    }
    for (const auto& [unit, is_not] : c.multiples) {
      out = product(
          out, multiples(unit), is_not ? combination::first_only : combination::both, left_);
    }
    return out;
  }

  // States of a list: the index of the next item, at most `cap`, and a count for each of
  // `contains`, or the set of constants that were used.
  void put_list(nfa& n, std::uint32_t from, std::uint32_t to, value_case c, std::uint32_t turns) {
    std::erase_if(c.items_from, [](const auto& p) { return p.second.empty(); });
    std::erase_if(c.items, [](const auto& p) { return p.second.empty(); });
    const bool is_unique = c.unique_items != nullptr && c.max_items > 1;
    if (c.items.empty() && c.items_from.empty() && c.contains.empty() && !is_unique &&
        c.min_items == 0 && c.max_items == no_bound) {
      put_any_list(n, from, to, options_.any_depth);
      return;
    }
    std::vector<schema_ptr> values;
    if (is_unique) {
      values = unique_values(c);
      c.max_items = std::min<std::uint64_t>(c.max_items, values.size());
      if (c.min_items > c.max_items) {
        return;
      }
    }
    std::uint64_t cap = std::max(c.min_items, c.max_items == no_bound ? 0 : c.max_items);
    for (const auto& [i, obeys] : c.items) {
      cap = std::max(cap, i + 1);
    }
    for (const auto& [i, obeys] : c.items_from) {
      cap = std::max(cap, i);
    }
    for (const value_case::some_items& s : c.contains) {
      cap = std::max(cap, s.from);
    }
    cap = std::min(cap, c.max_items);
    left_.check_states(static_cast<std::size_t>(cap));
    if (c.contains.size() > 6) {
      throw refused("over 6 of `contains` hold together");
    }
    using state = std::vector<std::uint64_t>;
    struct place {
      std::uint32_t before = 0;
      std::uint32_t after = 0;
    };
    std::map<state, place> places;
    std::vector<state> todo;
    const auto at = [&](const state& s) {
      const auto [found, is_new] = places.try_emplace(s);
      if (is_new) {
        found->second = {n.add(), n.add()};
        todo.push_back(s);
      }
      return found->second;
    };
    std::map<std::pair<const automaton*, std::uint32_t>, std::uint32_t> copies;
    const state first(1 + (is_unique ? 1 : c.contains.size()), 0);
    n.link(space(n, n.text(from, "[")), at(first).before);
    for (std::size_t t = 0; t < todo.size(); ++t) {
      const state s = todo[t];
      const place here = places.at(s);
      const std::uint64_t i = s[0];
      left_.spend(64);
      bool may_end = i >= c.min_items;
      for (std::size_t k = 0; !is_unique && k < c.contains.size(); ++k) {
        may_end = may_end && s[k + 1] >= c.contains[k].least;
      }
      if (may_end) {
        n.link(n.text(t == 0 ? here.before : here.after, "]"), to);
      }
      if (i >= c.max_items) {
        continue;
      }
      const std::uint32_t go = t == 0 ? here.before : space(n, n.text(here.after, ","));
      const std::uint64_t next =
          std::min(i + 1, c.max_items == no_bound ? std::max<std::uint64_t>(cap, 1) : cap);
      for (std::size_t v = 0; is_unique && v < values.size(); ++v) {
        if ((s[1] >> v & 1U) == 0) {
          const std::uint32_t behind = write(n, go, *values[v]);
          n.link(space(n, behind), at({next, s[1] | std::uint64_t{1} << v}).after);
        }
      }
      for (unsigned pick = 0; !is_unique && pick < 1U << c.contains.size(); ++pick) {
        state then = s;
        then[0] = next;
        conjunction obeys;
        if (const auto own = c.items.find(i); own != c.items.end() && (i < cap || i == 0)) {
          add(obeys, own->second);
        }
        for (const auto& [begin, more] : c.items_from) {
          if (begin <= i) {
            add(obeys, more);
          }
        }
        if (count_for(c, pick, i, then, obeys)) {
          const shared_automaton item = value_of(obeys, turns);
          if (item->empty()) {
            continue;
          }
          // Items with the same state after them are one copy.
          const std::uint32_t after = at(then).after;
          const auto [copy, is_new] = copies.try_emplace({item.get(), after}, dead_state);
          if (is_new) {
            copy->second = n.add();
            put_item(n, copy->second, *item, [&] { return after; });
          }
          n.link(go, copy->second);
        }
      }
    }
  }
  void put_item(nfa& n, std::uint32_t go, const automaton& item, const auto& target) {
    if (!item.empty()) {
      const std::uint32_t behind = n.add();
      n.put(item, go, behind);
      n.link(space(n, behind), target());
    }
  }
  // The schemas that an item must obey to count for those of `contains` that `pick` has; false if
  // it may not.
  static bool count_for(const value_case& c,
                        unsigned pick,
                        std::uint64_t i,
                        std::vector<std::uint64_t>& counts,
                        conjunction& obeys) {
    for (std::size_t k = 0; k < c.contains.size(); ++k) {
      const value_case::some_items& s = c.contains[k];
      if ((pick >> k & 1U) != 0) {
        if (i < s.from || counts[k + 1] >= (s.most == no_bound ? s.least : s.most)) {
          return false;
        }
        ++counts[k + 1];
        add(obeys, s.obeys);
      } else if (s.most != no_bound && i >= s.from) {
        if (s.obeys.empty()) {
          return false;
        }
        if (s.obeys.size() != 1) {
          throw refused("`maxContains` of several schemas together is not kept");
        }
        add(obeys, {{s.obeys[0].schema, !s.obeys[0].is_not}});
      }
    }
    return true;
  }
  [[nodiscard]] std::vector<schema_ptr> unique_values(const value_case& c) {
    conjunction all;
    for (const auto& [from, obeys] : c.items_from) {
      if (from == 0) {
        add(all, obeys);
      }
    }
    auto values = c.items.empty() && c.contains.empty() ? listed(all) : std::nullopt;
    if (values) {
      std::set<std::string> seen;
      std::erase_if(*values, [&](schema_ptr v) { return !seen.insert(canonical_text(*v)).second; });
    }
    if (!values || values->size() > 10) {
      document_.refuse(c.unique_items, "is kept for items of at most 10 constants");
    }
    return *values;
  }

  // A way to fulfil some of the witnesses, as bits.
  using way = std::pair<std::uint32_t, conjunction>;
  struct known_member {
    std::string name;
    bool is_required;
    conjunction obeys;
    std::vector<way> ways;
    std::uint32_t absent;  // bits that its absence fulfils
  };
  struct other_member {
    automaton names;
    conjunction obeys;
    std::vector<way> ways;
  };

  void put_object(nfa& n,
                  std::uint32_t from,
                  std::uint32_t to,
                  value_case c,
                  std::uint32_t turns,
                  schema_ptr at) {
    if (c.members.empty() && c.others.empty() && c.by_pattern.empty() && c.names.empty() &&
        c.witnesses.empty() && c.min_members == 0 && c.max_members == no_bound) {
      put_any_object(n, from, to, options_.any_depth);
      return;
    }
    std::erase_if(c.witnesses, [&](const value_case::witness& w) { return is_fulfilled(c, w); });
    if (c.witnesses.size() > 6) {
      throw refused("over 6 schemas of objects must not hold together");
    }
    std::uint32_t fulfilled = 0;
    std::vector<known_member> known;
    std::uint64_t required = 0;
    for (const value_case::member& m : c.members) {
      left_.spend(64);
      std::uint32_t absent = 0;
      for (std::size_t w = 0; w < c.witnesses.size(); ++w) {
        const std::vector<std::string>& missing = c.witnesses[w].missing;
        absent |= std::find(missing.begin(), missing.end(), m.name) != missing.end() ? 1U << w : 0U;
      }
      conjunction obeys_all = m.obeys;
      if (m.is_forbidden || !may_stand(c, m.name, obeys_all, at) ||
          value_of(obeys_all, turns)->empty()) {
        if (m.is_required) {
          return;
        }
        fulfilled |= absent;
        continue;
      }
      std::vector<way> ways;
      for (std::size_t w = 0; w < c.witnesses.size(); ++w) {
        for (const auto& [names, how] : c.witnesses[w].ways) {
          if (accepts_codes(*names, m.name)) {
            ways.emplace_back(1U << w, how);
          }
        }
      }
      known.push_back({m.name, m.is_required, obeys_all, ways, absent});
      required += m.is_required ? 1 : 0;
    }
    std::vector<other_member> others = other_members(c, required, known.size(), turns, at);
    if (c.max_members < required) {
      return;
    }
    if (others.empty() && c.max_members >= known.size()) {
      c.max_members = no_bound;
    }
    c.max_members = c.max_members >= schema_document::many ? no_bound : c.max_members;
    const std::uint64_t least = c.min_members <= required ? 0 : c.min_members;
    if (!others.empty() && least > known.size() + 1) {
      throw refused("`minProperties` asks for several names that the schema does not list");
    }
    write_object(n,
                 from,
                 to,
                 known,
                 others,
                 least,
                 c.max_members,
                 fulfilled,
                 static_cast<std::uint32_t>(c.witnesses.size()),
                 turns);
  }
  // Whether a witness is there anyway.
  [[nodiscard]] bool is_fulfilled(const value_case& c, const value_case::witness& w) {
    for (const value_case::member& m : c.members) {
      if (m.is_forbidden &&
          std::find(w.missing.begin(), w.missing.end(), m.name) != w.missing.end()) {
        return true;
      }
      for (const auto& [names, how] : w.ways) {
        if (m.is_required && accepts_codes(*names, m.name)) {
          const auto values = listed(m.obeys);
          const auto holds = [&, h = &how](schema_ptr v) { return obeys(*h, *v); };
          if (how.empty() || (values && std::all_of(values->begin(), values->end(), holds))) {
            return true;
          }
        }
      }
    }
    return false;
  }
  // Adds what patterns and the schema of other members ask of a name; false if the name is not
  // allowed.
  [[nodiscard]] bool
  may_stand(const value_case& c, const std::string& name, conjunction& all, schema_ptr at) {
    for (const auto& [p, obeys_it] : c.by_pattern) {
      if (accepts_codes(*pattern(at, p), name)) {
        add(all, obeys_it);
      }
    }
    for (const value_case::other_members& o : c.others) {
      const bool is_mentioned =
          std::binary_search(o.names.begin(), o.names.end(), name) ||
          std::any_of(o.patterns.begin(), o.patterns.end(), [&](const std::string& p) {
            return accepts_codes(*pattern(at, p), name);
          });
      if (!is_mentioned) {
        add(all, o.obeys);
      }
    }
    json_value text;
    text.is = json_value::kind::string;
    text.text = name;
    return std::all_of(
        c.names.begin(), c.names.end(), [&](const conjunction& of) { return obeys(of, text); });
  }
  // Names that are not known, by the patterns that they match and the witnesses that they can be.
  [[nodiscard]] std::vector<other_member> other_members(const value_case& c,
                                                        std::uint64_t required,
                                                        std::size_t known,
                                                        std::uint32_t turns,
                                                        schema_ptr at) {
    std::vector<other_member> out;
    const bool is_wide = c.is_open || (!c.has_properties && c.by_pattern.empty()) ||
                         (!options_.closed_objects && c.others.empty()) ||
                         (c.min_members > known && c.min_members != 0);
    if ((!is_wide && c.by_pattern.empty()) || c.max_members <= required) {
      return out;
    }
    std::vector<std::string> mentioned;
    for (const value_case::member& m : c.members) {
      mentioned.push_back(m.name);
    }
    automaton names =
        product(*all_texts(), words(std::move(mentioned), true), combination::first_only, left_);
    for (const conjunction& of : c.names) {
      names = product(names, texts_of(of), combination::both, left_);
    }
    std::set<std::string> patterns;
    for (const auto& [p, obeys_it] : c.by_pattern) {
      patterns.insert(p);
    }
    for (const value_case::other_members& o : c.others) {
      patterns.insert(o.patterns.begin(), o.patterns.end());
    }
    struct part {
      automaton names;
      std::set<std::string> matched;
    };
    std::vector<part> parts;
    parts.push_back({std::move(names), {}});
    for (const std::string& p : patterns) {
      std::vector<part> more;
      for (const part& old : parts) {
        part in{product(old.names, *pattern(at, p), combination::both, left_), old.matched};
        part beside{product(old.names, *pattern(at, p), combination::first_only, left_),
                    old.matched};
        in.matched.insert(p);
        for (part* made : {&in, &beside}) {
          if (!made->names.empty()) {
            more.push_back(std::move(*made));
          }
        }
      }
      parts = std::move(more);
      if (parts.size() > 64) {
        throw refused("`patternProperties` overlap in over 64 ways");
      }
    }
    for (const part& p : parts) {
      conjunction obeys_all;
      bool is_by_pattern = false;
      for (const auto& [name, obeys_it] : c.by_pattern) {
        if (p.matched.count(name) != 0) {
          add(obeys_all, obeys_it);
          is_by_pattern = true;
        }
      }
      for (const value_case::other_members& o : c.others) {
        if (std::none_of(o.patterns.begin(), o.patterns.end(), [&](const std::string& name) {
              return p.matched.count(name) != 0;
            })) {
          add(obeys_all, o.obeys);
        }
      }
      if ((!is_by_pattern && !is_wide) || value_of(obeys_all, turns)->empty()) {
        continue;
      }
      std::vector<std::pair<automaton, std::vector<way>>> cells;
      cells.emplace_back(p.names, std::vector<way>{});
      for (std::size_t w = 0; w < c.witnesses.size(); ++w) {
        for (const auto& [can, how] : c.witnesses[w].ways) {
          std::vector<std::pair<automaton, std::vector<way>>> more;
          for (const auto& [cell, ways] : cells) {
            automaton in = product(cell, *can, combination::both, left_);
            automaton beside = product(cell, *can, combination::first_only, left_);
            if (!in.empty()) {
              std::vector<way> longer = ways;
              longer.emplace_back(1U << w, how);
              more.emplace_back(std::move(in), std::move(longer));
            }
            if (!beside.empty()) {
              more.emplace_back(std::move(beside), ways);
            }
          }
          cells = std::move(more);
        }
      }
      for (const auto& [cell, ways] : cells) {
        out.push_back({json_bytes(cell), obeys_all, ways});
      }
    }
    return out;
  }
  // States: the next known member or a later one, behind them all the others; members so far, up to
  // a bound; witnesses that are there.
  void write_object(nfa& n,
                    std::uint32_t from,
                    std::uint32_t to,
                    const std::vector<known_member>& known,
                    const std::vector<other_member>& others,
                    std::uint64_t least,
                    std::uint64_t most,
                    std::uint32_t fulfilled,
                    std::uint32_t witnesses,
                    std::uint32_t turns) {
    const std::uint64_t cap = most != no_bound ? most : std::max<std::uint64_t>(1, least);
    const std::uint64_t rows = known.size() + 2;  // the last: behind a member that is not known
    const std::uint32_t every = (1U << witnesses) - 1;
    left_.check_states(static_cast<std::size_t>(std::min<std::uint64_t>(cap, 1U << 30U)));
    left_.check_positions(static_cast<std::size_t>((cap + 1) * rows << witnesses));
    std::vector<std::uint32_t> places(static_cast<std::size_t>((cap + 1) * rows << witnesses));
    for (std::uint32_t& p : places) {
      p = n.add();
    }
    const auto place = [&](std::uint64_t row, std::uint64_t count, std::uint32_t there) {
      return places[static_cast<std::size_t>((count * rows + row) << witnesses | there)];
    };
    std::vector<automaton> names;
    for (const known_member& m : known) {
      names.push_back(words({json_string_of(m.name)}, false));
    }
    n.link(space(n, n.text(from, "{")), place(0, 0, fulfilled));
    const bool counts = most != no_bound || least > 1;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const bool is_known = row < known.size();
      for (std::uint32_t there = 0; there <= every; ++there) {
        for (std::uint64_t count = 0; count <= cap; ++count) {
          left_.spend(16);
          const std::uint32_t here = place(row, count, there);
          if (is_known && !known[row].is_required) {
            n.link(here, place(row + 1, count, there | known[row].absent));
          }
          const bool is_enough = count >= least || row + 1 == rows;
          if (!is_known && is_enough && there == every) {
            n.link(n.text(here, "}"), to);
          }
          if ((!is_known && others.empty()) || (count == cap && most != no_bound) ||
              (!counts && count == 1) || (row + 1 == rows && count == 0)) {
            continue;
          }
          // Names that are not known may repeat one another, so that they are one.
          if (row == known.size() && count + 1 < least) {
            continue;
          }
          const std::uint32_t go = n.add();
          if (count == 0) {
            n.link(here, go);
          } else {
            n.link(space(n, n.text(here, ",")), go);
          }
          if (!counts) {
            n.link(space(n, n.text(place(row, 1, there), ",")), go);
          }
          const std::uint64_t next = std::min(count + 1, cap);
          if (is_known) {
            put_member(n,
                       go,
                       names[row],
                       known[row].obeys,
                       known[row].ways,
                       there,
                       false,
                       turns,
                       [&](std::uint32_t then) { return place(row + 1, next, then); });
          }
          for (const other_member& o : is_known ? std::vector<other_member>{} : others) {
            put_member(
                n, go, o.names, o.obeys, o.ways, there, true, turns, [&](std::uint32_t then) {
                  return place(rows - 1, next, then);
                });
          }
        }
      }
      if (!counts && row + 1 == rows && !others.empty()) {
        for (std::uint32_t there = 0; there <= every; ++there) {
          const std::uint32_t go = space(n, n.text(place(row, 1, there), ","));
          for (const other_member& o : others) {
            put_member(
                n, go, o.names, o.obeys, o.ways, there, true, turns, [&](std::uint32_t then) {
                  return place(row, 1, then);
                });
          }
        }
      }
    }
  }
  void put_member(nfa& n,
                  std::uint32_t go,
                  const automaton& name,
                  const conjunction& obeys_all,
                  const std::vector<way>& ways,
                  std::uint32_t there,
                  bool may_repeat,
                  std::uint32_t turns,
                  const auto& target) {
    std::vector<const way*> open;
    conjunction always = obeys_all;
    for (const way& w : ways) {
      if ((there & w.first) == 0) {
        open.push_back(&w);
      } else if (may_repeat) {
        // The last of several members with one name counts: it may not undo the witness.
        add(always, w.second);
      }
    }
    if (open.size() > 8) {
      throw refused("a member can contradict the schema in over 8 ways");
    }
    std::set<std::pair<std::uint32_t, const automaton*>> done;
    for (unsigned set = 0; set < 1U << open.size(); ++set) {
      conjunction all = always;
      std::uint32_t then = there;
      for (std::size_t i = 0; i < open.size(); ++i) {
        if ((set >> i & 1U) != 0) {
          add(all, open[i]->second);
          then |= open[i]->first;
        }
      }
      const shared_automaton value = value_of(all, turns);
      if (!value->empty() && done.insert({then, value.get()}).second) {
        const std::uint32_t behind = n.add();
        n.put(name, go, behind);
        put_item(n, spaced(n, behind, ":"), *value, [&] { return target(then); });
      }
    }
  }

  automaton space_;
  std::map<std::uint32_t, shared_automaton> any_;
  std::map<std::pair<conjunction, std::uint32_t>, shared_automaton> known_;
  std::vector<std::pair<conjunction, std::uint32_t>> open_;
};

}  // namespace detail::languages

namespace language {

UNMASK_LIBRARY compiled compile_schema(std::string_view schema, const schema_options& options) {
  namespace inner = detail::languages;
  return inner::guarded(options.limits, [&](inner::budget& left) {
    inner::check_utf8(schema, "the schema");
    inner::schema_document document(schema, left);
    return inner::schema_compiler(document, options).compile();
  });
}

}  // namespace language

}  // namespace UNMASK_NAMESPACE
