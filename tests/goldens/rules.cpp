// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/rules.hpp"

#include <unmask/policy/presets/released.hpp>

#include <iterator>
#include <limits>
#include <vector>

#include "goldens/by_name.hpp"
#include "goldens/dynamic_dcu.hpp"
#include "goldens/es_dllm.hpp"
#include "goldens/lopa.hpp"
#include "goldens/models.hpp"
#include "goldens/reference_run.hpp"
#include "goldens/replay.hpp"
#include "goldens/row_stats.hpp"
#include "goldens/witness.hpp"
#include "support/by_name.hpp"

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
                testing::by_name(
                    released::dream(Ranking{}, args.get<index_t>("steps"), args.get<float>("eps"))),
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

verdict dinfer_credit(const commit_line& line) {
  if (line.reused_decoder) {
    return verdict::skip("the release leaks credit into the next request, the library does not");
  }
  const arguments args(line);
  const trace_credit<> released = credit_released<>;
  const trace_credit<> credit{.strength = args.get_or("credit_alpha", released.strength),
                              .decay = args.get_or("decay_beta", released.decay),
                              .exponent = args.get_or("boost_gamma", released.exponent)};
  std::vector<sight> seen;
  return replay(
      line,
      joined(released::dinfer_credit(args.get<float>("threshold"), credit, dinfer_loop(args)),
             witness{&seen}),
      dinfer_shape(line, args),
      line.sequences.front().model.eos_id,
      [&seen](const step& recorded, std::size_t) { return fused_difference(recorded, seen); });
}

verdict dinfer_hierarchy(const commit_line& line) {
  const arguments args(line);
  return replay(line,
                released::dinfer_hierarchy(args.get<float>("low_threshold"),
                                           args.get_or("threshold", 1.0F),
                                           dinfer_loop(args)),
                dinfer_shape(line, args),
                line.sequences.front().model.eos_id);
}

verdict dinfer_hierarchy_fast_v2(const commit_line& line) {
  const arguments args(line);
  loop_shape shape = left_of_block(line, args.get<index_t>("block_length"));
  shape.block_only = true;
  return replay(line,
                released::dinfer_hierarchy_fast_v2(args.get<float>("low_threshold"),
                                                   args.get_or("threshold", 1.0F)),
                shape);
}

/// One recorded call on a block that is committed in part. The session is first led there, a token
/// a step: one row is certain and all others are NaN, so that nothing else can commit or be
/// remasked.
verdict dinfer_hierarchy_remask(const commit_line& line) {
  const arguments args(line);
  const sequence& recorded = line.sequences.front();
  const unmask::range block{recorded.steps.front().block.start, recorded.steps.front().block.end};
  trace one_call(line,
                 0,
                 {.block_length = block.size(),
                  .origin = block.first,
                  .block_only = true,
                  .reads_committed = true,
                  .sums_block = true});
  const tokens before = one_call.x();
  const auto length = static_cast<index_t>(before.size());
  const auto columns = static_cast<std::size_t>(recorded.model.V);

  session decode(released::dinfer_hierarchy_remask(args.get_or("low_threshold", 0.0F),
                                                   args.get_or("threshold", 1.0F),
                                                   args.get<float>("remask_threshold")),
                 {.vocab = recorded.model.V,
                  .mask_token = recorded.model.mask_id,
                  .logits_shift = recorded.model.logits_shift,
                  .suppress_mask = false},
                 one_call.x(),
                 {.prompt_length = block.first, .length = length, .block_length = block.size()});
  std::vector<float> logits;
  const auto wanted = [&] {
    const auto request = decode.next();
    logits.assign(static_cast<std::size_t>(request->rows) * columns,
                  std::numeric_limits<float>::quiet_NaN());
    return request->segments.front();
  };
  const auto row_of = [&](const segment& s, index_t row) {
    return std::span(logits).subspan(
        static_cast<std::size_t>(s.first_row + row - s.rows.first) * columns, columns);
  };
  const auto supply = [&] {
    const auto rows = static_cast<index_t>(logits.size() / columns);
    decode.supply(host_logits<float>{logits.data(), rows, recorded.model.V});
  };
  for (index_t p = block.first; p < block.last; ++p) {
    const token_id token = before[static_cast<std::size_t>(p)];
    if (token != recorded.model.mask_id) {
      const std::span<float> row = row_of(wanted(), recorded.model.row_of(p));
      std::fill(row.begin(), row.end(), 0.0F);
      row[static_cast<std::size_t>(token)] = 40.0F;
      supply();
    }
  }
  if (one_call.x() != before) {
    return verdict::fail("the session could not be led to x_before");
  }
  const segment s = wanted();
  if (const std::string what = one_call.begin(decode.planned(), s); !what.empty()) {
    return verdict::fail(what);
  }
  for (const index_t row : one_call.rows()) {
    one_call.write_row(row, row_of(s, row));
  }
  supply();
  const std::string what = one_call.finish(decode.committed(), decode.report().end);
  return what.empty() ? verdict::pass() : verdict{one_call.tied(), what};
}

loop_shape sglang_shape(const commit_line& line, const arguments& args) {
  const auto length = args.get<index_t>("block_length");
  return {.block_length = length,
          .origin = prompt_of(line) / length * length,
          .block_only = true,
          .cut_at_block = true};
}

verdict sglang_joint_threshold(const commit_line& line) {
  const arguments args(line);
  if (args.get<float>("penalty_lambda") != 0.0F) {
    return verdict::skip("the library has no penalty on repeating the left neighbour");
  }
  loop_shape shape = sglang_shape(line, args);
  shape.reads_committed = true;
  return replay(line,
                released::sglang_joint_threshold(args.get<float>("threshold"),
                                                 args.get<float>("edit_threshold"),
                                                 args.get<index_t>("max_post_edit_steps")),
                shape);
}

verdict sglang_low_confidence(const commit_line& line) {
  const arguments args(line);
  const loop_shape shape = sglang_shape(line, args);
  const auto threshold = args.get<float>("threshold");
  return line.bf16_softmax() ? replay(line, released::sglang_low_confidence_bf16(threshold), shape)
                             : replay(line, released::sglang_low_confidence(threshold), shape);
}

/// `Part` is the part of `preset` that holds the thresholds.
template <class Part, class Policy>
verdict falling(const commit_line& line, const Policy& preset) {
  loop_shape shape = left_of_block(line, arguments(line).get<index_t>("block_length"));
  shape.reads_tail = true;
  std::vector<sight> seen;
  const auto tracked = [&seen](const auto& part) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(part)>, Part>) {
      return threshold_witness<Part>{part, &seen};
    } else {
      return part;
    }
  };
  return replay(
      line, changed(preset, tracked), shape, no_token, [&](const step& recorded, std::size_t k) {
        return threshold_difference(recorded, k, seen);
      });
}

verdict dynamic_apd(const commit_line& line) {
  const arguments args(line);
  const auto start = args.get<float>("pd_threshold");
  const auto lower = args.get<float>("alpha");
  const auto raise = args.get<float>("beta");
  switch (args.get<int>("pd_mode")) {
  case 0:
    return replay(line,
                  released::dynamic_dllm_fixed(start),
                  left_of_block(line, args.get<index_t>("block_length")),
                  no_token,
                  [start](const step& recorded, std::size_t) {
                    return recorded.threshold && static_cast<float>(*recorded.threshold) == start
                               ? std::string()
                               : std::string("threshold is not the argument");
                  });
  case 1:
    return falling<released::falling_threshold>(
        line, released::dynamic_dllm_scalar({start, lower, raise}));
  case 2:
    return falling<adaptive_threshold>(line,
                                       released::dynamic_dllm_per_token({start, lower, raise}));
  default:
    throw schema_error(line.where + ": args: pd_mode: expected 0, 1 or 2");
  }
}

template <verdict (*Check)(const commit_line&)>
verdict commits(const node& n) {
  return Check(read_commit_line(n));
}

verdict lopa(const node& n) {
  return check_lopa(read_lopa_line(n));
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
    {"dinfer.credit", commits<dinfer_credit>},
    {"dinfer.hierarchy", commits<dinfer_hierarchy>},
    {"dinfer.hierarchy_fast_v2", commits<dinfer_hierarchy_fast_v2>},
    {"dinfer.hierarchy_remask", commits<dinfer_hierarchy_remask>},
    {"sglang.low_confidence", commits<sglang_low_confidence>},
    {"sglang.joint_threshold", commits<sglang_joint_threshold>},
    {"lopa.enhanced_speculative", lopa},
    {"d2f.single_branch", lopa},
    {"dynamic.apd", commits<dynamic_apd>},
    {"dynamic.dcu", check_dynamic_dcu},
    {"es.select", check_es_select},
    {"es.loop", check_es_loop},
    {"es.sample_tokens", check_es_sample_tokens},
    {"row_stats", row_stats},
};

}  // namespace

std::span<const rule> supported_rules() {
  static const std::vector<rule> all = [] {
    std::vector<rule> rules(std::begin(table), std::end(table));
    const std::span<const rule> named = rules_by_name();
    rules.insert(rules.end(), named.begin(), named.end());
    const std::span<const rule> of_models = rules_of_models();
    rules.insert(rules.end(), of_models.begin(), of_models.end());
    return rules;
  }();
  return all;
}

}  // namespace unmask::goldens
