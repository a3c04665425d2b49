// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// One case: a policy, a model, some sequences that share a session, and the engine they meet.

#include <unmask/named_policy.hpp>

#include <optional>
#include <string>
#include <vector>

#include "hostile/engine.hpp"
#include "hostile/written_policy.hpp"
#include "support/languages.hpp"

namespace unmask::hostile {

/// Positions of an answer that are to be a string of the language of the case: offsets from the end
/// of the prompt, and as in constrained_field.
struct field_plan {
  index_t first = 0;
  index_t last = 0;
  bool fill = true;
  bool read_again = false;
  index_t tokens_after = 0;
  std::vector<token_id> before;  ///< tokens before it; its state is the one after them
};

/// A sequence and when it comes and goes.
struct sequence_plan {
  sequence_shape shape;
  /// Tokens of the buffer behind sequence_shape::length.
  index_t spare = 0;
  std::vector<std::uint8_t> editable;
  std::vector<token_id> suppressed;
  index_t soft_tokens = 0;  ///< start_options::soft_tokens
  std::vector<field_plan> fields;
  /// Rounds of the batch that it waits for before it takes a free slot.
  index_t joins = 0;
  /// Own steps after which it is cancelled; -1: never.
  index_t cancels = -1;
  /// Whether that is while the next pass is out, which is abandoned, and requested of the others.
  bool cancels_in_pass = false;
};

struct scenario {
  std::uint64_t seed = 0;
  std::uint64_t number = 0;
  model_info model;
  written_policy policy;
  std::vector<sequence_plan> sequences;
  std::optional<testing::language> language;  ///< if any sequence has fields
  index_t slots = 1;
  hostile_engine engine;
  element_kind kind = element_kind::f32;
  /// Columns behind the vocabulary, NaN all of them; elements and words in front of the first row.
  index_t padding = 0;
  index_t offset = 0;
  /// Whether limits hold what is needed and no more.
  bool tight = true;
};

/// How large cases are: small ones have few tokens, positions and sequences, and are over soon.
enum class case_size { any, small };

/// Case `number` of a seed: the same on every machine.
[[nodiscard]] scenario random_scenario(std::uint64_t seed,
                                       std::uint64_t number,
                                       case_size size = case_size::any,
                                       drawn_parts parts = drawn_parts::all);
/// The case that these choices make, without seed and number.
[[nodiscard]] scenario random_scenario(testing::dice& d,
                                       case_size size = case_size::any,
                                       drawn_parts parts = drawn_parts::all);

/// Description for failure messages.
[[nodiscard]] std::string description(const scenario& s);

/// All ways to make it a little smaller.
[[nodiscard]] std::vector<scenario> smaller(const scenario& s);

}  // namespace unmask::hostile
