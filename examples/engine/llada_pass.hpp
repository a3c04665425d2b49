// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <stdexcept>

#include "engine/llada.hpp"

// A forward in which a policy decides what is computed. To give another engine the same:
//
// 1. Keep the keys and values of each sequence and layer, and let attention read them while only
//    some positions are computed: update_keys_values() and add_attention() in llada_layer.hpp. An
//    engine that does no more than this serves every cache that runs a range, through a plain
//    session: run segment.query, attend to segment.keys. (Nothing has to be cleared between
//    requests: the first pass of a sequence computes everything.)
// 2. Run a list of positions instead of a range: embed() and the rotation take each row's position
//    from the list, the rest of a layer does not know where its rows stand.
// 3. Call at_layer() where hooks(layer) is true and continue with the rows it chose: `After the
//    layer` below. That is all that early_skip needs. It compares with rows that the engine stores,
//    one a position for each such layer; the library writes them.
// 4. Return the logits of rows(), with row i that of the i-th of them.
// 5. For rules that keep skipped positions (similarity_refresh, cache_budget), call it before a
//    layer and keep what a layer added to each position: `In front of the layer` below,
//    compute_some(). An engine without this step needs
//    static_assert(session::skipped == skipping::dropped).
//
// 6. For key_eviction, which drops keys: in the pass with evict() == `choose`, score each key by
//    the block's mean query, keep those that host::key_selector keeps, and attend to them and the
//    block while it is `chosen`: choose_keys() below, attend() in llada.cpp.
//
// 7. For self_speculation, whose checks are causal passes: let a row attend to no position right of
// its
//    own where segment.attention says so: hidden_keys in llada_layer.hpp. The keys and values of the
//    prefix are those of the causal pass that computed it; a draft attends to them.
// 8. For wino, whose rows of committed positions come from a shadow: forward_shadow(), after the
//    sequence of its segment has run.
//
// With lookahead branches, each branch writes keys and values of its own: copy the sequence's
// memory for each, and after decide() keep that of planned(slot).winner.
namespace example {

namespace detail {

/// Rows of `memory` as a policy gets them lent: one for each position of the sequence.
inline unmask::host_state<float>
lent(std::vector<float>& memory, std::size_t positions, std::size_t width) {
  memory.resize(std::max(memory.size(), positions * width));
  return {
      memory.data(), static_cast<unmask::index_t>(positions), static_cast<unmask::index_t>(width)};
}

inline layer_input input_for(unmask::feature what) {
  return what == unmask::feature::query   ? layer_input::query
         : what == unmask::feature::key   ? layer_input::key
         : what == unmask::feature::value ? layer_input::value
                                          : layer_input::normed;
}

}  // namespace detail

template <class Pass>
logits_view llada_model::forward(Pass& pass,
                                 std::span<const std::int32_t> tokens,
                                 sequence_memory& memory,
                                 const dropped_keys& dropping,
                                 bool is_causal) {
  const sequence_window whole{tokens, 0, tokens.size()};
  validate({&whole, 1});
  const unmask::range attend = pass.keys();
  unmask::check_argument(attend.first == 0 && attend.last <= std::ssize(tokens),
                         "positions to attend to",
                         attend.first,
                         "from 0 to at most the number of tokens");
  reserve(tokens.size(), pass.positions().size());
  memory.layers.resize(config().layers);
  for (layer_memory& layer : memory.layers) {
    layer.store.reserve(tokens.size(), config().width);
  }
  const auto attended = static_cast<std::size_t>(attend.last);
  const auto hidden_view = [&](const float* data, std::size_t rows) {
    return unmask::host_hidden<float>(
        data, static_cast<unmask::index_t>(rows), static_cast<unmask::index_t>(config().width));
  };

  const bool drops = pass.evict() == unmask::eviction::choose;
  if (drops && config().attention.length > 0) {
    throw std::invalid_argument("a model with block-causal attention cannot drop keys");
  }
  memory.drops_keys = pass.evict() == unmask::eviction::chosen;
  memory.hides = {.behind = is_causal ? causal_blocks{.length = 1} : config().attention};
  if (!is_causal) {
    memory.hides.behind.window = memory.window;
  }
  memory.blocks_first = dropping.first;
  memory.blocks_last = dropping.last;
  unmask::host::key_selector selector(drops ? attend.last : 0);
  const auto choose_keys = [&](std::size_t l, hidden_rows computed) {
    if (!drops) {
      return;
    }
    const std::span<const float> query = mean_query(computed, dropping);
    const std::span<const float> keys = keys_of(memory.layers[l].store, attended);
    std::vector<float> scores(attended);
    unmask::host::score_keys<float>(hidden_view(keys.data(), attended), query, scores);
    const auto stay =
        selector.select(scores, {dropping.first, dropping.last}, dropping.keep, dropping.pool);
    memory.layers[l].kept_keys.assign(stay.begin(), stay.end());
  };

  // [layers]
  hidden_rows rows = embed(tokens, pass.positions());
  for (std::size_t l = 0; l < config().layers; ++l) {
    const auto layer = static_cast<unmask::index_t>(l);
    const std::size_t count = rows.positions.size();
    if (!pass.hooks(layer)) {
      if (l + 1 == config().layers && !drops) {
        rows = compute_last(attended, rows, pass.rows(), memory);
        write_logits(rows, logits_.data());
        return {logits_.data(), rows.positions.size(), config().vocabulary};
      }
      compute(l, attended, rows, memory);
      choose_keys(l, rows);
      continue;
    }
    const auto previous = detail::lent(memory.layers[l].previous, tokens.size(), config().width);
    if (unmask::hook_follows_layer(pass.reads)) {
      // After the layer: from its hidden states the policy chooses those that go on.
      compute(l, attended, rows, memory);
      choose_keys(l, rows);
      rows = keep(rows, pass.at_layer(layer, hidden_view(rows.data, count), previous).rows);
      continue;
    }
    // In front of the layer: the policy reads its input and chooses the rows that are computed.
    const std::span<const float> seen =
        input_of(config(), weights_->layer(l), detail::input_for(pass.reads), rows, scratch_);
    const auto chosen = pass.at_layer(layer, hidden_view(seen.data(), count), previous);
    if (pass.skipped == unmask::skipping::dropped) {
      rows = keep(rows, chosen.rows);
      compute(l, attended, rows, memory);
    } else {
      compute_some(l, attended, rows, chosen.rows, memory);
    }
    choose_keys(l, rows);
  }
  rows = keep(rows, pass.rows());
  write_logits(rows, logits_.data());
  // [/layers]
  return {logits_.data(), rows.positions.size(), config().vocabulary};
}

}  // namespace example
