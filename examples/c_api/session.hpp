// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/c_layers.h>
#include <unmask/host/key_selector.hpp>
#include <unmask/host/thread_pool.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace/replay_text.hpp>
#include <unmask/trace/trace_file.hpp>
#include <unmask/trace/trace_writer.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "c_api/device.hpp"

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
      , single_positions(parts.has.layered)
      , wants_a_loop(replay != nullptr ? "replay" : parts.beyond_a_step) {
    const auto slots = static_cast<std::size_t>(capacity.sequences);
    const auto window = static_cast<std::size_t>(capacity.window);
    if (space == unmask::memory::device) {
#ifdef UNMASK_C_API_CUDA
      session = example::device_session(parts, model, capacity, stream);
      fetched.resize(window);
#endif
    } else {
      unmask::on_host where;
      if (options.threads > 1) {
        pool.emplace(options.threads);
        where.executor = *pool;
      }
      auto made = replay != nullptr ? replay->make_session(model, capacity, where)
                                    : unmask::make_any_layer_session(parts, model, capacity, where);
      layers = made.get();
      session = std::move(made);
    }
    segments.reserve(slots * (1 + unmask::max_branches));
    commits.reserve(window + 1);
    answers.reserve(window * unmask::logits_processor_list::most_probed);
    editable.resize(static_cast<std::size_t>(capacity.length));
    started.resize(slots);
    if (parts.cache.drops_keys) {
      dropped = parts.cache.dropped;
      selector.emplace(capacity.length);
    }
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
  bool single_positions;
  std::string_view wants_a_loop;
  std::optional<unmask::key_eviction> dropped;  // of a policy that drops keys
  std::optional<unmask::host::key_selector> selector;
  std::optional<unmask::host::thread_pool> pool;
  std::unique_ptr<unmask::any_session> session;
  unmask::any_layer_session* layers = nullptr;  // the same on the host
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

// No version's structure is larger, so one whose size was not set is not read far
// behind its end.
inline constexpr std::size_t largest_struct = 128;

// A caller's structure as this library knows it.
template <class T>
T known_part_of(const T* given, const T& defaults, const char* name) {
  static_assert(sizeof(T) <= largest_struct);
  const std::size_t size = needed(given, name).struct_size;
  unmask::check_argument(size >= sizeof(T) && size <= largest_struct,
                         std::string(name) + "->struct_size",
                         size,
                         "the sizeof of the structure, at least ",
                         sizeof(T),  // none has grown since the version that it came with
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
  unmask::check_argument(size >= sizeof(std::uint32_t),
                         std::string(name) + "->struct_size",
                         size,
                         "the sizeof of the structure");
  answer.struct_size = to->struct_size;
  std::memcpy(to, &answer, std::min(size, sizeof(T)));
}

inline unmask::any_rows rows_of(const unmask_logits& l, const std::string& name = "logits") {
  unmask::check_argument(l.kind >= UNMASK_F32 && l.kind <= UNMASK_F16,
                         name + "->kind",
                         l.kind,
                         "UNMASK_F32, UNMASK_BF16 or UNMASK_F16");
  unmask::check_argument(l.memory_space == UNMASK_HOST || l.memory_space == UNMASK_DEVICE,
                         name + "->memory_space",
                         l.memory_space,
                         "UNMASK_HOST or UNMASK_DEVICE");
  unmask::check_argument(l.rows >= 0, name + "->rows", l.rows, "at least 0");
  unmask::check_argument(l.data != nullptr || l.rows == 0, name + "->data", "null", "a pointer");
  const std::int64_t farthest = PTRDIFF_MAX / (std::int64_t{sizeof(float)} * std::max(l.rows, 1));
  unmask::check_argument(l.stride == 0 || (l.stride >= l.columns && l.stride <= farthest),
                         name + "->stride",
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
