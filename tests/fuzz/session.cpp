// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions by name, layer sessions among them, driven by hostile engines: the bytes are the choices
// that tests/hostile makes of policies, shapes, engines, joins and cancels, and the promises are
// its own. The ways of a decode differ in batch, slots, threads, instruction set, pieces and wrong
// calls beside the others.

#include "fuzz/target.hpp"
#include "hostile/oracle.hpp"

namespace unmask::fuzz {

UNMASK_FUZZ_TARGET(session) {
  testing::dice d(data);
  const bool is_small = data.size() % 2 == 1;  // many of them run in a second
  hostile::scenario s =
      hostile::random_scenario(d, is_small ? hostile::case_size::small : hostile::case_size::any);
  s.seed = d.bits();
  s.number = d.bits();
  try {
    hostile::check(s, [](const auto&) {});
  } catch (const hostile::refusal& e) {
    require(is_message(e.what()), "a message in words, got '" + std::string(e.what()) + "'");
  } catch (const hostile::violation& v) {
    throw violation{std::string(v.what()) + '\n' + hostile::description(s)};
  }
}

}  // namespace unmask::fuzz
