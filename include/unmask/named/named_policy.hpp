// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/walk.hpp>
#include <unmask/named/commit_rule_expression.hpp>
#include <unmask/named/families.hpp>
#include <unmask/named/policy_text_error.hpp>
#include <unmask/policy/beam.hpp>
#include <unmask/policy/drafts.hpp>
#include <unmask/policy/lookahead.hpp>

#include <array>
#include <limits>
#include <stdexcept>

namespace UNMASK_NAMESPACE {

/// The parts of a policy by name: families, and parts of one type.
struct named_parts {
  ranking_family ranking = ranking_family(by_confidence{});
  commit_rule_expression commit_rule = {};
  placed<unmask::temperature> temperature = {};
  logits_processor_family logits_processors = {};
  filter_family filter = {};
  stop_family stops = {};
  cache_family cache = {};
  eviction_family eviction = {};
  layer_rule_family layer_rule = {};
  feature layer_reads = {};  ///< the tensor that the layer rule reads
  schedule_family schedule = schedule_family(semi_autoregressive{});
  draw_family draw = {};
  any_truncation truncation = {};
  token_edit_family token_edits = {};
  placed<remask_below> remask = {{.confidence = 0.0F}};
  placed<lookahead_by<any_lookahead_score>> lookahead = {{.branches = 0}};
  placed<unmask::drafts> drafted = {{.branches = 0}};
  placed<unmask::beam> searched = {{.width = 1}};
};

namespace detail {

template <class Member>
struct member_type;
template <class Class, class Type>
struct member_type<Type Class::*> {
  using type = Type;
};

// Members of a class in order.
template <auto... Member>
struct member_list {
  using types = type_list<typename member_type<decltype(Member)>::type...>;
  template <std::size_t I>
  static constexpr auto at =
      element_at<I, type_list<std::integral_constant<decltype(Member), Member>...>>::type::value;
};
using parts_by_name = member_list<&named_parts::ranking,
                                  &named_parts::commit_rule,
                                  &named_parts::temperature,
                                  &named_parts::logits_processors,
                                  &named_parts::filter,
                                  &named_parts::stops,
                                  &named_parts::cache,
                                  &named_parts::eviction,
                                  &named_parts::layer_rule,
                                  &named_parts::schedule,
                                  &named_parts::draw,
                                  &named_parts::truncation,
                                  &named_parts::token_edits,
                                  &named_parts::remask,
                                  &named_parts::lookahead,
                                  &named_parts::drafted,
                                  &named_parts::searched>;

}  // namespace detail

/// A policy whose parts are chosen at run time, by a text. One type for all of them, trivially
/// copyable, so that sequences of one session may have different ones, on the host and on a device.
///
/// A stage whose part the text does not name is idle: it costs a test (step/active.hpp). Rows are
/// read by the kernel of the statistics that the policy needs.
///
/// State: the state of the parts that the text names; on the host a slot has no more than its
/// sequences needed so far.
struct named_policy : named_parts, detail::constants_of<detail::parts_by_name::types> {
  using named_parts::stops;
  static constexpr bool varies = true;
  /// Plain rows with a draw; those that hold columns for a truncation; those that are compared.
  using row_kinds = statistics_list<named_statistics | stat::sampled,
                                    named_statistics | stat::sampled | stat::kept,
                                    required>;
  /// These kinds on a device, and plain rows without a draw, with all statistics or only the
  /// confidence, which it reads faster.
  using device_reads = row_reads<row_read{named_statistics | stat::sampled},
                                 row_read{named_statistics | stat::sampled | stat::kept},
                                 row_read{required},
                                 row_read{named_statistics},
                                 row_read{stat::confidence},
                                 row_read{stat::confidence, false}>;

  /// Number of parts, those inside any_of and all_of counted one by one.
  index_t count = 0;
  /// Name of a part that depends on more than one step; empty if there is none.
  std::string_view beyond_a_step = {};

  /// Index of a part after all that are written: another one that stops in the same step decides.
  static constexpr index_t last_written = std::numeric_limits<index_t>::max();

  /// Part I of part_list.
  template <std::size_t I>
  [[nodiscard]] UNMASK_HD const part_type<I>& part_at() const {
    return this->*detail::parts_by_name::at<I>;
  }
  /// Index in row_kinds of the statistics that the parts read.
  [[nodiscard]] UNMASK_HD index_t row_kind() const {
    return commit_rule.any_does<&part_traits::compares>() ? 2 : truncation.truncates_now() ? 1 : 0;
  }
  /// The statistics that the parts read, without the statistics of a draw.
  [[nodiscard]] statistics required_now() const {
    return required_by(std::make_index_sequence<part_total>{});
  }
  /// Index in device_reads. `traced`: candidates are reported, with all their statistics.
  [[nodiscard]] index_t device_read(bool traced) const {
    if (row_kind() != 0 || detail::draw_temperature(*this) > 0.0F) {
      return row_kind();
    }
    return traced || !(stat::confidence | stat::sampled).contains(required_now()) ? 3
           : temperature.transforms_now()                                         ? 4
                                                                                  : 5;
  }

  /// Returns the policy for a model: a canvas draws from its vocabulary.
  [[nodiscard]] named_policy of_model(const model_info& model) const {
    named_policy p = *this;
    if (has_canvas()) {
      canvas drawn = schedule.find<canvas>();
      drawn.vocab = model.vocab;
      p.schedule.choose(drawn, schedule.text_indices[0]);
    }
    return p;
  }
  /// The policy that decodes as a trace did, with the parts of this one that edit logits, and its
  /// caches and layer rules: those that select tokens are replaced. `trace` must outlive its
  /// sessions. Errors: std::invalid_argument for a canvas.
  [[nodiscard]] named_policy replaying(const replay_view& trace) const {
    if (has_canvas()) {
      throw std::invalid_argument("a policy with a canvas cannot be replayed");
    }
    const replay_by_address again{&trace};
    named_policy p;
    p.temperature = temperature;
    p.logits_processors = logits_processors;
    p.cache = cache;
    p.eviction = eviction;
    p.layer_rule = layer_rule;
    p.layer_reads = layer_reads;
    p.truncation = truncation;
    p.ranking.choose(left_to_right{});
    p.commit_rule.push(replayed_commits(again), 0);
    p.schedule.choose(replayed_schedule(again));
    p.draw.choose(replayed_draw(again), last_written);
    if (trace.edits) {
      p.token_edits.push(replayed_edits(again), 0);
    }
    p.count = count;
    p.beyond_a_step = "replay";
    return p;
  }
  /// True if the policy has a canvas.
  [[nodiscard]] bool has_canvas() const { return schedule.holds<canvas>(); }
  /// True if layers compute some of the positions only: the engine needs hooks there.
  [[nodiscard]] UNMASK_HD bool layered_now() const {
    return cache.any_does<&part_traits::picks>() || layer_rule.count > 0;
  }

 private:
  template <std::size_t... I>
  [[nodiscard]] statistics required_by(std::index_sequence<I...>) const {
    const auto of_part = [](const auto& part) {
      if constexpr (requires { part.required_now(); }) {
        return part.required_now();
      } else {
        return std::remove_cvref_t<decltype(part)>::required;
      }
    };
    return (of_part(part_at<I>()) | ...);
  }
};
static_assert(std::is_trivially_copyable_v<named_policy>);

/// A complete method with one name: an abbreviation of a text. It takes the arguments of that text:
/// by place the arguments of its first part, the commit rule; by name those of the first part with
/// an argument of that name.
struct known_method {
  std::string_view name;   ///< as in unmask::methods
  std::string_view about;  ///< description in one line
  std::string_view text;
};

/// A released model: how its makers, or an engine, decode it. Its word is an abbreviation of a
/// text, as the name of a method, and takes the same arguments.
struct known_model {
  std::string_view word;    ///< in texts: "model:llada2_1"
  std::string_view models;  ///< the models, and the settings, in one line
  std::string_view text;
  index_t block_length = 0;        ///< positions of a block; 0: the whole answer is one
  index_t answer_length = 0;       ///< positions that are decoded by default
  bool whole_blocks = false;       ///< the sequence ends with a whole block: shape_of()
  index_t beyond = 0;              ///< positions decoded right of the answer: shape_of()
  token_id mask_token = no_token;  ///< no_token: none, or the tokenizer's
  /// EOS tokens, the first for model_info; no_token: no further one, or the tokenizer's.
  std::array<token_id, 3> eos_tokens = {no_token, no_token, no_token};
  index_t logits_shift = 0;  ///< as model_info
  /// The released code does not bar the mask token, which has a share of the probabilities and may
  /// be proposed: model_info::suppress_mask = false decodes as it does, without a bound on the
  /// passes.
  bool proposes_mask = false;
  float temperature = 0.0F;  ///< that of the text
  /// `model_type` of a configuration and architectures of GGUF files, between '|'; empty: the word
  /// is not chosen for a model.
  std::string_view types = {};
  std::string_view checkpoint = {};  ///< what the name of a checkpoint has in it; empty: any
  std::string_view source = {};      ///< what was read, with its version
  std::string_view date = {};        ///< when

  /// The word without "model:".
  [[nodiscard]] constexpr std::string_view name() const { return word.substr(6); }
  /// The word as a method.
  [[nodiscard]] constexpr known_method method() const { return {word, models, text}; }
};

}  // namespace unmask
