// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <span>
#include <string>

#include "demo/recording.hpp"

namespace demo {

/// Contents of the panels of a picture, a row a forward pass.
enum class view {
  order,      ///< positions of the answer: masked, and when each token is written
  positions,  ///< positions of the sequence: which are run, of which K/V are reused
  layers,     ///< the same at each layer, a row a layer
  reported    ///< positions of the answer: the probability of a token that a probe reports
};

/// A decode with its title.
struct panel {
  std::string title;
  recording decode;
};

/// Small order maps side by side, as SVG: readable on light and on dark pages.
std::string small_multiples(view what, std::span<const panel> panels);

/// One large order map below another, with the prompt and the tokens.
std::string order_maps(std::string_view prompt, std::span<const panel> panels);

}  // namespace demo
