// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/calls.hpp>
#include <unmask/c_api/passes.hpp>
#include <unmask/c_layers.h>

// The calls of c_layers.h. For c_library.hpp, which defines them.

namespace UNMASK_NAMESPACE::detail::c_api {

static_assert(sizeof(unmask_layer_rule) == 24 && sizeof(unmask_stored) == 40 &&
                  sizeof(unmask_eviction) == 32 && sizeof(unmask_device_list) == 32,
              "the sizes of version 1");
static_assert(UNMASK_VALUE == static_cast<int>(unmask::feature::value) &&
              UNMASK_EVICT_CHOOSE == static_cast<int>(unmask::eviction::choose) &&
              UNMASK_EVICT_CHOSEN == static_cast<int>(unmask::eviction::chosen));

// Eviction in the pass of a segment.
inline unmask_eviction eviction_of(unmask_session* session, const unmask::segment& about) {
  const unmask_session::demands& of = session->of_slot[static_cast<std::size_t>(about.slot)];
  const unmask::range blocks =
      of.dropped ? of.blocks : session->with([&](auto& q) { return q.planned(about.slot).score; });
  unmask_eviction answer = UNMASK_EVICTION_INIT;
  answer.evict = static_cast<std::int32_t>(about.evict);
  answer.first = blocks.first;
  answer.last = blocks.last;
  if (of.dropped) {
    answer.keep = of.dropped->keep;
    answer.pool = of.dropped->pool;
  }
  return answer;
}

// Eviction in a pass that selects the keys of a layer.
inline unmask_eviction selection_of(unmask_session* session,
                                    const unmask::segment& about,
                                    const float* scores,
                                    std::int32_t scores_count) {
  const unmask_eviction e = eviction_of(session, about);
  unmask::check_order(e.evict == UNMASK_EVICT_CHOOSE,
                      "selection of keys in a pass that selects none: select them where "
                      "unmask_segment::evict is UNMASK_EVICT_CHOOSE");
  check_argument(scores != nullptr, "scores", "null", "a pointer");
  check_argument(scores_count == about.keys.last,
                 "scores_count",
                 scores_count,
                 "unmask_segment::keys_last = ",
                 about.keys.last);
  return e;
}

inline unmask::any_rows keys_of(const unmask_logits* keys, const void* query, const float* scores) {
  const unmask::any_rows rows = rows_of(known_part_of(keys, UNMASK_LOGITS_INIT, "keys"), "keys");
  check_argument(query != nullptr, "query", "null", "a pointer");
  check_argument(scores != nullptr, "scores", "null", "a pointer");
  return rows;
}

// Stored rows; their fields are checked like the fields of logits.
inline unmask::any_state state_of(const unmask_stored& g) {
  check_argument(g.last >= g.first && g.first >= 0, "stored->first", g.first, "in [0, last]");
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
  return state;
}

inline unmask_device_list list_of(const unmask::device_list& l) {
  return {sizeof(unmask_device_list), l.most, l.first, l.data, l.count};
}

#ifdef UNMASK_C_API_CUDA
// Hooks of several segments in element type T, which `now` and `stored` are of.
template <class T>
void at_layer(unmask_session& s,
              std::int32_t layer,
              std::span<const std::int32_t> segments,
              const unmask_logits* now,
              const unmask_stored* stored,
              unmask_device_list* rows) {
  using unmask::memory;
  auto& hooks = std::get<device_hooks::list<T>>(s.hooks.all);
  hooks.clear();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const unmask::any_rows n =
        rows_of(known_part_of(structure_at(now, i), UNMASK_LOGITS_INIT, "now"), "now");
    const unmask::any_state g =
        state_of(known_part_of(structure_at(stored, i), UNMASK_STORED_INIT, "stored"));
    check_argument(static_cast<std::int32_t>(n.kind) == now->kind && n.kind == g.kind,
                   "kind of the rows of a segment",
                   static_cast<std::int32_t>(n.kind),
                   "that of its stored rows and of the first segment's, ",
                   now->kind);
    check_argument(n.space == memory::device && g.space == memory::device,
                   "memory_space of the rows at the layer and of the stored rows",
                   "UNMASK_HOST",
                   "UNMASK_DEVICE, that of the session");
    check_argument(segments[i] >= 0, "segment", segments[i], "at least 0");
    hooks.push_back({static_cast<std::size_t>(segments[i]),
                     {static_cast<const T*>(n.data), n.rows, n.columns, n.stride},
                     {static_cast<T*>(g.data), g.positions, g.columns, g.stride},
                     {}});
  }
  s.device->at_layer(layer, std::span(hooks));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    give(structure_at(rows, i), list_of(hooks[i].chosen.rows), "rows");
  }
}
#endif

// `info` is the layer_rule_info of a session or of a pass.
unmask_layer_rule rule_of(const auto& info, const unmask_session::demands& demands) {
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

}  // namespace UNMASK_NAMESPACE::detail::c_api

// NOLINTBEGIN(misc-definitions-in-headers): one file defines them
extern "C" {

unmask_status unmask_get_layer_rule(unmask_session* session, unmask_layer_rule* rule) {
  return guarded([&] {
    const unmask_session& s = needed(session, "session");
    give(rule, rule_of(s.own_rule, s.own), "rule");
  });
}

unmask_status
unmask_get_segment_rule(unmask_session* session, std::int32_t segment, unmask_layer_rule* rule) {
  return guarded([&] {
    with_pass(session, segment, [&](const auto& pass) {
      const auto slot = static_cast<std::size_t>(pass.about().slot);
      give(rule, rule_of(pass, session->of_slot[slot]), "rule");
    });
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
  return guarded([&] {
    with_pass(session, segment, [&](const auto& pass) {
      needed(hooked, "hooked") = pass.hooks(layer) ? 1 : 0;
    });
  });
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
    const unmask::any_state state = state_of(known_part_of(stored, UNMASK_STORED_INIT, "stored"));
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
  return guarded([&] {
    with_pass(session, segment, [&](const auto& pass) {
      give(eviction, eviction_of(session, pass.about()), "eviction");
    });
  });
}

unmask_status unmask_score_keys(const unmask_logits* keys, const void* query, float* scores) {
  return guarded([&] {
    const unmask::any_rows rows = keys_of(keys, query, scores);
    if (rows.space != unmask::memory::host) {
      throw unsupported("unmask_score_keys() of keys on a device: keys->memory_space must be "
                        "UNMASK_HOST, or call unmask_device_score_keys()");
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
    const unmask_eviction e =
        selection_of(session, pass_of(session, segment).about(), scores, scores_count);
    needed(positions, "positions") = nullptr;
    needed(count, "count") = 0;
    lend(session->selector->select(std::span(scores, static_cast<std::size_t>(scores_count)),
                                   {e.first, e.last},
                                   e.keep,
                                   e.pool),
         positions,
         count);
  });
}

unmask_status unmask_device_positions(unmask_session* session,
                                      std::int32_t segment,
                                      unmask_device_list* positions) {
  return guarded([&] {
    with_device_pass(session, segment, [&](auto&, const auto& pass) {
      give(positions, list_of(pass.positions()), "positions");
    });
  });
}

unmask_status
unmask_device_rows(unmask_session* session, std::int32_t segment, unmask_device_list* rows) {
  return guarded([&] {
    with_device_pass(session, segment, [&](auto&, const auto& pass) {
      give(rows, list_of(pass.rows()), "rows");
    });
  });
}

unmask_status unmask_device_at_layer(unmask_session* session,
                                     std::int32_t layer,
                                     const std::int32_t* segments,
                                     const unmask_logits* now,
                                     const unmask_stored* stored,
                                     std::int32_t count,
                                     unmask_device_list* rows) {
  return guarded([&] {
    check_device(session);
    with_device_pass(
        session, count > 0 ? needed(segments, "segments") : 0, [&](auto& s, const auto&) {
          check_argument(count >= 1 && count <= s.capacity.sequences,
                         "count",
                         count,
                         "in [1, ",
                         s.capacity.sequences,
                         "], the sequences of the session");
          checked_size<unmask_device_list>(needed(rows, "rows").struct_size, "rows->struct_size");
          const std::span list(segments, static_cast<std::size_t>(count));
          static_cast<void>(known_part_of(stored, UNMASK_STORED_INIT, "stored"));
          switch (rows_of(known_part_of(now, UNMASK_LOGITS_INIT, "now"), "now").kind) {
          case unmask::element_kind::f32:
            return at_layer<float>(s, layer, list, now, stored, rows);
          case unmask::element_kind::bf16:
            return at_layer<unmask::bfloat16>(s, layer, list, now, stored, rows);
          case unmask::element_kind::f16:
            return at_layer<unmask::float16>(s, layer, list, now, stored, rows);
          }
        });
  });
}

unmask_status unmask_device_score_keys(unmask_session* session,
                                       const unmask_logits* keys,
                                       const void* query,
                                       float* scores) {
  return guarded([&] {
    const unmask::any_rows rows = keys_of(keys, query, scores);
    check_argument(
        rows.space == unmask::memory::device, "keys->memory_space", "UNMASK_HOST", "UNMASK_DEVICE");
    needed(session, "session").with_keys("unmask_device_score_keys()", [&](auto& selectors) {
      selectors.score(rows, query, scores);
    });
  });
}

unmask_status unmask_device_select_keys(unmask_session* session,
                                        std::int32_t segment,
                                        std::int32_t layer,
                                        const float* scores,
                                        std::int32_t scores_count,
                                        unmask_device_list* positions) {
  return guarded([&] {
    with_device_pass(session, segment, [&](auto& s, const auto& pass) {
      const unmask::segment about = pass.about();
      const unmask_eviction e = selection_of(&s, about, scores, scores_count);
      const std::int32_t layers = s.model.layers;
      const auto slot = static_cast<std::size_t>(about.slot);
      check_argument(layer >= 0 && layer < layers,
                     "layer",
                     layer,
                     "in [0, model_info::layers = ",
                     layers,
                     ")");
      static_cast<void>(needed(positions, "positions"));
      s.with_keys("unmask_device_select_keys()", [&](auto& selectors) {
        give(positions,
             list_of(selectors.select(slot * static_cast<std::size_t>(layers) +
                                          static_cast<std::size_t>(layer),
                                      scores,
                                      scores_count,
                                      {e.first, e.last},
                                      e.keep,
                                      e.pool)),
             "positions");
      });
    });
  });
}

}  // extern "C"
// NOLINTEND(misc-definitions-in-headers)
