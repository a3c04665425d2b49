// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/unmask.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "demo/engine.hpp"
#include "demo/problems.hpp"

namespace UNMASK_NAMESPACE {
class trace_writer;
}

namespace demo {

/// Geometry of the answers, whatever the policy.
struct geometry {
  index_t answer_length = 40;  ///< where no given answer says otherwise
  index_t block_length = 20;
  std::uint64_t seed = 0;
  bool own_length = false;  ///< an answer has as many positions as its problem's `given`, if there
                            ///< is one; `answer_length` is the most
};

/// Positions of the answer to a problem.
index_t answer_length(const problem& p, const geometry& g);

/// Result of one problem.
struct decoded {
  std::vector<token_id> tokens;  ///< the answer positions
  std::string text;              ///< up to the EOS token
  index_t forwards = 0;
  index_t segments = 0;  ///< the same, lookahead branches counted, too
  index_t committed = 0;
  index_t forced = 0;
  index_t answer_tokens = 0;  ///< tokens before the EOS token
  bool clean_end = false;     ///< whether only EOS tokens follow
  index_t masked = 0;         ///< of a problem with a given and a right answer: positions that were
                              ///< masked or, if it is to be edited, wrong,
  index_t restored = 0;       ///< those of them that have the right answer's token,
  index_t wrong = 0;          ///< and all positions that have not
};

/// start_options::editable of a problem that starts with these tokens.
std::vector<std::uint8_t>
editable_of(const problem& p, const engine& model, std::span<const token_id> tokens);

/// Results of many problems, with the time of each phase.
struct decoding {
  std::vector<decoded> answers;  ///< in the order of the problems
  std::int64_t segments = 0;     ///< sequences run, lookahead branches counted, too
  std::int64_t computed = 0;     ///< layer-positions: positions that each layer computed, summed
  std::int64_t in_full = 0;      ///< those of the same passes, had each been a full forward
  double engine_seconds = 0.0;   ///< inside engine::forward
  double policy_seconds = 0.0;   ///< inside next(), read() and decide()

  /// Appends what became of further problems.
  void add(decoding more);
};

/// One sequence just after a step.
struct step_seen {
  std::size_t problem = 0;       ///< index of the problem
  bool last_of_forward = false;  ///< no other sequence of this forward pass follows
  std::span<const token_id> answer;
  index_t prompt_length = 0;  ///< first position of the answer in the sequence
  std::span<const unmask::commit_entry> committed;
  unmask::sequence_report report;
  unmask::range rows;                 ///< the positions whose logits the step rested on; empty if
                                      ///< some of them were skipped
  unmask::host_logits<float> logits;  ///< their rows
};
using observer = std::function<void(const step_seen&)>;

/// The tokens of the right answer where a problem has a given one, too; else none. Throws
/// std::invalid_argument if they differ in more than masked positions.
std::vector<token_id> right_tokens(const example::char_tokenizer& text, const problem& p);

/// Capacities of a session for these problems. The window holds a whole answer, and the branches
/// are as many as there may be: that suffices for every policy.
unmask::session_capacity capacity_for(const engine& model,
                                      std::span<const problem> problems,
                                      const geometry& g,
                                      index_t batch);

/// Decodes all problems: as many at a time as the session has slots, each leaving when it is done
/// and the next one taking its place. `observe` is called after every step of every sequence;
/// `trace`, if it is not null, records them, which needs a session with session_capacity::trace.
template <class Session>
decoding decode(Session& session,
                index_t batch,
                engine& model,
                std::span<const problem> problems,
                const geometry& g,
                const observer& observe = {},
                unmask::trace_writer* trace = nullptr);

extern template decoding decode(unmask::named_session&,
                                index_t,
                                engine&,
                                std::span<const problem>,
                                const geometry&,
                                const observer&,
                                unmask::trace_writer*);

/// Result of a problem whose answer has ended.
decoded result_of(std::span<const token_id> answer,
                  const unmask::sequence_report& report,
                  const example::char_tokenizer& text,
                  const problem& p);

}  // namespace demo
