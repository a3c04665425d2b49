// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <thread>

namespace demo {

void reject(std::string_view option, std::string_view rule, std::string_view value) {
  throw std::invalid_argument(std::string(option) + " must be " + std::string(rule) + ", got '" +
                              std::string(value) + "'");
}

namespace {

template <class Number>
Number whole_number(std::string_view option, std::string_view text, Number least, Number most) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value < least || value > most) {
    reject(option,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
           text);
  }
  return value;
}

std::filesystem::path existing_file(std::string_view option, std::string_view text) {
  std::filesystem::path file{text};
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) {
    reject(option, "a file that can be read", text);
  }
  return file;
}

/// A model of the examples, with the prompts and the shape that it was trained for.
struct known_model {
  std::string_view name, weights, prompts;
  index_t answer_length, block_length;
  bool own_length = false;
};
constexpr std::array<known_model, 8> models{{
    {"tiny_llada", "tiny_llada/tiny-f16.gguf", "tiny_llada/prompts.jsonl", 40, 20},
    {"sudoku", "sudoku/sudoku-f16.gguf", "sudoku/puzzles.jsonl", 36, 36},
    {"chains", "chains/chains-f16.gguf", "chains/problems.jsonl", 128, 128, true},
    {"chains_2", "chains/chains_2-f16.gguf", "chains/problems.jsonl", 128, 128, true},
    {"waiting_1", "chains/waiting_1-f16.gguf", "chains/waiting.jsonl", 237, 237},
    {"waiting_2", "chains/waiting_2-f16.gguf", "chains/waiting.jsonl", 237, 237},
    {"block_causal_1", "chains/block_causal_1-f16.gguf", "chains/waiting.jsonl", 237, 32},
    {"block_causal_2", "chains/block_causal_2-f16.gguf", "chains/waiting.jsonl", 237, 32},
}};

/// The options while they are read: some depend on each other.
struct reader {
  options result;
  known_model model = models.front();
  std::optional<index_t> length;
  std::optional<index_t> blocks;
  std::optional<index_t> block_length;
};

/// One option: its name, what stands for its value in the help (nothing: it takes none), the help,
/// and what it does.
struct option {
  std::string_view name;
  std::string_view value;
  std::string_view help;
  std::function<void(reader&, std::string_view)> take;
};

constexpr int million = 1'000'000;

// clang-format off
std::vector<option> all_options() {
  return {
      {"--help", "", "this text; -h, too", [](reader& r, std::string_view) { r.result.help = true; }},
      {"--version", "", "the version and, of a build in a checkout, its commit",
       [](reader& r, std::string_view) { r.result.version = true; }},
      {"--parts", "", "what --policy composes: each part with its arguments and their ranges, and the\n"
       "                      methods that stand for some",
       [](reader& r, std::string_view) { r.result.parts = true; }},
      {"--policy", "NAME", "a policy of the list below, or composed of the library's parts:\n"
       "                      'threshold(0.9)', 'by_margin + tokens_per_step(2) + stop_at_eos', 'es_dllm'; may be\n"
       "                      repeated",
       [](reader& r, std::string_view v) {
         try {
           r.result.policies.emplace_back(v);
         } catch (const std::invalid_argument& e) {
           throw std::invalid_argument("--policy " + std::string(v) + ": " + e.what());
         }
       }},
      {"--all", "", "every policy of the list below, live and in the table; by default two of them\n"
       "                      are live, and the table has the best known",
       [](reader& r, std::string_view) { r.result.all = true; }},
      {"--cache", "NAME", "a cache of the list below, or parts such as 'dual_cache(4)', for each of\n"
       "                      the policies; may be repeated",
       [](reader& r, std::string_view v) {
         try {
           r.result.caches.emplace_back(v);
         } catch (const std::invalid_argument& e) {
           throw std::invalid_argument("--cache " + std::string(v) + ": " + e.what());
         }
       }},
      {"--task", "NAME", "only prompts of this task; may be repeated",
       [](reader& r, std::string_view v) { r.result.tasks.emplace_back(v); }},
      {"--prompt", "TEXT", "decode this text; may be repeated",
       [](reader& r, std::string_view v) { r.result.prompts.emplace_back(v); }},
      {"--problems", "FILE", "the same as --prompts",
       [](reader& r, std::string_view v) {
         r.result.prompts_file = existing_file("--problems", v);
       }},
      {"--prompts", "FILE", "lines of JSON {task, prompt, answer, given, checker, edit} instead of the model's\n"
       "                      prompts; given: the answer at the start, '_' where masked,\n"
       "                      whose masked positions are compared with the answer's one by one if it has both;\n"
       "                      edit: true where a policy may change given tokens",
       [](reader& r, std::string_view v) {
         r.result.prompts_file = existing_file("--prompts", v);
       }},
      {"--limit", "N", "prompts of each task, 0 for all (default 8; with --check all)",
       [](reader& r, std::string_view v) {
         r.result.limit = whole_number("--limit", v, 0, million);
       }},
      {"--skip", "N", "leave out the first N prompts of each task (default 0)",
       [](reader& r, std::string_view v) {
         r.result.skip = whole_number("--skip", v, 0, million);
       }},
      {"--calibration", "FILE", "profiles learn from the first prompt of this file instead of the first of\n"
       "                      each task",
       [](reader& r, std::string_view v) {
         r.result.calibration = read_problems(existing_file("--calibration", v)).front();
       }},
      {"--model", "NAME", "tiny_llada (default), sudoku, chains, chains_2, waiting_1, waiting_2,\n"
       "                      block_causal_1, block_causal_2, or a GGUF file (LLaDA, BERT, ALBERT)\n"
       "                      for the prompts of tiny_llada or --prompts",
       [](reader& r, std::string_view v) {
         const auto found = std::ranges::find(models, v, &known_model::name);
         r.model = found == models.end() ? models.front() : *found;
         r.result.model_file =
             found == models.end() ? existing_file("--model", v) : std::filesystem::path{};
       }},
      {"--length", "N", "positions of the answer (default: the model's, 40, 36, up to 128, 237)",
       [](reader& r, std::string_view v) {
         r.length = whole_number<index_t>("--length", v, 1, million);
       }},
      {"--block-length", "N", "positions denoised together (default: the model's, 20, 36, 128, 237)",
       [](reader& r, std::string_view v) {
         r.block_length = whole_number<index_t>("--block-length", v, 1, million);
       }},
      {"--blocks", "N", "the same, as the number of blocks of the answer",
       [](reader& r, std::string_view v) {
         r.blocks = whole_number<index_t>("--blocks", v, 1, million);
       }},
      {"--open-window", "", "of a model with block-causal attention, the blocks that are decoded attend\n"
       "                      to one another (LoPA)",
       [](reader& r, std::string_view) { r.result.open_window = true; }},
      {"--stop", "", "end a sequence once its EOS token is committed",
       [](reader& r, std::string_view) { r.result.stop_at_eos = true; }},
      {"--seed", "N", "of policies that draw random numbers (default 0)",
       [](reader& r, std::string_view v) {
         r.result.shape.seed = whole_number<std::uint64_t>(
             "--seed", v, 0, std::numeric_limits<std::uint64_t>::max());
       }},
      {"--batch", "N", "sequences decoded together (default: live 1, table 8)",
       [](reader& r, std::string_view v) {
         r.result.batch = whole_number<index_t>("--batch", v, 1, 4096);
       }},
      {"--threads", "N", "threads of the engine (default: one for each processor)",
       [](reader& r, std::string_view v) {
         r.result.threads = whole_number<index_t>("--threads", v, 1, 1024);
       }},
      {"--share-passes", "MIB", "keep so many MiB of logits, and compute a pass that several policies have in\n"
       "                      common once: the same counts sooner, but no times (default 0)",
       [](reader& r, std::string_view v) {
         r.result.shared = whole_number("--share-passes", v, 0, million);
       }},
      {"--live", "N", "prompts shown live for each of those policies (default 1)",
       [](reader& r, std::string_view v) {
         r.result.live = whole_number("--live", v, 0, million);
       }},
      {"--no-live", "", "only the table",
       [](reader& r, std::string_view) { r.result.live = 0; }},
      {"--pause", "MS", "how long the live part shows each forward (default 80)",
       [](reader& r, std::string_view v) {
         r.result.pause = whole_number("--pause", v, 0, 60'000);
       }},
      {"--plain", "", "no colours and nothing in place, as when the output is no terminal",
       [](reader& r, std::string_view) { r.result.plain = true; }},
      {"--json", "", "print one JSON object and nothing else",
       [](reader& r, std::string_view) { r.result.json = true; }},
      {"--frontier", "STEM", "write exact match against forwards, each policy over its main knob,\n"
       "                      as STEM.csv and STEM.svg instead (all policies unless named)",
       [](reader& r, std::string_view v) {
         const std::filesystem::path stem{v};
         const std::filesystem::path folder = stem.parent_path();
         if (!stem.has_filename() || (!folder.empty() && !std::filesystem::is_directory(folder))) {
           reject("--frontier", "a file name, without ending, in an existing folder", v);
         }
         r.result.frontier = stem;
       }},
      {"--html", "FILE", "write the viewer with how one policy, or two to compare, decode the first\n"
       "                      prompts (--live) instead: a page for any browser",
       [](reader& r, std::string_view v) {
         if (v.empty()) {
           reject("--html", "the name of a file", v);
         }
         r.result.html = v;
       }},
      {"--trace", "FILE", "write how the first prompts (--live) are decoded by one policy, step by step,\n"
       "                      as a trace instead; - is the standard output",
       [](reader& r, std::string_view v) {
         if (v.empty()) {
           reject("--trace", "the name of a file, or -", v);
         }
         r.result.trace = v;
       }},
      {"--replay", "FILE", "decode a trace again instead, and compare its log-probabilities with those of\n"
       "                      the model",
       [](reader& r, std::string_view v) { r.result.replay = existing_file("--replay", v); }},
      {"--check", "FILE", "compare tokens and forwards with reference decodes instead",
       [](reader& r, std::string_view v) { r.result.check_file = existing_file("--check", v); }},
  };
}
// clang-format on

options finished(reader& r) {
  options& o = r.result;
  const std::filesystem::path folder = UNMASK_EXAMPLES_DIR;
  if (o.model_file.empty()) {
    o.model_file = folder / r.model.weights;
  }
  o.held_prompts = folder / r.model.prompts;
  o.shape.answer_length = r.length.value_or(r.model.answer_length);
  o.shape.block_length = r.model.block_length;
  o.shape.own_length = r.model.own_length && !r.length;
  o.blocks_chosen = r.blocks || r.block_length;
  index_t& length = o.shape.block_length;
  if (r.blocks && r.block_length) {
    throw std::invalid_argument("--blocks must be left out where --block-length is given, got '" +
                                std::to_string(*r.blocks) + "'");
  }
  if (r.blocks) {
    if (*r.blocks > o.shape.answer_length) {
      reject("--blocks",
             "at most --length, " + std::to_string(o.shape.answer_length),
             std::to_string(*r.blocks));
    }
    length = (o.shape.answer_length + *r.blocks - 1) / *r.blocks;
  } else if (r.block_length) {
    length = *r.block_length;
  }
  if (o.all && !o.policies.empty()) {
    reject("--policy", "left out with --all", o.policies.front().label());
  }
  if (!o.check_file.empty() && !o.policies.empty()) {
    reject("--policy",
           "left out with --check, whose file names the rules",
           o.policies.front().label());
  }
  if (!o.check_file.empty() && !o.caches.empty()) {
    reject("--cache", "left out with --check: the reference has none", o.caches.front().label());
  }
  if (!o.check_file.empty() && !o.prompts.empty()) {
    reject("--prompt", "left out with --check, whose file names the prompts", o.prompts.front());
  }
  if (!o.replay.empty() && (!o.policies.empty() || !o.caches.empty())) {
    reject("--policy", "left out with --replay, whose trace names it", o.replay.string());
  }
  if (!o.trace.empty() && (o.policies.size() != 1 || o.caches.size() > 1)) {
    reject("--trace", "given with one --policy and at most one --cache", o.trace);
  }
  if (!o.html.empty() && (o.policies.empty() || o.policies.size() > 2 || o.caches.size() > 1)) {
    reject("--html", "given with one or two --policy and at most one --cache", o.html.string());
  }
  return o;
}

}  // namespace

options parse_options(const std::vector<std::string>& arguments) {
  const std::vector<option> known = all_options();
  reader r;
  r.result.threads = static_cast<index_t>(std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view written = arguments[i];
    const std::string_view argument = written == "-h" ? "--help" : written;
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const auto found = std::ranges::find(known, name, &option::name);
    if (found == known.end()) {
      throw std::invalid_argument("option '" + std::string(argument) +
                                  "' must be one of those that --help lists");
    }
    std::string_view value;
    if (found->value.empty()) {
      if (equals != std::string_view::npos) {
        reject(name, "without a value", argument.substr(equals + 1));
      }
    } else if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      throw std::invalid_argument(std::string(name) + " must be followed by " +
                                  std::string(found->value) + ", got nothing");
    }
    found->take(r, value);
  }
  return finished(r);
}

std::string help_text() {
  std::string text =
      "usage: unmask_demo [options]\n\n"
      "Decodes prompts with a small masked diffusion language model under several policies: shows\n"
      "answers filling in, then compares what the policies cost in forward passes and mistakes.\n\n"
      "options\n";
  for (const option& o : all_options()) {
    std::string name =
        "  " + std::string(o.name) + (o.value.empty() ? "" : " ") + std::string(o.value);
    name.resize(std::max<std::size_t>(name.size() + 2, 22), ' ');
    text += name + std::string(o.help) + "\n";
  }
  return text + "\npolicies\n" + list_of(policy_presets()) + "\ncaches\n" +
         list_of(cache_presets());
}

}  // namespace demo
