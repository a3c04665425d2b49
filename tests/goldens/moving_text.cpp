// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/moving_text.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/lines.hpp"
#include "goldens/place.hpp"

namespace unmask::goldens {

namespace {

/// The answer after each forward pass, and the sum of the rows of the pass.
struct recorded_pass {
  std::uint64_t sum = 0;
  tokens after;
};

/// A recorded decode: the prompt, the first answer, the most positions, and the passes.
struct recorded_decode {
  context_model model;
  tokens prompt;
  tokens first;
  index_t length = 0;
  index_t block_length = 0;
  bool sums_blocks = false;  ///< of all positions of a block, not of the masked ones of the text
  std::vector<recorded_pass> passes;
};

std::uint64_t sum_of(const recorded_decode& r, std::span<const token> x, const segment& s) {
  if (!r.sums_blocks) {
    return r.model.sum(x);
  }
  std::vector<float> row(static_cast<std::size_t>(r.model.V));
  std::uint64_t sum = 0;
  const index_t first = (s.query.last - 1) / r.block_length * r.block_length;
  for (index_t p = first; p < s.query.last; ++p) {
    r.model.row(p, x, row);
    sum += (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(row);
  }
  return sum;
}

verdict replay(const recorded_decode& r, const std::string& policy) {
  const auto columns = static_cast<std::size_t>(r.model.V);
  tokens x = r.prompt;
  x.resize(static_cast<std::size_t>(r.length), r.model.mask_id);
  session<named_policy, place> decode(read_policy(policy),
                                      {.vocab = r.model.V,
                                       .mask_token = r.model.mask_id,
                                       .eos_token = r.model.eos_id,
                                       .suppress_mask = false},
                                      tokens_view<place::space>(x.data(), r.length),
                                      {.prompt_length = index_t(r.prompt.size()),
                                       .length = r.length,
                                       .block_length = r.block_length});
  std::vector<float> logits;
  std::size_t pass = 0;
  tokens before = r.first;
  while (const auto request = decode.next()) {
    const auto fail = [&](const std::string& what) {
      return verdict::fail(text("pass ", pass, ": ", what));
    };
    if (pass == r.passes.size()) {
      return fail("one more than recorded");
    }
    const segment& s = request->segments.front();
    const std::span<const token> text_now(x.data(), r.prompt.size() + before.size());
    const recorded_pass& recorded = r.passes[pass];
    const std::uint64_t sum = sum_of(r, text_now, s);
    if (sum != recorded.sum) {
      return fail(text("sum: expected ", recorded.sum, ", got ", sum));
    }
    logits.resize(std::max<std::size_t>(static_cast<std::size_t>(request->rows), 1) * columns);
    for (index_t p = s.rows.first; p < s.rows.last; ++p) {
      const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * columns;
      r.model.row(p, text_now, std::span(logits).subspan(at, columns));
    }
    decode.supply(rows_view<float, place::space>{logits.data(), request->rows, r.model.V});
    static_cast<void>(decode.report());  // and the tokens are there
    before.assign(x.begin() + std::ptrdiff_t(r.prompt.size()),
                  x.begin() + std::ptrdiff_t(r.prompt.size() + recorded.after.size()));
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] != recorded.after[i]) {
        return fail(text("position ",
                         r.prompt.size() + i,
                         ": expected ",
                         recorded.after[i],
                         ", got ",
                         before[i]));
      }
    }
    ++pass;
  }
  const auto end = static_cast<std::size_t>(decode.report().answer_end);
  return pass == r.passes.size() && end == r.prompt.size() + before.size()
             ? verdict::pass()
             : verdict::fail(text("expected ",
                                  r.passes.size(),
                                  " passes to position ",
                                  r.prompt.size() + before.size(),
                                  ", got ",
                                  pass,
                                  " to ",
                                  end));
}

recorded_decode decode_of(const node& line) {
  recorded_decode r;
  r.model = read_context_model(line.at("model"));
  r.prompt = line.get<tokens>("prompt");
  return r;
}

/// Adds the passes of a list of steps to those of a decode whose last answer is `now`.
void add_passes(recorded_decode& r, tokens& now, const node& steps) {
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const node step = steps.at(k);
    now = step.get_or<tokens>("after", now);
    if (step.has("changes")) {
      for (const auto& [p, t] : step.list("changes", [](const node& n) {
             return std::pair{n.at(0U).get<std::size_t>(), n.at(1U).get<token>()};
           })) {
        now.at(p - r.prompt.size()) = t;
      }
    }
    r.passes.push_back({step.hex("sum"), now});
  }
}

}  // namespace

verdict check_indel(const node& line) {
  const node args = line.at("args");
  recorded_decode r = decode_of(line);
  r.length = static_cast<index_t>(line.get<tokens>("final").size());
  r.block_length = args.get<index_t>("block_size");
  r.sums_blocks = true;
  r.first.resize(static_cast<std::size_t>(r.length) - r.prompt.size(), r.model.mask_id);
  tokens now = r.first;
  const node blocks = line.at("blocks");
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    add_passes(r, now, blocks.at(b).at("steps"));
  }
  return replay(r,
                text("joint_threshold_indel(",
                     args.get_or<double>("threshold", 0.5),
                     ", ",
                     args.get_or<double>("edit_threshold", 0.0),
                     ", ",
                     args.get_or<index_t>("max_post_edit_steps", 16),
                     ", ",
                     args.get<token>("delete_id"),
                     ", ",
                     args.get<token>("split_id"),
                     ")"));
}

verdict check_daedal(const node& line) {
  const node args = line.at("args");
  const auto initial = args.get<index_t>("initial_gen_length");
  recorded_decode r = decode_of(line);
  r.length = static_cast<index_t>(r.prompt.size()) + args.get<index_t>("max_gen_length");
  r.block_length = args.get<index_t>("block_length");
  r.first.resize(
      static_cast<std::size_t>(std::min(initial, r.length - static_cast<index_t>(r.prompt.size()))),
      r.model.mask_id);
  tokens now = r.first;
  add_passes(r, now, line.at("steps"));
  return replay(r,
                text("daedal(",
                     initial,
                     ", ",
                     args.get<double>("high_conf_threshold"),
                     ", ",
                     args.get<double>("low_conf_threshold"),
                     ", ",
                     args.get<index_t>("expansion_factor"),
                     ", ",
                     args.get<double>("eos_confidence_threshold"),
                     ", ",
                     args.get<double>("expand_eos_confidence_threshold"),
                     ", ",
                     args.get<index_t>("eos_check_tokens"),
                     ")"));
}

}  // namespace unmask::goldens
