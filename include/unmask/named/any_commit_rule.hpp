// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/commit_rule_expression.hpp>

namespace UNMASK_NAMESPACE {

/// The commit rule of such an expression.
class any_commit_rule : public commit_rule_expression {
 public:
  using position_state = commit_rule_part::position_states;
  /// The states of user-defined rules, if they have any.
  using sequence_state = std::conditional_t<std::is_empty_v<commit_rule_part::sequence_states>,
                                            no_state,
                                            commit_rule_part::sequence_states>;
  using step_reduction = commit_rule_part::step_reductions;

  static constexpr statistics required = named_statistics | commit_rule_part::required;
  static constexpr bool needs_spans = true;
  static constexpr bool tracks_current = true;
  static constexpr attention_kind attention = attention_kind::shadow;

  /// The statistics that its parts read.
  [[nodiscard]] statistics required_now() const {
    statistics all = stat::none;
    for (index_t i = 0; i < size_; ++i) {
      all = all | parts_[i].required_now();
    }
    return all;
  }

  /// True if a part compares rows with those of the previous step.
  [[nodiscard]] UNMASK_HD bool compares_now() const { return any_does<&part_traits::compares>(); }

  [[nodiscard]] UNMASK_HD bool processes_now() const {
    return any_does<&part_traits::visits_rows>();
  }

  [[nodiscard]] UNMASK_HD bool filters_now() const { return any_does<&part_traits::filter>(); }
  [[nodiscard]] UNMASK_HD bool reduces_now() const { return any_does<&part_traits::reduces>(); }
  [[nodiscard]] UNMASK_HD bool spans_now() const { return any_does<&part_traits::needs_spans>(); }
  [[nodiscard]] UNMASK_HD bool costs_now() const { return any_does<&part_traits::costs>(); }

  /// That of the parts that have a cost, which is the same for all of them.
  UNMASK_HD float cost(const auto& c) const {
    float sum = 0.0F;
    static_cast<void>(any_part([&](const auto& operand) {
      if constexpr (detail::costing<std::remove_cvref_t<decltype(operand)>>) {
        sum = operand.cost(c);
        return true;
      } else {
        return false;
      }
    }));
    return sum;
  }

  /// A step calls commits_by() in its place.
  UNMASK_HD bool commits(const auto&, const rank_info_by_anchors&, auto&) const { return false; }

  UNMASK_HD decided<bool> commits_by(const auto& c,
                                     const rank_info_by_anchors& s,
                                     auto& context,
                                     auto& counts,
                                     index_t first_counter,
                                     bool wants_part) const {
    std::uint32_t results = 0;
    for (index_t i = 0; i < (counts.is_there ? size_ : 0); ++i) {
      const bool holds =
          parts_[i].visit_with(context, [&](const auto& operand, auto& inner) -> bool {
            using part = std::remove_cvref_t<decltype(operand)>;
            if constexpr (std::is_same_v<part, calibrated_place>) {
              return this->profile_.commits(c, s, context);
            } else if constexpr (requires { operand.commits(c, s, inner); }) {
              return operand.commits(c, s, inner);
            } else {
              return operand.commits(c, s);
            }
          });
      results |= (holds ? 1U : 0U) << static_cast<std::uint32_t>(i);
    }
    const evaluated found = evaluate(results, counts, first_counter);
    return {found.commits, wants_part ? deciding_part(results, found.held_back) : -1};
  }

  [[nodiscard]] UNMASK_HD bool anchors_now() const { return anchor_radius() >= 0; }
  UNMASK_HD bool anchors(const auto& c) const {
    return any_part([&c](const auto& operand) {
      if constexpr (anchoring<std::remove_cvref_t<decltype(operand)>>) {
        return operand.anchors(c);
      } else {
        return false;
      }
    });
  }
  UNMASK_HD index_t anchor_radius() const {
    index_t most = -1;
    for (index_t i = 0; i < size_; ++i) {
      most = math::max(most, parts_[i].visit([](const auto& operand) {
        if constexpr (anchoring<std::remove_cvref_t<decltype(operand)>>) {
          return operand.anchor_radius();
        } else {
          return index_t{-1};
        }
      }));
    }
    return most;
  }

  UNMASK_HD filter_result filter(const auto& c, const auto& beside, auto& context) const {
    return filter_by(c, beside, context).result;
  }

  UNMASK_HD decided<filter_result>
  filter_by(const auto& c, const auto& beside, auto& context) const {
    decided<filter_result> strictest{filter_result::keep, -1};
    for (index_t i = 0; i < size_; ++i) {
      parts_[i].visit_with(context, [&](const auto& operand, auto& inner) {
        using part = std::remove_cvref_t<decltype(operand)>;
        if constexpr (candidate_filter<part>) {
          const filter_result wanted = [&] {
            if constexpr (detail::filters_alone<part>) {
              return operand.filter(c, inner);
            } else {
              return operand.filter(c, beside, inner);
            }
          }();
          if (wanted > strictest.result) {
            strictest = {wanted, text_index_[i]};
          }
        }
      });
    }
    return strictest;
  }

  UNMASK_HD void process(auto& row, auto& context) const {
    for_each(context, [&row](const auto& operand, auto& inner) {
      if constexpr (logits_processor<std::remove_cvref_t<decltype(operand)>>) {
        operand.process(row, inner);
      }
    });
  }

  /// Parts of one type have one reduction, which does not depend on their arguments.
  UNMASK_HD step_reduction reduce(const auto& c, auto& context) const {
    step_reduction sum{};
    for (index_t i = 0; i < size_; ++i) {
      bool is_first = true;
      for (index_t before = 0; before < i; ++before) {
        is_first = is_first && !parts_[i].is_like(parts_[before]);
      }
      if (is_first) {
        parts_[i].visit_with(context, [&](const auto& operand, auto& inner) {
          using part = std::remove_cvref_t<decltype(operand)>;
          if constexpr (step_reducing<part>) {
            commit_rule_part::in<part>(sum).merge(operand.reduce(c, inner));
          }
        });
      }
    }
    return sum;
  }

  [[nodiscard]] UNMASK_HD bool reads_ahead() const {
    return any_part([](const auto& operand) {
      if constexpr (reading_ahead<std::remove_cvref_t<decltype(operand)>>) {
        return operand.reads_ahead();
      } else {
        return false;
      }
    });
  }

  /// The part that remasks the least certain tokens (core/part/remask_least.hpp), one at most.
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const {
    return any_part([](const auto& operand) {
      using part = std::remove_cvref_t<decltype(operand)>;
      if constexpr (remasking_least<part> || reconsidering<part>) {
        if constexpr (requires { operand.edits_tokens_now(); }) {
          return operand.edits_tokens_now();
        } else {
          return true;
        }
      } else {
        return false;
      }
    });
  }
  [[nodiscard]] UNMASK_HD bool shadows_now() const {
    return any_part([](const auto& operand) {
      if constexpr (requires { operand.shadows_now(); }) {
        return operand.shadows_now();
      } else {
        return false;
      }
    });
  }
  [[nodiscard]] UNMASK_HD bool tracks_current_now() const {
    return any_does<&part_traits::tracks_current>();
  }
  [[nodiscard]] UNMASK_HD index_t remasking_part() const {
    index_t found = -1;
    for (index_t i = 0; i < size_; ++i) {
      found = parts_[i].does<&part_traits::remasks_least>() ? text_index_[i] : found;
    }
    return found;
  }
  [[nodiscard]] UNMASK_HD index_t remask_count(auto& context) const {
    index_t count = 0;
    for_remasking(context,
                  [&](const auto& operand, auto& inner) { count = operand.remask_count(inner); });
    return count;
  }
  UNMASK_HD float remask_score(const auto& c, auto& context) const {
    float score = 0.0F;
    for_remasking(
        context, [&](const auto& operand, auto& inner) { score = operand.remask_score(c, inner); });
    return score;
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_remasks(const sequence_shape& g) const {
    std::int64_t most = 0;
    static_cast<void>(any_part([&](const auto& operand) {
      if constexpr (remasking_least<std::remove_cvref_t<decltype(operand)>>) {
        most = operand.extra_remasks(g);
      }
      return false;
    }));
    return most;
  }
  [[nodiscard]] UNMASK_HD bool goes_on(const sequence_view& q, auto& context) const {
    bool more = false;
    for_remasking(context, [&](const auto& operand, auto& inner) {
      if constexpr (going_on<std::remove_cvref_t<decltype(operand)>>) {
        more = operand.goes_on(q, inner);
      }
    });
    return more;
  }

  /// The part that reconsiders tokens (core/part/reconsider.hpp), one at most.
  [[nodiscard]] UNMASK_HD bool reconsiders_now() const {
    return any_part([](const auto& operand) {
      if constexpr (requires { operand.reconsiders_now(); }) {
        return operand.reconsiders_now();
      } else {
        return false;
      }
    });
  }
  [[nodiscard]] UNMASK_HD index_t reconsidering_part() const {
    index_t found = -1;
    for (index_t i = 0; i < size_; ++i) {
      found = parts_[i].does<&part_traits::reconsiders>() ? text_index_[i] : found;
    }
    return found;
  }
  [[nodiscard]] UNMASK_HD index_t hide_count(auto& context) const {
    index_t count = 0;
    for_reconsidering(context, [&](const auto& p, auto& inner) { count = p.hide_count(inner); });
    return count;
  }
  UNMASK_HD float hide_score(const auto& c, auto& context) const {
    float score = 0.0F;
    for_reconsidering(context, [&](const auto& p, auto& inner) { score = p.hide_score(c, inner); });
    return score;
  }
  [[nodiscard]] UNMASK_HD index_t reconsider_count(auto& context) const {
    index_t count = 0;
    for_reconsidering(context,
                      [&](const auto& p, auto& inner) { count = p.reconsider_count(inner); });
    return count;
  }
  UNMASK_HD float reconsider_score(const auto& c, auto& context) const {
    float score = 0.0F;
    for_reconsidering(context,
                      [&](const auto& p, auto& inner) { score = p.reconsider_score(c, inner); });
    return score;
  }
  [[nodiscard]] UNMASK_HD bool redecides() const {
    return any_part([](const auto& operand) {
      if constexpr (reconsidering<std::remove_cvref_t<decltype(operand)>>) {
        return operand.redecides();
      } else {
        return false;
      }
    });
  }
  [[nodiscard]] UNMASK_HD std::int64_t extra_checks(const sequence_shape& g) const {
    std::int64_t most = 0;
    static_cast<void>(any_part([&](const auto& operand) {
      if constexpr (reconsidering<std::remove_cvref_t<decltype(operand)>>) {
        most = operand.extra_checks(g);
      }
      return false;
    }));
    return most;
  }

  [[nodiscard]] UNMASK_HD bool stops_now() const { return any_does<&part_traits::stops>(); }
  UNMASK_HD ending stop(const sequence_view& q, auto& context) const
    requires commit_rule_part::may<&part_traits::stops> {
    return stop_by(q, context).result;
  }
  /// The first of its parts that ends the sequence.
  UNMASK_HD decided<ending> stop_by(const sequence_view& q, auto& context) const {
    decided<ending> first{ending::running, -1};
    for (index_t i = 0; i < size_ && first.result == ending::running; ++i) {
      const ending e = parts_[i].visit_with(context, [&q](const auto& operand, auto& inner) {
        if constexpr (stopping<std::remove_cvref_t<decltype(operand)>>) {
          return operand.stop(q, inner);
        } else {
          return ending::running;
        }
      });
      first = e == ending::running ? first : decided<ending>{e, text_index_[i]};
    }
    return first;
  }
  [[nodiscard]] UNMASK_HD index_t answer_end(const sequence_view& q) const {
    index_t end = q.length;
    for (index_t i = 0; i < size_; ++i) {
      end = math::min(end, parts_[i].visit([&q](const auto& operand) {
        return detail::answer_end_of(operand, q);
      }));
    }
    return end;
  }

  [[nodiscard]] UNMASK_HD bool reviews_now() const { return any_does<&part_traits::reviews>(); }
  UNMASK_HD step_reduction review(const auto& c, auto& context) const {
    for_each(context, [&c](const auto& operand, auto& inner) {
      if constexpr (reviewing<std::remove_cvref_t<decltype(operand)>>) {
        operand.review(c, inner);
      }
    });
    return {};
  }

 private:
  // Calls use(part, its context) for the part that remasks the least certain tokens.
  UNMASK_HD void for_remasking(auto& context, const auto& use) const {
    for_each(context, [&use](const auto& operand, auto& inner) {
      if constexpr (remasking_least<std::remove_cvref_t<decltype(operand)>>) {
        use(operand, inner);
      }
    });
  }

  // Calls use(part, its context) for the part that reconsiders tokens.
  UNMASK_HD void for_reconsidering(auto& context, const auto& use) const {
    for_each(context, [&use](const auto& operand, auto& inner) {
      if constexpr (reconsidering<std::remove_cvref_t<decltype(operand)>>) {
        use(operand, inner);
      }
    });
  }

  // True if the type of a part has a trait.
  template <bool part_traits::* Trait>
  [[nodiscard]] UNMASK_HD bool any_does() const {
    bool any = false;
    for (index_t i = 0; i < size_; ++i) {
      any = any || parts_[i].does<Trait>();
    }
    return any;
  }

  // True if use(part) is true for one of the parts.
  [[nodiscard]] UNMASK_HD bool any_part(const auto& use) const {
    bool any = false;
    for (index_t i = 0; i < size_; ++i) {
      any = any || parts_[i].visit(use);
    }
    return any;
  }

  // Calls use(part, its context) for each part but a calibrated_threshold.
  UNMASK_HD void for_each(auto& context, const auto& use) const {
    for (index_t i = 0; i < size_; ++i) {
      parts_[i].visit_with(context, [&use](const auto& operand, auto& inner) {
        using part = std::remove_cvref_t<decltype(operand)>;
        if constexpr (!std::is_same_v<part, calibrated_place>) {
          use(operand, inner);
        }
      });
    }
  }
};
static_assert(commit_rule<any_commit_rule> && candidate_filter<any_commit_rule> &&
              logits_processor<any_commit_rule> && step_reducing<any_commit_rule> &&
              reading_ahead<any_commit_rule> && going_on<any_commit_rule> &&
              reconsidering<any_commit_rule> && reviewing<any_commit_rule>);

}  // namespace unmask
