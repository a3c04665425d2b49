// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <span>
#include <utility>

namespace demo {

/// A pass of a session whose choices at layers go through `choose(pass, layer, now, previous)`.
template <class Pass, class Choose>
struct hooked_pass {
  hooked_pass(Pass of, Choose through)
      : pass(std::move(of))
      , choose(std::move(through)) {}

  std::span<const unmask::index_t> positions() const { return pass.positions(); }
  unmask::range keys() const { return pass.keys(); }
  bool hooks(unmask::index_t layer) const { return pass.has_hooks && pass.hooks(layer); }
  unmask::layer_choice at_layer(unmask::index_t layer,
                                const unmask::host_hidden<float>& now,
                                const unmask::host_state<float>& previous) {
    return choose(pass, layer, now, previous);
  }
  unmask::eviction evict() const { return pass.evict(); }
  std::span<const unmask::index_t> rows() const { return pass.rows(); }

  Pass pass;
  Choose choose;
  unmask::feature reads = pass.reads;
  unmask::skipping skipped = pass.skipped;
};

}  // namespace demo
