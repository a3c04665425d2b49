// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/sharded_session.hpp>

#include <cstddef>
#include <mpi.h>
#include <span>
#include <vector>

/// The two ways in which ranks of MPI exchange the messages of unmask::sharded_session: the whole
/// adapter. Each makes one MPI collective call a step.
namespace example {

// [gather]
/// Every rank gets the messages of all and merges them itself: the fewest steps of the network, and
/// right for any cut.
class gathered_messages {
 public:
  explicit gathered_messages(MPI_Comm ranks)
      : ranks_(ranks) {
    MPI_Comm_size(ranks, &size_);
  }

  std::span<const std::byte> operator()(std::span<const std::byte> mine) {
    const int bytes = static_cast<int>(mine.size());
    everyone_.resize(mine.size() * static_cast<std::size_t>(size_));
    MPI_Allgather(mine.data(), bytes, MPI_BYTE, everyone_.data(), bytes, MPI_BYTE, ranks_);
    return everyone_;
  }

 private:
  MPI_Comm ranks_;
  int size_ = 0;
  std::vector<std::byte> everyone_;
};
// [/gather]

// [reduce]
/// MPI merges the messages on the way: fewer bytes with many ranks. MPI may group the ranks as it
/// likes, so cut every chunk of the vocabulary once at most (chunk_cuts does not cut any): only
/// then are the bits the same whatever the grouping, and on every rank.
template <unmask::statistics S>
class reduced_message {
 public:
  explicit reduced_message(MPI_Comm ranks)
      : ranks_(ranks) {
    constexpr int commutes = 0;  // left and right columns
    MPI_Op_create(&merge, commutes, &merging_);
  }
  reduced_message(const reduced_message&) = delete;
  reduced_message& operator=(const reduced_message&) = delete;
  ~reduced_message() { MPI_Op_free(&merging_); }

  std::span<const std::byte> operator()(std::span<const std::byte> mine) {
    MPI_Datatype message = MPI_DATATYPE_NULL;  // one element: MPI must not cut it
    MPI_Type_contiguous(static_cast<int>(mine.size()), MPI_BYTE, &message);
    MPI_Type_commit(&message);
    sum_.resize(mine.size());
    MPI_Allreduce(mine.data(), sum_.data(), 1, message, merging_, ranks_);
    MPI_Type_free(&message);
    return sum_;
  }

 private:
  // right = left op right, as MPI defines it.
  static void merge(void* left, void* right, int* count, MPI_Datatype* type) {
    int bytes = 0;
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *count; ++i) {
      const auto* const a = static_cast<const std::byte*>(left) + std::ptrdiff_t{i} * bytes;
      auto* const b = static_cast<std::byte*>(right) + std::ptrdiff_t{i} * bytes;
      if (unmask::ranks::merge<S>(a, b, b) != unmask::ranks::fault::none) {
        MPI_Abort(MPI_COMM_WORLD, 3);  // an operation of MPI has no other way to say no
      }
    }
  }

  MPI_Comm ranks_;
  MPI_Op merging_ = MPI_OP_NULL;
  std::vector<std::byte> sum_;
};
// [/reduce]

}  // namespace example
