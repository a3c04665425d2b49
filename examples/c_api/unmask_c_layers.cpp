// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/c_layers.h>

#include "c_api/session.hpp"

// The part of the library behind include/unmask/c_layers.h.

namespace {

using namespace example;
using unmask::check_argument;

static_assert(sizeof(unmask_stored) == 40, "the layout since version 2");
static_assert(sizeof(unmask_layer_rule) == 24 && sizeof(unmask_eviction) == 32,
              "the layout since version 4");
static_assert(UNMASK_VALUE == static_cast<int>(unmask::feature::value) &&
              UNMASK_EVICT_CHOOSE == static_cast<int>(unmask::eviction::choose) &&
              UNMASK_EVICT_CHOSEN == static_cast<int>(unmask::eviction::chosen));

// The pass of a segment of the request.
unmask::any_layer_session::layer_pass pass_of(unmask_session* session, std::int32_t segment) {
  unmask::any_layer_session* const layers = needed(session, "session").layers;
  if (layers == nullptr) {
    throw unsupported("a session on a device has no layer hooks");
  }
  check_argument(segment >= 0, "segment", segment, "at least 0");
  return layers->pass(static_cast<std::size_t>(segment));
}

// Eviction in the pass of a segment.
unmask_eviction eviction_of(unmask_session* session, std::int32_t segment) {
  const unmask::segment about = pass_of(session, segment).about();
  const unmask::range blocks = session->session->planned(about.slot).score;
  unmask_eviction answer = UNMASK_EVICTION_INIT;
  answer.evict = static_cast<std::int32_t>(about.evict);
  answer.first = blocks.first;
  answer.last = blocks.last;
  if (const auto& dropped = session->of_slot[static_cast<std::size_t>(about.slot)].dropped) {
    answer.keep = dropped->keep;
    answer.pool = dropped->pool;
  }
  return answer;
}

unmask_layer_rule rule_of(const unmask::any_layer_session::layer_rule_info& info,
                          const unmask_session::demands& demands) {
  unmask_layer_rule answer = UNMASK_LAYER_RULE_INIT;
  answer.has_hooks = info.has_hooks ? 1 : 0;
  answer.reads = static_cast<std::int32_t>(info.reads);
  answer.kept = info.skipped == unmask::skipping::kept ? 1 : 0;
  answer.single_positions = demands.single_positions ? 1 : 0;
  answer.evicts = demands.dropped ? 1 : 0;
  return answer;
}

template <class T>
void score(const unmask::any_rows& keys, const void* query, float* scores) {
  const unmask::rows_view<T, unmask::memory::host> rows(
      static_cast<const T*>(keys.data), keys.rows, keys.columns, keys.stride);
  unmask::validate(rows, 1, "", "keys");
  const auto columns = static_cast<std::size_t>(keys.columns);
  unmask::host::score_keys<T>(rows,
                              std::span(static_cast<const T*>(query), columns),
                              std::span(scores, static_cast<std::size_t>(keys.rows)));
}

}  // namespace

extern "C" {

unmask_status unmask_get_layer_rule(unmask_session* session, unmask_layer_rule* rule) {
  return guarded([&] {
    const unmask_session& s = needed(session, "session");
    give(rule,
         s.layers == nullptr ? unmask_layer_rule(UNMASK_LAYER_RULE_INIT)
                             : rule_of(s.layers->rule_info(), s.own),
         "rule");
  });
}

unmask_status
unmask_get_segment_rule(unmask_session* session, std::int32_t segment, unmask_layer_rule* rule) {
  return guarded([&] {
    const auto pass = pass_of(session, segment);
    const auto slot = static_cast<std::size_t>(pass.about().slot);
    give(rule, rule_of(pass, session->of_slot[slot]), "rule");
  });
}

unmask_status unmask_positions(unmask_session* session,
                               std::int32_t segment,
                               const std::int32_t** positions,
                               std::int32_t* count) {
  return guarded([&] { lend(pass_of(session, segment).positions(), positions, count); });
}

unmask_status unmask_hooks(unmask_session* session,
                           std::int32_t segment,
                           std::int32_t layer,
                           std::int32_t* hooked) {
  return guarded(
      [&] { needed(hooked, "hooked") = pass_of(session, segment).hooks(layer) ? 1 : 0; });
}

unmask_status unmask_at_layer(unmask_session* session,
                              std::int32_t segment,
                              std::int32_t layer,
                              const unmask_logits* now,
                              const unmask_stored* stored,
                              const std::int32_t** rows,
                              std::int32_t* count) {
  return guarded([&] {
    auto pass = pass_of(session, segment);
    const unmask_stored g = known_part_of(stored, UNMASK_STORED_INIT, "stored");
    check_argument(g.last >= g.first && g.first >= 0, "stored->first", g.first, "in [0, last]");
    // Fields of both are checked once.
    const unmask::any_rows lent = rows_of({sizeof(unmask_logits),
                                           g.kind,
                                           g.memory_space,
                                           g.last - g.first,
                                           g.columns,
                                           g.stride,
                                           g.data},
                                          "stored");
    unmask::any_state state;
    state.data = g.data;
    state.kind = lent.kind;
    state.space = lent.space;
    state.positions = {g.first, g.last};
    state.columns = lent.columns;
    state.stride = lent.stride;
    needed(rows, "rows") = nullptr;
    needed(count, "count") = 0;
    const unmask::any_rows shown = rows_of(known_part_of(now, UNMASK_LOGITS_INIT, "now"), "now");
    lend(pass.at_layer(layer, shown, state).rows, rows, count);
  });
}

unmask_status unmask_rows(unmask_session* session,
                          std::int32_t segment,
                          const std::int32_t** rows,
                          std::int32_t* count) {
  return guarded([&] { lend(pass_of(session, segment).rows(), rows, count); });
}

unmask_status
unmask_get_eviction(unmask_session* session, std::int32_t segment, unmask_eviction* eviction) {
  return guarded([&] { give(eviction, eviction_of(session, segment), "eviction"); });
}

unmask_status unmask_score_keys(const unmask_logits* keys, const void* query, float* scores) {
  return guarded([&] {
    const unmask::any_rows rows = rows_of(known_part_of(keys, UNMASK_LOGITS_INIT, "keys"), "keys");
    check_argument(query != nullptr, "query", "null", "a pointer");
    check_argument(scores != nullptr, "scores", "null", "a pointer");
    if (rows.space != unmask::memory::host) {
      throw unsupported("unmask_score_keys() of keys on a device: keys->memory_space must be "
                        "UNMASK_HOST");
    }
    switch (rows.kind) {
    case unmask::element_kind::f32:
      score<float>(rows, query, scores);
      break;
    case unmask::element_kind::bf16:
      score<unmask::bfloat16>(rows, query, scores);
      break;
    case unmask::element_kind::f16:
      score<unmask::float16>(rows, query, scores);
      break;
    }
  });
}

unmask_status unmask_select_keys(unmask_session* session,
                                 std::int32_t segment,
                                 const float* scores,
                                 std::int32_t scores_count,
                                 const std::int32_t** positions,
                                 std::int32_t* count) {
  return guarded([&] {
    const unmask_eviction about = eviction_of(session, segment);
    unmask::check_order(about.evict == UNMASK_EVICT_CHOOSE,
                        "unmask_select_keys() in a pass that selects none: call it where "
                        "unmask_segment::evict is UNMASK_EVICT_CHOOSE");
    check_argument(scores != nullptr, "scores", "null", "a pointer");
    const std::int32_t keys = pass_of(session, segment).keys().last;
    check_argument(
        scores_count == keys, "scores_count", scores_count, "unmask_segment::keys_last = ", keys);
    needed(positions, "positions") = nullptr;
    needed(count, "count") = 0;
    lend(session->selector->select(std::span(scores, static_cast<std::size_t>(scores_count)),
                                   {about.first, about.last},
                                   about.keep,
                                   about.pool),
         positions,
         count);
  });
}

}  // extern "C"
