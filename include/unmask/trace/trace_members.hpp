// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/trace/trace_head.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

/// The members of the objects of a trace, each named once: trace_lines writes them,
/// trace_text_reader reads them.
///
/// The members of an object are a function that calls member(name, value, is_written) for each, in
/// the order of a line; `is_written` may be left out. A value is a number, a string, a range, a
/// list of values, a column, or the members of another object.
namespace UNMASK_NAMESPACE::detail {

/// A list of one member of each entry, in which null is read as `missing`.
template <class List, class Entry, class Value>
struct trace_column {
  trace_column(List& all, Value Entry::* of, float null = std::numeric_limits<float>::quiet_NaN())
      : entries(all)
      , member(of)
      , missing(null) {}

  List& entries;
  Value Entry::* member;
  float missing;
};

/// Members of the model, and of the policy of sequences without a policy.
auto head_members(auto& head) {
  return [&head](const auto& member) {
    member("model", [&](const auto& of_model) {
      of_model("name", head.model);
      of_model("vocab", head.info.vocab);
      of_model("mask", head.info.mask_token);
      of_model("eos", head.info.eos_token, head.info.eos_token != no_token);
      of_model("layers", head.info.layers);
    });
    member("policy", head.policy);
    member("parts", head.parts);
  };
}

/// Members of a sequence, whose own policy is written if `has_policy`.
auto start_members(auto& start, auto& policy, auto& parts, bool has_policy) {
  return [&start, &policy, &parts, has_policy](const auto& member) {
    member("slot", start.slot);
    member("sequence", start.shape.sequence);
    member("seed", start.shape.seed);
    member("shape", [&](const auto& of_shape) {
      of_shape("prompt_length", start.shape.prompt_length);
      of_shape("length", start.shape.length);
      of_shape("block_length", start.shape.block_length);
    });
    member("tokens", start.tokens);
    member("fixed", start.fixed);
    member("committed", start.committed, !start.committed.empty());
    member("filled", start.filled, !start.filled.empty());
    member("policy", policy, has_policy);
    member("parts", parts, has_policy);
    const bool grows = start.begin_length > 0 && start.begin_length < start.shape.length;
    member("begin_length", start.begin_length, grows);
  };
}

auto branch_members(auto& branch) {
  return [&branch](const auto& member) {
    member("position", branch.position);
    member("token", branch.token);
    member("score", branch.lookahead_score);
  };
}

/// Members of a trace_step.
auto step_members(auto& step) {
  return [&step](const auto& member) {
    using entry = candidate_entry;
    using soft_entry = token_probability;
    auto& all = step.candidates;
    const auto is_known = [&all](float entry::* value) {
      return std::any_of(
          all.begin(), all.end(), [&](const entry& e) { return !std::isnan(e.*value); });
    };
    member("slot", step.slot);
    member("step", step.step);
    member("forward", step.forward);
    member("segment", step.segment);
    member("score", step.score);
    member("compute", step.compute);
    member("keys", step.keys);
    member("position", trace_column(all, &entry::position));
    member("token", trace_column(all, &entry::token));
    member("log_probability", trace_column(all, &entry::log_probability, -math::infinity()));
    member("confidence", trace_column(all, &entry::confidence));
    member("margin", trace_column(all, &entry::margin), is_known(&entry::margin));
    member("entropy", trace_column(all, &entry::entropy), is_known(&entry::entropy));
    member("outcome", trace_column(all, &entry::outcome));
    member("by", trace_column(all, &entry::part));
    member("rank", trace_column(all, &entry::rank));
    member("layers", step.layers, !step.layers.empty());
    member("branches", step.branches, !step.branches.empty());
    member("winner", step.winner, step.winner >= 0);
    const auto of_after = [&](const auto& after) {
      after("first", step.first_moved);
      after("tokens", step.after);
    };
    member("after", of_after, step.first_moved >= 0);
    const auto of_soft = [&](const auto& soft) {
      soft("position", trace_column(step.soft, &soft_entry::position));
      soft("token", trace_column(step.soft, &soft_entry::token));
      soft("probability", trace_column(step.soft, &soft_entry::probability));
      soft("share", trace_column(step.soft, &soft_entry::share));
    };
    member("soft", of_soft, !step.soft.empty());
    member("milliseconds", step.milliseconds, step.milliseconds >= 0);
  };
}

/// Members of the end of a sequence, except its slot.
auto end_members(auto& report, auto& tokens) {
  return [&report, &tokens](const auto& member) {
    member("end", report.end);
    member("forwards", report.forwards);
    member("committed", report.committed);
    member("tokens", tokens);
  };
}

}  // namespace UNMASK_NAMESPACE::detail
