// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A session in which each sequence has a policy of its own decodes each as a session of that policy
// alone does.

#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/bound_session.hpp"
#include "support/layered_decode.hpp"

namespace unmask::testing::named_session_test {
namespace {

using ::testing::HasSubstr;

/// Policies of every type that the library has, but for lookahead, whose branches the toy engine
/// cannot run.
const std::vector<std::string> texts = {
    "threshold(0.5)",
    "trace_credit(0.6) + tokens_per_step(2)",
    "threshold(0.5) + early_skip + block_cache(16, 4)",
    "tokens_per_step + remask_current_below(0.2)",
    "tokens_per_step(2) + sampling(0.8)",
    "threshold(0.5) + similarity_refresh(0.4) + interval_cache(6, 3)",
    "tokens_per_step(2) + sampling + top_p(0.9)",
    "canvas + tokens_per_step",
    "adaptive_threshold(0.7)",
    "threshold(0.8)",
    "adaptive_threshold(0.7) + cache_budget(4, 2) + interval_cache(1, 0)",
    "threshold(0.5) + entropy_cache(1.5, recent=4)",
    "threshold(0.5) + cache_budget(4, 2) + interval_cache(4, 6)",
};

constexpr session_capacity capacity{.sequences = 1, .length = 40, .window = 40};

sequence_shape shape_of(std::size_t i) {
  const auto n = static_cast<index_t>(i);
  return {.prompt_length = 2 + n % 4, .length = 28 + n % 9, .block_length = 13, .seed = 3 + i};
}

/// A sequence of a decode, and what the session reported of it.
struct one_decode : layered_result {
  sequence_shape shape;
  toy_memory memory;

  one_decode(const toy_transformer& model, const sequence_shape& g)
      : shape(g)
      , memory(model.layers, g.length, toy_transformer::width) {
    tokens = prompted(model, g);
  }
};

enum class way { packed, by_segment, in_pieces };

/// One pass of the request that is out, of sequences by slot.
void step(const toy_transformer& model,
          named_session& session,
          const forward_request& request,
          const std::vector<one_decode*>& running,
          way how) {
  std::vector<std::vector<float>> logits;
  std::vector<any_rows> tensors;
  std::vector<float> packed;
  for (std::size_t i = 0; i < request.segments.size(); ++i) {
    one_decode& d = *running[static_cast<std::size_t>(request.segments[i].slot)];
    auto pass = session.pass(i);
    logits.push_back(model.forward(pass, d.tokens.data(), d.memory));
    const auto rows = static_cast<index_t>(pass.rows().size());
    packed.insert(packed.end(), logits.back().begin(), logits.back().end());
    tensors.emplace_back(host_logits<float>(logits.back().data(), rows, model.vocab));
  }
  const auto all = static_cast<index_t>(packed.size()) / model.vocab;
  if (how == way::packed) {
    EXPECT_THROW(session.supply(host_logits<float>(packed.data(), all - 1, model.vocab)),
                 std::invalid_argument);
    session.supply(host_logits<float>(packed.data(), all, model.vocab));
  } else if (how == way::by_segment) {
    EXPECT_THROW(session.supply(std::span(tensors).first(0)), std::invalid_argument);
    session.supply(tensors);
  } else {
    for (std::size_t i = tensors.size(); i-- > 0;) {
      session.read(i, tensors[i]);
    }
    session.decide();
  }
  for (std::size_t slot = 0; slot < running.size(); ++slot) {
    for (const commit_entry& c : session.committed(static_cast<index_t>(slot))) {
      EXPECT_EQ(c.slot, static_cast<index_t>(slot));
      running[slot]->commits.push_back(c);
    }
    EXPECT_EQ(session.report(static_cast<index_t>(slot)).last_commits,
              static_cast<index_t>(session.committed(static_cast<index_t>(slot)).size()));
  }
}

void end(named_session& session, index_t slot, one_decode& d) {
  d.report = session.report(slot);
  d.computed = d.memory.computed;
}

one_decode decode_alone(const toy_transformer& model, const std::string& text, std::size_t i) {
  const auto session = make_bound(read_policy(text), info_of(model), capacity);
  one_decode d(model, shape_of(i));
  session->start(0, d.tokens.data(), d.shape.length, d.shape);
  while (const auto request = session->next()) {
    step(model, *session, *request, {&d}, way::packed);
  }
  end(*session, 0, d);
  return d;
}

/// Decodes all texts in three slots, in which they take turns.
std::deque<one_decode> decode_mixed(const toy_transformer& model, way how, bool leaves_out) {
  session_capacity three = capacity;
  three.sequences = 3;
  const auto session = make_bound(read_policy(texts[0]), info_of(model), three);
  std::deque<one_decode> all;
  std::vector<one_decode*> running(3);
  const auto join = [&](index_t slot) {
    const std::size_t i = all.size();
    one_decode& d = all.emplace_back(model, shape_of(i));
    running[static_cast<std::size_t>(slot)] = &d;
    if (i == 0) {
      session->start(slot, d.tokens.data(), d.shape.length, d.shape);
    } else {
      session->start(slot, read_policy(texts[i]), d.tokens, d.shape);
    }
  };
  for (const index_t slot : {0, 1, 2}) {
    join(slot);
  }
  for (int pass = 0; pass < 10'000; ++pass) {
    std::vector<index_t> some{2, 0, 1};
    if (leaves_out) {
      some.erase(some.begin() + pass % 3);
    }
    const auto request = session->next(some);
    if (request) {
      step(model, *session, *request, running, how);
    }
    bool any = false;
    for (const index_t slot : {0, 1, 2}) {
      if (session->report(slot).end == ending::running) {
        any = true;
      } else if (all.size() < texts.size()) {
        end(*session, slot, *running[static_cast<std::size_t>(slot)]);
        join(slot);
        any = true;
      }
    }
    if (!any) {
      for (const index_t slot : {0, 1, 2}) {
        end(*session, slot, *running[static_cast<std::size_t>(slot)]);
      }
      return all;
    }
  }
  ADD_FAILURE() << "did not end";
  return all;
}

TEST(named_session, decodes_each_sequence_as_a_session_of_its_policy_alone) {
  const toy_transformer model;
  std::vector<one_decode> alone;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    alone.push_back(decode_alone(model, texts[i], i));
  }
  for (const way how : {way::packed, way::by_segment, way::in_pieces}) {
    for (const bool leaves_out : {false, true}) {
      const std::deque<one_decode> mixed = decode_mixed(model, how, leaves_out);
      ASSERT_EQ(mixed.size(), alone.size());
      for (std::size_t i = 0; i < texts.size(); ++i) {
        SCOPED_TRACE(texts[i]);
        EXPECT_TRUE(same_decode(alone[i], mixed[i]));
        EXPECT_EQ(alone[i].computed, mixed[i].computed);
        EXPECT_EQ(alone[i].report.forwards, mixed[i].report.forwards);
        EXPECT_EQ(alone[i].report.forced, mixed[i].report.forced);
        EXPECT_EQ(alone[i].report.end, mixed[i].report.end);
      }
    }
  }
}

/// A mixed session of two slots without layers, of a vocabulary of 13.
struct plain {
  model_info model{.vocab = 13, .mask_token = 12};
  sequence_shape shape{.length = 8, .block_length = 8};
  std::unique_ptr<bound_session<named_policy>> session =
      make_bound(read_policy("threshold(0.9)"),
                 model,
                 {.sequences = 2, .length = 8, .window = 8, .trace = true});
  std::vector<std::vector<token_id>> tokens{2, std::vector<token_id>(8)};
  std::vector<float> logits = std::vector<float>(std::size_t{13} * 8 * 20, 0.0F);

  plain() {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>((i * 7919) % 103) / 20.0F;
    }
  }
  void start(index_t slot, const std::string& text) {
    session->start(slot, read_policy(text), tokens[static_cast<std::size_t>(slot)], shape);
  }
  [[nodiscard]] host_logits<float> rows(index_t count) const {
    return {logits.data(), count, model.vocab};
  }
};

TEST(named_session, runs_the_branches_of_one_sequence_beside_another) {
  plain p;
  p.start(0, "tokens_per_step + lookahead(3)");
  p.start(1, "adaptive_threshold(0.7)");
  std::size_t most = 0;
  index_t steps = 0;
  while (const auto request = p.session->next()) {
    index_t row = 0;
    for (const segment& s : request->segments) {
      EXPECT_EQ(s.first_row, row);
      row += s.rows.size();
    }
    EXPECT_EQ(request->rows, row);
    EXPECT_EQ(p.session->next()->segments.size(), request->segments.size()) << "it is out";
    most = std::max(most, request->segments.size());
    p.session->supply(p.rows(row));
    ASSERT_LT(++steps, 100);
  }
  EXPECT_EQ(most, 5U);
}

TEST(named_session, changes_nothing_at_an_error) {
  plain p;
  p.start(0, "threshold(0.9)");
  p.start(1, "tokens_per_step + remask_current_below(0.1)");
  EXPECT_THROW(p.session->supply(p.rows(16)), std::logic_error);
  EXPECT_THROW(p.session->decide(), std::logic_error);
  EXPECT_THROW(p.session->abandon(), std::logic_error);
  ASSERT_EQ(p.session->next()->rows, 16);
  EXPECT_THROW(p.start(0, "threshold(0.9)"), std::logic_error);
  EXPECT_THROW(p.session->cancel(0), std::logic_error);
  EXPECT_THROW(static_cast<void>(p.session->next(std::vector<index_t>{0})), std::logic_error);
  EXPECT_THROW(p.session->supply(p.rows(17)), std::invalid_argument);
  // The second type's tensor has a column too few: the first type's sequence must not step either.
  const std::vector<any_rows> tensors{p.rows(8), host_logits<float>(p.logits.data(), 8, 12)};
  EXPECT_THROW(p.session->supply(tensors), std::invalid_argument);
  EXPECT_EQ(p.session->report(0).forwards, 0);
  p.session->read(1, p.rows(8));
  EXPECT_THROW(p.session->read(1, p.rows(8)), std::logic_error);
  EXPECT_THROW(p.session->read(2, p.rows(8)), std::invalid_argument);
  EXPECT_THROW(p.session->abandon(), std::logic_error);
  EXPECT_THROW(p.session->decide(), std::logic_error);
  EXPECT_THROW(p.session->supply(p.rows(16)), std::logic_error);
  p.session->read(0, p.rows(8));
  p.session->decide();
  EXPECT_EQ(p.session->report(0).forwards, 1);
  EXPECT_EQ(p.session->report(1).forwards, 1);
  EXPECT_THROW(p.start(2, "threshold(0.9)"), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(p.session->report(2)), std::invalid_argument);
  try {
    p.session->start(1, read_policy("early_commit"), p.tokens[0], p.shape);
    ADD_FAILURE() << "accepted tokens of another sequence that runs";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("overlap those of slot 0"));
  }
}

// A stride matters between segments, too: those of one row have none inside.
TEST(named_session, refuses_packed_rows_that_overlap_or_lie_in_front_of_the_first) {
  plain p;
  p.shape.block_length = 1;
  p.start(0, "threshold(0.9)");
  p.start(1, "tokens_per_step + remask_current_below(0.1)");
  ASSERT_EQ(p.session->next()->rows, 2);
  const std::vector<std::uint32_t> allowed(2, ~0U);
  any_modifiers beside{.allowed = allowed.data() + 1};
  any_rows rows = host_logits<float>(p.logits.data() + 13, 2, 13);
  for (const std::ptrdiff_t stride : {-13, 0, 12}) {
    rows.stride = stride;
    EXPECT_THAT([&] { p.session->supply(rows); },
                ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("stride of the logits")));
  }
  rows.stride = 13;
  beside.allowed_stride = -1;
  EXPECT_THAT([&] { p.session->supply(rows, beside); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("row_modifiers::allowed")));
  EXPECT_EQ(p.session->report(0).forwards, 0);
  p.session->supply(rows);
  EXPECT_EQ(p.session->report(0).forwards, 1);
}

TEST(named_session, has_no_lists_of_sequences_that_were_not_in_the_step) {
  plain p;
  p.start(0, "threshold(0.9)");
  p.start(1, "tokens_per_step + remask_current_below(0.1)");
  ASSERT_TRUE(p.session->next());
  p.session->supply(p.rows(16));
  EXPECT_FALSE(p.session->committed(1).empty());
  const auto request = p.session->next(std::vector<index_t>{0});
  ASSERT_EQ(request->segments.size(), 1U);
  p.session->supply(p.rows(request->rows));
  EXPECT_FALSE(p.session->committed(0).empty());
  EXPECT_TRUE(p.session->committed(1).empty());
  EXPECT_TRUE(p.session->candidates(1).empty());
  EXPECT_EQ(p.session->report(1).last_commits, 0);
  EXPECT_EQ(p.session->report(1).last_candidates, 0);
  EXPECT_EQ(p.session->report(1).forwards, 1);
}

// A session that is made without a policy has no memory for a slot before its first sequence.
TEST(named_session, decodes_in_one_slot_while_no_other_was_ever_started) {
  const model_info model{.vocab = 13, .mask_token = 12};
  const sequence_shape shape{.length = 8, .block_length = 8};
  named_session s(model, {.sequences = 3, .length = 8, .window = 8, .trace = true});
  std::vector<token_id> tokens(8);
  const std::vector<float> logits(std::size_t{13} * 8, 0.5F);
  s.start(1, read_policy("tokens_per_step(3)"), tokens, shape, {.soft_tokens = 2});
  while (const auto request = s.next()) {
    ASSERT_EQ(request->segments[0].slot, 1);
    s.supply(host_logits<float>(logits.data(), request->rows, model.vocab));
    for (const index_t unused : {0, 2}) {
      EXPECT_TRUE(s.committed(unused).empty());
      EXPECT_TRUE(s.candidates(unused).empty());
      EXPECT_TRUE(s.probabilities(unused).empty());
      EXPECT_TRUE(s.soft_tokens(unused).empty());
      EXPECT_EQ(s.report(unused).forwards, 0);
    }
  }
  EXPECT_EQ(s.report(1).forwards, 3);
  EXPECT_EQ(s.report(1).end, ending::complete);
  s.cancel(0);
  EXPECT_FALSE(s.next());
}

TEST(named_session, cancels_the_request_of_all_types) {
  plain p;
  p.start(0, "threshold(0.9)");
  p.start(1, "tokens_per_step + remask_current_below(0.1)");
  EXPECT_THROW(p.session->cancel_request(), std::logic_error);
  ASSERT_TRUE(p.session->next());
  p.session->read(1, p.rows(8));
  EXPECT_EQ(p.session->cancel_request().size(), 2U);
  EXPECT_EQ(p.session->report(0).end, ending::cancelled);
  EXPECT_EQ(p.session->report(1).end, ending::cancelled);
  EXPECT_FALSE(p.session->next());
  p.start(1, "tokens_per_step + remask_current_below(0.1)");
  ASSERT_EQ(p.session->next()->segments.size(), 1U);
  p.session->supply(p.rows(8));
  EXPECT_EQ(p.session->report(1).forwards, 1);
}

TEST(named_session, a_slot_may_change_its_policy_while_it_runs) {
  plain p;
  p.start(0, "threshold(0.9)");
  ASSERT_TRUE(p.session->next());
  p.session->supply(p.rows(8));
  p.start(0, "tokens_per_step + remask_current_below(0.1)");
  ASSERT_EQ(p.session->next()->segments.size(), 1U) << "the sequence before has left";
  p.session->abandon();
  p.session->cancel(0);
  EXPECT_EQ(p.session->report(0).end, ending::cancelled);
  EXPECT_FALSE(p.session->next());
}

}  // namespace
}  // namespace unmask::testing::named_session_test
