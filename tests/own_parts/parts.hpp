// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// A part of each stage that UNMASK_OWN_PARTS may list.

#include <unmask/core/part/layer.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/schedule/schedule.hpp>

namespace own {

using unmask::index_t;
using unmask::knob;
using unmask::part_label;
using unmask::statistics;
using unmask::token_id;
namespace stat = unmask::stat;

/// A ranking that reads the context and a statistic that no part of the library reads.
struct swaying {
  float pull = 0.01F;
  static constexpr statistics required = stat::top3_mass;
  static constexpr part_label label{"swaying", "left ones first, then right ones first"};
  static constexpr knob<swaying> knobs[] = {{"pull", &swaying::pull, unmask::within(0, 1)}};
  UNMASK_HD float score(const auto& c, const auto& context) const {
    const float side = context.at.step % 2 == 0 ? -pull : pull;
    return c.top3_mass() + side * static_cast<float>(c.position);
  }
};

/// A ranking of which alg_temperature could be made.
struct rightmost {
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"rightmost", "right ones first"};
  UNMASK_HD float score(const auto& c) const { return static_cast<float>(c.position); }
};

/// A commit rule with state at each position, its own statistic and an argument.
struct seen_again {
  float threshold = 0.6F;
  static constexpr statistics required = stat::second_moment;
  static constexpr part_label label{"seen_again", "tokens that lead a second time"};
  static constexpr knob<seen_again> knobs[] = {
      {"threshold", &seen_again::threshold, unmask::within(0, 1)}};
  struct position_state {
    token_id leader = unmask::no_token;
  };
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    const bool again = c.token == context.state.leader;
    context.state.leader = c.token;
    return again && c.second_moment() > threshold;
  }
};

/// A commit rule that compares rows with those of the step before.
struct settled {
  static constexpr statistics required = stat::drift;
  static constexpr part_label label{"settled", "rows that hardly change"};
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info&) const {
    return c.drift() < 0.02F;
  }
};

/// A logits processor.
struct shy_of {
  token_id token = 0;
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"shy_of", "lowers the logit of a token by a half"};
  static constexpr knob<shy_of> knobs[] = {{"token", &shy_of::token, unmask::at_least(0)}};
  static constexpr index_t tracks = 1;
  UNMASK_HD void track(auto& list, const auto&) const { list.add(token); }
  UNMASK_HD void process(auto& row, const auto&) const { row.add(token, -0.5F); }
};

/// A filter.
struct not_beside {
  token_id token = 0;
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"not_beside", "holds a token back at odd positions"};
  static constexpr knob<not_beside> knobs[] = {{"token", &not_beside::token, unmask::at_least(0)}};
  UNMASK_HD unmask::filter_result filter(const auto& c, const auto&) const {
    return c.token == token && c.position % 2 != 0 ? unmask::filter_result::ranked_last
                                                   : unmask::filter_result::keep;
  }
};

struct in_one_go : unmask::single_block {
  static constexpr part_label label{"in_one_go", "the whole answer is one block"};
};

/// A cache with state of its own.
struct every_third {
  struct sequence_state {
    index_t passes = 0;
  };
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"every_third", "every third pass runs everything"};
  UNMASK_HD void set_query(const unmask::sequence_view&, unmask::plan& next, auto& context) const {
    if (context.sequence.passes++ % 3 != 0) {
      next.query = next.score;
    }
  }
};

/// A layer rule with state at each position, a reduction and an argument: the layers from the
/// middle on compute the positions that changed most beside those near the surest one.
struct around_the_surest {
  double share = 0.5;
  struct position_state {
    float confidence = 0.0F;
  };
  struct step_reduction {
    UNMASK_HD void merge(const step_reduction&) {}
  };
  struct layer_reduction {
    index_t position = -1;
    float confidence = -1.0F;
    UNMASK_HD void merge(const layer_reduction& other) {
      if (other.confidence > confidence) {
        *this = other;
      }
    }
  };
  static constexpr statistics required = stat::confidence;
  static constexpr unmask::feature reads = unmask::feature::query;
  static constexpr unmask::drift_terms measures = unmask::drift_terms::distance_2;
  static constexpr unmask::skipping skipped = unmask::skipping::kept;
  static constexpr part_label label{"around_the_surest", "later layers run what changed"};
  static constexpr knob<around_the_surest> knobs[] = {
      {"share", &around_the_surest::share, unmask::within(0, 1)}};

  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    context.state.confidence = c.confidence();
    return {};
  }
  UNMASK_HD bool hooks(index_t layer, index_t layers) const { return 2 * layer >= layers; }
  UNMASK_HD float measure(const unmask::drift_sums& d) const { return d.distance_2; }
  UNMASK_HD layer_reduction look(const unmask::layer_row& row,
                                 const unmask::layer_info&,
                                 const auto& context) const {
    return {row.position, context.state.confidence};
  }
  UNMASK_HD float
  importance(const unmask::layer_row& row, const unmask::layer_info&, const auto& context) const {
    const index_t away = row.position - context.step_reduction.position;
    return row.drift + (away >= -2 && away <= 2 ? 10.0F : 0.0F);
  }
  UNMASK_HD index_t quota(const unmask::layer_info& l, const auto&) const {
    return static_cast<index_t>(share * l.entered);
  }
};

/// A stop with state of its own.
struct enough {
  index_t steps = 5;
  struct sequence_state {
    index_t calls = 0;
  };
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"enough", "ends after some steps"};
  static constexpr knob<enough> knobs[] = {{"steps", &enough::steps, unmask::at_least(1)}};
  UNMASK_HD unmask::ending stop(const unmask::sequence_view&, auto& context) const {
    return ++context.sequence.calls >= steps ? unmask::ending::max_steps : unmask::ending::running;
  }
};

/// A commit rule that counts in stop(), which also ends the sequence and the answer, what commits()
/// reads.
struct hurrying {
  float from = 0.9F;
  index_t most = 12;
  struct sequence_state {
    index_t stops = 0;
  };
  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{"hurrying", "a threshold that falls, and an end"};
  static constexpr knob<hurrying> knobs[] = {{"from", &hurrying::from, unmask::within(0, 1)},
                                             {"most", &hurrying::most, unmask::at_least(1)}};
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    return c.confidence() > from - 0.05F * static_cast<float>(context.sequence.stops);
  }
  UNMASK_HD unmask::ending stop(const unmask::sequence_view&, auto& context) const {
    return ++context.sequence.stops >= most ? unmask::ending::stop_tokens : unmask::ending::running;
  }
  UNMASK_HD index_t answer_end(const unmask::sequence_view& q) const {
    return unmask::math::max(q.prompt_length, q.committed_prefix - 1);
  }
};

/// A commit rule with a filter that reads neighbours, state at positions and a reduction.
struct calm_beside {
  float value = 0.6F;
  float gain = 0.1F;
  static constexpr statistics required = stat::confidence | stat::entropy;
  static constexpr part_label label{"calm_beside", "a threshold that rises with neighbours"};
  static constexpr knob<calm_beside> knobs[] = {
      {"value", &calm_beside::value, unmask::within(0, 1)},
      {"gain", &calm_beside::gain, unmask::within(0, 1)}};
  struct position_state {
    float mean = 0.0F;
  };
  struct step_reduction {
    index_t seen = 0;
    UNMASK_HD void merge(const step_reduction& other) { seen += other.seen; }
  };
  UNMASK_HD step_reduction reduce(const auto&, auto&) const { return {1}; }
  UNMASK_HD unmask::filter_result filter(const auto& c, const auto& beside, auto& context) const {
    const float left = beside.left.valid() ? beside.left.entropy() : 0.0F;
    const float right = beside.right.valid() ? beside.right.entropy() : 0.0F;
    context.state.mean = 0.5F * (context.state.mean + 0.5F * (left + right));
    return left > c.entropy() && right > c.entropy() ? unmask::filter_result::keep
           : left > 1.2F                             ? unmask::filter_result::ranked_last
                                                     : unmask::filter_result::keep;
  }
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    return c.confidence() > value + gain * context.state.mean &&
           context.step_reduction.seen % 3 != 0;
  }
};

/// A ranking that is also a schedule and a stop.
struct outwards {
  index_t steps = 7;
  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{"outwards", "from the middle of the answer, which is a block"};
  static constexpr knob<outwards> knobs[] = {{"steps", &outwards::steps, unmask::at_least(1)}};
  UNMASK_HD float score(const auto& c, const auto& context) const {
    const auto& q = *context.at.view;
    const index_t from_middle = 2 * c.position - q.prompt_length - q.length;
    return -static_cast<float>(from_middle < 0 ? -from_middle : from_middle) + c.confidence();
  }
  UNMASK_HD void schedule(unmask::sequence_view& q, unmask::plan& next, auto&) const {
    unmask::no_state none;
    unmask::single_block{}.schedule(q, next, none);
  }
  UNMASK_HD unmask::ending stop(const unmask::sequence_view& q, auto&) const {
    return q.step >= steps ? unmask::ending::max_steps : unmask::ending::running;
  }
  [[nodiscard]] index_t reach(const unmask::sequence_shape& g) const {
    return unmask::single_block{}.reach(g);
  }
};

/// A ranking that is also a commit rule and a filter of its own.
struct pickiest {
  float least = 0.3F;
  static constexpr statistics required = stat::margin | stat::confidence;
  static constexpr part_label label{"pickiest", "by margin, those above a bound"};
  static constexpr knob<pickiest> knobs[] = {{"least", &pickiest::least, unmask::within(0, 1)}};
  UNMASK_HD float score(const auto& c) const { return c.margin(); }
  UNMASK_HD bool commits(const auto& c, const unmask::rank_info& r) const {
    return c.confidence() > least && r.rank < 3;
  }
  UNMASK_HD unmask::filter_result filter(const auto& c, const auto&) const {
    return c.position % 5 == 4 ? unmask::filter_result::ranked_last : unmask::filter_result::keep;
  }
};

/// A commit rule that is also a schedule, and waits.
struct waits_and_takes {
  index_t passes = 2;
  static constexpr statistics required = stat::confidence;
  static constexpr part_label label{"waits_and_takes", "commits two after some passes"};
  static constexpr knob<waits_and_takes> knobs[] = {
      {"passes", &waits_and_takes::passes, unmask::at_least(0)}};
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const unmask::sequence_shape&) const {
    return passes;
  }
  UNMASK_HD bool commits(const auto&, const unmask::rank_info& r, const auto& context) const {
    return context.at.step >= passes && r.rank < 2;
  }
  UNMASK_HD void schedule(unmask::sequence_view& q, unmask::plan& next, auto&) const {
    unmask::no_state none;
    unmask::single_block{}.schedule(q, next, none);
  }
  [[nodiscard]] index_t reach(const unmask::sequence_shape& g) const {
    return unmask::single_block{}.reach(g);
  }
};

/// A cache that is also a stop and a filter, and whose limits need the model.
struct half_and_half {
  index_t period = 2;
  static constexpr statistics required = stat::none;
  static constexpr part_label label{"half_and_half", "every second pass runs everything"};
  static constexpr knob<half_and_half> knobs[] = {
      {"period", &half_and_half::period, unmask::at_least(1)}};
  void check(const unmask::sequence_shape&, const unmask::model_info& m) const {
    unmask::check_argument(
        period < m.vocab, "half_and_half::period", period, "less than the vocabulary");
  }
  UNMASK_HD void set_query(const unmask::sequence_view& q, unmask::plan& next, auto&) const {
    if (q.step % period != 0) {
      next.query = next.score;
    }
  }
  UNMASK_HD unmask::ending stop(const unmask::sequence_view& q, auto&) const {
    return q.step >= 9 * period ? unmask::ending::max_steps : unmask::ending::running;
  }
  UNMASK_HD unmask::filter_result filter(const auto& c, const auto& context) const {
    return (c.position + context.at.step) % 4 == 0 ? unmask::filter_result::ranked_last
                                                   : unmask::filter_result::keep;
  }
};

}  // namespace own

namespace unmask {
using own_parts = part_list<own::swaying,
                            own::rightmost,
                            own::seen_again,
                            own::settled,
                            own::shy_of,
                            own::not_beside,
                            own::in_one_go,
                            own::every_third,
                            own::around_the_surest,
                            own::enough,
                            own::hurrying,
                            own::calm_beside,
                            own::outwards,
                            own::pickiest,
                            own::waits_and_takes,
                            own::half_and_half>;
}
