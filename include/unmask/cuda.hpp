// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The library with its CUDA backend, for the .cpp files of a CUDA program: declarations and the
/// runtime's C interface, no kernels. One .cu file includes <unmask/cuda.cuh> instead and contains
///
///     template class unmask::on_stream::workspace<my_policy>;
///
/// for each policy whose sessions run on a stream, and `template class
/// unmask::on_stream::shard_workspace<my_policy>;` for each that a sharded_session decodes.

#include <unmask/cuda/backend.hpp>
#include <unmask/cuda/error.hpp>
#include <unmask/cuda/key_selector.hpp>
#include <unmask/cuda/rows.hpp>
#include <unmask/cuda/shard_backend.hpp>
#include <unmask/unmask.hpp>
