// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>

// The calls of c_api.h about results, recordings and single steps. For c_library.hpp.

namespace UNMASK_NAMESPACE::detail::c_api {

inline unmask_commit commit_of(const unmask::commit_entry& e, bool committed) {
  return {e.slot,
          e.position,
          e.token,
          e.log_probability,
          e.step,
          e.block,
          e.block_step,
          committed ? 1 : 0,
          e.rank};
}

// The session on the host whose tokens `call` needs there.
[[nodiscard]] inline auto& host_of(unmask_session& s, const char* call) {
  if (s.host == nullptr) {
    throw unsupported(std::string(call) + " of a session whose tokens are on a device");
  }
  return *s.host;
}

// Lends probabilities as structures of `size` bytes.
inline void lend_probabilities(unmask_session& s,
                               std::span<const unmask::token_probability> from,
                               std::size_t size,
                               const unmask_probability** entries,
                               std::int32_t* count) {
  s.answers.clear(checked_size<unmask_probability>(size, "entry_size"));
  for (const unmask::token_probability& p : from) {
    s.answers.push_back({p.slot, p.position, p.token, p.step, p.probability, p.share});
  }
  lend(s.answers, entries, count);
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

unmask_status unmask_committed(unmask_session* session,
                               std::int32_t slot,
                               std::size_t entry_size,
                               const unmask_commit** entries,
                               std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.with([&](auto& q) { return q.committed(slot); });
    s.commits.clear(checked_size<unmask_commit>(entry_size, "entry_size"));
    for (const unmask::commit_entry& e : from) {
      s.commits.push_back(commit_of(e, true));
    }
    lend(s.commits, entries, count);
  });
}

unmask_status unmask_candidates(unmask_session* session,
                                std::int32_t slot,
                                std::size_t entry_size,
                                const unmask_candidate** entries,
                                std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    const auto from = s.with([&](auto& q) { return q.candidates(slot); });
    s.candidates.clear(checked_size<unmask_candidate>(entry_size, "entry_size"));
    for (const unmask::candidate_entry& e : from) {
      s.candidates.push_back({e.slot,
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
                              e.rank});
    }
    lend(s.candidates, entries, count);
  });
}

unmask_status unmask_record(unmask_session* session, const char* file, const char* model) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    check_argument(file != nullptr, "file", "null", "a name");
    check_argument(model != nullptr, "model", "null", "a name");
    static_cast<void>(host_of(s, "unmask_record()"));
    unmask::check_order(s.capacity.trace, "unmask_record() without unmask_options::trace");
    unmask::check_order(std::ranges::find(s.started, true) == s.started.end() && !s.trace,
                        "unmask_record() after unmask_start(), or twice");
    unmask::trace_head head{
        .model = model, .info = s.model, .policy = s.policy, .parts = unmask::part_texts(s.policy)};
    s.file.emplace(file);
    s.trace.emplace(*s.file, std::move(head));
  });
}

unmask_status unmask_probabilities(unmask_session* session,
                                   std::int32_t slot,
                                   std::size_t entry_size,
                                   const unmask_probability** entries,
                                   std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    lend_probabilities(
        s, s.with([&](auto& q) { return q.probabilities(slot); }), entry_size, entries, count);
  });
}

unmask_status unmask_soft_tokens(unmask_session* session,
                                 std::int32_t slot,
                                 std::size_t entry_size,
                                 const unmask_probability** entries,
                                 std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    lend_probabilities(
        s, s.with([&](auto& q) { return q.soft_tokens(slot); }), entry_size, entries, count);
  });
}

unmask_status unmask_alternatives(unmask_session* session,
                                  std::int32_t slot,
                                  std::size_t entry_size,
                                  const unmask_probability** entries,
                                  std::int32_t* count) {
  return guarded([&] {
    unmask_session& s = needed(session, "session");
    lend_probabilities(
        s, s.with([&](auto& q) { return q.alternatives(slot); }), entry_size, entries, count);
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
