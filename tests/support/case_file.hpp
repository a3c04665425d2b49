// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The cases of tests/cases, one file a part, named after it. A case is a policy on a line of its
/// own and, indented, what its decode is given and what becomes of it:
///
///     threshold(0.9)
///         confidences 0.95 0.6 0.92
///         commits 0.95 0.92
///
/// `is refused: TEXT` in place of an output: the text or the sequence is refused, and the message
/// has TEXT in it. A line that begins with # is a comment.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/written_decode.hpp"

namespace unmask::testing {

/// A case and its place.
struct written_case : written_decode {
  std::string where;            ///< file:line of the policy
  std::vector<std::string> at;  ///< file:line of each output
  std::string refused;          ///< text of the message; empty if nothing is refused
};

/// The cases of a file. Errors: std::invalid_argument naming file and line.
[[nodiscard]] inline std::vector<written_case> cases_of(const std::filesystem::path& file) {
  constexpr const char* refusal = "is refused: ";
  std::vector<written_case> all;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = file.filename().string() + ":" + std::to_string(++number);
    const std::vector<std::string> w = words(line);
    if (w.empty() || w[0][0] == '#') {
      continue;
    }
    const std::string clause = line.substr(line.find_first_not_of(' '));
    if (line[0] != ' ') {
      all.push_back({{clause, {}, {}}, where, {}, {}});
    } else if (all.empty()) {
      throw std::invalid_argument(where + ": a clause before the first policy");
    } else if (clause.rfind(refusal, 0) == 0) {
      all.back().refused = clause.substr(std::string(refusal).size());
    } else if (is_output(clause)) {
      all.back().output.push_back(clause);
      all.back().at.push_back(where);
    } else {
      for (std::size_t at = 0; at < clause.size();) {
        const std::size_t comma = std::min(clause.find(", ", at), clause.size());
        all.back().input.push_back(clause.substr(at, comma - at));
        at = comma + 2;
      }
    }
  }
  for (const written_case& c : all) {
    if (c.input.empty() || c.output.empty() == c.refused.empty()) {
      throw std::invalid_argument(c.where + ": a case needs an input, and an output or a refusal");
    }
  }
  return all;
}

/// Decodes a case. Returns each difference with its place.
template <class Backend = on_host>
[[nodiscard]] std::vector<std::string> differences(const written_case& c, const Backend& on = {}) {
  std::vector<std::string> found;
  try {
    const decode_seen seen = decode(c.policy, scene_of(c.input), on);
    if (!c.refused.empty()) {
      return {c.where + ": " + c.policy + ": is not refused"};
    }
    for (std::size_t i = 0; i < c.output.size(); ++i) {
      if (const std::string is = difference(c.output[i], seen); !is.empty()) {
        found.push_back(c.at[i] + ": " + c.policy + ": expected " + c.output[i] + ", got " + is);
      }
    }
  } catch (const std::exception& e) {
    const std::string message = e.what();
    if (c.refused.empty() || message.find(c.refused) == std::string::npos) {
      found.push_back(c.where + ": " + c.policy + ": " + message);
    }
  }
  return found;
}

/// The files of a folder that have cases, by name.
[[nodiscard]] inline std::vector<std::filesystem::path> case_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace unmask::testing
