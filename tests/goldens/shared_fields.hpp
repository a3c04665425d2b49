// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "goldens/hash_logits.hpp"
#include "goldens/json_node.hpp"

namespace unmask::goldens {

/// Reads the fields of a `model` that fake_model and context_model share.
template <class Model>
void read_shared_fields(const node& n, Model& m) {
  m.seed = n.get<std::uint64_t>("seed");
  m.V = n.get<int>("V");
  m.v_eff = n.get<int>("v_eff");
  m.mask_id = n.get<token>("mask_id");
  m.eos_id = n.get<token>("eos_id");
  m.eos_from = n.get<int>("eos_from");
  m.radius = n.get<int>("radius");
  m.a_lo = n.get<std::int64_t>("a_lo");
  m.a_rng = n.get<std::uint64_t>("a_rng");
  m.slope = n.get<std::int64_t>("slope");
  m.j_rng = n.get<std::uint64_t>("j_rng");
  m.r_lo = n.get<std::int64_t>("r_lo");
  m.r_rng = n.get<std::uint64_t>("r_rng");
}

}  // namespace unmask::goldens
