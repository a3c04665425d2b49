// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles what judge.py asks and answers about texts. Fields are base64-free lines: a request is
//
//   schema|expression|grammar|tag <options or -> <count of samples> <count of texts>
//   <the source, as a JSON string>
//   <each text, as a JSON string>
//
// The answer is one line of JSON: states, runs and milliseconds, a 0 or 1 for each text, random
// strings of the language; or the refusal.
#include <unmask/language.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
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
    const std::clock_t begin = std::clock();  // time of the processor, which others use, too
    unmask::language::compiled got;
    if (kind == "schema") {
      unmask::language::schema_options options;
      options.unicode_escapes = flags.find('u') != std::string::npos;
      options.closed_objects = flags.find('o') == std::string::npos;
      options.integer_fractions = flags.find('i') != std::string::npos;
      if (flags.find('d') != std::string::npos) {  // deep
        options.any_depth = 6;
        options.recursion = 5;
      }
      got = unmask::language::compile_schema(source, options);
    } else if (kind == "tag") {
      got = unmask::language::compile_structural_tag(source);
    } else if (kind == "grammar") {
      unmask::language::grammar_options options;
      if (const std::size_t at = flags.find('r'); at != std::string::npos) {
        options.recursion = static_cast<std::uint32_t>(std::atoi(flags.c_str() + at + 1));
      }
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
      match += got && got.bytes.accepts(text) ? '1' : '0';
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
