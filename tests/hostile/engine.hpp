// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// An engine that gives a session whatever an engine can go wrong with: NaN, infinities, ties,
/// grammars that allow nothing. Every number follows from a seed, the sequence, its step, the row
/// and the tokens around it, so that a decode can be repeated alone, or with other threads.

#include <unmask/core/plan.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "support/dice.hpp"

namespace unmask::hostile {

/// Kinds of rows of logits.
enum class mood : std::uint8_t {
  sane,     ///< numbers of a few nats, one token ahead of the others
  sure,     ///< one token far ahead
  one_nan,  ///< a NaN among sane numbers
  all_nan,
  nothing,   ///< -inf everywhere
  infinite,  ///< a +inf among sane numbers
  denormal,
  equal,   ///< one number everywhere
  few,     ///< three numbers: ties, zeros of both signs
  huge,    ///< of either sign, up to the largest float
  sparse,  ///< -inf but for one column
  ends,    ///< the EOS token far ahead
  masks,   ///< the mask token far ahead
  halves,  ///< one, two or four equal columns, -inf elsewhere: a threshold may be met exactly
  count
};

/// Tokens that the bitmask of a row allows.
enum class grammar : std::uint8_t { everything, nothing, one_token, half, mask_only, count };

struct hostile_engine {
  std::uint64_t seed = 0;
  /// How often a row has a mood, relative to the others.
  std::array<double, static_cast<std::size_t>(mood::count)> moods = {1.0};
  std::array<double, static_cast<std::size_t>(grammar::count)> grammars = {1.0};
  /// Share of positions whose row is never valid.
  double doomed = 0.0;
  /// Whether rows change from step to step though no token did; whether bitmasks do.
  bool restless = false;
  bool restless_grammar = false;
  /// Whether bitmasks and unconditional rows are given at all.
  bool has_grammar = false;
  bool has_guidance = false;
  float cfg_scale = 0.0F;
};

[[nodiscard]] hostile_engine random_engine(testing::dice& d);

/// The requested row. `tokens` are those of the sequence, a branch's token in its place.
struct row_place {
  std::uint64_t sequence = 0;
  index_t step = 0;
  index_t row = 0;
  std::span<const token_id> tokens;
};

/// The logits of a row, in float.
void write_row(const hostile_engine& e,
               const model_info& model,
               const row_place& where,
               std::span<float> out);

/// A row of a layer, as layer rules compare it with an earlier one.
void write_hidden(const hostile_engine& e,
                  const row_place& where,
                  index_t layer,
                  std::span<float> out);

/// The unconditional row beside it.
void write_unconditional(const hostile_engine& e,
                         const model_info& model,
                         const row_place& where,
                         std::span<float> out);

/// Its bitmask: ceil(vocab / 32) words, with anything in the bits behind the vocabulary.
void write_allowed(const hostile_engine& e,
                   const model_info& model,
                   const row_place& where,
                   std::span<std::uint32_t> out);

}  // namespace unmask::hostile
