// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/es_dllm.hpp"

#include <unmask/policy/presets/released.hpp>
#include <unmask/session.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "goldens/lines.hpp"
#include "goldens/place.hpp"
#include "goldens/witness.hpp"

namespace unmask::goldens {

namespace {

using placed_number = std::pair<index_t, float>;  ///< a position and a number

std::vector<placed_number> read_placed(const node& n, const std::string& key) {
  return n.list(key, [](const node& pair) {
    return placed_number{pair.at(0U).get<index_t>(), pair.at(1U).get<float>()};
  });
}

/// The weights that a recorded score may be off by: ten roundings of single precision, or, where
/// the release computes in bf16 and the library does not, the five roundings of its formula.
struct tolerance {
  float relative = 2e-6F;

  [[nodiscard]] static tolerance of(bool bf16) { return {bf16 ? 5.0F * 0x1p-9F : 2e-6F}; }
  [[nodiscard]] bool agrees(float got, float expected) const {
    return std::abs(got - expected) <= relative * std::max(1.0F, std::abs(expected));
  }
};

template <class T>
T stored(float x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round_to_bf16(x)) >> 16U)};
  } else {
    return x;
  }
}

/// A row of features of one position.
template <class T>
void append_feature(std::vector<T>& rows,
                    std::uint64_t seed,
                    index_t layer,
                    index_t version,
                    index_t position,
                    index_t width) {
  for (index_t d = 0; d < width; ++d) {
    rows.push_back(stored<T>(feature(seed,
                                     es_stride,
                                     static_cast<std::uint64_t>(layer),
                                     static_cast<std::uint64_t>(version),
                                     static_cast<std::uint64_t>(position),
                                     static_cast<std::uint64_t>(d))));
  }
}

/// The first difference between two selections, up to positions whose recorded scores are equal to
/// that of the last one selected, within the tolerance.
std::string selection_difference(std::vector<index_t> got,
                                 const std::vector<index_t>& expected,
                                 const std::map<index_t, float>& scores,
                                 const tolerance& near) {
  const std::set<index_t> wanted(expected.begin(), expected.end());
  float last = scores.empty() ? 0.0F : scores.at(*wanted.begin());
  for (const index_t p : wanted) {
    last = std::min(last, scores.at(p));
  }
  if (got.size() != wanted.size()) {
    return text("selected ", got.size(), " positions, expected ", wanted.size());
  }
  for (const index_t p : got) {
    if (!wanted.contains(p) && !near.agrees(scores.at(p), last)) {
      return text("selected ", p, ", which was not");
    }
  }
  return {};
}

template <class T>
verdict select(const node& line) {
  const node args = line.at("args");
  const auto width = args.get<index_t>("D");
  const auto seed = line.get<std::uint64_t>("seed");
  const tolerance near = tolerance::of(std::is_same_v<T, bfloat16>);
  auto rule = released::early_skip_released(args.get<float>("alpha"));
  using step_reduction = decltype(rule)::layer_reduction;
  std::map<index_t, float> bonus;
  for (const auto& [position, value] : read_placed(line, "constant")) {
    bonus[position] = value;
  }
  std::map<index_t, float> confidence;
  for (const auto& [position, value] : read_placed(line, "last_confidence")) {
    confidence[position] = math::to_float(stored<T>(value));
  }
  const decltype(rule)::position_state none;
  const no_state nothing;
  const step_info at;

  const node layers = line.at("layers");
  for (std::size_t k = 0; k < layers.size(); ++k) {
    const node layer = layers.at(k);
    const auto positions = read_positions(layer, "positions");
    const auto expected =
        layer.list("scores", [](const node& score) { return score.get<float>(); });
    const auto index = layer.get<index_t>("layer");
    std::vector<T> now;
    std::vector<T> before;
    for (const index_t p : positions) {
      append_feature(now, seed, index, 1, p, width);
      append_feature(before, seed, index, 0, p, width);
    }
    layer_info info;
    std::vector<layer_row> rows;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto from = i * static_cast<std::size_t>(width);
      layer_row row;
      row.position = positions[i];
      row.drift = rule.measure(host::drift<decltype(rule)::measures>(
          now.data() + from, before.data() + from, width, host::best_instruction_set()));
      info.largest = std::max(info.largest, row.drift);
      rows.push_back(row);
    }
    const auto state_of = [&](const layer_row& row) {
      decltype(rule)::position_state state = none;
      state.confidence = confidence.contains(row.position) ? confidence[row.position] : 0.0F;
      return state;
    };
    step_reduction best;
    for (const layer_row& row : rows) {
      const auto state = state_of(row);
      best.merge(rule.look(
          row, info, layer_context<decltype(rule)>{state, nothing, step_reduction{}, at}));
    }
    std::vector<std::uint32_t> keys;
    std::map<index_t, float> scores;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto state = state_of(rows[i]);
      const float score =
          rule.importance(rows[i], info, layer_context<decltype(rule)>{state, nothing, best, at}) +
          (bonus.contains(positions[i]) ? bonus[positions[i]] : 0.0F);
      if (!near.agrees(score, expected[i])) {
        return verdict::fail(text("layer ",
                                  index,
                                  ": score of ",
                                  positions[i],
                                  ": expected ",
                                  expected[i],
                                  ", got ",
                                  score));
      }
      keys.push_back(unmask::step::importance_key(score));
      scores[positions[i]] = expected[i];
    }
    std::vector<index_t> chosen(positions.size());
    chosen.resize(static_cast<std::size_t>(unmask::step::choose(keys.data(),
                                                                static_cast<index_t>(keys.size()),
                                                                layer.get<index_t>("keep"),
                                                                chosen.data())));
    std::vector<index_t> got;
    for (const index_t i : chosen) {
      got.push_back(positions[static_cast<std::size_t>(i)]);
    }
    const std::string what =
        selection_difference(got, read_positions(layer, "selected"), scores, near);
    if (!what.empty()) {
      return verdict::fail(text("layer ", index, ": ", what));
    }
  }
  return verdict::pass();
}

/// State of a row at a hook, before the choices that the released top-k leaves open.
struct hook_row {
  layer_row row;
  float confidence = 0.0F;
};

/// The recorded selection of a hook, and what the library gives each row. Where confidences or
/// scores are equal the release's order is torch's, which is not specified: `follow` then goes the
/// recorded way, if that is one of those open.
struct hook_record {
  const node* recorded = nullptr;  ///< null: nothing was selected here
  bool bf16 = false;
  std::vector<hook_row> rows;
  std::map<index_t, float> scores;
  std::set<index_t> preferred;
  bool followed = false;
  early_skip::layer_reduction best;

  void begin(const node* to) {
    recorded = to;
    rows.clear();
    scores.clear();
    preferred.clear();
    followed = false;
  }

  void follow(const early_skip& rule, const layer_info& info);
};

/// The scores of all rows with the bonus for confidence on two of them.
std::map<index_t, float> scores_of(const early_skip& rule,
                                   const hook_record& hook,
                                   const layer_info& info,
                                   const early_skip::layer_reduction& best) {
  std::map<index_t, float> scores;
  const no_state nothing;
  const step_info at;
  for (const hook_row& r : hook.rows) {
    early_skip::position_state state;
    state.confidence = r.confidence;
    const layer_context<early_skip> context{state, nothing, best, at};
    scores[r.row.position] = rule.importance(r.row, info, context);
  }
  return scores;
}

/// The lowest score among the `count` highest.
float cut_of(const std::map<index_t, float>& scores, std::size_t count) {
  std::vector<float> values;
  for (const auto& [position, score] : scores) {
    values.push_back(score);
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  return values.at(count - 1);
}

/// How far from the cut a score may go either way: equals only, or what the release's bf16 may have
/// moved.
float open_of(float cut, bool bf16) {
  return bf16 ? tolerance::of(true).relative * std::max(1.0F, std::abs(cut)) : 0.0F;
}

/// Whether `selected` are highest scores: all above the cut, the rest at it.
bool is_selection(const std::map<index_t, float>& scores,
                  const std::set<index_t>& selected,
                  bool bf16) {
  const float cut = cut_of(scores, selected.size());
  return std::all_of(scores.begin(), scores.end(), [&](const auto& s) {
    return std::abs(s.second - cut) <= open_of(cut, bf16) ||
           (s.second > cut) == selected.contains(s.first);
  });
}

void hook_record::follow(const early_skip& rule, const layer_info& info) {
  followed = true;
  // Threads process rows in any order.
  std::sort(rows.begin(), rows.end(), [](const hook_row& a, const hook_row& b) {
    return a.row.position < b.row.position;
  });
  early_skip::layer_reduction first;
  for (const hook_row& r : rows) {
    early_skip::layer_reduction one;
    one.position[0] = r.row.position;
    one.confidence[0] = r.confidence;
    first.merge(one);
  }
  best = first;
  if (recorded == nullptr) {
    return;
  }
  const auto listed = read_positions(*recorded, "selected");
  preferred = {listed.begin(), listed.end()};
  std::map<index_t, float> expected;
  if (recorded->has("scores")) {
    for (const auto& [position, score] : read_placed(*recorded, "scores")) {
      expected[position] = score;
    }
  }
  const auto fits = [&](const early_skip::layer_reduction& choice) {
    const auto tried = scores_of(rule, *this, info, choice);
    return is_selection(tried, preferred, bf16) &&
           std::all_of(expected.begin(), expected.end(), [&](const auto& e) {
             return tried.contains(e.first) &&
                    tolerance::of(bf16).agrees(tried.at(e.first), e.second);
           });
  };
  if (preferred.empty() || fits(first)) {
    return;
  }
  // Every pair of positions that has the two highest confidences.
  for (const hook_row& a : rows) {
    for (const hook_row& b : rows) {
      early_skip::layer_reduction pair;
      pair.position[0] = a.row.position;
      pair.position[1] = b.row.position;
      if (a.row.position != b.row.position && a.confidence == first.confidence[0] &&
          b.confidence == first.confidence[1] && fits(pair)) {
        best = pair;
        return;
      }
    }
  }
}

/// early_skip, writing down what it gives each row and going the recorded way among equals.
struct skip_witness : early_skip {
  hook_record* hook = nullptr;

  skip_witness() = default;
  skip_witness(const early_skip& rule, hook_record* to)
      : early_skip(rule)
      , hook(to) {}

  layer_reduction look(const layer_row& row, const layer_info&, const auto& context) const {
    const float c = context.state.confidence;
    hook->rows.push_back({row, hook->bf16 ? round_to_bf16(c) : c});
    return {};
  }
  float importance(const layer_row& row, const layer_info& l, const auto&) const {
    if (!hook->followed) {
      hook->follow(*this, l);
      hook->scores = scores_of(*this, *hook, l, hook->best);
    }
    const float score = hook->scores.at(row.position);
    if (hook->preferred.empty()) {
      return score;
    }
    const float cut = cut_of(hook->scores, hook->preferred.size());
    const float open = open_of(cut, hook->bf16);
    if (std::abs(score - cut) > open) {
      return score;
    }
    return hook->preferred.contains(row.position) ? std::nextafter(cut + open, 99.0F)
                                                  : std::nextafter(cut - open, -99.0F);
  }
};
static_assert(looking<skip_witness>);

/// The recorded arguments of a loop.
struct loop_arguments {
  explicit loop_arguments(const node& args)
      : width(args.get<index_t>("D"))
      , layers(args.get<index_t>("n_layers"))
      , block_length(args.get<index_t>("block_length"))
      , tokens_per_step(args.get<index_t>("token_per_step"))
      , threshold(args.get_or("threshold", 0.0F))
      , parallel(args.get<bool>("parallel_mode"))
      , filters_eos(args.get<bool>("delay_eos_generation"))
      , skip(released::early_skip_released(args.get<float>("importance_score_alpha")))
      , cache(released::es_dllm_cache(args.get<index_t>("prompt_update_freq"),
                                      args.get<index_t>("block_update_freq"))) {
    if (args.get<float>("sparse_kv") != 1.0F || args.get<float>("temperature") != 0.0F) {
      args.fail("sparse_kv and temperature: expected 1 and 0");
    }
    const node stages = args.at("proportion_steps");
    skip.stage_count = 0;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      if (skip.stage_count == max_skip_stages) {
        stages.fail("expected at most 8 stages");
      }
      const skip_stage stage{stages.at(k).at(1U).get<double>(), stages.at(k).at(0U).get<double>()};
      if (k > 0 || stage.keep != 1.0) {
        skip.stages[skip.stage_count++] = stage;
      }
    }
  }

  index_t width;
  index_t layers;
  index_t block_length;
  index_t tokens_per_step;
  float threshold;
  bool parallel;
  bool filters_eos;
  early_skip skip;
  block_cache cache;
};

/// Tokens that a session may hold: a mask token outside of the model's vocabulary becomes the first
/// token behind it.
struct vocabulary {
  explicit vocabulary(const fake_model& m)
      : model(m)
      , mask(m.mask_id < m.V ? m.mask_id : m.V)
      , size(std::max(m.V, mask + 1)) {}

  [[nodiscard]] tokens in_model(const tokens& x) const {
    tokens result = x;
    std::replace(result.begin(), result.end(), mask, model.mask_id);
    return result;
  }
  template <class T>
  void append_row(std::vector<T>& logits, index_t row, const tokens& x) const {
    std::vector<float> out(static_cast<std::size_t>(model.V));
    model.row(row, x, out);
    out.resize(static_cast<std::size_t>(size), -std::numeric_limits<float>::infinity());
    for (const float z : out) {
      logits.push_back(stored<T>(z));
    }
  }

  const fake_model& model;
  token mask;
  index_t size;
};

/// Difference between the session's commits and the recorded ones.
std::string commit_difference(std::span<const commit_entry> got, const node& recorded) {
  std::vector<std::pair<index_t, token>> commits;
  for (const commit_entry& c : got) {
    commits.emplace_back(c.position, c.token);
  }
  const auto expected = recorded.list("commits", [](const node& pair) {
    return std::pair<index_t, token>{pair.at(0U).get<index_t>(), pair.at(1U).get<token>()};
  });
  if (commits == expected) {
    return {};
  }
  std::string what = "commits: expected";
  for (const auto& [p, t] : expected) {
    what += text(' ', p, '=', t);
  }
  what += ", got";
  for (const auto& [p, t] : commits) {
    what += text(' ', p, '=', t);
  }
  return what;
}

/// The first difference of a hook from the recorded one.
std::string hook_difference(const std::vector<index_t>& chosen,
                            const node& recorded,
                            const std::map<index_t, float>& scores,
                            const tolerance& near) {
  std::map<index_t, float> expected = scores;
  if (recorded.has("scores")) {
    for (const auto& [p, score] : read_placed(recorded, "scores")) {
      if (!scores.contains(p) || !near.agrees(scores.at(p), score)) {
        return text("score of ",
                    p,
                    ": expected ",
                    score,
                    ", got ",
                    scores.contains(p) ? scores.at(p) : -1.0F);
      }
      expected[p] = score;
    }
  }
  return selection_difference(chosen, read_positions(recorded, "selected"), expected, near);
}

template <class T, class Policy>
verdict loop(const node& line, const loop_arguments& args, const Policy& p, hook_record& record) {
  const fake_model model = read_model(line.at("model"));
  const vocabulary words(model);
  const auto prompt = line.get<tokens>("prompt");
  const auto final = line.get<tokens>("final");
  const auto length = static_cast<index_t>(final.size());
  const auto seed = line.at("model").get<std::uint64_t>("seed");
  const tolerance near = tolerance::of(std::is_same_v<T, bfloat16>);
  tokens x = prompt;
  x.resize(final.size(), words.mask);
  session<Policy, place> session(
      p,
      model_info{.vocab = words.size,
                 .mask_token = words.mask,
                 .eos_token = model.eos_id < model.V ? model.eos_id : no_token,
                 .suppress_mask = false,
                 .layers = args.layers},
      tokens_view<place::space>(x.data(), length),
      sequence_shape{.prompt_length = static_cast<index_t>(prompt.size()),
                     .length = length,
                     .block_length = args.block_length});
  std::vector<std::vector<T>> previous(
      static_cast<std::size_t>(args.layers),
      std::vector<T>(static_cast<std::size_t>(length * args.width)));
  const node steps = line.at("steps");
  std::size_t k = 0;
  for (; session.next(); ++k) {
    const auto at = [&](const std::string& what) { return text("step ", k, ": ", what); };
    if (k >= steps.size()) {
      return verdict::fail(at("a forward pass that was not recorded"));
    }
    const node recorded = steps.at(k);
    auto pass = session.pass(0);
    const auto range = read_positions(recorded, "range");
    const std::vector<index_t> fed = entries(pass.positions());
    if (fed.front() != range[0] || fed.back() + 1 != range[1]) {
      return verdict::fail(at(text("range: expected [",
                                   range[0],
                                   ", ",
                                   range[1],
                                   "), got [",
                                   fed.front(),
                                   ", ",
                                   fed.back() + 1,
                                   ")")));
    }
    if (session.planned().refresh == recorded.has("es_cnt")) {
      return verdict::fail(at("refresh: expected otherwise"));
    }
    const auto version = recorded.get<index_t>("feature_version");
    const node hooks = recorded.at("layers");
    std::size_t hook = 0;
    for (index_t l = 0; l < args.layers; ++l) {
      if (!pass.hooks(l)) {
        continue;
      }
      std::vector<T> hidden;
      const std::vector<index_t> active = entries(pass.positions());
      for (const index_t q : active) {
        append_feature(hidden, seed, l, version, q, args.width);
      }
      const bool is_recorded =
          hook < hooks.size() && hooks.at(hook).template get<index_t>("layer") == l;
      const node nothing = hooks;
      const node expected = is_recorded ? hooks.at(hook) : nothing;
      record.begin(is_recorded ? &expected : nullptr);
      const auto choice =
          pass.at_layer(l,
                        rows_of(hidden, most(pass.positions()), args.width),
                        state_view<T, place::space>(
                            previous[static_cast<std::size_t>(l)].data(), length, args.width));
      const std::vector<index_t> chosen = entries(choice.positions);
      const std::string what = is_recorded ? hook_difference(chosen, expected, record.scores, near)
                               : chosen.size() == active.size()
                                   ? std::string()
                                   : std::string("selected where nothing was selected");
      hook += is_recorded ? 1 : 0;
      if (!what.empty()) {
        return verdict::fail(at(text("layer ", l, ": ", what)));
      }
    }
    if (hook != hooks.size()) {
      return verdict::fail(at("selections: some were not made"));
    }
    std::vector<T> logits;
    const std::vector<index_t> active = entries(pass.positions());
    for (const index_t row : entries(pass.rows())) {
      words.append_row(logits, active[static_cast<std::size_t>(row)], words.in_model(x));
    }
    session.supply(rows_of(logits, most(pass.rows()), words.size));
    if (const std::string what = commit_difference(session.committed(), recorded); !what.empty()) {
      return verdict::fail(at(what));
    }
  }
  if (k != steps.size() || words.in_model(x) != final) {
    return verdict::fail(text("after ", k, " of ", steps.size(), " forward passes: final tokens"));
  }
  return verdict::pass();
}

template <class T>
verdict loop(const node& line) {
  const loop_arguments args(line.at("args"));
  constexpr bool bf16 = std::is_same_v<T, bfloat16>;
  hook_record record;
  record.bf16 = bf16;
  const skip_witness skip(args.skip, &record);
  const auto decode = [&](const auto& ranking, const auto& commit_rule) {
    const released::es_dllm_blocks blocks;
    return args.filters_eos
               ? loop<T>(line,
                         args,
                         policy{ranking,
                                commit_rule,
                                skip,
                                args.cache,
                                blocks,
                                eos_gate{.until_first = true}},
                         record)
               : loop<T>(
                     line, args, policy{ranking, commit_rule, skip, args.cache, blocks}, record);
  };
  const auto order = [] {
    if constexpr (bf16) {
      return released::by_confidence_bf16{};
    } else {
      return by_confidence{};
    }
  }();
  const auto above = [&] {
    if constexpr (bf16) {
      return released::threshold_bf16{args.threshold};
    } else {
      return unmask::threshold{args.threshold};
    }
  }();
  return args.parallel ? decode(order, above)
                       : decode(order, tokens_per_step{args.tokens_per_step} && above);
}

/// A decision about all masks of a window at once.
template <class Policy>
verdict sample_tokens(const node& line, const Policy& p, std::vector<sight>& seen) {
  const fake_model model = read_model(line.at("model"));
  const vocabulary words(model);
  const auto before = line.get<tokens>("x_before");
  const auto window = read_positions(line, "window");
  tokens x = before;
  std::vector<std::uint8_t> editable;
  for (token& t : x) {
    editable.push_back(t == model.mask_id ? 1 : 0);
    t = t == model.mask_id ? words.mask : t;
  }
  unmask::session<Policy> session(
      model_info{.vocab = words.size,
                 .mask_token = words.mask,
                 .eos_token = line.at("args").get<token>("eos_token"),
                 .suppress_mask = false},
      session_capacity{.sequences = 1, .length = window[1], .window = window[1] - window[0]});
  session.start(0,
                p,
                x,
                sequence_shape{.prompt_length = window[0],
                               .length = window[1],
                               .block_length = window[1] - window[0]},
                start_options{.editable = editable, .suppressed = {}});
  const auto request = session.next();
  if (!request) {
    return verdict::fail("nothing is masked");
  }
  std::vector<float> logits;
  for (index_t row = request->segments[0].rows.first; row < request->segments[0].rows.last; ++row) {
    words.append_row(logits, row, before);
  }
  session.supply(host_logits<float>(logits.data(), request->rows, words.size));

  std::map<index_t, float> confidence;
  for (const sight& s : seen) {
    confidence[s.position] = s.confidence;
  }
  for (const auto& [position, expected] : read_placed(line, "confidence")) {
    const bool is_held = !confidence.contains(position);
    if (is_held ? expected != 0.0F : !tolerance{}.agrees(confidence.at(position), expected)) {
      return verdict::fail(text("confidence of ",
                                position,
                                ": expected ",
                                expected,
                                ", got ",
                                is_held ? 0.0F : confidence.at(position)));
    }
  }
  for (const index_t held : read_positions(line, "eos_suppressed")) {
    if (confidence.contains(held)) {
      return verdict::fail(text("position ", held, " is not held back"));
    }
  }
  const std::string what = commit_difference(session.committed(), line);
  return what.empty() ? verdict::pass() : verdict::fail(what);
}

}  // namespace

verdict check_es_select(const node& line) {
  return line.get<std::string>("dtype") == "bf16" ? select<bfloat16>(line) : select<float>(line);
}

verdict check_es_loop(const node& line) {
  return line.get<std::string>("dtype") == "bf16" ? loop<bfloat16>(line) : loop<float>(line);
}

verdict check_es_sample_tokens(const node& line) {
  const node args = line.at("args");
  std::vector<sight> seen;
  const auto decide = [&](const auto& commit_rule) {
    return sample_tokens(
        line,
        policy{by_confidence{}, commit_rule, eos_gate{.until_first = true}, witness{&seen}},
        seen);
  };
  const unmask::threshold threshold{args.get_or("threshold", 0.0F)};
  return args.get<bool>("parallel_mode")
             ? decide(threshold)
             : decide(tokens_per_step{args.get<index_t>("decode_token_cnt")} && threshold);
}

}  // namespace unmask::goldens
