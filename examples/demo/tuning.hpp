// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/options.hpp"

namespace demo {

/// Options of a search for a policy.
struct search_options {
  bool help = false;
  bool agreement = false;
  double target = 0.97;
  double confidence_level = 0.8;
  unmask::tune::measure minimise = unmask::tune::measure::forwards;
  std::string cost = "forwards";
  index_t depth = 2;
  std::filesystem::path points;
  std::filesystem::path resume;
  options demo;
};

/// Result of one problem, before anything tells whether it is right.
struct search_result {
  unmask::tune::decoded cost;
  std::vector<token_id> tokens;  ///< of the answer
  std::string text;              ///< of the answer, up to the EOS token
};

/// Engine of a search.
class search_engine {
 public:
  virtual ~search_engine() = default;
  /// Decodes problems, by their indexes, with the policy of a text. Throws std::invalid_argument
  /// for a policy that the engine cannot decode.
  virtual std::vector<search_result> decode(const std::string& policy,
                                            std::span<const index_t> problems) = 0;
};

/// Makes the engine; both arguments outlive it.
using engine_maker =
    std::function<std::unique_ptr<search_engine>(const search_options&, std::span<const problem>)>;

/// A program that searches.
struct search_program {
  std::string_view name;
  engine_maker make;
  std::string_view help = {};  ///< of options of its own
  /// Reads such an option; returns false for a name that is none of them.
  std::function<bool(const std::string& name, const std::function<std::string()>& value)> read = {};
};

/// Reads options, searches, prints what it found and writes the files that the options name.
/// Returns the status of the program.
int run_search(const search_program& program, const std::vector<std::string>& arguments);

}  // namespace demo
