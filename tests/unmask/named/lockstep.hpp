// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <string>
#include <vector>

#include "oracles/dense_oracle.hpp"
#include "support/bound_session.hpp"
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

inline void expect_same_bits(float a, float b) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b)) << a << " and " << b;
}

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
    EXPECT_EQ(a->rows, b->rows);
    EXPECT_EQ(a->segments.size(), b->segments.size());
    for (std::size_t i = 0; i < std::min(a->segments.size(), b->segments.size()); ++i) {
      EXPECT_EQ(a->segments[i].rows, b->segments[i].rows);
      EXPECT_EQ(a->segments[i].query, b->segments[i].query);
      EXPECT_EQ(a->segments[i].keys, b->segments[i].keys);
      EXPECT_EQ(a->segments[i].evict, b->segments[i].evict);
      const std::size_t placed = a->segments[i].placed.size();
      EXPECT_EQ(placed, b->segments[i].placed.size());
      for (std::size_t k = 0; k < std::min(placed, b->segments[i].placed.size()); ++k) {
        EXPECT_EQ(a->segments[i].placed[k].token, b->segments[i].placed[k].token);
        EXPECT_EQ(a->segments[i].placed[k].position, b->segments[i].placed[k].position);
      }
    }
    named.supply(q, *a);
    composed.supply(q, *b);
    EXPECT_EQ(named.text, composed.text);
    const auto one = named.session->committed(0);
    const auto other = composed.session->committed(0);
    EXPECT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
      EXPECT_EQ(one[i].position, other[i].position);
      EXPECT_EQ(one[i].token, other[i].token);
      expect_same_bits(one[i].log_probability, other[i].log_probability);
    }
    const auto answers = named.session->probabilities(0);
    const auto others = composed.session->probabilities(0);
    EXPECT_EQ(answers.size(), others.size());
    for (std::size_t i = 0; i < std::min(answers.size(), others.size()); ++i) {
      EXPECT_EQ(answers[i].token, others[i].token);
      EXPECT_EQ(answers[i].position, others[i].position);
      expect_same_bits(answers[i].probability, others[i].probability);
    }
  }
  const sequence_report& one = named.session->report(0);
  const sequence_report& other = composed.session->report(0);
  EXPECT_EQ(one.end, other.end);
  EXPECT_EQ(one.forwards, other.forwards);
  EXPECT_EQ(one.committed, other.committed);
  EXPECT_EQ(one.rewritten, other.rewritten);
  EXPECT_EQ(one.forced, other.forced);
  EXPECT_EQ(one.committed_prefix, other.committed_prefix);
  EXPECT_EQ(one.answer_end, other.answer_end);
  return one.committed;
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
