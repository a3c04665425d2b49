// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Runs a session and the naive decoder beside each other on a fake model and compares every step.

#include <unmask/core/logits.hpp>
#include <unmask/core/request.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "oracles/naive_decoder.hpp"
#include "support/fake_logits.hpp"

namespace unmask::testing {

/// Where the naive decoder is this close to another decision, a different one is rounding: float
/// statistics are good to about 1e-6 (2^-24 times the depth of a sum and a few operations).
inline constexpr double rounding_gap = 1e-5;

/// Totals of many comparisons.
struct comparisons {
  int decodes = 0;
  int steps = 0;
  int commits = 0;
  /// Steps in which the two differed and the naive decoder was within rounding_gap.
  int excused = 0;
  /// The closest call of all.
  double smallest_gap = far_away;
};

/// Modifiers of one row, as the engine would give them.
struct fake_modifiers {
  double cfg_scale = 0.0;
  std::uint64_t unconditional_seed = 0;
  double forbidden = 0.0;

  [[nodiscard]] bool any() const { return cfg_scale != 0.0 || forbidden > 0.0; }
};

/// Rows of logits in memory, as an engine holds them: with a distance between rows, behind which
/// are values that must not be read.
template <element T>
class packed_rows {
 public:
  packed_rows(index_t rows, index_t columns, index_t padding)
      : rows_(rows)
      , columns_(columns)
      , stride_(columns + padding) {
    const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride_);
    numbers_.assign(count + 1, encoded<T>(not_a_number));
  }

  [[nodiscard]] std::span<T> row(index_t r) {
    return {data() + r * stride_, static_cast<std::size_t>(columns_)};
  }
  [[nodiscard]] rows_view<T, memory::host> view() { return {data(), rows_, columns_, stride_}; }
  [[nodiscard]] std::ptrdiff_t stride() const { return stride_; }
  // One element in: rows are not aligned to more than an element.
  [[nodiscard]] T* data() { return numbers_.data() + 1; }

 private:
  index_t rows_;
  index_t columns_;
  std::ptrdiff_t stride_;
  std::vector<T> numbers_;
};

namespace detail {

inline void mark_allowed(std::span<std::uint32_t> words, index_t vocab, dice& d, double forbidden) {
  for (index_t v = 0; v < vocab; ++v) {
    if (!d.chance(forbidden)) {
      words[static_cast<std::size_t>(v / 32)] |= std::uint32_t{1} << static_cast<unsigned>(v % 32);
    }
  }
}

[[nodiscard]] inline std::vector<naive_commit> as_naive(std::span<const commit_entry> entries) {
  std::vector<naive_commit> commits;
  for (const commit_entry& e : entries) {
    commits.push_back({e.position, e.token, static_cast<double>(e.log_probability)});
  }
  return commits;
}

[[nodiscard]] inline bool same_tokens(const std::vector<naive_commit>& a,
                                      const std::vector<naive_commit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.position == y.position && x.token == y.token;
  });
}

}  // namespace detail

/// One decode of slot 0 of `s`, which was started with `tokens` and what `naive` was made of.
/// Edits of the policy are applied to the naive logits by `edit(logit, token)`.
template <element T, class Session, class Edit>
void decode_beside(Session& s,
                   std::vector<token_id>& tokens,
                   naive_decoder& naive,
                   const fake_model& model,
                   const fake_modifiers& modifiers,
                   const Edit& edit,
                   comparisons& sum) {
  dice d(model.seed);
  const index_t vocab = model.vocab;
  const index_t words = (vocab + 31) / 32;
  index_t forced = 0;
  index_t invalid = 0;
  index_t committed = 0;
  bool diverged = false;
  ++sum.decodes;
  while (true) {
    const std::optional<forward_request> request = s.next();
    ASSERT_EQ(request.has_value(), naive.end() == ending::running);
    if (!request) {
      break;
    }
    // The request: the whole sequence fed, and no row before the first or behind the last needed
    // one.
    const std::vector<index_t> positions = naive.candidates();
    const range wanted = {naive.row_of(positions.front()), naive.row_of(positions.back()) + 1};
    ASSERT_EQ(request->segments.size(), 1U);
    const segment& part = request->segments[0];
    ASSERT_EQ(part.rows, wanted);
    ASSERT_EQ(part.first_row, 0);
    ASSERT_EQ(request->rows, wanted.size());
    ASSERT_LE(part.query.first, wanted.first);
    ASSERT_GE(part.query.last, wanted.last);

    packed_rows<T> rows(wanted.size(), vocab, d.within(0, 3));
    packed_rows<T> unconditional(wanted.size(), vocab, d.within(0, 3));
    std::vector<std::uint32_t> allowed(static_cast<std::size_t>(words * wanted.size()), 0U);
    fake_model other = model;
    other.seed = mixed(model.seed, modifiers.unconditional_seed);
    std::vector<naive_row> naive_rows;
    for (index_t r = 0; r < wanted.size(); ++r) {
      model.row<T>(naive.tokens(), wanted.first + r, rows.row(r));
      if (modifiers.cfg_scale != 0.0) {
        other.row<T>(naive.tokens(), wanted.first + r, unconditional.row(r));
      }
      const auto own_words = std::span(allowed).subspan(static_cast<std::size_t>(r * words),
                                                        static_cast<std::size_t>(words));
      detail::mark_allowed(own_words, vocab, d, modifiers.forbidden);
    }
    for (const index_t p : positions) {
      const index_t r = naive.row_of(p) - wanted.first;
      std::vector<double> z;
      token_id lowest = no_token;
      for (token_id v = 0; v < vocab; ++v) {
        const auto column = static_cast<std::size_t>(v);
        double x = decoded(rows.row(r)[column]);
        if (modifiers.cfg_scale != 0.0) {
          const double u = decoded(unconditional.row(r)[column]);
          x = u + (modifiers.cfg_scale + 1.0) * (x - u);
        }
        const auto word = allowed[static_cast<std::size_t>(r * words + v / 32)];
        const bool is_allowed = ((word >> static_cast<unsigned>(v % 32)) & 1U) != 0;
        const bool can_be = is_allowed && !naive.is_suppressed(v);
        lowest = can_be ? std::min(lowest, v) : lowest;
        z.push_back(can_be ? edit(x, v) : -infinity);
      }
      naive_rows.push_back(naive_statistics(p, std::move(z)));
      naive_rows.back().lowest = lowest;
    }
    const naive_decision expected = naive.decide(naive_rows);
    sum.smallest_gap = std::min(sum.smallest_gap, expected.gap);

    if constexpr (requires { s.supply(rows.view(), row_modifiers<T>{}); }) {
      row_modifiers<T> given;
      if (modifiers.cfg_scale != 0.0) {
        given.unconditional = unconditional.data();
        given.unconditional_stride = unconditional.stride();
        given.cfg_scale = static_cast<float>(modifiers.cfg_scale);
      }
      if (modifiers.forbidden > 0.0) {
        given.allowed = allowed.data();
        given.allowed_stride = words;
      }
      s.supply(rows.view(), given);
    } else {
      ASSERT_FALSE(modifiers.any());
      s.supply(rows.view());
    }

    const std::vector<naive_commit> got = detail::as_naive(s.committed(0));
    ++sum.steps;
    sum.commits += static_cast<int>(got.size());
    const bool same = detail::same_tokens(got, expected.commits);
    if (same) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(s.committed(0)[i].step, naive.step());
        ASSERT_EQ(s.committed(0)[i].slot, 0);
        const double distance =
            gap_between(got[i].log_probability, expected.commits[i].log_probability);
        ASSERT_LT(distance, rounding_gap) << "log-probability of position " << got[i].position;
      }
    } else {
      ASSERT_LT(expected.gap, rounding_gap)
          << "step " << naive.step() << ": another set of commits";
      ++sum.excused;
      diverged = true;
    }
    forced += expected.forced;
    invalid += expected.invalid;
    committed += static_cast<index_t>(got.size());
    naive.apply(got);
    ASSERT_EQ(tokens, naive.tokens()) << "after step " << naive.step() - 1;

    const sequence_report& report = s.report(0);
    ASSERT_EQ(report.end, naive.end());
    ASSERT_EQ(report.forwards, naive.step());
    ASSERT_EQ(report.masked, naive.masked_count());
    ASSERT_EQ(report.committed_prefix, naive.committed_prefix());
    ASSERT_EQ(report.committed, committed);
    ASSERT_EQ(report.last_commits, static_cast<index_t>(got.size()));
    ASSERT_EQ(report.invalid_rows, invalid);
    if (!diverged) {
      ASSERT_EQ(report.forced, forced);
    }
  }
  ASSERT_EQ(tokens, naive.tokens());
}

/// The logits as they are.
struct unedited {
  [[nodiscard]] double operator()(double logit, token_id) const { return logit; }
};

}  // namespace unmask::testing
