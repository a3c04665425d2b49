// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/any_cache.hpp>
#include <unmask/named/any_commit_rule.hpp>
#include <unmask/named/any_layer_rule.hpp>
#include <unmask/named/any_logits_processor.hpp>
#include <unmask/named/any_ranking.hpp>
#include <unmask/named/any_schedule.hpp>
#include <unmask/named/policy_text.hpp>
#include <unmask/policy/canvas.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/policy/lookahead.hpp>

namespace UNMASK_NAMESPACE {

/// top_k, top_p, min_p and confidence_after_truncation together, as a value.
struct any_keep {
  truncation rules = {};
  static constexpr statistics required = stat::kept;
  [[nodiscard]] UNMASK_HD truncation kept() const { return rules; }
};
static_assert(truncating<any_keep>);

/// Abilities that select the type of a composition: those that cost time or memory even when
/// unused, or that change the data a step reads.
struct abilities {
  bool transforms = false;    ///< transforms logits in the read: temperature
  bool tracks = false;        ///< edits or probes tracked tokens
  bool remembers = false;     ///< has credit
  bool compares = false;      ///< compares rows with those of the previous step
  bool branches = false;      ///< has lookahead
  bool draws = false;         ///< draws tokens at random
  bool keeps = false;         ///< truncates: keeps the most probable tokens
  bool edits_tokens = false;  ///< rewrites committed tokens
  bool remasks = false;       ///< makes committed positions candidates again
  bool renoises = false;      ///< has a canvas
  bool layered = false;       ///< has a layer rule, or a cache that computes single positions
};

/// Parts of a composition that is known at run time only, ready to become a policy. A part that the
/// composition does not have changes nothing: it is empty, or has the values below.
struct named_parts {
  abilities has = {};
  any_ranking ranking = {};
  commit_rule_expression commit_rule = {};
  logits_processor_list logits_processors = {};
  any_filters filter = {};
  any_stops stops = {};
  any_schedule schedule = {};
  any_cache cache = {};
  any_layer_rule layers = {};
  temperature transform = {};
  sampling draw = {.temperature = 0.0F};
  any_keep keep = {};
  any_edits_tokens edits_tokens = {};
  placed<remask_below> remask = {{.confidence = 0.0F}};
  placed<lookahead_by<any_lookahead_score>> look = {{.branches = 0}};
  unmask::canvas canvas = {};
  /// True if the policy needs an engine with hooks in its layers: a layer rule, or a cache that
  /// computes single positions. A session accepts it for a model with `layers`.
  [[nodiscard]] bool layered() const { return has.layered; }
  /// Number of parts, those inside any_of and all_of counted one by one.
  index_t count = 0;
  /// Name of a part that depends on more than one step; empty if there is none.
  std::string_view beyond_a_step = {};
};

/// A complete method with one name: an abbreviation of a text. Its arguments are those of the first
/// part of that text, the commit rule.
struct known_method {
  std::string_view name;   ///< as in unmask::methods
  std::string_view about;  ///< description in one line
  std::string_view text;
  /// Throws std::invalid_argument for a composition that is not the method; may be null.
  void (*check)(const named_parts& parts) = nullptr;
};

}  // namespace unmask
