// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of the C interface inside the layers, on a device with emulated kernels: what they
// select is what those on the host select.

#include <unmask/c_layers.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/c_calls.hpp"
#include "unmask/device/streamed_engine.hpp"

namespace unmask::testing::layers_test {
namespace {

using namespace streamed;
using ::testing::HasSubstr;

constexpr std::size_t slots = 3;
constexpr std::size_t rows_size = std::size_t{length} * width;

[[nodiscard]] unmask_options options_on(cudaStream_t stream) {
  unmask_options o = UNMASK_OPTIONS_INIT;
  o.memory_space = stream == nullptr ? UNMASK_HOST : UNMASK_DEVICE;
  o.stream = stream;
  o.vocab = vocab;
  o.mask_token = vocab - 1;
  o.eos_token = vocab - 2;
  o.sequences = slots;
  o.length = length;
  o.window = length;
  o.layers = layers;
  return o;
}

void expect_ok(unmask_status got) {
  EXPECT_EQ(got, UNMASK_OK) << unmask_last_error();
}

/// The decode of three sequences, and the keys that were selected meanwhile.
struct decoded {
  std::vector<std::vector<std::int32_t>> tokens =
      std::vector<std::vector<std::int32_t>>(slots, std::vector<std::int32_t>(length, 2));
  std::vector<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t> forwards;
};

[[nodiscard]] session_pointer
started(const char* policy, const char* own, cudaStream_t stream, decoded& d) {
  session_pointer s = made(policy, options_on(stream));
  for (std::int32_t slot = 0; slot < std::int32_t{slots}; ++slot) {
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.prompt_length = 4 + slot;
    q.length = length;
    q.block_length = 12;
    q.policy = slot == 1 ? own : nullptr;
    expect_ok(unmask_start(s.get(), slot, d.tokens[std::size_t(slot)].data(), length, &q));
  }
  return s;
}

[[nodiscard]] unmask_logits view(const float* data, std::int32_t rows, std::int32_t space) {
  unmask_logits l = UNMASK_LOGITS_INIT;
  l.memory_space = space;
  l.rows = rows;
  l.columns = width;
  l.data = data;
  return l;
}
[[nodiscard]] unmask_stored stored_in(float* data, std::int32_t space) {
  unmask_stored g = UNMASK_STORED_INIT;
  g.memory_space = space;
  g.last = length;
  g.columns = width;
  g.data = data;
  return g;
}

/// Keys of a layer, and a query for them.
[[nodiscard]] std::vector<float> keys_of(index_t layer) {
  std::vector<float> keys(rows_size + width);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = weight(layer + 200, static_cast<index_t>(i), 1);
  }
  return keys;
}

void finish(unmask_session* s, decoded& d) {
  for (std::int32_t slot = 0; slot < std::int32_t{slots}; ++slot) {
    unmask_report report = UNMASK_REPORT_INIT;
    expect_ok(unmask_get_report(s, slot, &report));
    d.forwards.push_back(report.forwards);
  }
}

[[nodiscard]] decoded on_host_memory(const char* policy, const char* own) {
  decoded d;
  const session_pointer s = started(policy, own, nullptr, d);
  std::vector<engine_memory> engines(slots);
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    std::vector<float> logits;
    for (std::int32_t i = 0; i < request.count; ++i) {
      const unmask_segment g = request.segments[i];
      engine_memory& e = engines[std::size_t(g.slot)];
      unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
      expect_ok(unmask_get_segment_rule(s.get(), i, &rule));
      const std::int32_t* list = nullptr;
      std::int32_t count = 0;
      for (index_t l = 0; l < layers; ++l) {
        expect_ok(unmask_positions(s.get(), i, &list, &count));
        for (std::int32_t r = 0; r < count; ++r) {
          advance(e.hidden.data() + r * width, l, list[r], d.tokens[std::size_t(g.slot)].data());
        }
        if (g.evict == UNMASK_EVICT_CHOOSE) {
          const std::vector<float> keys = keys_of(l);
          std::vector<float> scores(std::size_t(g.keys_last));
          const unmask_logits k = view(keys.data(), g.keys_last, UNMASK_HOST);
          expect_ok(unmask_score_keys(&k, keys.data() + rows_size, scores.data()));
          const std::int32_t* kept = nullptr;
          std::int32_t size = 0;
          expect_ok(unmask_select_keys(s.get(), i, scores.data(), g.keys_last, &kept, &size));
          d.kept.emplace_back(kept, kept + size);
        }
        std::int32_t hooked = 0;
        expect_ok(unmask_hooks(s.get(), i, l, &hooked));
        if (hooked != 0) {
          const unmask_logits now = view(e.hidden.data(), count, UNMASK_HOST);
          const unmask_stored stored = stored_in(e.stored.data() + l * length * width, UNMASK_HOST);
          expect_ok(unmask_at_layer(s.get(), i, l, &now, &stored, &list, &count));
          if (rule.kept == 0) {
            host::gather_rows(host_hidden<float>(e.hidden.data(), now.rows, width),
                              std::span(list, std::size_t(count)),
                              e.hidden.data(),
                              width);
          }
        }
      }
      expect_ok(unmask_rows(s.get(), i, &list, &count));
      for (std::int32_t r = 0; r < count; ++r) {
        logits.resize(logits.size() + std::size_t{vocab});
        head(e.hidden.data() + list[r] * width, logits.data() + logits.size() - vocab);
      }
    }
    unmask_logits z = view(logits.data(), std::int32_t(logits.size()) / vocab, UNMASK_HOST);
    z.columns = vocab;
    expect_ok(unmask_supply(s.get(), &z));
  }
  finish(s.get(), d);
  return d;
}

/// A list as the library has it in C++, for the kernels of the engine.
[[nodiscard]] device_list list_of(const unmask_device_list& l) {
  return {l.entries, l.count, l.most, l.first};
}

[[nodiscard]] decoded on_device_memory(const char* policy, const char* own) {
  CUstream_st stream;
  decoded d;
  const session_pointer s = started(policy, own, &stream, d);
  std::vector<engine_memory> engines(slots);
  std::vector<std::vector<float>> all_keys;
  for (index_t l = 0; l < layers; ++l) {
    all_keys.push_back(keys_of(l));
  }
  std::vector<float> logits(slots * std::size_t{length} * vocab);
  std::vector<std::vector<float>> scores(slots * layers, std::vector<float>(length));
  unmask_request request = UNMASK_REQUEST_INIT;
  while (unmask_next(s.get(), &request) == UNMASK_OK && request.count > 0) {
    const std::vector<unmask_segment> segments(request.segments, request.segments + request.count);
    const int waits = fake_cuda().waits;
    std::vector<std::pair<std::size_t, std::vector<std::int32_t>>> selected;
    std::vector<std::unique_ptr<std::vector<std::int32_t>>> kept(segments.size() * layers);
    for (index_t l = 0; l < layers; ++l) {
      std::vector<std::int32_t> hooked;
      std::vector<unmask_logits> now;
      std::vector<unmask_stored> stored;
      for (std::int32_t i = 0; i < request.count; ++i) {
        const unmask_segment g = segments[std::size_t(i)];
        engine_memory& e = engines[std::size_t(g.slot)];
        unmask_device_list list = UNMASK_DEVICE_LIST_INIT;
        expect_ok(unmask_device_positions(s.get(), i, &list));
        fake_launch(&stream,
                    [l,
                     at = list_of(list),
                     hidden = e.hidden.data(),
                     tokens = d.tokens[std::size_t(g.slot)].data()] {
                      for (index_t r = 0; r < at.size(); ++r) {
                        advance(hidden + r * width, l, at[r], tokens);
                      }
                    });
        if (g.evict == UNMASK_EVICT_CHOOSE) {
          const std::vector<float>& keys = all_keys[std::size_t(l)];
          float* const out = scores[std::size_t(g.slot) * layers + std::size_t(l)].data();
          const unmask_logits k = view(keys.data(), g.keys_last, UNMASK_DEVICE);
          expect_ok(unmask_device_score_keys(s.get(), &k, keys.data() + rows_size, out));
          expect_ok(unmask_device_select_keys(s.get(), i, l, out, g.keys_last, &list));
          auto& place = kept[std::size_t(i) * layers + std::size_t(l)];
          place = std::make_unique<std::vector<std::int32_t>>();
          fake_launch(&stream, [at = list_of(list), to = place.get()] {
            for (index_t r = 0; r < at.size(); ++r) {
              to->push_back(at[r]);
            }
          });
          expect_ok(unmask_device_positions(s.get(), i, &list));
        }
        std::int32_t hook = 0;
        expect_ok(unmask_hooks(s.get(), i, l, &hook));
        if (hook != 0) {
          hooked.push_back(i);
          now.push_back(view(e.hidden.data(), list.most, UNMASK_DEVICE));
          stored.push_back(stored_in(e.stored.data() + l * length * width, UNMASK_DEVICE));
        }
      }
      if (hooked.empty()) {
        continue;
      }
      std::vector<unmask_device_list> rows(hooked.size(), UNMASK_DEVICE_LIST_INIT);
      expect_ok(unmask_device_at_layer(s.get(),
                                       l,
                                       hooked.data(),
                                       now.data(),
                                       stored.data(),
                                       std::int32_t(hooked.size()),
                                       rows.data()));
      for (std::size_t k = 0; k < hooked.size(); ++k) {
        unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
        expect_ok(unmask_get_segment_rule(s.get(), hooked[k], &rule));
        if (rule.kept == 0) {
          engine_memory& e = engines[std::size_t(segments[std::size_t(hooked[k])].slot)];
          const device_hidden<float> from(e.hidden.data(), now[k].rows, width);
          EXPECT_EQ(device::gather_rows(from, list_of(rows[k]), e.gathered.data(), width, &stream),
                    cudaSuccess);
          std::swap(e.hidden, e.gathered);
        }
      }
    }
    std::int32_t supplied = 0;
    for (std::int32_t i = 0; i < request.count; ++i) {
      const unmask_segment g = segments[std::size_t(i)];
      unmask_device_list list = UNMASK_DEVICE_LIST_INIT;
      expect_ok(unmask_device_rows(s.get(), i, &list));
      fake_launch(&stream,
                  [at = list_of(list),
                   hidden = engines[std::size_t(g.slot)].hidden.data(),
                   to = logits.data() + std::size_t(supplied) * vocab] {
                    for (index_t r = 0; r < at.size(); ++r) {
                      head(hidden + at[r] * width, to + r * vocab);
                    }
                  });
      supplied += list.most;
    }
    unmask_logits z = view(logits.data(), supplied, UNMASK_DEVICE);
    z.columns = vocab;
    expect_ok(unmask_supply(s.get(), &z));
    EXPECT_EQ(fake_cuda().waits, waits) << "something waited inside a pass";
    unmask_report report = UNMASK_REPORT_INIT;
    expect_ok(unmask_get_report(s.get(), 0, &report));  // synchronises
    for (const auto& one : kept) {
      if (one != nullptr) {
        d.kept.push_back(*one);
      }
    }
  }
  finish(s.get(), d);
  return d;
}

TEST(CLayersOnADevice, SelectWhatTheySelectOnTheHost) {
  struct policies {
    const char* session;
    const char* of_slot_1;
    bool evicts;
  };
  constexpr policies all[] = {
      {"tokens_per_step(2) + early_skip(0.2, floor=true, cap=true) + dual_cache", nullptr, false},
      {"threshold(0.6) + cache_budget(4, 3) + interval_cache(5, 4)", nullptr, false},
      {"threshold(0.6) + delayed_cache(5)", "tokens_per_step(1) + early_skip", false},
      {"tokens_per_step(3)", "tokens_per_step(2) + similarity_refresh(0.3) + block_cache", false},
      {"tokens_per_step(2) + dual_cache(whole=2) + key_eviction(0.4, pool=1)", nullptr, true},
      {"tokens_per_step(1)", "es_dllm_sparse", true}};
  for (const policies& p : all) {
    SCOPED_TRACE(p.session);
    const decoded expected = on_host_memory(p.session, p.of_slot_1);
    const decoded got = on_device_memory(p.session, p.of_slot_1);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.forwards, expected.forwards);
    EXPECT_EQ(got.kept, expected.kept);
    EXPECT_EQ(!got.kept.empty(), p.evicts);
    for (const auto& tokens : got.tokens) {
      EXPECT_THAT(tokens, ::testing::Not(::testing::Contains(vocab - 1)));
    }
    EXPECT_TRUE(fake_cuda().alive.empty()) << "a session left memory behind";
  }
}

TEST(CLayersOnADevice, SayWhatIsWrong) {
  CUstream_st stream;
  const auto fails = [](unmask_status got, unmask_status status, const std::string& why) {
    EXPECT_EQ(got, status);
    EXPECT_THAT(unmask_last_error(), HasSubstr(why));
  };
  constexpr unmask_status bad = UNMASK_INVALID_ARGUMENT;
  unmask_options o = options_on(&stream);
  o.layers = 0;
  unmask_session* none = nullptr;
  fails(unmask_create("tokens_per_step + dual_cache(whole=2) + key_eviction", &o, &none),
        bad,
        "options->layers must be at least 1 for a policy that drops keys, on a device, got 0");
  EXPECT_TRUE(fake_cuda().alive.empty());

  decoded d;
  const session_pointer s =
      started("tokens_per_step + early_skip(0.5, [0], [0.5])", nullptr, &stream, d);
  unmask_device_list list = UNMASK_DEVICE_LIST_INIT;
  fails(unmask_device_positions(s.get(), 0, &list), UNMASK_OUT_OF_ORDER, "next()");
  unmask_request request = UNMASK_REQUEST_INIT;
  ASSERT_EQ(unmask_next(s.get(), &request), UNMASK_OK);
  const std::int32_t* entries = nullptr;
  std::int32_t count = 0;
  fails(unmask_positions(s.get(), 0, &entries, &count),
        UNMASK_UNSUPPORTED,
        "unmask_device_positions()");
  fails(unmask_device_positions(s.get(), 3, &list), bad, "index of the segment");
  fails(unmask_device_positions(s.get(), -1, &list), bad, "segment must be at least 0, got -1");
  fails(unmask_device_rows(s.get(), 0, nullptr), bad, "rows must be a pointer, got null");

  engine_memory e;
  const std::vector<std::int32_t> segments = {0, 1};
  std::vector<unmask_logits> now(2, view(e.hidden.data(), length, UNMASK_DEVICE));
  std::vector<unmask_stored> stored(2, stored_in(e.stored.data(), UNMASK_DEVICE));
  stored[1] = stored_in(e.stored.data() + rows_size, UNMASK_DEVICE);
  std::vector<unmask_device_list> rows(2, UNMASK_DEVICE_LIST_INIT);
  const auto at = [&](std::int32_t layer, std::int32_t size) {
    return unmask_device_at_layer(
        s.get(), layer, segments.data(), now.data(), stored.data(), size, rows.data());
  };
  const int launches = fake_cuda().launches;
  fails(at(0, 0), bad, "count must be in [1, 3]");
  fails(at(0, 4), bad, "count must be in [1, 3]");
  fails(at(1, 2), UNMASK_OUT_OF_ORDER, "no hook");
  now[1].rows = 7;
  fails(at(0, 2), bad, "rows at the layer must be those of the positions that reach it, 40, got 7");
  now[1].rows = length;
  now[1].memory_space = UNMASK_HOST;
  fails(at(0, 2), bad, "UNMASK_DEVICE");
  now[1].memory_space = UNMASK_DEVICE;
  now[1].kind = UNMASK_F16;
  fails(at(0, 2), bad, "kind of the rows of a segment");
  now[1].kind = UNMASK_F32;
  EXPECT_EQ(fake_cuda().launches, launches);
  EXPECT_EQ(at(0, 2), UNMASK_OK) << unmask_last_error();
  EXPECT_EQ(rows[0].most, length);
  EXPECT_GT(fake_cuda().launches, launches);
  fails(unmask_device_select_keys(s.get(), 0, 0, e.hidden.data(), length, &list),
        UNMASK_OUT_OF_ORDER,
        "UNMASK_EVICT_CHOOSE");
  fails(unmask_device_score_keys(s.get(), now.data(), e.hidden.data(), e.stored.data()),
        UNMASK_OUT_OF_ORDER,
        "of which no policy drops keys");
  const session_pointer host = started("tokens_per_step", nullptr, nullptr, d);
  fails(unmask_device_positions(host.get(), 0, &list), UNMASK_UNSUPPORTED, "unmask_positions()");
}

}  // namespace
}  // namespace unmask::testing::layers_test
