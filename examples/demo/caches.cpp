// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/caches.hpp"

#include <array>

namespace demo {

namespace {

// Where early skipping has two stages, the second keeps that share of what the first does.
const std::array table{
    known_cache{
        "none",
        "nothing is kept: each pass is a full forward",
        {},
        "",
    },
    known_cache{
        "prefix",
        "K/V left of the block (Fast-dLLM)",
        {{"period", 0, true}},
        "prefix_cache({period})",
    },
    known_cache{
        "dual",
        "K/V on both sides of the block (Fast-dLLM)",
        {{"period", 0, true}},
        "dual_cache({period})",
    },
    known_cache{
        "sparse",
        "the dual cache without the keys that the block attends to least (Sparse-dLLM)",
        {{"keep", 0.5}, {"pool", 3, true}, {"period", 0, true}},
        "dual_cache({period}, whole=2) + key_eviction({keep}, pool={pool})",
    },
    known_cache{
        "block",
        "the same, refreshed by the count of passes only (ES-dLLM without skipping)",
        {{"prompt_period", 64, true}, {"block_period", 16, true}},
        "block_cache({prompt_period}, {block_period})",
    },
    known_cache{
        "delayed",
        "K/V of every token, one pass after it was committed (dKV-Cache)",
        {{"period", 8, true}},
        "delayed_cache({period})",
    },
    known_cache{
        "similarity",
        "each layer computes the share of the answer whose values changed most (dLLM-Cache)",
        {{"share", 0.25}, {"prompt_period", 50, true}, {"answer_period", 7, true}},
        "similarity_refresh({share}) + interval_cache({prompt_period}, {answer_period})",
    },
    known_cache{
        "budget",
        "each layer computes as many positions as it changed lately (Dynamic-dLLM)",
        {{"budget", 8, true},
         {"window", 8, true},
         {"prompt_period", 1, true},
         {"answer_period", 0, true}},
        "cache_budget({budget}, {window}) + interval_cache({prompt_period}, {answer_period})",
    },
    known_cache{
        "skip",
        "deeper layers compute the important part of the block only (ES-dLLM, the paper's rule)",
        {{"keep", 0.5}, {"weight", 0.5}, {"prompt_period", 64, true}, {"block_period", 16, true}},
        "early_skip({weight}, [0.125, 0.25], [{keep}, {keep^2}]) + "
        "block_cache({prompt_period}, {block_period})",
    },
    known_cache{
        "skip_released",
        "the same as its code does it: a floor, and bonuses for open and new positions",
        {{"keep", 0.5}, {"weight", 0.5}, {"prompt_period", 64, true}, {"block_period", 16, true}},
        "early_skip({weight}, [0.125, 0.25], [{keep}, {keep^2}], floor=true, cap=true, "
        "first_open=5, committed=3, confident=2, forgets_held=true) + "
        "block_cache({prompt_period}, {block_period}, reaches_back=true, aligned=true)",
    },
    known_cache{
        "skip_dual",
        "early skipping over the dual cache: each block starts with a full forward",
        {{"keep", 0.5}, {"weight", 0.5}, {"period", 0, true}},
        "early_skip({weight}, [0.125, 0.25], [{keep}, {keep^2}]) + dual_cache({period})",
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
  const known_cache& c = table.at(call.index);
  label_ = call.label;
  text_ = filled(c.text, c.knobs, call.values);
}

std::string list_of_caches() {
  std::string list;
  for (const known_cache& c : table) {
    list += call_help({c.name, c.knobs}, c.about, c.text);
  }
  return list;
}

}  // namespace demo
