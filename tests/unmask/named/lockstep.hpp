// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/bound_session.hpp"
#include "support/fields.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing {

/// A sequence and its session, decoded in step with another.
template <class Policy>
struct decoding {
  std::unique_ptr<bound_session<Policy>> session;
  std::vector<token_id> text = {};

  void start(const dense_request& q) {
    text.assign(static_cast<std::size_t>(q.geometry.length), 1);
    session->start(0, text.data(), q.geometry.length, q.geometry);
  }
  void supply(const dense_request& q, const forward_request& request) {
    const std::vector<float> logits =
        requested_rows(request, text, [&](const auto& x, index_t i) { return q.logits.row(x, i); });
    session->supply(host_logits<float>(logits.data(), request.rows, q.model.vocab));
  }
};

template <class Policy>
decoding(std::unique_ptr<bound_session<Policy>>) -> decoding<Policy>;

/// Decodes a request with both, and expects the same requests, commits, answers and reports, bit
/// for bit. Returns how many tokens were committed.
template <class Policy>
index_t expect_same_decode(decoding<named_policy> named,
                           decoding<Policy> composed,
                           const dense_request& q) {
  named.start(q);
  composed.start(q);
  for (int forwards = 0;; ++forwards) {
    const auto a = named.session->next();
    const auto b = composed.session->next();
    EXPECT_EQ(a.has_value(), b.has_value());
    if (!a || !b || ::testing::Test::HasFailure() || forwards > 500) {
      EXPECT_LE(forwards, 500) << "does not come to an end";
      break;
    }
    EXPECT_EQ(difference(fields_of(*a), fields_of(*b)), "");
    named.supply(q, *a);
    composed.supply(q, *b);
    EXPECT_EQ(named.text, composed.text);
    const auto all = [](auto& session) {
      return fields_of(session.committed(0), session.probabilities(0));
    };
    EXPECT_EQ(difference(all(*named.session), all(*composed.session)), "");
  }
  const sequence_report& report = named.session->report(0);
  EXPECT_EQ(difference(fields_of(report), fields_of(composed.session->report(0))), "");
  return report.committed;
}

/// A random request whose model has an EOS token, and the capacities it needs.
inline dense_request random_named_request(chances& c, bool branches) {
  dense_request q = random_dense_request(c, 12);
  q.model = {.vocab = 12, .mask_token = 11, .eos_token = 10};
  q.suppressed.clear();
  q.branches = branches ? 3 : 0;
  return q;
}
inline session_capacity capacity_of(const dense_request& q) {
  return {.sequences = 1,
          .length = q.geometry.length,
          .window = q.geometry.length,
          .branches = q.branches};
}

/// A policy twice: by name, and composed of the parts themselves.
template <class Policy>
struct twin {
  std::string text;
  Policy policy;
};
template <class Policy>
twin(const char*, Policy) -> twin<Policy>;
template <class Policy>
twin(std::string, Policy) -> twin<Policy>;

/// Decodes random requests with the twins that `make` makes of random knobs.
template <class Make>
void expect_twins(std::uint64_t seed, const Make& make) {
  chances c(seed);
  index_t committed = 0;
  for (int k = 0; k < 12; ++k) {
    const auto t = make(c);
    using product = std::remove_cvref_t<decltype(t.policy)>;
    const dense_request q = random_named_request(c, product::branches);
    SCOPED_TRACE(t.text);
    committed += expect_same_decode({make_bound(read_policy(t.text), q.model, capacity_of(q))},
                                    decoding{make_bound(t.policy, q.model, capacity_of(q))},
                                    q);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  EXPECT_GT(committed, 20);
}

/// A knob, in the policy and in the text.
struct knob {
  float value;
  std::string text;
};
inline knob real(chances& c, double low, double high) {
  const float value = c.real(low, high);
  char text[32];
  return {value, {text, std::to_chars(std::begin(text), std::end(text), value).ptr}};
}

}  // namespace unmask::testing
