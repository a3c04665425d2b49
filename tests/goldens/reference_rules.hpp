// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The oracle: replays a line of commit_rules.jsonl with the reference rule it names.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "goldens/reference_dinfer.hpp"
#include "goldens/reference_schedules.hpp"
#include "goldens/reference_sglang.hpp"

namespace unmask::goldens {

/// Which of two equal scores ranks first.
enum class tie_order {
  lower_position,  ///< the library's contract
  as_recorded      ///< the choice in the line: any is right, torch does not specify one
};

/// Replays the line from its prompt; one run per sequence. Throws `schema_error` for a rule that
/// has no reference.
[[nodiscard]] inline std::vector<decode_run> replay(const commit_line& line,
                                                    tie_order ties = tie_order::lower_position) {
  std::vector<decode_run> runs;
  for (const sequence& s : line.sequences) {
    // SGLang's model gets the sequence only up to the current block; its loop grows it.
    runs.emplace_back(s.model,
                      line.starts_with("sglang.") ? s.prompt : s.start,
                      line.bf16_softmax(),
                      ties == tie_order::as_recorded ? &s.steps : nullptr);
  }
  const arguments args(line);
  decode_run& run = runs.front();
  const int prompt = static_cast<int>(line.sequences.front().prompt.size());
  const std::string& rule = line.rule;
  if (rule == "llada.low_confidence") {
    llada_low_confidence(run, args, prompt);
  } else if (rule == "fastdllm.threshold" || rule == "fastdllm.fixed" ||
             rule == "fastdllm.factor") {
    fastdllm(run, line, prompt);
  } else if (rule == "dream.maskgit_plus" || rule == "dream.topk_margin" ||
             rule == "dream.entropy") {
    dream_schedule(run, line, prompt);
  } else if (rule == "dream.confidence_threshold") {
    dream_confidence_threshold(run, args, prompt);
  } else if (rule == "dinfer.threshold") {
    dinfer_threshold(run, args, prompt);
  } else if (rule == "dinfer.hierarchy") {
    dinfer_hierarchy(run, args, prompt);
  } else if (rule == "dinfer.credit") {
    dinfer_credit_state decoder;
    if (line.reused_decoder) {
      const earlier_generation& first = *line.reused_decoder;
      tokens x = first.prompt;
      x.resize(first.final.size(), first.model.mask_id);
      decode_run earlier(first.model, std::move(x), line.bf16_softmax());
      decoder.generate(earlier, args, static_cast<int>(first.prompt.size()));
    }
    decoder.generate(run, args, prompt);
  } else if (rule == "dinfer.hierarchy_fast_v2") {
    dinfer_hierarchy_fast_v2(run, args, prompt);
  } else if (rule == "dinfer.hierarchy_remask") {
    dinfer_hierarchy_remask(run, args, line.sequences.front().steps.front().block);
  } else if (rule == "sglang.low_confidence") {
    sglang_blocks<sglang_low_confidence>(runs, args, prompt);
  } else if (rule == "sglang.joint_threshold") {
    sglang_blocks<sglang_joint_threshold>(runs, args, prompt);
  } else {
    throw schema_error(line.where + ": no reference for the rule \"" + rule + "\"");
  }
  return runs;
}

/// The first difference between a replay and the line, in words; empty if they agree in tokens,
/// forwards, blocks, mask counts, guards and (dinfer.credit) fused predictions.
[[nodiscard]] inline std::string difference(const commit_line& line,
                                            const std::vector<decode_run>& runs) {
  for (std::size_t b = 0; b < line.sequences.size(); ++b) {
    const sequence& expected = line.sequences[b];
    const std::vector<step>& got = runs[b].steps();
    const std::string who = line.where + " (" + line.id + "), sequence " + std::to_string(b);
    for (std::size_t k = 0; k < std::min(got.size(), expected.steps.size()); ++k) {
      const step& g = got[k];
      const step& e = expected.steps[k];
      const bool same_fused = std::equal(g.fused.begin(),
                                         g.fused.end(),
                                         e.fused.begin(),
                                         e.fused.end(),
                                         [](const fused_prediction& a, const fused_prediction& c) {
                                           return a.position == c.position && a.value == c.value &&
                                                  std::abs(a.probability - c.probability) <= 2e-6;
                                         });
      const char* what = g.block != e.block             ? "block"
                         : g.n_masked != e.n_masked     ? "n_masked"
                         : g.logits_sum != e.logits_sum ? "logits_sum"
                         : !same_fused                  ? "fused"
                         : g.transfer != e.transfer     ? "transfer"
                         : g.commits != e.commits       ? "commits"
                                                        : nullptr;
      if (what != nullptr) {
        return who + ", step " + std::to_string(k) + ": " + what;
      }
    }
    if (got.size() != expected.steps.size() || static_cast<int>(got.size()) != line.nfe) {
      return who + ": " + std::to_string(got.size()) + " forwards instead of " +
             std::to_string(line.nfe);
    }
    if (runs[b].x() != expected.final) {
      return who + ": final tokens";
    }
  }
  return {};
}

}  // namespace unmask::goldens
