// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Reference rules of dInfer.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "goldens/reference_run.hpp"

namespace unmask::goldens {

/// dInfer's block loop. `decode(block)` decides and writes what one forward commits. Whether the
/// block still has masks is looked at once per unrolled group, so the last forwards of a group may
/// run on a full block.
template <class Decode>
void dinfer_blocks(decode_run& run, const arguments& args, int prompt_length, Decode decode) {
  const int length = args.get<int>("block_length");
  const int total = prompt_length + args.get<int>("gen_length");
  const int unroll = args.get<int>("maximum_unroll");
  const int tokens_per_forward = args.get<int>("expected_tpf");
  const bool align = args.get<bool>("start_block_align");
  const int first = align ? prompt_length / length * length : prompt_length;
  for (int start = first; start < total; start += length) {
    const range block{start, std::min(start + length, total)};
    int forwards = 0;
    while (!run.masked(block).empty()) {
      const int masks = static_cast<int>(run.masked(block).size());
      const int group = std::max(std::min(masks / tokens_per_forward, unroll), 1);
      for (int g = 0; g < group; ++g) {
        if (++forwards > stall_limit) {
          throw stalled("dinfer: only mask tokens are predicted");
        }
        run.begin_forward(block, run.masked(block));
        decode(block);
        run.end_forward();
      }
    }
    bool has_eos = false;
    for (int p = block.start; p < block.end; ++p) {
      has_eos = has_eos || run.at(p) == run.model().eos_id;
    }
    if (has_eos) {
      if (args.get<bool>("early_stop")) {
        for (int p = block.end; p < total; ++p) {
          run.write(p, run.model().eos_id);
        }
        if (!run.steps().empty()) {
          run.end_forward();  // the fill belongs to the last forward
        }
      }
      return;
    }
  }
}

/// dInfer's threshold on given predictions: rows that predict the mask token are out; the rest
/// commits from min(threshold, best - 1e-5) on, so below the threshold everything within 1e-5 of
/// the best commits.
inline void dinfer_commit_above(decode_run& run, candidate_rows k, double threshold) {
  double best = -std::numeric_limits<double>::infinity();
  for (const prediction& row : k.rows) {
    if (row.argmax != run.model().mask_id) {
      best = std::max(best, row.p);
    }
  }
  const double cut = std::min(threshold, best - 1e-5);
  for (std::size_t c = 0; c < k.rows.size(); ++c) {
    if (k.rows[c].argmax != run.model().mask_id && k.rows[c].p >= cut) {
      run.write(k.positions[c], k.rows[c].argmax);
    }
  }
}

inline void dinfer_threshold(decode_run& run, const arguments& args, int prompt_length) {
  const auto threshold = args.get<double>("threshold");
  dinfer_blocks(run, args, prompt_length, [&](range block) {
    dinfer_commit_above(run, {run, run.masked(block)}, threshold);
  });
}

/// The credit of a decoder object, dense: per block V values per position, and how often the block
/// was decoded. It outlives a generation whose last decoded block left masks anywhere.
class dinfer_credit_state {
 public:
  struct block_credit {
    std::vector<std::vector<double>> credit;
    int iterations = 0;
  };

  [[nodiscard]] const std::map<std::pair<int, int>, block_credit>& blocks() const noexcept {
    return blocks_;
  }

  void generate(decode_run& run, const arguments& args, int prompt_length) {
    const auto threshold = args.get<double>("threshold");
    const auto alpha = args.get_or<double>("credit_alpha", 0.7);
    const auto gamma = args.get_or<double>("boost_gamma", 0.2);
    const auto beta = args.get_or<double>("decay_beta", 0.8);
    dinfer_blocks(run, args, prompt_length, [&](range block) {
      block_credit& state = blocks_[{block.start, block.end}];
      state.credit.resize(static_cast<std::size_t>(block.end - block.start));
      candidate_rows k(run, run.masked(block));
      if (state.iterations > 0) {
        for (auto& row : state.credit) {
          std::transform(
              row.begin(), row.end(), row.begin(), [beta](double c) { return beta * c; });
        }
      }
      ++state.iterations;
      for (std::size_t c = 0; c < k.positions.size(); ++c) {
        auto& credit = state.credit[static_cast<std::size_t>(k.positions[c] - block.start)];
        credit.resize(static_cast<std::size_t>(run.model().V));
        // The raw prediction is credited before the fusion that it takes part in.
        credit[static_cast<std::size_t>(k.rows[c].argmax)] += std::pow(k.rows[c].p, gamma);
        const std::vector<float> logits = run.logits(k.positions[c]);
        std::vector<double> fused(logits.begin(), logits.end());
        for (std::size_t v = 0; v < fused.size(); ++v) {
          fused[v] += alpha * std::log(1 + credit[v]);
        }
        k.rows[c] = predict(std::span<const double>(fused));
        run.last_step().fused.push_back({k.positions[c], k.rows[c].argmax, k.rows[c].p});
      }
      dinfer_commit_above(run, std::move(k), threshold);
      if (run.masked(0, run.size()).empty()) {
        blocks_.clear();
      }
    });
  }

 private:
  std::map<std::pair<int, int>, block_credit> blocks_;
};

namespace detail {

/// The candidates split into runs of consecutive positions: for each, [first, last) indices.
inline std::vector<std::pair<std::size_t, std::size_t>>
consecutive_runs(const std::vector<int>& positions) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t c = 0; c < positions.size(); ++c) {
    if (c == 0 || positions[c] != positions[c - 1] + 1) {
      runs.emplace_back(c, c);
    }
    runs.back().second = c + 1;
  }
  return runs;
}

/// The one of [first, last) that comes first in `order`.
inline std::size_t best_of(const std::vector<std::size_t>& order,
                           std::pair<std::size_t, std::size_t> run) {
  return *std::find_if(
      order.begin(), order.end(), [&](std::size_t i) { return i >= run.first && i < run.second; });
}

}  // namespace detail

/// dInfer's HierarchyDecoder: the best of every run of masks (all of them, among equals) if above
/// the low threshold; everything above the threshold; and the best of all. A predicted mask token
/// counts like any other and leaves its position masked.
inline void dinfer_hierarchy(decode_run& run, const arguments& args, int prompt_length) {
  const auto low = args.optional<double>("low_threshold");
  const auto threshold = args.optional<double>("threshold");
  dinfer_blocks(run, args, prompt_length, [&](range block) {
    const candidate_rows k(run, run.masked(block));
    if (k.positions.empty()) {
      return;
    }
    const std::vector<double> c = k.confidences();
    const auto order = run.ranked(k.positions, c);
    std::vector<bool> chosen(c.size());
    for (const auto& span : detail::consecutive_runs(k.positions)) {
      const double best = c[detail::best_of(order, span)];
      for (std::size_t i = span.first; i < span.second; ++i) {
        chosen[i] = c[i] == best && (!low || c[i] > *low);
      }
    }
    chosen[order.front()] = true;
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (chosen[i] || (threshold && c[i] > *threshold)) {
        run.write(k.positions[i], k.rows[i].argmax);
      }
    }
  });
}

/// The older function form: the best of every run, only one among equals; if nothing reaches the
/// low threshold only the best of all. The threshold commits in both cases.
inline void dinfer_hierarchy_fast_v2(decode_run& run, const arguments& args, int prompt_length) {
  const int length = args.get<int>("block_length");
  const int total = prompt_length + args.get<int>("gen_length");
  const auto low = args.optional<double>("low_threshold");
  const auto threshold = args.optional<double>("threshold");
  for (int start = prompt_length; start < total; start += length) {
    const range block{start, start + length};
    for (int forwards = 0; forwards == 0 || !run.masked(block).empty(); ++forwards) {
      if (forwards == stall_limit) {
        throw stalled("dinfer.hierarchy_fast_v2: nothing is committed any more");
      }
      run.begin_forward(block, run.masked(block));
      const candidate_rows k(run, run.masked(block));
      const std::vector<double> c = k.confidences();
      const auto order = run.ranked(k.positions, c);
      std::vector<bool> chosen(c.size());
      if (low && !c.empty() && c[order.front()] < *low) {
        chosen[order.front()] = true;
      } else {
        for (const auto& span : detail::consecutive_runs(k.positions)) {
          const std::size_t i = detail::best_of(order, span);
          chosen[i] = !low || c[i] > *low;
        }
      }
      for (std::size_t i = 0; i < c.size(); ++i) {
        if (chosen[i] || (threshold && c[i] > *threshold)) {
          run.write(k.positions[i], k.rows[i].argmax);
        }
      }
      run.end_forward();
    }
  }
}

/// One call of the remasking form over a block. Committed positions whose *prediction* (not their
/// token) is below the remask threshold join the candidates; those not chosen again become masks.
/// At least (joined + 1) positions are chosen.
inline void dinfer_hierarchy_remask(decode_run& run, const arguments& args, range block) {
  const auto low = args.optional<double>("low_threshold");
  const auto threshold = args.optional<double>("threshold");
  const auto remask = args.get<double>("remask_threshold");
  std::vector<int> all;
  for (int p = block.start; p < block.end; ++p) {
    all.push_back(p);
  }
  run.begin_forward(block, all);
  const candidate_rows every(run, all);
  std::vector<int> joined;
  std::vector<int> candidates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool weak = every.rows[i].p < remask;
    if (weak && !run.is_masked(all[i])) {
      joined.push_back(all[i]);
    }
    if (weak || run.is_masked(all[i])) {
      candidates.push_back(all[i]);
    }
  }
  const candidate_rows k(run, candidates);
  const std::vector<double> c = k.confidences();
  const auto order = run.ranked(candidates, c);
  std::vector<bool> chosen(c.size());
  for (const auto& span : detail::consecutive_runs(candidates)) {
    const std::size_t i = detail::best_of(order, span);
    chosen[i] = !low || c[i] > *low;
  }
  for (std::size_t i = 0; i < c.size(); ++i) {
    chosen[i] = chosen[i] || (threshold && c[i] > *threshold);
  }
  auto count = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true));
  for (const std::size_t i : order) {
    if (count < joined.size() + 1 && !chosen[i]) {
      chosen[i] = true;
      ++count;
    }
  }
  std::vector<int>& transfer = run.last_step().transfer;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool back = std::find(joined.begin(), joined.end(), candidates[i]) != joined.end();
    if (chosen[i] || back) {
      run.write(candidates[i], chosen[i] ? k.rows[i].argmax : run.model().mask_id);
      transfer.push_back(candidates[i]);
    }
  }
  run.end_forward();
}

}  // namespace unmask::goldens
