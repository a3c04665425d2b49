// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace UNMASK_NAMESPACE {

/// The stage of a part. A policy has one ranking, one commit rule (an expression) and one schedule.
enum class part_stage : std::uint8_t {
  ranking,
  commit_rule,
  logits_processor,
  probe,
  filter,
  logits_transform,
  draw,
  truncation,
  token_editing,
  remask,
  branches,
  schedule,
  cache,
  layer_rule,
  stop
};

[[nodiscard]] constexpr std::string_view to_string(part_stage s) {
  constexpr std::string_view names[] = {"ranking",
                                        "commit rule",
                                        "logits processor",
                                        "probe",
                                        "filter",
                                        "logits transform",
                                        "draw",
                                        "truncation",
                                        "token editing",
                                        "remask",
                                        "branches",
                                        "schedule",
                                        "cache",
                                        "layer rule",
                                        "stop"};
  return names[static_cast<std::size_t>(s)];
}

/// The stage of a part type.
template <class P>
[[nodiscard]] constexpr part_stage stage_of() {
  return layer_rule<P>                                      ? part_stage::layer_rule
         : block_rewriting<P>                               ? part_stage::schedule
         : ranking<P>                                       ? part_stage::ranking
         : detail::basic_commit_rule<P>                     ? part_stage::commit_rule
         : probing<P>                                       ? part_stage::probe
         : scheduling<P>                                    ? part_stage::schedule
         : token_editing<P>                                 ? part_stage::token_editing
         : remasking<P>                                     ? part_stage::remask
         : branching<P> || drafting<P> || beam_searching<P> ? part_stage::branches
         : stopping<P>                                      ? part_stage::stop
         : caching<P> || evicting<P>                        ? part_stage::cache
         : logits_processor<P>                              ? part_stage::logits_processor
         : candidate_filter<P>                              ? part_stage::filter
         : drawing<P>                                       ? part_stage::draw
         : truncating<P>                                    ? part_stage::truncation
                                                            : part_stage::logits_transform;
}

}  // namespace unmask
