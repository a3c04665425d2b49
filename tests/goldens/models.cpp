// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "goldens/models.hpp"

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goldens/context_model.hpp"
#include "goldens/decode_of_line.hpp"
#include "goldens/lines.hpp"
#include "goldens/place.hpp"
#include "goldens/verdict.hpp"

namespace unmask::goldens {

namespace models {

namespace {

/// A model's word with the arguments of a line, and the parts of the line beside it.
struct word_of_line {
  std::string_view word;
  std::string arguments;     ///< in parentheses, or nothing
  std::string before = {};   ///< "left_to_right + "
  std::string after = {};    ///< " + temperature(0.7)"
  std::string instead = {};  ///< of all of these

  [[nodiscard]] std::string policy() const {
    return instead.empty() ? before + std::string(word) + arguments + after : instead;
  }
};

[[nodiscard]] std::vector<commit> changes_of(const node& step) {
  for (const char* field : {"changes", "commits"}) {
    if (step.has(field)) {
      return step.list(
          field, [](const node& n) { return commit{n.at(0U).get<int>(), n.at(1U).get<token>()}; });
    }
  }
  return {};
}

/// The tokens that the row of a position depends on.
enum class sight {
  of_block,   ///< the positions before the end of its block, which begins at a multiple
  of_segment  ///< the keys of its segment; in a causal one those left of it
};

/// Decodes in blocks. Compared are the changes of each pass that has some, up to the end of the
/// answer.
class decode_in_blocks {
 public:
  decode_in_blocks(const node& line,
                   const word_of_line& by,
                   index_t block_length,
                   index_t answer,
                   sight sees = sight::of_block)
      : line_(line)
      , sees_(sees)
      , text_(by.policy())
      , model_(read_context_model(line.at("model")))
      , row_(find_model(by.word) == nullptr ? known_model{} : *find_model(by.word)) {
    row_.block_length = block_length;
    const auto prompt = line.get<tokens>("prompt");
    shape_ = shape_of(row_, static_cast<index_t>(prompt.size()), answer);
    x_ = prompt;
    x_.resize(static_cast<std::size_t>(shape_.length), model_.mask_id);
    recorded_ = x_;
    end_ = end_of_answer(shape_.prompt_length + answer);
  }

  [[nodiscard]] verdict replay() {
    session<named_policy, place> decode(
        read_policy(text_),
        {.vocab = model_.V,
         .mask_token = model_.mask_id,
         .eos_token = model_.eos_id,
         .logits_shift = row_.logits_shift,
         .suppress_mask = !row_.proposes_mask,
         .causal_attention = true},
        tokens_view<place::space>(x_.data(), static_cast<index_t>(x_.size())),
        shape_);
    const node steps = line_.at("steps");
    std::size_t step = 0;
    while (const auto request = decode.next()) {
      const tokens before = x_;
      const std::vector<float> logits = rows(*request);
      decode.supply(rows_view<float, place::space>{logits.data(), request->rows, model_.V});
      const bool is_over = decode.report().end != ending::running;  // and the tokens are there
      const std::vector<commit> changed = difference(before, is_over);
      if (changed.empty()) {
        continue;
      }
      std::vector<commit> expected;
      while (expected.empty() && step < steps.size()) {
        if (const std::string what = check_sum(steps.at(step)); !what.empty()) {
          return differs(text(text_, ": step ", step, ": ", what), proposes_mask_);
        }
        expected = apply(steps, step);
        ++step;
      }
      if (changed != expected && row_.word == "model:llada2_mlx" && is_complete_with_eos(before)) {
        return verdict::skip(
            "the first EOS token of a complete block bounds its edits in the release");
      }
      if (changed != expected) {
        return differs(text(text_,
                            ": step ",
                            step - 1,
                            ": expected ",
                            text_of(expected),
                            ", got ",
                            text_of(changed)),
                       proposes_mask_);
      }
    }
    for (; step < steps.size(); ++step) {
      if (const std::vector<commit> expected = apply(steps, step); !expected.empty()) {
        return differs(text(text_, ": step ", step, ": expected ", text_of(expected), ", got none"),
                       proposes_mask_);
      }
    }
    const auto final = line_.get<tokens>("final");
    return std::equal(x_.begin(), x_.begin() + end_, final.begin())
               ? verdict::pass()
               : differs(text_ + ": another answer", proposes_mask_);
  }

 private:
  // The position behind the answer: after its first EOS token, and not behind where the line ends.
  [[nodiscard]] index_t end_of_answer(index_t most) const {
    const auto final = line_.get<tokens>("final");
    most = std::min(most, static_cast<index_t>(final.size()));
    const node steps = line_.at("steps");
    for (std::size_t k = 0; k < steps.size(); ++k) {
      most = std::min(most, steps.at(k).get_or<index_t>("cut", most));
    }
    const auto begin = final.begin() + shape_.prompt_length;
    const auto last = final.begin() + most;
    const auto eos = std::find(begin, last, model_.eos_id);
    return eos == last ? most : static_cast<index_t>(eos - final.begin()) + 1;
  }

  [[nodiscard]] std::span<const token> seen(const tokens& x, index_t q) const {
    const index_t end = (q / shape_.block_length + 1) * shape_.block_length;
    return std::span(x).first(static_cast<std::size_t>(std::min(end, shape_.length)));
  }

  [[nodiscard]] std::vector<float> rows(const forward_request& request) {
    const auto columns = static_cast<std::size_t>(model_.V);
    std::vector<float> logits(static_cast<std::size_t>(request.rows) * columns);
    for (const segment& s : request.segments) {
      for (index_t p = s.rows.first; p < s.rows.last; ++p) {
        const auto at = static_cast<std::size_t>(s.first_row + p - s.rows.first) * columns;
        const std::span<float> row = std::span(logits).subspan(at, columns);
        const index_t position = p + s.logits_shift;
        if (position < shape_.length) {
          const std::span<const token> keys(x_.data(), static_cast<std::size_t>(s.keys.last));
          model_.row(
              position, sees_ == sight::of_block ? seen(x_, position) : keys, row, s.attention);
          proposes_mask_ = proposes_mask_ || proposes(row, model_.mask_id);
        }
      }
    }
    return logits;
  }

  // True if the last block that has tokens is complete, with an EOS token in it.
  [[nodiscard]] bool is_complete_with_eos(const tokens& x) const {
    index_t first = 0;
    for (index_t p = shape_.prompt_length; p < shape_.length; ++p) {
      if (x[static_cast<std::size_t>(p)] != model_.mask_id) {
        first = p / shape_.block_length * shape_.block_length;
      }
    }
    const auto block = x.begin() + std::max(first, shape_.prompt_length);
    const auto last = x.begin() + std::min(first + shape_.block_length, shape_.length);
    return std::find(block, last, model_.mask_id) == last &&
           std::find(block, last, model_.eos_id) != last;
  }

  // The guard of a step, from the tokens before it.
  [[nodiscard]] std::string check_sum(const node& step) const {
    if (!step.has("sum") || !step.has("block") || sees_ == sight::of_segment) {
      return {};
    }
    std::vector<float> row(static_cast<std::size_t>(model_.V));
    const auto first = step.at("block").at(0U).get<index_t>();
    const auto last = step.at("block").at(1U).get<index_t>();
    std::uint64_t of_masked = 0;
    std::uint64_t of_all = 0;
    for (index_t p = first; p < last; ++p) {
      model_.row(p, seen(recorded_, p), row);
      const std::uint64_t sum = (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(row);
      of_all += sum;
      of_masked += recorded_[static_cast<std::size_t>(p)] == model_.mask_id ? sum : 0;
    }
    const std::uint64_t expected = step.hex("sum");
    return expected == of_masked || expected == of_all
               ? std::string()
               : text("sum: expected ", expected, ", got ", of_masked, " or ", of_all);
  }

  // Applies the changes of a step, and returns those within the answer.
  [[nodiscard]] std::vector<commit> apply(const node& steps, std::size_t step) {
    std::vector<commit> all =
        steps.at(step).has("start") ? changes_between(steps, step) : changes_of(steps.at(step));
    if (sees_ == sight::of_segment && steps.at(step).get_or<std::string>("kind", "") == "store") {
      all = seed_of(steps.at(step));
    }
    for (const commit& c : all) {
      recorded_.at(static_cast<std::size_t>(c.position)) = c.value;
    }
    std::erase_if(all, [&](const commit& c) { return c.position >= end_; });
    return all;
  }

  // The token that a pass which stores a block gives the next one: only the answer has it.
  [[nodiscard]] std::vector<commit> seed_of(const node& step) const {
    const auto final = line_.get<tokens>("final");
    const auto p = step.at("block").at(1U).get<std::size_t>();
    return p < std::min(final.size(), recorded_.size()) && recorded_[p] == model_.mask_id
               ? std::vector<commit>{{static_cast<int>(p), final[p]}}
               : std::vector<commit>{};
  }

  // The changes of a step that records its input: what the next one, or the answer, has besides.
  [[nodiscard]] std::vector<commit> changes_between(const node& steps, std::size_t step) const {
    auto next = line_.get<tokens>("final");
    std::size_t first = 0;
    if (step + 1 < steps.size()) {
      first = steps.at(step + 1).get<std::size_t>("start");
      next = steps.at(step + 1).get<tokens>("input");
    }
    std::vector<commit> all;
    for (std::size_t i = 0; i < next.size() && first + i < recorded_.size(); ++i) {
      if (recorded_[first + i] != next[i]) {
        all.push_back({static_cast<int>(first + i), next[i]});
      }
    }
    return all;
  }

  // The changes of a pass within the answer; the last one fills masks with the EOS token.
  [[nodiscard]] std::vector<commit> difference(const tokens& before, bool is_over) const {
    std::vector<commit> all;
    for (std::size_t p = 0; p < static_cast<std::size_t>(end_); ++p) {
      if (before[p] != x_[p]) {
        all.push_back({static_cast<int>(p), x_[p]});
      }
    }
    static_cast<void>(is_over);
    return all;
  }

  const node& line_;
  sight sees_;
  std::string text_;
  context_model model_;
  known_model row_;
  sequence_shape shape_;
  tokens x_;
  tokens recorded_;  ///< by the steps of the line
  index_t end_ = 0;
  bool proposes_mask_ = false;
};

template <class... Parts>
[[nodiscard]] std::string with(const Parts&... parts) {
  return "(" + text(parts...) + ")";
}

verdict in_blocks(const node& line, const word_of_line& by) {
  const node args = line.at("args");
  return decode_in_blocks(
             line, by, args.get<index_t>("block_length"), args.get<index_t>("gen_length"))
      .replay();
}

verdict llada2_0(const node& line) {
  const node args = line.at("args");
  const auto steps =
      std::min(args.get<int>("steps"), args.get<int>("gen_length") / args.get<int>("minimal_topk"));
  return in_blocks(line,
                   {"model:llada2",
                    with(args.get<double>("threshold"), ", steps=", steps),
                    {},
                    args.get_or<bool>("eos_early_stop", false) ? " + stop_at_eos" : ""});
}

verdict llada2_1(const node& line) {
  const node args = line.at("args");
  return in_blocks(line,
                   {"model:llada2_1",
                    with(args.get_or<double>("threshold", 0.95),
                         ", threshold=",
                         args.get_or<double>("editing_threshold", 0.9),
                         ", most_edits=",
                         args.get_or<int>("max_post_steps", 16),
                         ", count=",
                         args.get_or<int>("num_to_transfer", 1))});
}

verdict llada2_mlx(const node& line) {
  const node args = line.at("args");
  if (args.has("min_threshold") || args.has("max_transfer_per_step")) {
    return verdict::skip("no text has a threshold that falls by the passes of a block, or a cap");
  }
  const bool edits = args.has("editing_threshold");
  const int most = std::min(args.get_or<int>("steps", 32), args.get<int>("gen_length"));
  return in_blocks(
      line,
      {"model:llada2_mlx",
       with(args.get_or<double>("threshold", 0.95),
            ", most_edits=",
            edits ? args.get_or<int>("max_post_steps", 16) : 0,
            ", most_forwards=",
            most),
       {},
       edits ? text(" + edit_committed(", args.get<double>("editing_threshold"), ")") : ""});
}

verdict flux_joint(const node& line) {
  const node args = line.at("args");
  const auto edits = args.get<int>("max_post_steps");
  return in_blocks(line,
                   {"model:llada2_1_fluxserve",
                    with(args.get<double>("threshold"),
                         ", threshold=",
                         edits > 0 ? args.get<double>("editing_threshold") : 1.0,
                         ", most_edits=",
                         edits)});
}

verdict sdar(const node& line) {
  const node args = line.at("args");
  if (args.get<std::string>("draw") != "argmax") {
    return verdict::skip("the tokens are drawn with random numbers of the line");
  }
  const auto strategy = args.get<std::string>("remasking_strategy");
  const double threshold = strategy == "low_confidence_dynamic"
                               ? args.get<double>("confidence_threshold")
                               : 1.0;  // none is above it
  const auto temperature = args.get<double>("temperature");
  return in_blocks(
      line,
      {"model:sdar",
       with(threshold, ", steps=", args.get<int>("denoising_steps"), ", temperature=0"),
       strategy == "sequential" ? "left_to_right + " : "",
       temperature == 1.0 ? "" : text(" + temperature(", temperature, ")")});
}

verdict stable_diffcoder(const node& line) {
  const node args = line.at("args");
  const int steps =
      args.get<int>("steps") / (args.get<int>("gen_length") / args.get<int>("block_length"));
  return in_blocks(line,
                   {"model:stable_diffcoder",
                    args.has("threshold")
                        ? with(args.get<double>("threshold"), ", inclusive=true, steps=1000000")
                        : with("steps=", steps)});
}

verdict fastdllm_v2(const node& line) {
  const node args = line.at("args");
  const auto block = args.get<index_t>("block_size");
  if (static_cast<index_t>(line.get<tokens>("prompt").size()) == block) {
    return verdict::skip("the release decodes the first block without the prompt");
  }
  return decode_in_blocks(line,
                          {"model:fast_dllm_v2",
                           with(args.get<double>("threshold"),
                                ", sub_block=",
                                args.get<int>("small_block_size"))},
                          block,
                          args.get<index_t>("max_new_tokens"),
                          sight::of_segment)
      .replay();
}

/// The commit rule of a sampler other than the model's own.
[[nodiscard]] std::string rule_of_sampler(const node& args, const std::string& sampler) {
  const std::string bar = text("threshold(", args.get<double>("threshold"), ", inclusive=true)");
  const std::string rule =
      sampler == "fixed"
          ? text("all_of(", bar, ", tokens_per_step(", args.get<int>("num_to_transfer"), "))")
      : sampler == "confidence_threshold_ref"
          ? text("all_of(", bar, ", factor(", args.get_or<double>("factor", 1.0), "))")
          : text("any_of(",
                 bar,
                 ", all_of(threshold(",
                 args.get_or<double>("min_threshold", 0.45),
                 ", inclusive=true), factor(",
                 args.get_or<double>("factor", 2.0),
                 ")))");
  return text("at_most(", args.get_or<int>("max_transfer_per_step", 1000000), ", ", rule, ")");
}

verdict nemotron_mlx(const node& line) {
  const node args = line.at("args");
  const auto block = args.get<index_t>("block_length");
  const auto sampler = args.get_or<std::string>("sampler", "native");
  const int passes = std::min(args.get_or<int>("steps", 32), block) + 1;  // with that of the seed
  if (!args.has("threshold") || sampler == "cumulative_error") {
    return verdict::skip("no text has this rule");
  }
  word_of_line by{"model:nemotron_mlx", with(args.get<double>("threshold"), ", passes=", passes)};
  if (sampler != "native") {
    by.instead = text("any_of(",
                      rule_of_sampler(args, sampler),
                      ", block_deadline(",
                      passes,
                      ")) + seeded_blocks(causal=true) + stop_at_eos(whole_block=true)");
  }
  return decode_in_blocks(line, by, block, args.get<index_t>("gen_length"), sight::of_segment)
      .replay();
}

verdict nemotron_think(const node& line) {
  const node args = line.at("args");
  if (args.has("max_thinking_tokens")) {
    return verdict::skip("no text has a budget for thought");
  }
  return decode_in_blocks(line,
                          {"model:nemotron_dlm", with(args.get<double>("threshold"))},
                          args.get<index_t>("block_length"),
                          args.get<index_t>("max_new_tokens"),
                          sight::of_segment)
      .replay();
}

verdict wedlm(const node& line) {
  const node args = line.at("args");
  if (args.has("kv_budget")) {
    return verdict::skip("the masks of a pass are bounded by a budget of K/V");
  }
  const auto distance = args.get<double>("wedlm_pos_penalty_factor");
  return decode_in_blocks(line,
                          {"model:wedlm",
                           with(distance,
                                ", value=",
                                args.get_or<double>("wedlm_entropy_threshold", 0.0),
                                ", per_position=",
                                distance,
                                ", max_block=",
                                args.get<index_t>("wedlm_window_size"),
                                ", temperature=0")},
                          0,
                          args.get<index_t>("max_tokens"),
                          sight::of_segment)
      .replay();
}

/// Decodes canvases. A step is given the rows of the recorded canvas before it, whose random tokens
/// are not those of the library; compared are the positions that each step accepts, their tokens
/// where they are not drawn, the step that ends a canvas, and its answer.
class decode_of_canvases {
 public:
  decode_of_canvases(const node& line, std::string policy, bool draws, bool last_accepts)
      : line_(line)
      , text_(std::move(policy))
      , model_(read_context_model(line.at("model")))
      , draws_(draws)
      , last_accepts_(last_accepts) {}

  [[nodiscard]] verdict replay() {
    const node steps = line_.at("steps");
    auto before = line_.get<tokens>("prompt");
    for (std::size_t step = 0; step < steps.size();) {
      const auto canvas = steps.at(step).get<int>("canvas");
      std::size_t end = step;
      while (end < steps.size() && steps.at(end).get<int>("canvas") == canvas) {
        ++end;
      }
      if (const std::string what = replay_canvas(before, step, end); !what.empty()) {
        return verdict::fail(text(text_, ": ", what));
      }
      const auto answer = steps.at(end - 1).get<tokens>("final");
      before.insert(before.end(), answer.begin(), answer.end());
      step = end;
    }
    return verdict::pass();
  }

 private:
  // The token that a position prefers of itself: neighbours that have it count as decided.
  [[nodiscard]] token home(int q) const {
    return static_cast<token>(aux(model_.seed, 1, static_cast<std::uint64_t>(q)) %
                              static_cast<std::uint64_t>(model_.v_eff));
  }

  void row(int q, const tokens& x, int start, std::span<float> out) const {
    std::int64_t c = 0;
    std::int64_t e = 0;
    const int last = std::min(q + model_.radius, static_cast<int>(x.size()) - 1);
    for (int j = std::max(q - model_.radius, 0); j <= last; ++j) {
      const token there = x[static_cast<std::size_t>(j)];
      if (j != q) {
        c += j < start || there == home(j) ? 1 : 0;
        e += (std::int64_t{there} + 1) * (2 * (j - q) + 2 * model_.radius + 1);
      }
    }
    const std::uint64_t s =
        64 * static_cast<std::uint64_t>(c) + static_cast<std::uint64_t>(e) % model_.ctx_mod;
    model_.row_in_state(q, s, c, model_.stick > 0 ? x[static_cast<std::size_t>(q)] : -1, out);
  }

  [[nodiscard]] std::string
  replay_canvas(const tokens& before, std::size_t step, std::size_t end) const {
    const node steps = line_.at("steps");
    const auto start = static_cast<int>(before.size());
    const auto size = static_cast<index_t>(steps.at(step).get<tokens>("input").size());
    tokens x = before;
    x.resize(before.size() + static_cast<std::size_t>(size), 0);
    const sequence_shape shape{
        .prompt_length = start, .length = start + size, .block_length = size};
    session<named_policy, place> decode(
        {.vocab = model_.V, .mask_token = model_.V - 1, .suppress_mask = false},
        {.sequences = 1, .length = shape.length, .window = size, .trace = true});
    decode.start(0, read_policy(text_), tokens_view<place::space>(x.data(), shape.length), shape);
    const auto columns = static_cast<std::size_t>(model_.V);
    std::vector<float> logits(static_cast<std::size_t>(size) * columns);
    for (; step < end; ++step) {
      const node recorded = steps.at(step);
      const auto request = decode.next();
      if (!request) {
        return text("step ", step, ": the canvas ended before");
      }
      tokens seen = before;
      const auto input = recorded.get<tokens>("input");
      seen.insert(seen.end(), input.begin(), input.end());
      std::uint64_t sum = 0;
      for (int p = start; p < shape.length; ++p) {
        const std::span<float> out =
            std::span(logits).subspan(static_cast<std::size_t>(p - start) * columns, columns);
        row(p, seen, start, out);
        sum += (2 * static_cast<std::uint64_t>(p) + 1) * bits_sum(out);
      }
      if (sum != recorded.hex("sum")) {
        return text("step ", step, ": sum: expected ", recorded.hex("sum"), ", got ", sum);
      }
      decode.supply(rows_view<float, place::space>{logits.data(), request->rows, model_.V});
      static_cast<void>(decode.report());
      const std::vector<commit> expected = recorded.list("commits", [](const node& n) {
        return commit{n.at(0U).get<int>(), n.at(1U).get<token>()};
      });
      std::vector<commit> accepted;
      for (const candidate_entry& c : decode.candidates()) {
        if (c.outcome == candidate_outcome::committed) {
          accepted.push_back({c.position - start, c.token});
        }
      }
      const bool is_equal =
          std::ranges::equal(accepted, expected, [&](const commit& a, const commit& b) {
            return a.position == b.position && (draws_ || a.value == b.value);
          });
      const bool is_last = step + 1 == end;
      if (!is_equal && !(is_last && !last_accepts_ && expected.empty())) {
        return text("step ", step, ": expected ", text_of(expected), ", got ", text_of(accepted));
      }
    }
    if (decode.report().end == ending::running) {
      return text("step ", end, ": the canvas goes on");
    }
    const auto answer = steps.at(end - 1).get<tokens>("final");
    return std::equal(answer.begin(), answer.end(), x.begin() + start)
               ? std::string()
               : text("step ", end, ": another answer");
  }

  const node& line_;
  std::string text_;
  context_model model_;
  bool draws_;
  bool last_accepts_;
};

/// The numbers of a canvas, by their names.
std::string canvas_of(int steps, const node& config, double certain) {
  return text("steps=",
              steps,
              ", coldest=",
              config.get_or<double>("t_min", 0.4),
              ", hottest=",
              config.get_or<double>("t_max", 0.8),
              ", stable_steps=",
              config.get_or<int>("stability_threshold", 1),
              ", certain=",
              certain);
}

verdict dgemma_hf(const node& line) {
  const node config = line.at("args").at("generation_config");
  return decode_of_canvases(line,
                            text("model:diffusion_gemma(bound=",
                                 config.get_or<double>("entropy_bound", 0.1),
                                 ", ",
                                 canvas_of(config.get_or<int>("max_denoising_steps", 48),
                                           config,
                                           config.get_or<double>("confidence_threshold", 0.005)),
                                 ")"),
                            true,
                            true)
      .replay();
}

verdict dgemma_mlx(const node& line) {
  const node args = line.at("args");
  const node config = args.at("generation_config");
  const bool stops = config.has("stability_threshold") || config.has("confidence_threshold");
  const std::string numbers =
      canvas_of(args.get_or<int>("max_denoising_steps", 48),
                config,
                stops ? config.get_or<double>("confidence_threshold", 0.005) : 0.0);
  const bool by_entropy =
      args.get_or<std::string>("diffusion_sampler", "confidence-threshold") == "entropy-bound";
  return decode_of_canvases(line,
                            by_entropy
                                ? text("model:diffusion_gemma(bound=",
                                       config.at("sampler_config").get<double>("entropy_bound"),
                                       ", draws=false, ",
                                       numbers,
                                       ")")
                                : text("model:diffusion_gemma_mlx(",
                                       args.get_or<double>("diffusion_threshold", 0.9),
                                       ", ",
                                       numbers,
                                       ")"),
                            by_entropy,
                            false)
      .replay();
}

constexpr rule rules[] = {
    {"dgemma.transformers", dgemma_hf},
    {"dgemma.mlx_vlm", dgemma_mlx},
    {"llada2.0", llada2_0},
    {"llada2.1", llada2_1},
    {"llada2.mlx_vlm", llada2_mlx},
    {"fluxserve.joint_threshold", flux_joint},
    {"fastdllm_v2", fastdllm_v2},
    {"nemotron.mlx_vlm", nemotron_mlx},
    {"nemotron.think", nemotron_think},
    {"wedlm", wedlm},
    {"sdar", sdar},
    {"stable_diffcoder", stable_diffcoder},
};

}  // namespace

}  // namespace models

std::span<const rule> rules_of_models() {
  return models::rules;
}

}  // namespace unmask::goldens
