// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composes the parts of my_parts.hpp with parts of the library, and measures the result against
// policies made of the library's parts alone.
#include <unmask/unmask.hpp>

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "demo/decode_problems.hpp"
#include "demo/engine.hpp"
#include "demo/problems.hpp"
#include "demo/summary.hpp"
#include "my_parts.hpp"

namespace {

// [mine]
static_assert(unmask::ranking<leaning_left> && unmask::commit_rule<seen_again>);

constexpr unmask::policy mine{
    leaning_left{}, unmask::threshold{0.999F} || seen_again{}, unmask::stop_at_eos{}};
// [/mine]

// [composition]
constexpr unmask::policy composed{
    unmask::by_margin{},                                    // ranks: best minus second best
    unmask::threshold{0.9F} || unmask::tokens_per_step{2},  // commits: the certain, or two a pass
    unmask::trace_credit<64>{},  // raises tokens that led in earlier passes
    unmask::dual_cache{},        // runs the block alone between refreshes
    unmask::stop_at_eos{}};      // ends the decode with the answer
// [/composition]

template <class Policy>
demo::summary measure(const std::string& name,
                      const Policy& policy,
                      demo::engine& model,
                      const std::vector<demo::problem>& problems) {
  const demo::geometry shape;
  constexpr demo::index_t batch = 8;
  unmask::session session(policy, model.info(), demo::capacity_for(model, problems, shape, batch));
  return demo::summarize(name, "", problems, demo::decode(session, batch, model, problems, shape));
}

void compare() {
  using namespace unmask;
  const std::vector<std::string> tasks = {"word", "code"};
  const std::vector<demo::problem> problems =
      demo::choose(demo::read_problems(UNMASK_EXAMPLES_DIR "/tiny_llada/prompts.jsonl"), tasks, 20);
  demo::engine model(UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf", 2);

  const policy strict{by_confidence{}, threshold{0.9F}, stop_at_eos{}};
  const policy stricter{by_confidence{}, threshold{0.999F}, stop_at_eos{}};
  const policy half_mine{leaning_left{}, tokens_per_step{2}, stop_at_eos{}};

  const demo::table_text table(tasks, 32, problems.size());
  std::cout << table.header() << table.row(measure("threshold(0.9)", strict, model, problems))
            << table.row(measure("threshold(0.999)", stricter, model, problems))
            << table.row(measure("above(0.999) || seen_again(0.6)", mine, model, problems))
            << table.row(measure("five parts composed", composed, model, problems))
            << table.row(measure("leaning_left, two a forward", half_mine, model, problems));
}

}  // namespace

int main() {
  try {
    compare();
  } catch (const std::exception& e) {
    std::cerr << "custom_policy: " << e.what() << '\n';
    return 1;
  }
}
