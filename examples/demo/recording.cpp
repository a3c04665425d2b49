// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/recording.hpp"

#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>
#include <unmask/policy/presets/methods.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "demo/hooked_pass.hpp"
#include "engine/llada_pass.hpp"

namespace demo {

namespace {

/// Positions that each layer of a pass computes.
struct layer_record {
  std::vector<std::vector<index_t>> layers;  // [layer]
  std::vector<index_t> active;

  /// Takes the rows of `active` that a layer's hook chose.
  void add(const auto& pass, index_t layer, std::span<const index_t> rows) {
    std::vector<index_t> next;
    for (const index_t row : rows) {
      next.push_back(active[static_cast<std::size_t>(row)]);
    }
    const auto from = static_cast<std::size_t>(layer) +
                      (unmask::hook_follows_layer(pass.reads) ? std::size_t{1} : std::size_t{0});
    const bool drops = pass.skipped == unmask::skipping::dropped;
    for (std::size_t l = from; l < (drops ? layers.size() : from + 1); ++l) {
      layers[l] = next;
    }
    active = drops ? next : active;
  }
};

/// Positions that are attended to without being run, in the first layer.
std::vector<index_t> reused_of(const auto& pass, const example::sequence_memory& memory) {
  std::vector<index_t> all;
  if (memory.drops_keys) {
    all.assign(memory.layers[0].kept_keys.begin(), memory.layers[0].kept_keys.end());
  } else {
    all.resize(static_cast<std::size_t>(pass.keys().size()));
    std::iota(all.begin(), all.end(), pass.keys().first);
  }
  const auto is_run = [&](index_t p) { return std::ranges::binary_search(pass.positions(), p); };
  std::erase_if(all, is_run);
  return all;
}

}  // namespace

recorder::recorder(const std::filesystem::path& file)
    : recorder(example::gguf_file(file)) {}

recorder::recorder(const example::gguf_file& file)
    : text_(file)
    , model_(file) {}

recording recorder::record(const std::string& policy, std::string_view prompt, const geometry& g) {
  const auto calibrate = [&](const std::string&) {
    const auto knobs = unmask::methods::osdt_gsm8k_settings<256>;
    unmask::threshold_calibrator calibrator({.block_length = g.block_length}, knobs.recorded);
    static_cast<void>(
        record(unmask::read_policy("threshold(0.9)"), prompt, g, [&](unmask::named_session& s) {
          calibrator.observe(s);
        }));
    return unmask::to_json(calibrator.calibrate(knobs));
  };
  return record(unmask::read_policy(policy, calibrate), prompt, g, {});
}

recording recorder::record(const unmask::named_policy& parts,
                           std::string_view prompt,
                           const geometry& g,
                           const std::function<void(unmask::named_session&)>& after_pass) {
  std::vector<token_id> tokens = text_.canvas(prompt, static_cast<std::size_t>(g.answer_length));
  const auto length = static_cast<index_t>(tokens.size());
  const index_t start = length - g.answer_length;
  const auto layers = model_.config().layers;
  unmask::named_session session(parts,
                                {.vocab = static_cast<index_t>(text_.vocabulary()),
                                 .mask_token = text_.mask(),
                                 .eos_token = text_.end(),
                                 .layers = static_cast<index_t>(layers)},
                                {.length = length, .window = g.answer_length});
  session.start(
      0,
      tokens,
      {.prompt_length = start, .length = length, .block_length = g.block_length, .seed = g.seed});

  recording result{.prompt_length = start, .answer = {}, .passes = {}};
  std::vector<example::sequence_memory> memories(1);  // of each branch
  std::vector<float> logits;
  std::vector<std::vector<token_id>> before;  // [pass]: the tokens in front of it
  while (const auto request = session.next()) {
    recorded_pass seen;
    before.push_back(tokens);
    const unmask::range blocks = session.planned(0).score;
    seen.decided = {blocks.first - start, blocks.last - start};
    memories.resize(std::max(memories.size(), request->segments.size()));
    logits.clear();
    for (std::size_t i = 0; i < request->segments.size(); ++i) {
      const unmask::segment& s = request->segments[i];
      std::vector<token_id> branch = tokens;
      for (const auto& placed : s.placed) {
        branch[static_cast<std::size_t>(placed.position)] = placed.token;
        memories[i] = memories[0];
      }
      layer_record computed;
      hooked_pass pass(session.pass(i), [&](auto& of, index_t layer, const auto&... state) {
        const unmask::layer_choice chosen = of.at_layer(layer, state...);
        computed.add(of, layer, chosen.rows);
        return chosen;
      });
      computed.active.assign(pass.positions().begin(), pass.positions().end());
      computed.layers.assign(layers, computed.active);
      const example::logits_view rows =
          model_.forward(pass,
                         branch,
                         memories[i],
                         {blocks.first,
                          blocks.last,
                          parts.eviction.find<unmask::key_eviction>().keep,
                          parts.eviction.find<unmask::key_eviction>().pool});
      logits.insert(logits.end(), rows.data, rows.data + rows.rows * rows.vocabulary);
      if (s.branch == 0) {
        seen.run.assign(pass.positions().begin(), pass.positions().end());
        seen.reused = reused_of(pass, memories[i]);
        seen.layers = computed.layers;
      }
    }
    session.supply(
        unmask::host_logits<float>(logits.data(),
                                   static_cast<index_t>(logits.size() / text_.vocabulary()),
                                   static_cast<index_t>(text_.vocabulary())));
    if (const index_t winner = session.planned(0).winner; winner > 0) {
      std::swap(memories.front(), memories.at(static_cast<std::size_t>(winner)));
    }
    for (const unmask::commit_entry& c : session.committed(0)) {
      seen.written.push_back({c.position - start, std::exp(double(c.log_probability))});
    }
    for (const unmask::token_probability& p : session.probabilities(0)) {
      seen.reported.push_back({p.position - start, double(p.probability)});
    }
    if (after_pass) {
      after_pass(session);
    }
    result.passes.push_back(std::move(seen));
  }
  for (index_t p = start; p < length; ++p) {
    const auto place = static_cast<std::size_t>(p);
    const token_id t = tokens[place];
    for (std::size_t i = 0; i < before.size(); ++i) {
      const token_id was = before[i][place];
      result.passes[i].masked.push_back(parts.has_canvas() ? was != t : was == text_.mask());
    }
    result.answer.push_back(t == text_.end() ? "·" : text_.decode(std::span(&t, 1)));
  }
  return result;
}

}  // namespace demo
