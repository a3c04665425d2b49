// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The lines of commit_rules.jsonl and stats.jsonl as structs. Any folder of the same schema reads
/// the same way; a line of another shape throws `schema_error`.

#include <unmask/core/types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/hash_logits.hpp"
#include "goldens/json_node.hpp"
#include "goldens/shared_fields.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// The path of a golden file: below the folder that the environment variable UNMASK_GOLDENS names,
/// else below the compiled-in test data.
[[nodiscard]] inline std::string golden_file(const std::string& name) {
  const char* folder = std::getenv("UNMASK_GOLDENS");
  return (folder != nullptr ? std::string(folder) : std::string(UNMASK_TEST_DATA "/goldens")) +
         "/" + name;
}

/// Positions [start, end).
struct range {
  int start = 0;
  int end = 0;
  friend bool operator==(const range&, const range&) = default;
};

struct commit {
  int position = 0;
  token value = 0;
  friend bool operator==(const commit&, const commit&) = default;
};

/// Additional fields of dinfer.credit per masked position: argmax and probability of the fused
/// logits.
struct fused_prediction {
  int position = 0;
  token value = 0;
  double probability = 0;
};

/// One forward, seen by one sequence.
struct step {
  range block;
  int n_masked = 0;
  std::vector<commit> commits;  ///< every token that changed, sorted by position
  std::uint64_t logits_sum = 0;
  double min_margin = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not given
  std::vector<fused_prediction> fused;                           ///< dinfer.credit only
  std::vector<int> transfer;        ///< dinfer.hierarchy_remask only: positions written
  std::optional<double> threshold;  ///< dynamic.apd, one for all positions
  /// dynamic.apd, one a position; the recording ends after some forwards.
  std::vector<std::pair<int, double>> thresholds;
};

/// One sequence and everything that happened to it. A line has several with `batch` > 1 only.
struct sequence {
  fake_model model;
  tokens prompt;
  tokens start;  ///< the tokens before the first forward: prompt then masks, or `x_before`
  tokens final;
  std::vector<step> steps;

  /// The tokens before step k, over the whole final length. (SGLang's model gets only the part
  /// up to the end of that step's block: `std::span(x).first(block.end)`.)
  [[nodiscard]] tokens state_before(std::size_t k) const {
    tokens x = start;
    for (std::size_t s = 0; s < k; ++s) {
      for (const commit& change : steps[s].commits) {
        x[static_cast<std::size_t>(change.position)] = change.value;
      }
    }
    return x;
  }
};

/// dinfer.credit, label `reused_decoder`: what the decoder object generated before this line.
struct earlier_generation {
  fake_model model;
  tokens prompt;
  tokens final;
  std::vector<std::pair<range, int>> stale_blocks;  ///< blocks with credit left, and iterations
};

/// A line of commit_rules.jsonl.
struct commit_line {
  std::string where;  ///< file:line, for messages
  std::string id;
  std::string rule;
  std::string kind;  ///< "loop": a whole generation; "step": a single call
  std::string dtype;
  std::vector<std::string> labels;
  json args;
  int nfe = 0;
  std::vector<sequence> sequences;
  std::optional<earlier_generation> reused_decoder;

  [[nodiscard]] bool has_label(const std::string& label) const {
    return std::find(labels.begin(), labels.end(), label) != labels.end();
  }
  /// Whether probabilities are bf16 numbers: bf16 logits and a softmax in their dtype. (dInfer and
  /// Fast-dLLM widen the logits first.)
  [[nodiscard]] bool bf16_softmax() const {
    return dtype.rfind("bf16 logits", 0) == 0 && dtype.find("softmax f") == std::string::npos;
  }
  [[nodiscard]] bool starts_with(const std::string& family) const {
    return rule.rfind(family, 0) == 0;
  }
};

namespace detail {

template <class First, class Second>
std::pair<First, Second> read_pair(const node& n) {
  return {n.at(0).template get<First>(), n.at(1).template get<Second>()};
}

inline range read_range(const node& n) {
  return {n.at(0).get<int>(), n.at(1).get<int>()};
}

inline commit read_commit(const node& n) {
  return {n.at(0).get<int>(), n.at(1).get<token>()};
}

/// The part of a step that belongs to one sequence; `entry` is the step itself or one of `seqs`.
inline step read_step(const node& whole, const node& entry) {
  step s;
  s.block = read_range(whole.at("block"));
  s.n_masked = entry.get<int>("n_masked");
  s.commits = entry.list("commits", read_commit);
  s.logits_sum = entry.hex("logits_sum");
  s.min_margin = entry.get_or("min_margin", s.min_margin);
  if (entry.has("fused")) {
    s.fused = entry.list("fused", [](const node& n) {
      return fused_prediction{n.at(0).get<int>(), n.at(1).get<token>(), n.at(2).get<double>()};
    });
  }
  s.transfer = entry.get_or("transfer", std::vector<int>{});
  if (entry.has("threshold")) {
    s.threshold = entry.get<double>("threshold");
  }
  if (entry.has("thresholds")) {
    s.thresholds = entry.list("thresholds", read_pair<int, double>);
  }
  return s;
}

}  // namespace detail

/// "3=7 4=1" for tokens 7 and 1 at positions 3 and 4.
[[nodiscard]] inline std::string text_of(const std::vector<commit>& commits) {
  std::string list;
  for (const commit& c : commits) {
    list += text(list.empty() ? "" : " ", c.position, "=", c.value);
  }
  return list.empty() ? "nothing" : list;
}

/// The positions in an array of a line.
[[nodiscard]] inline std::vector<index_t> read_positions(const node& n, const std::string& key) {
  return n.list(key, [](const node& p) { return p.get<index_t>(); });
}

/// The `model` of a line (also of lopa.jsonl, es_dllm.jsonl and dynamic_dllm.jsonl).
[[nodiscard]] inline fake_model read_model(const node& n) {
  fake_model m;
  read_shared_fields(n, m);
  m.logits_shift = n.get<int>("row_shift");
  m.dup = n.list("dup", detail::read_pair<int, int>);
  m.mask_pref = n.list("mask_pref", detail::read_pair<int, int>);
  m.suppress = n.get_or("suppress", tokens{});
  const auto dtype = n.get<std::string>("logit_dtype");
  if (dtype != "f32" && dtype != "bf16") {
    n.at("logit_dtype").fail("expected f32 or bf16, not " + dtype);
  }
  m.bf16 = dtype == "bf16";
  if (m.V < 1 || m.v_eff < 2 || m.a_rng == 0 || m.j_rng == 0 || m.r_rng == 0) {
    n.fail("V, v_eff, a_rng, j_rng and r_rng must be positive, v_eff at least 2");
  }
  return m;
}

[[nodiscard]] inline commit_line read_commit_line(const node& n) {
  commit_line line;
  line.where = n.where();
  line.id = n.get<std::string>("id");
  line.rule = n.get<std::string>("rule");
  line.kind = n.get<std::string>("kind");
  line.dtype = n.get<std::string>("dtype");
  line.labels = n.get<std::vector<std::string>>("labels");
  line.args = n.at("args").raw();
  line.nfe = n.get<int>("nfe");

  const bool batched = n.at("model").is_array();
  const std::size_t count = batched ? n.at("model").size() : 1;
  const auto member = [&](const std::string& key, std::size_t b) {
    return batched ? n.at(key).at(b) : n.at(key);
  };
  for (std::size_t b = 0; b < count; ++b) {
    sequence s;
    s.model = read_model(member("model", b));
    s.prompt = member("prompt", b).get<tokens>();
    s.final = member("final", b).get<tokens>();
    s.start = s.prompt;
    s.start.resize(s.final.size(), s.model.mask_id);
    if (n.has("x_before")) {
      s.start = n.get<tokens>("x_before");
    }
    if (s.start.size() != s.final.size() || s.prompt.size() > s.final.size()) {
      n.fail("prompt, x_before and final disagree in length");
    }
    s.steps = n.list("steps", [&](const node& whole) {
      return detail::read_step(whole, batched ? whole.at("seqs").at(b) : whole);
    });
    line.sequences.push_back(std::move(s));
  }
  if (n.has("reused_decoder")) {
    const node r = n.at("reused_decoder");
    line.reused_decoder =
        earlier_generation{read_model(r.at("first_model")),
                           r.get<tokens>("first_prompt"),
                           r.get<tokens>("first_final"),
                           r.list("stale_blocks", [](const node& e) {
                             return std::pair{detail::read_range(e.at(0)), e.at(1).get<int>()};
                           })};
  }
  return line;
}

[[nodiscard]] inline std::vector<commit_line> read_commit_lines(const std::string& path) {
  std::vector<commit_line> lines;
  for (const node& n : read_json_lines(path)) {
    lines.push_back(read_commit_line(n));
  }
  return lines;
}

/// The expected statistics of a row at one temperature.
struct stats_result {
  double temperature = 1;
  int argmax = 0;
  int n_max = 0;
  double max_logit = 0;
  double second_logit = 0;  ///< minus infinity where there is no finite runner-up
  double p_max = 0;
  double p_second = 0;
  double margin = 0;
  double entropy = 0;
  double neg_entropy_eps = 0;
  double logsumexp = 0;
  double sum_exp = 0;
  double sum_p2 = 0;
};

/// A line of stats.jsonl.
struct stats_line {
  std::string where;
  std::string id;
  std::vector<std::string> labels;
  stats_row_spec row;
  std::uint64_t bits_sum = 0;
  std::vector<stats_result> results;
};

namespace detail {

/// JSON has no infinities; the schema writes them as strings.
inline double read_real(const node& n) {
  if (!n.raw().is_string()) {
    return n.get<double>();
  }
  const auto text = n.get<std::string>();
  if (text != "inf" && text != "-inf") {
    n.fail("expected a number, \"inf\" or \"-inf\"");
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : -infinity;
}

inline stats_result read_stats_result(const node& n) {
  stats_result r;
  r.temperature = n.get<double>("temperature");
  r.argmax = n.get<int>("argmax");
  r.n_max = n.get<int>("n_max");
  r.max_logit = read_real(n.at("max_logit"));
  r.second_logit = read_real(n.at("second_logit"));
  r.p_max = read_real(n.at("p_max"));
  r.p_second = read_real(n.at("p_second"));
  r.margin = read_real(n.at("margin"));
  r.entropy = read_real(n.at("entropy"));
  r.neg_entropy_eps = read_real(n.at("neg_entropy_eps"));
  r.logsumexp = read_real(n.at("logsumexp"));
  r.sum_exp = read_real(n.at("sum_exp"));
  r.sum_p2 = read_real(n.at("sum_p2"));
  return r;
}

}  // namespace detail

[[nodiscard]] inline stats_line read_stats_line(const node& n) {
  stats_line line;
  line.where = n.where();
  line.id = n.get<std::string>("id");
  line.labels = n.get<std::vector<std::string>>("labels");
  line.bits_sum = n.hex("bits_sum");
  line.results = n.list("results", detail::read_stats_result);
  stats_row_spec& row = line.row;
  row.seed = n.get<std::uint64_t>("seed");
  row.V = n.get<int>("V");
  row.q = n.get<int>("q");
  row.exp2 = n.get<int>("exp2");
  row.offset = n.get<std::int64_t>("offset");
  row.all_equal = n.get<bool>("all_equal");
  row.bf16 = n.get<std::string>("dtype") == "bf16";
  row.boosts = n.list("boosts", detail::read_pair<int, std::int64_t>);
  if (n.has("tie_at")) {
    row.tie_at.push_back(detail::read_pair<int, int>(n.at("tie_at")));
  }
  if (n.has("neginf")) {
    const node masking = n.at("neginf");
    if (masking.raw().is_string() && masking.get<std::string>() == "eighth") {
      row.neginf = stats_row_spec::masking::eighth;
    } else {
      row.neginf = stats_row_spec::masking::keep_one;
      row.kept = masking.get<int>();
    }
  }
  return line;
}

[[nodiscard]] inline std::vector<stats_line> read_stats_lines(const std::string& path) {
  std::vector<stats_line> lines;
  for (const node& n : read_json_lines(path)) {
    lines.push_back(read_stats_line(n));
  }
  return lines;
}

}  // namespace unmask::goldens
