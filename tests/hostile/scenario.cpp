// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/scenario.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace unmask::hostile {

namespace {

using testing::dice;
using testing::mixed;

/// Whether a policy ends though the mask token is never committed.
bool has_small_budget(const written_policy& policy) {
  return std::any_of(policy.begin(), policy.end(), [](const written_part& p) {
    return p.name == "canvas" ||
           (p.name == "max_steps" && p.arguments.size() == 1 && p.arguments[0].size() <= 2);
  });
}

model_info random_model(dice& d, case_size size) {
  model_info m;
  const int n = size == case_size::small ? d.within(0, 29) : d.within(0, 99);
  m.vocab = n < 3 ? 2 : n < 12 ? 3 : n < 30 ? 7 : n < 60 ? 33 : n < 95 ? 64 : n < 98 ? 2049 : 4100;
  m.mask_token = d.chance(0.5) ? m.vocab - 1 : d.within(0, m.vocab - 1);
  m.logits_shift = d.chance(0.3) ? 1 : 0;
  m.layers = d.within(1, 5);
  m.causal_attention = m.shadow_attention = d.chance(0.97);
  if (m.vocab > 2 && d.chance(0.6)) {
    m.eos_token = (m.mask_token + d.within(1, m.vocab - 1)) % m.vocab;
  }
  return m;
}

sequence_plan random_sequence(
    dice& d, const model_info& model, case_size size, bool many_rows, index_t least_prompt) {
  sequence_plan s;
  const bool is_small = size == case_size::small;
  s.shape.prompt_length = d.chance(0.3) ? least_prompt : d.within(1, is_small ? 3 : 9);
  const index_t answer = d.chance(0.03)  ? 0
                         : d.chance(0.1) ? 1
                         : many_rows     ? d.within(130, 150)
                                         : d.within(1,
                                                is_small             ? 6
                                                    : model.vocab > 2000 ? 14
                                                                         : 34);
  s.shape.length = std::max(s.shape.prompt_length + answer, 1);
  s.shape.block_length = many_rows       ? 4096
                         : is_small      ? d.within(1, 7)
                         : d.chance(0.1) ? 1
                         : d.chance(0.3)
                             ? d.one_of(std::vector<index_t>{64, 1000, 1 << 30, 2147483647})
                             : d.within(1, 12);
  s.shape.seed = d.bits();
  s.shape.sequence = static_cast<std::uint32_t>(d.bits());
  s.spare = d.chance(0.2) ? d.within(1, 5) : 0;
  if (d.chance(0.3)) {
    const double share = d.chance(0.1) ? 0.0 : d.chance(0.1) ? 1.0 : double(d.real(0.0, 1.0));
    for (index_t p = 0; p < s.shape.length; ++p) {
      s.editable.push_back(d.chance(share) ? 1 : 0);
    }
    if (d.chance(0.3)) {
      const double committed = double(d.real(0.0, 1.0));
      for (std::uint8_t& is : s.editable) {
        is = d.chance(committed) ? 2 : is;
      }
    }
  }
  if (d.chance(0.25)) {
    const index_t most = std::min(model.vocab - 2, 15);  // one token is left, beside the mask
    for (index_t n = most > 0 ? d.within(1, most) : 0; n > 0; --n) {
      s.suppressed.push_back(d.within(0, model.vocab - 1));
    }
  }
  s.soft_tokens = d.chance(0.2) ? d.within(1, 5) : 0;
  s.joins = d.chance(0.4) ? d.within(1, 12) : 0;
  s.cancels = d.chance(0.07) ? d.within(0, 6) : -1;
  s.cancels_in_pass = s.shape.seed % 2 == 1;
  return s;
}

field_plan random_field(dice& d, index_t first, index_t last, const testing::language& l) {
  field_plan f;
  f.first = first;
  f.last = last;
  f.fill = d.chance(0.7);
  f.read_again = d.chance(0.3);
  if (d.chance(0.3)) {
    f.tokens_after = d.chance(0.2) ? any_number : d.within(1, 3);
  }
  if (d.chance(0.2)) {
    for (int tries = 0; tries < 8; ++tries) {  // a random token seldom continues a string
      f.before.push_back(d.within(0, l.model.vocab - 1));
      if (l.walk(f.before) == dead_state) {
        f.before.pop_back();
      }
    }
  }
  return f;
}

/// Fields of an answer: all of it, a part, or two parts with a free position between them.
std::vector<field_plan> random_fields(dice& d, const sequence_plan& q, const testing::language& l) {
  const index_t answer = q.shape.length - q.shape.prompt_length;
  const auto field = [&](index_t first, index_t last) { return random_field(d, first, last, l); };
  if (d.chance(0.6)) {
    return {field(0, answer)};
  }
  const index_t middle = d.within(0, answer);
  std::vector<field_plan> all = {field(d.within(0, middle), middle)};
  if (middle < answer && d.chance(0.5)) {
    all.push_back(field(middle + 1, answer));
  }
  return all;
}

/// Several short fields with free text before, between and after them.
std::vector<field_plan>
several_fields(dice& d, const sequence_plan& q, const testing::language& l) {
  const index_t answer = q.shape.length - q.shape.prompt_length;
  std::vector<field_plan> all;
  for (index_t at = d.within(0, 3); at < answer && all.size() < 5;) {
    const index_t last = std::min(at + d.within(1, 5), answer);
    all.push_back(random_field(d, at, last, l));
    at = last + d.within(0, 3);
  }
  return all;
}

}  // namespace

scenario
random_scenario(std::uint64_t seed, std::uint64_t number, case_size size, drawn_parts parts) {
  dice d(mixed(seed, number));
  scenario s = random_scenario(d, size, parts);
  s.seed = seed;
  s.number = number;
  return s;
}

scenario random_scenario(dice& d, case_size size, drawn_parts parts) {
  scenario s;
  s.model = random_model(d, size);
  // So many logits that a session shares them among threads, of many rows or of long ones.
  const bool is_large = size == case_size::any && d.chance(0.004);
  const bool many_rows = is_large && d.chance(0.5);
  if (is_large) {
    s.model.vocab = many_rows ? 4100 : 60'001;
    s.model.mask_token = 5;
    s.model.eos_token = d.chance(0.5) ? 7 : no_token;
  }
  s.policy = random_policy(d, s.model, parts);
  if (is_large) {
    s.policy.push_back({"max_steps", {std::to_string(d.within(2, 5))}, {}});
  }
  s.model.suppress_mask = !(has_small_budget(s.policy) && d.chance(0.3));
  const int most = size == case_size::small ? 2 : 4;
  const int count = is_large ? 1 : d.chance(0.5) ? d.within(2, most) : 1;
  const bool reads_prompt =
      std::any_of(s.policy.begin(), s.policy.end(), [](const written_part& p) {
        return p.name == "self_speculation";
      });
  for (int i = 0; i < count; ++i) {
    s.sequences.push_back(random_sequence(d, s.model, size, many_rows, reads_prompt ? 1 : 0));
  }
  if (d.chance(0.25)) {
    s.language = testing::random_language(d, s.model, 6);
    for (sequence_plan& q : s.sequences) {
      // Tokens that are given rarely fit.
      if (d.chance(q.editable.empty() ? 0.8 : 0.2)) {
        q.fields = random_fields(d, q, *s.language);
      }
    }
  }
  s.slots = d.within(1, count + (d.chance(0.2) ? 2 : 0));
  s.engine = random_engine(d);
  // More often with a constraint: both exclude tokens.
  s.engine.has_grammar = s.engine.has_grammar || (s.language && d.chance(0.3));
  s.kind = static_cast<element_kind>(d.within(0, 2));
  s.padding = d.chance(0.5) ? d.within(1, 40) : 0;
  s.offset = d.chance(0.5) ? d.within(1, 5) : 0;
  s.tight = d.chance(0.6);
  // Several fields, and a part that stops at an EOS token.
  if (s.language && s.model.eos_token != no_token && d.chance(0.3)) {
    for (sequence_plan& q : s.sequences) {
      q.fields = q.fields.empty() ? q.fields : several_fields(d, q, *s.language);
    }
    if (!names(s.policy, "stop_at_eos") && d.chance(0.7)) {
      s.policy.push_back({"stop_at_eos", {}, {}});
    }
    s.engine.moods[static_cast<std::size_t>(mood::ends)] += d.chance(0.5) ? 1.0 : 0.0;
  }
  // Text that moves, and an end before all is decided.
  const bool moves = names(s.policy, "daedal") || names(s.policy, "rho_eos") ||
                     names(s.policy, "joint_threshold_indel");
  if (moves && !names(s.policy, "max_steps") && d.chance(0.3)) {
    s.policy.push_back({"max_steps", {std::to_string(d.within(1, 6))}, {}});
  }
  return s;
}

std::string description(const scenario& s) {
  std::ostringstream out;
  const model_info& m = s.model;
  out << "  policy     " << text_of(s.policy) << "\n  model      vocab " << m.vocab << ", mask "
      << m.mask_token << ", end ";
  if (m.eos_token == no_token) {
    out << "none";
  } else {
    out << m.eos_token;
  }
  out << ", logits_shift " << m.logits_shift << ", layers " << m.layers << ", suppress_mask "
      << m.suppress_mask << "\n  session    " << s.slots << " slots, capacity "
      << (s.tight ? "tight" : "wide") << ", "
      << (s.kind == element_kind::f32    ? "f32"
          : s.kind == element_kind::bf16 ? "bf16"
                                         : "f16")
      << ", padding " << s.padding << ", offset " << s.offset << "\n  engine     moods";
  for (const double w : s.engine.moods) {
    out << ' ' << w;
  }
  out << ", doomed " << s.engine.doomed << (s.engine.restless ? ", restless" : "");
  if (s.engine.has_grammar) {
    out << ", grammars" << (s.engine.restless_grammar ? " (restless)" : "");
    for (const double w : s.engine.grammars) {
      out << ' ' << w;
    }
  }
  if (s.engine.has_guidance) {
    out << ", guidance " << s.engine.cfg_scale;
  }
  if (s.language) {
    out << "\n  language   " << s.language->bytes.accepting.size() << " states, starts in "
        << s.language->bytes.start;
  }
  for (const sequence_plan& q : s.sequences) {
    out << "\n  sequence   prompt " << q.shape.prompt_length << ", length " << q.shape.length
        << ", block " << q.shape.block_length << ", seed " << q.shape.seed << ", sequence "
        << q.shape.sequence << ", spare " << q.spare << ", joins " << q.joins << ", cancels "
        << q.cancels << (q.cancels_in_pass ? " in the pass" : "");
    if (!q.editable.empty()) {
      out << ", editable ";
      for (const std::uint8_t e : q.editable) {
        out << int(e);
      }
    }
    if (q.soft_tokens > 0) {
      out << ", soft tokens " << q.soft_tokens;
    }
    for (const field_plan& f : q.fields) {
      out << ", field [" << f.first << ", " << f.last << ")" << (f.fill ? "" : " without filling")
          << (f.read_again ? ", read again" : "");
      if (f.tokens_after != 0) {
        out << ", tokens after it " << f.tokens_after;
      }
      for (std::size_t k = 0; k < f.before.size(); ++k) {
        out << (k == 0 ? ", before it " : " ") << f.before[k];
      }
    }
    if (!q.suppressed.empty()) {
      out << ", suppressed";
      for (const token_id v : q.suppressed) {
        out << ' ' << v;
      }
    }
  }
  out << '\n';
  return out.str();
}

std::vector<scenario> smaller(const scenario& s) {
  std::vector<scenario> all;
  const auto with = [&](const auto& change) {
    scenario less = s;
    change(less);
    all.push_back(less);
  };
  for (std::size_t i = 0; s.sequences.size() > 1 && i < s.sequences.size(); ++i) {
    with([&](scenario& x) { x.sequences.erase(x.sequences.begin() + std::ptrdiff_t(i)); });
  }
  for (const written_policy& p : shorter(s.policy)) {
    with([&](scenario& x) { x.policy = p; });
  }
  for (std::size_t i = 0; i < s.sequences.size(); ++i) {
    const sequence_plan& q = s.sequences[i];
    const auto change = [&](const auto& of_one) {
      with([&](scenario& x) { of_one(x.sequences[i]); });
    };
    const auto cut = [&](index_t length) {
      if (length < q.shape.length && length > q.shape.prompt_length) {
        change([&](sequence_plan& y) {
          y.shape.length = length;
          y.editable.resize(y.editable.empty() ? 0 : std::size_t(length));
        });
      }
    };
    cut(q.shape.prompt_length + (q.shape.length - q.shape.prompt_length) / 2);
    cut(q.shape.length - 1);
    if (q.shape.prompt_length > 0) {
      change([](sequence_plan& y) {
        --y.shape.prompt_length;
        --y.shape.length;
        if (!y.editable.empty()) {
          y.editable.erase(y.editable.begin());
        }
      });
    }
    if (!q.editable.empty()) {
      change([](sequence_plan& y) { y.editable.clear(); });
    }
    if (!q.suppressed.empty()) {
      change([](sequence_plan& y) { y.suppressed.pop_back(); });
    }
    if (q.soft_tokens > 0) {
      change([](sequence_plan& y) { --y.soft_tokens; });
    }
    for (std::size_t k = 0; k < q.fields.size(); ++k) {
      change([k](sequence_plan& y) { y.fields.erase(y.fields.begin() + std::ptrdiff_t(k)); });
      if (q.fields[k].fill) {
        change([k](sequence_plan& y) { y.fields[k].fill = false; });
      }
      if (q.fields[k].read_again) {
        change([k](sequence_plan& y) { y.fields[k].read_again = false; });
      }
      if (q.fields[k].tokens_after != 0) {
        change([k](sequence_plan& y) { y.fields[k].tokens_after = 0; });
      }
      if (!q.fields[k].before.empty()) {
        change([k](sequence_plan& y) { y.fields[k].before.pop_back(); });
      }
    }
    if (q.joins > 0) {
      change([](sequence_plan& y) { y.joins = 0; });
    }
    if (q.cancels >= 0) {
      change([](sequence_plan& y) { y.cancels = -1; });
    }
    if (q.spare > 0) {
      change([](sequence_plan& y) { y.spare = 0; });
    }
  }
  if (s.slots > 1) {
    with([](scenario& x) { x.slots = 1; });
  }
  if (s.padding > 0 || s.offset > 0) {
    with([](scenario& x) { x.padding = x.offset = 0; });
  }
  if (s.kind != element_kind::f32) {
    with([](scenario& x) { x.kind = element_kind::f32; });
  }
  if (s.model.logits_shift > 0) {
    with([](scenario& x) { x.model.logits_shift = 0; });
  }
  if (s.engine.has_grammar) {
    with([](scenario& x) { x.engine.has_grammar = false; });
  }
  if (s.engine.has_guidance) {
    with([](scenario& x) { x.engine.has_guidance = false; });
  }
  if (s.engine.doomed > 0.0) {
    with([](scenario& x) { x.engine.doomed = 0.0; });
  }
  if (s.engine.restless) {
    with([](scenario& x) { x.engine.restless = false; });
  }
  for (std::size_t k = 1; k < s.engine.moods.size(); ++k) {
    if (s.engine.moods[k] > 0.0) {
      with([&](scenario& x) { x.engine.moods[k] = 0.0; });
    }
  }
  return all;
}

}  // namespace unmask::hostile
