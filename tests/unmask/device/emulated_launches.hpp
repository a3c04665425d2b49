// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The launches of the library, run by emulated threads when their turn in a stream of the fake
/// runtime (fake_cuda/) comes. The blocks of a launch come in an order drawn from a seed and
/// overlap, shared memory holds junk.

#include <cuda_runtime_api.h>
#if !defined(UNMASK_FAKE_CUDA)
#  error "needs tests/unmask/device/fake_cuda in front of the include path"
#endif

#include <unmask/cuda/key_selector.hpp>
#include <unmask/cuda/rows.hpp>
#include <unmask/cuda/shard_workspace.hpp>
#include <unmask/cuda/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "support/dice.hpp"
#include "support/emulated_block.hpp"

namespace unmask::testing {

/// Shared memory of an emulated block: junk, aligned as a kernel's. Copies share it.
class shared_junk {
 public:
  explicit shared_junk(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(64, bytes / 64 * 64 + 64)), freed{}) {
    std::memset(memory_.get(), 0xCD, bytes / 64 * 64 + 64);
  }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  struct freed {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::shared_ptr<std::byte> memory_;
};

/// Calls to a stream, captured: they have an effect when the graph is replayed.
class captured_calls {
 public:
  /// Captures what `calls()` enqueues.
  captured_calls(cudaStream_t stream, const auto& calls)
      : stream_(stream) {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    calls();
    cudaStreamEndCapture(stream, &graph_);
    cudaGraphInstantiate(&executable_, graph_, 0);
  }
  captured_calls(const captured_calls&) = delete;
  captured_calls& operator=(const captured_calls&) = delete;
  ~captured_calls() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }

  void replay(int times = 1) const {
    for (int i = 0; i < times; ++i) {
      cudaGraphLaunch(executable_, stream_);
    }
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace unmask::testing

namespace unmask::device {

template <class T, row_read R, class Policy>
cudaError_t launch_reads(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    const index_t runs = device_view.shape.runs;
    testing::emulate_grid(batch.count * runs * window, 64, order, [&](index_t at) {
      const testing::shared_junk space(sizeof(read_space<T, R.contents, R.transforms, Policy>));
      return [=, &device_view, &batch](const testing::emulated_block& b) {
        read_position<exact_exponential>(
            b,
            device_view,
            batch,
            at / (runs * window),
            at % window,
            at / window % runs,
            *space.as<read_space<T, R.contents, R.transforms, Policy>>());
      };
    });
    for (index_t n = 0; n < batch.count; ++n) {
      const segment_rows& from = batch.segments[n];
      const std::ptrdiff_t line = device_view.line(from.slot, from.branch);
      const std::uint32_t* const arrived = device_view.arrived + line * window;
      if (std::any_of(arrived, arrived + window, [](std::uint32_t count) { return count != 0; })) {
        throw std::logic_error("a launch left a counter that is not zero");
      }
    }
  });
}

template <class Policy>
cudaError_t launch_masks(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::emulate_grid(batch.count * mask_pieces * window, 64, order, [&](index_t at) {
      const index_t piece = at / window % mask_pieces;
      return [=, &device_view, &batch](const testing::emulated_block& b) {
        write_mask(b, device_view, batch, at / (mask_pieces * window), at % window, piece);
      };
    });
  });
}

template <class T, class Policy>
cudaError_t launch_holds(const session_device_view<Policy>& device_view,
                         const row_batch& batch,
                         index_t window,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::emulate_grid(batch.count * window, 64, order, [&](index_t at) {
      const testing::shared_junk space(sizeof(hold_space<T, Policy>));
      return [=, &device_view, &batch](const testing::emulated_block& b) {
        hold_row<T>(
            b, device_view, batch, at / window, at % window, *space.as<hold_space<T, Policy>>());
      };
    });
  });
}

template <class Policy>
cudaError_t launch_decisions(const session_device_view<Policy>& device_view,
                             index_t count,
                             std::size_t scratch,
                             cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::block_emulator block(64, 5);
    for (index_t slot = 0; slot < count; ++slot) {
      const testing::shared_junk shared(scratch);
      const testing::shared_junk space(sizeof(decide_space<Policy>));
      block.run([&](const testing::emulated_block& b) {
        decide_slot(b,
                    device_view,
                    slot,
                    scratch > 0 ? shared.as<std::byte>() : nullptr,
                    *space.as<decide_space<Policy>>());
      });
    }
  });
}

template <class Policy>
cudaError_t launch_start(const session_device_view<Policy>& device_view,
                         index_t slot,
                         const start_arguments<Policy>& arguments,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::block_emulator block(64, 6);
    block.run(
        [&](const testing::emulated_block& b) { start_slot(b, arguments, device_view, slot); });
  });
}

template <class T, class Policy>
cudaError_t launch_shard_reads(const session_device_view<Policy>& device_view,
                               const shard_device_view<Policy>& shard,
                               const row_batch& batch,
                               index_t window,
                               cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    const index_t runs = std::max(shard.runs, 1);
    testing::emulate_grid(std::max(batch.count, 1) * runs * window, 64, order, [&](index_t at) {
      const testing::shared_junk space(sizeof(shard_space<T, Policy>));
      return [=, &device_view, &shard, &batch](const testing::emulated_block& b) {
        read_shard<T, exact_exponential>(b,
                                         device_view,
                                         shard,
                                         batch,
                                         at / (runs * window),
                                         at % window,
                                         at / window % runs,
                                         *space.as<shard_space<T, Policy>>());
      };
    });
  });
}

template <class Policy>
cudaError_t launch_merges(const session_device_view<Policy>& device_view,
                          const shard_device_view<Policy>& shard,
                          const std::byte* messages,
                          index_t count,
                          range read,
                          index_t lines,
                          cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::emulate_grid(lines, 64, order, [&](index_t line) {
      const testing::shared_junk wrong(sizeof(std::uint32_t));
      return [=, &device_view, &shard](const testing::emulated_block& b) {
        merge_line(
            b, device_view, shard, messages, count, read, lines, line, *wrong.as<std::uint32_t>());
      };
    });
  });
}

template <class T, class Policy>
cudaError_t launch_layer(const session_device_view<Policy>& device_view,
                         const layer_batch<T>& batch,
                         index_t blocks,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::emulate_grid(batch.count * blocks, 64, order, [&](index_t at) {
      const testing::shared_junk space(sizeof(choice_space<Policy>));
      return [=, &device_view, &batch](const testing::emulated_block& b) {
        layer_block(b,
                    device_view,
                    batch.segments[at / blocks],
                    at % blocks,
                    blocks,
                    *space.as<choice_space<Policy>>());
      };
    });
  });
}

template <class T, class Policy>
cudaError_t launch_store(const session_device_view<Policy>& device_view,
                         const layer_batch<T>& batch,
                         index_t most,
                         cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::block_emulator block(32, 7);
    for (index_t at = 0; at < batch.count * most; ++at) {
      block.run([&](const testing::emulated_block& b) {
        store_chosen(b, device_view, batch.segments[at / most], at % most);
      });
    }
  });
}

template <element T>
cudaError_t launch_copies(const row_copies<T>& copies, cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::block_emulator block(32, 8);
    for (index_t k = 0; k < copies.rows.most; ++k) {
      block.run([&](const testing::emulated_block& b) { copy_row(b, copies, k); });
    }
  });
}

template <element T>
cudaError_t launch_scores(const key_products<T>& a, cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice order(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::block_emulator block(64, order.bits());
    for (const index_t at : order.permutation((a.keys.rows + 1) / 2)) {
      block.run([&](const testing::emulated_block& b) { score_block(b, a, at); });
    }
  });
}

template <element T>
cudaError_t launch_selection(const selection_arguments<T>& a, cudaStream_t stream) noexcept {
  return fake_launch(stream, [=] {
    testing::dice d(static_cast<std::uint64_t>(fake_cuda().launches));
    testing::block_emulator block(32 * d.within(1, 8), d.bits());
    const testing::shared_junk space(sizeof(digit_counts));
    block.run(
        [&](const testing::emulated_block& b) { select_keys(b, a, *space.as<digit_counts>()); });
  });
}

}  // namespace unmask::device
