// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <span>
#include <vector>

// The arithmetic of a forward. Each output value is summed in one fixed order, which depends
// neither on how many rows are computed together nor on where a buffer lies in memory: that is what
// makes the logits of a sequence independent of the rest of its batch, bit for bit. (A general
// matrix product does not guarantee this: it sums the rows left over at an edge differently.)
namespace example {

/// Columns that are computed side by side. All widths but the vocabulary's are multiples of it.
inline constexpr std::size_t lanes = 8;

/// `size` rounded up to whole groups of lanes.
constexpr std::size_t padded(std::size_t size) {
  return (size + lanes - 1) / lanes * lanes;
}

/// A matrix [depth, columns] that lies in memory as panels of `lanes` columns. The entry of
/// `row` and `column` is data[column / lanes * panel_step + row * row_step + column % lanes].
struct panels {
  const float* data = nullptr;
  std::size_t depth = 0;
  std::size_t columns = 0;
  std::size_t panel_step = 0;
  std::size_t row_step = 0;
};

/// A weight matrix [outputs, inputs], kept transposed and in panels for `multiply`.
class weight_matrix {
 public:
  weight_matrix() = default;

  /// Packs row-major weights of `outputs * inputs` values.
  weight_matrix(std::span<const float> weights, std::size_t outputs, std::size_t inputs);

  /// The matrix as the right-hand side of `multiply`: depth is inputs, columns is outputs.
  panels view() const { return {packed_.data(), inputs_, outputs_, inputs_ * lanes, lanes}; }

 private:
  std::vector<float> packed_;
  std::size_t outputs_ = 0;
  std::size_t inputs_ = 0;
};

/// Some rows of a row-major matrix: row i starts at data + i * stride.
template <class Scalar>
struct row_block {
  Scalar* data = nullptr;
  std::size_t rows = 0;
  std::size_t stride = 0;
};

/// out = in * matrix. `in` is [rows, depth]; as many rows of `out` are written, [rows, columns].
void multiply(row_block<const float> in, const panels& matrix, row_block<float> out);

/// Root-mean-square norm of each row, times `weight`: [rows, weight.size()]. `out` may be `in`.
void rms_norm(row_block<const float> in,
              std::span<const float> weight,
              float epsilon,
              row_block<float> out);

/// Layer norm of each row: (x - mean) / sqrt(variance + epsilon) * weight + bias, rows of
/// weight.size(). `out` may be `in`.
void layer_norm(row_block<const float> in,
                std::span<const float> weight,
                std::span<const float> bias,
                float epsilon,
                row_block<float> out);

/// Rotary embedding: turns each neighbouring pair (2i, 2i + 1) of `row` by the angle whose cosine
/// and sine are given; the angles repeat with every head.
void rotate_pairs(std::span<float> row,
                  std::span<const float> cosines,
                  std::span<const float> sines);

/// Softmax of scale * row over the first `count` values of a row that is padded to whole lanes;
/// the padding becomes 0.
void scaled_softmax(float* row, std::size_t count, float scale);

/// gate = silu(gate) * up, entry by entry. The size is a multiple of `lanes`.
void gated_silu(std::span<float> gate, std::span<const float> up);

/// x = x * Phi(x), Phi the distribution function of the normal distribution, entry by entry, within
/// 1e-6 * max(1, |x|). The size is a multiple of `lanes`.
void gelu(std::span<float> x);

/// x = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), which many models have for gelu.
void gelu_tanh(std::span<float> x);

/// Adds `bias` to each row. Its size need not be a multiple of `lanes`.
void add_to_rows(std::span<const float> bias, row_block<float> rows);

/// x += y, entry by entry. The size is a multiple of `lanes`.
void add(std::span<float> x, std::span<const float> y);

}  // namespace example
