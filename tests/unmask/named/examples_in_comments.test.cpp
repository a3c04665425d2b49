// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The examples in comments of parts do what they say, and every part that has a name has one.
// include/unmask/policy/README.md, "Examples in comments", says how they are written.
#include <unmask/named/read_policy.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/written_decode.hpp"

namespace unmask::examples_in_comments_test {
namespace {

using testing::words;
using testing::written_decode;

// Those parts of the text that match.
std::vector<std::string> split(const std::string& text, const std::regex& piece) {
  std::vector<std::string> all;
  for (auto m = std::sregex_iterator(text.begin(), text.end(), piece); m != std::sregex_iterator();
       ++m) {
    all.push_back((*m)[1]);
  }
  return all;
}

struct example {
  std::string part;   ///< that the comment is of
  std::string whole;  ///< as it stands in the comment
  written_decode decode;
};

// The parts that have a name, and what joins commit rules.
std::set<std::string> names() {
  std::set<std::string> all{"any_of", "all_of", "at_most"};
  for (const known_part& part : known_parts()) {
    all.emplace(part.name);
  }
  return all;
}

// Examples of the comments of parts: each belongs to the type that is declared behind it.
void add_examples(std::vector<example>& all, std::ifstream in) {
  const std::regex form(R"(Example: `([^`]+)`((?:, [^:]*)?): (.*?)\.(?= [A-Z]|\s*$))");
  const std::regex declared(R"(^(?:struct|class|using) (?:basic_)?(\w+?)(?:_by)?(?: |$))");
  const std::set<std::string> parts = names();
  std::string comment;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("///", 0) == 0) {
      comment += line.substr(3);
      continue;
    }
    if (line.rfind("template <", 0) == 0) {
      continue;
    }
    std::smatch name;
    std::regex_search(line, name, declared);
    for (auto m = std::sregex_iterator(comment.begin(), comment.end(), form);
         m != std::sregex_iterator() && parts.contains(name[1]);
         ++m) {
      all.push_back({name[1],
                     (*m)[0],
                     {(*m)[1],
                      split((*m)[2], std::regex(", ([^,]+)")),
                      split((*m)[3], std::regex("([^;]+)"))}});
    }
    comment.clear();
  }
}

std::vector<example> examples_of_the_headers() {
  std::vector<example> all;
  for (const auto& file : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(UNMASK_EXAMPLES_DIR) / "../include/unmask")) {
    if (file.path().extension() == ".hpp") {
      add_examples(all, std::ifstream(file.path()));
    }
  }
  return all;
}

TEST(examples_in_comments, do_what_they_say) {
  for (const example& e : examples_of_the_headers()) {
    SCOPED_TRACE(e.whole);
    testing::decode_seen seen;
    EXPECT_NO_THROW(seen = testing::decode(e.decode.policy, testing::scene_of(e.decode.input)));
    for (const std::string& said : e.decode.output) {
      EXPECT_EQ(testing::difference(said, seen), "") << e.part << ", in place of " << said;
    }
  }
}

TEST(examples_in_comments, are_in_the_comment_of_every_part) {
  std::set<std::string> with_one;
  for (const example& e : examples_of_the_headers()) {
    if (e.decode.policy.find(e.part) != std::string::npos) {
      with_one.insert(e.part);
    }
  }
  for (const std::string& name : names()) {
    EXPECT_TRUE(with_one.contains(name))
        << name << ": its comment has no 'Example: `POLICY`, INPUT: OUTPUT.'";
  }
}

}  // namespace
}  // namespace unmask::examples_in_comments_test
