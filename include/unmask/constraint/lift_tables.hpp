// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/lift.hpp>
#include <unmask/constraint/minimal.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

/// Definitions of lift.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

// A sum of hashes of 128 bits: of the transitions of a token, in any order. Two tokens with equal
// sums have equal transitions, except with a probability of about 2^-90 among a million tokens.
struct column_hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  void add(std::uint32_t from, std::uint32_t next) { add(from, next, column_hash{0, 0}); }
  void add(std::uint32_t from, std::uint32_t next, const column_hash& with) {
    const std::uint64_t pair = std::uint64_t{from} << 32U | next;
    low += mixed_bits((pair ^ with.low) + 0x9e3779b97f4a7c15U);
    high += mixed_bits(~(pair ^ with.high) * 0xd1342543de82ef95U + 1);
  }
  void add(const column_hash& other) {
    low += other.low;
    high += other.high;
  }
  friend bool operator==(const column_hash&, const column_hash&) = default;
  friend auto operator<=>(const column_hash&, const column_hash&) = default;
};

// Numbers equal columns alike, in the order of their first members; empty ones get no_class.
// Returns a member of each class.
inline std::vector<std::uint32_t> classes_of(const std::vector<column_hash>& columns,
                                             std::vector<std::uint32_t>& class_of) {
  std::vector<std::uint32_t> order(columns.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(columns[a], a) < std::pair(columns[b], b);
  });
  std::vector<std::uint32_t> members;  // the first of each class
  std::vector<std::uint32_t> leader(columns.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool joins = i > 0 && columns[order[i]] == columns[order[i - 1]];
    leader[order[i]] = joins ? leader[order[i - 1]] : order[i];
    if (!joins && columns[order[i]] != column_hash{}) {
      members.push_back(order[i]);
    }
  }
  std::sort(members.begin(), members.end());
  class_of.assign(columns.size(), no_class);
  for (std::size_t c = 0; c < members.size(); ++c) {
    class_of[members[c]] = static_cast<std::uint32_t>(c);
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    class_of[i] = class_of[leader[i]];
  }
  return members;
}

inline void check_states(std::size_t states, std::uint32_t most) {
  if (states > most) {
    message()
        .add("constraint has ")
        .add(states)
        .add(" states, the limit is ")
        .add(most)
        .add(": a maxLength of hundreds counts every character; leave it out or raise "
             "constraint_limits::states")
        .refuse();
  }
}

// The table of an automaton without transitions to states from which no string ends.
inline byte_table trimmed(const byte_automaton& a) {
  raw_automaton raw;
  raw.states = static_cast<std::uint32_t>(a.states());
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    std::uint32_t before = dead_state;
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t next = a.next[256 * std::size_t{q} + b];
      if (next != dead_state && next != before) {
        raw.edges.push_back({q, 0, next});
        before = next;
      }
    }
  }
  std::vector<std::uint32_t> ends;
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    if (a.accepting[q] != 0) {
      ends.push_back(q);
    }
  }
  const auto reached =
      distances(raw.states, raw.edges, &class_edge::from, &class_edge::next, {a.start});
  const auto left = distances(raw.states, raw.edges, &class_edge::next, &class_edge::from, ends);
  std::vector<std::uint32_t> name(raw.states, dead_state);
  byte_table out;
  std::uint32_t states = 0;
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    if (reached[q] != unreachable && left[q] != unreachable) {
      name[q] = states++;
    }
  }
  out.start = name[a.start];
  out.next.reserve(256 * std::size_t{states});
  for (std::uint32_t q = 0; q < raw.states; ++q) {
    if (name[q] != dead_state) {
      out.accepting.push_back(a.accepting[q] != 0 ? 1 : 0);
      for (std::size_t b = 0; b < 256; ++b) {
        const std::uint32_t next = a.next[256 * std::size_t{q} + b];
        out.next.push_back(next == dead_state ? dead_state : name[next]);
      }
    }
  }
  return out;
}

// Walks the trie from a state: calls use(text, bytes of it) for each text that stays alive; `path`
// has the state after each byte.
void walk(const trie& t,
          const byte_table& a,
          std::uint32_t from,
          std::vector<std::uint32_t>& path,
          const auto& use) {
  path[0] = from;
  const auto nodes = static_cast<std::uint32_t>(t.byte.size());
  for (std::uint32_t i = 0; i < nodes;) {
    const std::uint32_t depth = t.depth[i];
    const std::uint32_t state = a.next[256 * std::size_t{path[depth - 1]} + t.byte[i]];
    if (state == dead_state) {
      i = t.end[i];
      continue;
    }
    path[depth] = state;
    if (t.text[i] != trie::no_text) {
      use(t.text[i], depth);
    }
    ++i;
  }
}

// States with moves from many states, such as the one behind the end of a counted string.
inline std::vector<std::uint8_t> hubs_of(const byte_table& a) {
  constexpr std::uint32_t many = 32;
  std::vector<std::uint32_t> before(a.accepting.size(), 0);
  std::vector<std::uint32_t> last(a.accepting.size(), dead_state);
  for (std::size_t i = 0; i < a.next.size(); ++i) {
    const std::uint32_t next = a.next[i];
    const auto from = static_cast<std::uint32_t>(i / 256);
    if (next != dead_state && last[next] != from) {
      last[next] = from;
      ++before[next];
    }
  }
  std::vector<std::uint8_t> out;
  for (const std::uint32_t count : before) {
    out.push_back(count > many ? 1 : 0);
  }
  return out;
}

// The first of the states from which the same texts of at most `most_bytes` bytes lead, each as far
// ahead, as in strings whose characters are counted, or through the same hub; by hashes as those
// of columns.
inline std::vector<std::uint32_t>
first_alike(const byte_table& a, const std::vector<std::uint8_t>& is_hub, std::size_t most_bytes) {
  struct run {
    std::uint32_t bytes;  // the first and the last
    std::uint32_t next;
  };
  const auto states = static_cast<std::uint32_t>(a.accepting.size());
  std::vector<run> runs;
  std::vector<std::size_t> ends;
  for (std::uint32_t q = 0; q < states; ++q) {
    const std::uint32_t* const row = a.next.data() + 256 * std::size_t{q};
    for (std::uint32_t b = 0; b < 256; ++b) {
      const std::uint32_t first = b;
      while (b < 255 && row[b + 1] == row[first]) {
        ++b;
      }
      if (row[first] != dead_state) {
        runs.push_back({first << 8U | b, row[first]});
      }
    }
    ends.push_back(runs.size());
  }
  std::vector<column_hash> hash(states);
  std::vector<column_hash> longer(states);
  for (std::size_t bytes = 0; bytes < most_bytes; ++bytes) {
    std::size_t at = 0;
    for (std::uint32_t q = 0; q < states; ++q) {
      longer[q] = {};
      for (; at < ends[q]; ++at) {
        const auto [by, next] = runs[at];
        if (is_hub[next] != 0) {
          longer[q].add(by, next);
        } else {
          longer[q].add(by | 1U << 16U, next - q, hash[next]);
        }
      }
    }
    hash.swap(longer);
  }
  std::map<column_hash, std::uint32_t> firsts;
  std::vector<std::uint32_t> out;
  for (std::uint32_t q = 0; q < states; ++q) {
    out.push_back(firsts.try_emplace(hash[q], q).first->second);
  }
  return out;
}

// The bytes of each of some texts, one after the other; `first` has the place of each.
inline std::vector<std::uint8_t> bytes_of_texts(const trie& t,
                                                const std::vector<std::uint32_t>& texts,
                                                std::vector<std::size_t>& first) {
  std::vector<std::uint8_t> path(t.most_depth + 1);
  std::vector<std::uint8_t> out;
  std::size_t k = 0;
  first.assign(1, 0);
  for (std::uint32_t i = 0; i < t.byte.size() && k < texts.size(); ++i) {
    path[t.depth[i]] = t.byte[i];
    if (t.text[i] == texts[k]) {  // texts ascend as nodes do
      out.insert(out.end(), path.begin() + 1, path.begin() + 1 + t.depth[i]);
      first.push_back(out.size());
      ++k;
    }
  }
  return out;
}

// Refuses a language without a string that the tokens can write.
[[noreturn]] inline void refuse_unwritable(const byte_table& a, const vocabulary_data& words) {
  for (std::size_t b = 0; b < 256; ++b) {
    bool is_used = false;
    for (std::size_t q = 0; q < a.accepting.size(); ++q) {
      is_used = is_used || a.next[256 * q + b] != dead_state;
    }
    if (is_used && !words.texts.has_byte[b]) {
      constexpr char digits[] = "0123456789abcdef";
      message()
          .add("constraint: no string of the language can be written with the tokens: none has "
               "byte 0x")
          .add(digits[b / 16])
          .add(digits[b % 16])
          .refuse();
    }
  }
  message()
      .add("constraint: no string of the language can be written with the tokens of the vocabulary")
      .refuse();
}

UNMASK_LIBRARY token_automaton lift(const byte_automaton& bytes,
                                    const vocabulary_data& words,
                                    const constraint_limits& limits) {
  validate(bytes);
  byte_table a = trimmed(bytes);
  if (a.accepting.empty()) {
    message().add("constraint: the automaton accepts no string").refuse();
  }
  if (a.accepting.size() / 4 > limits.states) {  // too many to look for the smallest automaton
    check_states(a.accepting.size(), limits.states);
  }
  a = minimal(a);
  const std::size_t states = a.accepting.size();
  check_states(states + (words.ends.empty() ? 0 : 1), limits.states);
  const trie& t = words.texts;
  std::vector<column_hash> columns(t.texts());
  std::vector<std::uint32_t> path(t.most_depth + 1);
  const std::vector<std::uint8_t> is_hub = hubs_of(a);
  const std::vector<std::uint32_t> first_of = first_alike(a, is_hub, t.most_depth);
  struct alike {
    std::uint32_t count = 0;
    std::vector<std::uint32_t> between_tokens;
    // States after tokens: whether they are reached through a hub, and else their distance.
    std::map<std::pair<bool, std::uint32_t>, column_hash> targets;
  };
  std::vector<alike> kinds(states);
  for (const std::uint32_t first : first_of) {
    ++kinds[first].count;
  }
  std::uint32_t rows = 0;
  // Walks from a state: calls use(text, target) with targets as above.
  const auto walk_alike = [&](std::uint32_t from, const auto& use) {
    walk(t, a, from, path, [&](std::uint32_t text, std::uint32_t depth) {
      bool is_behind_hub = false;
      for (std::uint32_t d = 1; d <= depth; ++d) {
        is_behind_hub = is_behind_hub || is_hub[path[d]] != 0;
      }
      use(text, std::pair(is_behind_hub, is_behind_hub ? path[depth] : path[depth] - from));
    });
  };
  // States between tokens, in the order in which they are found.
  std::vector<std::uint32_t> queue{a.start};
  std::vector<std::uint8_t> is_found(states, 0);
  is_found[a.start] = 1;
  const auto find = [&](std::uint32_t next) {
    if (is_found[next] == 0) {
      is_found[next] = 1;
      queue.push_back(next);
    }
  };
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::uint32_t from = queue[i];
    alike& of = kinds[first_of[from]];
    if (of.between_tokens.empty() && ++rows > limits.rows) {
      message()
          .add("constraint has over ")
          .add(limits.rows)
          .add(" states whose rows differ by more than a distance, the limit "
               "constraint_limits::rows: allow less, or raise it")
          .refuse();
    }
    if (of.count == 1) {
      walk(t, a, from, path, [&](std::uint32_t text, std::uint32_t depth) {
        columns[text].add(from, path[depth]);
        find(path[depth]);
      });
      continue;
    }
    if (of.between_tokens.empty()) {
      walk_alike(from, [&](std::uint32_t, const auto& target) { of.targets.try_emplace(target); });
    }
    of.between_tokens.push_back(from);
    for (auto& [target, column] : of.targets) {
      const std::uint32_t next = target.first ? target.second : from + target.second;
      column.add(from, next);
      find(next);
    }
  }
  for (const alike& of : kinds) {
    if (!of.between_tokens.empty()) {
      walk_alike(of.between_tokens[0], [&](std::uint32_t text, const auto& target) {
        columns[text].add(of.targets.find(target)->second);
      });
    }
  }
  std::sort(queue.begin(), queue.end());
  raw_automaton raw;
  raw.states = static_cast<std::uint32_t>(states);
  raw.start = a.start;
  raw.accepting = a.accepting;
  std::vector<std::uint32_t> class_of_text;
  const std::vector<std::uint32_t> members = classes_of(columns, class_of_text);
  raw.classes = static_cast<std::uint32_t>(members.size());
  std::vector<std::size_t> first;
  const std::vector<std::uint8_t> spelled = bytes_of_texts(t, members, first);
  for (const std::uint32_t from : queue) {
    for (std::uint32_t c = 0; c < raw.classes; ++c) {
      std::uint32_t state = from;
      for (std::size_t k = first[c]; k < first[c + 1] && state != dead_state; ++k) {
        state = a.next[256 * std::size_t{state} + spelled[k]];
      }
      if (state != dead_state) {
        raw.edges.push_back({from, c, state});
      }
    }
  }
  raw.class_of.assign(static_cast<std::size_t>(words.model.vocab), no_class);
  for (std::size_t text = 0; text < t.texts(); ++text) {
    for (std::uint32_t k = t.first_token[text]; k < t.first_token[text + 1]; ++k) {
      raw.class_of[static_cast<std::size_t>(t.tokens[k])] = class_of_text[text];
    }
  }
  token_automaton out = finish(std::move(raw), words.model, words.ends);
  if (out.states == 0) {
    refuse_unwritable(a, words);
  }
  return out;
}

UNMASK_LIBRARY token_automaton automaton_of(std::span<const token_transition> transitions,
                                            std::uint32_t states,
                                            std::uint32_t start,
                                            std::span<const std::uint8_t> accepting,
                                            const model_info& model,
                                            std::span<const token_id> also_eos,
                                            std::uint32_t most_states) {
  check_argument(model.vocab >= 1, "model_info::vocab", model.vocab, "at least 1");
  check_argument(states >= 1, "states", states, "at least 1");
  check_argument(accepting.size() == states,
                 "accepting.size()",
                 accepting.size(),
                 "the number of states, ",
                 states);
  check_argument(start < states, "start", start, "less than the number of states, ", states);
  const std::vector<token_id> ends = ends_of(model, also_eos);
  check_states(std::size_t{states} + (ends.empty() ? 0 : 1), most_states);
  std::vector<token_transition> list;
  for (const token_transition& e : transitions) {
    check_argument(e.from < states && e.next < states,
                   "state of a transition",
                   e.from < states ? e.next : e.from,
                   "less than the number of states, ",
                   states);
    check_argument(e.token >= 0 && e.token < model.vocab && e.token != model.mask_token,
                   "token of a transition",
                   e.token,
                   "in [0, model_info::vocab = ",
                   model.vocab,
                   ") and not the mask token");
    if (!std::binary_search(ends.begin(), ends.end(), e.token)) {
      list.push_back(e);
    } else {
      check_argument(accepting[e.from] != 0,
                     "token of a transition",
                     e.token,
                     "no EOS token where the state accepts no string, ",
                     e.from);
    }
  }
  std::sort(list.begin(), list.end(), [](const token_transition& a, const token_transition& b) {
    return std::pair(a.token, a.from) < std::pair(b.token, b.from);
  });
  std::vector<column_hash> columns(static_cast<std::size_t>(model.vocab));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const token_transition& e = list[i];
    if (i > 0 && list[i - 1].token == e.token && list[i - 1].from == e.from) {
      check_argument(list[i - 1].next == e.next,
                     "states after one state and token",
                     e.next,
                     "one, here ",
                     list[i - 1].next,
                     ": the automaton must be deterministic");
      continue;
    }
    columns[static_cast<std::size_t>(e.token)].add(e.from, e.next);
  }
  raw_automaton raw;
  raw.states = states;
  raw.start = start;
  raw.accepting.assign(accepting.begin(), accepting.end());
  const std::vector<std::uint32_t> members = classes_of(columns, raw.class_of);
  raw.classes = static_cast<std::uint32_t>(members.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const token_transition& e = list[i];
    const std::uint32_t c = raw.class_of[static_cast<std::size_t>(e.token)];
    const bool repeats = i > 0 && list[i - 1].token == e.token && list[i - 1].from == e.from;
    if (members[c] == static_cast<std::uint32_t>(e.token) && !repeats) {
      raw.edges.push_back({e.from, c, e.next});
    }
  }
  token_automaton out = finish(std::move(raw), model, ends);
  if (out.states == 0) {
    message().add("constraint: the automaton accepts no string").refuse();
  }
  return out;
}

}  // namespace unmask::detail::constraints
