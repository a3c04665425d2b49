// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "demo/decode.hpp"
#include "demo/policies.hpp"

namespace demo {

/// Options of the command line.
struct options {
  bool help = false;
  bool parts = false;
  bool version = false;
  bool all = false;                     ///< every policy that has a name, live, too
  std::vector<chosen_policy> policies;  ///< empty: the default ones
  std::vector<chosen_cache> caches;     ///< empty: none
  std::vector<std::string> tasks;       ///< empty: all
  std::vector<std::string> prompts;     ///< texts without a known answer
  std::filesystem::path prompts_file;   ///< empty: those of the model, unless `prompts` has some
  std::filesystem::path held_prompts;   ///< those of the model
  std::optional<int> limit;             ///< prompts of each task; 0 takes all
  int skip = 0;                         ///< prompts of each task that are left out before them
  std::filesystem::path model_file;
  std::filesystem::path check_file;  ///< empty: no check
  std::filesystem::path frontier;    ///< where to write the frontier, without ending; or empty
  std::string trace;             ///< file to write a trace to, "-" for standard output; or empty
  std::filesystem::path replay;  ///< trace to decode again; or empty
  geometry shape;
  bool blocks_chosen = false;  ///< by --blocks or --block-length; else the model's
  bool stop_at_eos = false;
  bool open_window = false;            ///< of a model with block-causal attention
  std::filesystem::path html;          ///< where to write the viewer with a trace; or empty
  std::optional<problem> calibration;  ///< what profiles learn from; none: a task's first problem
  std::optional<index_t> batch;
  index_t threads = 1;
  int shared = 0;  ///< MiB of logits kept for the next policies; their times then mean nothing
  int live = 1;    ///< prompts shown live for each policy
  int pause = 80;  ///< milliseconds that each forward is shown in a terminal
  bool plain = false;
  bool json = false;
};

/// Throws std::invalid_argument "<option> must be <rule>, got '<value>'".
[[noreturn]] void reject(std::string_view option, std::string_view rule, std::string_view value);

/// Reads the command line, without the program's name. Throws std::invalid_argument that names the
/// option, the value and the rule.
options parse_options(const std::vector<std::string>& arguments);

/// The text of --help.
std::string help_text();

}  // namespace demo
