// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of a trace, whatever it is: an error with its line, or sequences each of which is
// refused in words or replayed: on any logits the decode ends with the tokens that the trace
// committed.

#include <unmask/trace/replay_text.hpp>

#include "fuzz/decode.hpp"
#include "support/bound_session.hpp"

namespace unmask::fuzz {
namespace {

// The tokens behind all steps of a sequence; no_token where none was committed.
std::vector<token_id> committed_tokens(const replay_table& table) {
  std::vector<token_id> tokens(table.tokens().size(), no_token);
  for (const replay_entry& e : table.entries()) {
    token_id& token = tokens[static_cast<std::size_t>(e.position)];
    token = e.action == replay_action::remask ? no_token
            : e.action == replay_action::hold ? token
                                              : e.token;
  }
  return tokens;
}

void replay_one(const trace& read, std::size_t sequence) {
  std::unique_ptr<const loaded_replay> loaded;
  if (!accepted([&] { loaded = std::make_unique<const loaded_replay>(read, sequence); })) {
    return;
  }
  const sequence_shape& shape = loaded->table().view().shape;
  if (shape.length > 64 || read.info.vocab > 64 || read.info.layers > 8) {
    return;  // of any size is right, and slow
  }
  std::vector<token_id> tokens = loaded->table().tokens();
  std::unique_ptr<testing::bound_session<named_policy>> session;
  if (!accepted([&] {
        session =
            testing::make_bound(loaded->policy(),
                                read.info,
                                {.length = shape.length, .window = shape.length, .trace = true});
        session->start(
            0, tokens.data(), shape.length, shape, {.editable = loaded->table().editable()});
      })) {
    return;
  }
  const auto count = static_cast<index_t>(loaded->table().steps().size());
  const index_t steps = decode(*session, read.info, tokens, count + shape.length + 1);
  require(session->report(0).end != ending::running, "an end, after " + std::to_string(steps));
  if (steps == count && session->report(0).forced == 0) {
    const std::vector<token_id> expected = committed_tokens(loaded->table());
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      require(expected[p] == no_token || expected[p] == tokens[p],
              "the trace's token at position " + std::to_string(p));
    }
  }
}

}  // namespace

UNMASK_FUZZ_TARGET(trace) {
  trace read;
  if (accepted([&] { read = read_trace(text_of(data)); })) {
    for (std::size_t i = 0; i < std::min<std::size_t>(read.sequences.size(), 4); ++i) {
      replay_one(read, i);
    }
  }
}

}  // namespace unmask::fuzz
