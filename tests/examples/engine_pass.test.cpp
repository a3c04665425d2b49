// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Passes in which a policy decides what is computed: what is reused must be what was computed.

#include <unmask/named_policy.hpp>
#include <unmask/policy/presets/released.hpp>
#include <unmask/unmask.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"
#include "engine_files.hpp"
#include "support/by_name.hpp"
#include "support/dice.hpp"

namespace example::engine_pass_test {
namespace {

using namespace unmask;
using tokens = std::vector<token_id>;
using unmask::testing::by_name;
using unmask::testing::dice;

const gguf_file& file() {
  static const gguf_file f(testing::weights_path());
  return f;
}
llada_model new_model() {
  static const auto weights = std::make_shared<const llada_weights>(llada_weights::load(file()));
  return llada_model(weights);
}
const char_tokenizer& text() {
  static const char_tokenizer t(file());
  return t;
}
index_t layers() {
  static const auto count = static_cast<index_t>(new_model().config().layers);
  return count;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
std::vector<float> copy(const logits_view& z) {
  return {z.data, z.data + z.rows * z.vocabulary};
}
/// Some rows of a whole sequence's logits.
std::vector<float> rows_of(const std::vector<float>& all, const std::vector<index_t>& positions) {
  std::vector<float> rows;
  for (const index_t p : positions) {
    const auto first = all.begin() + p * static_cast<index_t>(text().vocabulary());
    rows.insert(rows.end(), first, first + static_cast<index_t>(text().vocabulary()));
  }
  return rows;
}

/// A pass that chooses by lot where a policy would choose by importance.
struct random_pass {
  feature reads = feature::hidden;
  skipping skipped = skipping::dropped;
  index_t length = 0;
  index_t hooked_from = 1000;
  int keep_of_8 = 8;  // a row is chosen if its lot is lower
  dice lots{1};
  std::vector<index_t> active = {};
  std::vector<index_t> wanted = {};
  std::vector<index_t> chosen_rows = {};
  std::vector<index_t> chosen = {};
  std::vector<float> last_seen = {};

  [[nodiscard]] std::span<const index_t> positions() const { return active; }
  [[nodiscard]] range keys() const { return {0, length}; }
  [[nodiscard]] static eviction evict() { return eviction::none; }
  [[nodiscard]] bool hooks(index_t layer) const { return layer >= hooked_from; }
  layer_choice at_layer(index_t, const host_hidden<float>& now, const host_state<float>& stored) {
    EXPECT_EQ(now.rows, static_cast<index_t>(active.size()));
    EXPECT_EQ(stored.positions.size(), length);
    last_seen.assign(now.row(0), now.row(0) + now.columns);
    chosen_rows.clear();
    chosen.clear();
    for (index_t i = 0; i < now.rows; ++i) {
      if (lots.within(0, 7) < keep_of_8 || i == 0) {
        chosen_rows.push_back(i);
        chosen.push_back(active[static_cast<std::size_t>(i)]);
      }
    }
    if (skipped == skipping::dropped) {
      active = chosen;
    }
    return {chosen_rows, chosen};
  }
  [[nodiscard]] std::span<const index_t> rows() {
    wanted.resize(active.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    return wanted;
  }
};

random_pass everything(index_t length) {
  random_pass pass{.length = length};
  pass.active.resize(static_cast<std::size_t>(length));
  std::iota(pass.active.begin(), pass.active.end(), 0);
  return pass;
}

std::vector<tokens> sequences() {
  std::vector<tokens> result;
  for (const nlohmann::json& line : testing::reference("reference_logits")) {
    result.push_back(line["tokens"].get<tokens>());
  }
  return result;
}

std::vector<float> causal(llada_model& model, const tokens& sequence, sequence_memory& memory) {
  random_pass pass = everything(static_cast<index_t>(sequence.size()));
  return copy(model.forward(pass, sequence, memory, {}, true));
}
double furthest(std::span<const float> a, std::span<const float> b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return most;
}

// A causal row is that of a sequence that ends with it: of the full forward, if it is one of one
// token, and of a causal pass over the beginning elsewhere.
TEST(EnginePass, ACausalRowSeesNothingBehindIt) {
  llada_model model = new_model();
  const std::size_t vocabulary = text().vocabulary();
  for (const tokens& sequence : sequences()) {
    sequence_memory memory;
    const std::vector<float> rows = causal(model, sequence, memory);
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    for (std::size_t last = 1; last <= sequence.size(); last += 5) {
      const tokens start(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(last));
      sequence_memory other;
      const std::vector<float> seen = causal(model, start, other);
      const auto row = std::span(rows).subspan((last - 1) * vocabulary, vocabulary);
      EXPECT_LE(furthest(row, std::span(seen).last(vocabulary)), 1e-4);
      if (last == 1) {
        EXPECT_LE(furthest(row, copy(model.forward(start, 0, 1))), 1e-4);
      }
    }
    EXPECT_GT(furthest(std::span(rows).first(vocabulary), std::span(full).first(vocabulary)), 1e-2);
  }
}

// A pass over cached keys attends to those that a causal pass has left: the last token of a causal
// pass sees everything before it in any case.
TEST(EnginePass, ACausalPassLeavesItsKeys) {
  llada_model model = new_model();
  const tokens sequence = sequences().front();
  sequence_memory memory;
  const std::vector<float> rows = causal(model, sequence, memory);
  random_pass pass{.length = static_cast<index_t>(sequence.size())};
  pass.active = {static_cast<index_t>(sequence.size()) - 1};
  const std::vector<float> again = copy(model.forward(pass, sequence, memory));
  EXPECT_LE(furthest(again, std::span(rows).last(text().vocabulary())), 1e-4);
}

llada_model model_of_blocks() {
  llada_weights weights = llada_weights::load(file());
  weights.config.attention = {.length = 12, .prefix = 5};
  return llada_model(std::make_shared<const llada_weights>(weights));
}

// The mask of a file holds in a pass, too; a pass that ends with a block has the rows of one that
// goes on.
TEST(EnginePass, AMaskOfBlocksHoldsInEveryPass) {
  llada_model model = model_of_blocks();
  const std::size_t vocabulary = text().vocabulary();
  for (const tokens& sequence : sequences()) {
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    for (index_t end = 5; end <= static_cast<index_t>(sequence.size()); end += 12) {
      sequence_memory memory;
      random_pass pass = everything(end);
      const std::vector<float> rows = copy(model.forward(pass, sequence, memory));
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(end) * vocabulary);
      EXPECT_LE(furthest(rows, std::span(full).first(rows.size())), 1e-4);
    }
  }
}

// Behind the start of an open window rows attend to all that the pass does, in front of it as
// ever.
TEST(EnginePass, AWindowOfAMaskOfBlocksOpens) {
  llada_model model = model_of_blocks();
  const std::size_t vocabulary = text().vocabulary();
  const tokens sequence = sequences().front();
  const auto rows = [&](const tokens& of, std::size_t window) {
    sequence_memory memory;
    memory.window = window;
    random_pass pass = everything(static_cast<index_t>(of.size()));
    return copy(model.forward(pass, of, memory));
  };
  tokens other = sequence;
  other.back() = other.back() == 20 ? 21 : 20;
  const std::vector<float> closed = rows(sequence, SIZE_MAX);
  for (const std::size_t window : {std::size_t{5}, std::size_t{17}, std::size_t{29}}) {
    const std::vector<float> before = rows(sequence, window), after = rows(other, window);
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const auto row = [&](const std::vector<float>& of) {
        return rows_of(of, {static_cast<index_t>(i)});
      };
      const bool is_open = i >= window;
      EXPECT_EQ(same_bits(row(before), row(after)), !is_open) << window << ", " << i;
      EXPECT_TRUE(is_open || same_bits(row(before), row(closed))) << window << ", " << i;
    }
  }
  EXPECT_EQ(closed.size(), sequence.size() * vocabulary);
}

TEST(EnginePass, AMaskOfBlocksHasNoShadowAndDropsNoKeys) {
  llada_model model = model_of_blocks();
  const tokens sequence = sequences().front();
  sequence_memory memory;
  EXPECT_THROW(
      model.forward_shadow(sequence, text().mask(), {8, 10}, {8, 10}, sequence.size(), memory),
      std::invalid_argument);
  struct dropping_pass : random_pass {
    [[nodiscard]] static eviction evict() { return eviction::choose; }
  } pass{everything(static_cast<index_t>(sequence.size()))};
  EXPECT_THROW(model.forward(pass, sequence, memory), std::invalid_argument);
}

// A shadow of one masked position is that position: its mask attends to the same.
TEST(EnginePass, AShadowHidesItsOwnPositionOnly) {
  llada_model model = new_model();
  const std::size_t vocabulary = text().vocabulary();
  for (tokens sequence : sequences()) {
    const auto length = static_cast<index_t>(sequence.size());
    const index_t p = length / 2;
    const auto at = static_cast<std::size_t>(p);
    sequence[at] = text().mask();
    const auto main = [&](sequence_memory& memory) {
      random_pass pass = everything(length);
      return copy(model.forward(pass, sequence, memory));
    };
    const auto shadow = [&](const sequence_memory& memory, positions_range query) {
      return copy(model.forward_shadow(
          sequence, text().mask(), query, {p, p + 1}, sequence.size(), memory));
    };
    sequence_memory memory;
    const std::vector<float> all = main(memory);
    const auto row = std::span(all).subspan(at * vocabulary, vocabulary);
    EXPECT_LE(furthest(shadow(memory, {p, p + 1}), row), 1e-3);
    // Beside other masks of the shadow it is another row, and so it is with another token in its
    // place, which reaches it through the others.
    EXPECT_GT(furthest(shadow(memory, {p - 1, p + 2}), row), 1e-3);
    const std::vector<float> before = shadow(memory, {p, p + 1});
    sequence[at] = 20;
    sequence_memory changed;
    const std::vector<float> with_token = main(changed);
    const std::vector<float> after = shadow(changed, {p, p + 1});
    EXPECT_GT(furthest(after, before), 1e-3);
    EXPECT_GT(furthest(after, std::span(with_token).subspan(at * vocabulary, vocabulary)), 1e-2);
    // A shadow changes nothing of the sequence.
    random_pass again = everything(length);
    EXPECT_TRUE(same_bits(copy(model.forward(again, sequence, changed)), with_token));
  }
}

/// The tokens that a causal model gives one by one, the mask token excluded.
tokens greedy(llada_model& model, tokens sequence, int count) {
  for (int k = 0; k < count; ++k) {
    sequence_memory memory;
    const std::vector<float> rows = causal(model, sequence, memory);
    std::vector<float> row(rows.end() - static_cast<std::ptrdiff_t>(text().vocabulary()),
                           rows.end());
    row[static_cast<std::size_t>(text().mask())] = -std::numeric_limits<float>::infinity();
    sequence.push_back(
        static_cast<token_id>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return sequence;
}

TEST(EnginePass, SelfSpeculationIsGreedyDecodingOfTheCausalModel) {
  llada_model model = new_model();
  for (const char* policy :
       {"linear_spec", "threshold(0.5, inclusive=true) + self_speculation(4)"}) {
    for (const char* prompt : {"Q:Ora has 2 books.", "7+5=", "abc"}) {
      const tokens begin = text().canvas(prompt, 12);
      const auto prompt_length = static_cast<index_t>(begin.size() - 12);
      tokens decoded = begin;
      named_session s({.vocab = static_cast<index_t>(text().vocabulary()),
                       .mask_token = text().mask(),
                       .causal_attention = true},
                      {.sequences = 1, .length = static_cast<index_t>(begin.size()), .window = 12});
      s.start(0,
              read_policy(policy),
              decoded,
              {.prompt_length = prompt_length,
               .length = static_cast<index_t>(begin.size()),
               .block_length = 12});
      sequence_memory memory;
      while (const auto request = s.next()) {
        auto pass = s.pass(0);
        const bool is_causal = request->segments[0].attention == attention_kind::causal;
        const logits_view z = model.forward(pass, decoded, memory, {}, is_causal);
        s.read(0,
               host_logits<float>{
                   z.data, static_cast<index_t>(z.rows), static_cast<index_t>(z.vocabulary)});
        s.decide();
      }
      const tokens start(begin.begin(), begin.begin() + prompt_length);
      EXPECT_EQ(decoded, greedy(model, start, 12)) << policy << ", " << prompt;
      EXPECT_LE(s.report().forwards, 24);
    }
  }
}

TEST(EnginePass, EverythingIsTheFullForward) {
  llada_model model = new_model();
  for (const tokens& sequence : sequences()) {
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    sequence_memory memory;
    for (int again = 0; again < 2; ++again) {
      random_pass pass = everything(static_cast<index_t>(sequence.size()));
      EXPECT_TRUE(same_bits(copy(model.forward(pass, sequence, memory)), full));
    }
    EXPECT_EQ(memory.computed, 2 * layers() * std::ssize(sequence));
  }
}

// If a sequence has not changed since it was computed, then for any part that is computed again the
// logits are the same bits: it attends to what was stored.
TEST(EnginePass, AnyPartOfAnUnchangedSequenceHasTheLogitsOfTheWhole) {
  llada_model model = new_model();
  dice d(7);
  for (const tokens& sequence : sequences()) {
    const auto length = static_cast<index_t>(sequence.size());
    const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
    sequence_memory memory;
    random_pass first = everything(length);
    model.forward(first, sequence, memory);
    for (int round = 0; round < 4; ++round) {
      random_pass pass{.length = length};
      for (index_t p = 0; p < length; ++p) {
        if (d.within(0, 3) == 0 || p == round) {
          pass.active.push_back(p);
        }
      }
      const std::int64_t before = memory.computed;
      EXPECT_TRUE(
          same_bits(copy(model.forward(pass, sequence, memory)), rows_of(full, pass.active)));
      EXPECT_EQ(memory.computed - before, layers() * std::ssize(pass.active));
    }
  }
}

TEST(EnginePass, SkippingInAnUnchangedSequenceChangesNoLogits) {
  llada_model model = new_model();
  const tokens sequence = sequences().front();
  const auto length = static_cast<index_t>(sequence.size());
  const std::vector<float> full = copy(model.forward(sequence, 0, sequence.size()));
  for (const feature reads :
       {feature::hidden, feature::input, feature::query, feature::key, feature::value}) {
    for (const skipping skipped : {skipping::dropped, skipping::kept}) {
      if (hook_follows_layer(reads) && skipped == skipping::kept) {
        continue;
      }
      for (index_t from = 0; from < layers(); ++from) {
        sequence_memory memory;
        random_pass pass = everything(length);
        pass.reads = reads;
        pass.skipped = skipped;
        pass.hooked_from = from;
        EXPECT_TRUE(same_bits(copy(model.forward(pass, sequence, memory)), full));
        for (int round = 0; round < 2; ++round) {
          const std::int64_t before = memory.computed;
          pass.active = everything(length).active;
          pass.keep_of_8 = 5;
          const std::vector<float> logits = copy(model.forward(pass, sequence, memory));
          EXPECT_TRUE(same_bits(logits, rows_of(full, pass.active)));
          EXPECT_EQ(pass.active.size() == sequence.size(), skipped == skipping::kept);
          const bool too_late = hook_follows_layer(reads) && from + 1 == layers();
          EXPECT_EQ(memory.computed - before == layers() * length, too_late);
        }
      }
    }
  }
}

// Changes outside the computed part have no effect until that position is computed again.
TEST(EnginePass, StoredKeysAreThoseOfTheLastComputation) {
  llada_model model = new_model();
  tokens sequence = sequences().front();
  const auto length = static_cast<index_t>(sequence.size());
  const std::vector<float> before = copy(model.forward(sequence, 0, sequence.size()));
  sequence_memory memory;
  random_pass first = everything(length);
  model.forward(first, sequence, memory);
  sequence[3] = sequence[3] == 40 ? 41 : 40;
  random_pass part{.length = length};
  part.active = {length - 2, length - 1};
  EXPECT_TRUE(same_bits(copy(model.forward(part, sequence, memory)), rows_of(before, part.active)));
  random_pass all = everything(length);
  const std::vector<float> after = copy(model.forward(sequence, 0, sequence.size()));
  EXPECT_FALSE(same_bits(rows_of(before, part.active), rows_of(after, part.active)));
  EXPECT_TRUE(same_bits(copy(model.forward(all, sequence, memory)), after));
}

TEST(EnginePass, BadPassesAreRefused) {
  llada_model model = new_model();
  sequence_memory memory;
  random_pass pass = everything(4);
  EXPECT_THROW(model.forward(pass, tokens{2, 10, 0}, memory), std::invalid_argument);
  EXPECT_THROW(model.forward(pass, tokens{2, 10, 0, 98}, memory), std::invalid_argument);
  EXPECT_EQ(model.forward(pass, tokens{2, 10, 0, 0}, memory).rows, 4U);
}

/// Trace of a decode, bit for bit.
struct trace {
  tokens sequence;
  std::vector<commit_entry> commits;
  std::map<std::pair<index_t, index_t>, std::vector<float>> logits;  // by pass and position
  index_t forwards = 0;
  std::int64_t computed = 0;
  std::int64_t attended = 0;  // what full forwards would have computed
};

constexpr index_t answer = 40;
index_t block_length = 20;

model_info info() {
  return {.vocab = static_cast<index_t>(text().vocabulary()),
          .mask_token = text().mask(),
          .eos_token = text().end(),
          .layers = layers()};
}
sequence_shape shape_of(const tokens& sequence) {
  const auto length = static_cast<index_t>(sequence.size());
  return {.prompt_length = length - answer, .length = length, .block_length = block_length};
}
host_logits<float> as_logits(const logits_view& z) {
  return {z.data, static_cast<index_t>(z.rows), static_cast<index_t>(z.vocabulary)};
}

/// Decodes a prompt by passes, and stores the rows that the policy needs.
template <class Policy>
trace decode(const Policy& p, const std::string& prompt, const key_eviction& dropping = {}) {
  llada_model model = new_model();
  trace t;
  t.sequence = text().canvas(prompt, answer);
  sequence_memory memory;
  session session(p, info(), t.sequence, shape_of(t.sequence));
  for (; session.next(); ++t.forwards) {
    auto pass = session.pass(0);
    t.attended += static_cast<std::int64_t>(pass.keys().size()) * layers();
    const range blocks = session.planned().score;
    const logits_view z = model.forward(
        pass, t.sequence, memory, {blocks.first, blocks.last, dropping.keep, dropping.pool});
    for (std::size_t r = 0; r < z.rows; ++r) {
      const auto at = static_cast<std::size_t>(pass.rows()[r]);
      t.logits[{t.forwards, pass.positions()[at]}] = {z.row(r).begin(), z.row(r).end()};
    }
    session.read(0, as_logits(z));
    session.decide();
    t.commits.insert(t.commits.end(), session.committed().begin(), session.committed().end());
  }
  t.computed = memory.computed;
  return t;
}

/// Decodes it by full forwards; nothing is kept.
template <class Policy>
trace decode_in_full(const Policy& p, const std::string& prompt) {
  llada_model model = new_model();
  trace t;
  t.sequence = text().canvas(prompt, answer);
  session session(p, info(), t.sequence, shape_of(t.sequence));
  for (; const auto request = session.next(); ++t.forwards) {
    const range rows = request->segments[0].rows;
    const logits_view z = model.forward(
        t.sequence, static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.last));
    for (std::size_t r = 0; r < z.rows; ++r) {
      t.logits[{t.forwards, rows.first + static_cast<index_t>(r)}] = {z.row(r).begin(),
                                                                      z.row(r).end()};
    }
    session.supply(as_logits(z));
    t.commits.insert(t.commits.end(), session.committed().begin(), session.committed().end());
  }
  return t;
}

bool same_commits(const trace& a, const trace& b) {
  return std::ranges::equal(a.commits, b.commits, [](const auto& x, const auto& y) {
    return x.position == y.position && x.token == y.token && x.step == y.step &&
           x.log_probability == y.log_probability;
  });
}

const std::vector<std::string>& some_prompts() {
  static const std::vector<std::string> some = [] {
    std::vector<std::string> p;
    const std::vector<nlohmann::json> all = testing::prompts();
    for (std::size_t i = 0; i < all.size(); i += 67) {
      p.push_back(all[i]["prompt"].get<std::string>());
    }
    return p;
  }();
  return some;
}

/// The same with a cache and what else it consists of.
template <class... Parts>
trace decode_with(const std::string& prompt, const Parts&... parts) {
  key_eviction dropping;
  [[maybe_unused]] const auto take = [&]<class P>(const P& part) {
    if constexpr (std::is_same_v<P, key_eviction>) {
      dropping = part;
    }
  };
  (take(parts), ...);
  return decode(by_name(policy{by_confidence{}, threshold{0.9F}, trace_credit<>{}, parts...}),
                prompt,
                dropping);
}

/// That a policy with these parts, in which nothing is reused, decodes as the full forward does:
/// the same commits, and every row of logits the same bits.
template <class... Parts>
void expect_full_forward(const std::string& name, const Parts&... parts) {
  for (const std::string& prompt : some_prompts()) {
    SCOPED_TRACE(name + ": " + prompt);
    const trace full = decode_in_full(read_policy("threshold(0.9) + trace_credit"), prompt);
    const trace cached = decode_with(prompt, parts...);
    EXPECT_EQ(full.sequence, cached.sequence);
    EXPECT_EQ(full.forwards, cached.forwards);
    EXPECT_TRUE(same_commits(full, cached));
    EXPECT_EQ(cached.computed, cached.attended);
    // A session that skips requests the rows of masked positions only, not those between them.
    EXPECT_GE(cached.logits.size(), full.commits.size());
    for (const auto& [where, row] : cached.logits) {
      ASSERT_TRUE(full.logits.contains(where));
      EXPECT_TRUE(same_bits(row, full.logits.at(where)))
          << "pass " << where.first << ", position " << where.second;
    }
  }
}

/// The share of full forwards that a policy with these parts computes over all prompts.
template <class... Parts>
double share_computed(const Parts&... parts) {
  std::int64_t computed = 0;
  std::int64_t attended = 0;
  for (const std::string& prompt : some_prompts()) {
    const trace t = decode_with(prompt, parts...);
    EXPECT_EQ(t.commits.size(), static_cast<std::size_t>(answer));
    computed += t.computed;
    attended += t.attended;
  }
  return static_cast<double>(computed) / static_cast<double>(attended);
}

TEST(EngineCaches, WithoutACacheEverythingIsComputed) {
  expect_full_forward("none");
}

TEST(EngineCaches, PrefixThatRefreshesInEveryStepIsTheFullForward) {
  expect_full_forward("prefix", prefix_cache{.period = 1});
}
TEST(EngineCaches, DualThatRefreshesInEveryStepIsTheFullForward) {
  expect_full_forward("dual", dual_cache{.period = 1});
}
TEST(EngineCaches, DelayedThatRefreshesInEveryStepIsTheFullForward) {
  expect_full_forward("dKV-Cache", delayed_cache{.period = 1});
}

TEST(EngineCaches, SimilarityOfEverythingIsTheFullForward) {
  const interval_cache always{.prompt_period = 1, .answer_period = 1};
  const interval_cache never{.prompt_period = 1, .answer_period = 0};
  expect_full_forward("refreshed", similarity_refresh{}, always);
  expect_full_forward("share 1", similarity_refresh{.share = 1.0}, never);
}

TEST(EngineCaches, BudgetOfEverythingIsTheFullForward) {
  const interval_cache always{.prompt_period = 1, .answer_period = 1};
  const interval_cache never{.prompt_period = 1, .answer_period = 0};
  expect_full_forward("refreshed", cache_budget{}, always);
  expect_full_forward("all", cache_budget{.window = 1000}, never);
}

TEST(EngineCaches, EvictionOfNothingIsTheFullForward) {
  const dual_cache always{.period = 1, .whole = 2};
  expect_full_forward("keep 1", key_eviction{.keep = 1.0}, always);
}

// Keys that stay for good are those of the pass that chose: dropping none is the cache alone.
TEST(EngineCaches, EvictionOfNothingIsItsCache) {
  const dual_cache cache{.period = 0, .whole = 2};
  const named_policy slow = by_name(policy{by_confidence{}, tokens_per_step{2}, cache});
  const auto dropping = [&](double keep) {
    return by_name(policy{by_confidence{}, tokens_per_step{2}, cache, key_eviction{.keep = keep}});
  };
  for (const std::string& prompt : {some_prompts().front(), some_prompts().back()}) {
    const trace all = decode(slow, prompt);
    const trace none_dropped = decode(dropping(1.0), prompt, {.keep = 1.0});
    EXPECT_TRUE(same_commits(all, none_dropped));
    EXPECT_EQ(all.logits, none_dropped.logits);
    EXPECT_NE(all.logits, decode(dropping(0.5), prompt, {.keep = 0.5}).logits);
  }
}

// The block cache never runs what is right of the block, so the block is the answer here.
TEST(EngineCaches, BlockThatRefreshesInEveryStepIsTheFullForwardOfOneBlock) {
  block_length = answer;
  expect_full_forward("block", block_cache{.prompt_period = 1, .block_period = 1});
  expect_full_forward("with early skipping",
                      block_cache{.prompt_period = 1, .block_period = 1},
                      released::early_skip_released());
  block_length = 20;
}

TEST(EngineCaches, EarlySkippingOfNothingIsTheFullForward) {
  early_skip none;
  none.stages[0].keep = 1.0;
  none.stages[1].keep = 1.0;
  expect_full_forward("ratio 0", none);
  expect_full_forward("paper, refreshed", early_skip{}, dual_cache{.period = 1});
  expect_full_forward(
      "released, refreshed", released::early_skip_released(), dual_cache{.period = 1});
}

TEST(EngineCaches, EachComputesLess) {
  const double prefix = share_computed(prefix_cache{});
  const double dual = share_computed(dual_cache{});
  EXPECT_LT(prefix, 1.0);
  EXPECT_LT(dual, prefix);
  EXPECT_LT(share_computed(dual_cache{}, early_skip{}), dual);
  EXPECT_LT(share_computed(block_cache{}, early_skip{}), 0.5);
  EXPECT_LT(share_computed(interval_cache{}, similarity_refresh{}), 0.8);
  EXPECT_LT(share_computed(interval_cache{.answer_period = 0}, cache_budget{.budget = 8}), 0.8);
}

}  // namespace
}  // namespace example::engine_pass_test
