// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: answer_end\(sequence\) must be const and return index_t, in a part that has stop
#include <unmask/unmask.hpp>

struct at_a_line_end {
  static constexpr unmask::statistics required = unmask::stat::none;
  UNMASK_HD unmask::index_t answer_end(const unmask::sequence_view& q) const { return q.length; }
};

constexpr unmask::policy p{
    unmask::by_confidence{}, unmask::tokens_per_step{}, unmask::stop_at_eos{}, at_a_line_end{}};
