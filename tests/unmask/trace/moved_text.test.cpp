// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/trace/trace_reader.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <gtest/gtest.h>

#include <string>
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
  for (std::size_t k = 0; k < step.position.size(); ++k) {
    const candidate_outcome o = step.outcome[k];
    const bool is_written = o == candidate_outcome::committed || o == candidate_outcome::forced ||
                            o == candidate_outcome::replaced;
    token_id& at = now.at(static_cast<std::size_t>(step.position[k]));
    at = is_written ? step.token[k] : o == candidate_outcome::remasked ? mask : at;
  }
  if (step.first_moved >= 0) {
    now.resize(static_cast<std::size_t>(step.first_moved));
    now.insert(now.end(), step.after.begin(), step.after.end());
  }
  return now;
}

/// Records decodes and reads the text after each pass from the trace. Returns how many steps moved
/// text.
int compare(const std::string& policy, index_t begins) {
  int moved = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(policy + ", seed " + std::to_string(seed));
    const made_up_model model{.seed = seed, .vocab = vocab, .sharpness = 5.0};
    model_info info = model.info();
    info.eos_token = 0;
    info.suppress_mask = policy.find("indel") == std::string::npos;
    constexpr index_t prompt = 2;
    text tokens(20, 1);
    const sequence_shape shape{
        .prompt_length = prompt, .length = 20, .block_length = 6, .seed = seed};
    named_session s(info, {.sequences = 1, .length = 20, .window = 20, .trace = true});
    std::string lines;
    trace_writer out(
        [&](std::string_view line) { return lines += line, true; },
        {.model = "made up", .info = info, .policy = policy, .parts = part_texts(policy)});
    s.start(0, read_policy(policy), tokens_view<memory::host>(tokens.data(), 20), shape);
    out.start({.slot = 0, .shape = shape, .tokens = tokens}, s);
    std::vector<text> seen;
    while (const auto request = s.next()) {
      out.request(*request, s);
      const std::vector<float> logits =
          requested_rows(*request, tokens, [&](const text& x, index_t p) {
            std::vector<float> row(vocab);
            model.row(x, p, row);
            return row;
          });
      s.supply(host_logits<float>(logits.data(), request->rows, vocab));
      out.step(s);
      const auto end = tokens.begin() + s.report().answer_end;
      seen.emplace_back(tokens.begin(), end);
    }
    const trace t = read_trace(lines);
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
  }
  return moved;
}

TEST(moved_text, is_in_the_trace) {
  EXPECT_GT(compare("daedal(4, 0.5, 0.3, 3, 0.4, 0.6, 4)", 4), 20);
  EXPECT_GT(compare("joint_threshold_indel(0.3, 0.2, 3, erase_token=2, insert_token=4)", 18), 20);
  EXPECT_EQ(compare("threshold(0.5)", 18), 0);
}

}  // namespace
}  // namespace unmask::testing::moved_text_test
