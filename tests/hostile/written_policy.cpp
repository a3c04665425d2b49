// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/written_policy.hpp"

#include <unmask/named/read_policy.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <stdexcept>

#include "hostile/recorded_parts.hpp"

namespace unmask::hostile {

namespace {

using testing::dice;

/// A part's text.
std::string text_of(const written_part& part) {
  std::string text = part.name;
  const char* before = "(";
  for (const std::string& a : part.arguments) {
    text += before + a;
    before = ", ";
  }
  for (const written_part& p : part.inside) {
    text += before + text_of(p);
    before = ", ";
  }
  return text + (*before == ',' ? ")" : "");
}

/// A part as recorded_parts.hpp lists it: its name and, each with the words it may be, its
/// arguments.
struct listed_part {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> arguments;
};

/// Reads "name(argument, argument=word|word)".
listed_part read_listed(std::string_view text) {
  const auto cut = [&text](std::string_view ends) {
    const std::size_t at = std::min(text.find_first_of(ends), text.size());
    const std::string_view head = text.substr(0, at);
    text.remove_prefix(std::min(text.find_first_not_of("(), ", at), text.size()));
    return head;
  };
  listed_part p{cut("("), {}};
  while (!text.empty()) {
    const std::string_view argument = cut(",)");
    const std::size_t equals = std::min(argument.find('='), argument.size());
    p.arguments.emplace_back(argument.substr(0, equals),
                             argument.substr(std::min(equals + 1, argument.size())));
  }
  return p;
}

const auto& of_name(const auto& all, std::string_view name) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  if (at == all.end()) {
    throw std::logic_error("recorded_parts.hpp has " + std::string(name) +
                           ", which is gone: list the parts with --parts, and record anew");
  }
  return *at;
}

/// The known parts of recorded_parts.hpp, each with the arguments and words that it had.
const std::vector<known_part>& recorded_known_parts() {
  static const std::vector<known_part> all = [] {
    static std::vector<std::vector<part_argument>> arguments;
    std::vector<known_part> parts;
    arguments.reserve(std::size(recorded_parts));
    for (const std::string_view text : recorded_parts) {
      const listed_part listed = read_listed(text);
      known_part p = of_name(known_parts(), listed.name);
      auto& of_part = arguments.emplace_back();
      for (const auto& [name, words] : listed.arguments) {
        of_part.push_back(of_name(p.arguments, name));
        of_part.back().words = words;
      }
      p.arguments = of_part;
      parts.push_back(p);
    }
    return parts;
  }();
  return all;
}

/// True if the list has the part, with the arguments that are written by name.
bool is_recorded(const written_part& p) {
  const auto at = std::find_if(std::begin(recorded_parts),
                               std::end(recorded_parts),
                               [&](auto text) { return read_listed(text).name == p.name; });
  if (at == std::end(recorded_parts)) {
    return p.name == "any_of" || p.name == "all_of" || p.name == "at_most";
  }
  const listed_part listed = read_listed(*at);
  return std::all_of(p.arguments.begin(), p.arguments.end(), [&](const std::string& argument) {
    const std::size_t equals = argument.find('=');
    return equals == std::string::npos ||
           std::any_of(listed.arguments.begin(), listed.arguments.end(), [&](const auto& a) {
             return a.first == std::string_view(argument).substr(0, equals);
           });
  });
}
bool is_recorded(const written_policy& policy) {
  return std::all_of(policy.begin(), policy.end(), [](const written_part& p) {
    return is_recorded(p) && is_recorded(p.inside);
  });
}

/// Which kinds of parts a composition has: about the types that compositions by name compile to.
struct family {
  bool edits = false;
  bool branches = false;
  bool edits_tokens = false;
  bool remasks = false;
  bool draws = false;
  bool keeps = false;
  bool renoises = false;
  bool compares = false;
  bool layered = false;
  bool drafts = false;
};

class author {
 public:
  author(dice& d, const model_info& model, std::span<const known_part> parts)
      : d_(d)
      , model_(model)
      , parts_(parts) {}

  written_policy write() {
    if (d_.chance(0.03)) {
      return anything();
    }
    if (d_.chance(0.06)) {
      return moving();
    }
    if (d_.chance(0.06)) {
      return searching();
    }
    const family f = random_family();
    written_policy all = {commit_rule(f)};
    if (d_.chance(0.7)) {  // two commit rules are rules along the order of confidence
      const bool is_ordered =
          names(all, "factor") || names(all, "frechet") || names(all, "hierarchical");
      all.push_back(is_ordered ? part("by_confidence") : one_of(part_stage::ranking));
    }
    add(all, part_stage::logits_transform, 0.2, 1);
    add(all, part_stage::filter, 0.3, 2);
    add(all, part_stage::stop, 0.4, 2, {model_.eos_token == no_token ? "stop_at_eos" : ""});
    std::vector<std::string> skipping;
    if (names(all, "wino")) {
      skipping = {"delayed_cache", "entropy_cache"};
    }
    add(all,
        part_stage::cache,
        f.drafts || names(all, "core") ? 0.0
        : f.layered                    ? 0.7
                                       : 0.25,
        1,
        skipping);
    if (f.layered) {
      for (const char* rule : {"early_skip", "cache_budget", "similarity_refresh"}) {
        if (d_.chance(0.4)) {
          all.push_back(part(rule));
          break;
        }
      }
    }
    if (f.drafts) {
      all.push_back(part("self_speculation"));
    } else if (!f.renoises) {
      // One that says which positions a pass computes goes with few others.
      const bool is_alone = !f.layered && !f.branches && !f.compares && !names(all, "core") &&
                            std::none_of(all.begin(), all.end(), [](const written_part& p) {
                              return p.name.find("cache") != p.name.npos ||
                                     p.name == "suffix_window" || p.name == "key_eviction";
                            });
      add(all,
          part_stage::schedule,
          0.6,
          1,
          {"canvas", "self_speculation", is_alone ? "" : "seeded_blocks"});
    }
    if (f.edits) {
      add(all, part_stage::logits_processor, 0.9, 3, {"trace_credit", "adaptive_credit"});
      add(all, part_stage::probe, 0.15, 1);
    }
    if (f.branches) {
      all.push_back(one_of(part_stage::branches, {"beam"}));
    }
    if (f.edits_tokens) {
      const bool frontier = names(all, "at_frontier");
      if (!frontier) {
        all.push_back(
            part(f.remasks || d_.chance(0.5) ? "edit_committed" : "remask_current_below"));
        if (!f.remasks && all.back().name == "edit_committed" && d_.chance(0.3)) {
          all.push_back(part("remask_current_below"));
        }
      }
    }
    if (f.remasks && !names(all, "at_frontier")) {
      all.push_back(part("remask_below"));
    }
    if (f.draws) {
      all.push_back(one_of(part_stage::draw));
    }
    if (f.keeps) {
      add(all, part_stage::truncation, 1.0, 2, {"confidence_after_truncation"});
      if (!f.draws || (!f.compares && d_.chance(0.2))) {
        all.push_back(part("confidence_after_truncation"));
      }
    }
    if (f.renoises) {
      all.push_back(part("canvas"));
    }
    shuffle(all);
    if (f.edits && !f.keeps && d_.chance(0.35)) {  // behind what it must not give credit to
      all.push_back(part(d_.chance(0.5) ? "trace_credit" : "adaptive_credit"));
    }
    return all;
  }

 private:
  family random_family() {
    family f;
    const int n = d_.within(0, 99);
    f.renoises = n < 6;
    f.compares = n >= 6 && n < 16;
    f.branches = n >= 16 && n < 36;
    f.drafts = n >= 36 && n < 46;
    f.layered = !f.renoises && !f.branches && !f.drafts && d_.chance(0.2);
    // More often with layer rules: two kinds of state by position meet there.
    f.remasks = !f.renoises && !f.branches && !f.drafts && d_.chance(f.layered ? 0.5 : 0.2);
    f.keeps = !f.renoises && d_.chance(0.2);
    f.draws = !f.renoises && ((f.keeps && f.compares) || d_.chance(0.3));
    const bool is_left_alone = f.compares || (f.branches && f.keeps);
    f.edits = !is_left_alone && d_.chance(0.6);
    f.edits_tokens = !is_left_alone && !f.renoises && !f.drafts && d_.chance(0.35);
    return f;
  }

  /// A rule that moves text, and parts that go with it.
  written_policy moving() {
    const bool grows = d_.chance(0.6);
    const bool has_end = model_.eos_token != no_token;
    written_policy all = {part(!grows                      ? "joint_threshold_indel"
                               : has_end && d_.chance(0.5) ? "rho_eos"
                                                           : "daedal")};
    add(all, part_stage::ranking, 0.2, 1);
    add(all, part_stage::logits_transform, 0.2, 1);
    add(all, part_stage::stop, 0.3, 1, {model_.eos_token == no_token ? "stop_at_eos" : ""});
    if (!grows) {
      add(all, part_stage::cache, 0.2, 1, {"delayed_cache", "entropy_cache"});
    }
    shuffle(all);
    return all;
  }

  /// A beam, and parts that go with it.
  written_policy searching() {
    written_policy all = {commit_rule({.branches = true}), part("beam")};
    if (d_.chance(0.5)) {
      all.push_back(part("by_confidence"));
    }
    if (d_.chance(0.5)) {
      all.push_back(part(d_.chance(0.5) ? "single_block" : "semi_autoregressive"));
    }
    add(all, part_stage::logits_transform, 0.2, 1);
    add(all, part_stage::filter, 0.3, 2);
    add(all, part_stage::logits_processor, 0.4, 3, {"trace_credit", "adaptive_credit"});
    add(all, part_stage::stop, 0.4, 2, {model_.eos_token == no_token ? "stop_at_eos" : ""});
    shuffle(all);
    return all;
  }

  /// A few parts, whatever they are.
  written_policy anything() {
    written_policy all;
    for (int n = d_.within(1, 5); n > 0; --n) {
      all.push_back(part(parts_[d_.bits() % parts_.size()]));
    }
    return all;
  }

  void shuffle(written_policy& all) {
    const std::vector<std::int32_t> order = d_.permutation(static_cast<std::int32_t>(all.size()));
    written_policy shuffled;
    for (const std::int32_t i : order) {
      shuffled.push_back(all[static_cast<std::size_t>(i)]);
    }
    all = shuffled;
  }

  void add(written_policy& all,
           part_stage stage,
           double probability,
           int most,
           const std::vector<std::string>& without = {}) {
    for (int n = 0; n < most && d_.chance(probability); ++n) {
      const written_part p = one_of(stage, without);
      if (!names(all, p.name.c_str())) {
        all.push_back(p);
      }
    }
  }

  written_part one_of(part_stage stage, const std::vector<std::string>& without = {}) {
    std::vector<const known_part*> choices;
    for (const known_part& p : parts_) {
      const bool fits = std::none_of(p.arguments.begin(), p.arguments.end(), [](const auto& a) {
        return a.kind == knob_kind::file;  // a file
      });
      if (p.stage == stage && fits &&
          std::find(without.begin(), without.end(), p.name) == without.end()) {
        choices.push_back(&p);
      }
    }
    return part(*d_.one_of(choices));
  }

  written_part commit_rule(const family& f) {
    const std::vector<std::string> comparing = {"adaptive_threshold", "stable_and_confident"};
    std::vector<std::string> without = comparing;
    const char* const masking[] = {
        "running_confidence", "remdm_loop", "remdm_conf", "wino", "core"};
    const bool masks = !f.branches && !f.edits_tokens && !f.remasks && !f.renoises && !f.compares &&
                       !f.drafts && d_.chance(0.3);
    if (f.branches || f.edits_tokens || f.remasks || f.renoises || f.drafts || masks) {
      without.push_back("at_frontier");
    }
    if (f.layered || model_.logits_shift > 0) {
      without.push_back("wino");
    }
    if (f.layered) {
      without.push_back("core");
    }
    if (!masks) {
      without.insert(without.end(), std::begin(masking), std::end(masking));
    }
    written_part whole =
        f.compares ? part(d_.one_of(comparing).c_str()) : one_of(part_stage::commit_rule, without);
    for (int n = d_.chance(0.4) ? d_.within(1, 3) : 0; n > 0; --n) {
      written_part joined{d_.chance(0.5) ? "any_of" : "all_of", {}, {whole}};
      std::vector<std::string> others = without;
      if (names({whole}, "entropy_bound")) {
        others.push_back("frechet");
      }
      if (names({whole}, "frechet")) {
        others.push_back("entropy_bound");
      }
      if (std::any_of(std::begin(masking), std::end(masking), [&](const char* name) {
            return names({whole}, name);
          })) {
        others.insert(others.end(), std::begin(masking), std::end(masking));
      }
      joined.inside.push_back(one_of(part_stage::commit_rule, others));
      if (d_.chance(0.5)) {
        std::swap(joined.inside[0], joined.inside[1]);
      }
      whole = joined;
      if (d_.chance(0.3)) {
        whole = {"at_most", {std::to_string(d_.within(0, 5))}, {whole}};
      }
    }
    return whole;
  }

  written_part part(const char* name) {
    for (const known_part& p : parts_) {
      if (p.name == name) {
        return part(p);
      }
    }
    return {name, {}, {}};
  }

  written_part part(const known_part& known) {
    written_part p{std::string(known.name), {}, {}};
    bool by_name = false;
    for (const part_argument& a : known.arguments) {
      const bool is_left_out = !a.is_list() && d_.chance(a.kind == knob_kind::token ? 0.5
                                                         : a.name == "first"        ? 0.7
                                                                                    : 0.35);
      by_name = by_name || is_left_out || d_.chance(0.2);
      if (!is_left_out) {
        p.arguments.push_back((by_name ? std::string(a.name) + "=" : "") + value(known, a));
      }
    }
    return p;
  }

  /// A value of a range, as text.
  std::string value(const known_part& known, const part_argument& a) {
    switch (a.kind) {
    case knob_kind::flag:
      return d_.chance(0.5) ? "true" : "false";
    case knob_kind::word: {
      const auto words = 1 + std::count(a.words.begin(), a.words.end(), '|');
      return std::string(a.word(d_.bits() % static_cast<std::uint64_t>(words)));
    }
    case knob_kind::tokens: {
      list_ = d_.chance(0.9) ? d_.within(1, 3) : d_.within(4, 8);
      return list([this] { return std::to_string(token()); });
    }
    case knob_kind::reals:
      return list([this, &a] {
        const std::vector<double> edges = {
            0.0, 1.0, -1.0, 20.0, -20.0, 1e30, -1e30, d_.real(-3, 3)};
        double x = d_.one_of(edges);
        for (int n = 0; n < 20 && !a.range.holds(x); ++n) {
          x = d_.chance(0.5) ? d_.real(0, 1) : d_.one_of(edges);
        }
        return shortest_text(x);
      });
    case knob_kind::file:
      return "'no/such/file'";
    case knob_kind::token:
      return std::to_string(token());
    case knob_kind::whole:
      return std::to_string(whole(known, a));
    case knob_kind::real:
    case knob_kind::exact:
      break;
    }
    const std::vector<double> edges = {
        a.range.least, a.range.most,  a.value,      0.0, 1e-45, 1e-30, 0.01, 0.3,  0.5,    0.7,
        0.9,           0.99999994,    1.0,          3.0, 100.0, 1e30,  3e38, -1.0, -100.0, -1e30,
        d_.real(0, 1), d_.real(0, 1), d_.real(0, 5)};
    double x = d_.one_of(edges);
    for (int n = 0; n < 20 && !(a.range.holds(x) && std::isfinite(x)); ++n) {
      x = d_.one_of(edges);
    }
    if (a.range.holds(0.25) && d_.chance(0.15)) {  // what a row can have exactly
      x = d_.one_of(std::vector<double>{0.25, 0.5, 1.0});
    }
    if (known.name == "canvas" && a.name == "coldest") {  // at most the hottest
      x = d_.real(0.01, 0.4);
    }
    if (known.name == "canvas" && a.name == "hottest") {
      x = d_.chance(0.2) ? 1e30 : d_.real(0.4, 3);
    }
    return shortest_text(a.range.holds(x) && std::isfinite(x) ? x : a.value);
  }

  template <class Item>
  std::string list(const Item& item) const {
    std::string text = "[";
    for (int i = 0; i < list_; ++i) {
      text += (i > 0 ? ", " : "") + item();
    }
    return text + "]";
  }

  /// True if an argument is a number of steps that may be idle.
  static bool idles(const known_part& known, const part_argument& a) {
    return a.kind == knob_kind::whole &&
           (known.name == "timesteps" || known.name == "independent_timesteps" ||
            known.name == "canvas" || known.name == "edited_blocks" ||
            known.name == "remask_current_below" || known.name == "edit_committed" ||
            known.name == "running_confidence" || known.name == "remdm_loop" ||
            known.name == "remdm_conf");
  }

  std::int64_t whole(const known_part& known, const part_argument& a) {
    const auto least = static_cast<std::int64_t>(a.range.least);
    const auto most = static_cast<std::int64_t>(std::min(a.range.most, double(no_token)));
    const std::int64_t top = idles(known, a) ? std::min<std::int64_t>(most, least + 40) : most;
    const std::int64_t some = std::min<std::int64_t>(least + d_.within(0, 12), top);
    if (a.name == "pool") {  // is odd
      return 2 * some + 1;
    }
    const bool ends_range = a.name == "last";  // at least the first
    return d_.one_of(std::vector<std::int64_t>{ends_range ? some + 8 : least,
                                               ends_range ? some + 9 : least + 1,
                                               ends_range ? some + 8 : some,
                                               ends_range ? top : some,
                                               ends_range ? top : some,
                                               ends_range ? top : some,
                                               idles(known, a) || a.name == "first" ? some : top});
  }

  token_id token() {
    return d_.chance(0.04)                                   ? model_.vocab + d_.within(0, 3)
           : d_.chance(0.15) && model_.eos_token != no_token ? model_.eos_token
           : d_.chance(0.05)                                 ? model_.mask_token
                                                             : d_.within(0, model_.vocab - 1);
  }

  dice& d_;
  const model_info& model_;
  std::span<const known_part> parts_;
  int list_ = 1;
};

}  // namespace

bool names(const written_policy& policy, std::string_view name) {
  return std::any_of(policy.begin(), policy.end(), [&](const written_part& p) {
    return p.name == name || names(p.inside, name);
  });
}

std::string text_of(const written_policy& policy) {
  std::string text;
  for (const written_part& p : policy) {
    text += (text.empty() ? "" : " + ") + text_of(p);
  }
  return text;
}

written_policy random_policy(dice& d, const model_info& model, drawn_parts parts) {
  if (parts == drawn_parts::recorded) {
    return author(d, model, recorded_known_parts()).write();
  }
  author any(d, model, known_parts());
  written_policy policy = any.write();
  for (int tries = 0; parts == drawn_parts::newer && tries < 1000 && is_recorded(policy); ++tries) {
    policy = any.write();
  }
  return policy;
}

bool has_newer_parts() {
  const std::span<const known_part> all = known_parts();
  return std::any_of(all.begin(), all.end(), [](const known_part& p) {
    written_part written{std::string(p.name), {}, {}};
    for (const part_argument& a : p.arguments) {
      written.arguments.push_back(std::string(a.name) + '=');
    }
    return !is_recorded(written);
  });
}

std::string list_of_parts() {
  std::string all;
  for (const known_part& p : known_parts()) {
    std::string text(p.name);
    const char* before = "(";
    for (const part_argument& a : p.arguments) {
      text += before + std::string(a.name) + (a.words.empty() ? "" : "=") + std::string(a.words);
      before = ", ";
    }
    all += text + (*before == ',' ? ")" : "") + '\n';
  }
  return all;
}

std::vector<written_policy> shorter(const written_policy& policy) {
  std::vector<written_policy> all;
  for (std::size_t i = 0; i < policy.size(); ++i) {
    const written_part& p = policy[i];
    written_policy less = policy;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    all.push_back(less);
    const auto with = [&](const written_part& other) {
      written_policy changed = policy;
      changed[i] = other;
      all.push_back(changed);
    };
    for (const written_part& operand : p.inside) {
      with(operand);
    }
    for (const written_policy& operands : shorter(p.inside)) {
      with({p.name, p.arguments, operands});
    }
    for (std::size_t a = 0; a < p.arguments.size(); ++a) {  // those behind it have names, or shift
      written_part fewer = p;
      fewer.arguments.erase(fewer.arguments.begin() + static_cast<std::ptrdiff_t>(a));
      with(fewer);
    }
  }
  return all;
}

}  // namespace unmask::hostile
