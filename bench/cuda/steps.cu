// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and steps on a device beside what others do with the same rows (Google Benchmark).
//
//     unmask_bench_cuda_steps [options of Google Benchmark] [COLUMNS ROWS]   # each of them once
//
// read/<who>/<columns>/<rows> is the best token of each row and its confidence: `floor` a plain
// read of the same bytes, `unmask` the library's read, the others of row_peers.cuh, `cub` a
// DeviceSegmentedReduce with the same operator. step/<who>/<columns>/<rows> is a step that commits
// the eighth of the rows with the highest confidence: `unmask` a session, `cub` that reduction, a
// DeviceRadixSort of one key a row and Thrust's transform and for_each, `two_ranks` the work of two
// ranks with half of the columns each, one after the other. All are nodes of graphs
// that are replayed over buffers of four times the L2 cache, and the results of all are compared
// before a time is taken: tokens exactly, sums to 1e-5, which are added in other orders.
//
// Executed from its PTX by the tests. Times of an H100: bench/results/gpu.md.

#include <unmask/cuda.cuh>

#include <benchmark/benchmark.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda_runtime.h>
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/transform.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/replay.cuh"
#include "pieces.cuh"
#include "row_peers.cuh"
#include "wrong_result.hpp"

namespace {

using bench::merge_sums;
using bench::row_sum;
using example::device_array;
using unmask::bfloat16;
using unmask::index_t;
using unmask::token_id;

constexpr unmask::policy best_of_rows{unmask::by_confidence{}, unmask::tokens_per_step{1}};
using policy_type = std::remove_const_t<decltype(best_of_rows)>;
constexpr unmask::statistics read = policy_type::required;

[[nodiscard]] constexpr std::size_t as_size(index_t i) {
  return static_cast<std::size_t>(i);
}

/// Number of positions that a step of `rows` rows commits.
[[nodiscard]] constexpr index_t commits_of(index_t rows) {
  return (rows + 7) / 8;
}

[[nodiscard]] int attribute(cudaDeviceAttr which) {
  int value = 0;
  example::check(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
  return value;
}

/// Buffers with rows of logits, together four times the L2 cache. `favourite` as for example::fill.
class buffers {
 public:
  buffers(index_t rows, index_t vocab, index_t favourite, const example::stream& on)
      : count_(as_size(rows) * as_size(vocab)) {
    const std::size_t wanted =
        4 * static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize)) / bytes() + 2;
    for (std::size_t i = 0; i < std::min<std::size_t>(wanted, 256); ++i) {
      memory_.emplace_back(count_);
      example::fill<<<1024, 256, 0, on.get()>>>(memory_.back().data(), count_, vocab, favourite);
      example::check(cudaGetLastError(), "launch of fill");
    }
  }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(bfloat16); }
  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] bfloat16* operator[](std::size_t i) const {
    return memory_[i % memory_.size()].data();
  }

 private:
  std::size_t count_;
  std::vector<device_array<bfloat16>> memory_;
};

/// A column of all rows, one behind the other, as the operand of a reduction.
struct column_at {
  const bfloat16* logits;
  index_t vocab;
  [[nodiscard]] __host__ __device__ row_sum operator()(std::int64_t i) const {
    return {unmask::math::to_float(logits[i]), static_cast<index_t>(i % vocab), 1.0F};
  }
};
struct begin_of_row {
  index_t vocab;
  [[nodiscard]] __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    return row * vocab;
  }
};
struct key_of_row {
  const row_sum* sums;
  [[nodiscard]] __host__ __device__ std::uint64_t operator()(index_t row) const {
    return unmask::step::order_key(unmask::math::divide(1.0F, sums[row].total), row);
  }
};
struct commit_row {
  const row_sum* sums;
  token_id* tokens;
  __host__ __device__ void operator()(std::uint64_t key) const {
    const index_t row = unmask::step::key_index(key);
    tokens[row] = sums[row].token;
  }
};

/// The reads of one size, with their memory. Each writes `sums()`, but for `floor` and `unmask`.
class reads {
 public:
  reads(index_t rows, index_t vocab, const example::stream& on)
      : rows_(rows)
      , vocab_(vocab)
      , slices_((vocab + bench::slice_columns - 1) / bench::slice_columns)
      , shape_(unmask::device::shape_rows(
            rows, vocab, static_cast<index_t>(attribute(cudaDevAttrMultiProcessorCount))))
      , on_(on)
      , sums_(as_size(rows))
      , parts_(as_size(rows) * as_size(slices_))
      , records_(as_size(rows))
      , runs_(as_size(rows) * as_size(shape_.runs))
      , arrived_(as_size(rows))
      , word_(1)
      , space_(segmented_bytes()) {
    example::check(
        cudaMemsetAsync(arrived_.data(), 0, as_size(rows) * sizeof(std::uint32_t), on.get()),
        "cudaMemsetAsync");
  }

  [[nodiscard]] const device_array<row_sum>& sums() const { return sums_; }

  void floor(const bfloat16* logits) const {
    const std::size_t words = as_size(rows_) * as_size(vocab_) * sizeof(bfloat16) / sizeof(uint4);
    const auto blocks = static_cast<unsigned>(2 * attribute(cudaDevAttrMultiProcessorCount));
    example::read_all<8><<<blocks, 512, 0, on_.get()>>>(
        reinterpret_cast<const uint4*>(logits), words, word_.data());
    example::check(cudaGetLastError(), "launch of read_all");
  }
  void unmask(const bfloat16* logits) const {
    bench::read_canonical<<<dim3(static_cast<unsigned>(rows_), static_cast<unsigned>(shape_.runs)),
                            static_cast<unsigned>(unmask::device::read_threads),
                            0,
                            on_.get()>>>(
        logits, vocab_, shape_.run_chunks, runs_.data(), arrived_.data(), records_.data());
    example::check(cudaGetLastError(), "launch of read_canonical");
  }
  void flashinfer(const bfloat16* logits) const {
    bench::read_slices<<<dim3(static_cast<unsigned>(rows_), static_cast<unsigned>(slices_)),
                         bench::slice_threads,
                         0,
                         on_.get()>>>(logits, vocab_, parts_.data());
    bench::merge_slices<32>
        <<<static_cast<unsigned>(rows_), 32, 0, on_.get()>>>(parts_.data(), slices_, sums_.data());
    example::check(cudaGetLastError(), "launch of merge_slices");
  }
  void one_program(const bfloat16* logits) const {
    bench::read_program<<<static_cast<unsigned>(rows_), bench::program_threads, 0, on_.get()>>>(
        logits, vocab_, sums_.data());
    example::check(cudaGetLastError(), "launch of read_program");
  }
  void log_softmax(const bfloat16* logits) const {
    bench::read_twice<<<static_cast<unsigned>(rows_), bench::program_threads, 0, on_.get()>>>(
        logits, vocab_, sums_.data());
    example::check(cudaGetLastError(), "launch of read_twice");
  }
  void cub(const bfloat16* logits) const {
    std::size_t bytes = space_.size();
    example::check(segmented(space_.data(), bytes, logits), "cub::DeviceSegmentedReduce");
  }

  /// True if `sums()` is what the library's read gives for the same rows.
  [[nodiscard]] bool agrees(const bfloat16* logits) const {
    std::vector<row_sum> other(as_size(rows_));
    sums_.download(other, on_);
    unmask(logits);
    std::vector<unmask::record<read>> own(as_size(rows_));
    records_.download(own, on_);
    bool same = true;
    for (std::size_t r = 0; r < own.size(); ++r) {
      same = same && own[r].token == other[r].token && own[r].best == other[r].best &&
             std::abs(own[r].total() - other[r].total) <= 1e-5F * own[r].total();
    }
    return same;
  }

 private:
  cudaError_t segmented(void* space, std::size_t& bytes, const bfloat16* logits) const {
    const thrust::counting_iterator<std::int64_t> from(0);
    const auto columns = thrust::make_transform_iterator(from, column_at{logits, vocab_});
    const auto begin = thrust::make_transform_iterator(from, begin_of_row{vocab_});
    return cub::DeviceSegmentedReduce::Reduce(space,
                                              bytes,
                                              columns,
                                              sums_.data(),
                                              rows_,
                                              begin,
                                              begin + 1,
                                              merge_sums{},
                                              row_sum{},
                                              on_.get());
  }
  [[nodiscard]] std::size_t segmented_bytes() const {
    std::size_t bytes = 0;
    example::check(segmented(nullptr, bytes, nullptr), "cub::DeviceSegmentedReduce");
    return std::max<std::size_t>(bytes, 1);
  }

  index_t rows_;
  index_t vocab_;
  index_t slices_;
  unmask::device::row_shape shape_;
  const example::stream& on_;
  device_array<row_sum> sums_;
  device_array<row_sum> parts_;
  device_array<unmask::record<read>> records_;
  device_array<unmask::record<read>> runs_;
  device_array<std::uint32_t> arrived_;
  device_array<unsigned> word_;
  device_array<unsigned char> space_;
};

/// A step put together of calls of CUB and Thrust.
class cub_step {
 public:
  cub_step(index_t rows, index_t vocab, const example::stream& on)
      : rows_(rows)
      , on_(on)
      , reads_(rows, vocab, on)
      , keys_(as_size(rows))
      , sorted_(as_size(rows))
      , space_(sort_bytes()) {}

  void operator()(const bfloat16* logits, token_id* tokens) const {
    reads_.cub(logits);
    const auto policy = thrust::cuda::par_nosync.on(on_.get());
    const row_sum* const sums = reads_.sums().data();
    const thrust::counting_iterator<index_t> row(0);
    thrust::transform(policy, row, row + rows_, keys_.data(), key_of_row{sums});
    std::size_t bytes = space_.size();
    example::check(sort(space_.data(), bytes), "cub::DeviceRadixSort");
    thrust::for_each_n(policy, sorted_.data(), commits_of(rows_), commit_row{sums, tokens});
  }

 private:
  cudaError_t sort(void* space, std::size_t& bytes) const {
    return cub::DeviceRadixSort::SortKeys(
        space, bytes, keys_.data(), sorted_.data(), rows_, 0, 64, on_.get());
  }
  [[nodiscard]] std::size_t sort_bytes() const {
    std::size_t bytes = 0;
    example::check(sort(nullptr, bytes), "cub::DeviceRadixSort");
    return std::max<std::size_t>(bytes, 1);
  }

  index_t rows_;
  const example::stream& on_;
  reads reads_;
  device_array<std::uint64_t> keys_;
  device_array<std::uint64_t> sorted_;
  device_array<unsigned char> space_;
};

/// The library's step. With logits that favour the mask token, which may be proposed here, it
/// commits that and can be repeated for ever.
class session_step {
 public:
  session_step(index_t rows, index_t vocab, token_id* tokens, const example::stream& on)
      : rows_(rows)
      , vocab_(vocab)
      , session_({.vocab = vocab, .mask_token = vocab - 1, .suppress_mask = false},
                 {.length = rows, .window = rows},
                 unmask::on_stream{on.get()}) {
    const policy_type p{unmask::by_confidence{}, unmask::tokens_per_step{commits_of(rows)}};
    session_.start(0, p, {tokens, rows}, {.length = rows, .block_length = rows});
  }
  /// False when the sequence has ended. Waits.
  [[nodiscard]] bool next() { return static_cast<bool>(session_.next()); }
  void supply(const bfloat16* logits) {
    session_.supply(unmask::rows_view<bfloat16, unmask::memory::device>(logits, rows_, vocab_));
  }

 private:
  index_t rows_;
  index_t vocab_;
  unmask::session<policy_type, unmask::on_stream> session_;
};

/// Ranks that hold the columns of a half each, on one device: both read, their messages join by
/// copies, both decide. Repeated as session_step is.
class ranks_step {
 public:
  ranks_step(index_t rows, index_t vocab, const example::stream& on)
      : rows_(rows)
      , vocab_(vocab)
      , on_(on) {
    const std::vector<index_t> cuts = unmask::chunk_cuts(vocab, count);
    const policy_type p{unmask::by_confidence{}, unmask::tokens_per_step{commits_of(rows)}};
    for (index_t r = 0; r < count; ++r) {
      tokens_.emplace_back(as_size(rows));
      ranks_.emplace_back(
          unmask::model_info{.vocab = vocab, .mask_token = vocab - 1, .suppress_mask = false},
          unmask::session_capacity{.length = rows, .window = rows},
          cuts,
          r,
          unmask::on_stream{on.get()});
      ranks_.back().start(
          0, p, {tokens_.back().data(), rows}, {.length = rows, .block_length = rows});
    }
    messages_.emplace_back(count * ranks_[0].most_bytes());
  }
  /// False when the sequence has ended. Waits.
  [[nodiscard]] bool next() {
    bool all = true;
    for (auto& rank : ranks_) {
      all = static_cast<bool>(rank.next()) && all;
    }
    return all;
  }
  void supply(const bfloat16* logits) {
    std::size_t end = 0;
    for (auto& rank : ranks_) {
      const unmask::range mine = rank.columns();
      const auto message = rank.read_shard(unmask::rows_view<bfloat16, unmask::memory::device>(
          logits + mine.first, rows_, mine.size(), vocab_));
      example::check(cudaMemcpyAsync(messages_[0].data() + end,
                                     message.data(),
                                     message.size(),
                                     cudaMemcpyDeviceToDevice,
                                     on_.get()),
                     "cudaMemcpyAsync");
      end += message.size();
    }
    for (auto& rank : ranks_) {
      rank.supply({messages_[0].data(), end});
    }
  }
  [[nodiscard]] const device_array<token_id>& tokens() const { return tokens_[0]; }

 private:
  static constexpr index_t count = 2;

  index_t rows_;
  index_t vocab_;
  const example::stream& on_;
  std::vector<device_array<token_id>> tokens_;
  std::vector<unmask::sharded_session<policy_type, unmask::on_stream>> ranks_;
  std::vector<device_array<std::byte>> messages_;
};

/// Times the replay of `piece(i)`, for each of the buffers. `before()` is called before each is
/// captured.
void time_pieces(
    benchmark::State& state,
    const buffers& all,
    const example::stream& on,
    const std::function<void(std::size_t)>& piece,
    const std::function<void()>& before = [] {}) {
  static_cast<void>(
      bench::time_pieces(state, on, std::max<std::size_t>(all.size(), 32), piece, before));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(all.bytes()));
}

using read_call = void (reads::*)(const bfloat16*) const;

void read_rows(benchmark::State& state, read_call call, bool checks) {
  const auto vocab = static_cast<index_t>(state.range(0));
  const auto rows = static_cast<index_t>(state.range(1));
  const example::stream on;
  const buffers all(rows, vocab, -1, on);
  const reads with(rows, vocab, on);
  if (checks) {
    (with.*call)(all[0]);
    if (!with.agrees(all[0])) {
      bench::skip_wrong_result(state, "reads another token or sum than the library");
      return;
    }
  }
  time_pieces(state, all, on, [&](std::size_t i) { (with.*call)(all[i]); });
}

// Whether `other` writes the tokens of a session in one step from all masks.
[[nodiscard]] bool
steps_agree(index_t rows,
            index_t vocab,
            const example::stream& on,
            const std::function<void(const bfloat16*, std::vector<token_id>&)>& other) {
  const buffers all(rows, vocab, -1, on);
  const std::vector<token_id> masks(as_size(rows), vocab - 1);
  const device_array<token_id> own(as_size(rows));
  session_step step(rows, vocab, own.data(), on);
  if (!step.next()) {
    return false;
  }
  step.supply(all[0]);
  static_cast<void>(step.next());
  std::vector<token_id> a(as_size(rows));
  own.download(a, on);
  std::vector<token_id> b = masks;
  other(all[0], b);
  return a == b && a != masks;
}

void step_of_cub(benchmark::State& state) {
  const auto vocab = static_cast<index_t>(state.range(0));
  const auto rows = static_cast<index_t>(state.range(1));
  const example::stream on;
  const auto once = [&](const bfloat16* logits, std::vector<token_id>& tokens) {
    const device_array<token_id> on_device(tokens.size());
    on_device.upload(tokens.data(), tokens.size(), on);
    cub_step(rows, vocab, on)(logits, on_device.data());
    on_device.download(tokens, on);
  };
  if (!steps_agree(rows, vocab, on, once)) {
    bench::skip_wrong_result(state, "commits other tokens than the library");
    return;
  }
  const buffers all(rows, vocab, vocab - 1, on);
  const device_array<token_id> tokens(as_size(rows));
  const cub_step step(rows, vocab, on);
  time_pieces(state, all, on, [&](std::size_t i) { step(all[i], tokens.data()); });
}

void step_of_unmask(benchmark::State& state) {
  const auto vocab = static_cast<index_t>(state.range(0));
  const auto rows = static_cast<index_t>(state.range(1));
  const example::stream on;
  const buffers all(rows, vocab, vocab - 1, on);
  const device_array<token_id> tokens(as_size(rows));
  session_step step(rows, vocab, tokens.data(), on);
  time_pieces(
      state,
      all,
      on,
      [&](std::size_t i) { step.supply(all[i]); },
      [&] { static_cast<void>(step.next()); });
}

void step_of_ranks(benchmark::State& state) {
  const auto vocab = static_cast<index_t>(state.range(0));
  const auto rows = static_cast<index_t>(state.range(1));
  const example::stream on;
  const auto once = [&](const bfloat16* logits, std::vector<token_id>& tokens) {
    ranks_step step(rows, vocab, on);
    if (step.next()) {
      step.supply(logits);
      static_cast<void>(step.next());
      step.tokens().download(tokens, on);
    }
  };
  if (!steps_agree(rows, vocab, on, once)) {
    bench::skip_wrong_result(state, "commits other tokens than one session");
    return;
  }
  const buffers all(rows, vocab, vocab - 1, on);
  ranks_step step(rows, vocab, on);
  time_pieces(
      state,
      all,
      on,
      [&](std::size_t i) { step.supply(all[i]); },
      [&] { static_cast<void>(step.next()); });
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const std::int64_t vocab : {126464, 151936}) {
    for (const std::int64_t rows : {32, 64, 128, 256}) {
      shapes.push_back({vocab, rows});
    }
  }
  bench::add(name, shapes, body);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::take_arguments(argc, argv)) {
    return 1;
  }
  if (!example::find_device()) {
    return example::skipped;
  }
  const auto add_read = [](const char* name, read_call call, bool checks) {
    add(name, [call, checks](benchmark::State& s) { read_rows(s, call, checks); });
  };
  add_read("read/floor", &reads::floor, false);
  add_read("read/unmask", &reads::unmask, false);
  add_read("read/flashinfer", &reads::flashinfer, true);
  add_read("read/one_program", &reads::one_program, true);
  add_read("read/log_softmax", &reads::log_softmax, true);
  add_read("read/cub", &reads::cub, true);
  add("step/unmask", step_of_unmask);
  add("step/cub", step_of_cub);
  add("step/two_ranks", step_of_ranks);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return bench::wrong_results > 0 ? 1 : 0;
}
