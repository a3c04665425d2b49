// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/gguf.hpp"
#include "engine/llada_layer.hpp"
#include "engine/llada_weights.hpp"

namespace example {

/// One sequence of a batch, and the half-open range of positions whose logits to return.
struct sequence_window {
  std::span<const std::int32_t> tokens;  ///< the whole sequence, position 0 first
  std::size_t first = 0;                 ///< first requested position
  std::size_t last = 0;                  ///< one past the last requested position
};

/// Logits, row-major f32 [rows, vocabulary] without gaps. A view of memory that the model owns.
struct logits_view {
  const float* data = nullptr;
  std::size_t rows = 0;
  std::size_t vocabulary = 0;

  /// One row of logits.
  std::span<const float> row(std::size_t i) const { return {data + i * vocabulary, vocabulary}; }
};

/// Positions [first, last) of a sequence.
struct positions_range {
  std::int32_t first = 0, last = 0;
};

/// Keys that a layer continues to attend to if a policy drops some: see unmask::key_eviction.
struct dropped_keys {
  std::int32_t first = 0, last = 0;  ///< the blocks decided about, which keep theirs
  double keep = 1.0;                 ///< share of the others that stay
  std::int32_t pool = 1;
};

/// A LLaDA, BERT or ALBERT transformer that runs on one thread of the CPU; llada_config::kind says
/// which.
///
/// Attention is bidirectional, unless the file says block-causal (causal_blocks) or a pass asks for
/// another kind: a forward pass processes whole sequences, mask tokens included, and the logits of
/// a position are about the token at that same position. One object serves one thread; objects made
/// from the same weights may run at the same time.
class llada_model {
 public:
  /// Loads the weights of a file; see llada_weights::load for what it throws.
  explicit llada_model(const gguf_file& file);

  /// Shares weights that are loaded already. They must not be null.
  explicit llada_model(std::shared_ptr<const llada_weights> weights);

  llada_model(const llada_model&);
  llada_model(llada_model&&) noexcept;
  llada_model& operator=(const llada_model&);
  llada_model& operator=(llada_model&&) noexcept;
  ~llada_model();

  const llada_config& config() const { return weights_->config; }
  const std::shared_ptr<const llada_weights>& weights() const { return weights_; }

  /// Logits of the requested rows of each sequence: those of batch[0] first, each window in
  /// ascending position. A row's bits depend on the tokens of its own sequence only: neither on the
  /// rest of the batch nor on the other requested rows.
  ///
  /// The view is valid until the next call. Once a call of the largest shape has been made, no
  /// further call allocates. Throws std::invalid_argument, before anything is computed, if a
  /// sequence is longer than the context, a token is outside the vocabulary or a window is outside
  /// its sequence.
  logits_view forward(std::span<const sequence_window> batch);

  /// Overload for a single sequence.
  logits_view forward(std::span<const std::int32_t> tokens, std::size_t first, std::size_t last);

  /// Computes the positions of `pass`, a session's pass, of a single sequence, and takes the
  /// rest from `memory`, in which it keeps what later passes reuse: for a policy with a cache. The
  /// logits are those of pass.rows(). Where everything is run they are, bit for bit, those of the
  /// calls above. Defined in llada_pass.hpp, which says what another engine needs to do the same.
  template <class Pass>
  logits_view forward(Pass& pass,
                      std::span<const std::int32_t> tokens,
                      sequence_memory& memory,
                      const dropped_keys& dropping = {},
                      bool is_causal = false);

  /// A shadow of the positions `query` of a sequence whose keys and values `memory` keeps from the
  /// pass that computed it: a mask at each of them that attends to the first `attended` positions
  /// but its own, and to all of the shadow. Returns the logits of `rows`, a part of `query`; keeps
  /// nothing.
  logits_view forward_shadow(std::span<const std::int32_t> tokens,
                             std::int32_t mask,
                             positions_range query,
                             positions_range rows,
                             std::size_t attended,
                             const sequence_memory& memory);

 private:
  friend class stepped_pass;  // the same forward, one call for each step:
                              // examples/bindings/c/engine.cpp

  std::size_t validate(std::span<const sequence_window> batch) const;
  void reserve(std::size_t positions, std::size_t rows);
  void forward_one(const sequence_window& window, float* logits);

  // The steps of a forward. The rows are those of hidden_, at the positions of present_.
  hidden_rows embed(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions);
  hidden_rows keep(hidden_rows rows, std::span<const std::int32_t> chosen);
  std::span<const float>
  attend(std::size_t layer, std::size_t attended, hidden_rows rows, const sequence_memory& memory);
  void compute(std::size_t layer, std::size_t attended, hidden_rows rows, sequence_memory& memory);
  void compute_some(std::size_t layer,
                    std::size_t attended,
                    hidden_rows rows,
                    std::span<const std::int32_t> chosen,
                    sequence_memory& memory);
  hidden_rows compute_last(std::size_t attended,
                           hidden_rows rows,
                           std::span<const std::int32_t> wanted,
                           sequence_memory& memory);
  std::span<const float> mean_query(hidden_rows rows, const dropped_keys& dropping);
  std::span<const float> keys_of(const key_values& store, std::size_t count);
  void write_logits(hidden_rows rows, float* logits);

  std::shared_ptr<const llada_weights> weights_;
  rotary_table rotary_;
  layer_scratch scratch_;
  key_values store_, own_;               // for keys that do not outlive their layer's turn
  std::vector<std::int32_t> positions_;  // 0, 1, 2, ...
  std::vector<std::int32_t> shadow_;     // the tokens of a shadow
  std::vector<std::int32_t> present_;    // where the rows of a forward stand
  std::vector<float> hidden_;            // [present, width]
  std::vector<std::int32_t> chosen_;     // those of them that a layer computes, where it is not all
  std::vector<float> chosen_hidden_;
  std::vector<float> query_, keys_;  // to choose the keys that stay: [width], [position, width]
  std::vector<float> logits_;        // [rows, vocabulary]
};

}  // namespace example
