// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/known_methods.hpp>
#include <unmask/policy/known_parts.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

// Reads a text into the parts of a composition.
class named_parts_reader {
 public:
  named_parts_reader(std::string_view text, const file_source& files)
      : text_(text)
      , files_(files) {}

  [[nodiscard]] named_parts read() {
    for (const part_text& written : parse_policy_text(text_)) {
      const known_method* const method = method_of(written.name);
      method != nullptr ? add(*method, written) : add(written);
    }
    if (parts_.admission.size() == 0) {
      throw policy_text_error(text_,
                              text_.size() + 1,
                              "a policy needs an admission, such as threshold(0.9) or top_k(1)");
    }
    check_together();
    return parts_;
  }

 private:
  struct note {
    const known_part* part;
    std::size_t column;
  };
  struct taken_stage {
    std::string_view stage;
    std::string by;
    bool in_method;
  };

  [[nodiscard]] static const known_method* method_of(std::string_view name) {
    for (const known_method& m : known_methods()) {
      if (m.name == name) {
        return &m;
      }
    }
    return nullptr;
  }

  // The parts of a method, at its place in the text: the first one gets its arguments.
  void add(const known_method& method, const part_text& written) {
    method_ = method.name;
    bool is_first = true;
    for (part_text& part : parse_policy_text(method.text)) {
      part.column = written.column;
      if (std::exchange(is_first, false) && !written.arguments.empty()) {
        part.arguments = written.arguments;
      }
      add(part);
    }
    method_ = {};
    if (method.check != nullptr) {
      try {
        method.check(parts_);
      } catch (const std::invalid_argument& e) {
        fail(written.column, std::string(method.name) + ": " + e.what());
      }
    }
  }

  void add(const part_text& written) {
    if (joins(written.name)) {
      take_once("admission", written);
      admit(written);
      return;
    }
    const known_part& part = find(written);
    take(part, written);
    part.add(parts_, argument_values(text_, part, written, files_));
    notes_.push_back({&part, written.column});
  }

  [[nodiscard]] static bool joins(std::string_view name) {
    return name == "any_of" || name == "all_of";
  }

  [[noreturn]] void fail(std::size_t column, const std::string& problem) const {
    throw policy_text_error(text_, column, problem);
  }

  // Whether one in five letters or so is wrong. What is much longer than a name is none.
  [[nodiscard]] static bool is_near(std::string_view name, std::string_view written) {
    return written.size() <= 2 * name.size() &&
           spelling_distance(name, written) <= 1 + written.size() / 4;
  }

  // An unknown name gets those that are spelled nearly so, or else all.
  [[nodiscard]] const known_part& find(const part_text& written) const {
    std::string near;
    std::string all;
    const auto offer = [&](std::string_view name, std::string_view type) {
      all += (all.empty() ? "" : ", ") + std::string(name);
      if (is_near(name, written.name) || type == written.name) {
        near += (near.empty() ? "" : " or ") + std::string(name);
      }
    };
    for (const known_part& p : known_parts()) {
      if (p.name == written.name) {
        return p;
      }
      offer(p.name, p.type);
    }
    for (const known_method& m : known_methods()) {
      offer(m.name, {});
    }
    fail(written.column,
         "there is no part " + quoted(written.name) +
             (near.empty() ? "; there are " + all + ", any_of, all_of"
                           : ": did you mean " + near + "?"));
  }

  // Stages of which a policy has one part.
  void take(const known_part& part, const part_text& written) {
    switch (part.stage) {
    case part_stage::ranking:
    case part_stage::admission:
    case part_stage::draw:
    case part_stage::branches:
    case part_stage::schedule:
    case part_stage::layer_rule:
      return take_once(to_string(part.stage), written);
    case part_stage::cache:
      return part.name == "key_eviction" ? void() : take_once("cache", written);
    default:
      return;
    }
  }
  void take_once(std::string_view stage, const part_text& written) {
    std::string name(written.name);
    name += method_.empty() ? "" : " of " + std::string(method_);
    for (const auto& [taken, first, in_method] : taken_) {
      if (taken == stage) {
        const bool can_join = stage == "admission" && !in_method && method_.empty();
        fail(written.column,
             "a policy has one " + std::string(stage) + ": " + first + " and " + name +
                 (can_join ? " are joined by any_of(...) or all_of(...)" : " are two"));
      }
    }
    taken_.push_back({stage, name, !method_.empty()});
  }

  void admit(const part_text& written) {
    if (!joins(written.name)) {
      const known_part& part = find(written);
      if (part.stage != part_stage::admission) {
        fail(written.column,
             std::string(part.name) + " is no admission: it stands beside any_of and all_of, not "
                                      "in them");
      }
      part.add(parts_, argument_values(text_, part, written, files_));
      notes_.push_back({&part, written.column});
      return;
    }
    if (written.arguments.empty()) {
      fail(written.column, std::string(written.name) + " joins at least one admission");
    }
    for (std::size_t i = 0; i < written.arguments.size(); ++i) {
      const argument_text& a = written.arguments[i];
      if (!a.name.empty() || a.value.is != value_text::kind::part) {
        fail(a.value.column,
             std::string(written.name) + " joins admissions, such as threshold(0.9), got " +
                 quoted(a.value.text));
      }
      admit(*a.value.part);
      if (i > 0) {
        parts_.admission.join(written.name == "all_of");
      }
    }
  }

  // The column of the last part for which `is` holds, 0 without one.
  [[nodiscard]] std::size_t last(const auto& is) const {
    std::size_t column = 0;
    for (const note& n : notes_) {
      column = is(*n.part) ? std::max(column, n.column) : column;
    }
    return column;
  }

  // What does not go together, as policy<> and its parts say it of types.
  void check_together() const {
    const abilities& has = parts_.has;
    const auto named = [](auto... names) {
      return [=](const known_part& p) { return ((p.name == names) || ...); };
    };
    const auto of = [](part_stage s) { return [s](const known_part& p) { return p.stage == s; }; };
    const auto refuse = [this](bool both, std::size_t a, std::size_t b, const char* why) {
      if (both) {
        fail(std::max(a, b), why);
      }
    };
    const std::size_t compares = last(named("adaptive_threshold", "stable_and_confident"));
    const std::size_t looks = last(of(part_stage::branches));
    const std::size_t keeps = last(of(part_stage::truncation));
    const std::size_t edits =
        std::max(last(of(part_stage::revision)), last(of(part_stage::question)));
    const std::size_t credit = last(named("credit", "adaptive_credit"));
    const std::size_t frontier = last(named("at_frontier"));
    const std::size_t rewrites =
        std::max(last(of(part_stage::revisit)), last(of(part_stage::remask)));
    const std::size_t canvas = last(named("canvas"));
    const std::size_t draws = last(of(part_stage::draw));
    const std::size_t layered =
        std::max(last(of(part_stage::layer_rule)), last(named("delayed_cache")));
    refuse(has.compares && (has.watches || parts_.revisits.reopens),
           compares,
           std::max(edits, rewrites),
           "a part that compares rows with the step before does not go with parts that edit or "
           "watch single tokens");
    refuse(has.compares && has.branches,
           compares,
           looks,
           "a part that compares rows with the step before does not go with lookahead");
    refuse(has.compares && parts_.keep.rules.renormalises,
           compares,
           keeps,
           "a part that compares rows with the step before does not go with confidence_of_kept");
    refuse(has.keeps && has.remembers,
           keeps,
           credit,
           "parts that keep some tokens do not go with credit, which raises tokens that the read "
           "did not keep apart");
    refuse(has.keeps && has.watches && has.branches,
           keeps,
           std::max(looks, edits),
           "a policy that keeps some tokens can edit single tokens or look ahead, not both");
    refuse(has.keeps && !has.draws && !parts_.keep.rules.renormalises && !has.paints,
           keeps,
           0,
           "a part that keeps some tokens has no effect unless a token is drawn or the statistics "
           "are theirs: add sampling or confidence_of_kept");
    refuse(parts_.keep.rules.renormalises && parts_.keep.rules.keeps_all(no_token) &&
               last(named("keep_top_k", "keep_top_p", "keep_min_p")) == 0,
           keeps,
           0,
           "confidence_of_kept needs a part that keeps less than all: keep_top_k, keep_top_p or "
           "keep_min_p");
    refuse(has.remasks && parts_.revisits.reopens,
           rewrites,
           0,
           "remask_below does not go with reopen_below: a settled token competes again or is "
           "reopened");
    refuse(has.remasks && has.branches,
           rewrites,
           looks,
           "remask_below does not go with lookahead: a branch would be spawned from a position "
           "that another one settled");
    refuse(frontier > 0 && (looks > 0 || rewrites > 0 || canvas > 0),
           frontier,
           std::max({looks, rewrites, canvas}),
           "at_frontier goes neither with lookahead nor with parts that rewrite settled tokens nor "
           "with a canvas");
    refuse(canvas > 0 && (rewrites > 0 || looks > 0 || draws > 0),
           canvas,
           std::max({rewrites, looks, draws}),
           "a canvas settles nothing before its end and draws itself: it goes neither with "
           "lookahead nor with sampling nor with parts that rewrite settled tokens");
    const std::size_t along = last(named("factor", "hierarchical"));
    const bool by_confidence =
        parts_.ranking.by == order::confidence && parts_.ranking.looseness == 0.0F;
    refuse(along > 0 && !by_confidence,
           along,
           last(of(part_stage::ranking)),
           "factor and hierarchical are rules along the order of confidence: they go with no other "
           "ranking");
    refuse(layered > 0 && looks > 0,
           layered,
           looks,
           "a policy that looks ahead cannot skip positions at its layers: each branch would need "
           "its own stored hidden states");
    refuse(layered > 0 && canvas > 0,
           layered,
           canvas,
           "a canvas decides about every position in each pass: none of them can be skipped");
    const std::size_t strict = last(named("no_end_before", "token_list"));
    refuse(credit > 0 && strict > credit,
           strict,
           0,
           "write no_end_before and token_list before credit: it would raise tokens that cannot be "
           "proposed");
    check_states();
  }

  void check_states() const {
    const auto twice = [this](std::string_view name) {
      std::size_t seen = 0;
      for (const note& n : notes_) {
        if (n.part->name == name && seen++ > 0) {
          fail(n.column, "a policy by name has one " + std::string(name) + ", this is the second");
        }
      }
    };
    twice("adaptive_threshold");
    twice("stable_and_confident");
    twice("profile_threshold");
  }

  std::string_view text_;
  const file_source& files_;
  named_parts parts_;
  std::vector<note> notes_;
  std::vector<taken_stage> taken_;
  std::string_view method_;  // of the parts that are being read
};

}  // namespace detail

/// Reads a composition from text, such as "credit + threshold(0.9)" or "entropy +
/// any_of(entropy_bound(0.1), top_k(2)) + temperature(0.7) + stop_at_end".
///
/// Names and arguments are those of known_parts(); arguments are given by place, by name, or first
/// the ones and then the others. Exactly one admission, where any_of(...) and all_of(...) join
/// several; at most one ranking (confidence), schedule (sequential_blocks), cache, draw and
/// lookahead. The name of a method stands for its parts: known_methods(). Parts of one stage apply in written order; temperature comes before a canvas, whose
/// own stop comes last. Throws policy_text_error naming the part, the argument, its value, the rule
/// and the column. Host only; allocates.
///
/// A file is opened only for a text that names one, profile_threshold("profile.json"), and read in
/// the call: by `files`, which a host that takes texts of others may have look elsewhere, or throw
/// std::invalid_argument. That the file is missing, or no profile, is an error of the text, too.
[[nodiscard]] inline named_parts read_policy(std::string_view text,
                                             const file_source& files = contents_of_file) {
  return detail::named_parts_reader(text, files).read();
}

/// A part as its help names it: "threshold(threshold=0.9)".
[[nodiscard]] inline std::string signature_of(const known_part& part) {
  std::string text(part.name);
  for (const part_argument& a : part.arguments) {
    const std::string value = default_text(a);
    text += (&a == part.arguments.data() ? "(" : ", ") + std::string(a.name) +
            (value.empty() ? "" : "=" + value);
  }
  return text + (part.arguments.empty() ? "" : ")");
}

/// The tables as text: each part with its stage, its arguments with their ranges, and what it does;
/// each method with the text that it stands for.
[[nodiscard]] inline std::string describe_parts() {
  std::string text;
  for (const known_part& part : known_parts()) {
    text += signature_of(part) + "\n    " + std::string(to_string(part.stage)) + ": " +
            std::string(part.about) + "\n";
    for (const part_argument& a : part.arguments) {
      text += "    " + std::string(a.name) + ": " + rule_text(a) + "\n";
    }
  }
  for (const known_method& method : known_methods()) {
    text += std::string(method.name) + "\n    method: " + std::string(method.about) + "\n    = " +
            std::string(method.text) + "\n";
  }
  return text;
}

}  // namespace unmask
