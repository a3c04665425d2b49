// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>

// The calls of c_api.h about results, recordings and single steps. For c_library.hpp.

namespace UNMASK_NAMESPACE::detail::c_api {

inline unmask_commit structure_of(const unmask::commit_entry& e) {
  return {e.slot, e.position, e.token, e.log_probability, e.step, e.block, e.block_step, 1, e.rank};
}
inline unmask_candidate structure_of(const unmask::candidate_entry& e) {
  return {e.slot,
          e.position,
          e.token,
          e.log_probability,
          e.step,
          e.block,
          e.block_step,
          e.committed ? 1 : 0,
          static_cast<std::int32_t>(e.outcome),
          e.part,
          e.confidence,
          e.margin,
          e.entropy,
          e.rank};
}
inline unmask_probability structure_of(const unmask::token_probability& p) {
  return {p.slot, p.position, p.token, p.step, p.probability, p.share};
}

// Returns the list that `get` returns of a session, as structures of `size` bytes in `list`.
template <class T, class Get>
unmask_status lend_list(unmask_session* session,
                        lent_array<T> unmask_session::* list,
                        std::size_t size,
                        const T** entries,
                        std::int32_t* count,
                        const Get& get) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.with(get);
    lent_array<T>& to = s.*list;
    to.clear(checked_size<T>(size, "entry_size"));
    for (const auto& e : from) {
      to.push_back(structure_of(e));
    }
    lend(to, entries, count);
  });
}

}  // namespace UNMASK_NAMESPACE::detail::c_api

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_get_report(unmask_session* session, std::int32_t slot, unmask_report* report) {
  return guarded([&] {
    const unmask::sequence_report r =
        needed(session, "session").with([&](auto& q) { return q.report(slot); });
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
    answer.answer_end = r.answer_end;
    answer.refused = r.refused;
    answer.filled = r.filled;
    answer.constraint_met = r.constraint_met ? 1 : 0;
    give(report, answer, "report");
  });
}

unmask_status unmask_get_plan(unmask_session* session, std::int32_t slot, unmask_plan* plan) {
  return guarded([&] {
    const unmask::plan p =
        needed(session, "session").with([&](auto& q) { return q.planned(slot); });
    unmask_plan answer = UNMASK_PLAN_INIT;
    answer.winner = p.winner;
    answer.freeze_first = p.freeze.first;
    answer.freeze_last = p.freeze.last;
    answer.refresh = p.refresh ? 1 : 0;
    give(plan, answer, "plan");
  });
}

unmask_status unmask_abandon(unmask_session* session) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    s.with([](auto& q) { q.abandon(); });
    s.is_requested = false;
  });
}

unmask_status unmask_cancel_request(unmask_session* session) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    s.with([](auto& q) { q.cancel_request(); });
    s.is_requested = false;
    if (s.trace) {
      s.trace->end(*s.host);
      check_recording(s);
    }
  });
}

unmask_status unmask_cancel(unmask_session* session, std::int32_t slot) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    s.with([&](auto& q) { q.cancel(slot); });
    if (s.trace) {
      s.trace->end(slot, s.host->report(slot));
      check_recording(s);
    }
  });
}

// The calls that return a list of the session, `name`, whose elements are `T` in C.
#define UNMASK_LIST_CALL(name, T, list)                                                            \
  unmask_status unmask_##name(unmask_session* session,                                             \
                              std::int32_t slot,                                                   \
                              std::size_t entry_size,                                              \
                              const T** entries,                                                   \
                              std::int32_t* count) {                                               \
    return lend_list(session, &unmask_session::list, entry_size, entries, count, [&](auto& q) {    \
      return q.name(slot);                                                                         \
    });                                                                                            \
  }
UNMASK_LIST_CALL(committed, unmask_commit, commits)
UNMASK_LIST_CALL(candidates, unmask_candidate, candidates)
UNMASK_LIST_CALL(probabilities, unmask_probability, answers)
UNMASK_LIST_CALL(soft_tokens, unmask_probability, answers)
UNMASK_LIST_CALL(alternatives, unmask_probability, answers)
#undef UNMASK_LIST_CALL

unmask_status unmask_record(unmask_session* session, const char* file, const char* model) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(file != nullptr, "file", "null", "a name");
    check_argument(model != nullptr, "model", "null", "a name");
    if (s.host == nullptr) {
      throw unsupported("unmask_record() of a session whose tokens are on a device");
    }
    unmask::check_order(s.capacity.trace, "unmask_record() without unmask_options::trace");
    unmask::check_order(std::ranges::find(s.started, true) == s.started.end() && !s.trace,
                        "unmask_record() after unmask_start(), or twice");
    unmask::trace_head head{
        .model = model, .info = s.model, .policy = s.policy, .parts = unmask::part_texts(s.policy)};
    s.file.emplace(file);
    s.trace.emplace(*s.file, std::move(head));
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
    unmask::detail::validate(rows, s.model.vocab);  // behind start() nothing may be refused
    for (std::size_t i = 0; i < s.started.size(); ++i) {
      const auto slot_i = static_cast<std::int32_t>(i);
      unmask::check_order(!s.started[i] || s.with([&](auto& q) { return q.report(slot_i).end; }) !=
                                               unmask::ending::running,
                          "unmask_decide() in a session in which a sequence runs");
    }
    const auto size = static_cast<std::size_t>(count);
    const std::int32_t* seen = editable == nullptr ? s.seen(tokens, size) : nullptr;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint8_t is_mask = seen != nullptr && seen[i] == s.model.mask_token ? 1 : 0;
      s.editable[i] = editable == nullptr ? is_mask : editable[i];
    }
    unmask::start_options options;
    options.editable = {s.editable.data(), size};
    s.with([&](auto& q) {
      q.start(
          slot, {tokens, count}, {.length = count, .block_length = count, .seed = seed}, options);
      if (const auto wanted = q.next()) {
        q.supply(rows.subrows(wanted->segments[0].rows));
        q.cancel(slot);
      }
    });
    seen = s.seen(tokens, size);
    for (std::size_t i = 0; i < size; ++i) {
      transfer[i] = s.editable[i] == 1 && seen[i] != s.model.mask_token ? 1 : 0;
    }
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
