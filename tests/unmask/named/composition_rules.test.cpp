// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/core/part/composition_rules.hpp>
#include <unmask/named/read_policy.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace unmask::composition_rules_test {
namespace {

TEST(composition, rules_are_sentences_of_their_own_that_texts_are_told) {
  std::set<std::string_view> all;
  for (const composition_rule& r : all_composition_rules::all) {
    EXPECT_GT(r.why.size(), 40U);
    EXPECT_TRUE(all.insert(r.why).second) << r.why;
    EXPECT_TRUE(r.holds(composition{}));
  }
  // Every pair of parts that have a name: a text is refused exactly if a rule refuses it.
  const auto text_of = [](const known_part& p) {
    std::string text(p.name);
    for (const part_argument& a : p.arguments) {
      text += a.must_be_given() ? (&a == p.arguments.data() ? "([1]" : ", [1]") : "";
    }
    return text + (text.size() > p.name.size() ? ")" : "");
  };
  int refused = 0;
  for (const known_part& first : known_parts()) {
    for (const known_part& second : known_parts()) {
      const auto reads_file = [](const known_part& p) { return p.name == "calibrated_threshold"; };
      if (first.name == second.name || reads_file(first) || reads_file(second) ||
          (first.stage == second.stage && first.stage != part_stage::logits_processor) ||
          (first.decides() && second.decides())) {
        continue;
      }
      composition together;
      together.add(first.traits);
      together.add(second.traits);
      const bool commits = first.decides() || second.decides();
      const std::string text =
          text_of(first) + "+" + text_of(second) + (commits ? "" : "+tokens_per_step");
      std::string said;
      try {
        static_cast<void>(read_policy(text));
      } catch (const policy_text_error& e) {
        said = e.what();
      }
      const auto rule = std::find_if(std::begin(all_composition_rules::all),
                                     std::end(all_composition_rules::all),
                                     [&](const auto& r) { return !r.holds(together); });
      if (rule != std::end(all_composition_rules::all)) {
        EXPECT_THAT(said, ::testing::HasSubstr(std::string(rule->why))) << text;
        ++refused;
      } else if (!said.empty()) {
        EXPECT_THAT(said, ::testing::HasSubstr("a policy has at most one")) << text;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

using parts = std::vector<const known_part*>;

bool refuses(const composition_rule& rule, const parts& chosen) {
  composition together;
  for (const known_part* p : chosen) {
    together.add(p->traits);
  }
  return !rule.holds(together);
}

std::string listed(const parts& all) {
  std::string text;
  for (const known_part* p : all) {
    text.append(text.empty() ? "`" : ", `").append(p->name).append("`");
  }
  return text;
}

// The parts that a rule keeps apart: alone, two of one list, one of each of two or of three lists.
// A list is of parts that the rule refuses beside the same others.
std::string apart(const composition_rule& rule) {
  parts alone;
  parts all;
  for (const known_part& p : known_parts()) {
    (refuses(rule, {&p}) ? alone : all).push_back(&p);
  }
  if (!alone.empty()) {
    return listed(alone) + " alone";
  }
  std::map<parts, parts> pairs;  // what is refused behind parts, and those
  for (const known_part* first : all) {
    parts others;
    for (const known_part* second : all) {
      if (refuses(rule, {first, second})) {
        others.push_back(second);
      }
    }
    pairs[others].push_back(first);
  }
  pairs.erase(parts{});
  std::string text;
  std::set<parts> done;
  for (const auto& [others, these] : pairs) {
    const auto mirror = pairs.find(these);
    const bool in_either_order = mirror != pairs.end() && mirror->second == others;
    if (!done.contains(others)) {
      text += text.empty() ? "" : "; ";
      if (others != these) {
        text += listed(these) + (in_either_order ? " with " : " before ") + listed(others);
      } else {
        text += these.size() > 1 ? "two of " + listed(these) : listed(these) + " twice";
      }
    }
    done.insert(these);
  }
  if (!text.empty()) {
    return text;
  }
  std::map<std::set<parts>, parts> triples;
  for (const known_part* first : all) {
    std::set<parts> others;
    for (const known_part* second : all) {
      for (const known_part* third : all) {
        if (refuses(rule, {first, second, third})) {
          others.insert({second, third});
        }
      }
    }
    if (!others.empty()) {
      triples[others].push_back(first);
    }
  }
  for (const auto& [others, these] : triples) {
    text += (text.empty() ? "" : " with ") + listed(these);
  }
  return text;
}

// The page's table, a row a rule. UNMASK_WRITE=1 in the environment brings the page up to date.
TEST(composition, rules_are_the_table_of_the_page) {
  const std::string path = UNMASK_EXAMPLES_DIR "/../include/unmask/policy/README.md";
  const std::string head = "| these do not go together | because |\n| --- | --- |\n";
  std::string table = head;
  for (const composition_rule& rule : all_composition_rules::all) {
    const std::string these = apart(rule);
    table += "| " + (these.empty() ? "parts that no text names" : these) + " | " +
             std::string(rule.why) + " |\n";
  }
  std::ifstream in{path, std::ios::binary};
  std::string page{std::istreambuf_iterator<char>{in}, {}};
  const std::size_t first = page.find(head);
  ASSERT_NE(first, std::string::npos) << path;
  const std::size_t size = page.find("\n\n", first) + 1 - first;
  if (std::getenv("UNMASK_WRITE") != nullptr) {
    std::ofstream{path, std::ios::binary} << page.replace(first, size, table);
    return;
  }
  EXPECT_EQ(page.substr(first, size), table) << path << ": UNMASK_WRITE=1 brings it up to date";
}

}  // namespace
}  // namespace unmask::composition_rules_test
