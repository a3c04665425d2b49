// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Sequences decoded by a session on the host and by one on a stream, side by side: equal requests,
/// tokens, reports, commits and candidates at every step, log-probabilities bit by bit.
///
/// The same source runs with the toolkit's runtime on a device and with the fake one of
/// tests/unmask/device, whose kernels are emulated.

#include <unmask/cuda/backend.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>
#include <unmask/step/check_soft_tokens.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_logits.hpp"
#include "support/fields.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {

/// The logits of one forward request: rows at a distance, at an odd address, with modifiers.
template <element T>
struct logits_of {
  const fake_model* model = nullptr;
  index_t columns = 0;
  std::ptrdiff_t stride = 0;
  std::vector<T> numbers;
  std::vector<T> unconditional;
  std::vector<std::uint32_t> allowed;
  std::ptrdiff_t words = 0;
  bool guided = false;
  bool masked = false;

  logits_of(const fake_model& m, index_t rows, index_t padding, bool guide, bool mask)
      : model(&m)
      , columns(m.vocab)
      , stride(m.vocab + padding)
      , numbers(static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows) + 1)
      , words((m.vocab + 31) / 32 + 1)
      , guided(guide)
      , masked(mask) {
    unconditional.resize(numbers.size());
    allowed.assign(static_cast<std::size_t>(words) * static_cast<std::size_t>(rows), 0);
    dice d(m.seed);
    for (std::uint32_t& w : allowed) {
      w = static_cast<std::uint32_t>(d.bits() | d.bits());
    }
  }

  /// Fills the rows of a segment whose sequence holds `tokens`.
  void forward(const segment& s, std::vector<token_id> tokens) {
    if (s.attention == attention_kind::shadow) {  // of another model, so that it disagrees
      tokens.assign(tokens.size(), model->seed % 2 == 0 ? 0 : 1);
    }
    for (const auto& placed : s.placed) {
      tokens[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    for (index_t r = 0; r < s.rows.size(); ++r) {
      const std::ptrdiff_t at = 1 + (s.first_row + r) * stride;
      const auto width = static_cast<std::size_t>(columns);
      model->row<T>(tokens, s.rows.first + r, std::span<T>(numbers.data() + at, width));
      fake_model other = *model;
      other.seed += 1;
      other.row<T>(tokens, s.rows.first + r, std::span<T>(unconditional.data() + at, width));
    }
  }

  template <memory M>
  [[nodiscard]] rows_view<T, M> view(index_t rows) const {
    return {numbers.data() + 1, rows, columns, stride};
  }
  [[nodiscard]] row_modifiers<T> modifiers() const {
    return modifiers_at(unconditional.data(), allowed.data());
  }
  [[nodiscard]] row_modifiers<T> modifiers_at(const T* others, const std::uint32_t* bits) const {
    row_modifiers<T> r;
    if (masked) {
      r.allowed = bits;
      r.allowed_stride = words;
    }
    if (guided) {
      r.unconditional = others + 1;
      r.unconditional_stride = stride;
      r.cfg_scale = 0.75F;
    }
    return r;
  }
};

/// A copy of logits_of in device memory, made in the order of a stream.
template <element T>
struct logits_on_device {
  logits_of<T> from;
  device_array<T> numbers;
  device_array<T> unconditional;
  device_array<std::uint32_t> allowed;

  logits_on_device(const logits_of<T>& logits, cudaStream_t stream)
      : from(logits)
      , numbers(logits.numbers.size())
      , unconditional(logits.unconditional.size())
      , allowed(logits.allowed.size()) {
    numbers.copy(from.numbers, stream);
    unconditional.copy(from.unconditional, stream);
    allowed.copy(from.allowed, stream);
  }
  [[nodiscard]] device_logits<T> view(index_t rows) const {
    return {numbers.data() + 1, rows, from.columns, from.stride};
  }
  [[nodiscard]] row_modifiers<T> modifiers() const {
    return from.modifiers_at(unconditional.data(), allowed.data());
  }
};

/// Results of both, of which every field must be the same.
template <class T>
void expect_equal(const T& a, const T& b) {
  EXPECT_EQ(difference(fields_of(a), fields_of(b)), "");
}

/// False for a policy whose rows must not be those of the position before.
template <class Policy>
[[nodiscard]] bool runs_shifted(const Policy& p) {
  return !step::shadows_now(p);
}
/// The shortest prompt that a policy decodes with.
template <class Policy>
[[nodiscard]] index_t starts_at(const Policy& p) {
  return step::verifies_now(p) ? 1 : 0;
}

/// Some sequences, of different lengths, in the slots of two sessions.
template <class Policy>
class sessions_beside {
 public:
  sessions_beside(
      const Policy& p, index_t vocab, index_t slots, index_t longest, cudaStream_t stream, dice& d)
      : stream_(stream) {
    info_ = {.vocab = vocab,
             .mask_token = d.within(0, vocab - 1),
             .logits_shift = runs_shifted(p) ? d.within(0, 1) : 0,
             .causal_attention = true,
             .shadow_attention = true};
    const token_id end = d.within(0, vocab - 2);  // not the mask token
    info_.eos_token = d.chance(0.5) && goes_without_eos_token(p)
                          ? no_token
                          : end + (end >= info_.mask_token ? 1 : 0);
    model_ = {.seed = d.bits(),
              .vocab = vocab,
              .trouble = {.nan_rows = 0.03, .empty_rows = 0.02, .infinite_rows = 0.02}};
    session_capacity capacity{.sequences = slots,
                              .length = 1,
                              .window = 1,
                              .branches = detail::policy_branches(p),
                              .trace = d.chance(0.5)};
    traced_ = capacity.trace;
    for (index_t slot = 0; slot < slots; ++slot) {
      sequence_shape g;
      g.prompt_length = d.within(starts_at(p), 4);
      g.length = g.prompt_length + d.within(1, longest);
      g.block_length = d.within(2, 9);
      g.seed = d.bits();
      layouts_.push_back(g);
      std::vector<token_id> tokens;
      for (index_t i = 0; i < g.length; ++i) {
        tokens.push_back(d.within(0, vocab - 1));
      }
      device_tokens_.push_back(std::make_unique<device_array<token_id>>(tokens));
      host_tokens_.push_back(std::move(tokens));
      capacity.length = std::max(capacity.length, g.length);
      capacity.window = std::max(capacity.window, detail::policy_reach(p, g) + d.within(0, 2));
    }
    host_ = std::make_unique<session<Policy, on_host>>(info_, capacity);
    device_ = std::make_unique<session<Policy, on_stream>>(info_, capacity, on_stream{stream});
    for (index_t slot = 0; slot < slots; ++slot) {
      for (int again = d.within(0, 1); again >= 0; --again) {
        start(slot, p, d);
      }
    }
    guided_ = d.chance(0.3);
    masked_ = d.chance(0.3);
    padding_ = d.within(0, 3);
    way_ = d.within(0, 2);
    leaves_out_ = d.chance(0.5);
  }

  [[nodiscard]] session<Policy, on_stream>& device() { return *device_; }
  [[nodiscard]] int steps() const { return steps_; }

  /// One step on both sides, with logits of one type; false at the end, and after a difference.
  template <element T>
  [[nodiscard]] bool step() {
    auto wanted = host_->next(chosen());
    auto request = device_->next(chosen());
    if (!wanted) {  // none of them runs
      EXPECT_FALSE(request.has_value());
      wanted = host_->next();
      request = device_->next();
    }
    compare();
    EXPECT_EQ(wanted.has_value(), request.has_value());
    if (!wanted || !request || ::testing::Test::HasFailure()) {
      return false;
    }
    expect_equal(*request, *wanted);
    logits_of<T> on_the_host(model_, wanted->rows, padding_, guided_, masked_);
    for (const segment& s : wanted->segments) {
      on_the_host.forward(s, host_tokens_[static_cast<std::size_t>(s.slot)]);
    }
    host_->supply(on_the_host.template view<memory::host>(wanted->rows), on_the_host.modifiers());
    // The buffers of two steps ago are no longer read: next() has waited.
    const auto there = std::make_shared<logits_on_device<T>>(on_the_host, stream_);
    logits_.push_back(there);
    give(*request, *there);
    if (logits_.size() > 1) {
      logits_.erase(logits_.begin());
    }
    ++steps_;
    return true;
  }

 private:
  // The slots of a step: all or, in every other test, two of three in turn.
  [[nodiscard]] std::vector<index_t> chosen() const {
    std::vector<index_t> slots;
    for (index_t slot = 0; slot < host_->capacity().sequences; ++slot) {
      if (!leaves_out_ || (slot + steps_) % 3 != 0) {
        slots.push_back(slot);
      }
    }
    return slots;
  }

  [[nodiscard]] static bool goes_without_eos_token(const Policy& p) {
    try {
      detail::check_parts(p, {.length = 1}, {.vocab = 3, .mask_token = 0});
    } catch (const std::invalid_argument&) {
      return false;
    }
    return true;
  }

  // A policy by name whose rows are those of one sequence.
  [[nodiscard]] static bool can_soften(const Policy& p) {
    try {
      step::check_soft_tokens(p, 1);
    } catch (const std::invalid_argument&) {
      return false;
    }
    return Policy::varies;
  }

  void start(index_t slot, const Policy& p, dice& d) {
    const auto i = static_cast<std::size_t>(slot);
    std::vector<std::uint8_t> editable;
    const bool moves = unmask::detail::policy_moves_text(p);
    const index_t begin_length = unmask::detail::policy_begin_length(p, layouts_[i]);
    for (index_t j = 0; j < layouts_[i].length; ++j) {
      editable.push_back(d.chance(0.8) ? 1 : d.chance(0.5) ? 2 : 0);
      // Text that moves keeps no fixed position, and committed ones must be there at its start.
      const bool is_refused = editable.back() == 0 || j >= begin_length;
      editable.back() = moves && is_refused ? 1 : editable.back();
    }
    const std::vector<token_id> suppressed = {d.within(0, info_.vocab - 1),
                                              d.within(0, info_.vocab - 1)};
    start_options options;
    if (d.chance(0.5)) {
      options.editable = editable;
    }
    if (d.chance(0.5)) {
      options.suppressed = suppressed;
    }
    if (d.chance(0.3) && can_soften(p)) {
      options.soft_tokens = d.within(1, held_tokens::capacity);
    }
    host_->start(slot, p, host_tokens_[i], layouts_[i], options);
    try {
      device_->start(
          slot, p, {device_tokens_[i]->data(), layouts_[i].length}, layouts_[i], options);
    } catch (const std::invalid_argument& e) {
      ADD_FAILURE() << "the host took it: " << e.what();
    }
    std::fill(editable.begin(), editable.end(), std::uint8_t{0});  // it was copied
  }

  // All at once, a tensor a segment, or piece by piece.
  template <element T>
  void give(const forward_request& request, const logits_on_device<T>& logits) {
    const auto all = logits.view(request.rows);
    const auto part = [&](const segment& s) {
      return all.subrows({s.first_row, s.first_row + s.rows.size()});
    };
    if (way_ == 0) {
      device_->supply(all, logits.modifiers());
    } else if (way_ == 1) {
      std::vector<rows_view<T, memory::device>> parts;
      std::vector<row_modifiers<T>> modifiers;
      for (const segment& s : request.segments) {
        parts.push_back(part(s));
        modifiers.push_back(logits.modifiers().from_row(s.first_row));
      }
      device_->supply(parts, modifiers);
    } else {
      for (std::size_t i = 0; i < request.segments.size(); ++i) {
        const segment& s = request.segments[i];
        device_->read(i, part(s), logits.modifiers().from_row(s.first_row));
      }
      device_->decide();
    }
  }

  void compare() {
    for (std::size_t i = 0; i < host_tokens_.size(); ++i) {
      const auto slot = static_cast<index_t>(i);
      expect_equal(device_->report(slot), host_->report(slot));
      expect_equal(device_->committed(slot), host_->committed(slot));
      if (traced_) {
        expect_equal(device_->candidates(slot), host_->candidates(slot));
      }
      expect_equal(device_->probabilities(slot), host_->probabilities(slot));
      expect_equal(device_->soft_tokens(slot), host_->soft_tokens(slot));
      expect_equal(device_->alternatives(slot), host_->alternatives(slot));
      expect_equal(device_->planned(slot), host_->planned(slot));
      EXPECT_EQ(device_tokens_[i]->to_host(), host_tokens_[i]);
    }
    EXPECT_EQ(device_->finished(), host_->finished());  // nothing is under way
  }

  cudaStream_t stream_;
  model_info info_;
  fake_model model_;
  std::vector<sequence_shape> layouts_;
  std::vector<std::vector<token_id>> host_tokens_;
  std::vector<std::unique_ptr<device_array<token_id>>> device_tokens_;
  std::vector<std::shared_ptr<const void>> logits_;
  std::unique_ptr<session<Policy, on_host>> host_;
  std::unique_ptr<session<Policy, on_stream>> device_;
  bool traced_ = false;
  bool guided_ = false;
  bool masked_ = false;
  bool leaves_out_ = false;
  index_t padding_ = 0;
  int way_ = 0;
  int steps_ = 0;
};

}  // namespace unmask::testing
