// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/host/backend.hpp>
#include <unmask/session.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "goldens/trace.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

/// The check of a line whose steps have commits only.
struct nothing_else {
  [[nodiscard]] std::string operator()(const step&, std::size_t) const { return {}; }
};

namespace detail {

/// A number that no decision survives: what the session is given for rows it must not read.
inline void poison(std::vector<float>& logits) {
  std::fill(logits.begin(), logits.end(), std::numeric_limits<float>::quiet_NaN());
}
inline void poison(std::vector<bfloat16>& logits) {
  std::fill(logits.begin(), logits.end(), bfloat16{0x7fc0U});
}

template <class T, class Policy, class Check>
[[nodiscard]] verdict replay(const commit_line& line,
                             const Policy& p,
                             const loop_shape& shape,
                             token_id eos_token,
                             const Check& check) {
  const sequence& first = line.sequences.front();
  const auto slots = static_cast<index_t>(line.sequences.size());
  const auto length = static_cast<index_t>(first.final.size());
  const sequence_shape geometry{.prompt_length = static_cast<index_t>(first.prompt.size()),
                                .length = length,
                                .block_length = shape.block_length};
  const model_info model{.vocab = first.model.V,
                         .mask_token = first.model.mask_id,
                         .eos_token = eos_token,
                         .logits_shift = first.model.logits_shift,
                         .suppress_mask = false};
  const auto columns = static_cast<std::size_t>(first.model.V);

  session<Policy> decode(model, {.sequences = slots, .length = length, .window = length});
  std::vector<trace> traces;
  for (index_t b = 0; b < slots; ++b) {
    traces.emplace_back(line, static_cast<std::size_t>(b), shape);
  }
  for (index_t b = 0; b < slots; ++b) {
    decode.start(b,
                 p,
                 traces[static_cast<std::size_t>(b)].x(),
                 geometry,
                 {.editable = {}, .suppressed = first.model.suppress});
  }
  const auto who = [&](index_t b, const std::string& what) {
    return slots > 1 ? text("sequence ", b, ", ", what) : what;
  };

  std::vector<T> logits;
  while (const auto request = decode.next()) {
    logits.resize(static_cast<std::size_t>(request->rows) * columns);
    poison(logits);
    const std::vector<segment> segments(request->segments.begin(), request->segments.end());
    for (const segment& s : segments) {
      trace& t = traces[static_cast<std::size_t>(s.slot)];
      if (const std::string what = t.begin(decode.planned(s.slot), s); !what.empty()) {
        return verdict::fail(who(s.slot, what));
      }
      for (const index_t row : t.rows()) {
        if (!s.rows.contains(row)) {
          return verdict::fail(who(s.slot, text("row ", row, " is not asked for")));
        }
        const auto at = static_cast<std::size_t>(s.first_row + row - s.rows.first);
        t.write_row(row, std::span<T>(logits.data() + at * columns, columns));
      }
    }
    decode.supply(host_logits<T>{logits.data(), request->rows, first.model.V});
    for (const segment& s : segments) {
      trace& t = traces[static_cast<std::size_t>(s.slot)];
      if (const std::string what = check(t.recorded(), t.forwards()); !what.empty()) {
        return verdict::fail(who(s.slot, text("step ", t.forwards(), ": ", what)));
      }
      const std::string what = t.finish(decode.committed(s.slot), decode.report(s.slot).end);
      if (!what.empty()) {
        return {t.tied(), who(s.slot, what)};
      }
    }
  }
  for (index_t b = 0; b < slots; ++b) {
    const std::string what = traces[static_cast<std::size_t>(b)].end(decode.report(b));
    if (!what.empty()) {
      return verdict::fail(who(b, what));
    }
  }
  return verdict::pass();
}

}  // namespace detail

/// Decodes a recorded line with a session of policy `p` on the host, one slot a sequence, and
/// compares every step. The logits are bfloat16 where the recorded ones were. `eos_token`: the
/// token at which the released loop ends, if there is one. `check(step, index)`, called after
/// each step, compares the other recorded data of the step; it returns the difference in
/// words.
template <class Policy, class Check = nothing_else>
[[nodiscard]] verdict replay(const commit_line& line,
                             const Policy& p,
                             const loop_shape& shape,
                             token_id eos_token = no_token,
                             const Check& check = {}) {
  return line.sequences.front().model.bf16
             ? detail::replay<bfloat16>(line, p, shape, eos_token, check)
             : detail::replay<float>(line, p, shape, eos_token, check);
}

}  // namespace unmask::goldens
