// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_api/translate.hpp>
#include <unmask/c_layers.h>
#include <unmask/host/key_selector.hpp>
#include <unmask/host/shared_thread_pool.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_file.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#if defined(UNMASK_C_API_CUDA)
#  include <unmask/cuda/c_device.hpp>
#endif

namespace UNMASK_NAMESPACE::detail::c_api {

/// Reads a text with unmask_options::flags.
inline unmask::named_policy policy_of(const char* text, std::uint32_t flags) {
  return (flags & UNMASK_NO_FILES) != 0 ? unmask::read_policy(text, unmask::no_files)
                                        : unmask::read_policy(text);
}
inline std::unique_ptr<const unmask::loaded_replay> replay_of(const char* text,
                                                              std::uint32_t flags) {
  return (flags & UNMASK_NO_FILES) != 0 ? unmask::read_replay(text, unmask::no_files)
                                        : unmask::read_replay(text);
}

/// Hooks of one call, in any type.
struct device_hooks {
  template <class T>
  using list = std::vector<unmask::device_layer_hook<T>>;

  void reserve(std::size_t count) {
    std::apply([&](auto&... of_type) { (of_type.reserve(count), ...); }, all);
  }

  std::tuple<list<float>, list<unmask::bfloat16>, list<unmask::float16>> all;
};

}  // namespace UNMASK_NAMESPACE::detail::c_api

/// A session of the C interface.
struct unmask_session {
  unmask_session(const unmask::named_policy& parts,
                 const unmask::model_info& about,
                 const unmask::session_capacity& sizes,
                 const unmask_options& options,
                 std::unique_ptr<const unmask::loaded_replay> traced)
      : model(about)
      , capacity(sizes)
      , space(options.memory_space == UNMASK_DEVICE ? unmask::memory::device : unmask::memory::host)
      , stream(options.stream)
      , flags(options.flags)
      , replay(std::move(traced))
      , own(parts)
      , own_rule(unmask::layer_rule_of(parts))
      , of_slot(static_cast<std::size_t>(sizes.sequences), own)
      , wants_a_loop(replay != nullptr ? "replay" : parts.beyond_a_step) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    if (space == unmask::memory::device) {
#ifdef UNMASK_C_API_CUDA
      device = unmask::detail::c_api::with_bad_alloc([&] {
        return std::make_unique<unmask::detail::c_api::device_session>(
            parts, model, capacity, unmask::on_stream{static_cast<cudaStream_t>(stream)});
      });
      fetched.resize(static_cast<std::size_t>(capacity.window));
      hooks.reserve(slots);
      make_keys(parts);
#endif
    } else {
      unmask::on_host where;
      if (options.threads > 1 && options.shared_threads != 0) {
        shared = unmask::host::shared_thread_pool::of(options.threads);
        where.executor = *shared;
      } else if (options.threads > 1) {
        pool.emplace(options.threads);
        where.executor = *pool;
      }
      host = std::make_unique<unmask::named_session>(parts, model, capacity, where);
    }
    segments.reserve(slots * (1 + unmask::max_branches));
    placements.reserve(slots * unmask::max_placed * (1 + unmask::max_branches) / 2);
    tensors.reserve(slots * (1 + unmask::max_branches));
    modifiers.reserve(slots * (1 + unmask::max_branches));
    reserve(0);
    reserve_answers(0);
    editable.resize(static_cast<std::size_t>(capacity.length));
    started.resize(slots);
    selector.emplace(capacity.length);
  }

  /// Demands of a policy on an engine.
  struct demands {
    bool single_positions = false;
    std::optional<unmask::key_eviction> dropped;  // of a policy that drops keys
    unmask::range blocks;                         // of such a policy: those of the request

    explicit demands(const unmask::named_policy& parts)
        : single_positions(parts.layered_now()) {
      if (parts.eviction.count > 0) {
        dropped = parts.eviction.find<unmask::key_eviction>();
      }
    }
  };

  /// Calls use(session) with the session in its memory.
  template <class Use>
  decltype(auto) with(const Use& use) {
#ifdef UNMASK_C_API_CUDA
    if (device != nullptr) {
      return use(*device);
    }
#endif
    return use(*host);
  }

  /// Makes room for the results of a step that writes the given number of tokens in addition to its
  /// window.
  void reserve(std::size_t more) {
    const auto most = static_cast<std::size_t>(unmask::step::most_commits(capacity, true));
    commits.reserve(most + more);
    candidates.reserve(most + more);
  }

  /// Starts a sequence with the session's policy, or with one of its own.
  void start(std::int32_t slot,
             const char* text,
             std::int32_t* tokens,
             std::int32_t count,
             const unmask::sequence_shape& shape,
             const unmask::start_options& options) {
    if (text == nullptr) {
      with([&](auto& q) { q.start(slot, {tokens, count}, shape, options); });
      of_slot[static_cast<std::size_t>(slot)] = own;
      return;
    }
    unmask::check_argument(
        replay == nullptr, "sequence->policy", text, "null in a session that replays a trace");
    const unmask::named_policy parts = unmask::detail::c_api::policy_of(text, flags);
    make_keys(parts);
    with([&](auto& q) { q.start(slot, parts, {tokens, count}, shape, options); });
    of_slot[static_cast<std::size_t>(slot)] = demands(parts);
  }

  /// Makes room for the probabilities of a slot whose sequence has the given number of soft tokens.
  void reserve_answers(std::int32_t soft) {
    constexpr std::int32_t probed = unmask::logits_processor_family::most_probed;
    answers.reserve(
        static_cast<std::size_t>(capacity.window) *
        static_cast<std::size_t>(std::max(probed, std::min(soft, unmask::held_tokens::capacity))));
  }

  /// Calls use(selectors) with those of the keys that policies drop on a device. Errors:
  /// std::logic_error if there are none.
  template <class Use>
  void with_keys(const char* call, [[maybe_unused]] const Use& use) {
#ifdef UNMASK_C_API_CUDA
    if (keys != nullptr) {
      return use(*keys);
    }
#endif
    throw std::logic_error(std::string(call) +
                           " in a session on the host, or without a policy that drops keys");
  }

  /// Host copy of tokens in the session's memory space; synchronises on a device.
  const std::int32_t* seen(const std::int32_t* tokens, std::size_t count) {
#ifdef UNMASK_C_API_CUDA
    if (space == unmask::memory::device) {
      unmask::detail::c_api::fetch_tokens(
          tokens, fetched.data(), count, static_cast<cudaStream_t>(stream));
      return fetched.data();
    }
#endif
    static_cast<void>(count);
    return tokens;
  }

  unmask::model_info model;
  unmask::session_capacity capacity;
  unmask::memory space;
  void* stream;
  std::uint32_t flags;
  std::unique_ptr<const unmask::loaded_replay> replay;  // null for other policies
  demands own;                                          // of the session's policy
  unmask::layer_rule_info own_rule;                     // likewise
  std::vector<demands> of_slot;                         // of the policies of the slots' sequences
  std::string_view wants_a_loop;
  std::optional<unmask::host::key_selector> selector;
  std::optional<unmask::host::thread_pool> pool;
  std::shared_ptr<unmask::host::shared_thread_pool> shared;
  std::unique_ptr<unmask::named_session> host;  // or
#ifdef UNMASK_C_API_CUDA
  std::unique_ptr<unmask::detail::c_api::device_session> device;
  std::unique_ptr<unmask::detail::c_api::device_keys> keys;  // there, if a policy drops keys
#endif
  unmask::detail::c_api::device_hooks hooks;
  std::string policy;
  std::optional<unmask::trace_file> file;
  std::optional<unmask::trace_writer> trace;
  bool is_requested = false;  // the trace has the request that is out
  unmask::detail::c_api::lent_array<unmask_segment> segments;
  std::vector<unmask_placement> placements;  // of their branches
  unmask::detail::c_api::lent_array<unmask_commit> commits;
  unmask::detail::c_api::lent_array<unmask_candidate> candidates;
  unmask::detail::c_api::lent_array<unmask_probability> answers;
  std::vector<std::uint8_t> editable;
  std::vector<std::int32_t> fetched;
  std::vector<bool> started;
  std::vector<unmask::any_rows> tensors;
  std::vector<unmask::any_modifiers> modifiers;

 private:
  // The memory of the selection of keys on a device, for the first policy that drops some.
  void make_keys([[maybe_unused]] const unmask::named_policy& parts) {
#ifdef UNMASK_C_API_CUDA
    if (device != nullptr && parts.eviction.count > 0 && keys == nullptr) {
      unmask::check_argument(model.layers >= 1,
                             "options->layers",
                             model.layers,
                             "at least 1 for a policy that drops keys, on a device");
      keys = unmask::detail::c_api::with_bad_alloc([&] {
        return std::make_unique<unmask::detail::c_api::device_keys>(
            capacity.length,
            static_cast<std::size_t>(capacity.sequences) * static_cast<std::size_t>(model.layers),
            static_cast<cudaStream_t>(stream));
      });
    }
#endif
  }
};
