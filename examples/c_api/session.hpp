// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_layers.h>
#include <unmask/host/key_selector.hpp>
#include <unmask/host/shared_thread_pool.hpp>
#include <unmask/mixed_session.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_file.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "c_api/device.hpp"

namespace example {

/// Hooks of one call, in any type.
struct device_hooks {
  template <class T>
  using list = std::vector<unmask::device_layer_hook<T>>;

  void reserve(std::size_t count) {
    std::apply([&](auto&... of_type) { (of_type.reserve(count), ...); }, all);
  }

  std::tuple<list<float>, list<unmask::bfloat16>, list<unmask::float16>> all;
};

}  // namespace example

/// A session of the C interface, and the translation that every call is: of structures, of
/// exceptions to a status, of spans to pointers.
struct unmask_session {
  unmask_session(const unmask::named_parts& parts,
                 const unmask::model_info& about,
                 const unmask::session_capacity& sizes,
                 const unmask_options& options,
                 std::unique_ptr<const unmask::loaded_replay> traced)
      : model(about)
      , capacity(sizes)
      , space(options.memory_space == UNMASK_DEVICE ? unmask::memory::device : unmask::memory::host)
      , stream(options.stream)
      , replay(std::move(traced))
      , own(parts)
      , of_slot(static_cast<std::size_t>(sizes.sequences), own)
      , wants_a_loop(replay != nullptr ? "replay" : parts.beyond_a_step) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    const auto window = static_cast<std::size_t>(capacity.window);
    if (space == unmask::memory::device) {
#ifdef UNMASK_C_API_CUDA
      auto made = example::device_session(parts, model, capacity, stream);
      device_layers = made.get();
      adopt(std::move(made));
      fetched.resize(window);
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
      if (replay != nullptr) {
        auto made = replay->make_session(model, capacity, where);
        layers = made.get();
        session = std::move(made);
      } else {
        auto made = unmask::make_mixed_session(parts, model, capacity, where);
        layers = made.get();
        adopt(std::move(made));
      }
    }
    segments.reserve(slots * (1 + unmask::max_branches));
    tensors.reserve(segments.capacity());
    modifiers.reserve(segments.capacity());
    commits.reserve(window + 1);
    candidates.reserve(window + 1);
    answers.reserve(window * unmask::logits_processor_list::most_probed);
    editable.resize(static_cast<std::size_t>(capacity.length));
    started.resize(slots);
    selector.emplace(capacity.length);
  }

  /// Demands of a policy on an engine.
  struct demands {
    bool single_positions = false;
    std::optional<unmask::key_eviction> dropped;  // of a policy that drops keys
    unmask::range blocks;                         // of such a policy: those of the request

    explicit demands(const unmask::named_parts& parts)
        : single_positions(parts.has.layered) {
      if (parts.cache.drops_keys) {
        dropped = parts.cache.dropped;
      }
    }
  };

  /// Starts a sequence with the session's policy, or with one of its own.
  void start(std::int32_t slot,
             const char* text,
             std::int32_t* tokens,
             std::int32_t count,
             const unmask::sequence_shape& shape,
             const unmask::start_options& options) {
    if (text == nullptr) {
      session->start(slot, tokens, count, shape, options);
      of_slot[static_cast<std::size_t>(slot)] = own;
      return;
    }
    unmask::check_argument(
        replay == nullptr, "sequence->policy", text, "null in a session that replays a trace");
    unmask::check_argument(
        !trace, "sequence->policy", text, "null in a session that records, whose trace has one");
    const unmask::named_parts parts = unmask::read_policy(text);
    make_keys(parts);
    start_with(slot, parts, tokens, count, shape, options);
    of_slot[static_cast<std::size_t>(slot)] = demands(parts);
  }

  /// Host copy of tokens in the session's memory space; synchronises on a device.
  const std::int32_t* seen(const std::int32_t* tokens, std::size_t count) {
#ifdef UNMASK_C_API_CUDA
    if (space == unmask::memory::device) {
      example::fetch_tokens(tokens, fetched.data(), count, stream);
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
  std::unique_ptr<const unmask::loaded_replay> replay;  // null for other policies
  demands own;                                          // of the session's policy
  std::vector<demands> of_slot;                         // of the policies of the slots' sequences
  std::string_view wants_a_loop;
  std::optional<unmask::host::key_selector> selector;
  std::optional<unmask::host::thread_pool> pool;
  std::shared_ptr<unmask::host::shared_thread_pool> shared;
  std::unique_ptr<unmask::any_session> session;
  unmask::any_layer_session* layers = nullptr;                // the same on the host
  unmask::any_device_layer_session* device_layers = nullptr;  // or on a device
  std::unique_ptr<example::device_keys> keys;                 // there, if a policy drops keys
  example::device_hooks hooks;
  std::string policy;
  std::optional<unmask::trace_file> file;
  std::optional<unmask::trace_writer> trace;
  bool is_requested = false;  // the trace has the request that is out
  std::vector<unmask_segment> segments;
  std::vector<unmask_commit> commits;
  std::vector<unmask_candidate> candidates;
  std::vector<unmask_probability> answers;
  std::vector<std::uint8_t> editable;
  std::vector<std::int32_t> fetched;
  std::vector<bool> started;
  std::vector<unmask::any_rows> tensors;
  std::vector<unmask::any_modifiers> modifiers;

 private:
  // The memory of the selection of keys on a device, for the first policy that drops some.
  void make_keys([[maybe_unused]] const unmask::named_parts& parts) {
#ifdef UNMASK_C_API_CUDA
    if (device_layers != nullptr && parts.cache.drops_keys && keys == nullptr) {
      unmask::check_argument(model.layers >= 1,
                             "options->layers",
                             model.layers,
                             "at least 1 for a policy that drops keys, on a device");
      keys = example::make_device_keys(capacity.length,
                                       static_cast<std::size_t>(capacity.sequences) *
                                           static_cast<std::size_t>(model.layers),
                                       stream);
    }
#endif
  }

  // Takes a session of either memory space in which each sequence may have a policy.
  template <class Mixed>
  void adopt(std::unique_ptr<Mixed> made) {
    start_with = [mixed = made.get()](const auto&... arguments) { mixed->start(arguments...); };
    session = std::move(made);
  }

  std::function<void(std::int32_t,
                     const unmask::named_parts&,
                     std::int32_t*,
                     std::int32_t,
                     const unmask::sequence_shape&,
                     const unmask::start_options&)>
      start_with;
};

namespace example {

inline thread_local std::string last_error;

inline unmask_status fail(unmask_status status, const char* what) noexcept {
  try {
    last_error = what;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

// Error of a call that this build does not support.
struct unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Work>
unmask_status guarded(const Work& work) noexcept {
  try {
    work();
    return UNMASK_OK;
  } catch (const std::invalid_argument& e) {
    return fail(UNMASK_INVALID_ARGUMENT, e.what());
  } catch (const std::logic_error& e) {
    return fail(UNMASK_OUT_OF_ORDER, e.what());
  } catch (const std::bad_alloc&) {
    return fail(UNMASK_OUT_OF_MEMORY, "out of memory");
  } catch (const unsupported& e) {
    return fail(UNMASK_UNSUPPORTED, e.what());
  } catch (const std::exception& e) {
    return fail(UNMASK_FAILED, e.what());
  } catch (...) {
    return fail(UNMASK_FAILED, "an exception that says nothing");
  }
}

template <class T>
T& needed(T* pointer, const char* name) {
  unmask::check_argument(pointer != nullptr, name, "null", "a pointer");
  return *pointer;
}

// check_argument() of a field of a structure; the name is put together only for a message.
template <class T, class... Rule>
void check_field(
    bool holds, const char* structure, const char* field, const T& value, const Rule&... rule) {
  if (!holds) {
    unmask::check_argument(false, std::string(structure) + "->" + field, value, rule...);
  }
}

// No version's structure is larger, so one whose size was not set is not read far
// behind its end.
inline constexpr std::size_t largest_struct = 128;

// Size of a structure in the version that it came with.
template <class T>
inline constexpr std::size_t first_size = sizeof(T);
template <>
inline constexpr std::size_t first_size<unmask_sequence> = offsetof(unmask_sequence, policy);
template <>
inline constexpr std::size_t first_size<unmask_options> = offsetof(unmask_options, propose_mask);

// A caller's structure as this library knows it.
template <class T>
T known_part_of(const T* given, const T& defaults, const char* name) {
  static_assert(sizeof(T) <= largest_struct);
  const std::size_t size = needed(given, name).struct_size;
  check_field(size >= first_size<T> && size <= largest_struct,
              name,
              "struct_size",
              size,
              "the sizeof of the structure, at least ",
              first_size<T>,
              " and at most ",
              largest_struct);
  T known = defaults;
  std::memcpy(&known, given, std::min(size, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b != 0; })) {
    throw unsupported(std::string(name) + " has fields that this library does not know");
  }
  return known;
}

// Gives the caller as much of an answer as it knows.
template <class T>
void give(T* to, T answer, const char* name) {
  const std::size_t size = needed(to, name).struct_size;
  check_field(
      size >= sizeof(std::uint32_t), name, "struct_size", size, "the sizeof of the structure");
  answer.struct_size = to->struct_size;
  std::memcpy(to, &answer, std::min(size, sizeof(T)));
}

inline unmask::any_rows rows_of(const unmask_logits& l, const char* name = "logits") {
  check_field(l.kind >= UNMASK_F32 && l.kind <= UNMASK_F16,
              name,
              "kind",
              l.kind,
              "UNMASK_F32, UNMASK_BF16 or UNMASK_F16");
  check_field(l.memory_space == UNMASK_HOST || l.memory_space == UNMASK_DEVICE,
              name,
              "memory_space",
              l.memory_space,
              "UNMASK_HOST or UNMASK_DEVICE");
  check_field(l.rows >= 0, name, "rows", l.rows, "at least 0");
  check_field(l.data != nullptr || l.rows == 0, name, "data", "null", "a pointer");
  const std::int64_t farthest = PTRDIFF_MAX / (std::int64_t{sizeof(float)} * std::max(l.rows, 1));
  check_field(l.stride == 0 || (l.stride >= l.columns && l.stride <= farthest),
              name,
              "stride",
              l.stride,
              "0, for as many as there are columns, or at least so many and at most ",
              farthest);
  unmask::any_rows rows;
  rows.data = l.data;
  rows.kind = static_cast<unmask::element_kind>(l.kind);
  rows.space = l.memory_space == UNMASK_HOST ? unmask::memory::host : unmask::memory::device;
  rows.rows = l.rows;
  rows.columns = l.columns;
  rows.stride = l.stride == 0 ? l.columns : static_cast<std::ptrdiff_t>(l.stride);
  return rows;
}

// Structure i of a caller's array, whose elements have the size of the first.
template <class T>
const T* element(const T* array, std::size_t i) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(array);
  return reinterpret_cast<const T*>(bytes + i * array->struct_size);
}

inline unmask::any_modifiers modifiers_of(const unmask_modifiers& m) {
  unmask::any_modifiers modifiers;
  modifiers.allowed = m.allowed;
  modifiers.allowed_stride = static_cast<std::ptrdiff_t>(m.allowed_stride);
  modifiers.unconditional = m.unconditional;
  modifiers.unconditional_stride = static_cast<std::ptrdiff_t>(m.unconditional_stride);
  modifiers.cfg_scale = m.cfg_scale;
  return modifiers;
}

inline void
lend(std::span<const std::int32_t> from, const std::int32_t** entries, std::int32_t* count) {
  needed(entries, "entries") = from.data();
  needed(count, "count") = static_cast<std::int32_t>(from.size());
}

template <class T>
void lend(const std::vector<T>& from, const T** entries, std::int32_t* count) {
  needed(entries, "entries") = from.data();
  needed(count, "count") = static_cast<std::int32_t>(from.size());
}

}  // namespace example
