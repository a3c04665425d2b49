// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/rules.hpp"

#include <unmask/policy/released.hpp>

#include "goldens/replay.hpp"
#include "goldens/row_stats.hpp"
#include "support/golden/reference_run.hpp"

namespace unmask::goldens {

namespace {

index_t prompt_of(const commit_line& line) {
  return static_cast<index_t>(line.sequences.front().prompt.size());
}

index_t answer_of(const commit_line& line) {
  return static_cast<index_t>(line.sequences.front().final.size()) - prompt_of(line);
}

/// Blocks behind the prompt; a step is about every mask left of the block's end.
loop_shape left_of_block(const commit_line& line, index_t block_length) {
  return {.block_length = block_length, .origin = prompt_of(line)};
}

/// `steps` counts those of the whole generation; the schedules count those of a block.
index_t steps_of_block(const commit_line& line, const arguments& args) {
  const auto blocks = args.get<index_t>("gen_length") / args.get<index_t>("block_length");
  const auto steps = args.get<index_t>("steps");
  if (blocks < 1 || steps < blocks) {
    throw schema_error(line.where + ": args: steps, gen_length and block_length do not fit");
  }
  return steps / blocks;
}

verdict llada_low_confidence(const commit_line& line) {
  const arguments args(line);
  const loop_shape shape = left_of_block(line, args.get<index_t>("block_length"));
  const index_t steps = steps_of_block(line, args);
  return line.bf16_softmax()
             ? replay(line,
                      released::llada_low_confidence(steps, released::by_confidence_bf16{}),
                      shape)
             : replay(line, released::llada_low_confidence(steps), shape);
}

/// The cached variants run at least two forward passes on a block.
index_t least_forwards(const arguments& args) {
  return args.get_or<std::string>("variant", "plain") == "plain" ? 1 : 2;
}

verdict fast_dllm_threshold(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::fast_dllm_threshold(args.get<float>("threshold"), least_forwards(args)),
                left_of_block(line, args.get<index_t>("block_length")));
}

verdict fast_dllm_fixed(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::fast_dllm_fixed(steps_of_block(line, args), least_forwards(args)),
                left_of_block(line, args.get<index_t>("block_length")));
}

verdict fast_dllm_factor(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::fast_dllm_factor(args.get<float>("factor"), least_forwards(args)),
                left_of_block(line, args.get<index_t>("block_length")));
}

template <class Ranking>
verdict dream(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::dream(Ranking{}, args.get<index_t>("steps"), args.get<float>("eps")),
                left_of_block(line, answer_of(line)));
}

verdict dream_confidence_threshold(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::dream_confidence_threshold(args.get<index_t>("steps"),
                                                     args.get<float>("threshold")),
                left_of_block(line, answer_of(line)));
}

released::dinfer_blocks dinfer_loop(const arguments& args) {
  return {.unroll = args.get<index_t>("maximum_unroll"),
          .tokens_per_forward = args.get<index_t>("expected_tpf"),
          .early_stop = args.get<bool>("early_stop"),
          .aligned = args.get<bool>("start_block_align")};
}

loop_shape dinfer_shape(const commit_line& line, const arguments& args) {
  const auto length = args.get<index_t>("block_length");
  const index_t prompt = prompt_of(line);
  const bool aligned = args.get<bool>("start_block_align");
  return {.block_length = length,
          .origin = aligned ? prompt / length * length : prompt,
          .block_only = true};
}

verdict dinfer_threshold(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::dinfer_threshold(args.get<float>("threshold"), dinfer_loop(args)),
                dinfer_shape(line, args),
                line.sequences.front().model.eos_id);
}

verdict sglang_low_confidence(const commit_line& line) {
  const arguments args(line);
  const auto length = args.get<index_t>("block_length");
  const loop_shape shape{.block_length = length,
                         .origin = prompt_of(line) / length * length,
                         .block_only = true,
                         .cut_at_block = true};
  const auto threshold = args.get<float>("threshold");
  return line.bf16_softmax() ? replay(line, released::sglang_low_confidence_bf16(threshold), shape)
                             : replay(line, released::sglang_low_confidence(threshold), shape);
}

template <verdict (*Check)(const commit_line&)>
verdict commits(const node& n) {
  return Check(read_commit_line(n));
}

verdict row_stats(const node& n) {
  return check_row_stats(read_stats_line(n));
}

// One row a rule: add a function above and its name here.
constexpr rule table[] = {
    {"llada.low_confidence", commits<llada_low_confidence>},
    {"fastdllm.threshold", commits<fast_dllm_threshold>},
    {"fastdllm.fixed", commits<fast_dllm_fixed>},
    {"fastdllm.factor", commits<fast_dllm_factor>},
    {"dream.maskgit_plus", commits<dream<by_confidence>>},
    {"dream.topk_margin", commits<dream<by_margin>>},
    {"dream.entropy", commits<dream<by_entropy>>},
    {"dream.confidence_threshold", commits<dream_confidence_threshold>},
    {"dinfer.threshold", commits<dinfer_threshold>},
    {"sglang.low_confidence", commits<sglang_low_confidence>},
    {"row_stats", row_stats},
};

}  // namespace

std::span<const rule> supported_rules() {
  return table;
}

}  // namespace unmask::goldens
