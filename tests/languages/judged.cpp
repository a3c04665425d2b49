// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles what judge.py asks and answers about texts. A request is some lines:
//
//   schema|expression|grammar|tag <options or -> <count of samples> <count of texts>
//   <the source, its bytes in hexadecimal>
//   <each text, its bytes in hexadecimal>
//
// The answer is one line of JSON: states, runs and milliseconds; for each text 1, 0, or "o" where
// only another order of the members of its objects is in the language; random strings of the
// language; or the refusal.
#include <unmask/language.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using unmask::language::automaton;
using unmask::language::run;

// Random strings: a walk of some moves, then the shortest way out.
class sampler {
 public:
  explicit sampler(const automaton& a)
      : a_(a)
      , distance_(a.states(), none) {
    std::vector<std::vector<std::uint32_t>> into(a.states());
    std::vector<std::uint32_t> queue;
    for (std::uint32_t s = 0; s < a.states(); ++s) {
      for (const run& r : a.runs[s]) {
        into[r.next].push_back(s);
      }
      if (a.accepting[s] != 0) {
        distance_[s] = 0;
        queue.push_back(s);
      }
    }
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const std::uint32_t p : into[queue[i]]) {
        if (distance_[p] == none) {
          distance_[p] = distance_[queue[i]] + 1;
          queue.push_back(p);
        }
      }
    }
  }
  std::string one(int moves) {
    std::string out;
    std::uint32_t s = a_.start;
    for (int i = 0;; ++i) {
      const std::vector<run>& runs = a_.runs[s];
      if (a_.accepting[s] != 0 && (i >= moves || runs.empty() || random_() % 8 == 0)) {
        return out;
      }
      std::vector<const run*> may;
      for (const run& r : runs) {
        if (i < moves || distance_[r.next] < distance_[s]) {
          may.push_back(&r);
        }
      }
      const run& r = *may[random_() % may.size()];
      const auto pick = random_() % 4;
      const std::uint32_t byte =
          pick == 0   ? r.first
          : pick == 1 ? r.last
                      : r.first + static_cast<std::uint32_t>(random_() % (r.last - r.first + 1));
      out += static_cast<char>(byte);
      s = r.next;
    }
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  const automaton& a_;
  std::vector<std::uint32_t> distance_;
  std::mt19937 random_{7};
};

// The states after a JSON text without white space, the members of each object in any order.
class any_order {
 public:
  using states = std::set<std::uint32_t>;

  any_order(const automaton& a, std::string_view text)
      : a_(a)
      , text_(text) {}
  [[nodiscard]] bool accepts() {
    const states last = after(0, text_.size(), {a_.start});
    return std::any_of(last.begin(), last.end(), [&](std::uint32_t s) { return a_.accepting[s]; });
  }

 private:
  using part = std::pair<std::size_t, std::size_t>;

  states bytes(std::string_view text, const states& from) const {
    states out;
    for (std::uint32_t s : from) {
      for (std::size_t i = 0; i < text.size() && s != unmask::dead_state; ++i) {
        s = a_.after(s, static_cast<unsigned char>(text[i]));
      }
      if (s != unmask::dead_state) {
        out.insert(s);
      }
    }
    return out;
  }
  // The parts of begin .. end between commas in no bracket and in no string.
  std::vector<part> parts(std::size_t begin, std::size_t end) const {
    std::vector<part> out;
    int depth = 0;
    bool is_string = false;
    for (std::size_t i = begin; i < end; ++i) {
      const char c = text_[i];
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        is_string = !is_string;
      } else if (!is_string) {
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        if (c == ',' && depth == 0) {
          out.emplace_back(begin, i);
          begin = i + 1;
        }
      }
    }
    if (begin < end) {
      out.emplace_back(begin, end);
    }
    return out;
  }
  states after(std::size_t begin, std::size_t end, states from) {
    const char first = text_[begin];
    if (first == '"') {  // a string, or a member
      std::size_t i = begin + 1;
      for (; text_[i] != '"'; ++i) {
        i += text_[i] == '\\' ? 1 : 0;
      }
      from = bytes(text_.substr(begin, i + 1 - begin), from);
      return i + 1 == end ? from : after(i + 2, end, bytes(":", from));
    }
    if (first != '[' && first != '{') {
      return bytes(text_.substr(begin, end - begin), from);
    }
    const std::vector<part> in = parts(begin + 1, end - 1);
    from = bytes(text_.substr(begin, 1), from);
    if (first == '[') {
      for (std::size_t i = 0; i < in.size(); ++i) {
        from = after(in[i].first, in[i].second, i > 0 ? bytes(",", from) : from);
      }
      return bytes("]", from);
    }
    std::map<std::vector<bool>, states> now{{std::vector<bool>(in.size()), from}};
    for (std::size_t count = 0; count < in.size(); ++count) {
      std::map<std::vector<bool>, states> next;
      for (const auto& [written, at] : now) {
        for (std::size_t i = 0; i < in.size() && next.size() < 10'000; ++i) {
          if (!written[i]) {
            const states then = after(in[i].first, in[i].second, count > 0 ? bytes(",", at) : at);
            if (!then.empty()) {
              std::vector<bool> more = written;
              more[i] = true;
              next[more].insert(then.begin(), then.end());
            }
          }
        }
      }
      now = std::move(next);
    }
    return now.empty() ? states{} : bytes("}", now.begin()->second);
  }

  const automaton& a_;
  std::string_view text_;
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string read_text() {
  std::string line;
  std::getline(std::cin, line);
  std::string out;
  for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
    out += static_cast<char>(std::strtol(line.substr(i, 2).c_str(), nullptr, 16));
  }
  return out;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream head(line);
    std::string kind;
    std::string flags;
    int samples = 0;
    int texts = 0;
    head >> kind >> flags >> samples >> texts;
    const std::string source = read_text();
    const auto number_after = [&](char flag, std::uint32_t otherwise) {
      const std::size_t at = flags.find(flag);
      return at == std::string::npos ? otherwise
                                     : static_cast<std::uint32_t>(std::atoi(&flags[at + 1]));
    };
    const std::clock_t begin = std::clock();  // time of the processor, which others use, too
    unmask::language::compiled got;
    if (kind == "schema") {
      unmask::language::schema_options options;
      options.unicode_escapes = flags.find('u') != std::string::npos;
      options.closed_objects = flags.find('o') == std::string::npos;
      options.integer_fractions = flags.find('i') != std::string::npos;
      options.limits.milliseconds = number_after('m', options.limits.milliseconds);
      options.any_depth = number_after('a', options.any_depth);
      options.recursion = number_after('r', options.recursion);
      got = unmask::language::compile_schema(source, options);
    } else if (kind == "tag") {
      got = unmask::language::compile_structural_tag(source);
    } else if (kind == "grammar") {
      unmask::language::grammar_options options;
      options.recursion = number_after('r', options.recursion);
      got = unmask::language::compile_grammar(source, options);
    } else {
      unmask::language::expression_options options;
      options.search = flags.find('s') != std::string::npos;
      options.strict = flags.find('t') != std::string::npos;
      got = unmask::language::compile_expression(source, options);
    }
    const double took = 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::string match;
    for (int i = 0; i < texts; ++i) {
      const std::string text = read_text();
      match += !got                                                       ? '0'
               : got.bytes.accepts(text)                                  ? '1'
               : kind == "schema" && any_order(got.bytes, text).accepts() ? 'o'
                                                                          : '0';
    }
    std::ostringstream out;
    out << "{\"ms\":" << took;
    if (got) {
      std::size_t runs = 0;
      for (const std::vector<run>& of : got.bytes.runs) {
        runs += of.size();
      }
      out << ",\"ok\":true,\"states\":" << got.bytes.states() << ",\"runs\":" << runs
          << ",\"match\":\"" << match << "\",\"samples\":[";
      sampler random(got.bytes);
      for (int i = 0; i < samples; ++i) {
        constexpr int moves[] = {0, 20, 100, 400};
        out << (i > 0 ? "," : "") << quoted(random.one(moves[i % 4]));
      }
      out << ']';
    } else {
      out << ",\"ok\":false,\"place\":" << quoted(got.refused->place)
          << ",\"message\":" << quoted(got.refused->message);
    }
    std::cout << out.str() << '}' << std::endl;
  }
}
