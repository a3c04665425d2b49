// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: anchors_without_a_radius
// Anchors need the radius within which candidates get their distance.
// expect: up to which distance: anchor_radius
#include <unmask/unmask.hpp>

struct beside_sure_ones {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool anchors(const auto& c) const { return c.confidence() > 0.9F; }
  bool commits(const auto&, const unmask::rank_info&) const { return true; }
};

constexpr unmask::policy p{unmask::by_confidence{}, beside_sure_ones{}};

// case: answer_end_without_stop
// expect: answer_end\(sequence\) must be const and return index_t, in a part that has stop
#include <unmask/unmask.hpp>

struct at_a_line_end {
  static constexpr unmask::statistics required = unmask::stat::none;
  UNMASK_HD unmask::index_t answer_end(const unmask::sequence_view& q) const { return q.length; }
};

constexpr unmask::policy p{
    unmask::by_confidence{}, unmask::tokens_per_step{}, unmask::stop_at_eos{}, at_a_line_end{}};

// case: const_tokens
// expect: a session writes the tokens: they must not be const
#include <unmask/unmask.hpp>

#include <vector>

unmask::tokens_view<unmask::memory::host> view(const std::vector<unmask::token_id>& tokens) {
  return tokens;
}

// case: cxx17
// expect: unmask needs C\+\+20: compile with -std=c\+\+20
// expect: fatal error: '?unmask needs C\+\+20
// flags: -std=c++17
// lines: 20
#include <unmask/unmask.hpp>

// case: function_that_is_not_const
// A stage calls no function that changes its part: the policy would do without it.
// expect: process\(row, context\) must be const and return void
#include <unmask/unmask.hpp>

struct forgets_const {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
  void process(auto& row, auto&) { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, forgets_const{}};

// case: misspelt_function
// expect: this part has a function commit\(\): did you mean commits\(candidate, rank_info\)\?
#include <unmask/unmask.hpp>

struct misspelt {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commit(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

constexpr unmask::policy p{unmask::by_confidence{}, misspelt{}};

// case: no_commit_rule
// expect: a policy needs exactly one commit rule
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::single_block{}};

// case: no_parts
// expect: a policy needs a ranking and a commit rule, such as policy
// lines: 80
#include <unmask/unmask.hpp>

#include <vector>

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{}, model, tokens, unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}

// case: no_ranking
// expect: a policy needs exactly one ranking
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::threshold{}};

// case: not_trivially_copyable
// expect: a part must be trivially copyable
#include <unmask/unmask.hpp>

#include <vector>

struct table_ranking {
  std::vector<float> scores;
  static constexpr unmask::statistics required = unmask::stat::none;
  float score(const auto& c) const { return scores[static_cast<std::size_t>(c.position)]; }
};

const unmask::policy p{table_ranking{}, unmask::tokens_per_step{}};

// case: pacing_without_a_bound
// expect: a schedule that paces itself, or a part that decides on a canvas, must say how many
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/ranking.hpp>

struct my_loop {
  static constexpr unmask::statistics required = unmask::stat::none;
  static constexpr bool paces = true;
  void schedule(unmask::sequence_view& q, unmask::plan& next, auto&) const {
    next.score = q.block(0);
  }
};

int main() {
  const unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{3}, my_loop{}};
  static_cast<void>(p);
}

// case: position_state_with_a_vector
// expect: must be trivially copyable and have a default: no std::vector
#include <unmask/unmask.hpp>

#include <vector>

struct collecting {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  struct position_state {
    std::vector<int> seen;
  };
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    return c.confidence() > 0.5F && context.state.seen.empty();
  }
};

constexpr unmask::policy p{unmask::by_confidence{}, collecting{}};

// case: process_without_track
// An edit of a token that was not read apart would be left out.
// expect: names them before the row is read: track\(list, context\)
#include <unmask/unmask.hpp>

struct edits_untracked {
  static constexpr unmask::statistics required = unmask::stat::none;
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

void decode(unmask::session<
            unmask::policy<unmask::by_confidence, unmask::tokens_per_step, edits_untracked>>& s) {
  s.supply(unmask::host_logits<float>());
}

// case: reading_ahead_in_branches
// expect: a policy that reads rows right of its active blocks cannot have lookahead
#include <unmask/core/policy.hpp>
#include <unmask/policy/commit/commit_rules.hpp>
#include <unmask/policy/lookahead.hpp>
#include <unmask/policy/ranking.hpp>

struct curious {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool reads_ahead() const { return true; }
  void process(auto&, auto&) const {}
};

int main() {
  const unmask::policy p{
      unmask::by_confidence{}, unmask::tokens_per_step{1}, curious{}, unmask::lookahead{}};
  static_cast<void>(p);
}

// case: sequence_state_with_a_vector
// expect: must be trivially copyable and have a default: no std::vector
#include <unmask/unmask.hpp>

#include <vector>

struct collecting {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  struct sequence_state {
    std::vector<int> seen;
  };
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    return c.confidence() > 0.5F && context.sequence.seen.empty();
  }
};

constexpr unmask::policy p{unmask::by_confidence{}, collecting{}};

// case: span_rank_without_needs_spans
// Ranks within spans are computed only if a part declares needs_spans.
// expect: span_rank
#include <unmask/unmask.hpp>

// `const rank_info&` has no span_rank either.
struct first_of_span {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto&, const auto& s) const { return s.span_rank == 0; }
};

void decode(unmask::session<unmask::policy<unmask::by_confidence, first_of_span>>& s) {
  s.supply(unmask::host_logits<float>());
}

// case: state_without_a_function
// A misspelt function beside one that is right.
// expect: this part has a position_state and no function that is given it
#include <unmask/unmask.hpp>

struct remembers_in_vain {
  struct position_state {
    float before = 0.0F;
  };
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
  void revis(auto& row, auto& context) const { context.state.before = row.total().best; }
};

constexpr unmask::policy p{unmask::by_confidence{}, remembers_in_vain{}};

// case: step_reduction_without_reduce
// A misspelt function beside one that is right.
// expect: this part has a step reduction and no reduce
#include <unmask/unmask.hpp>

struct counts_in_vain {
  struct step_reduction {
    int count = 0;
    void merge(const step_reduction& o) { count += o.count; }
  };
  static constexpr unmask::statistics required = unmask::stat::none;
  step_reduction reduces(const auto&, const auto&) const { return {1}; }
  bool commits(const auto&, const unmask::rank_info& s, const auto& context) const {
    return s.rank < context.step_reduction.count;
  }
};

constexpr unmask::policy p{unmask::by_confidence{}, counts_in_vain{}};

// case: stop_of_another_type
// A stop that returns bool would never be called.
// expect: stop\(sequence, context\) must be const and return ending
#include <unmask/unmask.hpp>

struct stops_with_bool {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
  bool stop(const unmask::sequence_view& q, const auto&) const { return q.step > 3; }
};

constexpr unmask::policy p{unmask::by_confidence{}, stops_with_bool{}};

// case: temporary_tokens
// expect: these tokens are a temporary, gone before the session writes them
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void start(unmask::session<rule>& s, const rule& p) {
  s.start(0, p, std::vector<unmask::token_id>(4), {.length = 4});
}

// case: track_without_tracks
// Nobody would make room for the tokens.
// expect: track\(list, context\) must be const, and the part must declare how many tokens it tracks
#include <unmask/unmask.hpp>

struct tracks_unsaid {
  static constexpr unmask::statistics required = unmask::stat::none;
  void track(auto& list, const auto&) const { list.add(3); }
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, tracks_unsaid{}};

// case: tracks_without_track
// Room for tracked tokens without a function that names them.
// expect: this part declares how many tokens it tracks and has no track\(list, context\)
#include <unmask/unmask.hpp>

struct says_tracks_only {
  static constexpr unmask::statistics required = unmask::stat::none;
  static constexpr unmask::index_t tracks = 1;
  void wacht(auto& list, const auto&) const { list.add(3); }
  void process(auto& row, const auto&) const { row.add(3, 1.0F); }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, says_tracks_only{}};

// case: two_commit_rules
// expect: a policy needs exactly one commit rule: join several with && or ||
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, unmask::threshold{}};

// case: two_rankings
// expect: a policy needs exactly one ranking
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, unmask::by_margin{}};

// case: two_schedules
// expect: a policy has at most one schedule
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::tokens_per_step{},
                           unmask::single_block{},
                           unmask::semi_autoregressive{}};

// case: two_with_anchors
// expect: a policy has at most one part with anchors
#include <unmask/unmask.hpp>

constexpr unmask::policy p{unmask::by_confidence{},
                           unmask::local_leap{} || unmask::local_leap{.radius = 1}};

// case: undeclared_statistic
// A part that reads a statistic which it does not declare.
// expect: provides
// expect: confidence
#include <unmask/unmask.hpp>

#include <vector>

struct liar {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{unmask::by_confidence{}, liar{}},
                    model,
                    unmask::tokens_view<unmask::memory::host>(tokens),
                    unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}

// case: undeclared_statistic_in_a_composition
// Another part declares the statistic; that does not help the one that does not.
// expect: provides
#include <unmask/unmask.hpp>

#include <vector>

struct liar {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.entropy() < 0.5F; }
};

void decode(std::vector<unmask::token_id>& tokens, const unmask::model_info& model) {
  unmask::session s{unmask::policy{unmask::by_entropy{}, liar{} && unmask::entropy_bound{}},
                    model,
                    unmask::tokens_view<unmask::memory::host>(tokens),
                    unmask::sequence_shape{.length = 4}};
  s.supply(unmask::host_logits<float>());
}

// case: varying_requirement
// expect: a part must declare what it reads: static constexpr statistics required
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

struct varying {
  unmask::statistics required = unmask::stat::confidence;
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > 0.5F; }
};

int main() {
  std::vector<int> tokens(16, 1);
  unmask::policy p{unmask::by_confidence{}, varying{}};
  unmask::session s(p, {.vocab = 32, .mask_token = 31}, tokens, {.length = 16});
  return static_cast<int>(s.next()->rows);
}

// case: wide_tokens
// expect: tokens are 32-bit, unmask::token_id
// lines: 40
#include <unmask/unmask.hpp>

#include <vector>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void start(unmask::session<rule>& s, const rule& p, std::vector<std::int64_t>& tokens) {
  s.start(0, p, tokens, {.length = 4});
}

// case: wide_tokens_by_address
// expect: tokens are 32-bit, unmask::token_id
// lines: 40
#include <unmask/unmask.hpp>

using rule = unmask::policy<unmask::by_confidence, unmask::tokens_per_step>;

void start(unmask::session<rule>& s, const rule& p, std::int64_t* tokens) {
  s.start(0, p, {tokens, 4}, {.length = 4});
}

// case: without_a_stage
// A misspelt function: no step would call it.
// expect: a part of this policy has no function that a step calls: check the names, the arguments
#include <unmask/unmask.hpp>

struct misspelt {
  static constexpr unmask::statistics required = unmask::stat::none;
  bool commit(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
};

constexpr unmask::policy p{unmask::by_confidence{}, unmask::tokens_per_step{}, misspelt{}};

// case: without_required
// expect: a part must declare what it reads: static constexpr statistics required
#include <unmask/unmask.hpp>

struct mute {
  bool commits(const auto&, const unmask::rank_info& s) const { return s.rank < 2; }
};

constexpr unmask::policy p{unmask::by_confidence{}, mute{}};

// case: wrong_return_type
// A score that is not a float is not a score; the policy is not said to lack a ranking.
// expect: (?s)\A(?!.*exactly one).*score\(candidate, context\) must be const and return float
#include <unmask/unmask.hpp>

struct in_double {
  static constexpr unmask::statistics required = unmask::stat::none;
  double score(const auto& c) const { return c.position; }
};

constexpr unmask::policy p{in_double{}, unmask::tokens_per_step{}};

// case: wrong_signature
// A function of the wrong signature is named, and its part is not said to be missing.
// expect: (?s)\A(?!.*exactly one).*commits\(candidate, rank_info, context\) must be
#include <unmask/unmask.hpp>

struct without_a_rank {
  static constexpr unmask::statistics required = unmask::stat::confidence;
  UNMASK_HD bool commits(const auto& c) const { return c.confidence() > 0.9F; }
};

constexpr unmask::policy p{unmask::by_confidence{}, without_a_rank{}};
