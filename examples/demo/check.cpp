// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/check.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "demo/near_tie.hpp"
#include "demo/terminal.hpp"

namespace demo {

namespace {

using json = nlohmann::json;

/// A rule of the reference and the policy that follows it.
struct rule {
  const char* name;
  const char* policy;
  std::optional<double> threshold;
};
const rule rules[] = {
    {"one_a_forward", "tokens_per_step(1)", {}},
    {"threshold_0.9", "threshold(0.9)", 0.9},
    {"threshold_0.5", "threshold(0.5)", 0.5},
};

struct reference {
  std::vector<token_id> tokens;
  index_t forwards = 0;
};

/// A problem that came out otherwise than in the reference.
struct finding {
  std::string text;
  bool near_tie = false;
};

class reference_check {
 public:
  reference_check(engine& model, std::span<const problem> problems, const options& wanted)
      : model_(model)
      , problems_(problems)
      , wanted_(wanted) {
    read_references();
  }

  std::vector<finding> run(const rule& r) {
    const index_t batch = wanted_.batch.value_or(8);
    const auto session = session_for(r, batch);
    std::size_t count = 0;
    progress shown(std::string("check ") + r.name, problems_.size());
    const decoding decoded =
        decode(*session, batch, model_, problems_, wanted_.shape, [&](const step_seen& step) {
          count += step.report.end != unmask::ending::running ? 1U : 0U;
          shown.done(count);
        });
    std::vector<finding> findings;
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      const reference& expected = references_.at({problems_[i].prompt, r.name});
      if (decoded.answers[i].tokens != expected.tokens ||
          decoded.answers[i].forwards != expected.forwards) {
        findings.push_back(explain(r, problems_[i], decoded.answers[i], expected));
      }
    }
    return findings;
  }

 private:
  void read_references() {
    const auto file = wanted_.check_file.string();
    std::ifstream in(wanted_.check_file);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      try {
        const json parsed = json::parse(line);
        for (const rule& r : rules) {
          reference entry;
          parsed.at(r.name).at("tokens").get_to(entry.tokens);
          parsed.at(r.name).at("forwards").get_to(entry.forwards);
          require(file, number, entry.tokens);
          references_[{parsed.at("prompt").get<std::string>(), r.name}] = std::move(entry);
        }
      } catch (const json::exception& e) {
        throw std::runtime_error(file + ", line " + std::to_string(number) + ": " + e.what());
      }
    }
    for (const problem& p : problems_) {
      if (!references_.contains({p.prompt, rules[0].name})) {
        throw std::runtime_error(file + ": has no line for the prompt '" + p.prompt + "'");
      }
    }
  }

  void require(const std::string& file, int number, std::span<const token_id> tokens) const {
    const std::string where = file + ", line " + std::to_string(number) + ": ";
    if (tokens.size() != static_cast<std::size_t>(wanted_.shape.answer_length)) {
      throw std::runtime_error(where + "tokens must be as many as --length, " +
                               std::to_string(wanted_.shape.answer_length) + ", got " +
                               std::to_string(tokens.size()));
    }
    for (const token_id token : tokens) {
      if (token < 0 || token >= model_.info().vocab) {
        throw std::runtime_error(where + "a token must be in the vocabulary, got " +
                                 std::to_string(token));
      }
    }
  }

  std::unique_ptr<unmask::named_session> session_for(const rule& r, index_t batch) const {
    return chosen_policy(r.policy).make(
        {.model = model_.info(),
         .capacity = capacity_for(model_, problems_, wanted_.shape, batch)});
  }

  finding explain(const rule& r, const problem& p, const decoded& got, const reference& expected) {
    tie_finder finder(model_.text(), expected.tokens, r.threshold);
    const auto session = session_for(r, 1);
    decode(*session, 1, model_, {&p, 1}, wanted_.shape, [&](const step_seen& step) {
      finder.see(step);
    });
    finding f;
    f.text = "  " + p.task + " \"" + p.prompt + "\": " + std::to_string(got.forwards) +
             " forwards, reference " + std::to_string(expected.forwards) + "\n    ";
    f.text += finder.difference() ? finder.difference()->text() : "the tokens are the same";
    if (finder.closest()) {
      f.near_tie = finder.closest()->near_tie();
      f.text += "\n    closest decision so far: " + finder.closest()->text();
    }
    f.text += f.near_tie ? "\n    a near-tie\n" : "\n    NOT a near-tie\n";
    return f;
  }

  engine& model_;
  std::span<const problem> problems_;
  const options& wanted_;
  std::map<std::pair<std::string, std::string>, reference> references_;  // by prompt and rule
};

}  // namespace

bool check(engine& model, std::span<const problem> problems, const options& wanted) {
  reference_check all(model, problems, wanted);
  json report = json::array();
  std::size_t unexplained = 0;
  for (const rule& r : rules) {
    const std::vector<finding> findings = all.run(r);
    std::size_t ties = 0;
    json texts = json::array();
    for (const finding& f : findings) {
      ties += f.near_tie ? 1U : 0U;
      texts.push_back({{"text", f.text}, {"near_tie", f.near_tie}});
    }
    unexplained += findings.size() - ties;
    const std::size_t equal = problems.size() - findings.size();
    report.push_back({{"rule", r.name},
                      {"prompts", problems.size()},
                      {"equal", equal},
                      {"near_ties", ties},
                      {"differences", std::move(texts)}});
    if (!wanted.json) {
      std::printf("%-14s %zu of %zu equal in tokens and forwards, %zu differ, %zu at near-ties\n",
                  r.name,
                  equal,
                  problems.size(),
                  findings.size(),
                  ties);
      for (const finding& f : findings) {
        std::fputs(f.text.c_str(), stdout);
      }
      std::fflush(stdout);
    }
  }
  if (wanted.json) {
    std::cout << json{{"check", report}}.dump(2) << '\n';
  }
  return unexplained == 0;
}

}  // namespace demo
