// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/indel.hpp"

#include <unmask/policy/ranking.hpp>
#include <unmask/policy/remask/joint_threshold_indel.hpp>

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

using policy_type = policy<by_confidence, joint_threshold_indel>;

policy_type policy_of(const node& args) {
  joint_threshold_indel rule;
  rule.threshold = static_cast<float>(args.get_or<double>("threshold", 0.5));
  rule.edit_threshold = static_cast<float>(args.get_or<double>("edit_threshold", 0.0));
  rule.most_edits = args.get_or<index_t>("max_post_edit_steps", 16);
  rule.erase_token = args.get<token>("delete_id");
  rule.insert_token = args.get<token>("split_id");
  return {by_confidence{}, rule};
}

/// The forward passes of all blocks.
std::vector<node> passes_of(const node& line) {
  std::vector<node> all;
  const node blocks = line.at("blocks");
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const node steps = blocks.at(b).at("steps");
    for (std::size_t k = 0; k < steps.size(); ++k) {
      all.push_back(steps.at(k));
    }
  }
  return all;
}

}  // namespace

verdict check_indel(const node& line) {
  const context_model model = read_context_model(line.at("model"));
  const auto prompt = line.get<tokens>("prompt");
  const auto final = line.get<tokens>("final");
  const auto block_length = line.at("args").get<index_t>("block_size");
  const auto columns = static_cast<std::size_t>(model.V);
  tokens x = prompt;
  x.resize(final.size(), model.mask_id);
  const auto length = static_cast<index_t>(x.size());
  session<policy_type, place> decode(policy_of(line.at("args")),
                                     {.vocab = model.V,
                                      .mask_token = model.mask_id,
                                      .eos_token = model.eos_id,
                                      .suppress_mask = false},
                                     tokens_view<place::space>(x.data(), length),
                                     {.prompt_length = static_cast<index_t>(prompt.size()),
                                      .length = length,
                                      .block_length = block_length});
  const std::vector<node> passes = passes_of(line);
  std::vector<float> logits;
  std::size_t pass = 0;
  while (const auto request = decode.next()) {
    const auto fail = [&](const std::string& what) {
      return verdict::fail(text("pass ", pass, ": ", what));
    };
    if (pass == passes.size()) {
      return fail("one more than recorded");
    }
    const segment& s = request->segments.front();
    // The released loop runs a block, whatever it decides.
    const auto last = static_cast<std::size_t>(s.query.last);
    const std::size_t first = (last - 1) / static_cast<std::size_t>(block_length) *
                              static_cast<std::size_t>(block_length);
    logits.resize(std::max<std::size_t>(static_cast<std::size_t>(request->rows), 1) * columns);
    std::vector<float> row(columns);
    std::uint64_t sum = 0;
    for (std::size_t p = first; p < last; ++p) {
      model.row(static_cast<int>(p), x, row);
      sum += (2 * std::uint64_t{p} + 1) * bits_sum(row);
      if (s.rows.contains(static_cast<index_t>(p))) {
        const auto r = static_cast<std::size_t>(s.first_row + static_cast<index_t>(p) - s.rows.first);
        std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(r * columns));
      }
    }
    const node recorded = passes[pass];
    if (sum != recorded.hex("sum")) {
      return fail(text("sum: expected ", recorded.hex("sum"), ", got ", sum));
    }
    const tokens before = x;
    decode.supply(rows_view<float, place::space>{logits.data(), request->rows, model.V});
    static_cast<void>(decode.report());  // and the tokens are there
    std::string expected;
    for (const auto& [p, t] : recorded.list("changes", [](const node& n) {
           return std::pair{n.at(0U).get<int>(), n.at(1U).get<token>()};
         })) {
      expected += text(" ", p, "=", t);
    }
    std::string got;
    for (std::size_t p = 0; p < x.size(); ++p) {
      got += before[p] != x[p] ? text(" ", p, "=", x[p]) : "";
    }
    if (got != expected) {
      return fail("expected" + expected + ", got" + got);
    }
    ++pass;
  }
  return pass == passes.size() && x == final
             ? verdict::pass()
             : verdict::fail(text("expected ", passes.size(), " passes, got ", pass));
}

}  // namespace unmask::goldens
