// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/replay_table.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "support/observed_decode.hpp"
#include "support/requested_rows.hpp"

namespace unmask::testing::moved_text_test {
namespace {

using text = std::vector<token_id>;

constexpr index_t vocab = 9;
constexpr token_id mask = 8;

/// The text after a step of a trace, from that before it.
text after(text now, const traced_step& step) {
  for (const candidate_entry& e : step.candidates) {
    const candidate_outcome o = e.outcome;
    const bool is_written = o == candidate_outcome::committed || o == candidate_outcome::forced ||
                            o == candidate_outcome::replaced;
    token_id& at = now.at(static_cast<std::size_t>(e.position));
    at = is_written ? e.token : o == candidate_outcome::remasked ? mask : at;
  }
  if (step.first_moved >= 0) {
    now.resize(static_cast<std::size_t>(step.first_moved));
    now.insert(now.end(), step.after.begin(), step.after.end());
  }
  return now;
}

constexpr index_t prompt = 2;

/// A decode: its trace, and after each pass its text, segments, commits and remasked positions.
struct decoded {
  std::string lines;
  std::vector<text> seen;
  std::vector<std::vector<index_t>> passes;
  std::vector<index_t> rows;
  std::vector<std::tuple<index_t, index_t, token_id>> writes;
  std::vector<float> log_probabilities;  ///< of the writes
  text tokens;
  sequence_report report;
};
decoded decode(const named_policy& parts,
               const std::string& name,
               const made_up_model& model,
               const std::vector<std::uint8_t>& editable) {
  decoded d;
  model_info info = model.info();
  info.eos_token = 0;
  info.suppress_mask = name.find("indel") == std::string::npos;
  d.tokens.assign(20, 1);
  const sequence_shape shape{
      .prompt_length = prompt, .length = 20, .block_length = 6, .seed = model.seed};
  named_session s(info, {.sequences = 1, .length = 20, .window = 20, .trace = true});
  trace_writer out([&](std::string_view line) { return d.lines += line, true; },
                   {.model = "made up", .info = info, .policy = name, .parts = part_texts(name)});
  s.start(0, parts, tokens_view<memory::host>(d.tokens.data(), 20), shape, {.editable = editable});
  out.start({.slot = 0, .shape = shape, .tokens = d.tokens, .options = {.editable = editable}}, s);
  while (const auto request = s.next()) {
    out.request(*request, s);
    const segment& g = request->segments[0];
    d.passes.push_back({g.query.first, g.query.last, g.keys.last});
    d.rows.push_back(request->rows);
    const std::vector<float> logits =
        requested_rows(*request, d.tokens, [&](const text& x, index_t p) {
          std::vector<float> row(vocab);
          model.row(x, p, row);
          return row;
        });
    s.supply(host_logits<float>(logits.data(), request->rows, vocab));
    out.step(s);
    const auto end = d.tokens.begin() + s.report().answer_end;
    d.seen.emplace_back(d.tokens.begin(), end);
    for (const candidate_entry& e : s.candidates()) {
      const bool remasks = e.outcome == candidate_outcome::remasked;
      if (e.committed || remasks) {
        d.writes.emplace_back(e.step, e.position, remasks ? -1 : e.token);
        d.log_probabilities.push_back(remasks ? 0.0F : e.log_probability);
      }
    }
  }
  d.report = s.report();
  return d;
}

/// A position of the answer that is committed at the start, or one of the prompt.
std::vector<std::uint8_t> editable_but(index_t position) {
  std::vector<std::uint8_t> all(20, 1);
  all[static_cast<std::size_t>(position)] = position < prompt ? 0 : 2;
  return all;
}

/// Records decodes, reads the text after each pass from the trace, and replays it. Returns how many
/// steps moved text. `is_early`: the end may fill positions that the last step inserted, and the
/// trace does not tell these EOS tokens from others.
int compare(const std::string& policy, index_t begins, bool is_early = false) {
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(policy + ", seed " + std::to_string(seed));
    const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 5.0};
    const std::vector<std::uint8_t> editable = editable_but(static_cast<index_t>(seed % 5));
    const decoded first = decode(read_policy(policy), policy, model, editable);
    const std::vector<text>& seen = first.seen;
    const trace t = read_trace(first.lines);
    text now(t.sequences[0].tokens.begin(), t.sequences[0].tokens.begin() + prompt + begins);
    EXPECT_EQ(t.sequences[0].steps.size(), seen.size());
    for (std::size_t k = 0; k < seen.size(); ++k) {
      const traced_step& step = t.sequences[0].steps[k];
      moved += step.first_moved >= 0 ? 1 : 0;
      now = after(now, step);
      if (k + 1 < seen.size()) {  // the end may fill what is masked
        EXPECT_EQ(now, seen[k]) << "step " << k;
      }
    }
    const replay_table table(t);
    decoded again =
        decode(read_policy(policy).replaying(table.view()), policy, model, table.editable());
    if (is_early && !again.seen.empty()) {
      again.seen.back() = first.seen.back();
      again.report.answer_end = first.report.answer_end;
    }
    EXPECT_EQ(again.seen, first.seen);
    EXPECT_EQ(again.passes, first.passes);
    if (!is_early) {  // without an edit a replay reads no row of a committed position
      EXPECT_EQ(again.rows, first.rows);
    }
    EXPECT_EQ(again.writes, first.writes);
    EXPECT_EQ(again.tokens, first.tokens);
    EXPECT_EQ(again.report.end, first.report.end);
    EXPECT_EQ(again.report.forwards, first.report.forwards);
    EXPECT_EQ(again.report.committed, first.report.committed);
    EXPECT_EQ(again.report.rewritten, first.report.rewritten);
    EXPECT_EQ(again.report.answer_end, first.report.answer_end);
    EXPECT_EQ(again.report.forced, 0);
    for (std::size_t k = 0; k < first.writes.size(); ++k) {
      // Other tokens are kept apart from a row, so its sum is rounded otherwise.
      EXPECT_NEAR(again.log_probabilities[k], first.log_probabilities[k], 1e-5);
    }
    // The trace of the replay tells the same moves, line by line but for the rounding.
    const trace u = read_trace(again.lines);
    for (std::size_t k = 0; k + (is_early ? 1 : 0) < seen.size(); ++k) {
      EXPECT_EQ(u.sequences[0].steps[k].first_moved, t.sequences[0].steps[k].first_moved);
      EXPECT_EQ(u.sequences[0].steps[k].after, t.sequences[0].steps[k].after);
    }
  }
  return moved;
}

TEST(moved_text, is_in_the_trace) {
  EXPECT_GT(compare("daedal(4, 0.5, 0.3, 3, 0.4, 0.6, 4)", 4), 20);
  EXPECT_GT(compare("joint_threshold_indel(0.3, 0.2, 3, erase_token=2, insert_token=4)", 18), 20);
  EXPECT_GT(compare("rho_eos(4, 0.5, 2, 0.3, 0.7, growth=linear)", 4), 20);
  EXPECT_EQ(compare("threshold(0.5)", 18), 0);
}

TEST(moved_text, of_a_decode_that_ends_early_is_replayed) {
  for (const char* const steps : {"1", "2", "3", "5"}) {
    const std::string ends = std::string(" + max_steps(") + steps + ")";
    static_cast<void>(compare("daedal(4, 0.5, 0.3, 3, 0.4, 0.6, 4)" + ends, 4, true));
    static_cast<void>(compare(
        "joint_threshold_indel(0.3, 0.2, 3, erase_token=2, insert_token=4)" + ends, 18, true));
    static_cast<void>(compare("rho_eos(4, 0.5, 2, 0.3, 0.7, growth=linear)" + ends, 4, true));
  }
}

}  // namespace
}  // namespace unmask::testing::moved_text_test
