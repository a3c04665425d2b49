// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/by_name.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/lines.hpp"
#include "goldens/place.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

namespace {

/// How a recorded loop decodes: a text, and the length of its blocks.
struct decoded_by {
  std::string policy;
  index_t block_length = 0;
  /// The released loop stops behind an EOS token and leaves masks, which the library fills with it:
  /// the last forward pass is compared as far as it was recorded.
  bool leaves_masks = false;
};

/// The changes of one forward pass, ascending.
std::vector<commit> difference(const tokens& before, const tokens& after) {
  std::vector<commit> all;
  for (std::size_t p = 0; p < after.size(); ++p) {
    if (before[p] != after[p]) {
      all.push_back({static_cast<int>(p), after[p]});
    }
  }
  return all;
}

std::string text_of(const std::vector<commit>& commits) {
  std::string list;
  for (const commit& c : commits) {
    list += text(list.empty() ? "" : " ", c.position, "=", c.value);
  }
  return list.empty() ? "nothing" : list;
}

/// Decodes a line by name and compares every forward pass.
verdict replay(const node& line, const decoded_by& by) {
  const context_model model = read_context_model(line.at("model"));
  const auto prompt = line.get<tokens>("prompt");
  const auto final = line.get<tokens>("final");
  const auto columns = static_cast<std::size_t>(model.V);
  tokens x = prompt;
  x.resize(final.size(), model.mask_id);
  const auto length = static_cast<index_t>(x.size());
  session<named_policy, place> decode(read_policy(by.policy),
                                      {.vocab = model.V,
                                       .mask_token = model.mask_id,
                                       .eos_token = model.eos_id,
                                       .suppress_mask = false},
                                      tokens_view<place::space>(x.data(), length),
                                      {.prompt_length = static_cast<index_t>(prompt.size()),
                                       .length = length,
                                       .block_length = by.block_length});
  const node steps = line.at("steps");
  std::vector<float> logits;
  std::size_t step = 0;
  while (const auto request = decode.next()) {
    const auto fail = [&](const std::string& what) {
      return verdict::fail(text(by.policy, ": step ", step, ": ", what));
    };
    if (step == steps.size()) {
      return fail("a forward pass more than recorded");
    }
    const node recorded = steps.at(step);
    const std::uint64_t sum = model.sum(x);
    if (sum != recorded.hex("sum")) {
      return fail(text("sum: expected ", recorded.hex("sum"), ", got ", sum));
    }
    logits.resize(static_cast<std::size_t>(request->rows) * columns);
    const segment& s = request->segments.front();
    for (index_t p = s.rows.first; p < s.rows.last; ++p) {
      const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * columns;
      model.row(p, x, std::span(logits).subspan(at, columns));
    }
    const tokens before = x;
    decode.supply(rows_view<float, place::space>{logits.data(), request->rows, model.V});
    const bool is_over = decode.report().end != ending::running;  // and the tokens are there
    std::vector<commit> changed = difference(before, x);
    const auto expected = recorded.list("changes", [](const node& n) {
      return commit{n.at(0U).get<int>(), n.at(1U).get<token>()};
    });
    ++step;
    if (is_over && by.leaves_masks) {
      std::erase_if(changed, [&](const commit& c) {
        return final[static_cast<std::size_t>(c.position)] == model.mask_id;
      });
    }
    if (changed != expected) {
      --step;
      return fail("expected " + text_of(expected) + ", got " + text_of(changed));
    }
  }
  if (step != steps.size()) {
    return verdict::fail(
        text(by.policy, ": expected ", steps.size(), " forward passes, got ", step));
  }
  return verdict::pass();
}

decoded_by frechet(const node& args) {
  return {text("frechet(", args.get<double>("margin"), ")"), args.get<index_t>("block_length")};
}

decoded_by d3llm_blocks(const node& args) {
  return {text("by_entropy + entropy_below(", args.get<double>("threshold"), ")"),
          args.get<index_t>("block_length")};
}

decoded_by d3llm_multi_block(const node& args) {
  std::string policy = text("by_entropy + entropy_below(",
                            args.get<double>("threshold"),
                            ") + block_pipeline(",
                            args.get<double>("block_add_threshold"),
                            ", 1, 64, whole_canvas=true, ends_at_eos=false)");
  policy += args.get<bool>("early_stop") ? " + stop_at_eos" : "";
  return {policy, args.get<index_t>("block_length"), args.get<bool>("early_stop")};
}

decoded_by dsb(const node& args) {
  const std::string rule =
      args.has("threshold") ? text("threshold(", args.get<double>("threshold"), ", inclusive=true)")
      : args.has("factor")  ? text("factor(", args.get<double>("factor"), ", accept_last=true)")
                            : "tokens_per_step";
  const int most = std::max(args.get<int>("max_block_length"), 0);
  return {text(rule, " + sliding_block(", most, ")"), args.get<index_t>("block_length")};
}

decoded_by adablock(const node& args) {
  std::string delimiters;
  for (const token t : args.get<tokens>("delimiter_ids")) {
    delimiters += text(delimiters.empty() ? "" : ", ", t);
  }
  return {text("threshold(",
               args.get<double>("threshold"),
               ", inclusive=true) + block_at_delimiter([",
               delimiters,
               "], ",
               args.get<double>("delimiter_threshold"),
               ")"),
          args.get<index_t>("init_block_length")};
}

template <decoded_by (*By)(const node& args)>
verdict check(const node& line) {
  return replay(line, By(line.at("args")));
}

constexpr rule table[] = {
    {"frechet", check<frechet>},
    {"d3llm.blocks", check<d3llm_blocks>},
    {"d3llm.multi_block", check<d3llm_multi_block>},
    {"dsb", check<dsb>},
    {"adablock", check<adablock>},
};

}  // namespace

std::span<const rule> rules_by_name() {
  return table;
}

}  // namespace unmask::goldens
