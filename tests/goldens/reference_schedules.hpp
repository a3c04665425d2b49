// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Reference rules of LLaDA, Fast-dLLM and Dream.

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "goldens/reference_run.hpp"

namespace unmask::goldens {

namespace detail {

inline void write_ranks(decode_run& run,
                        const candidate_rows& k,
                        const std::vector<std::size_t>& order,
                        std::size_t count) {
  for (std::size_t r = 0; r < std::min(count, order.size()); ++r) {
    run.write(k.positions[order[r]], k.rows[order[r]].argmax);
  }
}

}  // namespace detail

/// LLaDA: a fixed number of tokens per step, a fixed number of steps per block. Candidates are all
/// masks left of the block's end, so masks that an earlier block kept compete again.
inline void llada_low_confidence(decode_run& run, const arguments& args, int prompt_length) {
  const int length = args.get<int>("block_length");
  const int blocks = args.get<int>("gen_length") / length;
  const int steps = args.get<int>("steps") / blocks;
  for (int b = 0; b < blocks; ++b) {
    const range block{prompt_length + b * length, prompt_length + (b + 1) * length};
    const int masks = static_cast<int>(run.masked(block).size());
    for (int s = 0; s < steps; ++s) {
      const int quota = masks / steps + (s < masks % steps ? 1 : 0);
      const std::vector<int> considered = run.masked(0, block.end);
      run.begin_forward(block, considered);
      const candidate_rows k(run, considered);
      const auto order = run.ranked(k.positions, k.confidences());
      detail::write_ranks(run, k, order, static_cast<std::size_t>(quota));
      run.end_forward();
    }
  }
}

namespace detail {

/// How many of the ranked confidences Fast-dLLM commits in this step.
inline std::size_t fastdllm_count(const std::vector<double>& sorted,
                                  const std::string& rule,
                                  const arguments& args,
                                  int quota) {
  const std::size_t n = sorted.size();
  if (rule == "fastdllm.fixed") {
    return static_cast<std::size_t>(quota);
  }
  if (rule == "fastdllm.threshold") {
    const auto threshold = args.get<double>("threshold");
    std::size_t count = std::min<std::size_t>(n, 1);
    while (count < n && !(sorted[count] < threshold)) {
      ++count;
    }
    return count;
  }
  // fastdllm.factor: rank r (from 1) fails below 1 - f / (r + 1); rank 1 always passes. A first
  // failure at the last rank commits that rank too: the released loop cannot distinguish it from
  // none.
  const auto factor = args.get<double>("factor");
  std::size_t passed = std::min<std::size_t>(n, 1);
  while (passed < n && !(sorted[passed] < 1 - factor / static_cast<double>(passed + 2))) {
    ++passed;
  }
  return n > 0 && passed == n - 1 ? n : passed;
}

}  // namespace detail

/// Fast-dLLM: forwards until the block has no mask. The cached variants always run a second
/// forward on a block, also when the first one has filled it.
inline void fastdllm(decode_run& run, const commit_line& line, int prompt_length) {
  const arguments args(line);
  const int length = args.get<int>("block_length");
  const int blocks = args.get<int>("gen_length") / length;
  const int steps = args.get_or<int>("steps", blocks) / blocks;
  const int minimum = args.get_or<std::string>("variant", "plain") == "plain" ? 1 : 2;
  for (int b = 0; b < blocks; ++b) {
    const range block{prompt_length + b * length, prompt_length + (b + 1) * length};
    const int masks = static_cast<int>(run.masked(block).size());
    for (int s = 0; s < minimum || !run.masked(block).empty(); ++s) {
      if (s == stall_limit) {
        throw stalled(line.where);
      }
      // LLaDA's schedule for `fixed`; nothing more to give once it is used up.
      const int quota = s < steps ? masks / steps + (s < masks % steps ? 1 : 0) : 0;
      const std::vector<int> considered = run.masked(0, block.end);
      run.begin_forward(block, considered);
      const candidate_rows k(run, considered);
      const auto order = run.ranked(k.positions, k.confidences());
      std::vector<double> sorted;
      for (const std::size_t r : order) {
        sorted.push_back(k.rows[r].p);
      }
      detail::write_ranks(run, k, order, detail::fastdllm_count(sorted, line.rule, args, quota));
      run.end_forward();
    }
  }
}

namespace detail {

/// torch.linspace(1, eps, steps + 1) in float32: from the start in the first half, from the end in
/// the second.
inline std::vector<float> timesteps(int steps, float eps) {
  const int points = steps + 1;
  const float width = (eps - 1.0F) / static_cast<float>(points - 1);
  std::vector<float> t(static_cast<std::size_t>(points));
  for (int j = 0; j < points; ++j) {
    t[static_cast<std::size_t>(j)] = j < points / 2
                                         ? 1.0F + width * static_cast<float>(j)
                                         : eps - width * static_cast<float>(points - 1 - j);
  }
  return t;
}

}  // namespace detail

/// Dream without blocks: maskgit_plus, topk_margin and entropy. The candidates are all masks of
/// the sequence; the schedule truncates, so early steps may commit nothing.
inline void dream_schedule(decode_run& run, const commit_line& line, int prompt_length) {
  const arguments args(line);
  const auto alg = args.get<std::string>("alg");
  const int steps = args.get<int>("steps");
  const auto t = detail::timesteps(steps, args.get<float>("eps"));
  const range block{prompt_length, run.size()};
  for (int s = 0; s < steps; ++s) {
    const std::vector<int> considered = run.masked(0, run.size());
    const auto j = static_cast<std::size_t>(s);
    const auto masks = static_cast<float>(considered.size());
    // All three operations are float32, each rounded on its own.
    const float ratio = t[j + 1] / t[j];
    const float transfer = s < steps - 1 ? masks * (1.0F - ratio) : masks;
    run.begin_forward(block, considered);
    const candidate_rows k(run, considered);
    std::vector<double> scores;
    for (const prediction& row : k.rows) {
      scores.push_back(alg == "topk_margin" ? row.p - row.p_second
                       : alg == "entropy"   ? row.neg_entropy_eps
                                            : row.p);
    }
    detail::write_ranks(
        run, k, run.ranked(k.positions, scores), static_cast<std::size_t>(transfer));
    run.end_forward();
  }
}

/// Fast-dLLM's single pass over Dream: a quota per step, of which ranks below the threshold (but
/// never rank 1) are put off; what is put off is added to the next step's quota. Past the planned
/// steps only put-off tokens remain, and each one put off again adds a step.
inline void dream_confidence_threshold(decode_run& run, const arguments& args, int prompt_length) {
  const auto threshold = args.get<double>("threshold");
  const range block{prompt_length, run.size()};
  int steps = args.get<int>("steps");
  int per_step = static_cast<int>(run.masked(0, run.size()).size()) / steps;
  int put_off = 0;
  for (int s = 0; s < steps; ++s) {
    const std::vector<int> considered = run.masked(0, run.size());
    run.begin_forward(block, considered);
    const candidate_rows k(run, considered);
    const auto order = run.ranked(k.positions, k.confidences());
    const int quota = per_step + put_off;
    put_off = 0;
    for (std::size_t r = 0; r < std::min(static_cast<std::size_t>(quota), order.size()); ++r) {
      if (r > 0 && k.rows[order[r]].p < threshold) {
        ++put_off;
        // Once a rejection has added a step, s is no longer the last one and the next does not.
        if (s >= steps - 1) {
          per_step = 0;
          ++steps;
        }
        continue;
      }
      run.write(k.positions[order[r]], k.rows[order[r]].argmax);
    }
    run.end_forward();
  }
}

}  // namespace unmask::goldens
