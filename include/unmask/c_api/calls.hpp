// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api.h>
#include <unmask/c_api/constraint.hpp>
#include <unmask/c_api/session.hpp>
#include <unmask/c_api/translate.hpp>
#include <unmask/named_requirements.hpp>
#include <unmask/trace/part_texts.hpp>
#include <unmask/version.hpp>

#include <map>
#include <mutex>

// The calls of c_api.h about policies, sessions and passes. For c_library.hpp, which defines them.

namespace UNMASK_NAMESPACE::detail::c_api {

static_assert(sizeof(unmask_options) == 72 && sizeof(unmask_sequence) == 72 &&
                  sizeof(unmask_constrained_field) == 32 && sizeof(unmask_segment) == 64 &&
                  sizeof(unmask_modifiers) == 40 && sizeof(unmask_commit) == 36 &&
                  sizeof(unmask_candidate) == 56 && sizeof(unmask_probability) == 24 &&
                  sizeof(unmask_report) == 56 && sizeof(unmask_plan) == 20 &&
                  sizeof(unmask_requirements) == 24 && sizeof(unmask_model) == 88,
              "the sizes of version 1");
static_assert(UNMASK_FILLED == static_cast<int>(unmask::candidate_outcome::filled) &&
              UNMASK_NO_TOKEN == unmask::no_token &&
              UNMASK_F16 == static_cast<int>(unmask::element_kind::f16) &&
              UNMASK_BF16 == static_cast<int>(unmask::element_kind::bf16) &&
              UNMASK_CANCELLED == static_cast<int>(unmask::ending::cancelled) &&
              UNMASK_IDLE == static_cast<int>(unmask::ending::idle));

inline unmask_model structure_of(const unmask::known_model& m) {
  return {m.word.data(),  // literals
          m.models.data(),
          m.text.data(),
          m.source.data(),
          m.date.data(),
          m.block_length,
          m.answer_length,
          m.whole_blocks ? 1 : 0,
          m.beyond,
          m.mask_token,
          {m.eos_tokens[0], m.eos_tokens[1], m.eos_tokens[2]},
          m.logits_shift,
          m.proposes_mask ? 1 : 0,
          m.temperature};
}

// Returns the table of models, as structures of `size` bytes. One for each size that a caller
// knows.
inline unmask_status
lend_models(std::size_t size, const unmask_model** entries, std::int32_t* count) {
  return guarded([&] {
    static std::mutex one_at_a_time;
    static std::map<std::size_t, lent_array<unmask_model>> tables;
    needed(entries, "entries");
    needed(count, "count");
    checked_size<unmask_model>(size, "entry_size");
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    lent_array<unmask_model>& table = tables[size];
    if (table.size() == 0) {
      lent_array<unmask_model> made;
      made.clear(size);
      for (const unmask::known_model& m : unmask::known_models()) {
        made.push_back(structure_of(m));
      }
      table = std::move(made);
    }
    lend(table, entries, count);
  });
}

#ifdef UNMASK_C_API_CUDA
inline constexpr bool has_device = true;
#else
inline constexpr bool has_device = false;
#endif

inline unmask::model_info model_of(const unmask_options& o) {
  return {.vocab = o.vocab,
          .mask_token = o.mask_token,
          .eos_token = o.eos_token,
          .logits_shift = o.logits_shift,
          .suppress_mask = o.propose_mask == 0,
          .layers = o.layers,
          .causal_attention = (o.flags & UNMASK_CAUSAL_ATTENTION) != 0,
          .shadow_attention = (o.flags & UNMASK_SHADOW_ATTENTION) != 0};
}

inline unmask::session_capacity capacity_of(const unmask_options& o) {
  return {.sequences = o.sequences,
          .length = o.length,
          .window = o.window,
          .branches = o.branches,
          .trace = o.trace != 0};
}

inline unmask::sequence_shape shape_of(const unmask_sequence& q) {
  return {.prompt_length = q.prompt_length,
          .length = q.length,
          .block_length = q.block_length,
          .seed = q.seed,
          .sequence = q.sequence};
}

inline void check_flags(std::uint32_t flags, const char* name) {
  constexpr std::uint32_t all = UNMASK_NO_FILES | UNMASK_CAUSAL_ATTENTION | UNMASK_SHADOW_ATTENTION;
  unmask::check_argument((flags & ~all) == 0, name, flags, "a sum of unmask_flags");
}

// The options that do not depend on the policy; throws for those that no session has.
inline unmask_options checked(const unmask_options* options) {
  const unmask_options o = known_part_of(options, UNMASK_OPTIONS_INIT, "options");
  unmask::check_argument(o.memory_space == UNMASK_HOST || o.memory_space == UNMASK_DEVICE,
                         "options->memory_space",
                         o.memory_space,
                         "UNMASK_HOST or UNMASK_DEVICE");
  if (o.memory_space == UNMASK_DEVICE && !has_device) {
    throw unsupported("this library was built without a device (UNMASK_C_API_CUDA): "
                      "options->memory_space must be UNMASK_HOST");
  }
  unmask::check_argument(o.memory_space == UNMASK_DEVICE || o.stream == nullptr,
                         "options->stream",
                         "a stream",
                         "null where options->memory_space is UNMASK_HOST");
  unmask::check_argument(
      o.threads >= 1 && o.threads <= 1024, "options->threads", o.threads, "in [1, 1024]");
  check_flags(o.flags, "options->flags");
  unmask::validate(model_of(o));
  return o;
}

// Ends a recording whose file is full.
inline void check_recording(unmask_session& s) {
  if (s.trace && s.file && !s.trace->ok()) {
    const std::runtime_error error(s.file->error());
    s.trace.reset();
    throw error;
  }
}

// Gives the caller the request that `next` makes, and tells the trace of it.
template <class Next>
void give_request(unmask_session& s, unmask_request* request, const Next& next) {
  const unmask_request known =
      known_part_of(static_cast<const unmask_request*>(request), UNMASK_REQUEST_INIT, "request");
  const std::size_t segment_size =
      checked_size<unmask_segment>(known.segment_size, "request->segment_size");
  const std::optional<unmask::forward_request> wanted = s.with(next);
  if (s.trace && wanted && !s.is_requested) {
    s.trace->request(*wanted, *s.host);
    s.is_requested = true;
  }
  s.segments.clear(segment_size);
  s.placements.clear();
  unmask_request answer = UNMASK_REQUEST_INIT;
  if (wanted) {
    for (const unmask::segment& g : wanted->segments) {
      const unmask_placement* const placed =
          g.placed.empty() ? nullptr : s.placements.data() + s.placements.size();
      for (const unmask::placement& p : g.placed) {
        s.placements.push_back({p.position, p.token});
      }
      s.segments.push_back({g.slot,
                            g.branch,
                            g.query.first,
                            g.query.last,
                            g.keys.first,
                            g.keys.last,
                            g.rows.first,
                            g.rows.last,
                            g.first_row,
                            static_cast<std::int32_t>(g.evict),
                            g.logits_shift,
                            static_cast<std::int32_t>(g.placed.size()),
                            placed,
                            static_cast<std::int32_t>(g.attention),
                            g.shadow_of});
      unmask_session::demands& of = s.of_slot[static_cast<std::size_t>(g.slot)];
      if (of.dropped) {  // on a device a plan must not be waited for inside a pass
        of.blocks = s.with([&](auto& q) { return q.planned(g.slot).score; });
      }
    }
    answer.rows = wanted->rows;
  }
  answer.count = static_cast<std::int32_t>(s.segments.size());
  answer.segment_size = known.segment_size;
  answer.segments = s.segments.data();
  give(request, answer, "request");
}

// Writes the step that was decided into the trace.
inline void was_supplied(unmask_session& s) {
  if (s.trace && std::exchange(s.is_requested, false)) {
    s.trace->step(*s.host);
    check_recording(s);
  }
}

// Supplies a request. After a callback_error it is decided all the same.
template <class Supply>
void decide(unmask_session& s, const Supply& supply) {
  try {
    s.with(supply);
  } catch (const unmask::callback_error&) {
    was_supplied(s);
    throw;
  }
  was_supplied(s);
}

}  // namespace UNMASK_NAMESPACE::detail::c_api

using namespace unmask::detail::c_api;  // NOLINT: of the one file that defines the calls
using unmask::check_argument;           // NOLINT: as above

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
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
  return last_error;
}

const char* unmask_describe_parts(void) {
  try {
    static const std::string text = unmask::describe_parts();
    return text.c_str();
  } catch (...) {
    return "";
  }
}

unmask_status
unmask_list_models(std::size_t entry_size, const unmask_model** entries, std::int32_t* count) {
  return lend_models(entry_size, entries, count);
}

const char* unmask_model_of(const char* type, const char* checkpoint) {
  try {
    const unmask::known_model* const model =
        type == nullptr ? nullptr : unmask::model_of(type, checkpoint == nullptr ? "" : checkpoint);
    return model == nullptr ? nullptr : model->word.data();  // a literal
  } catch (...) {
    return nullptr;
  }
}

const char* unmask_describe_models(void) {
  try {
    static const std::string text = unmask::describe_models();
    return text.c_str();
  } catch (...) {
    return "";
  }
}

unmask_status unmask_check_policy(const char* policy) {
  return unmask_check_policy_with(policy, UNMASK_CAUSAL_ATTENTION | UNMASK_SHADOW_ATTENTION);
}

unmask_status unmask_check_policy_with(const char* policy, std::uint32_t flags) {
  return guarded([&] {
    const char* const text = &needed(policy, "policy");
    check_flags(flags, "flags");
    unmask_options options = UNMASK_OPTIONS_INIT;
    options.vocab = 2;
    options.mask_token = 1;
    options.layers = 1;
    options.flags = flags;
    const unmask::model_info model = model_of(options);
    const unmask::session_capacity capacity{.length = 1, .window = 1};
    const auto replay = replay_of(text, flags);
    const unmask::named_policy parts =
        replay != nullptr ? replay->policy() : policy_of(text, flags);
    static_cast<void>(unmask::named_session(parts, model, capacity));
  });
}

unmask_status unmask_get_requirements(const char* policy,
                                      const unmask_options* options,
                                      const unmask_sequence* sequence,
                                      unmask_requirements* requirements) {
  return guarded([&] {
    const char* const text = &needed(policy, "policy");
    const unmask_options o = checked(options);
    const unmask_sequence q = known_part_of(sequence, UNMASK_SEQUENCE_INIT, "sequence");
    check_argument(replay_of(text, o.flags) == nullptr, "policy", text, "other than a replay");
    const unmask::policy_requirements r =
        unmask::requirements_of(policy_of(text, o.flags), model_of(o), capacity_of(o), shape_of(q));
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
    const unmask_options o = checked(options);
    std::unique_ptr<const unmask::loaded_replay> replay =
        replay_of(&needed(policy, "policy"), o.flags);
    const unmask::named_policy parts =
        replay != nullptr ? replay->policy() : policy_of(policy, o.flags);
    if (replay != nullptr && o.memory_space == UNMASK_DEVICE) {
      throw unsupported("a replay of a session whose tokens are on a device");
    }
    const unmask::model_info model = model_of(o);
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
    options.soft_tokens = q.soft_tokens;
    if (q.editable != nullptr) {
      options.editable = {q.editable, static_cast<std::size_t>(std::max(q.length, 0))};
    }
    const std::vector<unmask::constrained_field> fields = fields_of(q);
    options.constraints = fields;
    s.reserve(fields.empty() ? 0 : static_cast<std::size_t>(s.capacity.length));
    const unmask::sequence_shape shape = shape_of(q);
    if (s.replay != nullptr) {
      s.replay->check_start(options, shape);
    }
    unmask::trace_sequence traced{.slot = slot,
                                  .shape = shape,
                                  .tokens = {tokens, static_cast<std::size_t>(shape.length)},
                                  .options = options};
    if (s.trace) {
      unmask::validate_start(s.model, s.capacity, slot, tokens, count, shape, options);
      if (q.policy != nullptr) {
        traced.policy = std::make_shared<const unmask::trace_policy>(
            unmask::trace_policy{q.policy, unmask::part_texts(q.policy)});
      }
      s.trace->reserve(traced);
    }
    s.reserve_answers(q.soft_tokens);
    s.start(slot, q.policy, tokens, count, shape, options);
    s.started[static_cast<std::size_t>(slot)] = true;
    if (s.trace) {
      s.trace->start(traced, *s.host);
      if (s.host->report(slot).end != unmask::ending::running) {
        check_recording(s);
      }
    }
  });
}

unmask_status unmask_next(unmask_session* session, unmask_request* request) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    give_request(s, request, [](auto& q) { return q.next(); });
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
    const std::span some(slots, static_cast<std::size_t>(count));
    give_request(s, request, [&](auto& q) { return q.next(some); });
  });
}

unmask_status unmask_supply(unmask_session* session, const unmask_logits* logits) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const unmask::any_rows rows = rows_of(known_part_of(logits, UNMASK_LOGITS_INIT, "logits"));
    decide(s, [&](auto& q) { q.supply(rows); });
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
      s.tensors.push_back(rows_of(
          known_part_of(structure_at(tensors, i), UNMASK_LOGITS_INIT, "tensors"), "tensors"));
      if (modifiers != nullptr) {
        s.modifiers.push_back(modifiers_of(
            known_part_of(structure_at(modifiers, i), UNMASK_MODIFIERS_INIT, "modifiers")));
      }
    }
    decide(s, [&](auto& q) { q.supply(s.tensors, s.modifiers); });
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
