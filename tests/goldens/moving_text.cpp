// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/moving_text.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/decode_of_line.hpp"
#include "goldens/lines.hpp"

namespace unmask::goldens {

namespace {

/// The answer after each forward pass, and the sum of the rows of the pass.
struct recorded_pass {
  std::uint64_t sum = 0;
  tokens after;
};

/// A recorded decode: the length of the prompt, the first answer, the most positions, the passes.
struct recorded_decode {
  std::size_t prompt = 0;
  tokens first;
  index_t length = 0;
  index_t block_length = 0;
  bool sums_blocks = false;  ///< of all positions of a block, not of the masked ones of the text
  std::vector<recorded_pass> passes;
};

std::uint64_t sum_of(const recorded_decode& r, const decode_of_line& decode, const segment& s) {
  const std::span<const token> x = std::span(decode.x).first(decode.visible);
  if (!r.sums_blocks) {
    return decode.model.sum(x);
  }
  std::vector<float> row(static_cast<std::size_t>(decode.model.V));
  std::uint64_t sum = 0;
  const index_t first = (s.query.last - 1) / r.block_length * r.block_length;
  for (index_t p = first; p < s.query.last; ++p) {
    decode.model.row(p, x, row);
    sum += (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(row);
  }
  return sum;
}

verdict replay(const node& line, const recorded_decode& r, const std::string& policy) {
  decode_of_line decode(line, {policy, r.block_length}, static_cast<std::size_t>(r.length));
  const auto answer = decode.x.begin() + static_cast<std::ptrdiff_t>(r.prompt);
  decode.visible = r.prompt + r.first.size();
  std::size_t pass = 0;
  while (const auto request = decode.session.next()) {
    const auto fail = [&](const std::string& what) {
      return verdict::fail(text("pass ", pass, ": ", what));
    };
    if (pass == r.passes.size()) {
      return fail("one more than recorded");
    }
    const recorded_pass& recorded = r.passes[pass];
    const std::uint64_t sum = sum_of(r, decode, request->segments.front());
    if (sum != recorded.sum) {
      return fail(text("sum: expected ", recorded.sum, ", got ", sum));
    }
    decode.supply(*request);
    static_cast<void>(decode.session.report());  // and the tokens are there
    const auto [expected, got] =
        std::mismatch(recorded.after.begin(), recorded.after.end(), answer);
    if (expected != recorded.after.end()) {
      return fail(
          text("position ", got - decode.x.begin(), ": expected ", *expected, ", got ", *got));
    }
    decode.visible = r.prompt + recorded.after.size();
    ++pass;
  }
  const auto end = static_cast<std::size_t>(decode.session.report().answer_end);
  return pass == r.passes.size() && end == decode.visible
             ? verdict::pass()
             : verdict::fail(text("expected ",
                                  r.passes.size(),
                                  " passes to position ",
                                  decode.visible,
                                  ", got ",
                                  pass,
                                  " to ",
                                  end));
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
        now.at(p - r.prompt) = t;
      }
    }
    r.passes.push_back({step.hex("sum"), now});
  }
}

}  // namespace

verdict check_indel(const node& line) {
  const node args = line.at("args");
  const auto mask = line.at("model").get<token>("mask_id");
  recorded_decode r;
  r.prompt = line.get<tokens>("prompt").size();
  r.length = static_cast<index_t>(line.get<tokens>("final").size());
  r.block_length = args.get<index_t>("block_size");
  r.sums_blocks = true;
  r.first.resize(static_cast<std::size_t>(r.length) - r.prompt, mask);
  tokens now = r.first;
  const node blocks = line.at("blocks");
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    add_passes(r, now, blocks.at(b).at("steps"));
  }
  return replay(line,
                r,
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
  const auto mask = line.at("model").get<token>("mask_id");
  recorded_decode r;
  r.prompt = line.get<tokens>("prompt").size();
  r.length = static_cast<index_t>(r.prompt) + args.get<index_t>("max_gen_length");
  r.block_length = args.get<index_t>("block_length");
  r.first.resize(
      static_cast<std::size_t>(std::min(initial, r.length - static_cast<index_t>(r.prompt))), mask);
  tokens now = r.first;
  add_passes(r, now, line.at("steps"));
  return replay(line,
                r,
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
