// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/commit/threshold_calibrator.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace example {

using unmask::calibrated_threshold;
using unmask::index_t;
using unmask::sequence_shape;

/// The profiles of an engine, one for each task and block length. The first request of a task
/// decodes with the static rule and is recorded; requests that begin before it has ended decode
/// with the static rule; later ones decode with its profile. Host only.
///
///     profile_store store{calibrated_threshold<>{.cap = 0.75F, .slack = 0.2F}};
///     auto request = store.begin("gsm8k", geometry);
///     session.start(slot, policy{by_confidence{}, request.commit_rule()}, tokens, geometry);
///     ...                                   // after every supply():
///     request.observe(session, slot);       // records if it is the first, otherwise does nothing
///
/// A task is a name that the engine gives to similar prompts; include everything else that a
/// profile depends on, such as the model and the cache. A profile never changes by itself: call
/// forget() to have the next request recorded. Threads may share a store, but not a request; the
/// store must outlive its requests.
/// Cost: O(log tasks) to begin, 6 bytes for each cell and task.
template <int Cells = 256>
class profile_store {
 public:
  using profile =
      calibrated_threshold<Cells>;  ///< Type of a profile, and of the part that uses it.
  class request;

  /// Calibrates all tasks with `knobs`; a profile in `knobs` is ignored. Errors:
  /// std::invalid_argument for knobs out of range.
  explicit profile_store(const profile& knobs)
      : knobs_(knobs) {
    knobs_.block_length = 0;
    knobs_.blocks = 0;
    knobs_.check_values();
  }
  profile_store(const profile_store&) = delete;
  profile_store& operator=(const profile_store&) = delete;

  /// Begins a request of `task` with that sequence_shape, before its session::start(). Errors:
  /// std::invalid_argument if it has more blocks than Cells.
  [[nodiscard]] request begin(std::string_view task, const sequence_shape& geometry);

  /// Returns the profile of a task for a block length, if it has one, for example to save it.
  [[nodiscard]] std::optional<profile> find(std::string_view task, index_t block_length) const {
    const std::lock_guard lock{mutex_};
    const auto at = entries_.find(key{task, block_length});
    return at == entries_.end() ? std::nullopt : at->second.calibrated;
  }

  /// Sets the profile of a task, for the profile's block length, instead of recording one. Errors:
  /// std::invalid_argument if `calibrated` has no profile.
  void put(std::string_view task, const profile& calibrated) {
    calibrated.check_values();
    if (!calibrated.calibrated()) {
      throw std::invalid_argument("a store takes calibrated profiles, got one without blocks");
    }
    const std::lock_guard lock{mutex_};
    entries_[key{task, calibrated.block_length}].calibrated = calibrated;
  }

  /// Removes the profiles of a task; its next request is recorded, unless one is being recorded.
  void forget(std::string_view task) {
    const std::lock_guard lock{mutex_};
    for (auto& [name, e] : entries_) {
      if (name.first == task) {
        e.calibrated.reset();
      }
    }
  }

 private:
  using key = std::pair<std::string, index_t>;
  struct entry {
    std::optional<profile> calibrated;
    bool is_recording = false;
  };

  // Ends a recording, with or without a profile.
  void finish(const key& name, const std::optional<profile>& calibrated) {
    const std::lock_guard lock{mutex_};
    entry& e = entries_[name];
    e.is_recording = false;
    if (!e.calibrated && calibrated && calibrated->calibrated()) {  // a put() one stays
      e.calibrated = calibrated;
    }
  }

  mutable std::mutex mutex_;
  profile knobs_;
  std::map<key, entry> entries_;
};

template <int Cells>
profile_store(const calibrated_threshold<Cells>&) -> profile_store<Cells>;

/// A request of a store. Movable. If it is destroyed before its sequence has ended, the next
/// request is recorded.
template <int Cells>
class profile_store<Cells>::request {
 public:
  /// Takes the part of `other`, which has none then.
  request(request&& other) noexcept
      : store_(std::exchange(other.store_, nullptr))
      , name_(std::move(other.name_))
      , commit_rule_(other.commit_rule_)
      , recorder_(std::move(other.recorder_)) {}
  /// Leaves its own part, if any, and takes that of `other`.
  request& operator=(request&& other) noexcept {
    if (this != &other) {
      drop();
      store_ = std::exchange(other.store_, nullptr);
      name_ = std::move(other.name_);
      commit_rule_ = other.commit_rule_;
      recorder_ = std::move(other.recorder_);
    }
    return *this;
  }
  ~request() { drop(); }

  /// Commit rule to start the sequence with: calibrated, or the static rule.
  [[nodiscard]] const profile& commit_rule() const { return commit_rule_; }

  /// True if this request is being recorded and its sequence still runs.
  [[nodiscard]] bool is_recording() const { return store_ != nullptr; }

  /// Call it after every supply(), with the slot of the sequence, until the session reports its
  /// end; no effect for a request that is not recorded. At the end the profile goes to the store; a
  /// cancelled sequence, or one without confidences, gives none. Errors: as
  /// threshold_calibrator::observe and calibrate; the recording then ends without a profile.
  template <class Session>
  void observe(Session& session, index_t slot = 0) {
    if (!is_recording()) {
      return;
    }
    try {
      recorder_->observe(session, slot);
      const unmask::ending end = session.report(slot).end;
      if (end == unmask::ending::running) {
        return;
      }
      if (end != unmask::ending::cancelled) {
        const profile calibrated = recorder_->calibrate(commit_rule_);
        std::exchange(store_, nullptr)->finish(name_, calibrated);
      }
    } catch (...) {
      drop();
      throw;
    }
    drop();
  }

 private:
  friend class profile_store;

  request(profile_store* store,
          key name,
          const profile& commit_rule,
          const sequence_shape& geometry)
      : store_(store)
      , name_(std::move(name))
      , commit_rule_(commit_rule) {
    if (store_ != nullptr) {
      recorder_.emplace(geometry, commit_rule_.recorded);
    }
  }

  void drop() noexcept {
    if (store_ != nullptr) {
      std::exchange(store_, nullptr)->finish(name_, std::nullopt);
    }
  }

  profile_store* store_;  ///< null unless this request is recorded
  key name_;
  profile commit_rule_;
  std::optional<unmask::threshold_calibrator> recorder_;
};

template <int Cells>
typename profile_store<Cells>::request profile_store<Cells>::begin(std::string_view task,
                                                                   const sequence_shape& geometry) {
  if (geometry.block_length < 1) {
    throw std::invalid_argument("block_length must be at least 1, got " +
                                std::to_string(geometry.block_length));
  }
  const index_t blocks = (geometry.length - geometry.prompt_length - 1) / geometry.block_length + 1;
  if (blocks > Cells) {
    throw std::invalid_argument("a profile of this store has " + std::to_string(Cells) +
                                " blocks at most, got " + std::to_string(blocks));
  }
  const key name{task, geometry.block_length};
  const std::lock_guard lock{mutex_};
  entry& e = entries_[name];
  if (e.calibrated) {
    return request(nullptr, name, *e.calibrated, geometry);
  }
  const bool is_first = !std::exchange(e.is_recording, true);
  return request(is_first ? this : nullptr, name, knobs_, geometry);
}

}  // namespace example
