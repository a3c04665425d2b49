// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: are not there on a device yet
#include <unmask/cuda.hpp>

int main() {
  using namespace unmask;
  const policy p{by_confidence{}, top_k{1}, sampling{}, keep_top_p{}};
  const session<decltype(p), on_stream> s({.vocab = 2}, {.length = 1, .window = 1});
}
