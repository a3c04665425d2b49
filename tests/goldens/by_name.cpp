// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/by_name.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iomanip>
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

decoded_by remdm_loop(const node& args) {
  return {text("remdm_loop(",
               args.get<int>("unmask_k"),
               ", ",
               args.get<double>("init_unmask_ratio"),
               ", ",
               args.get<int>("loop_steps"),
               ") + single_block"),
          args.get<index_t>("gen_length")};
}

decoded_by remdm_conf(const node& args) {
  return {text("remdm_conf(", args.get<int>("remdm_number"), ") + stop_at_eos(whole_block=true)"),
          args.get<index_t>("block_length"),
          true};
}

/// `steps` counts those of the whole answer.
index_t steps_of_block(const node& args) {
  return args.get<index_t>("steps") * args.get<index_t>("block_length") /
         args.get<index_t>("gen_length");
}

decoded_by rcr(const node& args) {
  const auto key = args.get<std::string>("conf_alg");
  const std::string order = key == "confidence" ? "by_confidence"
                            : key == "entropy"  ? "by_entropy"
                                                : "by_margin";
  return {text(order,
               " + running_confidence(",
               steps_of_block(args),
               ", ",
               args.get<std::string>("mode"),
               ", ",
               order,
               args.get<bool>("rcr") ? ") + semi_autoregressive(whole_prefix=true)"
                                     : ", remask=false)"),
          args.get<index_t>("block_length")};
}

/// The table of token frequencies of a model.
std::string frequencies(const node& model) {
  const auto seed = model.get<std::uint64_t>("seed");
  std::string list;
  std::string values;
  for (std::uint64_t v = 0; v < model.get<std::uint64_t>("V"); ++v) {
    if (aux(seed, 42, v) % 4 != 0) {
      const char* const before = list.empty() ? "" : ", ";
      list += text(before, v);
      values += text(before, std::setprecision(9), double(aux(seed, 41, v) >> 52U) * 0x1p-16);
    }
  }
  return "[" + list + "], [" + values + "]";
}

decoded_by uncode(const node& line) {
  const node args = line.at("args");
  const bool is_linear = args.get<std::string>("mode") == "linear_position";
  return {text(is_linear ? "linear_position(" : "position_frequency(",
               frequencies(line.at("model")),
               ", ",
               args.get<double>("lambda"),
               ", ",
               args.get<double>("alpha"),
               ") + steps_per_block(",
               steps_of_block(args),
               ")"),
          args.get<index_t>("block_length")};
}

/// True if the release fills the positions right of an EOS token while one left of it is masked.
bool fills_early(const node& line) {
  const auto mask = line.at("model").get<token>("mask_id");
  const auto eos = line.at("model").get<token>("eos_id");
  auto x = line.get<tokens>("prompt");
  const auto start = static_cast<std::ptrdiff_t>(x.size());
  x.resize(line.get<tokens>("final").size(), mask);
  const node steps = line.at("steps");
  for (std::size_t k = 0; k + 1 < steps.size(); ++k) {
    for (const auto& [p, t] : steps.at(k).list("changes", [](const node& n) {
           return std::pair{n.at(0U).get<std::size_t>(), n.at(1U).get<token>()};
         })) {
      x.at(p) = t;
    }
    const auto end = std::find(x.begin() + start, x.end(), eos);
    if (end != x.end() && std::find(x.begin() + start, end, mask) != end &&
        std::find(end, x.end(), mask) == x.end()) {
      return true;
    }
  }
  return false;
}

verdict check_d3llm_multi_block(const node& line) {
  if (line.at("args").get<bool>("early_stop") && fills_early(line)) {
    return verdict::skip(
        "the release fills the answer behind an EOS token while tokens left of it are masked, the "
        "library does so when they are committed");
  }
  return replay(line, d3llm_multi_block(line.at("args")));
}

template <decoded_by (*By)(const node& args)>
verdict check(const node& line) {
  return replay(line, By(line.at("args")));
}

verdict check_uncode(const node& line) {
  return replay(line, uncode(line));
}

constexpr rule rules_decoded_by_name[] = {
    {"uncode.pc_sampler", check_uncode},
    {"uncode.linear_position", check_uncode},
    {"frechet", check<frechet>},
    {"d3llm.blocks", check<d3llm_blocks>},
    {"d3llm.multi_block", check_d3llm_multi_block},
    {"dsb", check<dsb>},
    {"adablock", check<adablock>},
    {"uncode.remdm_loop", check<remdm_loop>},
    {"remdm_conf", check<remdm_conf>},
    {"rcr", check<rcr>},
};

}  // namespace

std::span<const rule> rules_by_name() {
  return rules_decoded_by_name;
}

}  // namespace unmask::goldens
