// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/wrong_calls.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "hostile/decode.hpp"
#include "support/bound_session.hpp"

namespace unmask::hostile {

namespace {

constexpr index_t most = std::numeric_limits<index_t>::max();
constexpr index_t least = std::numeric_limits<index_t>::min();

const void* shifted(const void* data, std::ptrdiff_t by) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(data) +
                                       static_cast<std::uintptr_t>(by));
}

/// Rows like these that no session takes.
std::vector<any_rows> wrong_rows(const any_rows& right, index_t least_columns) {
  std::vector<any_rows> all;
  const auto with = [&](const auto& change) {
    any_rows wrong = right;
    change(wrong);
    all.push_back(wrong);
  };
  with([](any_rows& r) { ++r.rows; });
  with([](any_rows& r) { --r.rows; });
  with([](any_rows& r) { r.rows = least; });
  with([&](any_rows& r) { r.columns = least_columns - 1; });
  with([](any_rows& r) { r.columns = -1; });
  with([](any_rows& r) { r.space = memory::device; });
  if (right.rows > 0) {
    with([](any_rows& r) { r.data = nullptr; });
    with([](any_rows& r) { r.data = shifted(r.data, 1); });
  }
  if (right.rows > 1) {
    with([](any_rows& r) { r.stride = r.columns - 1; });
    with([](any_rows& r) { r.stride = -r.stride; });
    with([](any_rows& r) { r.stride = std::numeric_limits<std::ptrdiff_t>::max(); });
    with([](any_rows& r) { r.stride = std::numeric_limits<std::ptrdiff_t>::min(); });
  }
  return all;
}

bool is_message(const std::string& what) {
  return what.size() > 10 &&
         std::all_of(what.begin(), what.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

wrong_calls::wrong_calls(const scenario& s,
                         const session_capacity& capacity,
                         testing::bound_session<named_policy>& session,
                         testing::dice d)
    : s_(s)
    , capacity_(capacity)
    , session_(session)
    , d_(d)
    , tokens_(static_cast<std::size_t>(capacity.length) + 1)
    , memory_(static_cast<std::size_t>(s.model.vocab)) {}

index_t wrong_calls::no_slot() {
  return d_.one_of(
      std::vector<index_t>{-1, capacity_.sequences, capacity_.sequences + 7, most, least});
}

void wrong_calls::make_one_of(const std::vector<wrong_call>& calls) {
  if (!d_.chance(0.4)) {
    return;
  }
  const wrong_call& chosen = d_.one_of(calls);
  try {
    chosen.make();
  } catch (const std::logic_error& e) {  // std::invalid_argument is one
    if (!is_message(e.what())) {
      throw violation("a message", std::string(chosen.name) + ": '" + e.what() + "'");
    }
    return;
  }
  throw violation("a wrong call is refused", chosen.name);
}

void wrong_calls::between_steps(index_t slot, std::vector<token_id>& running) {
  const auto count = static_cast<index_t>(tokens_.size());
  const any_rows row(host_logits<float>(memory_.data(), 1, s_.model.vocab));
  const sequence_shape right{.prompt_length = 0, .length = 1, .block_length = 1};
  const auto start_with = [&](const auto& change) {
    sequence_shape g = right;
    start_options options;
    index_t where = d_.within(0, capacity_.sequences - 1);
    token_id* tokens = tokens_.data();
    change(where, tokens, g, options);
    session_.start(where, tokens, count, g, options);
  };
  static const std::vector<token_id> many(20, 0);
  static const std::vector<std::uint8_t> few(1, 1);
  const std::vector<token_id> foreign = {s_.model.vocab};
  const std::vector<token_id> negative = {-1};
  std::vector<wrong_call> calls = {
      {"supply() without a request", [&] { session_.supply(row); }},
      {"supply() of nothing without a request", [&] { session_.supply(std::span<any_rows>()); }},
      {"check_supply() without a request", [&] { session_.check_supply(std::span(&row, 1)); }},
      {"read() without a request", [&] { session_.read(0, row); }},
      {"decide() without a request", [&] { session_.decide(); }},
      {"abandon() without a request", [&] { session_.abandon(); }},
      {"cancel_request() without a request", [&] { session_.cancel_request(); }},
      {"pass() without a request", [&] { static_cast<void>(session_.pass(0)); }},
      {"report() of no slot", [&] { static_cast<void>(session_.report(no_slot())); }},
      {"planned() of no slot", [&] { static_cast<void>(session_.planned(no_slot())); }},
      {"committed() of no slot", [&] { static_cast<void>(session_.committed(no_slot())); }},
      {"candidates() of no slot", [&] { static_cast<void>(session_.candidates(no_slot())); }},
      {"probabilities() of no slot", [&] { static_cast<void>(session_.probabilities(no_slot())); }},
      {"cancel() of no slot", [&] { session_.cancel(no_slot()); }},
      {"next() of no slot",
       [&] { static_cast<void>(session_.next(std::vector<index_t>{no_slot()})); }},
      {"next() of a slot twice",
       [&] { static_cast<void>(session_.next(std::vector<index_t>{0, 0})); }},
      {"start() in no slot",
       [&] { start_with([&](index_t& where, auto&, auto&, auto&) { where = no_slot(); }); }},
      {"start() without tokens",
       [&] { start_with([](auto&, token_id*& x, auto&, auto&) { x = nullptr; }); }},
      {"start() with tokens at an odd address",
       [&] {
         start_with([](auto&, token_id*& x, auto&, auto&) {
           x = static_cast<token_id*>(const_cast<void*>(shifted(x, 2)));
         });
       }},
      {"start() of a length",
       [&] {
         start_with([&](auto&, auto&, sequence_shape& g, auto&) {
           g.length =
               d_.one_of(std::vector<index_t>{0, -1, least, most, count + 1, capacity_.length + 1});
         });
       }},
      {"start() of a prompt",
       [&] {
         start_with([&](auto&, auto&, sequence_shape& g, auto&) {
           g.prompt_length = d_.one_of(std::vector<index_t>{-1, least, most, g.length + 1});
         });
       }},
      {"start() of a block length",
       [&] {
         start_with([&](auto&, auto&, sequence_shape& g, auto&) {
           g.block_length = d_.one_of(std::vector<index_t>{0, -1, least});
         });
       }},
      {"start() with too many suppressed tokens",
       [&] { start_with([](auto&, auto&, auto&, start_options& o) { o.suppressed = many; }); }},
      {"start() with a suppressed token of another vocabulary",
       [&] {
         start_with([&](auto&, auto&, auto&, start_options& o) {
           o.suppressed = d_.chance(0.5) ? foreign : negative;
         });
       }},
  };
  if (capacity_.length > 1) {
    calls.push_back({"start() with too few editable positions", [&] {
                       start_with([](auto&, auto&, sequence_shape& g, start_options& o) {
                         g.length = 2;
                         o.editable = few;
                       });
                     }});
  }
  if (capacity_.sequences > 1 && !running.empty()) {
    calls.push_back({"start() with the tokens of another sequence", [&] {
                       start_with([&](index_t& where, token_id*& x, auto&, auto&) {
                         where = (slot + 1) % capacity_.sequences;
                         x = running.data();
                       });
                     }});
  }
  make_one_of(calls);
}

void wrong_calls::in_request(const forward_request& request) {
  const std::size_t count = request.segments.size();
  const any_rows row(host_logits<float>(memory_.data(), 1, s_.model.vocab));
  std::vector<any_rows> too_many(count + 1, row);
  const std::size_t no_segment = d_.one_of(
      std::vector<std::size_t>{count, count + 5, std::numeric_limits<std::size_t>::max()});
  const sequence_shape one{.prompt_length = 0, .length = 1, .block_length = 1};
  const index_t no_layer =
      d_.one_of(std::vector<index_t>{-1, least, s_.model.layers, s_.model.layers + 1, most});
  const bool is_negative = no_layer < 0;
  std::vector<wrong_call> calls = {
      {"start() in a request",
       [&] { session_.start(0, tokens_.data(), index_t(tokens_.size()), one); }},
      {"cancel() in a request", [&] { session_.cancel(d_.within(0, capacity_.sequences - 1)); }},
      {"next() of slots in a request",
       [&] { static_cast<void>(session_.next(std::vector<index_t>{0})); }},
      {"read() of no segment", [&] { session_.read(no_segment, row); }},
      {"pass() of no segment", [&] { static_cast<void>(session_.pass(no_segment)); }},
      {"decide() before a read", [&] { session_.decide(); }},
      {"supply() of too many tensors", [&] { session_.supply(too_many); }},
      {"supply() of no tensors", [&] { session_.supply(std::span<const any_rows>()); }},
      {"check_supply() of too many tensors", [&] { session_.check_supply(too_many); }},
  };
  if (is_negative || session_.pass(0).has_hooks) {
    calls.push_back(
        {"hooks() of no layer", [&] { static_cast<void>(session_.pass(0).hooks(no_layer)); }});
  }
  make_one_of(calls);
}

void wrong_calls::at_hook(named_session::layer_pass pass,
                          index_t layer,
                          const any_rows& now,
                          const any_state& previous) {
  std::vector<wrong_call> calls;
  const auto with =
      [&](const char* name, index_t at, const any_rows& rows, const any_state& state) {
        calls.push_back({name, [=]() mutable { pass.at_layer(at, rows, state); }});
      };
  for (const index_t other : {-1, layer - 1, layer + 1, s_.model.layers, most, least}) {
    if (other != layer) {
      with("at_layer() of another layer", other, now, previous);
    }
  }
  // Any number of columns is one, if the stored rows have as many.
  for (const any_rows& wrong : wrong_rows(now, now.columns)) {
    with("at_layer() with other rows", layer, wrong, previous);
  }
  const auto store = [&](const char* name, const auto& change) {
    any_state wrong = previous;
    change(wrong);
    with(name, layer, now, wrong);
  };
  store("stored rows of other columns", [](any_state& p) { ++p.columns; });
  store("stored rows of a negative number of columns", [](any_state& p) { p.columns = -1; });
  store("stored rows on a device", [](any_state& p) { p.space = memory::device; });
  store("stored rows of another type", [](any_state& p) {
    p.kind = p.kind == element_kind::f32 ? element_kind::f16 : element_kind::f32;
  });
  store("stored rows of negative positions", [](any_state& p) { p.positions = {-1, 3}; });
  store("stored rows of no range", [](any_state& p) { p.positions = {3, 1}; });
  store("stored rows nowhere", [](any_state& p) { p.data = nullptr; });
  store("stored rows at an odd address",
        [](any_state& p) { p.data = const_cast<void*>(shifted(p.data, 1)); });
  if (previous.positions.size() > 1) {
    store("stored rows that overlap", [](any_state& p) { p.stride = p.columns - 1; });
  }
  make_one_of(calls);
}

void wrong_calls::at_read(std::size_t index, const any_rows& rows) {
  std::vector<wrong_call> calls;
  for (const any_rows& wrong : wrong_rows(rows, s_.model.vocab)) {
    calls.push_back(
        {"read() of other rows", [this, index, wrong] { session_.read(index, wrong); }});
  }
  any_modifiers odd;
  odd.allowed = static_cast<const std::uint32_t*>(shifted(memory_.data(), 2));
  calls.push_back(
      {"read() with a bitmask at an odd address", [&, odd] { session_.read(index, rows, odd); }});
  make_one_of(calls);
}

void wrong_calls::at_supply(const any_rows& rows) {
  std::vector<wrong_call> calls;
  for (const any_rows& wrong : wrong_rows(rows, s_.model.vocab)) {
    calls.push_back({"supply() of other rows", [this, wrong] { session_.supply(wrong); }});
  }
  make_one_of(calls);
}

void wrong_calls::behind_read(std::size_t index, bool is_last) {
  const any_rows row(host_logits<float>(memory_.data(), 1, s_.model.vocab));
  std::vector<wrong_call> calls = {
      {"read() twice", [&] { session_.read(index, row); }},
      {"abandon() behind read()", [&] { session_.abandon(); }},
      {"supply() behind read()", [&] { session_.supply(row); }},
      {"start() behind read()",
       [&] { session_.start(0, tokens_.data(), index_t(tokens_.size()), {.length = 1}); }},
  };
  if (!is_last) {
    calls.push_back({"decide() before the last read", [&] { session_.decide(); }});
  }
  make_one_of(calls);
}

}  // namespace unmask::hostile
