// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Random requests with constraints, decoded by a session on the host and by one on a stream, side
/// by side: equal tokens, lists, reports and states at every step, log-probabilities bit by bit.
/// The host's steps are checked against an enumeration of the language elsewhere
/// (named/constraint.test.cpp).

#include <unmask/constraint.hpp>
#include <unmask/cuda/backend.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/constrained_decode.hpp"
#include "support/dice.hpp"
#include "support/fields.hpp"
#include "support/languages.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {

/// Counts over many decodes.
struct constraints_beside {
  int decodes = 0;
  int refused_starts = 0;
  int refused = 0;
  int filled = 0;
  int rewritten = 0;
  int steps = 0;
};

inline void expect_same_steps(auto& host, auto& device, index_t slot) {
  const auto all = [slot](auto& s) {
    return fields_of(s.committed(slot), s.candidates(slot), s.report(slot), s.planned(slot));
  };
  ASSERT_EQ(difference(all(device), all(host)), "");
}

/// A session of each kind with `slots` slots, of which every second has the constraint.
template <class Policy>
void decode_one_beside(const Policy& p, std::uint64_t seed, constraints_beside& n) {
  SCOPED_TRACE(seed);
  dice d(seed);
  // Now and then a mask of many words, or sets of states of many.
  const language l = random_language(
      d, d.chance(0.1) ? d.within(300, 900) : d.within(3, 6), seed % 8 == 7 ? 400 : 6);
  std::optional<constraint> c = constraint_of(l, {.bytes = 1 << 18});
  if (!c) {
    return;
  }
  const constrained_request r = random_constrained_request(d, l);
  const index_t length = r.prompt + r.answer;
  const sequence_shape shape{
      .prompt_length = r.prompt, .length = length, .block_length = r.block, .seed = r.seed};
  const index_t slots = d.within(1, 3);
  const session_capacity capacity{
      .sequences = slots, .length = length, .window = r.answer, .trace = true};
  // One field, or two with a free position between them.
  std::vector<constrained_field> fields;
  if (r.answer >= 3 && d.chance(0.3)) {
    const index_t middle = d.within(1, r.answer - 2);
    fields.push_back({.language = &*c, .last = middle, .fill = r.fill});
    fields.push_back({.language = &*c, .first = middle + 1});
  } else {
    fields.push_back(
        {.language = &*c, .tokens_after = d.chance(0.2) ? any_number : 0, .fill = r.fill});
  }
  const test_stream stream;
  session<Policy> host(l.model, capacity);
  session<Policy, on_stream> device(l.model, capacity, on_stream{stream.get()});
  std::vector<std::vector<token_id>> expected(static_cast<std::size_t>(slots), r.tokens);
  std::vector<std::unique_ptr<device_array<token_id>>> tokens;
  for (index_t k = 0; k < slots; ++k) {
    tokens.push_back(std::make_unique<device_array<token_id>>(r.tokens));
  }
  for (index_t k = 0; k < slots; ++k) {
    start_options options{.editable = r.editable, .suppressed = r.suppressed};
    if (k % 2 == 0) {
      options.constraints = fields;
    }
    const auto i = static_cast<std::size_t>(k);
    try {
      host.start(k, p, {expected[i].data(), length}, shape, options);
    } catch (const std::invalid_argument& e) {
      try {
        device.start(k, p, {tokens[i]->data(), length}, shape, options);
        FAIL() << "a start that the host refuses";
      } catch (const std::invalid_argument& other) {
        ASSERT_STREQ(e.what(), other.what());
      }
      ASSERT_EQ(tokens[i]->to_host(), r.tokens);
      ++n.refused_starts;
      return;
    }
    device.start(k, p, {tokens[i]->data(), length}, shape, options);
  }
  const auto compare = [&] {
    for (index_t k = 0; k < slots && !::testing::Test::HasFatalFailure(); ++k) {
      SCOPED_TRACE("slot " + std::to_string(k));
      static_cast<void>(device.report(k));
      const auto i = static_cast<std::size_t>(k);
      ASSERT_EQ(tokens[i]->to_host(), expected[i]);
      expect_same_steps(host, device, k);
      if (k % 2 == 0) {
        for (std::size_t f = 0; f < fields.size(); ++f) {
          ASSERT_EQ(host.constraint_state(k, f), device.constraint_state(k, f));
        }
      }
    }
  };
  const double scale = d.chance(0.5) ? 2.0 : 8.0;
  const random_rows rows{seed, scale, d.chance(0.2)};
  const bool has_mask = d.chance(0.3);  // of the host's own
  const auto vocab = static_cast<std::size_t>(l.model.vocab);
  const std::size_t words = (vocab + 31) / 32;
  const auto stride = static_cast<std::ptrdiff_t>(words);
  int pass = 0;
  compare();
  while (!::testing::Test::HasFatalFailure()) {
    const auto request = host.next();
    const auto other = device.next();
    ASSERT_EQ(request.has_value(), other.has_value());
    if (!request) {
      break;
    }
    ASSERT_EQ(request->rows, other->rows);
    std::vector<float> logits(static_cast<std::size_t>(request->rows) * vocab);
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>(request->rows) * words, ~0U);
    for (const segment& s : request->segments) {
      for (index_t q = s.rows.first; q < s.rows.last; ++q) {
        const auto at = static_cast<std::size_t>(s.first_row + q - s.rows.first);
        rows.write(pass, q + 100 * s.slot, std::span(logits).subspan(at * vocab, vocab));
        for (std::size_t w = 0; has_mask && w < words; ++w) {
          allowed[at * words + w] = static_cast<std::uint32_t>(d.bits());
        }
      }
    }
    row_modifiers<float> beside;
    row_modifiers<float> beside_device;
    const device_array<float> rows_on_device(logits);
    const device_array<std::uint32_t> allowed_on_device(allowed);
    if (has_mask) {
      beside = {.allowed = allowed.data(), .allowed_stride = stride};
      beside_device = {.allowed = allowed_on_device.data(), .allowed_stride = stride};
    }
    host.supply(host_logits<float>(logits.data(), request->rows, l.model.vocab), beside);
    device.supply(device_logits<float>(rows_on_device.data(), request->rows, l.model.vocab),
                  beside_device);
    ++pass;
    compare();
  }
  ++n.decodes;
  n.steps += pass;
  for (index_t k = 0; k < slots; k += 2) {
    n.refused += host.report(k).refused;
    n.filled += host.report(k).filled;
    n.rewritten += host.report(k).rewritten;
  }
}

/// Decodes `rounds` random requests, from a seed on.
template <class Policy>
constraints_beside decode_beside_host(const Policy& p, std::uint64_t first, int rounds) {
  constraints_beside n;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(rounds); ++seed) {
    decode_one_beside(p, seed, n);
    if (::testing::Test::HasFatalFailure()) {
      break;
    }
  }
  EXPECT_GT(n.decodes, rounds / 8);
  EXPECT_GT(n.refused_starts, 0);
  return n;
}

}  // namespace unmask::testing
