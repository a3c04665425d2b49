// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Data races by happens-before. What a thread knows to have happened is, for its own block, a time
/// before which everything is known, and such a time for each thread of its warp; for other blocks
/// it is a graph of what was released, which is walked when it is asked first.
///
/// A block's clock moves when a thread of it releases or passes a barrier. An access is stamped
/// with the clock of its block: a barrier at time t orders all accesses with stamps before t.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ptx/program.hpp"

namespace unmask::ptx {

enum class access_kind : std::uint8_t { read, write, atomic_read, atomic_write };

[[nodiscard]] constexpr bool conflict(access_kind a, access_kind b) {
  const auto writes = [](access_kind k) {
    return k == access_kind::write || k == access_kind::atomic_write;
  };
  const auto is_atomic = [](access_kind k) { return k >= access_kind::atomic_read; };
  return (writes(a) || writes(b)) && !(is_atomic(a) && is_atomic(b));
}

/// Accesses of one instruction to one word.
struct access {
  std::uint32_t warp = 0;  ///< block * warps of a block + warp
  lane_mask lanes = 0;
  std::uint32_t stamp = 0;
  std::uint32_t at = 0;  ///< index of the instruction
  std::uint8_t bytes = 0;
  access_kind kind = access_kind::read;
};

/// The accesses to each word of some memory in the last launch that touched it.
class access_history {
 public:
  explicit access_history(std::size_t bytes)
      : pages_((bytes + page_bytes + 7) / page_bytes) {}

  struct cell {
    std::uint32_t launch = 0;
    std::uint32_t count = 0;
    bool was_written = false;
    std::array<access, 2> first;
    std::unique_ptr<std::vector<access>> more;

    [[nodiscard]] access& operator[](std::uint32_t n) {
      return n < first.size() ? first[n] : (*more)[n - first.size()];
    }
    void push(const access& a) {
      if (count < first.size()) {
        first[count] = a;
      } else {
        if (more == nullptr) {
          more = std::make_unique<std::vector<access>>();
        }
        more->push_back(a);
      }
      ++count;
    }
    void truncate(std::uint32_t n) {
      count = n;
      if (more != nullptr) {
        more->resize(n > first.size() ? n - first.size() : 0);
      }
    }
  };

  [[nodiscard]] cell& at(std::uint64_t offset, std::uint32_t launch) {
    auto& page = pages_[offset / page_bytes];
    if (page == nullptr) {
      page = std::make_unique<std::array<cell, page_bytes / 4>>();
    }
    cell& c = (*page)[offset % page_bytes / 4];
    if (c.launch != launch) {
      c.truncate(0);
      c.launch = launch;
      c.was_written = false;
    }
    return c;
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
  std::vector<std::unique_ptr<std::array<cell, page_bytes / 4>>> pages_;
};

/// The last barriers that threads passed, as far back as they are of one place in the sources.
struct last_barriers {
  std::uint32_t origin = 0;
  /// Time of the last of them, and of the last one of another place; 0 if there is none.
  std::uint32_t at = 0;
  std::uint32_t other_at = 0;

  void pass(std::uint32_t now, std::uint32_t of) {
    other_at = at != 0 && of != origin ? at : other_at;
    at = now;
    origin = of;
  }
  /// True if they order an access of that time before what follows, and no other barrier does.
  [[nodiscard]] bool alone_order(std::uint32_t stamp) const {
    return other_at <= stamp && stamp < at;
  }
};

/// What was released: by one thread, or the union of others.
struct knowledge {
  std::vector<std::shared_ptr<const knowledge>> parents;
  /// The thread's block; the time before which it knew its block, and each thread of its warp.
  bool has_own = false;
  std::uint32_t block = 0;
  std::uint32_t warp = 0;
  std::uint32_t before = 0;
  std::array<std::uint32_t, warp_size> lanes_before{};
  /// The lane that released, and what it came from: barriers of its block, and of its warp, too.
  unsigned releaser = 0;
  last_barriers barriers_of_block;
  last_barriers barriers_of_warp;

  struct about_block {
    std::uint32_t before = 0;
    std::unordered_map<std::uint32_t, std::array<std::uint32_t, warp_size>> warps;
    std::vector<const knowledge*> released;
  };
  using flat = std::unordered_map<std::uint32_t, about_block>;
  mutable std::unique_ptr<flat> walked;

  /// True if it includes an access of a lane of a warp of a block.
  [[nodiscard]] bool includes(std::uint32_t of_block,
                              std::uint32_t of_warp,
                              unsigned lane,
                              std::uint32_t stamp) const {
    if (walked == nullptr) {
      walk();
    }
    const auto found = walked->find(of_block);
    if (found == walked->end()) {
      return false;
    }
    if (stamp < found->second.before) {
      return true;
    }
    const auto w = found->second.warps.find(of_warp);
    return w != found->second.warps.end() && stamp < w->second[lane];
  }

  /// The place of the barriers without which it would not include an access that it includes. None
  /// if there is another order.
  [[nodiscard]] std::optional<std::uint32_t> ordered_by(std::uint32_t block_of_access,
                                                        std::uint32_t warp_of_access,
                                                        unsigned lane_of_access,
                                                        std::uint32_t stamp) const {
    std::optional<std::uint32_t> origin;
    for (const knowledge* const k : walked->at(block_of_access).released) {
      const bool is_of_warp = k->warp == warp_of_access;
      if (stamp >= k->before && !(is_of_warp && stamp < k->lanes_before[lane_of_access])) {
        continue;  // does not include it
      }
      const last_barriers& last = is_of_warp ? k->barriers_of_warp : k->barriers_of_block;
      if ((is_of_warp && lane_of_access == k->releaser) || !last.alone_order(stamp) ||
          (origin && *origin != last.origin)) {
        return std::nullopt;
      }
      origin = last.origin;
    }
    return origin;
  }

  /// The union of two.
  [[nodiscard]] static std::shared_ptr<const knowledge>
  join(const std::shared_ptr<const knowledge>& a, const std::shared_ptr<const knowledge>& b) {
    if (a == nullptr || b == nullptr || a == b) {
      return a == nullptr ? b : a;
    }
    auto both = std::make_shared<knowledge>();
    both->parents = {a, b};
    return both;
  }

 private:
  void walk() const {
    walked = std::make_unique<flat>();
    std::vector<const knowledge*> open = {this};
    std::unordered_set<const knowledge*> seen = {this};
    while (!open.empty()) {
      const knowledge& k = *open.back();
      open.pop_back();
      if (k.has_own) {
        about_block& about = (*walked)[k.block];
        about.released.push_back(&k);
        about.before = std::max(about.before, k.before);
        auto& lanes = about.warps[k.warp];
        for (unsigned lane = 0; lane < warp_size; ++lane) {
          lanes[lane] = std::max(lanes[lane], k.lanes_before[lane]);
        }
      }
      for (const auto& parent : k.parents) {
        if (seen.insert(parent.get()).second) {
          open.push_back(parent.get());
        }
      }
    }
  }
};

using knowledge_ptr = std::shared_ptr<const knowledge>;

/// What the threads of one block know.
class block_clock {
 public:
  block_clock(std::uint32_t block, unsigned warps)
      : block_(block)
      , threads_(std::size_t{warps} * warp_size)
      , of_warps_(warps) {}

  [[nodiscard]] std::uint32_t now() const { return now_; }
  [[nodiscard]] std::uint32_t block() const { return block_; }

  /// All threads met, at a barrier of some place in the sources.
  void pass_barrier(std::uint32_t origin) {
    ++now_;
    of_block_.pass(now_, origin);
    for (last_barriers& of_warp : of_warps_) {
      of_warp.pass(now_, origin);
    }
    knowledge_ptr all;
    for (const thread& t : threads_) {
      all = knowledge::join(all, t.knows);
    }
    for (thread& t : threads_) {
      t.before = now_;
      t.learn(all, origin);
    }
  }

  /// These lanes of a warp met.
  void pass_barrier(unsigned warp, lane_mask lanes, std::uint32_t origin) {
    ++now_;
    of_warps_[warp].pass(now_, origin);
    thread* const threads = threads_.data() + std::size_t{warp} * warp_size;
    thread all;
    for_each_lane(lanes, [&](unsigned lane) {
      const thread& t = threads[lane];
      all.before = std::max(all.before, t.before);
      for (unsigned other = 0; other < warp_size; ++other) {
        all.lanes_before[other] = std::max(all.lanes_before[other], t.lanes_before[other]);
      }
      all.knows = knowledge::join(all.knows, t.knows);
    });
    for_each_lane(lanes, [&](unsigned lane) { all.lanes_before[lane] = now_; });
    for_each_lane(lanes, [&](unsigned lane) {
      threads[lane].before = all.before;
      threads[lane].lanes_before = all.lanes_before;
      threads[lane].learn(all.knows, origin);
    });
  }

  /// What a thread releases, with what it joins.
  [[nodiscard]] knowledge_ptr release(unsigned warp, unsigned lane, const knowledge_ptr& joined) {
    ++now_;
    const thread& t = threads_[std::size_t{warp} * warp_size + lane];
    auto released = std::make_shared<knowledge>();
    released->has_own = true;
    released->block = block_;
    released->warp = warp;
    released->before = t.before;
    released->lanes_before = t.lanes_before;
    released->lanes_before[lane] = now_;
    released->releaser = lane;
    released->barriers_of_block = of_block_;
    released->barriers_of_warp = of_warps_[warp];
    for (const knowledge_ptr& parent : {t.knows, joined}) {
      if (parent != nullptr) {
        released->parents.push_back(parent);
      }
    }
    return released;
  }
  void acquire(unsigned warp, unsigned lane, const knowledge_ptr& released) {
    thread& t = threads_[std::size_t{warp} * warp_size + lane];
    t.knows = knowledge::join(t.knows, released);
    t.knew = knowledge::join(t.knew, released);
  }

  /// The time before which all of these lanes know everything of their block.
  [[nodiscard]] std::uint32_t known_to_all(unsigned warp, lane_mask lanes) const {
    std::uint32_t least = UINT32_MAX;
    for_each_lane(lanes, [&](unsigned lane) {
      least = std::min(least, threads_[std::size_t{warp} * warp_size + lane].before);
    });
    return least;
  }

  /// Time of the last barrier of the block that is of another place than the last ones: to an
  /// access before it no single place matters.
  [[nodiscard]] std::uint32_t other_barrier_at() const { return of_block_.other_at; }

  /// Marks each place whose barriers alone order an access of another thread before what a thread
  /// does now, so that without them the two would race. None if there is another order, or may be.
  void note_order(unsigned warp,
                  unsigned lane,
                  const access& a,
                  unsigned of_lane,
                  unsigned warps,
                  std::vector<char>& needed) const {
    const thread& t = threads_[std::size_t{warp} * warp_size + lane];
    const std::uint32_t block = a.warp / warps;
    const std::uint32_t of_warp = a.warp % warps;
    if (t.knows != nullptr && t.knows->includes(block, of_warp, of_lane, a.stamp)) {
      if (block == block_) {
        return;
      }
      if (t.knew == nullptr || !t.knew->includes(block, of_warp, of_lane, a.stamp)) {
        needed[t.learnt_at] = 1;
      }
      if (const auto origin = t.knows->ordered_by(block, of_warp, of_lane, a.stamp)) {
        needed[*origin] = 1;
      }
      return;
    }
    const last_barriers& last = of_warp == warp ? of_warps_[warp] : of_block_;
    if (block == block_ && last.alone_order(a.stamp)) {
      needed[last.origin] = 1;
    }
  }

  /// True if an access happened before what a thread does now. `warps` of a block.
  [[nodiscard]] bool
  has_seen(unsigned warp, unsigned lane, const access& a, unsigned of_lane, unsigned warps) const {
    const thread& t = threads_[std::size_t{warp} * warp_size + lane];
    const std::uint32_t block = a.warp / warps;
    const std::uint32_t of_warp = a.warp % warps;
    if (block == block_) {
      if (a.stamp < t.before ||
          (of_warp == warp && (of_lane == lane || a.stamp < t.lanes_before[of_lane]))) {
        return true;
      }
    }
    return t.knows != nullptr && t.knows->includes(block, of_warp, of_lane, a.stamp);
  }

 private:
  struct thread {
    std::uint32_t before = 0;
    std::array<std::uint32_t, warp_size> lanes_before{};
    knowledge_ptr knows;
    /// The same as if the last barriers, which are of one place, were not there.
    knowledge_ptr knew;
    std::uint32_t learnt_at = UINT32_MAX;

    void learn(const knowledge_ptr& all, std::uint32_t origin) {
      knew = origin == learnt_at ? knew : knows;
      knows = all;
      learnt_at = origin;
    }
  };

  std::uint32_t block_;
  std::uint32_t now_ = 1;
  std::vector<thread> threads_;
  last_barriers of_block_;
  std::vector<last_barriers> of_warps_;  // with those of the block
};

/// Adds an access to the history of a word. Returns an earlier one that races with it, if any.
/// Marks the places in `needed`, if it is one, whose barriers alone keep it from racing.
[[nodiscard]] inline std::optional<access> add_access(access_history::cell& cell,
                                                      const access& now,
                                                      const block_clock& clock,
                                                      unsigned warps,
                                                      std::vector<char>* needed = nullptr) {
  const bool writes = now.kind == access_kind::write || now.kind == access_kind::atomic_write;
  std::optional<access> race;
  const unsigned warp = now.warp % warps;
  const std::uint32_t known = clock.known_to_all(warp, now.lanes);
  const auto is_before = [&](const access& a) {
    if (a.warp / warps == clock.block() && a.stamp < known) {
      return true;
    }
    bool all = true;
    for_each_lane(a.lanes, [&](unsigned of_lane) {
      for_each_lane(now.lanes, [&](unsigned lane) {
        all = all && clock.has_seen(warp, lane, a, of_lane, warps);
      });
    });
    return all;
  };
  if (now.kind == access_kind::write && (now.lanes & (now.lanes - 1)) != 0) {
    race = now;  // by lanes of one instruction
  }
  if (!writes && !cell.was_written) {
    // Nothing to compare with; the last read often is one of the same instruction, or a former one.
    if (cell.count > 0) {
      access& last = cell[cell.count - 1];
      if (last.warp == now.warp && last.stamp == now.stamp && last.at == now.at &&
          last.kind == now.kind && last.bytes == now.bytes) {
        last.lanes |= now.lanes;
        return race;
      }
      const bool stands_for_it = needed == nullptr || last.stamp < clock.other_barrier_at() ||
                                 (last.warp == now.warp && (last.lanes & ~now.lanes) == 0);
      if (last.bytes == now.bytes && last.kind == now.kind && last.warp / warps == clock.block() &&
          last.stamp < known && stands_for_it) {
        last = now;
        return race;
      }
    }
    cell.push(now);
    return race;
  }
  cell.was_written = true;
  std::uint32_t kept = 0;
  for (std::uint32_t n = 0; n < cell.count; ++n) {
    access& a = cell[n];
    if (!race && (a.bytes & now.bytes) != 0 && conflict(a.kind, now.kind) && !is_before(a)) {
      race = a;
    }
    if (needed != nullptr && (a.bytes & now.bytes) != 0 && conflict(a.kind, now.kind)) {
      for_each_lane(a.lanes, [&](unsigned of_lane) {
        const lane_mask others =
            a.warp == now.warp ? now.lanes & ~(lane_mask{1} << of_lane) : now.lanes;
        if (others != 0) {
          const auto lane = static_cast<unsigned>(std::countr_zero(others));
          clock.note_order(warp, lane, a, of_lane, warps, *needed);
        }
      });
    }
    if (now.kind == access_kind::write) {
      a.bytes &= static_cast<std::uint8_t>(~now.bytes);  // the write stands for what it follows
    }
    if (a.bytes != 0) {
      if (kept != n) {
        cell[kept] = a;
      }
      ++kept;
    }
  }
  cell.truncate(kept);
  cell.push(now);
  return race;
}

}  // namespace unmask::ptx
