// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "named/named_session.hpp"

#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

namespace example {

namespace {

using namespace unmask;

using session_pointer = std::unique_ptr<any_layer_session>;

// Compositions that are compiled with early skipping and with single positions left out. Lookahead
// is not: branches have no hidden states of their own to compare with.
using skipping_compositions = compositions<edits_and({}),
                                           edits_and({.revisits = true}),
                                           edits_and({.revisits = true, .remasks = true}),
                                           edits_and({.draws = true}),
                                           abilities{.edits = true, .draws = true, .keeps = true},
                                           abilities{.edits = true, .compares = true}>;
// The rules of other kinds: each would double what is compiled.
using plain_compositions = compositions<edits_and({})>;

}  // namespace

session_pointer named_session(const named_parts& parts,
                              const model_info& model,
                              const limits& capacity,
                              const on_host& where) {
  return make_any_layer_session(parts, model, capacity, where);
}

session_pointer named_session(const named_parts& parts,
                              const layer_setup& layers,
                              const model_info& model,
                              const limits& capacity) {
  if (!layers.layered()) {
    named_parts with_cache = parts;
    with_cache.cache = layers.cache;
    return named_session(with_cache, model, capacity);
  }
  const auto make = [&](const auto& p) -> session_pointer {
    return make_any_layer_session(p, model, capacity);
  };
  const any_picking_cache cache{layers.cache};
  switch (layers.which) {
  case layer_rule_kind::budget:
    return with_policy<plain_compositions>(parts, model, make, cache, layers.budget);
  case layer_rule_kind::similarity:
    return with_policy<plain_compositions>(parts, model, make, cache, layers.similarity);
  case layer_rule_kind::none:
  case layer_rule_kind::skip:
    break;
  }
  early_skip skip = layers.skip;
  skip.stage_count = layers.which == layer_rule_kind::none ? 0 : skip.stage_count;
  return with_policy<skipping_compositions>(parts, model, make, cache, skip);
}

}  // namespace example
