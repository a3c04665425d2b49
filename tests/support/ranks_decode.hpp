// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Decodes of a fake model by one session with whole rows, and by the sessions of several
/// ranks that see their own columns each.

#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/fake_logits.hpp"
#include "support/fields.hpp"

namespace unmask::testing {

/// Result of a decode: all outputs of a session, with the bits of numbers.
struct outcome {
  std::vector<std::vector<token_id>> tokens;
  std::vector<std::uint64_t> said;
  index_t forwards = 0;
};

template <class Policy>
struct fake_decode {
  Policy policy;
  model_info model;
  fake_model rows;
  std::vector<sequence_shape> sequences;
  /// Share of tokens that a mask allows; 1 is no mask.
  double allowed = 1.0;
  float guidance = 0.0F;
  index_t branches = 0;
  host::executor_ref threads = {};

  [[nodiscard]] session_capacity capacity() const {
    session_capacity c{.sequences = static_cast<index_t>(sequences.size()), .branches = branches};
    for (const sequence_shape& g : sequences) {
      c.length = std::max(c.length, g.length);
      c.window = c.length;
    }
    return c;
  }

  void start(auto& session, std::vector<std::vector<token_id>>& tokens) const {
    tokens.clear();
    for (const sequence_shape& g : sequences) {
      tokens.emplace_back(static_cast<std::size_t>(g.length), 3);
    }
    for (std::size_t k = 0; k < sequences.size(); ++k) {
      session.start(
          static_cast<index_t>(k), policy, tokens_view<memory::host>(tokens[k]), sequences[k]);
    }
  }

  /// All rows of segments [which.first, which.last) of a request.
  template <element T>
  [[nodiscard]] std::vector<T> forward(const forward_request& request,
                                       const std::vector<std::vector<token_id>>& tokens,
                                       range which = {0, no_token}) const {
    std::vector<T> out;
    for (std::size_t k = 0; k < request.segments.size(); ++k) {
      const segment& s = request.segments[k];
      if (!which.contains(static_cast<index_t>(k))) {
        continue;
      }
      std::vector<token_id> x = tokens[static_cast<std::size_t>(s.slot)];
      for (const auto& placed : s.placed) {
        x[static_cast<std::size_t>(placed.position)] = placed.token;
      }
      for (index_t r = s.rows.first; r < s.rows.last; ++r) {
        out.resize(out.size() + static_cast<std::size_t>(model.vocab));
        rows.row<T>(x, r, std::span(out).last(static_cast<std::size_t>(model.vocab)));
      }
    }
    return out;
  }

  /// A mask for each row.
  [[nodiscard]] std::vector<std::uint32_t> masks(index_t count) const {
    std::vector<std::uint32_t> words;
    if (allowed < 1.0) {
      dice d(rows.seed);
      words.resize(static_cast<std::size_t>(count) * mask_words());
      for (std::uint32_t& w : words) {
        for (unsigned bit = 0; bit < 32; ++bit) {
          w |= d.chance(allowed) ? 1U << bit : 0U;
        }
      }
    }
    return words;
  }
  [[nodiscard]] std::size_t mask_words() const {
    return (static_cast<std::size_t>(model.vocab) + 31) / 32;
  }

  template <element T>
  [[nodiscard]] row_modifiers<T> modifiers(const std::vector<std::uint32_t>& masks,
                                           const T* unconditional,
                                           std::ptrdiff_t stride) const {
    row_modifiers<T> r;
    if (!masks.empty()) {
      r.allowed = masks.data();
      r.allowed_stride = static_cast<std::ptrdiff_t>(mask_words());
    }
    if (guidance > 0.0F) {
      r.unconditional = unconditional;
      r.unconditional_stride = stride;
      r.cfg_scale = guidance;
    }
    return r;
  }

  /// Records the results of a session's last step.
  static void listen(auto& session, std::size_t slots, outcome& heard) {
    for (index_t slot = 0; slot < static_cast<index_t>(slots); ++slot) {
      heard.said.push_back(
          fields_of(session.report(slot), session.committed(slot), session.probabilities(slot))
              .hash(0));
    }
  }

  template <element T>
  [[nodiscard]] outcome whole() const {
    outcome result;
    session<Policy> s(model, capacity(), {.executor = threads});
    start(s, result.tokens);
    while (const auto request = s.next()) {
      const std::vector<T> logits = forward<T>(*request, result.tokens);
      const std::vector<std::uint32_t> mask = masks(request->rows);
      s.supply(host_logits<T>(logits.data(), request->rows, model.vocab),
               modifiers(mask, logits.data() + 0, model.vocab));
      listen(s, sequences.size(), result);
      if (++result.forwards > 500) {
        ADD_FAILURE() << "does not come to an end";
        break;
      }
    }
    return result;
  }

  enum class exchange { gather, reduce };

  /// The columns of a shard, followed by padding.
  template <element T>
  [[nodiscard]] std::vector<T> cut_out(const std::vector<T>& logits, range columns) const {
    std::vector<T> out;
    const auto vocab = static_cast<std::size_t>(model.vocab);
    for (std::size_t r = 0; r < logits.size() / vocab; ++r) {
      const T* const whole_row = logits.data() + r * vocab;
      out.insert(out.end(), whole_row + columns.first, whole_row + columns.last);
      out.insert(out.end(), 5, encoded<T>(r % 2 == 0 ? not_a_number : 1000.0));
    }
    return out;
  }

  /// Every rank decodes; the outcome is the first one's, and all must say the same.
  template <element T>
  [[nodiscard]] outcome ranks(std::span<const index_t> cuts,
                              exchange how = exchange::gather) const {
    const std::size_t count = cuts.size() - 1;
    std::vector<sharded_session<Policy>> sessions;
    std::vector<outcome> results(count);
    sessions.reserve(count);
    for (std::size_t r = 0; r < count; ++r) {
      sessions.emplace_back(
          model, capacity(), cuts, static_cast<index_t>(r), on_host{.executor = threads});
      start(sessions[r], results[r].tokens);
    }
    while (const auto request = sessions[0].next()) {
      const std::vector<T> logits = forward<T>(*request, results[0].tokens);
      const std::vector<std::uint32_t> mask = masks(request->rows);
      std::vector<std::byte> all;
      for (std::size_t r = 0; r < count; ++r) {
        sharded_session<Policy>& s = sessions[r];
        EXPECT_TRUE(s.next().has_value());
        const range columns = s.columns();
        const std::vector<T> mine = cut_out(logits, columns);
        const auto message = s.read_shard(
            host_logits<T>(mine.data(), request->rows, columns.size(), columns.size() + 5),
            modifiers(mask, mine.data(), columns.size() + 5));
        EXPECT_EQ(message.size(), s.message_bytes());
        if (how == exchange::gather || r == 0) {
          all.insert(all.end(), message.begin(), message.end());
        } else {
          EXPECT_EQ(ranks::merge<Policy::required>(all.data(), message.data(), all.data()),
                    ranks::fault::none);
        }
      }
      for (std::size_t r = 0; r < count; ++r) {
        sessions[r].supply(all);
        listen(sessions[r], sequences.size(), results[r]);
      }
      if (++results[0].forwards > 500) {
        ADD_FAILURE() << "does not come to an end";
        break;
      }
    }
    for (std::size_t r = 1; r < count; ++r) {
      EXPECT_EQ(results[r].said, results[0].said) << "rank " << r;
      EXPECT_EQ(results[r].tokens, results[0].tokens) << "rank " << r;
    }
    return results[0];
  }
};

template <class Policy>
[[nodiscard]] fake_decode<Policy>
fake_decode_of(const Policy& p, index_t vocab, std::uint64_t seed) {
  return {.policy = p,
          .model = {.vocab = vocab, .mask_token = vocab - 1, .eos_token = vocab / 2},
          .rows = {.seed = seed, .vocab = vocab},
          .sequences = {{.prompt_length = 2, .length = 8, .block_length = 3, .seed = seed},
                        {.prompt_length = 1, .length = 5, .block_length = 4, .seed = seed + 1}},
          .branches = Policy::branches ? 2 : 0};
}

}  // namespace unmask::testing
