// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/kernels.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace example {
namespace {

// Fixed-size arrays: no dynamic length means no peeled head or tail that is computed otherwise.
using pack = Eigen::Array<float, static_cast<int>(lanes), 1>;

pack load(const float* from) {
  return pack::Map(from);
}
void store(const pack& value, float* to) {
  pack::Map(to) = value;
}

// 6 rows of 8 columns are 12 of the 16 vector registers that every x86-64 machine has.
constexpr std::size_t tile_rows = 6;

/// One tile: sums over the depth in order. Written over an index sequence so that the sums stay in
/// registers even where the optimiser does not unroll loops.
template <std::size_t... Row>
void multiply_tile(std::index_sequence<Row...>,
                   const float* const* in,
                   const float* panel,
                   std::size_t depth,
                   std::size_t row_step,
                   pack* out) {
  const float* const from[] = {in[Row]...};
  pack sum[] = {(static_cast<void>(Row), pack(pack::Zero()))...};
  for (std::size_t k = 0; k < depth; ++k) {
    const pack column = load(panel + k * row_step);
    ((sum[Row] += from[Row][k] * column), ...);
  }
  ((out[Row] = sum[Row]), ...);
}

}  // namespace

weight_matrix::weight_matrix(std::span<const float> weights,
                             std::size_t outputs,
                             std::size_t inputs)
    : packed_(padded(outputs) * inputs)
    , outputs_(outputs)
    , inputs_(inputs) {
  for (std::size_t output = 0; output < outputs; ++output) {
    for (std::size_t input = 0; input < inputs; ++input) {
      packed_[output / lanes * inputs * lanes + input * lanes + output % lanes] =
          weights[output * inputs + input];
    }
  }
}

void multiply(row_block<const float> in, const panels& matrix, row_block<float> out) {
  for (std::size_t column = 0; column < matrix.columns; column += lanes) {
    const float* panel = matrix.data + column / lanes * matrix.panel_step;
    const std::size_t width = std::min(lanes, matrix.columns - column);
    for (std::size_t row = 0; row < in.rows; row += tile_rows) {
      // A tile past the last row computes that row again instead of taking another path.
      const float* from[tile_rows];
      for (std::size_t i = 0; i < tile_rows; ++i) {
        from[i] = in.data + std::min(row + i, in.rows - 1) * in.stride;
      }
      pack sums[tile_rows];
      multiply_tile(
          std::make_index_sequence<tile_rows>(), from, panel, matrix.depth, matrix.row_step, sums);
      for (std::size_t i = 0; i < std::min(tile_rows, in.rows - row); ++i) {
        float* to = out.data + (row + i) * out.stride + column;
        if (width == lanes) {
          store(sums[i], to);
        } else {
          std::copy_n(sums[i].data(), width, to);
        }
      }
    }
  }
}

void rms_norm(row_block<const float> in,
              std::span<const float> weight,
              float epsilon,
              row_block<float> out) {
  for (std::size_t row = 0; row < in.rows; ++row) {
    const float* from = in.data + row * in.stride;
    float* to = out.data + row * out.stride;
    pack squares = pack::Zero();
    for (std::size_t i = 0; i < weight.size(); i += lanes) {
      squares += load(from + i).square();
    }
    const float mean = squares.sum() / static_cast<float>(weight.size());
    const float factor = 1.0F / std::sqrt(mean + epsilon);
    for (std::size_t i = 0; i < weight.size(); i += lanes) {
      store(load(from + i) * factor * load(weight.data() + i), to + i);
    }
  }
}

void layer_norm(row_block<const float> in,
                std::span<const float> weight,
                std::span<const float> bias,
                float epsilon,
                row_block<float> out) {
  const auto size = static_cast<float>(weight.size());
  for (std::size_t row = 0; row < in.rows; ++row) {
    const float* from = in.data + row * in.stride;
    float* to = out.data + row * out.stride;
    pack sum = pack::Zero();
    for (std::size_t i = 0; i < weight.size(); i += lanes) {
      sum += load(from + i);
    }
    const float mean = sum.sum() / size;
    pack squares = pack::Zero();
    for (std::size_t i = 0; i < weight.size(); i += lanes) {
      squares += (load(from + i) - mean).square();
    }
    const float factor = 1.0F / std::sqrt(squares.sum() / size + epsilon);
    for (std::size_t i = 0; i < weight.size(); i += lanes) {
      store((load(from + i) - mean) * factor * load(weight.data() + i) + load(bias.data() + i),
            to + i);
    }
  }
}

void rotate_pairs(std::span<float> row,
                  std::span<const float> cosines,
                  std::span<const float> sines) {
  const std::size_t head = 2 * cosines.size();
  for (std::size_t start = 0; start < row.size(); start += head) {
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      float& even = row[start + 2 * i];
      float& odd = row[start + 2 * i + 1];
      const float turned = even * cosines[i] - odd * sines[i];
      odd = odd * cosines[i] + even * sines[i];
      even = turned;
    }
  }
}

void scaled_softmax(float* row, std::size_t count, float scale) {
  const std::size_t size = padded(count);
  std::fill(row + count, row + size, std::numeric_limits<float>::lowest());
  pack largest = load(row);
  for (std::size_t i = lanes; i < size; i += lanes) {
    largest = largest.max(load(row + i));
  }
  const float peak = largest.maxCoeff();
  for (std::size_t i = 0; i < size; i += lanes) {
    store(((load(row + i) - peak) * scale).exp(), row + i);
  }
  std::fill(row + count, row + size, 0.0F);  // exp of a huge negative number is tiny, not always 0
  pack sum = pack::Zero();
  for (std::size_t i = 0; i < size; i += lanes) {
    sum += load(row + i);
  }
  const float factor = 1.0F / sum.sum();
  for (std::size_t i = 0; i < size; i += lanes) {
    store(load(row + i) * factor, row + i);
  }
}

void gated_silu(std::span<float> gate, std::span<const float> up) {
  for (std::size_t i = 0; i < gate.size(); i += lanes) {
    const pack x = load(gate.data() + i);
    store(x / (1.0F + (-x).exp()) * load(up.data() + i), gate.data() + i);
  }
}

void gelu(std::span<float> x) {
  // erfc by formula 7.1.26 of Abramowitz and Stegun, whose error is at most 1.5e-7.
  constexpr float half_root = 0.70710678F;
  for (std::size_t i = 0; i < x.size(); i += lanes) {
    const pack value = load(x.data() + i);
    const pack z = value.abs() * half_root;
    const pack t = 1.0F / (1.0F + 0.3275911F * z);
    const pack series =
        ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t +
         0.254829592F) *
        t;
    const pack tail = 0.5F * series * (-z.square()).exp();  // Phi(-|x|)
    store(value * (value > 0.0F).select(1.0F - tail, tail), x.data() + i);
  }
}

void gelu_tanh(std::span<float> x) {
  constexpr float scale = 0.79788456F;  // sqrt(2 / pi)
  for (std::size_t i = 0; i < x.size(); i += lanes) {
    const pack value = load(x.data() + i);
    const pack inner = scale * (value + 0.044715F * value.cube());
    // (1 + tanh(y)) / 2 = 1 / (1 + exp(-2 y))
    store(value / (1.0F + (-2.0F * inner).exp()), x.data() + i);
  }
}

void add_to_rows(std::span<const float> bias, row_block<float> rows) {
  for (std::size_t row = 0; row < rows.rows; ++row) {
    float* const to = rows.data + row * rows.stride;
    for (std::size_t i = 0; i < bias.size(); ++i) {
      to[i] += bias[i];
    }
  }
}

void add(std::span<float> x, std::span<const float> y) {
  for (std::size_t i = 0; i < x.size(); i += lanes) {
    store(load(x.data() + i) + load(y.data() + i), x.data() + i);
  }
}

}  // namespace example
