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

// The columns of the page's matrix: the parts that exclude most others. Parts of one column exclude
// the same parts for the same reasons.
const std::vector<std::vector<std::string_view>> columns = {
    {"lookahead"},
    {"drafts"},
    {"beam"},
    {"canvas"},
    {"joint_threshold_indel"},
    {"daedal", "rho_eos"},
    {"self_speculation"},
    {"seeded_blocks"},
    {"core"},
    {"wino"},
    {"adaptive_threshold", "stable_and_confident"},
    {"early_skip", "cache_budget", "similarity_refresh"},
    {"delayed_cache", "entropy_cache"},
    {"prefix_cache", "dual_cache", "block_cache", "interval_cache", "suffix_window"},
    {"key_eviction"}};

std::size_t column_of(const known_part* p) {
  return std::size_t(std::find_if(columns.begin(),
                                  columns.end(),
                                  [&](const auto& c) {
                                    return std::find(c.begin(), c.end(), p->name) != c.end();
                                  }) -
                     columns.begin());
}

bool is_column(const known_part* p) {
  return column_of(p) < columns.size();
}

// A pair of which the matrix has a cell, or a part that stands alone in its column, twice.
bool is_in_matrix(const known_part* a, const known_part* b) {
  return (is_column(a) || is_column(b)) &&
         (column_of(a) != column_of(b) || columns[column_of(a)].size() == 1);
}

std::string letter(std::size_t column) {
  return std::string(1, char('A' + int(column)));
}

// Names of parts, and the letters of whole columns.
std::string listed(const parts& all, bool with_letters = false) {
  std::string text;
  std::set<std::size_t> done;
  for (const known_part* p : all) {
    const std::size_t column = column_of(p);
    const bool is_whole =
        with_letters && is_column(p) &&
        std::size_t(std::count_if(all.begin(), all.end(), [&](const known_part* other) {
          return column_of(other) == column;
        })) == columns[column].size();
    if (!is_whole || done.insert(column).second) {
      text += text.empty() ? "" : ", ";
      text += is_whole ? letter(column) : "`" + std::string(p->name) + "`";
    }
  }
  return text;
}

// What a rule keeps apart outside of the matrix: parts alone, two of one list, one of each of two
// or of three lists.
struct kept_apart {
  std::string text;
  std::set<parts> pairs;  // all, in either order, with those of columns
};

kept_apart apart(const composition_rule& rule) {
  parts alone;
  parts all;
  for (const known_part& p : known_parts()) {
    (refuses(rule, {&p}) ? alone : all).push_back(&p);
  }
  if (!alone.empty()) {
    return {listed(alone) + " alone", {}};
  }
  kept_apart result;
  std::map<parts, parts> outside;  // what is refused after parts, and those
  for (const known_part* first : all) {
    parts others;
    for (const known_part* second : all) {
      if (refuses(rule, {first, second})) {
        result.pairs.insert({first, second});
        result.pairs.insert({second, first});
        if (!is_in_matrix(first, second)) {
          others.push_back(second);
        }
      }
    }
    outside[others].push_back(first);
  }
  outside.erase(parts{});
  std::set<parts> done;
  for (const auto& [others, these] : outside) {
    const auto mirror = outside.find(these);
    const bool in_either_order = mirror != outside.end() && mirror->second == others;
    if (!done.contains(others)) {
      result.text += result.text.empty() ? "" : "; ";
      if (others != these) {
        result.text += listed(these) + (in_either_order ? " with " : " before ") + listed(others);
      } else {
        result.text += these.size() > 1 ? "two of " + listed(these) : listed(these) + " twice";
      }
    }
    done.insert(these);
  }
  if (!result.pairs.empty()) {
    result.text += result.text.empty() ? "-" : "";
    return result;
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
    result.text += (result.text.empty() ? "" : " with ") + listed(these, true);
  }
  result.text += result.text.empty() ? "parts that no text names" : "";
  return result;
}

// The matrix: a row has the parts that exclude the same columns for the same reasons. A cell is the
// number of the first rule that keeps them apart. Parts that exclude no column have no row.
std::string matrix(const std::vector<kept_apart>& rules) {
  std::map<std::vector<std::set<std::size_t>>, parts> rows;
  parts all;
  for (const known_part& p : known_parts()) {
    all.push_back(&p);
  }
  std::stable_sort(all.begin(), all.end(), [](const known_part* a, const known_part* b) {
    return column_of(a) < column_of(b);
  });
  parts first_of_row;
  for (const known_part* p : all) {
    std::vector<std::set<std::size_t>> cells(columns.size());
    for (const known_part* other : all) {
      if (is_column(other) && column_of(other) != column_of(p)) {
        const auto rule = std::find_if(rules.begin(), rules.end(), [&](const kept_apart& r) {
          return r.pairs.contains({p, other});
        });
        cells[column_of(other)].insert(rule == rules.end() ? 0
                                                           : std::size_t(rule - rules.begin()) + 1);
      }
    }
    for (std::set<std::size_t>& cell : cells) {
      EXPECT_LE(cell.size(), 1U) << p->name << " combines with one part of column "
                                 << letter(std::size_t(&cell - cells.data()))
                                 << " and not with another: give them two columns";
      cell.erase(0);
    }
    parts& row = rows[cells];
    if (row.empty()) {
      first_of_row.push_back(p);
    }
    row.push_back(p);
  }
  std::string text = "| |";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    text += " " + letter(c) + " |";
  }
  text += "\n| --- |";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    text += " ---: |";
  }
  text += "\n";
  for (const known_part* first : first_of_row) {
    const auto row = std::find_if(
        rows.begin(), rows.end(), [&](const auto& r) { return r.second.front() == first; });
    if (std::all_of(
            row->first.begin(), row->first.end(), [](const auto& c) { return c.empty(); })) {
      continue;
    }
    text += is_column(first) ? "| **" + letter(column_of(first)) + "** " : "| ";
    text += listed(row->second);
    for (const std::set<std::size_t>& cell : row->first) {
      text += cell.empty() ? " |" : " | " + std::to_string(*cell.begin());
    }
    text += " |\n";
  }
  return text;
}

// The page's tables: the matrix, and the sentence of each rule with what it refuses besides.
// UNMASK_WRITE=1 in the environment brings the page up to date.
TEST(composition, rules_are_the_tables_of_the_page) {
  const std::string path = UNMASK_EXAMPLES_DIR "/../include/unmask/policy/README.md";
  std::vector<kept_apart> rules;
  std::string reasons = "| | because | also refused |\n| ---: | --- | --- |\n";
  for (const composition_rule& rule : all_composition_rules::all) {
    rules.push_back(apart(rule));
    reasons += "| " + std::to_string(rules.size()) + " | " + std::string(rule.why) + " | " +
               rules.back().text + " |\n";
  }
  std::ifstream in{path, std::ios::binary};
  std::string page{std::istreambuf_iterator<char>{in}, {}};
  for (const std::string& table : {matrix(rules), reasons}) {
    const std::size_t first = page.find(table.substr(0, table.find('\n') + 1));
    ASSERT_NE(first, std::string::npos) << path << " lacks a table that begins so: " << table;
    const std::size_t size = page.find("\n\n", first) + 1 - first;
    if (std::getenv("UNMASK_WRITE") == nullptr) {
      EXPECT_EQ(page.substr(first, size), table) << path << ": UNMASK_WRITE=1 brings it up to date";
    }
    page.replace(first, size, table);
  }
  if (std::getenv("UNMASK_WRITE") != nullptr) {
    std::ofstream{path, std::ios::binary} << page;
  }
}

}  // namespace
}  // namespace unmask::composition_rules_test
