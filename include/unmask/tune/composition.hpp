// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/read_policy.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

/// Policies as values that a search changes: parts and the setting of one knob each.
namespace UNMASK_NAMESPACE::tune {

/// A part with a value of its first number; the other knobs keep their defaults.
struct setting {
  const known_part* part = nullptr;  ///< An entry of known_parts().
  double value = 0.0;                ///< Value of the knob, if it has one.

  /// The first argument that is a number; nullptr without one.
  [[nodiscard]] const part_argument* knob() const {
    for (const part_argument& a : part->arguments) {
      if (a.kind == knob_kind::real || a.kind == knob_kind::exact || a.kind == knob_kind::whole) {
        return &a;
      }
    }
    return nullptr;
  }

  /// Written as in a policy text: "threshold(value=0.9)", or "tokens_per_step(1)".
  [[nodiscard]] std::string text() const {
    const part_argument* const k = knob();
    std::string words(part->name);
    if (k != nullptr) {
      const bool is_first = k == part->arguments.data();
      words += "(" + (is_first ? "" : std::string(k->name) + "=") + shortest_text(value) + ")";
    }
    return words;
  }

  /// Equal if they have the same part and value.
  friend bool operator==(const setting&, const setting&) = default;
};

/// A part with the default of its knob.
[[nodiscard]] inline setting with_default(const known_part& part) {
  setting s{&part, 0.0};
  const part_argument* const k = s.knob();
  s.value = k == nullptr ? 0.0 : k->value;
  return s;
}

/// Values of a knob that a search tries, ascending and inside its range: shares between 0 and 1,
/// small numbers, or multiples of the default. Empty without a knob.
[[nodiscard]] inline std::vector<double> ladder_of(const setting& s) {
  const part_argument* const k = s.knob();
  if (k == nullptr) {
    return {};
  }
  std::vector<double> values;
  if (k->kind == knob_kind::whole) {
    values = {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32};
  } else if (k->range.most <= 1.0) {
    values = {.02, .05, .1, .2, .3, .4, .5, .6, .7, .75, .8, .85, .9, .925, .95, .975, .99, .999};
  } else {
    const double middle = k->value > 0.0 ? k->value : 1.0;
    for (const double times : {.03, .06, .12, .25, .5, .75, 1.0, 1.5, 2.0, 4.0, 8.0, 16.0}) {
      values.push_back(middle * times);
    }
  }
  std::erase_if(values, [k](double v) { return !k->range.holds(v); });
  return values;
}

/// A policy: one ranking, an expression of commit rules, and other parts.
struct composition {
  const known_part* ranking = nullptr;  ///< An entry of known_parts().
  std::vector<setting> rules;           ///< the first one's knob trades accuracy for speed
  bool both = false;                    ///< all_of instead of any_of, if there are several rules
  std::vector<setting> others;          ///< in written order

  /// The text that read_policy() reads.
  [[nodiscard]] std::string text() const {
    std::string words = std::string(ranking->name) + " + ";
    if (rules.size() > 1) {
      words += both ? "all_of(" : "any_of(";
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
      words += (i > 0 ? ", " : "") + rules[i].text();
    }
    words += rules.size() > 1 ? ")" : "";
    for (const setting& s : others) {
      words += " + " + s.text();
    }
    return words;
  }

  /// True if the composition is a ranking and one commit rule.
  [[nodiscard]] bool is_single() const { return rules.size() == 1 && others.empty(); }
};

/// Policies that a search tries: of parts that change how tokens are selected, not what the model
/// says. No sampling, no edits of given tokens, nothing that ends a decode early; caches and layer
/// rules, which save no forward passes, on request.
class search_space {
 public:
  /// Reads known_parts().
  explicit search_space(bool with_caches)
      : with_caches_(with_caches) {
    for (const known_part& part : known_parts()) {
      sort_in(part);
    }
  }

  /// Every ranking with every commit rule.
  [[nodiscard]] std::vector<composition> singles() const {
    std::vector<composition> all;
    for (const known_part* ranking : rankings_) {
      for (const known_part* rule : rules_) {
        all.push_back({ranking, {with_default(*rule)}, false, {}});
      }
    }
    return all;
  }

  /// The compositions with one more part, or one more commit rule.
  [[nodiscard]] std::vector<composition> extended(const std::vector<composition>& from) const {
    std::vector<composition> all;
    for (const composition& c : from) {
      for (const known_part* part : more_) {
        const bool is_there = std::any_of(
            c.others.begin(), c.others.end(), [&](const setting& s) { return s.part == part; });
        if (!is_there) {
          all.push_back(c);
          all.back().others.push_back(with_default(*part));
        }
      }
      for (const known_part* rule : rules_) {
        for (const bool both : {false, true}) {
          if (c.rules.size() == 1 && c.rules.front().part != rule) {
            all.push_back(c);
            all.back().rules.push_back(with_default(*rule));
            all.back().both = both;
          }
        }
      }
    }
    return all;
  }

 private:
  void sort_in(const known_part& part) {
    for (const part_argument& a : part.arguments) {
      if (a.must_be_given() || a.kind == knob_kind::file) {  // which no search can make
        return;
      }
    }
    switch (part.stage) {
    case part_stage::ranking:
      rankings_.push_back(&part);
      break;
    case part_stage::commit_rule:
      rules_.push_back(&part);
      break;
    case part_stage::cache:
    case part_stage::layer_rule:
      if (with_caches_) {
        more_.push_back(&part);
      }
      break;
    case part_stage::logits_processor:
    case part_stage::filter:
    case part_stage::token_editing:
    case part_stage::remask:
    case part_stage::branches:
    case part_stage::schedule:
      more_.push_back(&part);
      break;
    default:
      break;
    }
  }

  bool with_caches_;
  std::vector<const known_part*> rankings_;
  std::vector<const known_part*> rules_;
  std::vector<const known_part*> more_;
};

}  // namespace unmask::tune
