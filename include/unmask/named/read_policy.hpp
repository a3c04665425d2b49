// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>

#include <optional>

namespace UNMASK_NAMESPACE {

/// Every part that has a name, by stage, then what register_part() added; that replaces the list:
/// each that was returned stays as it was. Layer rules,
/// delayed_cache and entropy_cache are for engines with hooks in their layers.
[[nodiscard]] UNMASK_LIBRARY std::span<const known_part> known_parts();

/// Every method that has a name. Its policy is that of unmask::methods with the published values;
/// for other values write the parts. A text may continue after a method, as in "es_dllm +
/// stop_at_eos". OSDT's argument is the file of a profile, written by save_profile(); without one
/// it decodes the sequence from which a threshold_calibrator makes the profile.
[[nodiscard]] UNMASK_LIBRARY std::span<const known_method> known_methods();

/// Every released model that has a word, such as "model:llada2_1": its policy, and the numbers that
/// belong to it. A text may continue after the word: "model:llada2_1 + trace_credit".
[[nodiscard]] UNMASK_LIBRARY std::span<const known_model> known_models();

/// The method, or the model as one, that a text calls so; empty if there is none.
[[nodiscard]] UNMASK_LIBRARY std::optional<known_method> find_method(std::string_view name);

/// The model with that word, with or without "model:"; null if there is none.
[[nodiscard]] UNMASK_LIBRARY const known_model* find_model(std::string_view word);

/// The word for a model: `type` is the `model_type` of its configuration or the architecture of its
/// GGUF file, `checkpoint` the name of its weights, which tells models of one type apart. Capital
/// and small letters are the same, and so are '-' and '_'. Null for a type that no model has.
[[nodiscard]] UNMASK_LIBRARY const known_model* model_of(std::string_view type,
                                                         std::string_view checkpoint = {});

/// The shape of a sequence for a model: with `answer_length` positions, 0 for its own number, in
/// its blocks. If the model decodes whole blocks, the sequence ends with one, at a multiple of the
/// block length: tokens right of prompt_length + answer_length are not part of it. Some models
/// decode positions beyond the answer. Errors: std::invalid_argument for a negative number, or a
/// sequence longer than max_length.
[[nodiscard]] UNMASK_LIBRARY sequence_shape shape_of(const known_model& model,
                                                     index_t prompt_length,
                                                     index_t answer_length = 0);

/// The table of models as text: each word with its models, its policy, its numbers and its source.
[[nodiscard]] UNMASK_LIBRARY std::string describe_models();

/// Reads a composition from text, such as "trace_credit + threshold(0.9)" or "by_entropy +
/// any_of(entropy_bound(0.1), tokens_per_step(2)) + temperature(0.7) + stop_at_eos".
///
/// Names and arguments are in known_parts(); arguments are given by place, by name, or first
/// by place and then by name. Exactly one commit rule, where any_of(...) and all_of(...) combine
/// several and at_most(count, rule) limits one; at most one ranking (default: by_confidence),
/// schedule (default: semi_autoregressive), cache, draw and lookahead. The name of a method means
/// its parts: known_methods(). Parts of one stage apply in written order; temperature precedes a
/// canvas.
///
/// Errors: policy_text_error naming the part, the argument, its value, the rule and the column.
/// Host only; allocates.
///
/// A file is opened only for a text that names one, calibrated_threshold("profile.json"), and read
/// in the call, by `files`: a regular file, of at most 16 MB. A host that accepts texts from others
/// passes no_files, or a function that reads elsewhere. A missing file, or one that is not a
/// profile, is also an error of the text, which does not quote the file.
[[nodiscard]] UNMASK_LIBRARY named_policy read_policy(std::string_view text,
                                                      const file_source& files = contents_of_file);

/// A part as shown in the help: "threshold(value=0.9, inclusive=false)".
[[nodiscard]] UNMASK_LIBRARY std::string signature_of(const known_part& part);

/// The tables as text: each part with its stage, its arguments with their ranges, and its
/// description; each method with the text that it abbreviates.
[[nodiscard]] UNMASK_LIBRARY std::string describe_parts();

}  // namespace unmask

#if UNMASK_DEFINES
#  include <unmask/core/check.hpp>
#  include <unmask/named/known_methods.hpp>
#  include <unmask/named/known_models.hpp>
#  include <unmask/named/known_parts.hpp>
#  include <unmask/named/method_parts.hpp>
#  include <unmask/named/registered_part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

// Reads a text into the parts of a composition.
class policy_reader {
 public:
  policy_reader(std::string_view text, const file_source& files)
      : text_(text)
      , files_(files) {}

  [[nodiscard]] named_policy read() {
    for (const part_text& written : parse_policy_text(text_)) {
      const std::optional<known_method> method = find_method(written.name);
      method ? add(*method, written) : add(written);
    }
    if (parts_.commit_rule.size() == 0) {
      throw policy_text_error(
          text_,
          text_.size() + 1,
          "a policy needs a commit rule, such as threshold(0.9) or tokens_per_step(1)");
    }
    check_together();
    check_states();
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

  // Adds the parts of a method at its place in the text.
  void add(const known_method& method, const part_text& written) {
    std::vector<part_text> all;
    try {
      all = parts_of(known_parts(), method, written);
    } catch (const std::invalid_argument& e) {
      fail(written.column, e.what());
    }
    method_ = method.name;
    for (const part_text& part : all) {
      add(part);
    }
    method_ = {};
  }

  void add(const part_text& written) {
    if (joins(written.name)) {
      take_once("commit rule", written);
      commit(written);
      return;
    }
    const known_part& part = find(written);
    take(part, written);
    put(part, written);
  }

  void put(const known_part& part, const part_text& written) {
    part.add(parts_, argument_values(text_, part, written, files_));
    ++parts_.count;
    notes_.push_back({&part, written.column});
    if (part.traits.looks_beyond_a_step()) {
      parts_.beyond_a_step = part.name;
    }
  }

  [[nodiscard]] static bool joins(std::string_view name) {
    return std::find(std::begin(table::joining), std::end(table::joining), name) !=
           std::end(table::joining);
  }

  [[noreturn]] void fail(std::size_t column, const std::string& problem) const {
    throw policy_text_error(text_, column, problem);
  }

  // True if the name contains the text (a short one as a whole word), or begins with its first
  // letter and has the others in order, or about one letter in five is wrong. A text much longer
  // than a name is not near it.
  [[nodiscard]] static bool is_near(std::string_view name, std::string_view written) {
    std::size_t found = 0;
    for (const char c : name) {
      found += found < written.size() && c == written[found] ? 1 : 0;
    }
    const bool abbreviates =
        found == written.size() && name.size() <= 2 * found && name[0] == written[0];
    const bool contains = name.find(written) != std::string_view::npos;
    const bool has_word =
        ("_" + std::string(name) + "_").find("_" + std::string(written) + "_") != std::string::npos;
    return (written.size() >= 4 && (abbreviates || contains)) || has_word ||
           (written.size() <= 2 * name.size() &&
            spelling_distance(name, written) <= 1 + written.size() / 4);
  }

  [[nodiscard]] const known_part& find(const part_text& written) const {
    for (const known_part& p : known_parts()) {
      if (p.name == written.name) {
        return p;
      }
    }
    fail_unknown(written);
  }

  // The message suggests the name in small letters, or names with a similar spelling, or lists all.
  [[noreturn]] void fail_unknown(const part_text& written) const {
    std::string small(written.name);
    for (char& c : small) {
      c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    std::string same;
    std::string near;
    std::string all;
    const auto offer_as = [&](std::string_view name, std::string_view part, std::string_view like) {
      all += (all.empty() ? "" : ", ") + std::string(name);
      same = name == small ? small : same;
      if (is_near(part, like)) {
        near += (near.empty() ? "" : " or ") + std::string(name);
      }
    };
    const auto offer = [&](std::string_view name) { offer_as(name, name, small); };
    for (const known_part& p : known_parts()) {
      offer(p.name);
    }
    for (const known_method& m : known_methods()) {
      offer(m.name);
    }
    for (const std::string_view name : table::joining) {
      offer(name);
    }
    const bool is_model = small.rfind("model:", 0) == 0 || small == "model";
    if (is_model) {
      all.clear();
      near.clear();
    }
    for (const known_model& m : known_models()) {
      const bool is_prefixed = small.size() > 6 && is_model;
      if (is_model || m.name() == small) {
        offer_as(m.word, m.name(), is_prefixed ? std::string_view(small).substr(6) : small);
      }
    }
    fail(written.column,
         (is_model ? "there is no model " : "there is no part ") + quoted(written.name) +
             (near.empty() ? "; there are " + all
                           : ": did you mean " + (same.empty() ? near : same) + "?"));
  }

  // Marks the stages of a part that a policy has once. `commits`: it is not inside any_of and so
  // on.
  void take(const known_part& part, const part_text& written, bool commits = true) {
    const part_traits& t = part.traits;
    const auto take_if = [&](bool is_in, part_stage stage) {
      if (is_in) {
        take_once(to_string(stage), written);
      }
    };
    decides_alone_ = decides_alone_ || t.rewrites_blocks;
    take_if(commits && part.decides(), part_stage::commit_rule);
    take_if(t.ranks, part_stage::ranking);
    take_if(part.stage == part_stage::draw, part_stage::draw);
    take_if(t.looks_ahead || t.drafts || t.beams, part_stage::branches);
    take_if(t.schedules, part_stage::schedule);
    take_if(t.caches, part_stage::cache);
    take_if(t.skips, part_stage::layer_rule);
  }
  void take_once(std::string_view stage, const part_text& written) {
    std::string name(written.name);
    name += method_.empty() ? "" : " of " + std::string(method_);
    for (const auto& [taken, first, in_method] : taken_) {
      if (taken == stage) {
        const bool can_join =
            stage == "commit rule" && !in_method && method_.empty() && !decides_alone_;
        fail(written.column,
             "a policy has at most one " + std::string(stage) + ", got " + first + " and " + name +
                 (can_join ? ": join them by any_of(...) or all_of(...)" : ""));
      }
    }
    taken_.push_back({stage, name, !method_.empty()});
  }

  void commit(const part_text& written) {
    if (!joins(written.name)) {
      if (find_method(written.name)) {
        fail(written.column,
             "any_of, all_of and at_most are of commit rules, got " + std::string(written.name) +
                 " (method): write its parts instead");
      }
      const known_part& part = find(written);
      if (part.stage != part_stage::commit_rule) {
        fail(written.column,
             "any_of, all_of and at_most are of commit rules, got " + std::string(part.name) +
                 " (" + std::string(to_string(part.stage)) + "): write it outside, joined by '+'");
      }
      take(part, written, false);
      put(part, written);
      return;
    }
    if (written.name == "at_most") {
      limit(written);
      return;
    }
    if (written.arguments.empty()) {
      fail(written.column,
           std::string(written.name) + " needs at least one commit rule, such as threshold(0.9)");
    }
    for (std::size_t i = 0; i < written.arguments.size(); ++i) {
      const argument_text& a = written.arguments[i];
      if (!a.name.empty() || a.value.is != value_text::kind::part) {
        fail(a.value.column,
             std::string(written.name) + " joins commit rules, such as threshold(0.9), got " +
                 detail::quoted((a.name.empty() ? "" : std::string(a.name) + "=") +
                                std::string(a.value.text)));
      }
      commit(*a.value.part);
      if (i > 0) {
        parts_.commit_rule.join(written.name == "all_of");
      }
    }
  }

  // Reads at_most(count, rule), which counts as a part before the parts of the rule.
  void limit(const part_text& written) {
    const std::vector<argument_text>& a = written.arguments;
    if (a.size() != 2 || !(a[0].name.empty() || a[0].name == "count") || !a[1].name.empty() ||
        a[1].value.is != value_text::kind::part) {
      fail(written.column,
           "at_most needs a number and a commit rule, such as at_most(8, threshold(0.9))");
    }
    const knob_range range = commit_limit::knobs[0].range;
    const double count = a[0].value.number;
    if (a[0].value.is != value_text::kind::number || std::floor(count) != count ||
        !(count < no_token) || !range.holds(count)) {
      fail(a[0].value.column,
           "count of at_most must be a whole number, " + range_text(range) + ", got " +
               plain_or_quoted(a[0].value.text));
    }
    const index_t text_index = parts_.count++;
    commit(*a[1].value.part);
    if (parts_.commit_rule.limits() == commit_rule_expression::counters) {
      fail(written.column,
           "a commit rule has at most " + std::to_string(commit_rule_expression::counters) +
               " at_most, got another");
    }
    parts_.commit_rule.limit({static_cast<index_t>(count)}, text_index);
  }

  // Checks compatibility with the rules of policies composed of types. The error is at the part
  // that breaks a rule which the parts before it satisfy.
  void check_together() const {
    for (const composition_rule& rule : all_composition_rules::all) {
      composition together;
      const note* by = nullptr;
      for (const note& n : notes_) {
        const bool held = rule.holds(together);
        together.add(n.part->traits);
        if (held && !rule.holds(together)) {
          by = &n;
        }
      }
      if (!rule.holds(together)) {
        fail(by->column, std::string(rule.why));
      }
    }
  }

  // An expression has one state of each of its types, and one profile; a part of several stages is
  // in one place of each.
  void check_states() const {
    for (const note& n : notes_) {
      const bool has_place =
          n.part->traits.commits && (n.part->traits.remembers || reads_file(*n.part) ||
                                     table::has_one_place(n.part->name, proper_own_parts{}));
      for (const note* before = notes_.data(); has_place && before != &n; ++before) {
        if (before->part == n.part) {
          fail(n.column,
               "a policy by name has at most one " + std::string(n.part->name) + ", got another");
        }
      }
    }
  }

  [[nodiscard]] static bool reads_file(const known_part& part) {
    return !part.arguments.empty() && part.arguments[0].kind == knob_kind::file;
  }

  std::string_view text_;
  const file_source& files_;
  named_policy parts_;
  std::vector<note> notes_;
  bool decides_alone_ = false;  // a part rewrites blocks
  std::vector<taken_stage> taken_;
  std::string_view method_;  // of the parts that are being read
};

}  // namespace detail

UNMASK_LIBRARY named_policy read_policy(std::string_view text, const file_source& files) {
  return detail::policy_reader(text, files).read();
}

UNMASK_LIBRARY std::string signature_of(const known_part& part) {
  std::string text(part.name);
  for (const part_argument& a : part.arguments) {
    const std::string value = default_text(a);
    text += (&a == part.arguments.data() ? "(" : ", ") + std::string(a.name) +
            (value.empty() ? "" : "=" + value);
  }
  return text + (part.arguments.empty() ? "" : ")");
}

UNMASK_LIBRARY std::string describe_parts() {
  std::string text;
  for (const known_part& part : known_parts()) {
    text += signature_of(part) + "\n    " + std::string(to_string(part.stage)) + ": " +
            std::string(part.about) + "\n";
    for (const part_argument& a : part.arguments) {
      text += "    " + std::string(a.name) + ": " + rule_text(a) + "\n";
    }
  }
  for (const known_method& method : known_methods()) {
    text += std::string(method.name) + "\n    method: " + std::string(method.about) +
            "\n    = " + std::string(method.text) + "\n";
  }
  return text;
}

UNMASK_LIBRARY std::span<const known_part> known_parts() {
  return detail::part_registry::of_process().known();
}

UNMASK_LIBRARY std::span<const known_method> known_methods() {
  return detail::table::methods;
}

UNMASK_LIBRARY std::span<const known_model> known_models() {
  return detail::table::models;
}

UNMASK_LIBRARY std::optional<known_method> find_method(std::string_view name) {
  for (const known_method& m : known_methods()) {
    if (m.name == name) {
      return m;
    }
  }
  const known_model* const model = name.rfind("model:", 0) == 0 ? find_model(name) : nullptr;
  return model == nullptr ? std::nullopt : std::optional(model->method());
}

UNMASK_LIBRARY const known_model* find_model(std::string_view word) {
  for (const known_model& m : known_models()) {
    if (word == m.word || word == m.name()) {
      return &m;
    }
  }
  return nullptr;
}

UNMASK_LIBRARY const known_model* model_of(std::string_view type, std::string_view checkpoint) {
  const auto plain = [](std::string_view name) {
    std::string small(name);
    for (char& c : small) {
      c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c == '-' ? '_' : c);
    }
    return small;
  };
  const std::string wanted = "|" + plain(type) + "|";
  const std::string weights = plain(checkpoint);
  for (const known_model& m : known_models()) {
    if (!m.types.empty() && type.find('|') == type.npos &&
        ("|" + plain(m.types) + "|").find(wanted) != std::string::npos &&
        weights.find(plain(m.checkpoint)) != std::string::npos) {
      return &m;
    }
  }
  return nullptr;
}

UNMASK_LIBRARY sequence_shape shape_of(const known_model& model,
                                       index_t prompt_length,
                                       index_t answer_length) {
  check_argument(prompt_length >= 0, "prompt_length", prompt_length, "at least 0");
  check_argument(answer_length >= 0, "answer_length", answer_length, "at least 0");
  const index_t answer = answer_length > 0 ? answer_length : model.answer_length;
  check_argument(prompt_length <= max_length - answer && answer <= max_length,
                 "prompt_length + answer_length",
                 std::int64_t{prompt_length} + answer,
                 "at most max_length = ",
                 max_length);
  sequence_shape shape{.prompt_length = prompt_length, .length = prompt_length + answer};
  shape.block_length = model.block_length > 0 ? model.block_length : math::max(answer, index_t{1});
  shape.length += math::min(model.beyond, max_length - shape.length);
  if (model.whole_blocks) {
    const index_t over = shape.length % shape.block_length;
    shape.length += over > 0 ? shape.block_length - over : 0;
  }
  return shape;
}

UNMASK_LIBRARY std::string describe_models() {
  std::string text;
  for (const known_model& m : known_models()) {
    text += std::string(m.word) + "\n    " + std::string(m.models) +
            "\n    = " + std::string(m.text) + "\n    ";
    text += m.block_length > 0 ? "blocks of " + std::to_string(m.block_length) : "one block";
    text += ", answer of " + std::to_string(m.answer_length);
    text += m.whole_blocks ? " in whole blocks" : "";
    text += m.beyond > 0 ? ", decodes " + std::to_string(m.beyond) + " positions beyond it" : "";
    text += m.mask_token != no_token ? ", mask token " + std::to_string(m.mask_token) : "";
    const char* before = ", EOS token ";
    for (const token_id eos : m.eos_tokens) {
      if (eos != no_token) {
        text += before + std::to_string(eos);
        before = " or ";
      }
    }
    text += m.logits_shift > 0 ? ", logits shift " + std::to_string(m.logits_shift) : "";
    text += m.proposes_mask ? ", may propose the mask token" : "";
    text += "\n    from " + std::string(m.source) + ", read on " + std::string(m.date) + "\n";
  }
  return text;
}

}  // namespace unmask

#endif
