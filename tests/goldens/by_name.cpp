// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/by_name.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/decode_of_line.hpp"
#include "goldens/freedave.hpp"
#include "goldens/lines.hpp"
#include "goldens/moving_text.hpp"
#include "goldens/place.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

namespace {

std::vector<commit> commits_in(const node& recorded, const std::string& field) {
  return recorded.list(
      field, [](const node& n) { return commit{n.at(0U).get<int>(), n.at(1U).get<token>()}; });
}

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

/// A step as most rules record it: the sum of its rows, and its changes.
struct changes_of_step {
  static std::uint64_t sum(const decode_of_line& decode, const node&) {
    return decode.model.sum(decode.x);
  }
  static std::vector<commit> changes(const decode_of_line&, const node& recorded) {
    return commits_in(recorded, "changes");
  }
};

/// A step of wino: sums over its block, of masked positions and in the shadow of committed ones.
struct commits_and_remasks {
  static std::uint64_t sum(const decode_of_line& decode, const node& recorded) {
    const int first = recorded.at("block").at(0U).get<int>();
    const int last = recorded.at("block").at(1U).get<int>();
    const auto is_masked = [&](int p) {
      return decode.x[static_cast<std::size_t>(p)] == decode.model.mask_id;
    };
    const std::uint64_t shadow =
        decode.model.sum(decode.x, first, last, attention_kind::shadow, std::not_fn(is_masked));
    if (shadow != recorded.hex("shadow_sum")) {
      recorded.fail(text("shadow_sum: got ", shadow));
    }
    return decode.model.sum(decode.x, first, last, attention_kind::bidirectional, is_masked);
  }
  static std::vector<commit> changes(const decode_of_line& decode, const node& recorded) {
    std::vector<commit> all = commits_in(recorded, "commits");
    for (const int p : recorded.get<std::vector<int>>("remasks")) {
      all.push_back({p, decode.model.mask_id});
    }
    std::ranges::sort(all, {}, &commit::position);
    return all;
  }
};

/// True if two lists of as many commits differ only in candidates whose confidences, in double, are
/// equal up to the rounding of a float sum close to 1: the release ranks them in double.
bool ranks_of_rounding(const context_model& model,
                       const tokens& before,
                       const std::vector<commit>& a,
                       const std::vector<commit>& b) {
  if (a.size() != b.size()) {
    return false;
  }
  double least = 1;
  double most = 0;
  std::vector<float> row(static_cast<std::size_t>(model.V));
  for (const auto& [list, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    for (const commit& c : *list) {
      if (std::ranges::find(*other, c) == other->end()) {
        model.row(c.position, before, row);
        double sum = 0;
        for (const float z : row) {
          sum += std::exp(double{z} - double{std::ranges::max(row)});
        }
        least = std::min(least, 1 / sum);
        most = std::max(most, 1 / sum);
      }
    }
  }
  return most - least <= 0x1p-23;
}

/// Decodes a line by name and compares every forward pass.
template <class Recorded = changes_of_step>
verdict replay(const node& line, const decoded_by& by) {
  const auto final = line.get<tokens>("final");
  decode_of_line decode(line, by, final.size());
  const tokens& x = decode.x;
  const node steps = line.at("steps");
  std::size_t step = 0;
  while (const auto request = decode.session.next()) {
    const auto fail = [&](const std::string& what) {
      return decode.fail(text(by.policy, ": step ", step, ": ", what));
    };
    if (step == steps.size()) {
      return fail("a forward pass more than recorded");
    }
    const node recorded = steps.at(step);
    const std::uint64_t sum = Recorded::sum(decode, recorded);
    if (sum != recorded.hex("sum")) {
      return fail(text("sum: expected ", recorded.hex("sum"), ", got ", sum));
    }
    const tokens before = x;
    decode.supply(*request);
    const bool is_over =
        decode.session.report().end != ending::running;  // and the tokens are there
    std::vector<commit> changed = difference(before, x);
    const std::vector<commit> expected = Recorded::changes(decode, recorded);
    ++step;
    if (is_over && by.leaves_masks) {
      std::erase_if(changed, [&](const commit& c) {
        return final[static_cast<std::size_t>(c.position)] == decode.model.mask_id;
      });
    }
    if (changed != expected) {
      --step;
      if (ranks_of_rounding(decode.model, before, changed, expected)) {
        return verdict::skip("confidences that differ by less than 2^-23 rank candidates");
      }
      return fail("expected " + text_of(expected) + ", got " + text_of(changed));
    }
  }
  if (step != steps.size()) {
    return decode.fail(text(by.policy, ": expected ", steps.size(), " forward passes, got ", step));
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

verdict check_wino(const node& line) {
  const node args = line.at("args");
  const std::string policy =
      text("wino(", args.get<double>("threshold"), ", ", args.get<double>("threshold_back"), ")");
  return replay<commits_and_remasks>(line, {policy, args.get<index_t>("block_length")});
}

/// Steps of one to three passes: the first, one that hides the tokens of `verify` and those that
/// the first has committed, and with `joint` one that decides again.
verdict check_core(const node& line) {
  const node args = line.at("args");
  const std::string policy = text(args.get<std::string>("base") == "margin" ? "by_margin + " : "",
                                  "core(",
                                  steps_of_block(args),
                                  ", ",
                                  args.get<int>("revise_every"),
                                  ", ",
                                  args.get<int>("candidate_m"),
                                  ", ",
                                  args.get<int>("remask_k"),
                                  ", redecide=",
                                  args.get<int>("joint_reeval"),
                                  ")");
  const auto final = line.get<tokens>("final");
  decode_of_line decode(line, {policy, args.get<index_t>("block_length")}, final.size());
  const tokens& x = decode.x;
  const node steps = line.at("steps");
  int forwards = 0;
  std::string wrong;
  // Makes a pass whose sum is the recorded one.
  const auto pass = [&](const node& recorded, const std::string& sum, std::size_t step) {
    const auto request = decode.session.next();
    const std::uint64_t is = request ? decode.model.sum(x) : 0;
    if (!request || is != recorded.hex(sum)) {
      wrong =
          text(policy, ": step ", step, ": ", sum, ": expected ", recorded.hex(sum), ", got ", is);
      return false;
    }
    decode.supply(*request);
    static_cast<void>(decode.session.report());
    ++forwards;
    return true;
  };
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const node recorded = steps.at(step);
    tokens before = x;
    bool goes_on = pass(recorded, "sum", step);
    if (goes_on && recorded.has("verify")) {
      for (const int p : recorded.get<std::vector<int>>("verify")) {
        if (x[static_cast<std::size_t>(p)] != decode.model.mask_id) {
          return decode.fail(text(policy, ": step ", step, ": position ", p, " is not hidden"));
        }
      }
      goes_on = pass(recorded, "verify_sum", step);
    }
    if (goes_on && recorded.has("joint")) {
      goes_on = pass(recorded, "joint_sum", step);
    }
    if (!goes_on) {
      return decode.fail(wrong);
    }
    const bool hides =
        decode.session.planned().kind == pass_kind::hiding;  // what the step has committed
    const std::vector<commit> changed = difference(before, x);
    const std::vector<commit> expected = commits_in(recorded, "changes");
    if (changed != expected || hides) {
      return decode.fail(text(policy,
                              ": step ",
                              step,
                              ": expected ",
                              text_of(expected),
                              ", got ",
                              text_of(changed),
                              hides ? " and hides tokens" : ""));
    }
  }
  if (decode.session.next()) {
    return decode.fail(policy + ": a forward pass more than recorded");
  }
  return forwards == line.get<int>("nfe") && x == final
             ? verdict::pass()
             : decode.fail(text(policy, ": another answer, or number of passes: ", forwards));
}

/// Greedy decoding of the causal model of a line, up to an EOS token.
verdict check_linear_spec(const node& line) {
  const node args = line.at("args");
  const auto block = args.get<int>("block_length");
  const auto prompt = line.get<tokens>("prompt");
  const auto final = line.get<tokens>("final");
  const std::size_t length = prompt.size() + args.get<std::size_t>("max_new_tokens");
  const std::string policy = text("linear_spec(",
                                  args.get<double>("threshold"),
                                  ", window=",
                                  std::min(block, 32),
                                  ", start=",
                                  std::min(block, 8),
                                  ") + stop_at_eos");
  decode_of_line decode(line, {policy, static_cast<index_t>(length)}, length);
  const tokens& x = decode.x;
  const node steps = line.at("steps");
  std::size_t step = 0;
  while (const auto request = decode.session.next()) {
    const auto fail = [&](const auto&... what) {
      return decode.fail(text(policy, ": step ", step, ": ", what...));
    };
    if (step == steps.size()) {
      return fail("a forward pass more than recorded");
    }
    const node recorded = steps.at(step);
    const segment& s = request->segments[0];
    const auto input = recorded.get<tokens>("input");
    const auto start = recorded.get<index_t>("start");
    const bool is_draft = recorded.get<std::string>("kind") == "draft";
    if (is_draft != (s.attention == attention_kind::bidirectional)) {
      return fail("expected a ", recorded.get<std::string>("kind"), ", got ", name_of(s.attention));
    }
    const index_t end = start + static_cast<index_t>(input.size());
    if (s.query.first != start || s.query.last != end || s.keys.first != 0 || s.keys.last != end) {
      return fail(
          "expected positions ", start, "-", end, ", got ", s.query.first, "-", s.query.last);
    }
    if (!std::equal(input.begin(), input.end(), x.begin() + start)) {
      return fail("other tokens");
    }
    // A row sees no token behind the pass.
    decode.visible = static_cast<std::size_t>(end);
    const std::span<const token> seen = std::span(x).first(decode.visible);
    const bool is_prefill = recorded.get<std::string>("kind") == "prefill";
    const std::uint64_t sum = decode.model.sum(
        seen,
        is_prefill ? end
        : is_draft ? start
                   : start + 1,
        is_draft ? end : end + 1,
        s.attention,
        [&](int p) { return !is_draft || x[static_cast<std::size_t>(p)] == decode.model.mask_id; });
    if (sum != recorded.hex("sum")) {
      return fail("sum: expected ", recorded.hex("sum"), ", got ", sum);
    }
    decode.supply(*request);
    static_cast<void>(decode.session.report());
    ++step;
  }
  if (step != steps.size()) {
    return decode.fail(text(policy, ": expected ", steps.size(), " forward passes, got ", step));
  }
  const bool is_equal = static_cast<index_t>(final.size()) == decode.session.report().answer_end &&
                        std::equal(final.begin(), final.end(), x.begin());
  return is_equal ? verdict::pass() : decode.fail(policy + ": another answer");
}

/// The members of the beam before each forward pass, best first.
verdict check_soar(const node& line) {
  const node args = line.at("args");
  const auto final = line.get<tokens>("final");
  const std::string policy = text(
      "soar(width=", args.get<int>("max_beam_size"), ") + max_steps(", args.get<int>("steps"), ")");
  decode_of_line decode(line, {policy, args.get<index_t>("block_length")}, final.size());
  const auto prompt = static_cast<std::ptrdiff_t>(line.get<tokens>("prompt").size());
  const node steps = line.at("steps");
  std::size_t step = 0;
  while (const auto request = decode.session.next()) {
    const auto fail = [&](const auto&... what) {
      return decode.fail(text(policy, ": step ", step, ": ", what...));
    };
    if (step == steps.size()) {
      return fail("a forward pass more than recorded");
    }
    const node beams = steps.at(step).at("beams");
    // A member that has "committed" a mask token is a block behind the first one, which the library
    // drops: no recorded beam goes on with it.
    const std::size_t members = request->segments.size();
    for (std::size_t b = 0; b < members; ++b) {
      const tokens got = decode.text_of(request->segments[b]);
      if (b == beams.size() ||
          !std::equal(got.begin() + prompt, got.end(), beams.at(b).get<tokens>().begin())) {
        return fail("another member ", b);
      }
      const node sums = steps.at(step).at("sums");
      const std::uint64_t sum = decode.model.sum(got);
      if (sum != std::stoull(sums.at(b).get<std::string>(), nullptr, 16)) {
        return fail("sum of member ", b, ": ", sum);
      }
    }
    if (members != beams.size()) {
      return fail("expected ", beams.size(), " members, got ", members);
    }
    decode.supply(*request);
    static_cast<void>(decode.session.report());  // and the tokens are there
    ++step;
  }
  if (step != steps.size()) {
    return decode.fail(text(policy, ": expected ", steps.size(), " forward passes, got ", step));
  }
  const bool is_equal = std::ranges::equal(decode.x, final, [&](token a, token b) {
    return a == b || b == decode.model.mask_id;  // the library fills what is masked at the end
  });
  return is_equal ? verdict::pass() : decode.fail(policy + ": another answer");
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
    {"sglang.joint_threshold_indel", check_indel},
    {"daedal", check_daedal},
    {"freedave", check_freedave},
    {"core", check_core},
    {"soar", check_soar},
    {"wino", check_wino},
    {"linear_spec.mlx_vlm", check_linear_spec},
};

}  // namespace

std::span<const rule> rules_by_name() {
  return rules_decoded_by_name;
}

}  // namespace unmask::goldens
