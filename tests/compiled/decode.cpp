// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes with policies by name, one of each type that is compiled, and with composed ones, on rows
// of every element type and every instruction set; prints a line of bits for each. It is built
// twice, with headers alone and with unmask::compiled, and both must print the same.
#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "support/bound_session.hpp"
#include "support/fake_logits.hpp"
#include "support/fields.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::testing {
namespace {

constexpr model_info model{.vocab = 700, .mask_token = 0, .eos_token = 1, .layers = 1};
constexpr sequence_shape shape{.prompt_length = 3, .length = 27, .block_length = 8, .seed = 5};

// Rows that depend on the tokens of the pass.
template <element T>
[[nodiscard]] std::vector<T> forward(const forward_request& request,
                                     const std::vector<token_id>& tokens) {
  std::vector<T> logits;
  for (const segment& s : request.segments) {
    std::vector<token_id> seen = tokens;
    for (const auto& placed : s.placed) {
      seen[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    std::uint64_t state = 1;
    for (const token_id t : seen) {
      state = mixed(state + static_cast<std::uint64_t>(t));
    }
    for (index_t p = s.rows.first; p < s.rows.last; ++p) {
      std::uint64_t row = mixed(state / 64 + static_cast<std::uint64_t>(p));
      for (index_t v = 0; v < model.vocab; ++v) {
        row = mixed(row + 1);
        const double z = static_cast<double>(row >> 40U) * 0x1p-22;
        logits.push_back(encoded<T>(v % 97 == p % 7 ? z * 2.5 : z));
      }
    }
  }
  return logits;
}

template <element T>
[[nodiscard]] std::uint64_t decode(auto& session) {
  std::vector<token_id> tokens(27, 7);
  std::uint64_t sum = 1;
  session.start(0, tokens.data(), shape.length, shape);
  while (const auto request = session.next()) {
    const std::vector<T> logits = forward<T>(*request, tokens);
    session.supply(rows_view<T, memory::host>(logits.data(), request->rows, model.vocab));
    sum = fields_of(session.committed(0), session.probabilities(0)).hash(sum);
  }
  return fields_of(session.report(0)).hash(sum);
}

template <class Make>
void print(const std::string& name, const Make& make) {
  std::uint64_t portable = 0;
  for (const host::instruction_set level : instruction_sets()) {
    const auto session = make(on_host{.instruction_set = level});
    const std::uint64_t all = mixed(decode<float>(*session)) +
                              mixed(decode<bfloat16>(*session)) * 3 +
                              mixed(decode<float16>(*session)) * 5;
    portable = level == host::instruction_set::portable ? all : portable;
    if (all != portable) {
      std::printf("%s: another instruction set decides otherwise\n", name.c_str());
    }
  }
  std::printf("%016" PRIx64 " %s\n", portable, name.c_str());
}

template <class Policy>
void print_composed(const char* name, const Policy& p) {
  constexpr session_capacity capacity{.length = 27, .window = 27, .branches = 3};
  print(name, [&](const on_host& where) { return testing::make_bound(p, model, capacity, where); });
}

}  // namespace
}  // namespace unmask::testing

int main() {
  using namespace unmask;
  using namespace unmask::testing;
  for (const char* text : {"threshold(0.02)",
                           "trace_credit + threshold(0.02) + probability_of([4, 5])",
                           "by_margin + tokens_per_step(3) + lookahead(3)",
                           "tokens_per_step(2) + edit_committed",
                           "tokens_per_step(2) + edit_committed + lookahead(2)",
                           "tokens_per_step(2) + remask_below(0.01)",
                           "by_entropy + entropy_bound(2) + sampling + temperature(0.7)",
                           "tokens_per_step(1) + sampling + lookahead(3)",
                           "tokens_per_step(2) + sampling + remask_current_below(0.01)",
                           "tokens_per_step(2) + sampling + remask_below(0.01)",
                           "tokens_per_step(2) + sampling + top_k(20) + repetition_penalty(1.2)",
                           "tokens_per_step(2) + canvas + max_steps(6)",
                           "adaptive_threshold(0.02) + stop_at_eos",
                           "any_of(stable_and_confident, tokens_per_step) + remask_below(0.01)"}) {
    print(text, [&](const on_host& where) {
      return testing::make_bound(
          read_policy(text), model, {.length = 27, .window = 27, .branches = 3}, where);
    });
  }
  print_composed("by_confidence", policy{by_confidence{}, threshold{0.02F}});
  print_composed("by_entropy", policy{by_entropy{}, entropy_bound{1.0F}});
  print_composed("by_margin", policy{by_margin{}, tokens_per_step{2}, no_equal_neighbours{}});
  print_composed("trace_credit", policy{by_confidence{}, trace_credit<>{}, threshold{0.02F}});
  print_composed("sampling",
                 policy{by_confidence{}, tokens_per_step{2}, temperature{0.7F}, sampling{}});
  print_composed("top_p", policy{by_confidence{}, tokens_per_step{2}, sampling{}, top_p{0.5F}});
}
