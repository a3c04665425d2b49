// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes that are written as text: a policy, the rows that a model returns, and what becomes of
/// them. include/unmask/policy/README.md, "Examples in comments", has the notation.

#include <unmask/named/read_policy.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>

#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bound_session.hpp"
#include "support/decode_laws.hpp"

namespace unmask::testing {

inline constexpr token_id masked_letter = 26;  // behind the letters

[[nodiscard]] inline std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string x; in >> x;) {
    all.push_back(x);
  }
  return all;
}

[[nodiscard]] inline std::string rounded(double x) {
  std::ostringstream out;
  out << std::round(x * 100.0) / 100.0;
  return out.str();
}

/// A decode as written.
struct written_decode {
  std::string policy;               ///< a text
  std::vector<std::string> input;   ///< "rows a90 b80", "blocks of 2"
  std::vector<std::string> output;  ///< "runs 0-3 2-3"
};

/// Probabilities of the 26 letters and the mask: those of "a60b30", where z has the rest, or "nan".
[[nodiscard]] inline std::vector<double> row_of(const std::string& text) {
  std::vector<double> row(masked_letter + 1, 0.0);
  const std::regex entry(R"(([a-y])(\d+(?:\.\d+)?))");
  double rest = 1.0;
  std::string read;
  for (auto m = std::sregex_iterator(text.begin(), text.end(), entry); m != std::sregex_iterator();
       ++m) {
    const double p = std::stod((*m)[2]) / 100.0;
    row[std::size_t((*m)[1].str()[0] - 'a')] = p;
    rest -= p;
    read += (*m)[0];
  }
  if (text == "nan") {
    row.assign(row.size(), std::nan(""));
  } else if (read != text || rest < -1e-9) {
    throw std::invalid_argument("'" + text + "' is no row of probabilities");
  }
  row['z' - 'a'] += std::max(rest, 0.0);
  return row;
}

/// The model and the sequence of a decode.
struct scene {
  std::vector<std::vector<std::vector<double>>> rows;  ///< [pass][position of the answer][token]
  std::string prompt;
  std::string begins;  ///< the answer before the first pass; empty: all masked
  index_t block_length = 0;
  token_id eos = no_token;
  index_t layers = 0;
  calibrated_threshold<> profile{.cap = 1.0F, .slack = 0.0F};
  [[nodiscard]] index_t start() const { return static_cast<index_t>(prompt.size()); }
  [[nodiscard]] index_t length() const { return start() + static_cast<index_t>(rows[0].size()); }
};

/// Reads "thresholds 0.9/0.3 0.5": of each block, or of each of its passes.
inline void read_profile(const std::vector<std::string>& words, calibrated_threshold<>& profile) {
  std::uint16_t cells = 0;
  for (std::size_t b = 1; b < words.size(); ++b) {
    std::istringstream block(words[b]);
    for (std::string cell; std::getline(block, cell, '/');) {
      profile.cells[cells++] = std::stof(cell);
    }
    profile.ends[b - 1] = cells;
    profile.mode =
        words[b].find('/') != std::string::npos ? profile_mode::step_block : profile.mode;
  }
  profile.blocks = static_cast<index_t>(words.size() - 1);
}

/// Reads the input of a decode. Errors: std::invalid_argument.
[[nodiscard]] inline scene scene_of(const std::vector<std::string>& input) {
  scene s;
  for (const std::string& clause : input) {
    const std::vector<std::string> w = words(clause);
    if (w[0] == "rows" || w[0] == "then" || w[0] == "confidences") {
      s.rows.emplace_back();
      for (std::size_t i = 1; i < w.size(); ++i) {
        const bool is_number = w[0] == "confidences";
        s.rows.back().push_back(
            row_of(is_number ? "a" + std::to_string(100.0 * std::stod(w[i])) : w[i]));
      }
      if (s.rows.back().size() != s.rows[0].size()) {
        throw std::invalid_argument("'" + clause +
                                    "' has another number of rows than the first pass");
      }
    } else if (w[0] == "prompt") {
      s.prompt = w[1];
    } else if (w[0] == "begins") {
      s.begins = w[1];
    } else if (w[0] == "blocks") {
      s.block_length = std::stoi(w[2]);
    } else if (w[0] == "EOS") {
      s.eos = w[1][0] - 'a';
    } else if (w[0] == "thresholds") {
      read_profile(w, s.profile);
    } else if (w[0] == "cap") {
      s.profile.cap = std::stof(w[1]);
    } else if (w.size() == 2 && w[1] == "layers") {
      s.layers = std::stoi(w[0]);
    } else {
      throw std::invalid_argument("'" + clause + "' is no input of a decode");
    }
  }
  if (s.rows.empty()) {
    throw std::invalid_argument("a decode needs rows or confidences");
  }
  if (!s.begins.empty() && s.begins.size() != s.rows[0].size()) {
    throw std::invalid_argument("'begins " + s.begins + "' must have a letter for each row");
  }
  s.block_length = s.block_length > 0 ? s.block_length : s.length() - s.start();
  s.profile.block_length = s.block_length;
  return s;
}

// "2-4+7" for positions 2, 3, 4 and 7.
[[nodiscard]] inline std::string positions_text(const std::vector<index_t>& positions) {
  std::string text;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < positions.size() && positions[i + 1] == positions[i] + 1) {
      ++i;
    }
    text += (text.empty() ? "" : "+") + std::to_string(positions[first]);
    text += i > first ? "-" + std::to_string(positions[i]) : "";
  }
  return text.empty() ? "none" : text;
}

/// All that may be written about a decode, a word a pass.
struct decode_seen {
  std::vector<std::string> states, runs, decides, active, freezes, computes, evicts, commits,
      reports, bound, answer;
  std::string probability;  ///< of the last token that was written

  friend bool operator==(const decode_seen&, const decode_seen&) = default;
};

// Runs a segment through the layers: the positions that each computes. The row of a position is
// (1, 0) while it is masked and (0, 1) as soon as it has a token. `wanted` gets the positions whose
// logits the policy reads.
inline std::string layers_of(named_session::layer_pass& pass,
                             const std::vector<token_id>& tokens,
                             std::vector<std::vector<float>>& stored,
                             std::vector<index_t>& wanted,
                             decode_seen& seen) {
  std::vector<index_t> active(pass.positions().begin(), pass.positions().end());
  seen.runs.push_back(positions_text(active));
  std::string computed;
  for (std::size_t l = 0; l < stored.size(); ++l) {
    std::vector<index_t> here = active;
    if (pass.hooks(static_cast<index_t>(l))) {
      std::vector<float> now;
      for (const index_t p : active) {
        const bool masked = tokens[std::size_t(p)] == masked_letter;
        now.insert(now.end(), {masked ? 1.0F : 0.0F, masked ? 0.0F : 1.0F});
      }
      const auto chosen = pass.at_layer(
          static_cast<index_t>(l),
          host_hidden<float>(now.data(), static_cast<index_t>(active.size()), 2),
          host_state<float>(stored[l].data(), static_cast<index_t>(tokens.size()), 2));
      std::vector<index_t> next;
      for (const index_t r : chosen.rows) {
        next.push_back(active[std::size_t(r)]);
      }
      here = hook_follows_layer(pass.reads) ? here : next;
      active = pass.skipped == skipping::dropped ? next : active;
    }
    computed += (l == 0 ? "" : "/") + positions_text(here);
  }
  for (const index_t r : pass.rows()) {
    wanted.push_back(active[std::size_t(r)]);
  }
  return computed;
}

// The positions of a range.
[[nodiscard]] inline std::vector<index_t> positions_of(range r) {
  std::vector<index_t> all;
  for (index_t p = r.first; p < r.last; ++p) {
    all.push_back(p);
  }
  return all;
}

/// Decodes with a session that may have decoded before.
template <class Session>
[[nodiscard]] decode_seen decode_with(Session& session,
                                      const named_policy& parts,
                                      const scene& s,
                                      const sequence_shape& shape) {
  constexpr bool is_on_host = Session::space == memory::host;
  std::vector<token_id> tokens(std::size_t(s.length()), masked_letter);
  for (std::size_t i = 0; i < s.prompt.size(); ++i) {
    tokens[i] = s.prompt[i] - 'a';
  }
  std::vector<std::uint8_t> editable(s.begins.empty() ? 0 : tokens.size());
  for (std::size_t i = 0; i < s.begins.size(); ++i) {
    const std::size_t p = s.prompt.size() + i;
    editable[p] = s.begins[i] == '_' ? 1 : 2;
    tokens[p] = s.begins[i] == '_' ? masked_letter : s.begins[i] - 'a';
  }
  session.start(0, tokens.data(), s.length(), shape, {.editable = editable});
  std::vector<std::vector<float>> stored(std::size_t(s.layers),
                                         std::vector<float>(tokens.size() * 2));
  decode_seen seen;
  decode_laws laws(parts, shape, masked_letter);
  seen.bound = {std::to_string(most_forwards(parts, shape))};
  while (const auto request = session.next()) {
    const std::size_t pass_number = seen.states.size();
    if (pass_number == 100) {
      throw std::runtime_error("the decode does not end");
    }
    const auto& rows = s.rows[std::min(pass_number, s.rows.size() - 1)];
    std::vector<float> logits;
    const plan planned = session.planned(0);
    seen.decides.push_back(positions_text(positions_of(planned.score)));
    seen.active.push_back(positions_text(positions_of({planned.first_block, planned.last_block})));
    seen.freezes.push_back(positions_text(positions_of(planned.freeze)));
    for (std::size_t n = 0; n < request->segments.size(); ++n) {
      const segment& part = request->segments[n];
      std::vector<index_t> wanted =
          n > 0 || !is_on_host ? positions_of(part.rows) : std::vector<index_t>{};
      if (n == 0 && !is_on_host) {
        seen.runs.push_back(positions_text(positions_of(part.query)));
      }
      if constexpr (is_on_host) {
        if (n == 0) {
          auto pass = session.pass(n);
          seen.computes.push_back(layers_of(pass, tokens, stored, wanted, seen));
          seen.evicts.push_back(part.evict == eviction::none     ? "none"
                                : part.evict == eviction::choose ? "choose"
                                                                 : "chosen");
        }
      }
      for (const index_t p : wanted) {
        const std::size_t i = std::size_t(std::max(p + part.logits_shift - s.start(), 0));
        for (const double x : rows[i]) {
          logits.push_back(std::isnan(x) ? static_cast<float>(x)
                           : x > 0.0     ? static_cast<float>(std::log(x))
                                         : -math::infinity());
        }
      }
    }
    laws.begin_step(planned, tokens);
    session.supply(
        rows_view<float, Session::space>(logits.data(),
                                         static_cast<index_t>(logits.size()) / (masked_letter + 1),
                                         masked_letter + 1));
    laws.end_step(session, tokens, rows);
    for (const commit_entry& c : session.committed(0)) {
      seen.probability = rounded(std::exp(double(c.log_probability)));
      if (pass_number == 0) {
        seen.commits.push_back(seen.probability);
      }
    }
    for (const token_probability& p : session.probabilities(0)) {
      if (pass_number == 0) {
        seen.reports.push_back(rounded(p.probability));
      }
    }
    std::string state;
    for (std::size_t i = s.prompt.size(); i < tokens.size(); ++i) {
      state += tokens[i] == masked_letter ? '_' : static_cast<char>('a' + tokens[i]);
    }
    seen.states.push_back("`" + state + "`");
  }
  seen.answer = {std::to_string(session.report(0).answer_end - s.start())};
  return seen;
}

/// Decodes on the host, or on a stream, where a decode has no layers.
/// Errors: those of the text and of the session; std::runtime_error for a decode of 100 passes.
template <class Backend = on_host>
[[nodiscard]] decode_seen
decode(const std::string& policy, const scene& s, const Backend& where = {}) {
  const file_source files = [&](const std::string&) { return to_json(s.profile); };
  const named_policy parts = read_policy(policy, files);
  // The smallest that it can have: positions of different blocks share their memory.
  const sequence_shape shape{
      .prompt_length = s.start(), .length = s.length(), .block_length = s.block_length};
  session_capacity capacity = unmask::detail::capacity_for(parts, s.length(), shape);
  capacity.trace = true;
  if (capacity.window > std::max(s.length() - s.start(), 1)) {
    throw std::logic_error("scores more positions than the answer has");
  }
  const auto session = testing::make_bound(parts,
                                           {.vocab = masked_letter + 1,
                                            .mask_token = masked_letter,
                                            .eos_token = s.eos,
                                            .suppress_mask = !parts.has_canvas(),
                                            .layers = s.layers,
                                            .causal_attention = true,
                                            .shadow_attention = true},
                                           capacity,
                                           where);
  const decode_seen seen = decode_with(*session, parts, s, shape);
  if (std::is_same_v<Backend, on_host> && decode_with(*session, parts, s, shape) != seen) {
    throw std::logic_error("decodes otherwise for the second time");
  }
  return seen;
}

/// True for a clause that difference() compares.
[[nodiscard]] inline bool is_output(const std::string& clause) {
  const std::string first = words(clause).front();
  return first[0] == '`' || first == "commits" || first == "runs" || first == "decides" ||
         first == "computes" || first == "evicts" || first == "reports" || first == "active" ||
         first == "freezes" || first == "bound" || first == "answer";
}

/// Compares one part of the output, such as "runs 0-3 2-3", with the decode. Returns what was found
/// in its place, nothing if it is as written.
[[nodiscard]] inline std::string difference(const std::string& said, const decode_seen& seen) {
  std::vector<std::string> w = words(said);
  const bool goes_on = w.size() > 3 && w[w.size() - 3] == "and";  // "and so on"
  w.resize(w.size() - (goes_on ? 3 : 0));
  std::vector<std::string> found = seen.states;
  std::string other_probability;
  if (w[0][0] == '`') {
    if (w.size() > 2 && w[w.size() - 2] == "at") {
      other_probability = w.back() == seen.probability ? "" : "at " + seen.probability;
      w.resize(w.size() - 2);
    }
    w.insert(w.begin(), "");
  } else {
    found = w[0] == "commits"    ? seen.commits
            : w[0] == "runs"     ? seen.runs
            : w[0] == "decides"  ? seen.decides
            : w[0] == "active"   ? seen.active
            : w[0] == "freezes"  ? seen.freezes
            : w[0] == "bound"    ? seen.bound
            : w[0] == "answer"   ? seen.answer
            : w[0] == "computes" ? seen.computes
            : w[0] == "evicts"   ? seen.evicts
            : w[0] == "reports"  ? seen.reports
                                 : std::vector<std::string>{"no output of a decode"};
  }
  w.erase(w.begin());
  if (goes_on && found.size() > w.size()) {
    found.resize(w.size());
  }
  if (found == w && other_probability.empty()) {
    return {};
  }
  std::string is;
  for (const std::string& x : found) {
    is += x + " ";
  }
  return is.empty() ? "nothing" : is + other_probability;
}

}  // namespace unmask::testing
