// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: device_logits_for_a_host_session
// expect: these logits live in another memory space than the session's backend
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const unmask::device_logits<float>& logits) {
  s.supply(logits);
}

// case: device_segments_for_a_host_session
// expect: these logits live in another memory space than the session's backend
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, std::span<const unmask::device_logits<float>> logits) {
  s.supply(logits);
}

// case: doubles_as_logits
// expect: convert numbers of another type, such as double, to float
// lines: 40
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const double* logits) {
  s.supply(unmask::host_logits<double>(logits, 4, 100));
}

// case: pointer_as_logits
// expect: logits are a tensor with rows, of float, bfloat16 or float16: a view such as host_logits
// lines: 40
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const float* logits) {
  s.supply(logits);
  s.read(0, logits);
}

// case: policy_as_text
// expect: for a policy as text named_session\(read_policy\(text\), model, capacity\) of
// lines: 20
#include <unmask/unmask.hpp>

#include <vector>

void decode(std::vector<unmask::token_id>& tokens) {
  unmask::session s("threshold(0.9)", {.vocab = 8, .mask_token = 7}, tokens, {.length = 8});
}

// case: vector_as_logits
// expect: logits are a tensor with rows, of float, bfloat16 or float16: a view such as host_logits
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void supply(unmask::session<rule>& s, const std::vector<float>& logits) {
  s.supply(logits);
  s.read(0, logits);
}
