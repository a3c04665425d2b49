// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// As sessions_beside.hpp, for layer sessions: at every hook the same rows are
/// chosen on the host and on a stream, and the same bits stored.

#include <unmask/session.hpp>

#include <cstring>

#include "support/sessions_beside.hpp"

namespace unmask::testing {

/// The entries of a list on a device, by waiting for them. The library's engines need not.
inline std::vector<index_t> to_host(const device_list& list, cudaStream_t stream) {
  device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize of a test");
  index_t count = list.most;
  if (list.count != nullptr) {
    device::check(cudaMemcpy(&count, list.count, sizeof count, cudaMemcpyDeviceToHost), "count");
  }
  EXPECT_LE(count, list.most) << "more than the host was told";
  std::vector<index_t> entries(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i) {
    entries[static_cast<std::size_t>(i)] = list.first + i;
  }
  if (list.data != nullptr && count > 0) {
    device::check(
        cudaMemcpy(
            entries.data(), list.data, entries.size() * sizeof(index_t), cudaMemcpyDeviceToHost),
        "entries");
  }
  return entries;
}

/// Some sequences in the slots of two layer sessions, with hidden states that are drawn anew in
/// each pass: a little beside those of the last one, some far from them, many alike.
template <element T, class Policy>
class layers_beside {
 public:
  layers_beside(const Policy& p, index_t slots, index_t longest, cudaStream_t stream, dice& d)
      : stream_(stream)
      , dice_(d.bits()) {
    info_ = {.vocab = 21,
             .mask_token = 20,
             .eos_token = no_token,
             .logits_shift = d.within(0, 1),
             .suppress_mask = true,
             .layers = d.within(3, 9)};
    model_ = {.seed = d.bits(), .vocab = info_.vocab, .trouble = {.nan_rows = 0.03}};
    width_ = d.within(1, 70);
    session_capacity capacity{.sequences = slots, .length = 1, .window = 1};
    for (index_t slot = 0; slot < slots; ++slot) {
      sequence_shape g;
      g.prompt_length = d.within(0, 9);
      g.length = g.prompt_length + d.within(1, longest);
      g.block_length = d.within(3, 16);
      g.seed = d.bits();
      layouts_.push_back(g);
      host_tokens_.emplace_back(static_cast<std::size_t>(g.length), 3);
      device_tokens_.push_back(std::make_unique<device_array<token_id>>(host_tokens_.back()));
      const std::vector<T> memory(static_cast<std::size_t>(info_.layers * g.length * width_) + 1,
                                  encoded<T>(not_a_number));
      host_stored_.push_back(memory);
      device_stored_.push_back(std::make_unique<device_array<T>>(memory));
      capacity.length = std::max(capacity.length, g.length);
      capacity.window = std::max(capacity.window, detail::policy_reach(p, g));
    }
    host_ = std::make_unique<session<Policy, on_host>>(info_, capacity);
    device_ = std::make_unique<session<Policy, on_stream>>(info_, capacity, on_stream{stream});
    for (index_t slot = 0; slot < slots; ++slot) {
      const auto i = static_cast<std::size_t>(slot);
      host_->start(slot, p, host_tokens_[i], layouts_[i]);
      device_->start(slot, p, {device_tokens_[i]->data(), layouts_[i].length}, layouts_[i]);
    }
  }

  /// Hooks so far at which rows were skipped.
  [[nodiscard]] int skips() const { return skips_; }
  [[nodiscard]] int steps() const { return steps_; }

  /// One step on both sides; false at the end, and after a difference.
  [[nodiscard]] bool step() {
    const auto wanted = host_->next();
    const auto request = device_->next();
    compare();
    EXPECT_EQ(wanted.has_value(), request.has_value());
    if (!wanted || !request || ::testing::Test::HasFailure()) {
      return false;
    }
    expect_equal(*request, *wanted);
    lent_.clear();  // the step before is through
    passes_.clear();
    for (std::size_t i = 0; i < wanted->segments.size(); ++i) {
      passes_.push_back({wanted->segments[i], host_->pass(i), device_->pass(i)});
      EXPECT_EQ(passes_[i].on_the_device.positions().most,
                static_cast<index_t>(passes_[i].on_the_host.positions().size()))
          << "what enters a pass is known";
    }
    const bool together = dice_.chance(0.5);
    for (index_t l = 0; l < info_.layers; ++l) {
      hook(l, together);
    }
    for (std::size_t i = 0; i < passes_.size() && !::testing::Test::HasFailure(); ++i) {
      give(i);
    }
    if (::testing::Test::HasFailure()) {
      return false;
    }
    host_->decide();
    device_->decide();
    static_cast<void>(device_->report());
    ++steps_;
    return true;
  }

 private:
  struct two_passes {
    segment about;
    typename session<Policy, on_host>::layer_pass on_the_host;
    typename session<Policy, on_stream>::layer_pass on_the_device;
  };

  /// The hooks of all segments at a layer, together or one by one.
  void hook(index_t l, bool together) {
    std::vector<std::vector<T>> hidden;
    std::vector<host_layer_hook<T>> host_hooks;
    std::vector<device_layer_hook<T>> device_hooks;
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      const auto& [about, on_the_host, on_the_device] = passes_[i];
      ASSERT_EQ(on_the_device.hooks(l), on_the_host.hooks(l));
      if (!on_the_host.hooks(l)) {
        continue;
      }
      const auto slot = static_cast<std::size_t>(about.slot);
      const auto positions = on_the_host.positions();
      const device_list list = on_the_device.positions();
      ASSERT_EQ(to_host(list, stream_), (std::vector<index_t>{positions.begin(), positions.end()}));
      hidden.push_back(hidden_of(l, slot, positions, list.most));
      lent_.push_back(std::make_unique<device_array<T>>(hidden.back()));
      const index_t length = layouts_[slot].length;
      const std::ptrdiff_t first = 1 + std::ptrdiff_t{l} * length * width_;
      const auto count = static_cast<index_t>(positions.size());
      host_hooks.push_back({i,
                            {hidden.back().data() + 1, count, width_, stride()},
                            {host_stored_[slot].data() + first, length, width_},
                            {}});
      device_hooks.push_back({i,
                              {lent_.back()->data() + 1, list.most, width_, stride()},
                              {device_stored_[slot]->data() + first, length, width_},
                              {}});
    }
    if (together && !host_hooks.empty()) {
      host_->at_layer(l, std::span(host_hooks));
      device_->at_layer(l, std::span(device_hooks));
    } else {
      for (std::size_t k = 0; k < host_hooks.size(); ++k) {
        host_layer_hook<T>& a = host_hooks[k];
        device_layer_hook<T>& b = device_hooks[k];
        a.chosen = passes_[a.segment].on_the_host.at_layer(l, a.now, a.previous);
        b.chosen = passes_[b.segment].on_the_device.at_layer(l, b.now, b.previous);
      }
    }
    for (std::size_t k = 0; k < host_hooks.size(); ++k) {
      compare(
          l, passes_[host_hooks[k].segment].about, host_hooks[k].chosen, device_hooks[k].chosen);
    }
  }

  void compare(index_t l,
               const segment& about,
               const layer_choice& kept,
               const device_layer_choice& got) {
    const auto slot = static_cast<std::size_t>(about.slot);
    ASSERT_EQ(to_host(got.rows, stream_),
              (std::vector<index_t>{kept.rows.begin(), kept.rows.end()}));
    ASSERT_EQ(to_host(got.positions, stream_),
              (std::vector<index_t>{kept.positions.begin(), kept.positions.end()}));
    const std::vector<T> stored = device_stored_[slot]->to_host();
    ASSERT_EQ(std::memcmp(stored.data(), host_stored_[slot].data(), stored.size() * sizeof(T)), 0)
        << "what is stored at layer " << l;
    if (host_->planned(about.slot).refresh) {
      EXPECT_EQ(got.rows.most, static_cast<index_t>(kept.rows.size()));
    }
    skips_ += static_cast<index_t>(kept.rows.size()) < about.query.size() ? 1 : 0;
  }

  void give(std::size_t index) {
    const auto& [s, on_the_host, on_the_device] = passes_[index];
    const auto rows = on_the_host.rows();
    ASSERT_EQ(to_host(on_the_device.rows(), stream_),
              (std::vector<index_t>{rows.begin(), rows.end()}));
    const auto columns = static_cast<std::size_t>(info_.vocab);
    const auto most = static_cast<std::size_t>(on_the_device.rows().most);
    std::vector<T> logits(std::max(most, rows.size()) * columns, encoded<T>(not_a_number));
    const auto& tokens = host_tokens_[static_cast<std::size_t>(s.slot)];
    for (std::size_t r = 0; r < rows.size(); ++r) {
      model_.row<T>(tokens,
                    on_the_host.positions()[static_cast<std::size_t>(rows[r])],
                    std::span(logits).subspan(r * columns, columns));
    }
    lent_.push_back(std::make_unique<device_array<T>>(logits));
    host_->read(index,
                host_logits<T>(logits.data(), static_cast<index_t>(rows.size()), info_.vocab));
    device_->read(index,
                  device_logits<T>(lent_.back()->data(), static_cast<index_t>(most), info_.vocab));
  }

  [[nodiscard]] std::ptrdiff_t stride() const { return width_ + 2; }

  /// `rows` rows at a distance, at an odd address: those of the positions, then what is not read.
  [[nodiscard]] std::vector<T>
  hidden_of(index_t layer, std::size_t slot, std::span<const index_t> positions, index_t rows) {
    std::vector<T> hidden(static_cast<std::size_t>(stride() * rows) + 1, encoded<T>(not_a_number));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      dice lasting(mixed(static_cast<std::uint64_t>(layer),
                         static_cast<std::uint64_t>(positions[i]) % 5,
                         static_cast<std::uint64_t>(slot)));
      const float moved = 0.25F * static_cast<float>(dice_.within(0, 3));
      const bool broken = dice_.chance(0.02);
      for (index_t j = 0; j < width_; ++j) {
        const float x = lasting.real(-1.0F, 1.0F) + (j % 3 == 0 ? moved : 0.0F);
        hidden[1 + i * static_cast<std::size_t>(stride()) + static_cast<std::size_t>(j)] =
            encoded<T>(broken && j == 0 ? infinity : static_cast<double>(x));
      }
    }
    return hidden;
  }

  void compare() {
    for (std::size_t i = 0; i < host_tokens_.size(); ++i) {
      const auto slot = static_cast<index_t>(i);
      expect_equal(device_->report(slot), host_->report(slot));
      expect_equal(device_->committed(slot), host_->committed(slot));
      expect_equal(device_->planned(slot), host_->planned(slot));
      EXPECT_EQ(device_tokens_[i]->to_host(), host_tokens_[i]);
    }
  }

  cudaStream_t stream_;
  dice dice_;
  model_info info_;
  fake_model model_;
  index_t width_ = 0;
  std::vector<sequence_shape> layouts_;
  std::vector<std::vector<token_id>> host_tokens_;
  std::vector<std::unique_ptr<device_array<token_id>>> device_tokens_;
  std::vector<std::vector<T>> host_stored_;
  std::vector<std::unique_ptr<device_array<T>>> device_stored_;
  std::unique_ptr<session<Policy, on_host>> host_;
  std::unique_ptr<session<Policy, on_stream>> device_;
  std::vector<two_passes> passes_;
  std::vector<std::unique_ptr<device_array<T>>> lent_;
  int skips_ = 0;
  int steps_ = 0;
};

}  // namespace unmask::testing
