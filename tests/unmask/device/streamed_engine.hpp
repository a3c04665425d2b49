// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// An engine that runs single positions of its layers, on the host and on a stream, where its
/// kernels take the lists that the session leaves on the device and its host waits for nothing
/// inside a pass. For typed sessions and for those whose policy is not in their type.

#include <unmask/cuda/rows.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/host/rows.hpp>
#include <unmask/session.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::testing::streamed {

inline constexpr index_t width = 16;
inline constexpr index_t layers = 6;
inline constexpr index_t vocab = 19;
inline constexpr index_t length = 40;
inline constexpr model_info model{.vocab = vocab, .mask_token = vocab - 1, .layers = layers};
inline constexpr sequence_shape shape{.prompt_length = 6, .length = length, .block_length = 12};
inline constexpr session_capacity capacity{.length = length,
                                           .window = length - shape.prompt_length};

inline float weight(index_t a, index_t b, index_t c) {
  const auto bits = mixed(
      static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(c));
  return static_cast<float>(2.0 * unit(bits) - 1.0);
}

/// Applies a layer to the row of a position whose neighbours have these tokens.
inline void advance(float* row, index_t layer, index_t position, const token_id* tokens) {
  const token_id left = tokens[position > 0 ? position - 1 : 0];
  for (index_t j = 0; j < width; ++j) {
    const float before = layer == 0 ? 0.0F : 0.7F * row[j];
    row[j] = before + weight(layer, 7 * tokens[position] + left, j) +
             0.5F * weight(layer + 50, position, j);
  }
}

inline void head(const float* row, float* logits) {
  for (index_t v = 0; v < vocab; ++v) {
    logits[v] = 0.0F;
    for (index_t j = 0; j < width; ++j) {
      logits[v] += row[j] * weight(99, v, j);
    }
  }
}

/// Memory of one sequence in an engine.
struct engine_memory {
  std::vector<float> hidden = std::vector<float>(std::size_t{length} * width);
  std::vector<float> gathered = hidden;
  std::vector<float> stored = std::vector<float>(std::size_t{layers} * length * width);
  std::vector<float> logits = std::vector<float>(std::size_t{length} * vocab);
};

/// Decodes the sequence that was started in slot 0.
void run_on_the_host(auto& s, const std::vector<token_id>& tokens) {
  engine_memory e;
  while (s.next()) {
    auto pass = s.pass(0);
    for (index_t l = 0; l < layers; ++l) {
      const auto at = pass.positions();
      for (std::size_t i = 0; i < at.size(); ++i) {
        advance(e.hidden.data() + i * width, l, at[i], tokens.data());
      }
      if (pass.hooks(l)) {
        const host_hidden<float> now(e.hidden.data(), static_cast<index_t>(at.size()), width);
        const auto choice = pass.at_layer(
            l, now, host_state<float>(e.stored.data() + l * length * width, length, width));
        if (pass.skipped == skipping::dropped) {
          host::gather_rows(now, choice.rows, e.hidden.data(), width);
        }
      }
    }
    const auto wanted = pass.rows();
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      head(e.hidden.data() + wanted[r] * width, e.logits.data() + r * vocab);
    }
    s.read(0, host_logits<float>(e.logits.data(), static_cast<index_t>(wanted.size()), vocab));
    s.decide();
  }
}

template <class Policy>
std::vector<token_id> decode_on_the_host(const Policy& p, sequence_report& report) {
  std::vector<token_id> tokens(length, 2);
  session<Policy> s(model, capacity);
  s.start(0, p, tokens, shape);
  run_on_the_host(s, tokens);
  report = s.report();
  return tokens;
}

/// Enqueues one pass; the host reads nothing that the device has written.
inline void enqueue_pass(auto& s, engine_memory& e, token_id* tokens, cudaStream_t stream) {
  auto pass = s.pass(0);
  float* hidden = e.hidden.data();
  float* other = e.gathered.data();
  for (index_t l = 0; l < layers; ++l) {
    const device_list at = pass.positions();
    fake_launch(stream, [=] {
      for (index_t i = 0; i < at.size(); ++i) {
        advance(hidden + i * width, l, at[i], tokens);
      }
    });
    if (pass.hooks(l)) {
      const device_hidden<float> now(hidden, at.most, width);
      const auto choice = pass.at_layer(
          l, now, device_state<float>(e.stored.data() + l * length * width, length, width));
      if (pass.skipped == skipping::dropped) {
        ASSERT_EQ(device::gather_rows(now, choice.rows, other, width, stream), cudaSuccess);
        std::swap(hidden, other);
      }
    }
  }
  const device_list wanted = pass.rows();
  float* const logits = e.logits.data();
  fake_launch(stream, [=] {
    for (index_t r = 0; r < wanted.size(); ++r) {
      head(hidden + wanted[r] * width, logits + r * vocab);
    }
  });
  s.read(0, device_logits<float>(logits, wanted.most, vocab));
  s.decide();
}

/// A sequence that an engine decodes on a stream of its own.
template <class Policy>
struct sequence_on_a_stream {
  std::vector<token_id> tokens = std::vector<token_id>(length, 2);
  CUstream_st stream;
  engine_memory engine;
  unmask::session<Policy, on_stream> session;

  explicit sequence_on_a_stream(const Policy& p)
      : session(model, capacity, on_stream{&stream}) {
    session.start(0, p, {tokens.data(), length}, shape);
  }
  void enqueue() { enqueue_pass(session, engine, tokens.data(), &stream); }
};

}  // namespace unmask::testing::streamed
