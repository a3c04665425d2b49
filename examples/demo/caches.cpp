// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/caches.hpp"

#include <array>

namespace demo {

namespace {

using namespace unmask;
using example::layer_rule_kind;
using values = const knob_values&;

cache_setup with(feeding how) {
  cache_setup s;
  s.cache.how = how;
  return s;
}

/// Early skipping in two stages, of which the second keeps half of what the first does.
void keep(early_skip& skip, double first) {
  skip.stages[0].keep = first;
  skip.stages[1].keep = first * first;
}

const std::array table{
    known_cache{
        "none",
        "nothing is kept: each pass is a full forward",
        {},
        [](values) { return with(feeding::whole); },
    },
    known_cache{
        "prefix",
        "K/V left of the block (Fast-dLLM)",
        {{"period", 0, true}},
        [](values v) {
          cache_setup s = with(feeding::prefix);
          s.cache.prefix.period = v.whole(0);
          return s;
        },
    },
    known_cache{
        "dual",
        "K/V on both sides of the block (Fast-dLLM)",
        {{"period", 0, true}},
        [](values v) {
          cache_setup s = with(feeding::dual);
          s.cache.dual.period = v.whole(0);
          return s;
        },
    },
    known_cache{
        "sparse",
        "the dual cache without the keys that the block attends to least (Sparse-dLLM)",
        {{"keep", 0.5}, {"pool", 3, true}, {"period", 0, true}},
        [](values v) {
          cache_setup s = with(feeding::dual);
          s.cache.drops_keys = true;
          s.cache.dropped.keep = v.exact(0);
          s.cache.dropped.pool = v.whole(1);
          s.cache.dual = {.period = v.whole(2), .whole = 2};
          return s;
        },
    },
    known_cache{
        "block",
        "the same, refreshed by the count of passes only (ES-dLLM without skipping)",
        {{"prompt_period", 64, true}, {"block_period", 16, true}},
        [](values v) {
          cache_setup s = with(feeding::block);
          s.cache.block = {.prompt_period = v.whole(0), .block_period = v.whole(1)};
          return s;
        },
    },
    known_cache{
        "delayed",
        "K/V of every token, one pass after it was committed (dKV-Cache)",
        {{"period", 8, true}},
        [](values v) {
          cache_setup s = with(feeding::delayed);
          s.cache.delayed.period = v.whole(0);
          return s;
        },
    },
    known_cache{
        "similarity",
        "each layer computes the share of the answer whose values changed most (dLLM-Cache)",
        {{"share", 0.25}, {"prompt_period", 50, true}, {"answer_period", 7, true}},
        [](values v) {
          cache_setup s = with(feeding::interval);
          s.which = layer_rule_kind::similarity;
          s.similarity.share = v.real(0);
          s.cache.interval = {.prompt_period = v.whole(1), .answer_period = v.whole(2)};
          return s;
        },
    },
    known_cache{
        "budget",
        "each layer computes as many positions as it changed lately (Dynamic-dLLM)",
        {{"budget", 8, true},
         {"window", 8, true},
         {"prompt_period", 1, true},
         {"answer_period", 0, true}},
        [](values v) {
          cache_setup s = with(feeding::interval);
          s.which = layer_rule_kind::budget;
          s.budget.budget = v.whole(0);
          s.budget.window = v.whole(1);
          s.cache.interval = {.prompt_period = v.whole(2), .answer_period = v.whole(3)};
          return s;
        },
    },
    known_cache{
        "skip",
        "deeper layers compute the important part of the block only (ES-dLLM, the paper's rule)",
        {{"keep", 0.5}, {"weight", 0.5}, {"prompt_period", 64, true}, {"block_period", 16, true}},
        [](values v) {
          cache_setup s = with(feeding::block);
          s.which = layer_rule_kind::skip;
          keep(s.skip, v.exact(0));
          s.skip.weight = v.real(1);
          s.cache.block = {.prompt_period = v.whole(2), .block_period = v.whole(3)};
          return s;
        },
    },
    known_cache{
        "skip_released",
        "the same as its code does it: a floor, and bonuses for open and new positions",
        {{"keep", 0.5}, {"weight", 0.5}, {"prompt_period", 64, true}, {"block_period", 16, true}},
        [](values v) {
          cache_setup s = with(feeding::block);
          s.which = layer_rule_kind::skip;
          s.skip = released::early_skip_released(v.real(1));
          keep(s.skip, v.exact(0));
          s.cache.block = released::es_dllm_cache(v.whole(2), v.whole(3));
          return s;
        },
    },
    known_cache{
        "skip_dual",
        "early skipping over the dual cache: each block starts with a full forward",
        {{"keep", 0.5}, {"weight", 0.5}, {"period", 0, true}},
        [](values v) {
          cache_setup s = with(feeding::dual);
          s.which = layer_rule_kind::skip;
          keep(s.skip, v.exact(0));
          s.skip.weight = v.real(1);
          s.cache.dual.period = v.whole(2);
          return s;
        },
    },
};

std::vector<named_call> calls() {
  std::vector<named_call> all;
  for (const known_cache& c : table) {
    all.push_back({c.name, c.knobs});
  }
  return all;
}

}  // namespace

std::span<const known_cache> known_caches() {
  return table;
}

chosen_cache::chosen_cache()
    : chosen_cache("none") {}

chosen_cache::chosen_cache(std::string_view text) {
  const std::vector<named_call> known = calls();
  const read_call call = parse_call(text, known);
  label_ = call.label;
  setup_ = table.at(call.index).make(knob_values(call.values));
}

std::string list_of_caches() {
  std::string list;
  for (const known_cache& c : table) {
    list += call_help({c.name, c.knobs}, c.about);
  }
  return list;
}

}  // namespace demo
