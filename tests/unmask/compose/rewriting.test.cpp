// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unmask/named/lockstep.hpp"

namespace unmask::testing::rewriting_test {
namespace {

TEST(named_policy, decides_as_sampling_with_credit_does) {
  expect_twins(11, [](chances& c) {
    const knob t = real(c, 0.4, 1.5);
    return twin{"threshold(0.5, inclusive=true) + sampling(" + t.text +
                    ") + temperature(0.8) + trace_credit",
                policy{by_confidence{},
                       threshold{0.5F, true},
                       sampling{t.value},
                       temperature{0.8F},
                       trace_credit<>{}}};
  });
}

TEST(named_policy, decides_as_truncated_sampling_does) {
  expect_twins(12, [](chances& c) {
    const knob p = real(c, 0.5, 0.99);
    return twin{"by_margin + tokens_per_step(2) + sampling + temperature(1.3) + top_k(5) + top_p(" +
                    p.text +
                    ") + min_p(0.05) + confidence_after_truncation + logit_bias([2], [0.5])",
                policy{by_margin{},
                       tokens_per_step{2},
                       sampling{},
                       temperature{1.3F},
                       top_k{5},
                       top_p{p.value},
                       min_p{0.05F},
                       confidence_after_truncation{},
                       logit_bias<1>{{{2, 0.5F}}}}};
  });
}

TEST(named_policy, decides_as_edits_of_committed_tokens_do) {
  expect_twins(13, [](chances& c) {
    const knob t = real(c, 0.1, 0.6);
    return twin{"threshold(0.3) + edit_committed(" + t.text + ") + edited_blocks(4) + eos_penalty",
                policy{by_confidence{},
                       threshold{0.3F},
                       edit_committed{t.value},
                       edited_blocks{4},
                       eos_penalty{}}};
  });
}

TEST(named_policy, decides_as_remasking_the_current_does) {
  expect_twins(14, [](chances& c) {
    const knob t = real(c, 0.1, 0.6);
    return twin{"threshold(0.2) + remask_current_below(" + t.text +
                    ", allowance=2) + trace_credit + edit_committed(0.4)",
                policy{by_confidence{},
                       threshold{0.2F},
                       remask_current_below{t.value, 2},
                       trace_credit<>{},
                       edit_committed{0.4F}}};
  });
}

TEST(named_policy, decides_as_remasking_does) {
  expect_twins(15, [](chances& c) {
    const knob t = real(c, 0.1, 0.6);
    return twin{
        "hierarchical(0.2, 0.5) + remask_below(" + t.text + ") + block_pipeline",
        policy{by_confidence{}, hierarchical{0.2F, 0.5F}, remask_below{t.value}, block_pipeline{}}};
  });
}

TEST(named_policy, decides_as_a_canvas_does) {
  expect_twins(16, [](chances& c) {
    const knob t = real(c, 0.1, 0.7);
    return twin{"by_entropy + entropy_bound(0.5) + temperature(1.2) + canvas(steps=6, certain=" +
                    t.text + ") + eos_penalty(0.2)",
                policy{by_entropy{},
                       entropy_bound{0.5F},
                       temperature{1.2F},
                       canvas{.vocab = 12, .steps = 6, .certain = t.value},
                       eos_penalty{0.2F}}};
  });
}

TEST(named_policy, decides_as_sampling_with_lookahead_does) {
  expect_twins(17, [](chances& c) {
    const knob t = real(c, 0.4, 1.5);
    return twin{"threshold(0.6) + sampling(" + t.text + ") + lookahead(3)",
                policy{by_confidence{}, threshold{0.6F}, sampling{t.value}, lookahead{}}};
  });
}

TEST(named_policy, decides_as_sampling_with_second_thoughts_does) {
  expect_twins(18, [](chances& c) {
    const knob t = real(c, 0.4, 1.5);
    return twin{"threshold(0.3) + sampling(" + t.text + ") + edit_committed(0.3)",
                policy{by_confidence{}, threshold{0.3F}, sampling{t.value}, edit_committed{0.3F}}};
  });
}

}  // namespace
}  // namespace unmask::testing::rewriting_test
