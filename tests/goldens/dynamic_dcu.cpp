// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/dynamic_dcu.hpp"

#include <unmask/policy/presets/released.hpp>
#include <unmask/session.hpp>
#include <unmask/unmask.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "goldens/lines.hpp"
#include "goldens/place.hpp"

namespace unmask::goldens {

namespace {

/// Inputs of a rule at a layer, and the means of all layers in the last pass.
struct dcu_record {
  index_t quota = 0;
  unmask::range window;
  std::vector<float> drift;  ///< of the answer
  std::vector<float> means;
};

/// The rule of a line, which records its inputs.
template <unmask::feature Feature>
struct dcu_witness : basic_cache_budget<Feature> {
  using base = basic_cache_budget<Feature>;
  dcu_record* seen = nullptr;

  dcu_witness() = default;
  dcu_witness(const base& rule, dcu_record* to)
      : base(rule)
      , seen(to) {}

  float importance(const layer_row& row, const layer_info& l, const auto& context) const {
    if (const index_t i = row.position - context.at.view->prompt_length; i >= 0) {
      seen->drift.at(static_cast<std::size_t>(i)) = row.drift;
    }
    return base::importance(row, l, context);
  }
  index_t quota(const layer_info& l, const auto& context) const {
    seen->quota = base::quota(l, context);
    seen->window = base::window_of(context.at.view->latest, *context.at.view);
    return seen->quota;
  }
  void allocate(const float* means, index_t* budgets, index_t layers, const auto& context) const {
    seen->means.assign(means, means + layers);
    base::allocate(means, budgets, layers, context);
  }
};
static_assert(allocating<dcu_witness<unmask::feature::value>> &&
              counting<dcu_witness<unmask::feature::value>>);

/// Commits what the logits are sure of, and nothing else.
struct scripted {
  static constexpr statistics required = stat::confidence;
  std::int64_t extra_forwards(const unmask::sequence_shape&) const { return 1'000'000; }
  bool commits(const auto& c, const rank_info&) const { return c.confidence() > 0.5F; }
  unmask::verdict edit_token(const auto& c, auto&) const {
    return c.confidence() > 0.5F ? unmask::verdict::replace : unmask::verdict::keep;
  }
};
static_assert(commit_rule<scripted> && token_editing<scripted>);

constexpr index_t vocab = 4;
constexpr token mask = 3;

/// Logits of the answer that are sure at the decoded positions: of a token that does not stand
/// there.
std::vector<float>
scripted_logits(const tokens& x, index_t prompt, const std::vector<index_t>& decoded) {
  std::vector<float> logits((x.size() - static_cast<std::size_t>(prompt)) * vocab, 0.0F);
  for (const index_t p : decoded) {
    const int other = x[static_cast<std::size_t>(p)] == 1 ? 2 : 1;
    logits[static_cast<std::size_t>((p - prompt) * vocab + other)] = 20.0F;
  }
  return logits;
}

/// The first difference of a layer from the recording. `blind`: the release compared the features
/// with themselves, so that roundings of 0 chose.
std::string layer_difference(const std::vector<index_t>& positions,
                             const dcu_record& seen,
                             const node& recorded,
                             index_t prompt,
                             index_t answer,
                             bool blind) {
  std::vector<index_t> chosen;
  for (const index_t p : positions) {
    if (p >= prompt) {
      chosen.push_back(p - prompt);
    }
  }
  if (recorded.get<std::string>("kind") == "full_refresh") {
    return static_cast<index_t>(chosen.size()) == answer ? "" : "not the whole answer";
  }
  const auto window = read_positions(recorded, "window");
  if (seen.window.first - prompt != window[0] || seen.window.last - prompt != window[1]) {
    return text("window: expected [",
                window[0],
                ", ",
                window[1],
                "), got [",
                seen.window.first - prompt,
                ", ",
                seen.window.last - prompt,
                ")");
  }
  // Recorded are the positions that the budget adds to the window.
  const auto votes = recorded.get<index_t>("n_vote");
  if (std::min(seen.quota, answer - seen.window.size()) != votes) {
    return text("budget: expected ", votes, ", got ", seen.quota);
  }
  if (blind) {
    return static_cast<index_t>(chosen.size()) == seen.window.size() + votes
               ? ""
               : text("selected ", chosen.size(), " positions");
  }
  const auto selected = read_positions(recorded, "selected");
  const std::set<index_t> expected(selected.begin(), selected.end());
  if (std::set<index_t>(chosen.begin(), chosen.end()) != expected) {
    return text("selected ", chosen.size(), " positions, expected ", expected.size(), " or others");
  }
  if (recorded.has("dissimilarity")) {
    const node changes = recorded.at("dissimilarity");
    for (std::size_t i = 0; i < changes.size(); ++i) {
      // Cosines near 1: a rounding of each of four sums and of the quotient.
      const auto change = changes.at(i).get<float>();
      if (std::abs(seen.drift.at(i) - change) > 1e-6F) {
        return text("change of ", i, ": expected ", change, ", got ", seen.drift.at(i));
      }
    }
  }
  return {};
}

template <unmask::feature Feature>
verdict dcu(const node& line) {
  const node args = line.at("args");
  const auto prompt = args.get<index_t>("prompt_length");
  const auto answer = args.get<index_t>("gen_length");
  const auto layers = args.get<index_t>("n_layers");
  const auto width = args.get<index_t>("D");
  const auto seed = line.get<std::uint64_t>("seed");
  const index_t length = prompt + answer;
  dcu_record seen;
  const dcu_witness<Feature> rule(
      released::cache_budget_released<Feature>(args.get<index_t>("layer_budget"),
                                               args.get<index_t>("window_size")),
      &seen);
  const policy p{by_confidence{},
                 scripted{},
                 rule,
                 interval_cache{.prompt_period = args.get<index_t>("prompt_interval_steps"),
                                .answer_period = args.get<index_t>("gen_interval_steps")},
                 single_block{}};
  tokens x(static_cast<std::size_t>(length), 0);
  session<std::remove_const_t<decltype(p)>, place> session(
      p,
      model_info{.vocab = vocab, .mask_token = mask, .layers = layers},
      tokens_view<place::space>(x.data(), length),
      sequence_shape{.prompt_length = prompt, .length = length, .block_length = answer});
  std::vector<std::vector<float>> previous(
      static_cast<std::size_t>(layers),
      std::vector<float>(static_cast<std::size_t>(length * width)));

  const node steps = line.at("steps");
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const node recorded = steps.at(k);
    const auto at = [&](const std::string& what) { return text("step ", k + 1, ": ", what); };
    if (!session.next()) {
      return verdict::fail(at("nothing is asked for"));
    }
    auto pass = session.pass(0);
    const node recorded_layers = recorded.at("layers");
    // Inputs are first stored in the second pass, before they are compared.
    const bool blind = Feature == unmask::feature::input && k == 1;
    for (index_t l = 0; l < layers; ++l) {
      std::vector<float> now;
      for (const index_t i : entries(pass.positions())) {
        for (index_t d = 0; d < width; ++d) {
          now.push_back(feature(seed,
                                dynamic_stride,
                                static_cast<std::uint64_t>(l),
                                static_cast<std::uint64_t>(k + 1),
                                static_cast<std::uint64_t>(i),
                                static_cast<std::uint64_t>(d)));
        }
      }
      seen.drift.assign(static_cast<std::size_t>(answer), 0.0F);
      const auto choice =
          pass.at_layer(l,
                        rows_of(now, most(pass.positions()), width),
                        state_view<float, place::space>(
                            previous[static_cast<std::size_t>(l)].data(), length, width));
      const std::string what = layer_difference(entries(choice.positions),
                                                seen,
                                                recorded_layers.at(static_cast<std::size_t>(l)),
                                                prompt,
                                                answer,
                                                blind);
      if (!what.empty()) {
        return verdict::fail(at(text("layer ", l, ": ", what)));
      }
    }
    const auto decoded = read_positions(recorded, "decoded");
    std::vector<float> logits = scripted_logits(x, prompt, decoded);
    session.supply(rows_of(logits, answer, vocab));
    static_cast<void>(session.report());  // the pass to come is planned
    for (std::size_t l = 0; l < static_cast<std::size_t>(layers); ++l) {
      const node layer = recorded_layers.at(l);
      if (!blind && layer.has("layer_mean") &&
          std::abs(seen.means.at(l) - layer.get<float>("layer_mean")) > 1e-6F) {
        return verdict::fail(at(text("layer ",
                                     l,
                                     ": mean: expected ",
                                     layer.get<float>("layer_mean"),
                                     ", got ",
                                     seen.means.at(l))));
      }
    }
  }
  return verdict::pass();
}

}  // namespace

verdict check_dynamic_dcu(const node& line) {
  return line.at("args").get<std::string>("select_from") == "v" ? dcu<unmask::feature::value>(line)
                                                                : dcu<unmask::feature::input>(line);
}

}  // namespace unmask::goldens
