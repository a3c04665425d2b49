// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels.hpp"
#include "engine/llada_weights.hpp"

// One layer, cut where an engine with caches cuts it: keys and values of some positions are
// written into a store, then queries of some positions, not necessarily the same, attend to all
// that the store holds. A full forward passes all positions to both; a forward that reuses cached
// keys passes only the positions it refreshes, and keeps one store for each layer: llada_pass.hpp.
namespace example {

/// Keys (rotated) and values of the positions of one sequence in one layer.
class key_values {
 public:
  /// Makes room for `positions` positions. What is stored stays; the room only grows.
  void reserve(std::size_t positions, std::size_t width);

  /// Stores the key and the value of a position; each has `width` entries.
  void put(std::size_t position, std::span<const float> key, std::span<const float> value);

  /// The key and the value of a position, `width` entries each.
  void get(std::size_t position, std::span<float> key, std::span<float> value) const;

  /// One head's keys of positions 0..count as [head width, count], for scores.
  panels keys(std::size_t head, std::size_t head_width, std::size_t count) const;

  /// One head's values of positions 0..count as [count, head width], for their weighted sum.
  panels values(std::size_t head, std::size_t head_width, std::size_t count) const;

 private:
  std::size_t width_ = 0;
  std::vector<float> keys_;    // [position / lanes][width][lanes]: grows without moving an entry
  std::vector<float> values_;  // [position][width]
};

/// Cosines and sines of the rotary angles, [position, head width / 2] each.
class rotary_table {
 public:
  /// Computes the angles of positions below `positions` that are not there yet.
  void reserve(std::size_t positions, const llada_config& config);

  /// Rotates a query or key of the position: all its heads.
  void rotate(std::size_t position, std::span<float> row) const;

 private:
  std::size_t pairs_ = 0;
  std::vector<float> cosines_, sines_;
};

/// Memory of a sequence for one layer, from one forward pass to the next. The rows are [position,
/// width], and exist only if a policy of the sequence uses them.
struct layer_memory {
  key_values store;
  std::vector<float> attention, feed_forward;  ///< what the layer added when it was last computed
  std::vector<float> previous;                 ///< lent to the policy, which compares with it
  std::vector<std::int32_t> kept_keys;         ///< ascending, where the policy dropped others
};

/// Keys that a row does not attend to: those after its block (causal attention), or that of its
/// own position (the rows of a shadow, which are not themselves in the store below `count`).
struct hidden_keys {
  causal_blocks behind = {};
  bool own = false;
};

/// Memory of a sequence for all layers. Copied or swapped as a whole for another sequence or
/// branch.
struct sequence_memory {
  std::vector<layer_memory> layers;
  std::int64_t computed = 0;  ///< positions that each layer computed, summed over the layers
  bool drops_keys = false;    ///< of this pass: attend to layer_memory::kept_keys and the blocks
  std::int32_t blocks_first = 0, blocks_last = 0;
  hidden_keys hides = {};  ///< of this pass

  /// Where a model has block-causal attention: positions from here on attend to one another, too,
  /// until it is set again. LoPA decodes so (section 3.3).
  std::size_t window = SIZE_MAX;
};

/// Memory for the intermediate results of a layer; it only grows.
struct layer_scratch {
  std::vector<float> normed, query, key, value, attended, scores, gate, up, projected;

  /// Makes room for `rows` rows that attend to `positions` positions.
  void reserve(std::size_t rows, std::size_t positions, const llada_config& config);
};

/// Hidden states of some positions of a sequence: row i, of `width` entries, is that of
/// positions[i].
struct hidden_rows {
  float* data = nullptr;
  std::span<const std::int32_t> positions;
};

/// Applies an activation without a gate, in place. The size is a multiple of `lanes`.
void activate(activation function, std::span<float> x);

/// Adds to the rows what attention or feed forward gave, [rows, width], and applies the norm if it
/// is one that follows.
void add_and_norm(const llada_config& config,
                  const norm& following,
                  std::span<const float> added,
                  std::span<float> rows);

/// Tensors of a layer that a policy may compare before the layer is computed: what it reads, which
/// is the norm of the rows or, where norms follow, the rows; and its queries, keys and values.
enum class layer_input { normed, query, key, value };

/// The tensor of these rows, [rows, width] without gaps; queries and keys are not rotated. Valid
/// until the scratch is used again.
std::span<const float> input_of(const llada_config& config,
                                const llada_layer& layer,
                                layer_input what,
                                hidden_rows rows,
                                layer_scratch& scratch);

/// Writes the keys and values of these rows into the store.
void update_keys_values(const llada_config& config,
                        const llada_layer& layer,
                        const rotary_table& rotary,
                        hidden_rows rows,
                        layer_scratch& scratch,
                        key_values& store);

/// Adds the attention of these rows over the first `count` positions of the store, but for those
/// that it hides, to the rows, with the norm that follows, if one does. Returns what was added,
/// [rows, width], valid until the scratch is used again.
std::span<const float> add_attention(const llada_config& config,
                                     const llada_layer& layer,
                                     const rotary_table& rotary,
                                     const key_values& store,
                                     std::size_t count,
                                     hidden_rows rows,
                                     layer_scratch& scratch,
                                     hidden_keys hides = {});

/// Adds the feed forward of these rows to the rows. Returns what was added, as add_attention.
std::span<const float> add_feed_forward(const llada_config& config,
                                        const llada_layer& layer,
                                        hidden_rows rows,
                                        layer_scratch& scratch);

}  // namespace example
