// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The golden traces are only worth comparing with if the tests rebuild their logits and understand
// their loops. This file shows both without the library: naive rules reproduce every line.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "goldens/lines.hpp"
#include "goldens/reference_rules.hpp"

namespace {

using namespace unmask::goldens;

const std::vector<commit_line>& commit_lines() {
  static const std::vector<commit_line> lines =
      read_commit_lines(golden_file("commit_rules.jsonl"));
  return lines;
}

/// The first difference between a line and its replay; an exception is one, so that a line that
/// cannot be replayed does not hide those after it.
std::string replay_difference(const commit_line& line, tie_order ties) {
  try {
    return difference(line, replay(line, ties));
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(GoldenReference, ReproducesEveryCommitLine) {
  ASSERT_FALSE(commit_lines().empty());
  for (const commit_line& line : commit_lines()) {
    EXPECT_EQ(replay_difference(line, tie_order::as_recorded), "")
        << line.rule << ' ' << line.args.dump();
  }
}

// With ties to the lower position only lines that contain exact ties on purpose may differ.
TEST(GoldenReference, TiesToTheLowerPositionDifferOnlyWhereTiesWereMade) {
  int ties = 0;
  int matching = 0;
  for (const commit_line& line : commit_lines()) {
    const std::string found = replay_difference(line, tie_order::lower_position);
    if (line.has_label("tie")) {
      ++ties;
      matching += found.empty() ? 1 : 0;
    } else {
      EXPECT_EQ(found, "") << line.rule;
    }
  }
  RecordProperty("tie_lines", ties);
  RecordProperty("tie_lines_matching_the_lower_position", matching);
}

TEST(GoldenReference, TheCommitsOfAllStepsLeadToTheFinalTokens) {
  for (const commit_line& line : commit_lines()) {
    for (const sequence& s : line.sequences) {
      EXPECT_EQ(s.state_before(s.steps.size()), s.final) << line.where;
    }
  }
}

// The earlier generation of the decoder object of a `reused_decoder` line, and the state left from
// it.
TEST(GoldenReference, EarlierGenerationLeavesTheRecordedCredit) {
  for (const commit_line& line : commit_lines()) {
    if (!line.reused_decoder) {
      continue;
    }
    const earlier_generation& first = *line.reused_decoder;
    tokens x = first.prompt;
    x.resize(first.final.size(), first.model.mask_id);
    decode_run run(first.model, x, line.bf16_softmax());
    dinfer_credit_state decoder;
    decoder.generate(run, arguments(line), static_cast<int>(first.prompt.size()));
    EXPECT_EQ(run.x(), first.final) << line.where;
    std::map<std::pair<int, int>, int> expected;
    for (const auto& [block, iterations] : first.stale_blocks) {
      expected[{block.start, block.end}] = iterations;
    }
    std::map<std::pair<int, int>, int> kept;
    for (const auto& [block, credit] : decoder.blocks()) {
      kept[block] = credit.iterations;
    }
    EXPECT_EQ(kept, expected) << line.where;
  }
}

/// The statistics of x / T in 80-bit arithmetic, by their definitions.
stats_result naive_statistics(const std::vector<float>& x, double temperature) {
  using real = long double;
  const auto scaled = [temperature](float z) {
    return static_cast<real>(z) / static_cast<real>(temperature);
  };
  stats_result r;
  r.temperature = temperature;
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (std::size_t v = 0; v < x.size(); ++v) {
    if (x[v] > best) {
      second = best;
      best = x[v];
      r.argmax = static_cast<int>(v);
      r.n_max = 1;
    } else {
      r.n_max += x[v] == best ? 1 : 0;
      second = std::max(second, x[v]);
    }
  }
  r.max_logit = static_cast<double>(best);
  r.second_logit = static_cast<double>(second);
  real sum = 0;
  for (const float z : x) {
    sum += std::exp(scaled(z) - scaled(best));
  }
  real entropy = 0;
  real neg_entropy_eps = 0;
  real squares = 0;
  for (const float z : x) {
    const real d = scaled(z) - scaled(best);
    const real p = std::exp(d) / sum;
    entropy += p > 0 ? p * (std::log(sum) - d) : 0;
    neg_entropy_eps += p * std::log(p + 1e-10L);
    squares += p * p;
  }
  r.p_max = static_cast<double>(1 / sum);
  r.p_second = static_cast<double>(std::exp(scaled(second) - scaled(best)) / sum);
  r.margin = static_cast<double>((1 - std::exp(scaled(second) - scaled(best))) / sum);
  r.entropy = static_cast<double>(entropy);
  r.neg_entropy_eps = static_cast<double>(neg_entropy_eps);
  r.logsumexp = static_cast<double>(scaled(best) + std::log(sum));
  r.sum_exp = static_cast<double>(sum);
  r.sum_p2 = static_cast<double>(squares);
  return r;
}

/// 1e-9, relative for numbers above 1.
void expect_close(double got, double expected, const std::string& what) {
  if (std::isinf(expected)) {
    EXPECT_EQ(got, expected) << what;
    return;
  }
  EXPECT_NEAR(got, expected, 1e-9 * std::max(1.0, std::abs(expected))) << what;
}

TEST(GoldenReference, RebuildsEveryStatisticsRow) {
  const auto lines = read_stats_lines(golden_file("stats.jsonl"));
  ASSERT_FALSE(lines.empty());
  for (const stats_line& line : lines) {
    const std::vector<float> row = stats_row(line.row);
    ASSERT_EQ(bits_sum(row), line.bits_sum) << line.where << ' ' << line.id;
    for (const stats_result& e : line.results) {
      const std::string who =
          line.where + " (" + line.id + ") at temperature " + std::to_string(e.temperature) + ": ";
      const stats_result g = naive_statistics(row, e.temperature);
      EXPECT_EQ(g.argmax, e.argmax) << who;
      EXPECT_EQ(g.n_max, e.n_max) << who;
      expect_close(g.max_logit, e.max_logit, who + "max_logit");
      expect_close(g.second_logit, e.second_logit, who + "second_logit");
      expect_close(g.p_max, e.p_max, who + "p_max");
      expect_close(g.p_second, e.p_second, who + "p_second");
      expect_close(g.margin, e.margin, who + "margin");
      expect_close(g.entropy, e.entropy, who + "entropy");
      expect_close(g.neg_entropy_eps, e.neg_entropy_eps, who + "neg_entropy_eps");
      expect_close(g.logsumexp, e.logsumexp, who + "logsumexp");
      expect_close(g.sum_exp, e.sum_exp, who + "sum_exp");
      expect_close(g.sum_p2, e.sum_p2, who + "sum_p2");
    }
  }
}

// `dissimilarity` of a partial refresh is 1 - cos between the features of two versions, so it shows
// that `feature` rebuilds both.
TEST(GoldenReference, FeaturesGiveTheRecordedDissimilarity) {
  int checked = 0;
  for (const node& line : read_json_lines(golden_file("dynamic_dllm.jsonl"))) {
    if (line.get<std::string>("rule") != "dynamic.dcu") {
      continue;
    }
    const auto seed = line.get<std::uint64_t>("seed");
    const auto width = line.at("args").get<std::uint64_t>("D");
    const auto prompt = line.at("args").get<std::uint64_t>("prompt_length");
    // The second step compares with the first, which refreshes everything.
    const node layers = line.at("steps").at(1).at("layers");
    for (std::size_t k = 0; k < layers.size(); ++k) {
      const node layer = layers.at(k);
      if (layer.get<std::string>("kind") != "partial" || !layer.has("dissimilarity")) {
        continue;
      }
      const auto l = layer.get<std::uint64_t>("layer");
      const auto expected = layer.get<std::vector<double>>("dissimilarity");
      for (std::size_t j = 0; j < expected.size(); ++j) {
        double dot = 0;
        double old_norm = 0;
        double new_norm = 0;
        for (std::uint64_t d = 0; d < width; ++d) {
          const double a = feature(seed, dynamic_stride, l, 1, prompt + j, d);
          const double b = feature(seed, dynamic_stride, l, 2, prompt + j, d);
          dot += a * b;
          old_norm += a * a;
          new_norm += b * b;
        }
        EXPECT_NEAR(1 - dot / std::sqrt(old_norm * new_norm), expected[j], 1e-6) << line.where();
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0);
}

// With alpha 0 an importance score is the relative change from version 0 to version 1 of the hidden
// state, capped by the largest, plus the constant bonus.
TEST(GoldenReference, FeaturesGiveTheRecordedImportanceScores) {
  int checked = 0;
  for (const node& line : read_json_lines(golden_file("es_dllm.jsonl"))) {
    if (line.get<std::string>("rule") != "es.select" || line.get<std::string>("dtype") != "f32" ||
        line.at("args").get<std::string>("mode") != "HiddenState" ||
        line.at("args").get<double>("alpha") != 0) {
      continue;
    }
    const auto seed = line.get<std::uint64_t>("seed");
    const auto width = line.at("args").get<std::uint64_t>("D");
    std::map<int, double> bonus;
    for (const auto& [p, value] : line.list("constant", detail::read_pair<int, double>)) {
      bonus[p] = value;
    }
    const node layers = line.at("layers");
    for (std::size_t k = 0; k < layers.size(); ++k) {
      const auto l = layers.at(k).get<std::uint64_t>("layer");
      const auto positions = layers.at(k).get<std::vector<int>>("positions");
      const auto expected = layers.at(k).get<std::vector<double>>("scores");
      std::vector<double> change;
      for (const int p : positions) {
        double moved = 0;
        double norm = 0;
        for (std::uint64_t d = 0; d < width; ++d) {
          const auto i = static_cast<std::uint64_t>(p);
          const double old_value = feature(seed, es_stride, l, 0, i, d);
          moved += std::abs(feature(seed, es_stride, l, 1, i, d) - old_value);
          norm += old_value * old_value;
        }
        const auto n = static_cast<double>(width);
        change.push_back(moved / n / (std::sqrt(norm / n) + 1e-6));
      }
      const double cap = std::max(1.0, *std::max_element(change.begin(), change.end()));
      for (std::size_t j = 0; j < positions.size(); ++j) {
        EXPECT_NEAR(change[j] / cap + bonus[positions[j]], expected.at(j), 1e-5)
            << line.where() << ", position " << positions[j];
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 0);
}

// A folder of another machine must fail with a message that can be acted on.
TEST(GoldenReference, ErrorsNameFileLineAndKey) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "bad_lines.jsonl";
  {
    std::ofstream file(path);
    file << "\n{\"id\": \"a\", \"rule\": \"b\", \"kind\": \"loop\", \"dtype\": \"\"}\n";
  }
  try {
    (void)read_commit_lines(path.string());
    FAIL() << "a line without labels was read";
  } catch (const schema_error& error) {
    EXPECT_EQ(std::string(error.what()), path.string() + ":2: missing key \"labels\"");
  }
  std::filesystem::remove(path);
  EXPECT_THROW((void)read_commit_lines(path.string()), schema_error);
}

}  // namespace
