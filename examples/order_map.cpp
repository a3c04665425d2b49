// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws order maps as SVG: which position of an answer is written in which forward pass, and which
// positions a pass runs, under policies that decode the same prompt with the tiny model.
//
//     order_map --all FOLDER           every picture of the pages: examples/pictures
//     order_map --picture NAME         one of them: order_map, commit_rules, caches, ...
//     order_map [TITLE=]POLICY...      any policies, as texts: order_map "threshold(0.9)" "factor(1)"
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "demo/order_svg.hpp"
#include "demo/recording.hpp"

namespace {

constexpr const char* prompt = "Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?";
constexpr demo::geometry shape{.answer_length = 40, .block_length = 20};

struct picture {
  std::string name;
  demo::view what;
  std::vector<std::string> policies;
};

// The pictures of include/unmask/policy/README.md, a part a panel. Tokens of the tiny model are
// characters: 6 is "#", 19 to 28 are the digits.
const std::vector<picture> pictures = {
    {"rankings",
     demo::view::order,
     {"by_confidence + tokens_per_step(4)",
      "by_margin + tokens_per_step(4)",
      "by_entropy + tokens_per_step(4)",
      "by_entropy_and_distance(0.02) + tokens_per_step(4)",
      "left_to_right + tokens_per_step(4)",
      "at_random + tokens_per_step(4)",
      "alg_temperature(by_confidence, 0.5) + tokens_per_step(4)",
      "position_frequency([1], [0.5], 0.1) + tokens_per_step(4)",
      "linear_position([1], [0.5], 0.3) + tokens_per_step(4)"}},
    {"commit_rules",
     demo::view::order,
     {"threshold(0.9)",
      "tokens_per_step(4)",
      "steps_per_block(6)",
      "any_of(threshold(0.999), block_deadline(3))",
      "ascending_step_size",
      "timesteps(12) + single_block",
      "independent_timesteps(12) + single_block",
      "factor(0.2)",
      "frechet(0.5)",
      "finish(0.99, 0.5)",
      "moving_threshold(0.999, 0.5)",
      "by_entropy + entropy_below(0.1)",
      "by_entropy + entropy_bound(0.1)",
      "hierarchical(0.4, 0.9)",
      "any_of(tokens_per_step(2), early_commit(20))",
      "any_of(threshold(0.99), steady_leader(3))",
      "local_leap(0.99, 0.9)",
      "adaptive_threshold(0.99, 0.05)",
      "stable_and_confident(0.9, 0.01)",
      "osdt_gsm8k(\"profile.json\")",
      "all_of(threshold(0.9), at_frontier(4))",
      "at_most(3, threshold(0.9))"}},
    {"logits_processors",
     demo::view::order,
     {"threshold(0.999)",
      "threshold(0.999) + trace_credit",
      "threshold(0.999) + adaptive_credit",
      "threshold(0.9) + logit_bias([20], [4])",
      "threshold(0.9) + repetition_penalty(1.5)",
      "threshold(0.9) + presence_frequency_penalty(1, 1)",
      "threshold(0.9) + neighbour_penalty(6)",
      "threshold(0.9) + allowed_tokens([19, 20, 21, 22, 23])",
      "threshold(0.9) + eos_penalty(8)",
      "threshold(0.9) + min_new_tokens(40)",
      "threshold(0.9) + eos_gate",
      "threshold(0.9) + eos_last",
      "threshold(0.9) + no_equal_neighbours"}},
    {"sampling",
     demo::view::order,
     {"threshold(0.9) + temperature(2)",
      "tokens_per_step(8) + sampling(5)",
      "tokens_per_step(8) + sampling(5) + top_k(2)",
      "tokens_per_step(8) + sampling(5) + top_p(0.9)",
      "tokens_per_step(8) + sampling(5) + min_p(0.1)",
      "tokens_per_step(8) + sampling(5) + top_k(2) + confidence_after_truncation"}},
    {"token_editing",
     demo::view::order,
     {"tokens_per_step(10) + edit_committed(0.99) + edited_blocks(3)",
      "tokens_per_step(10) + remask_current_below(0.9)",
      "tokens_per_step(10) + remask_below(0.9)",
      "core(10, 1, 8, 2)",
      "running_confidence(4)",
      "remdm_loop(4, 0.8, 2) + single_block",
      "remdm_conf(4) + max_steps(28)"}},
    {"schedules",
     demo::view::order,
     {"threshold(0.9) + semi_autoregressive",
      "threshold(0.9) + single_block",
      "threshold(0.9) + block_pipeline(0.1, whole_canvas=true)",
      "threshold(0.999) + slow_fast(2, 0.99)",
      "threshold(0.9) + sliding_block",
      "threshold(0.9) + block_at_delimiter([6])",
      "threshold(0.9) + seeded_blocks",
      "daedal(16)",
      "rho_eos(16)",
      "joint_threshold_indel(0.9, 0.99)",
      "threshold(0.9) + lookahead(3)",
      "tokens_per_step(2) + drafts(7, 2)",
      "threshold(0.9) + beam(4)",
      "by_entropy + entropy_bound(0.1) + canvas(8)"}},
    {"caches",
     demo::view::positions,
     {"tokens_per_step(4) + prefix_cache",
      "tokens_per_step(4) + dual_cache",
      "tokens_per_step(4) + block_cache(4)",
      "tokens_per_step(4) + interval_cache(4)",
      "tokens_per_step(4) + suffix_window(8)",
      "tokens_per_step(4) + delayed_cache",
      "tokens_per_step(4) + entropy_cache(0.1)",
      "tokens_per_step(4) + dual_cache(whole=2) + key_eviction"}},
    {"layer_rules",
     demo::view::layers,
     {"tokens_per_step(4) + early_skip + block_cache",
      "tokens_per_step(4) + cache_budget(8, 8) + interval_cache(1, 0)",
      "tokens_per_step(4) + similarity_refresh + interval_cache"}},
    {"probes", demo::view::reported, {"threshold(0.9) + probability_of([20])"}},
    {"stops",
     demo::view::order,
     {"threshold(0.9) + stop_at_eos",
      "threshold(0.9) + stop_sequence([6])",
      "threshold(0.9) + max_steps(2)"}}};

const std::vector<std::string> two = {"Two tokens in each pass=tokens_per_step(2)",
                                      "Every token that is more than 90 % likely=threshold(0.9)"};

/// Decodes the prompt with the policies of `[TITLE=]POLICY`.
std::vector<demo::panel> panels_of(const std::vector<std::string>& policies,
                                   demo::recorder& model) {
  std::vector<demo::panel> panels;
  for (const std::string& titled : policies) {
    const std::size_t end = titled.find('=');
    const bool has_title = end != std::string::npos && titled.find('(') > end;
    const std::string policy = has_title ? titled.substr(end + 1) : titled;
    panels.push_back(
        {has_title ? titled.substr(0, end) : titled, model.record(policy, prompt, shape)});
  }
  return panels;
}

std::string drawn(const std::string& name, demo::recorder& model) {
  if (name == "order_map") {
    return demo::order_maps(prompt, panels_of(two, model));
  }
  for (const picture& p : pictures) {
    if (p.name == name) {
      return demo::small_multiples(p.what, panels_of(p.policies, model));
    }
  }
  throw std::invalid_argument("there is no picture " + name);
}

void write_all(const std::filesystem::path& folder, demo::recorder& model) {
  std::vector<std::string> names{"order_map"};
  for (const picture& p : pictures) {
    names.push_back(p.name);
  }
  for (const std::string& name : names) {
    std::ofstream file(folder / (name + ".svg"), std::ios::binary);
    if (!(file << drawn(name, model)).flush()) {
      throw std::runtime_error("cannot write " + (folder / (name + ".svg")).string());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const bool takes_name = arguments.size() == 2;
    demo::recorder model(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf");
    if (takes_name && arguments[0] == "--all") {
      write_all(arguments[1], model);
    } else if (takes_name && arguments[0] == "--picture") {
      std::fputs(drawn(arguments[1], model).c_str(), stdout);
    } else {
      const auto panels = panels_of(arguments.empty() ? two : arguments, model);
      std::fputs(demo::order_maps(prompt, panels).c_str(), stdout);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "order_map: %s\n", e.what());
    return 1;
  }
}
