// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/c_api.h>
#include <unmask/named_requirements.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/version.hpp>

#include "c_api/session.hpp"

// The library behind include/unmask/c_api.h, without the calls of c_layers.h.

namespace {

using namespace example;
using unmask::check_argument;

static_assert(sizeof(unmask_segment) == 48 && sizeof(unmask_commit) == 32 &&
                  sizeof(unmask_probability) == 24 && offsetof(unmask_report, second_reads) == 36 &&
                  offsetof(unmask_options, propose_mask) == 56,
              "the layout since version 1");
static_assert(sizeof(unmask_plan) == 20, "the layout since version 2");
static_assert(sizeof(unmask_candidate) == 52, "the layout since version 3");
static_assert(first_size<unmask_sequence> == 48 && sizeof(unmask_sequence) == 56 &&
                  sizeof(unmask_modifiers) == 40,
              "the layout since version 5");
static_assert(sizeof(unmask_requirements) == 24, "the layout since version 7");
static_assert(UNMASK_FROM_BRANCH == static_cast<int>(unmask::candidate_outcome::from_branch));
static_assert(UNMASK_NO_TOKEN == unmask::no_token &&
              UNMASK_F16 == static_cast<int>(unmask::element_kind::f16) &&
              UNMASK_BF16 == static_cast<int>(unmask::element_kind::bf16) &&
              UNMASK_CANCELLED == static_cast<int>(unmask::ending::cancelled));

#ifdef UNMASK_C_API_CUDA
constexpr bool has_device = true;
#else
constexpr bool has_device = false;
#endif

unmask::model_info model_of(const unmask_options& o) {
  return {.vocab = o.vocab,
          .mask_token = o.mask_token,
          .eos_token = o.eos_token,
          .logits_shift = o.logits_shift,
          .suppress_mask = o.propose_mask == 0,
          .layers = o.layers};
}

unmask::session_capacity capacity_of(const unmask_options& o) {
  return {.sequences = o.sequences,
          .length = o.length,
          .window = o.window,
          .branches = o.branches,
          .trace = o.trace != 0};
}

unmask::sequence_shape shape_of(const unmask_sequence& q) {
  return {.prompt_length = q.prompt_length,
          .length = q.length,
          .block_length = q.block_length,
          .seed = q.seed,
          .sequence = q.sequence};
}

unmask_commit commit_of(const unmask::commit_entry& e, bool committed) {
  return {e.slot,
          e.position,
          e.token,
          e.log_probability,
          e.step,
          e.block,
          e.block_step,
          committed ? 1 : 0};
}

// Ends a recording whose file is full.
void check_recording(unmask_session& s) {
  if (!s.trace->ok()) {
    s.trace.reset();
    throw std::runtime_error(s.file->error());
  }
}

// Tells the trace of a request, and keeps its segments.
unmask_request answer_of(unmask_session& s, const std::optional<unmask::forward_request>& wanted) {
  if (s.trace && wanted && !std::exchange(s.is_requested, true)) {
    s.trace->request(*wanted, *s.session);
  }
  s.segments.clear();
  unmask_request answer = UNMASK_REQUEST_INIT;
  if (wanted) {
    for (const unmask::segment& g : wanted->segments) {
      s.segments.push_back({g.slot,
                            g.branch,
                            g.placed.position,
                            g.placed.token,
                            g.query.first,
                            g.query.last,
                            g.keys.first,
                            g.keys.last,
                            g.rows.first,
                            g.rows.last,
                            g.first_row,
                            static_cast<std::int32_t>(g.evict)});
      unmask_session::demands& of = s.of_slot[static_cast<std::size_t>(g.slot)];
      if (of.dropped) {  // on a device a plan must not be waited for inside a pass
        of.blocks = s.session->planned(g.slot).score;
      }
    }
    answer.rows = wanted->rows;
  }
  answer.count = static_cast<std::int32_t>(s.segments.size());
  answer.segments = s.segments.data();
  return answer;
}

// Writes the step that was decided into the trace.
void was_supplied(unmask_session& s) {
  if (s.trace && std::exchange(s.is_requested, false)) {
    s.trace->step(*s.session);
    check_recording(s);
  }
}

}  // namespace

extern "C" {

std::uint32_t unmask_abi_version(void) {
  return UNMASK_ABI_VERSION;
}

const char* unmask_version(void) {
#define UNMASK_TEXT_OF(x) #x
#define UNMASK_TEXT(x) UNMASK_TEXT_OF(x)
  return UNMASK_TEXT(UNMASK_VERSION_MAJOR) "." UNMASK_TEXT(UNMASK_VERSION_MINOR) "." UNMASK_TEXT(
      UNMASK_VERSION_PATCH);
#undef UNMASK_TEXT
#undef UNMASK_TEXT_OF
}

const char* unmask_last_error(void) {
  return last_error.c_str();
}

const char* unmask_describe_parts(void) {
  try {
    static const std::string text = unmask::describe_parts();
    return text.c_str();
  } catch (...) {
    return "";
  }
}

unmask_status unmask_check_policy(const char* policy) {
  return guarded([&] {
    const char* const text = &needed(policy, "policy");
    const unmask::model_info model{.vocab = 2, .mask_token = 1, .layers = 1};
    const unmask::session_capacity capacity{.length = 1, .window = 1};
    if (const auto replay = unmask::read_replay(text)) {
      static_cast<void>(replay->make_session(model, capacity));
    } else {
      static_cast<void>(unmask::make_any_layer_session(unmask::read_policy(text), model, capacity));
    }
  });
}

unmask_status unmask_get_requirements(const char* policy,
                                      const unmask_options* options,
                                      const unmask_sequence* sequence,
                                      unmask_requirements* requirements) {
  return guarded([&] {
    const char* const text = &needed(policy, "policy");
    const unmask_options o = known_part_of(options, UNMASK_OPTIONS_INIT, "options");
    const unmask_sequence q = known_part_of(sequence, UNMASK_SEQUENCE_INIT, "sequence");
    check_argument(unmask::read_replay(text) == nullptr, "policy", text, "other than a replay");
    const unmask::policy_requirements r = unmask::requirements_of(
        unmask::read_policy(text), model_of(o), capacity_of(o), shape_of(q));
    unmask_requirements answer = UNMASK_REQUIREMENTS_INIT;
    answer.window = r.window;
    answer.most_forwards = r.most_forwards;
    answer.state_bytes = r.state_bytes;
    give(requirements, answer, "requirements");
  });
}

unmask_status
unmask_create(const char* policy, const unmask_options* options, unmask_session** session) {
  return guarded([&] {
    needed(session, "session") = nullptr;
    const unmask_options o = known_part_of(options, UNMASK_OPTIONS_INIT, "options");
    check_argument(o.memory_space == UNMASK_HOST || o.memory_space == UNMASK_DEVICE,
                   "options->memory_space",
                   o.memory_space,
                   "UNMASK_HOST or UNMASK_DEVICE");
    if (o.memory_space == UNMASK_DEVICE && !has_device) {
      throw unsupported("this library was built without a device (UNMASK_C_API_CUDA): "
                        "options->memory_space must be UNMASK_HOST");
    }
    check_argument(o.memory_space == UNMASK_DEVICE || o.stream == nullptr,
                   "options->stream",
                   "a stream",
                   "null where options->memory_space is UNMASK_HOST");
    check_argument(
        o.threads >= 1 && o.threads <= 1024, "options->threads", o.threads, "in [1, 1024]");
    std::unique_ptr<const unmask::loaded_replay> replay =
        unmask::read_replay(&needed(policy, "policy"));
    const unmask::named_parts parts =
        replay != nullptr ? unmask::named_parts{} : unmask::read_policy(policy);
    if (replay != nullptr && o.memory_space == UNMASK_DEVICE) {
      throw unsupported("a replay of a session whose tokens are on a device");
    }
    const unmask::model_info model = model_of(o);
    unmask::validate(model);
    const unmask::session_capacity capacity = unmask::validated(capacity_of(o));
    auto made = std::make_unique<unmask_session>(parts, model, capacity, o, std::move(replay));
    made->policy = policy;
    *session = made.release();
  });
}

void unmask_destroy(unmask_session* session) {
  delete session;
}

unmask_status unmask_start(unmask_session* session,
                           std::int32_t slot,
                           std::int32_t* tokens,
                           std::int32_t count,
                           const unmask_sequence* sequence) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const unmask_sequence q = known_part_of(sequence, UNMASK_SEQUENCE_INIT, "sequence");
    check_argument(tokens != nullptr, "tokens", "null", "a pointer");
    check_argument(q.suppressed != nullptr || q.suppressed_count == 0,
                   "sequence->suppressed",
                   "null",
                   "a pointer");
    unmask::start_options options;
    options.suppressed = {q.suppressed, q.suppressed_count};
    if (q.editable != nullptr) {
      options.editable = {q.editable, static_cast<std::size_t>(std::max(q.length, 0))};
    }
    const unmask::sequence_shape shape = shape_of(q);
    if (s.replay != nullptr) {
      s.replay->check_editable(options.editable, shape);
    }
    s.start(slot, q.policy, tokens, count, shape, options);
    if (s.trace) {
      s.trace->start({.slot = slot,
                      .shape = shape,
                      .tokens = {tokens, static_cast<std::size_t>(shape.length)},
                      .editable = q.editable});
    }
    s.started[static_cast<std::size_t>(slot)] = true;
  });
}

unmask_status unmask_next(unmask_session* session, unmask_request* request) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(request != nullptr, "request", "null", "a pointer");
    give(request, answer_of(s, s.session->next()), "request");
  });
}

unmask_status unmask_next_slots(unmask_session* session,
                                const std::int32_t* slots,
                                std::int32_t count,
                                unmask_request* request) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(count >= 0, "count", count, "at least 0");
    check_argument(slots != nullptr || count == 0, "slots", "null", "a pointer");
    check_argument(request != nullptr, "request", "null", "a pointer");
    const auto wanted = s.session->next(std::span(slots, static_cast<std::size_t>(count)));
    give(request, answer_of(s, wanted), "request");
  });
}

unmask_status unmask_supply(unmask_session* session, const unmask_logits* logits) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    s.session->supply(rows_of(known_part_of(logits, UNMASK_LOGITS_INIT, "logits")));
    was_supplied(s);
  });
}

unmask_status unmask_supply_segments(unmask_session* session,
                                     const unmask_logits* tensors,
                                     const unmask_modifiers* modifiers,
                                     std::int32_t count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(count >= 0 && static_cast<std::size_t>(count) <= s.segments.size(),
                   "count",
                   count,
                   "the number of segments of the request, ",
                   s.segments.size());
    check_argument(tensors != nullptr || count == 0, "tensors", "null", "a pointer");
    s.tensors.clear();
    s.modifiers.clear();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      s.tensors.push_back(
          rows_of(known_part_of(element(tensors, i), UNMASK_LOGITS_INIT, "tensors"), "tensors"));
      if (modifiers != nullptr) {
        s.modifiers.push_back(
            modifiers_of(known_part_of(element(modifiers, i), UNMASK_MODIFIERS_INIT, "modifiers")));
      }
    }
    s.session->supply(s.tensors, s.modifiers);
    was_supplied(s);
  });
}

unmask_status unmask_get_report(unmask_session* session, std::int32_t slot, unmask_report* report) {
  return guarded([&] {
    const unmask::sequence_report& r = needed(session, "session").session->report(slot);
    unmask_report answer = UNMASK_REPORT_INIT;
    answer.end = static_cast<std::int32_t>(r.end);
    answer.forwards = r.forwards;
    answer.committed = r.committed;
    answer.committed_prefix = r.committed_prefix;
    answer.masked = r.masked;
    answer.rewritten = r.rewritten;
    answer.forced = r.forced;
    answer.invalid_rows = r.invalid_rows;
    answer.second_reads = r.second_reads;
    give(report, answer, "report");
  });
}

unmask_status unmask_get_plan(unmask_session* session, std::int32_t slot, unmask_plan* plan) {
  return guarded([&] {
    const unmask::plan& p = needed(session, "session").session->planned(slot);
    unmask_plan answer = UNMASK_PLAN_INIT;
    answer.winner = p.winner;
    answer.freeze_first = p.freeze.first;
    answer.freeze_last = p.freeze.last;
    answer.refresh = p.refresh ? 1 : 0;
    give(plan, answer, "plan");
  });
}

unmask_status unmask_abandon(unmask_session* session) {
  return guarded([&] { needed(session, "session").session->abandon(); });
}

unmask_status unmask_cancel_request(unmask_session* session) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    for (const unmask::segment& cancelled : s.session->cancel_request()) {
      if (s.trace && cancelled.branch == 0) {
        s.trace->end(cancelled.slot, s.session->report(cancelled.slot));
        check_recording(s);
      }
    }
  });
}

unmask_status unmask_cancel(unmask_session* session, std::int32_t slot) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    s.session->cancel(slot);
    if (s.trace) {
      s.trace->end(slot, s.session->report(slot));
      check_recording(s);
    }
  });
}

unmask_status unmask_committed(unmask_session* session,
                               std::int32_t slot,
                               const unmask_commit** entries,
                               std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.session->committed(slot);
    s.commits.clear();
    for (const unmask::commit_entry& e : from) {
      s.commits.push_back(commit_of(e, true));
    }
    lend(s.commits, entries, count);
  });
}

unmask_status unmask_candidates(unmask_session* session,
                                std::int32_t slot,
                                const unmask_candidate** entries,
                                std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.session->candidates(slot);
    s.candidates.clear();
    for (const unmask::candidate_entry& e : from) {
      s.candidates.push_back({commit_of(e, e.committed),
                              static_cast<std::int32_t>(e.outcome),
                              e.part,
                              e.confidence,
                              e.margin,
                              e.entropy});
    }
    lend(s.candidates, entries, count);
  });
}

unmask_status unmask_record(unmask_session* session, const char* file, const char* model) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(file != nullptr, "file", "null", "a name");
    check_argument(model != nullptr, "model", "null", "a name");
    if (s.space == unmask::memory::device) {
      throw unsupported("unmask_record() of a session whose tokens are on a device");
    }
    unmask::check_order(s.capacity.trace, "unmask_record() without unmask_options::trace");
    unmask::check_order(std::ranges::find(s.started, true) == s.started.end() && !s.trace,
                        "unmask_record() after unmask_start(), or twice");
    s.file.emplace(file);
    s.trace.emplace(*s.file,
                    unmask::trace_head{.model = model,
                                       .info = s.model,
                                       .policy = s.policy,
                                       .parts = unmask::part_texts(s.policy)});
  });
}

unmask_status unmask_probabilities(unmask_session* session,
                                   std::int32_t slot,
                                   const unmask_probability** entries,
                                   std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.session->probabilities(slot);
    s.answers.clear();
    for (const unmask::token_probability& p : from) {
      s.answers.push_back({p.slot, p.position, p.token, p.step, p.probability, p.share});
    }
    lend(s.answers, entries, count);
  });
}

unmask_status unmask_decide(unmask_session* session,
                            std::int32_t slot,
                            std::int32_t* tokens,
                            std::int32_t count,
                            const std::uint8_t* editable,
                            std::uint64_t seed,
                            const unmask_logits* logits,
                            std::uint8_t* transfer) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(tokens != nullptr, "tokens", "null", "a pointer");
    check_argument(transfer != nullptr, "transfer", "null", "a pointer");
    check_argument(s.wants_a_loop.empty(),
                   "the policy of unmask_decide()",
                   s.wants_a_loop,
                   "one that looks at one step alone, for others there are unmask_start(), "
                   "unmask_next() and unmask_supply()");
    check_argument(count >= 1 && count <= s.capacity.window,
                   "count",
                   count,
                   "in [1, ",
                   s.capacity.window,
                   "], the smaller of unmask_options::window and length");
    const unmask::any_rows rows = rows_of(known_part_of(logits, UNMASK_LOGITS_INIT, "logits"));
    check_argument(rows.space == s.space,
                   "logits->memory_space",
                   rows.space == unmask::memory::host ? "UNMASK_HOST" : "UNMASK_DEVICE",
                   "that of the session");
    check_argument(rows.rows == count, "logits->rows", rows.rows, "count = ", count);
    check_argument(rows.columns >= s.model.vocab,
                   "logits->columns",
                   rows.columns,
                   "at least unmask_options::vocab = ",
                   s.model.vocab);
    unmask::detail::validate(rows, {}, s.model.vocab);  // behind start() nothing may be refused
    for (std::size_t i = 0; i < s.started.size(); ++i) {
      unmask::check_order(!s.started[i] || s.session->report(static_cast<std::int32_t>(i)).end !=
                                               unmask::ending::running,
                          "unmask_decide() in a session in which a sequence runs");
    }
    const auto size = static_cast<std::size_t>(count);
    const std::int32_t* seen = editable == nullptr ? s.seen(tokens, size) : nullptr;
    for (std::size_t i = 0; i < size; ++i) {
      const bool masked = editable == nullptr ? seen[i] == s.model.mask_token : editable[i] != 0;
      s.editable[i] = masked ? 1 : 0;
    }
    unmask::start_options options;
    options.editable = {s.editable.data(), size};
    s.session->start(
        slot, tokens, count, {.length = count, .block_length = count, .seed = seed}, options);
    if (const auto wanted = s.session->next()) {
      s.session->supply(rows.subrows(wanted->segments[0].rows));
      s.session->cancel(slot);
    }
    seen = s.seen(tokens, size);
    for (std::size_t i = 0; i < size; ++i) {
      transfer[i] = s.editable[i] != 0 && seen[i] != s.model.mask_token ? 1 : 0;
    }
  });
}

}  // extern "C"
