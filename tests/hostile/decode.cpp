// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/decode.hpp"

#include <unmask/constraint.hpp>
#include <unmask/core/walk.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "hostile/wrong_calls.hpp"
#include "support/bound_session.hpp"
#include "support/fake_logits.hpp"
#include "support/fields.hpp"
#include "support/instruction_sets.hpp"

namespace unmask::hostile {

namespace {

using testing::dice;
using testing::mixed;

/// The rows of one forward pass, or of one segment of it, as the engine's memory holds them.
template <element T>
class tensor {
 public:
  tensor(const scenario& s, std::size_t rows)
      : s_(s)
      , words_((static_cast<std::size_t>(s.model.vocab) + 31) / 32)
      , stride_(static_cast<std::size_t>(s.model.vocab + s.padding))
      , word_stride_(words_ + static_cast<std::size_t>(s.offset))
      , logits_(size(rows, stride_, static_cast<std::size_t>(s.model.vocab)))
      , unconditional_(s.engine.has_guidance ? logits_.size() : 0)
      , allowed_(s.engine.has_grammar ? size(rows, word_stride_, words_) : 0)
      , row_(static_cast<std::size_t>(s.model.vocab)) {
    // The padding is poison, and nothing follows the last row.
    std::fill(logits_.begin(), logits_.end(), testing::encoded<T>(testing::not_a_number));
    std::fill(unconditional_.begin(), unconditional_.end(), logits_.front());
  }

  given_row put(std::size_t r, const row_place& where) {
    given_row given;
    write_row(s_.engine, s_.model, where, row_);
    T* const at = logits_.data() + first() + r * stride_;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      at[v] = testing::encoded<T>(double(row_[v]));
      row_[v] = static_cast<float>(testing::decoded(at[v]));
    }
    given.logits = row_;
    if (s_.engine.has_guidance) {
      write_unconditional(s_.engine, s_.model, where, row_);
      for (std::size_t v = 0; v < row_.size(); ++v) {
        unconditional_[first() + r * stride_ + v] = testing::encoded<T>(double(row_[v]));
      }
    }
    if (s_.engine.has_grammar) {
      const std::span<std::uint32_t> words(allowed_.data() + first() + r * word_stride_, words_);
      write_allowed(s_.engine, s_.model, where, words);
      given.allowed.assign(words.begin(), words.end());
    }
    return given;
  }

  [[nodiscard]] any_rows rows(std::size_t count) const {
    return rows_view<T, memory::host>{logits_.data() + first(),
                                      static_cast<index_t>(count),
                                      s_.model.vocab,
                                      static_cast<std::ptrdiff_t>(stride_)};
  }
  [[nodiscard]] any_modifiers modifiers() const {
    any_modifiers r;
    if (s_.engine.has_grammar) {
      r.allowed = allowed_.data() + first();
      r.allowed_stride = static_cast<std::ptrdiff_t>(word_stride_);
    }
    if (s_.engine.has_guidance) {
      r.unconditional = unconditional_.data() + first();
      r.unconditional_stride = static_cast<std::ptrdiff_t>(stride_);
      r.cfg_scale = s_.engine.cfg_scale;
    }
    return r;
  }

 private:
  [[nodiscard]] std::size_t first() const { return static_cast<std::size_t>(s_.offset); }
  [[nodiscard]] std::size_t size(std::size_t rows, std::size_t stride, std::size_t columns) const {
    return first() + (rows == 0 ? 1 : (rows - 1) * stride + columns);
  }

  const scenario& s_;
  std::size_t words_;
  std::size_t stride_;
  std::size_t word_stride_;
  std::vector<T> logits_;
  std::vector<T> unconditional_;
  std::vector<std::uint32_t> allowed_;
  std::vector<float> row_;
};

/// A sequence while it is decoded.
struct running {
  std::vector<token_id> tokens;
  std::vector<token_id> given;  ///< the same before the start
  index_t slot = -1;
  bool was_started = false;
  bool is_over = false;
};

class decoder {
 public:
  decoder(const scenario& s,
          const way& w,
          const named_policy& parts,
          std::span<const std::size_t> sequences,
          observer* tracking,
          std::vector<std::vector<step_record>>& records,
          std::string* trace = nullptr)
      : s_(s)
      , way_(w)
      , parts_(parts)
      , which_(sequences)
      , tracking_(tracking)
      , records_(records)
      , d_(mixed(s.seed, s.number, w.slots_seed + 5))
      , pool_(w.threads)
      , running_(s.sequences.size()) {
    if (trace != nullptr) {
      const std::string policy = text_of(s.policy);
      trace_.emplace(
          [trace](std::string_view line) {
            *trace += line;
            return true;
          },
          trace_head{.model = "m", .info = s.model, .policy = policy, .parts = part_texts(policy)});
    }
    for (const sequence_plan& q : s.sequences) {
      bounds_.push_back(bound_of(s, q));
      for (const field_plan& f : q.fields) {
        keeps_rows_ = keeps_rows_ || f.read_again || parts.has_canvas();
      }
    }
    if (s.language) {
      try {
        constraint_.emplace(s.language->bytes.view(), s.language->lifted_to(), limits_of(s, w));
      } catch (const std::invalid_argument& e) {
        throw refusal(e.what());
      }
    }
  }

  void run() {
    open();
    for (index_t round = 0;; ++round) {
      const bool waits = join(round);
      call_between_steps();
      const auto request = requested();
      if (!request) {
        if (!waits) {
          break;
        }
        continue;
      }
      const auto again = session_->next();
      expect(again && again->segments.data() == request->segments.data() &&
                 again->rows == request->rows,
             "request",
             "next() twice is not the same");
      if (wrong_) {
        wrong_->in_request(*request);
      }
      if (trace_) {
        trace_->request(*request, *session_);
      }
      switch (s_.kind) {
      case element_kind::f32:
        answer<float>(*request);
        break;
      case element_kind::bf16:
        answer<bfloat16>(*request);
        break;
      case element_kind::f16:
        answer<float16>(*request);
        break;
      }
    }
    for (const std::size_t i : which_) {
      expect(running_[i].tokens == records_[i].back().tokens,
             "tokens of an ended sequence",
             "they changed later");
    }
  }

 private:
  static void expect(bool holds, const char* promise, const std::string& seen) {
    if (!holds) {
      throw violation(promise, seen);
    }
  }

  /// Some repetitions have so little memory that it is cleared again and again.
  [[nodiscard]] static constraint_limits limits_of(const scenario& s, const way& w) {
    constraint_limits limits;
    const bool is_little = w.mixed && s.model.vocab < 100;
    limits.bytes = is_little ? 1 << 14 : 1 << 22;
    limits.entries = is_little ? 16 : limits.entries;
    return limits;
  }

  /// Makes the session, with no more room than is needed where that is enough.
  void open() {
    session_capacity capacity{.sequences = way_.alone ? 1 : s_.slots, .trace = true};
    index_t narrow = 1;
    for (const std::size_t i : which_) {
      const sequence_shape& g = s_.sequences[i].shape;
      capacity.length = std::max(capacity.length, g.length);
      narrow = std::max(narrow, std::min(g.block_length, g.length - g.prompt_length));
    }
    const index_t wide = s_.tight ? capacity.length : capacity.length + 13;
    capacity.length = wide;
    for (const index_t window : {s_.tight ? narrow : wide, wide}) {
      capacity.window = window;
      try {
        const on_host where{.executor = pool_, .instruction_set = way_.instruction_set};
        // With `mixed` the slots have the memory of a plainer policy at first.
        session_ = testing::make_bound(
            way_.mixed ? read_policy("tokens_per_step") : parts_, s_.model, capacity, where);
        for (const std::size_t i : which_) {  // each may start, and be replaced
          std::vector<token_id> tokens = first_tokens(i);
          start(0, i, tokens);
        }
        session_->cancel(0);
        if (way_.wrong_calls) {
          wrong_.emplace(s_, capacity, *session_, dice(mixed(s_.seed, s_.number, 9U)));
        }
        return;
      } catch (const std::invalid_argument& e) {
        if (window == wide) {
          throw refusal(e.what());
        }
      }
    }
  }

  /// Wrong calls beside a sequence that runs, if one does.
  void call_between_steps() {
    if (!wrong_) {
      return;
    }
    std::vector<token_id> none;
    running* found = nullptr;
    for (const std::size_t i : which_) {
      if (running_[i].was_started && !running_[i].is_over) {
        found = &running_[i];
      }
    }
    found != nullptr ? wrong_->between_steps(found->slot, found->tokens)
                     : wrong_->between_steps(0, none);
  }

  void start(index_t slot, std::size_t i, std::vector<token_id>& tokens) {
    const sequence_plan& q = s_.sequences[i];
    const auto count = static_cast<index_t>(tokens.size());
    std::vector<constrained_field> fields;
    for (const field_plan& f : q.fields) {
      std::uint32_t state = from_start;
      for (const token_id v : f.before) {
        state = constraint_->after(state, v);
        if (state == dead_state) {
          throw refusal("no string of the language has the tokens before a field");
        }
      }
      fields.push_back({.language = &*constraint_,
                        .first = f.first,
                        .last = f.last,
                        .tokens_after = f.tokens_after,
                        .state = state,
                        .fill = f.fill,
                        .read_again = f.read_again});
    }
    const start_options options{.editable = q.editable,
                                .suppressed = q.suppressed,
                                .constraints = fields,
                                .soft_tokens = q.soft_tokens};
    session_->start(slot, parts_, {tokens.data(), count}, q.shape, options);
  }

  [[nodiscard]] std::vector<token_id> first_tokens(std::size_t i) const {
    const sequence_plan& q = s_.sequences[i];
    dice d(mixed(q.shape.seed, 3));
    std::vector<token_id> tokens;
    for (index_t p = 0; p < q.shape.length + q.spare; ++p) {
      tokens.push_back(d.within(0, s_.model.vocab - 1));
    }
    return tokens;
  }

  /// A mark for each position, as start_options::editable.
  [[nodiscard]] std::vector<std::uint8_t> marks(std::size_t i) const {
    const sequence_plan& q = s_.sequences[i];
    return q.editable.empty()
               ? std::vector<std::uint8_t>(static_cast<std::size_t>(q.shape.length), 1)
               : q.editable;
  }

  /// The next request: in a batch now and then of some slots only, and now and then the engine's
  /// pass has failed and it is requested again.
  std::optional<forward_request> requested() {
    chosen_.reset();
    if (!way_.alone && d_.chance(0.3)) {
      chosen_.emplace();
      for (index_t slot = 0; slot < s_.slots; ++slot) {
        if (d_.chance(0.6)) {
          chosen_->insert(chosen_->begin() + d_.within(0, index_t(chosen_->size())), slot);
        }
      }
    }
    auto request = chosen_ ? session_->next(*chosen_) : session_->next();
    if (chosen_ && !request) {  // none of them runs
      chosen_.reset();
      request = session_->next();
    }
    if (!way_.alone && request && d_.chance(0.1)) {
      session_->abandon();
      request = chosen_ ? session_->next(*chosen_) : session_->next();
    }
    if (request && cancel_in_pass()) {
      request = chosen_ ? session_->next(*chosen_) : session_->next();
      if (chosen_ && !request) {
        chosen_.reset();
        request = session_->next();
      }
    }
    return request;
  }
  /// Abandons the request that is out if a sequence is cancelled while it is. Returns whether.
  bool cancel_in_pass() {
    bool is_out = true;
    for (const std::size_t i : which_) {
      if (running_[i].was_started && s_.sequences[i].cancels_in_pass && is_due(i)) {
        if (std::exchange(is_out, false)) {
          session_->abandon();
        }
        cancel(i);
      }
    }
    return !is_out;
  }
  [[nodiscard]] bool is_chosen(index_t slot) const {
    return !chosen_ || std::find(chosen_->begin(), chosen_->end(), slot) != chosen_->end();
  }

  /// Starts the sequences that may start. True if others still wait.
  bool join(index_t round) {
    bool waits = false;
    for (const std::size_t i : which_) {
      running& r = running_[i];
      if (r.was_started) {
        continue;
      }
      std::vector<index_t> free;
      for (index_t slot = 0; slot < (way_.alone ? 1 : s_.slots); ++slot) {
        const bool is_taken = std::any_of(which_.begin(), which_.end(), [&](std::size_t k) {
          return running_[k].slot == slot && !running_[k].is_over;
        });
        if (!is_taken) {
          free.push_back(slot);
        }
      }
      if (free.empty() || (!way_.alone && round < s_.sequences[i].joins)) {
        waits = true;
        continue;
      }
      r.slot = d_.one_of(free);
      r.was_started = true;
      r.given = r.tokens = first_tokens(i);
      if (tracking_ != nullptr) {
        tracking_->on_tokens(i, r.tokens);
      }
      start(r.slot, i, r.tokens);
      records_[i] = {record(i, {}, {})};
      if (trace_) {
        trace_->start({.slot = r.slot,
                       .shape = s_.sequences[i].shape,
                       .tokens = std::span(r.tokens).first(
                           static_cast<std::size_t>(s_.sequences[i].shape.length)),
                       .options = {.editable = marks(i)}},
                      *session_);
      }
      r.is_over = records_[i].back().report.end != ending::running;
      if (tracking_ != nullptr) {
        tracking_->on_start(i, records_[i].back());
      }
      cancel_if_due(i);
    }
    return waits;
  }

  step_record record(std::size_t i, std::vector<segment> segments, const plan& planned) {
    const running& r = running_[i];
    step_record now;
    now.segments = std::move(segments);
    now.planned = planned;
    now.winner = session_->planned(r.slot).winner;
    now.tokens = r.tokens;
    now.report = session_->report(r.slot);
    const auto copy = [](auto from, auto& to) { to.assign(from.begin(), from.end()); };
    copy(session_->committed(r.slot), now.commits);
    copy(session_->candidates(r.slot), now.candidates);
    copy(session_->probabilities(r.slot), now.probabilities);
    copy(session_->soft_tokens(r.slot), now.soft_tokens);
    copy(session_->alternatives(r.slot), now.alternatives);
    for (std::size_t f = 0; f < s_.sequences[i].fields.size(); ++f) {
      now.states.push_back(session_->constraint_state(r.slot, f));
    }
    const std::vector<std::uint8_t> is = marks(i);
    for (std::size_t p = 0; p < r.tokens.size(); ++p) {
      const sequence_shape& g = s_.sequences[i].shape;
      const auto position = static_cast<index_t>(p);
      const bool is_fixed = position < g.prompt_length || position >= g.length || is[p] == 0;
      expect(!is_fixed || r.tokens[p] == r.given[p], "a fixed position", std::to_string(p));
    }
    for (commit_entry& e : now.commits) {
      expect(e.slot == r.slot, "slot of a commit", std::to_string(e.slot));
      e.slot = 0;
    }
    for (candidate_entry& e : now.candidates) {
      e.slot = 0;
    }
    for (auto* const list : {&now.probabilities, &now.soft_tokens, &now.alternatives}) {
      for (token_probability& e : *list) {
        e.slot = 0;
      }
    }
    return now;
  }

  [[nodiscard]] bool is_due(std::size_t i) const {
    const auto steps = static_cast<index_t>(records_[i].size()) - 1;
    return !running_[i].is_over && s_.sequences[i].cancels == steps;
  }
  void cancel_if_due(std::size_t i) {
    if (!s_.sequences[i].cancels_in_pass && is_due(i)) {
      cancel(i);
    }
  }
  void cancel(std::size_t i) {
    running& r = running_[i];
    if (trace_) {  // which reads the tokens
      session_->cancel(r.slot);
      trace_->end(r.slot, session_->report(r.slot));
    }
    r.tokens = std::vector<token_id>(r.tokens);  // frees those that the library knows
    session_->cancel(r.slot);
    r.is_over = true;
    step_record now = record(i, {}, {});
    now.commits.clear();
    now.candidates.clear();
    now.probabilities.clear();
    now.soft_tokens.clear();
    now.alternatives.clear();
    records_[i].push_back(now);
    if (tracking_ != nullptr) {
      tracking_->on_cancel(i, now);
    }
  }

  [[nodiscard]] std::size_t sequence_in(index_t slot) const {
    for (const std::size_t i : which_) {
      if (running_[i].was_started && !running_[i].is_over && running_[i].slot == slot) {
        return i;
      }
    }
    throw violation("request", "slot " + std::to_string(slot) + " has no running sequence");
  }

  template <element T>
  void answer(const forward_request& request) {
    const bool piecewise = way_.piecewise && !keeps_rows_;
    // Requested segments, by sequence.
    std::vector<std::vector<segment>> asked(running_.size());
    std::vector<std::vector<std::vector<given_row>>> given(running_.size());
    std::vector<plan> plans(running_.size());
    index_t rows = 0;
    for (const segment& s : request.segments) {
      const std::size_t i = sequence_in(s.slot);
      check_segment(s, i, rows);
      rows += s.rows.size();
      if (asked[i].empty()) {
        plans[i] = session_->planned(s.slot);
      }
      asked[i].push_back(s);
      asked[i].back().slot = 0;
      asked[i].back().first_row = 0;
      asked[i].back().shadow_of = s.shadow_of < 0 ? -1 : 0;
      asked[i].back().placed = {};  // those of the plan outlive the request
    }
    expect(rows == request.rows, "request", "its rows do not add up");
    for (const std::size_t i : which_) {
      if (!is_chosen(running_[i].slot)) {
        expect(asked[i].empty(), "request", "a sequence that was left out is in it");
        continue;
      }
      expect(running_[i].is_over == asked[i].empty() || !running_[i].was_started,
             "request",
             "a running sequence is not in it");
    }
    std::vector<std::vector<index_t>> wanted(request.segments.size());
    std::size_t total = 0;
    const auto run_layers = [&](std::size_t k) {
      const segment& s = request.segments[k];
      wanted[k] = pass<T>(k, place_of(sequence_in(s.slot), s));
      total += wanted[k].size();
    };
    for (std::size_t k = 0; k < request.segments.size() && !piecewise; ++k) {
      run_layers(k);
    }
    tensor<T> whole(s_, total);
    std::size_t at = 0;
    for (std::size_t k = 0; k < request.segments.size(); ++k) {
      const segment& s = request.segments[k];
      const std::size_t i = sequence_in(s.slot);
      if (piecewise) {
        run_layers(k);
      }
      place p = place_of(i, s);
      tensor<T> own(s_, piecewise ? wanted[k].size() : 0);
      std::vector<given_row>& seen = given[i].emplace_back();
      for (std::size_t r = 0; r < wanted[k].size(); ++r) {
        p.where.row = wanted[k][r];
        p.where.tokens = p.tokens;
        seen.push_back(piecewise ? own.put(r, p.where) : whole.put(at++, p.where));
        seen.back().row = wanted[k][r];
      }
      if (piecewise) {
        if (wrong_) {
          wrong_->at_read(k, own.rows(wanted[k].size()));
        }
        session_->read(k, own.rows(wanted[k].size()), own.modifiers());
        if (wrong_) {
          wrong_->behind_read(k, k + 1 == request.segments.size());
        }
      }
    }
    if (piecewise) {
      session_->decide();
    } else {
      if (wrong_) {
        wrong_->at_supply(whole.rows(total));
      }
      session_->supply(whole.rows(total), whole.modifiers());
    }
    if (trace_) {
      trace_->step(*session_);
    }
    for (const std::size_t i : which_) {
      if (asked[i].empty()) {
        continue;
      }
      records_[i].push_back(record(i, asked[i], plans[i]));
      const step_record& now = records_[i].back();
      running_[i].is_over = now.report.end != ending::running;
      if (tracking_ != nullptr) {
        tracking_->on_step(i, now, given[i]);
      }
      expect(now.report.forwards <= bounds_[i].forwards,
             "an end",
             std::to_string(now.report.forwards) + " forward passes, at most " +
                 std::to_string(bounds_[i].forwards));
      cancel_if_due(i);
    }
  }

  /// Which rows a segment is about, and the tokens there.
  struct place {
    std::vector<token_id> tokens;
    row_place where;
  };
  [[nodiscard]] place place_of(std::size_t i, const segment& s) const {
    place p;
    p.tokens.assign(running_[i].tokens.begin(),
                    running_[i].tokens.begin() + s_.sequences[i].shape.length);
    for (const auto& placed : s.placed) {
      p.tokens[static_cast<std::size_t>(placed.position)] = placed.token;
    }
    p.where.sequence = s_.sequences[i].shape.seed;
    p.where.step = static_cast<index_t>(records_[i].size()) - 1;
    return p;
  }

  /// Runs segment k through the layers. Returns the rows whose logits are requested.
  template <element T>
  std::vector<index_t> pass(std::size_t k, place p) {
    auto pass = session_->pass(k);
    const segment& s = pass.about();
    std::vector<index_t> rows;
    if (!parts_.layered_now()) {
      for (index_t r = s.rows.first; r < s.rows.last; ++r) {
        rows.push_back(r);
      }
      return rows;
    }
    constexpr std::size_t width = 9;
    const auto length = static_cast<std::size_t>(s_.sequences[sequence_in(s.slot)].shape.length);
    std::vector<float> row(width);
    for (index_t layer = 0; layer < s_.model.layers; ++layer) {
      check_ascending(pass.positions(), s.query, "positions of a layer");
      if (!pass.hooks(layer)) {
        continue;
      }
      const auto here = pass.positions();
      std::vector<T> now;
      p.where.tokens = p.tokens;
      for (const index_t position : here) {
        p.where.row = position;
        write_hidden(s_.engine, p.where, layer, row);
        for (const float x : row) {
          now.push_back(testing::encoded<T>(double(x)));
        }
      }
      // Rows stored for an earlier sequence of the slot stay in memory.
      std::vector<T>& stored = std::get<memory_of<T>>(stored_)[{s.slot, layer}];
      stored.resize(std::max(stored.size(), length * width),
                    testing::encoded<T>(testing::not_a_number));
      const state_view<T, memory::host> previous(
          stored.data(), static_cast<index_t>(length), static_cast<index_t>(width));
      const auto count = static_cast<index_t>(here.size());
      const rows_view<T, memory::host> rows_here(now.data(), count, static_cast<index_t>(width));
      if (wrong_) {
        wrong_->at_hook(pass, layer, rows_here, previous);
      }
      const auto chosen = pass.at_layer(layer, rows_here, previous);
      check_ascending(chosen.rows, {0, count}, "chosen rows");
      check_ascending(chosen.positions, s.query, "chosen positions");
    }
    const auto here = pass.positions();
    check_ascending(pass.rows(), {0, static_cast<index_t>(here.size())}, "rows behind the layers");
    for (const index_t r : pass.rows()) {
      rows.push_back(here[static_cast<std::size_t>(r)]);
    }
    return rows;
  }

  static void check_ascending(std::span<const index_t> list, range in, const char* promise) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      expect(in.contains(list[i]) && (i == 0 || list[i] > list[i - 1]),
             promise,
             std::to_string(list[i]));
    }
  }

  void check_segment(const segment& s, std::size_t i, index_t rows) const {
    const index_t length = s_.sequences[i].shape.length;
    const auto within = [](range inner, range outer) {
      return inner.first >= outer.first && inner.last <= outer.last && inner.first < inner.last;
    };
    expect(s.first_row == rows, "request", "a segment's rows do not follow those before");
    expect(within(s.keys, {0, length}), "request", "keys are not in the sequence");
    expect(within(s.query, s.keys), "request", "query is not in keys");
    expect(s.rows.empty() || within(s.rows, s.query),
           "request",
           "rows [" + std::to_string(s.rows.first) + ", " + std::to_string(s.rows.last) +
               ") are not in query [" + std::to_string(s.query.first) + ", " +
               std::to_string(s.query.last) + ")");
    const bool is_of_beam = session_->planned(s.slot).kind == pass_kind::beam;
    expect(
        is_of_beam || s.placed.empty() == (s.branch == 0), "request", "a branch without a token");
    for (const placement& p : s.placed) {
      expect(p.position >= 0 && p.position < length && p.token >= 0 && p.token < s_.model.vocab &&
                 p.token != s_.model.mask_token,
             "request",
             "a branch places token " + std::to_string(p.token) + " at " +
                 std::to_string(p.position));
    }
  }

  const scenario& s_;
  const way& way_;
  const named_policy& parts_;
  std::span<const std::size_t> which_;
  observer* tracking_;
  std::vector<std::vector<step_record>>& records_;
  dice d_;
  host::thread_pool pool_;
  std::unique_ptr<testing::bound_session<named_policy>> session_;
  std::optional<trace_writer> trace_;           ///< of a decode that is recorded
  std::optional<wrong_calls> wrong_;            ///< beside the others, if any
  std::optional<std::vector<index_t>> chosen_;  ///< slots of the request that is out; none: all
  std::vector<running> running_;
  std::vector<bound> bounds_;
  std::optional<constraint> constraint_;
  bool keeps_rows_ = false;  ///< until a step is decided, because it may read them again
  /// Rows that the engine keeps, by slot and layer.
  template <element T>
  using memory_of = std::map<std::pair<index_t, index_t>, std::vector<T>>;
  std::tuple<memory_of<float>, memory_of<bfloat16>, memory_of<float16>> stored_;
};

/// The decisions of a step, without slots and rows of the tensor.
testing::fields fields_of(const step_record& now) {
  testing::fields all;
  all.add("plan", now.planned).add("segments", now.segments).add("winner", now.winner);
  all.add("tokens", now.tokens).add("report", now.report).add("commits", now.commits);
  all.add("candidates", now.candidates).add("probabilities", now.probabilities);
  all.add("soft tokens", now.soft_tokens).add("alternatives", now.alternatives);
  return all.add("states of constraints", now.states);
}

}  // namespace

bound bound_of(const scenario& s, const sequence_plan& q) {
  const sequence_shape& g = q.shape;
  bound b;
  bool grows = false;  // over positions that were given, too
  try {
    const named_policy p = parts_of(s).of_model(s.model);
    grows = step::rewrites_blocks_now(p);
    b = {most_forwards(p, g) - (std::int64_t{g.length} - g.prompt_length),
         detail::most_waits(p, g)};
  } catch (const std::invalid_argument& e) {
    throw refusal(e.what());
  }
  // A pass for each position that is masked at the start, or may be found wrong, and those
  // declared.
  const bool checks = names(s.policy, "self_speculation");
  for (index_t p = g.prompt_length; p < g.length; ++p) {
    const mark is = q.editable.empty() ? mark::masked
                                       : static_cast<mark>(q.editable[static_cast<std::size_t>(p)]);
    b.forwards += grows || is == mark::masked || (checks && is == mark::committed) ? 1 : 0;
  }
  if (!s.model.suppress_mask) {  // a budget ends such a decode, and nothing else
    for (const written_part& p : s.policy) {
      if (p.name == "max_steps" && !p.arguments.empty()) {
        const std::string& steps = p.arguments[0];
        b.forwards += std::stoll(steps.substr(steps.find('=') + 1));
      }
    }
  }
  return b;
}

named_policy parts_of(const scenario& s) {
  if (!s.model.suppress_mask &&
      std::none_of(s.policy.begin(), s.policy.end(), [](const written_part& p) {
        return p.name == "canvas" || p.name == "max_steps";
      })) {
    throw refusal("a mask token that is not suppressed wants an end");
  }
  try {
    return read_policy(text_of(s.policy));
  } catch (const std::invalid_argument& e) {
    throw refusal(e.what());
  }
}

std::vector<std::vector<step_record>> decode(const scenario& s, const way& w, observer* tracking) {
  const named_policy parts = parts_of(s);
  std::vector<std::vector<step_record>> records(s.sequences.size());
  std::vector<std::size_t> all(s.sequences.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  try {
    if (w.alone) {
      for (const std::size_t& i : all) {
        decoder(s, w, parts, {&i, 1}, tracking, records).run();
      }
    } else {
      decoder(s, w, parts, all, tracking, records).run();
    }
  } catch (const std::logic_error& e) {  // std::invalid_argument is one
    throw violation("an exception", e.what());
  }
  return records;
}

std::vector<std::string> recorded(const scenario& s) {
  const named_policy parts = parts_of(s);
  std::vector<std::vector<step_record>> records(s.sequences.size());
  std::vector<std::string> traces(s.sequences.size());
  const way alone{.name = "recorded", .alone = true};
  for (std::size_t i = 0; i < s.sequences.size(); ++i) {
    decoder(s, alone, parts, {&i, 1}, nullptr, records, &traces[i]).run();
  }
  return traces;
}

std::vector<step_record>
replayed(const scenario& s, std::size_t sequence, const std::string& trace, std::uint64_t seed) {
  std::optional<loaded_replay> again;
  try {
    again.emplace(read_trace(trace), 0, no_files);
    const sequence_plan& q = s.sequences[sequence];
    const std::vector<constrained_field> fields(q.fields.size());
    again->check_start({.editable = q.editable, .constraints = fields}, q.shape);
  } catch (const std::invalid_argument& e) {
    throw refusal(e.what());
  }
  std::vector<std::vector<step_record>> records(s.sequences.size());
  const way anywhere{.name = "replayed", .slots_seed = seed};
  try {
    decoder(s, anywhere, again->policy(), {&sequence, 1}, nullptr, records).run();
  } catch (const std::logic_error& e) {
    throw violation("a replay, an exception", e.what());
  }
  return records[sequence];
}

std::vector<way> ways(const scenario& s) {
  std::vector<way> all;
  const std::vector<host::instruction_set> instruction_sets = testing::instruction_sets();
  for (std::size_t k = 0; k < std::max<std::size_t>(instruction_sets.size(), 2); ++k) {
    way w;
    w.instruction_set = instruction_sets[k % instruction_sets.size()];
    w.alone = k % 2 == 0;
    w.piecewise = (k + s.number) % 2 == 0;
    w.threads = (k + s.number / 2) % 2 == 0 ? 3 : 1;
    w.mixed = (k + s.number / 4) % 2 == 0;
    w.wrong_calls = (k + s.number / 8) % 2 == 0;
    w.slots_seed = k + 1;
    w.name = "the same " + std::string(w.alone ? "alone" : "in other slots") +
             (w.mixed ? ", in a mixed session" : "") + (w.piecewise ? ", read in pieces" : "") +
             (w.wrong_calls ? ", beside wrong calls" : "") +
             (w.threads > 1 ? ", with 3 threads" : "") + ", on instruction set " +
             std::to_string(int(w.instruction_set));
    if (w.instruction_set != host::best_instruction_set() || w.alone ||
        instruction_sets.size() < 2) {
      all.push_back(w);
    }
  }
  return all;
}

void compare(const std::vector<std::vector<step_record>>& got,
             const std::vector<std::vector<step_record>>& expected,
             const std::string& how) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t steps = std::min(got[i].size(), expected[i].size());
    for (std::size_t k = 0; k < steps; ++k) {
      const std::string what = difference(fields_of(got[i][k]), fields_of(expected[i][k]));
      if (!what.empty()) {
        throw violation(
            how, "sequence " + std::to_string(i) + ", step " + std::to_string(k) + ", " + what);
      }
    }
    if (got[i].size() != expected[i].size()) {
      throw violation(how, "sequence " + std::to_string(i) + ": not as many steps");
    }
  }
}

std::uint64_t digest(const std::vector<std::vector<step_record>>& records) {
  std::uint64_t sum = mixed(records.size());
  for (const std::vector<step_record>& steps : records) {
    sum = mixed(sum, steps.size());
    for (const step_record& now : steps) {
      sum = fields_of(now).hash(sum);
    }
  }
  return sum;
}

}  // namespace unmask::hostile
