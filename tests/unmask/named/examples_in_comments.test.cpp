// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The examples in comments of parts do what they say: a policy as text, the confidences of the
// masked positions of one block, and those that the first step commits.
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace unmask {
namespace {

std::vector<double> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> values;
  for (double x = 0.0; in >> x;) {
    values.push_back(x);
  }
  return values;
}

// Two tokens of probabilities p and 1 - p at each position; the third is the mask.
std::vector<double> committed(const std::string& text, const std::vector<double>& confidences) {
  const auto n = static_cast<index_t>(confidences.size());
  const auto s = make_any_session(text, {.vocab = 3, .mask_token = 2}, {.length = n, .window = n});
  std::vector<token_id> tokens(confidences.size());
  s->start(0, tokens.data(), n, {.length = n, .block_length = n});
  std::vector<float> logits;
  for (const double p : confidences) {
    logits.push_back(static_cast<float>(std::log(p)));
    logits.push_back(static_cast<float>(std::log(1.0 - p)));
    logits.push_back(0.0F);
  }
  EXPECT_TRUE(s->next());
  s->supply(host_logits<float>(logits.data(), n, 3));
  std::vector<double> found;
  for (const commit_entry& e : s->committed(0)) {
    found.push_back(confidences[static_cast<std::size_t>(e.position)]);
  }
  return found;
}

TEST(examples_in_comments, commit_as_they_say) {
  const std::regex example(R"(Example: `([^`]+)`, confidences ([\d. ]+): commits ([\d. ]+)\.)");
  int count = 0;
  const auto headers = std::filesystem::path(UNMASK_EXAMPLES_DIR) / "../include/unmask/policy";
  for (const auto& file : std::filesystem::recursive_directory_iterator(headers)) {
    if (file.path().extension() != ".hpp") {
      continue;
    }
    std::ifstream in(file.path());
    std::ostringstream whole;
    whole << in.rdbuf();
    const std::string text = std::regex_replace(whole.str(), std::regex("\n///"), "");
    for (auto m = std::sregex_iterator(text.begin(), text.end(), example);
         m != std::sregex_iterator();
         ++m) {
      EXPECT_EQ(committed((*m)[1], numbers((*m)[2])), numbers((*m)[3])) << (*m)[0];
      ++count;
    }
  }
  EXPECT_GE(count, 6) << "of the parts that decide about one step";
}

}  // namespace
}  // namespace unmask
