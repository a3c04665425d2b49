// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The decodes of ranks_decode.hpp by ranks on the streams of one device, which exchange messages
/// by copies there. As sessions_beside.hpp, for a device and for what stands for one.

#include <unmask/cuda/shard_backend.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "support/ranks_decode.hpp"
#include "unmask/cuda/device_memory.hpp"

namespace unmask::testing {

/// Ranks of one decode. All of them enqueue to one stream, so that its order stands for the
/// transport's.
template <element T, class Policy>
class ranks_on_stream {
 public:
  using session_type = sharded_session<Policy, on_stream>;

  ranks_on_stream(const fake_decode<Policy>& decode,
                  std::span<const index_t> cuts,
                  cudaStream_t stream)
      : decode_(decode)
      , stream_(stream) {
    const std::size_t count = cuts.size() - 1;
    ranks_.reserve(count);
    for (std::size_t r = 0; r < count; ++r) {
      ranks_.emplace_back(
          decode.model, decode.capacity(), cuts, static_cast<index_t>(r), on_stream{stream});
      tokens_.emplace_back();
      for (const sequence_shape& g : decode.sequences) {
        tokens_[r].push_back(std::make_unique<device_array<token_id>>(
            std::vector<token_id>(static_cast<std::size_t>(g.length), 3)));
        const auto slot = static_cast<index_t>(tokens_[r].size() - 1);
        ranks_[r].start(slot, decode.policy, {tokens_[r].back()->data(), g.length}, g);
      }
    }
    everyone_ = std::make_unique<device_array<std::byte>>(count * ranks_[0].most_bytes());
  }

  [[nodiscard]] session_type& rank(std::size_t r) { return ranks_[r]; }
  [[nodiscard]] std::size_t count() const { return ranks_.size(); }
  /// The messages of all ranks.
  [[nodiscard]] ranks::device_messages everyone() const {
    return {everyone_->data(), count() * ranks_[0].most_bytes()};
  }
  [[nodiscard]] std::byte* everyones_bytes() const { return everyone_->data(); }

  [[nodiscard]] std::vector<std::vector<token_id>> tokens(std::size_t r) const {
    std::vector<std::vector<token_id>> result;
    for (const auto& t : tokens_[r]) {
      result.push_back(t->to_host());
    }
    return result;
  }

  /// Every rank reads its columns of all rows, and its message joins the others.
  void read(const forward_request& request) {
    const std::vector<T> logits = decode_.template forward<T>(request, tokens(0));
    const std::vector<std::uint32_t> mask = decode_.masks(request.rows);
    buffers_.clear();  // of the last step, which next() has waited for
    masks_ = std::make_unique<device_array<std::uint32_t>>(mask);
    for (std::size_t r = 0; r < count(); ++r) {
      const range columns = ranks_[r].columns();
      const index_t stride = columns.size() + 5;
      buffers_.push_back(
          std::make_unique<device_array<T>>(decode_.template cut_out<T>(logits, columns)));
      const T* const mine = buffers_.back()->data();
      row_modifiers<T> modifiers = decode_.template modifiers<T>(mask, mine, stride);
      modifiers.allowed = mask.empty() ? nullptr : masks_->data();
      gather(r,
             ranks_[r].read_shard(device_logits<T>(mine, request.rows, columns.size(), stride),
                                  modifiers));
    }
  }
  /// Copies a rank's message to its place, as the transport would.
  void gather(std::size_t r, const ranks::device_messages& message) {
    EXPECT_EQ(message.size(), ranks_[r].message_bytes());
    device::check(cudaMemcpyAsync(everyone_->data() + r * message.size(),
                                  message.data(),
                                  message.size(),
                                  cudaMemcpyDeviceToDevice,
                                  stream_),
                  "cudaMemcpyAsync of a message");
  }

  /// As fake_decode::ranks.
  [[nodiscard]] outcome decode() {
    std::vector<outcome> results(count());
    while (const auto request = ranks_[0].next()) {
      for (std::size_t r = 1; r < count(); ++r) {
        EXPECT_TRUE(ranks_[r].next().has_value());
      }
      read(*request);
      for (session_type& s : ranks_) {
        s.supply(everyone());
      }
      for (std::size_t r = 0; r < count(); ++r) {
        fake_decode<Policy>::listen(ranks_[r], decode_.sequences.size(), results[r]);
      }
      if (++results[0].forwards > 500) {
        ADD_FAILURE() << "does not come to an end";
        break;
      }
    }
    for (std::size_t r = 0; r < count(); ++r) {
      results[r].tokens = tokens(r);
      EXPECT_EQ(results[r].said, results[0].said) << "rank " << r;
      EXPECT_EQ(results[r].tokens, results[0].tokens) << "rank " << r;
    }
    return results[0];
  }

 private:
  fake_decode<Policy> decode_;
  cudaStream_t stream_;
  std::vector<session_type> ranks_;
  std::vector<std::vector<std::unique_ptr<device_array<token_id>>>> tokens_;
  std::vector<std::unique_ptr<device_array<T>>> buffers_;
  std::unique_ptr<device_array<std::uint32_t>> masks_;
  std::unique_ptr<device_array<std::byte>> everyone_;
};

/// Ranks on a stream have the results of one session on the host or, cut inside a chunk, of ranks
/// there.
template <element T, class Policy>
void expect_ranks_on_stream_equal(const fake_decode<Policy>& decode,
                                  std::span<const index_t> cuts,
                                  const outcome& on_the_host) {
  const test_stream stream;
  ranks_on_stream<T, Policy> ranks(decode, cuts, stream.get());
  const outcome on_the_device = ranks.decode();
  EXPECT_EQ(on_the_device.tokens, on_the_host.tokens);
  EXPECT_EQ(on_the_device.said, on_the_host.said);
  EXPECT_GT(on_the_device.forwards, 0);
}

}  // namespace unmask::testing
