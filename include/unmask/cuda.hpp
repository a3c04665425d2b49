// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The library with its CUDA backend, for the .cpp files of a CUDA program: declarations and the
/// runtime's C interface, no kernel. One .cu file includes <unmask/cuda.cuh> instead and says
///
///     template class unmask::on_stream::workspace<my_policy>;
///
/// for each policy whose sessions run on a stream, and the same of on_stream::shard_workspace for
/// each that several ranks decode with.

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/error.hpp>
#include <unmask/cuda/key_selector.hpp>
#include <unmask/cuda/rows.hpp>
#include <unmask/cuda/shard_backend.hpp>
#include <unmask/unmask.hpp>
