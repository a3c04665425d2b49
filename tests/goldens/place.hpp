// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Where the lines about layers are replayed: on the host by unmask_goldens, on a stream with
/// emulated kernels by the tests of unmask/device, which define UNMASK_GOLDENS_EMULATED.

#include <unmask/session.hpp>

#include <cstddef>
#include <vector>

#if defined(UNMASK_GOLDENS_EMULATED)
#  include "unmask/device/emulated_launches.hpp"
#else
#  include <unmask/host/backend.hpp>
#endif

namespace unmask::goldens {

#if defined(UNMASK_GOLDENS_EMULATED)

using place = on_stream;

/// The entries of a list that a session gives, and how many there may be for all it knows.
inline std::vector<index_t> entries(const device_list& list) {
  fake_drain(nullptr);
  std::vector<index_t> all;
  for (index_t i = 0; i < list.size(); ++i) {
    all.push_back(list[i]);
  }
  return all;
}
inline index_t most(const device_list& list) {
  return list.most;
}

#else

using place = on_host;

inline std::vector<index_t> entries(std::span<const index_t> list) {
  return {list.begin(), list.end()};
}
inline index_t most(std::span<const index_t> list) {
  return static_cast<index_t>(list.size());
}

#endif

/// `count` rows of numbers, behind those that are there already up to nothing in particular.
template <element T>
rows_view<T, place::space> rows_of(std::vector<T>& numbers, index_t count, index_t columns) {
  numbers.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(columns));
  return {numbers.data(), count, columns};
}

}  // namespace unmask::goldens
