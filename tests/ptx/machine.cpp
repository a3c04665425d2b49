// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ptx/machine.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <fstream>
#include <malloc.h>
#include <map>
#include <memory>
#include <sstream>
#include <unordered_map>

namespace unmask::ptx {
namespace {

[[nodiscard]] std::string demangled(const std::string& name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string s = status == 0 ? plain : name;
  std::free(plain);
  return s;
}

/// "0-3, 7".
[[nodiscard]] std::string ranges_of(const std::vector<unsigned>& threads) {
  std::string s;
  for (std::size_t n = 0; n < threads.size();) {
    std::size_t last = n;
    while (last + 1 < threads.size() && threads[last + 1] == threads[last] + 1) {
      ++last;
    }
    s += (s.empty() ? "" : ", ") + std::to_string(threads[n]) +
         (last > n ? "-" + std::to_string(threads[last]) : "");
    n = last + 1;
  }
  return s;
}

struct warp {
  unsigned index = 0;
  lane_mask left = 0;     ///< lanes that have returned, or never were
  lane_mask waiting = 0;  ///< lanes at a barrier or a warp-synchronous instruction
  std::array<std::uint32_t, warp_size> at{};
  std::vector<std::byte> registers;

  [[nodiscard]] lane_mask ready() const { return ~(left | waiting); }
};

/// States of a byte of shared memory.
enum shared_byte : std::uint8_t { in_no_variable, unwritten, written };

struct block {
  std::uint32_t index = 0;
  std::vector<warp> warps;
  std::vector<std::uint64_t> shared;
  std::vector<std::uint8_t> shared_states;
  std::size_t fixed_shared = 0;
  std::vector<std::uint64_t> local;
  access_history history;
  block_clock clock;
  std::size_t pauses = 0;  // of all warps

  block(std::uint32_t which, unsigned warp_count, std::size_t shared_bytes)
      : index(which)
      , history(shared_bytes)
      , clock(which, warp_count) {}
};

enum class memory_kind : std::uint8_t { global, shared, local, parameters };

/// A place in memory that an access was found to mean.
struct target {
  memory_kind kind = memory_kind::global;
  std::byte* data = nullptr;
  std::uint64_t offset = 0;
  allocation* in = nullptr;
};

class launch_run {
 public:
  launch_run(machine& m, const launch& what, std::uint32_t number)
      : machine_(m)
      , launch_(what)
      , kernel_(*what.code)
      , code_(what.code->code.data())
      , number_(number)
      , is_random_(m.how().seed != 0)
      , watches_(m.how().watches_races)
      , counts_accesses_(!m.how().counts.empty())
      , dice_(m.choices()) {
    threads_ = static_cast<unsigned>(what.block.size());
    warps_ = (threads_ + warp_size - 1) / warp_size;
    fixed_shared_ = (kernel_.shared_bytes + 63) / 64 * 64;
    local_bytes_ = (kernel_.local_bytes + 15) / 16 * 16;
    const schedule& how = m.how();
    if (!how.barriers.empty()) {
      passed_.resize(kernel_.code.size());
      of_barrier_.resize(kernel_.code.size());
      for (std::size_t pc = 0; pc < of_barrier_.size(); ++pc) {
        if (is_barrier(code_[pc])) {
          of_barrier_[pc] = m.origin_of(source_of(code_[pc]));
        }
      }
      needed_.resize(m.origins());
    }
    if (!how.without.empty()) {
      left_out_.resize(kernel_.code.size());
      for (std::size_t pc = 0; pc < left_out_.size(); ++pc) {
        left_out_[pc] =
            is_barrier(code_[pc]) &&
            std::find(how.without.begin(), how.without.end(), m.caller_in(source_of(code_[pc]))) !=
                how.without.end();
      }
    }
  }
  ~launch_run() {
    if (counts_accesses_) {
      counts_.launches = 1;
      counts_.blocks = launch_.grid.size();
      counts_.threads = threads_;
      machine_.count(kernel_.name, counts_);
    }
    for (std::size_t pc = 0; pc < passed_.size(); ++pc) {
      if (passed_[pc] > 0) {
        machine_.count_barriers(of_barrier_[pc], passed_[pc], needed_[of_barrier_[pc]] != 0);
      }
    }
  }
  launch_run(const launch_run&) = delete;
  launch_run& operator=(const launch_run&) = delete;

  void run() {
    const auto blocks = static_cast<std::int32_t>(launch_.grid.size());
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
    for (std::int32_t n = 0; n < blocks; ++n) {
      order[static_cast<std::size_t>(n)] = n;
    }
    if (is_random_) {
      order = dice_.permutation(blocks);
    }
    const unsigned most = std::max(1U, machine_.how().resident);
    const std::size_t resident = is_random_ ? 1 + dice_.bits() % most : std::size_t{most};
    std::vector<std::unique_ptr<block>> running;
    for (std::size_t next = 0, turn = 0; next < order.size() || !running.empty(); ++turn) {
      while (running.size() < resident && next < order.size()) {
        running.push_back(begin(static_cast<std::uint32_t>(order[next++])));
      }
      const std::size_t which = (is_random_ ? dice_.bits() : turn) % running.size();
      if (!advance(*running[which])) {
        for (warp& w : running[which]->warps) {
          machine_.give_back(std::move(w.registers));
        }
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  }

 private:
  // --- blocks, warps, groups of threads that go together ---

  [[nodiscard]] std::unique_ptr<block> begin(std::uint32_t index) const {
    const std::size_t shared_bytes = fixed_shared_ + launch_.dynamic_shared;
    auto b = std::make_unique<block>(index, warps_, shared_bytes);
    b->shared.assign(shared_bytes / 8 + 1, 0xcdcdcdcdcdcdcdcdU);
    b->shared_states.assign(shared_bytes, in_no_variable);
    for (const shared_variable& v : kernel_.shared) {
      std::fill_n(b->shared_states.begin() + v.offset, v.bytes, std::uint8_t{unwritten});
    }
    std::fill_n(b->shared_states.begin() + static_cast<std::ptrdiff_t>(fixed_shared_),
                launch_.dynamic_shared,
                std::uint8_t{unwritten});
    b->local.assign(local_bytes_ / 8 * threads_, 0xcdcdcdcdcdcdcdcdU);
    b->warps.resize(warps_);
    const std::array<std::uint32_t, specials> same = {0,
                                                      0,
                                                      0,
                                                      index % launch_.grid.x,
                                                      index / launch_.grid.x % launch_.grid.y,
                                                      index / launch_.grid.x / launch_.grid.y,
                                                      launch_.block.x,
                                                      launch_.block.y,
                                                      launch_.block.z,
                                                      launch_.grid.x,
                                                      launch_.grid.y,
                                                      launch_.grid.z,
                                                      0};
    for (unsigned w = 0; w < warps_; ++w) {
      warp& one = b->warps[w];
      one.index = w;
      one.registers = machine_.take_registers(kernel_.register_bytes);
      auto* const values = reinterpret_cast<std::uint32_t*>(one.registers.data());
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        for (unsigned s = 0; s < specials; ++s) {
          values[s * warp_size + lane] = same[s];
        }
        const unsigned thread = w * warp_size + lane;
        values[tid_x * warp_size + lane] = thread % launch_.block.x;
        values[tid_y * warp_size + lane] = thread / launch_.block.x % launch_.block.y;
        values[tid_z * warp_size + lane] = thread / launch_.block.x / launch_.block.y;
        values[laneid * warp_size + lane] = lane;
        one.left |= thread < threads_ ? 0 : lane_mask{1} << lane;
      }
    }
    return b;
  }

  // Lets some warp of a block go on; false when all its threads have returned.
  [[nodiscard]] bool advance(block& b) {
    std::array<warp*, 32> able{};
    std::size_t count = 0;
    bool all_left = true;
    for (warp& w : b.warps) {
      if (w.ready() != 0) {
        able[count++] = &w;
      }
      all_left = all_left && w.left == every_lane;
    }
    if (all_left) {
      return false;
    }
    if (count == 0) {
      report_stuck(b);
      throw launch_failed{};
    }
    if (!is_random_) {
      run_warp(b, *able[b.pauses % count], UINT32_MAX, true);
      return true;
    }
    static constexpr std::array<unsigned, 4> turns = {2, 20, 200, 2000};
    const std::uint64_t bits = dice_.bits();
    run_warp(b,
             *able[bits % count],
             turns[bits >> 8U & 3U] + static_cast<unsigned>(bits >> 16U & 15U),
             (bits >> 24U & 3U) != 0);
    return true;
  }

  // Runs threads of a warp that are at the same instruction, `turns` instructions at most. Those
  // that converge go together: the threads that are behind go first.
  void run_warp(block& b, warp& w, unsigned turns, bool converges) {
    lane_mask group = 0;
    std::uint32_t pc = UINT32_MAX;
    std::uint32_t next = UINT32_MAX;  // where the first of the others are
    const lane_mask ready = w.ready();
    if (converges) {
      for_each_lane(ready, [&](unsigned lane) { pc = std::min(pc, w.at[lane]); });
    } else {
      auto skip = static_cast<int>(dice_.bits() % static_cast<unsigned>(std::popcount(ready)));
      for_each_lane(ready, [&](unsigned lane) { pc = skip-- == 0 ? w.at[lane] : pc; });
    }
    for_each_lane(ready, [&](unsigned lane) {
      if (w.at[lane] == pc) {
        group |= lane_mask{1} << lane;
      } else if (converges) {
        next = std::min(next, w.at[lane]);
      }
    });
    const auto save = [&] { for_each_lane(group, [&](unsigned lane) { w.at[lane] = pc; }); };
    operands o{w.registers.data(), const_cast<std::byte*>(kernel_.constants.data()), 0};
    for (; turns > 0; --turns) {
      if (pc >= next) {
        break;
      }
      const instruction& in = code_[pc];
      ++counts_.instructions;
      lane_mask lanes = group;
      if (in.guard != nowhere) {
        const lane_mask p = *o.at<lane_mask>(in.guard);
        lanes &= in.guard_is_negated ? ~p : p;
      }
      switch (in.kind) {
      case action::compute:
        if (lanes != 0) {
          o.lanes = lanes;
          in.compute(o, in);
        }
        break;
      case action::load:
      case action::store:
      case action::atomic:
        if (lanes != 0) {
          o.lanes = lanes;
          access_memory(b, w, o, in, pc);
        }
        break;
      case action::fence:
        break;
      case action::pause:
        ++b.pauses;
        ++pc;
        save();
        return;
      case action::branch:
        if (lanes == group) {
          pc = in.target;
          continue;
        }
        if (lanes != 0) {
          ++pc;
          save();
          for_each_lane(lanes, [&](unsigned lane) { w.at[lane] = in.target; });
          return;
        }
        break;
      case action::leave:
        w.left |= lanes;
        group &= ~lanes;
        if (group == 0) {
          return;
        }
        break;
      case action::block_barrier:
      case action::warp_barrier:
      case action::shuffle:
      case action::vote:
      case action::reduction: {
        if (lanes == 0 || (!left_out_.empty() && left_out_[pc])) {
          break;
        }
        counts_.block_barriers += in.kind == action::block_barrier ? 1 : 0;
        counts_.warp_barriers += in.kind == action::warp_barrier ? 1 : 0;
        if (!passed_.empty() && is_barrier(in)) {
          ++passed_[pc];
        }
        if (in.kind != action::block_barrier && lanes == group && members(o, in, lanes) == lanes) {
          meet(b, w, o, in, lanes);
          break;
        }
        save();
        for_each_lane(group & ~lanes, [&](unsigned lane) { w.at[lane] = pc + 1; });
        w.waiting |= lanes;
        if (in.kind == action::block_barrier) {
          try_block_barrier(b, pc);
        } else {
          try_warp(b, w, o, in, pc, lanes);
        }
        return;
      }
      }
      ++pc;
    }
    save();
  }

  void try_block_barrier(block& b, std::uint32_t pc) {
    unsigned there = 0;
    for (const warp& w : b.warps) {
      for_each_lane(w.waiting, [&](unsigned lane) { there += w.at[lane] == pc ? 1 : 0; });
    }
    if (there < threads_) {
      return;
    }
    for (warp& w : b.warps) {
      for_each_lane(w.waiting, [&](unsigned lane) { w.at[lane] = pc + 1; });
      w.waiting = 0;
    }
    if (watches_) {
      b.clock.pass_barrier(origin_at(pc));
    }
  }

  // The mask that all of these lanes name; 0 if they name different ones.
  [[nodiscard]] static lane_mask
  members(const operands& o, const instruction& in, lane_mask lanes) {
    const auto* const masks = o.at<const lane_mask>(in.args[3]);
    const lane_mask first = masks[std::countr_zero(lanes)];
    bool all = true;
    for_each_lane(lanes, [&](unsigned lane) { all = all && masks[lane] == first; });
    return all ? first : 0;
  }

  void try_warp(
      block& b, warp& w, operands& o, const instruction& in, std::uint32_t pc, lane_mask lanes) {
    const auto* const masks = o.at<const lane_mask>(in.args[3]);
    const lane_mask wanted = masks[std::countr_zero(lanes)];
    if ((wanted & lanes) != lanes) {
      fail(b, w, in, std::countr_zero(lanes & ~wanted), "is not in the mask that it names");
    }
    if ((wanted & w.left) != 0) {
      fail(b,
           w,
           in,
           std::countr_zero(lanes),
           "names thread " +
               std::to_string(w.index * warp_size +
                              static_cast<unsigned>(std::countr_zero(wanted & w.left))) +
               ", which has returned");
    }
    lane_mask there = 0;
    for_each_lane(w.waiting, [&](unsigned lane) {
      there |= w.at[lane] == pc && masks[lane] == wanted ? lane_mask{1} << lane : 0;
    });
    if ((there & wanted) != wanted) {
      return;
    }
    meet(b, w, o, in, wanted);
    w.waiting &= ~wanted;
    for_each_lane(wanted, [&](unsigned lane) { w.at[lane] = pc + 1; });
  }

  // What a warp-synchronous instruction does when all its threads are there.
  void meet(block& b, warp& w, operands& o, const instruction& in, lane_mask lanes) {
    if (in.kind == action::warp_barrier) {
      if (watches_) {
        b.clock.pass_barrier(w.index, lanes, origin_at(static_cast<std::uint32_t>(&in - code_)));
      }
      return;
    }
    if (in.kind == action::reduction) {
      const auto* const values = o.at<const std::uint32_t>(in.args[0]);
      auto* const to = o.at<std::uint32_t>(in.to[0]);
      std::uint32_t all = 0;
      for_each_lane(lanes, [&](unsigned lane) { all |= values[lane]; });
      for_each_lane(lanes, [&](unsigned lane) { to[lane] = all; });
      return;
    }
    if (in.kind == action::vote) {
      lane_mask yes = *o.at<const lane_mask>(in.args[0]);
      yes = (in.is_signed ? ~yes : yes) & lanes;
      if (in.variant == 0) {
        auto* const to = o.at<std::uint32_t>(in.to[0]);
        for_each_lane(lanes, [&](unsigned lane) { to[lane] = yes; });
      } else {
        lane_mask& to = *o.at<lane_mask>(in.to[0]);
        const bool is = in.variant == 1 ? yes != 0 : yes == lanes;
        to = is ? to | lanes : to & ~lanes;
      }
      return;
    }
    const auto* const values = o.at<const std::uint32_t>(in.args[0]);
    const auto* const by = o.at<const std::uint32_t>(in.args[1]);
    const auto* const limits = o.at<const std::uint32_t>(in.args[2]);
    std::array<std::uint32_t, warp_size> results{};
    lane_mask inside = 0;
    for_each_lane(lanes, [&](unsigned lane) {
      const std::uint32_t segment = limits[lane] >> 8U & 31U;
      const std::uint32_t last = (lane & segment) | (limits[lane] & 31U & ~segment);
      const std::uint32_t n = by[lane] & 31U;
      std::uint32_t from = 0;
      bool is_inside = false;
      switch (in.variant) {
      case 0:
        from = lane ^ n;
        is_inside = from <= last;
        break;
      case 1:
        from = (lane & segment) | (n & ~segment);
        is_inside = from <= last;
        break;
      case 2:
        from = lane - n;
        is_inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(last);
        break;
      default:
        from = lane + n;
        is_inside = from <= last;
      }
      from = is_inside ? from : lane;
      if ((lanes >> from & 1U) == 0) {
        fail(b,
             w,
             in,
             lane,
             "reads thread " + std::to_string(w.index * warp_size + from) +
                 ", which the mask does not name");
      }
      results[lane] = values[from];
      inside |= is_inside ? lane_mask{1} << lane : 0;
    });
    auto* const to = o.at<std::uint32_t>(in.to[0]);
    for_each_lane(lanes, [&](unsigned lane) { to[lane] = results[lane]; });
    if (in.to[1] != nowhere) {
      lane_mask& p = *o.at<lane_mask>(in.to[1]);
      p = (p & ~lanes) | inside;
    }
  }

  // --- memory ---

  void
  access_memory(block& b, warp& w, const operands& o, const instruction& in, std::uint32_t pc) {
    std::array<std::uint64_t, warp_size> addresses{};
    const auto offset = static_cast<std::uint64_t>(in.offset);
    if (in.variant == 8) {
      const auto* const base = o.at<const std::uint64_t>(in.args[0]);
      for_each_lane(o.lanes, [&](unsigned lane) { addresses[lane] = base[lane] + offset; });
    } else {
      const auto* const base = o.at<const std::uint32_t>(in.args[0]);  // wraps
      for_each_lane(o.lanes, [&](unsigned lane) {
        addresses[lane] = static_cast<std::uint32_t>(base[lane] + offset);
      });
    }
    if (counts_accesses_) {
      count_access(in, o.lanes, addresses);
    }
    if (in.kind == action::atomic) {
      lane_mask todo = o.lanes;
      while (todo != 0) {
        unsigned lane = static_cast<unsigned>(std::countr_zero(todo));
        if (is_random_) {
          const auto skip = dice_.bits() % static_cast<unsigned>(std::popcount(todo));
          lane_mask rest = todo;
          for (std::uint64_t n = 0; n < skip; ++n) {
            rest &= rest - 1;
          }
          lane = static_cast<unsigned>(std::countr_zero(rest));
        }
        todo &= ~(lane_mask{1} << lane);
        access_one(b, w, o, in, pc, lane, lane_mask{1} << lane, addresses[lane]);
      }
      return;
    }
    const unsigned first = static_cast<unsigned>(std::countr_zero(o.lanes));
    bool is_same = true;
    for_each_lane(o.lanes,
                  [&](unsigned lane) { is_same = is_same && addresses[lane] == addresses[first]; });
    if (is_same && in.kind == action::load && in.order == memory_order::weak) {
      const target t = access_one(b, w, o, in, pc, first, o.lanes, addresses[first]);
      if (t.kind != memory_kind::local) {
        copy_lane(o, in, first);
        return;
      }
    }
    for_each_lane(o.lanes, [&](unsigned lane) {
      access_one(b, w, o, in, pc, lane, lane_mask{1} << lane, addresses[lane]);
    });
  }

  // One access of a warp, by its addresses.
  void count_access(const instruction& in,
                    lane_mask lanes,
                    const std::array<std::uint64_t, warp_size>& addresses) {
    const std::uint64_t size = std::uint64_t{in.bytes} * in.count;
    const std::uint64_t window = addresses[std::countr_zero(lanes)] & window_mask;
    const bool is_generic = in.space == state_space::generic;
    if (in.space == state_space::shared || (is_generic && window == shared_window)) {
      // So many threads at a time that they ask for 128 bytes at most.
      const unsigned together = static_cast<unsigned>(std::min<std::uint64_t>(32, 128 / size));
      for (unsigned from = 0; from < warp_size; from += together) {
        std::array<std::set<std::uint64_t>, 32> words;
        for (unsigned lane = from; lane < from + together; ++lane) {
          for (std::uint64_t at = addresses[lane];
               (lanes >> lane & 1U) != 0 && at < addresses[lane] + size;
               at += 4) {
            words[at / 4 % 32].insert(at / 4);
          }
        }
        std::size_t most = 0;
        for (const auto& bank : words) {
          most = std::max(most, bank.size());
        }
        counts_.shared_passes += most;
        counts_.least_shared_passes += most > 0 ? 1 : 0;
      }
    } else if (in.space == state_space::global || (is_generic && window == 0)) {
      std::set<std::uint64_t> sectors;
      for_each_lane(lanes, [&](unsigned lane) {
        for (std::uint64_t at = addresses[lane] / 32; at <= (addresses[lane] + size - 1) / 32;
             ++at) {
          sectors.insert(at);
        }
      });
      const std::uint64_t bytes = size * static_cast<unsigned>(std::popcount(lanes));
      if (in.kind == action::atomic) {
        counts_.atomics += static_cast<unsigned>(std::popcount(lanes));
      } else if (in.kind == action::load) {
        counts_.bytes_read += bytes;
        counts_.sectors_read += sectors.size();
      } else {
        counts_.bytes_written += bytes;
        counts_.sectors_written += sectors.size();
      }
    }
  }

  // What the first lane has loaded, for all.
  static void copy_lane(const operands& o, const instruction& in, unsigned first) {
    for (unsigned n = 0; n < in.count; ++n) {
      if (in.to[n] == nowhere) {
        continue;
      }
      if ((in.wide >> n & 1U) != 0) {
        auto* const to = o.at<std::uint64_t>(in.to[n]);
        for_each_lane(o.lanes, [&](unsigned lane) { to[lane] = to[first]; });
      } else {
        auto* const to = o.at<std::uint32_t>(in.to[n]);
        for_each_lane(o.lanes, [&](unsigned lane) { to[lane] = to[first]; });
      }
    }
  }

  [[nodiscard]] target
  find(block& b, const warp& w, const instruction& in, unsigned lane, std::uint64_t address) {
    const std::size_t size = std::size_t{in.bytes} * in.count;
    if (address % size != 0) {
      fail(
          b, w, in, lane, "is misaligned: " + std::to_string(size) + " bytes at " + where(address));
    }
    state_space space = in.space;
    if (space == state_space::generic) {
      const std::uint64_t window = address & window_mask;
      space = window == shared_window      ? state_space::shared
              : window == local_window     ? state_space::local
              : window == parameter_window ? state_space::parameters
                                           : state_space::global;
    }
    target t;
    const std::uint64_t offset = address & ~window_mask;
    if (space == state_space::shared) {
      const std::uint64_t dynamic = dynamic_shared_address - shared_window;
      t.kind = memory_kind::shared;
      t.offset = offset >= dynamic ? offset - dynamic + fixed_shared_ : offset;
      bool is_inside = t.offset + size <= b.shared_states.size();
      for (std::size_t n = 0; is_inside && n < size; ++n) {
        is_inside = b.shared_states[t.offset + n] != in_no_variable;
      }
      if (!is_inside) {
        fail(b, w, in, lane, "is outside of shared memory, at its byte " + std::to_string(offset));
      }
      t.data = reinterpret_cast<std::byte*>(b.shared.data()) + t.offset;
    } else if (space == state_space::local) {
      t.kind = memory_kind::local;
      t.offset = offset;
      if (offset + size > local_bytes_) {
        fail(b, w, in, lane, "is outside of local memory, at its byte " + std::to_string(offset));
      }
      t.data = reinterpret_cast<std::byte*>(b.local.data()) +
               std::size_t{w.index * warp_size + lane} * local_bytes_ + offset;
    } else if (space == state_space::parameters) {
      t.kind = memory_kind::parameters;
      if (offset + size > launch_.parameters.size() || in.kind != action::load) {
        fail(b, w, in, lane, "is outside of the parameters, at byte " + std::to_string(offset));
      }
      t.data = const_cast<std::byte*>(launch_.parameters.data()) + offset;
    } else {
      t.in = machine_.memory().find(address, size);
      if (t.in == nullptr) {
        fail(b,
             w,
             in,
             lane,
             "is out of bounds: " + std::to_string(size) + " bytes at " + where(address));
      }
      t.offset = address - t.in->begin;
      t.data = reinterpret_cast<std::byte*>(address);
    }
    return t;
  }

  target access_one(block& b,
                    warp& w,
                    const operands& o,
                    const instruction& in,
                    std::uint32_t pc,
                    unsigned lane,
                    lane_mask lanes,
                    std::uint64_t address) {
    const target t = find(b, w, in, lane, address);
    const std::size_t size = std::size_t{in.bytes} * in.count;
    if (in.kind != action::store) {
      check_written(b, w, in, lane, t, size);
    }
    const bool is_watched =
        watches_ && (t.kind == memory_kind::global || t.kind == memory_kind::shared);
    if (is_watched) {
      watch(b, w, in, pc, lanes, t);
      if (in.order != memory_order::weak || in.kind == action::store) {
        synchronise(b, w, in, lane, t);
      }
    }
    if (in.kind == action::load) {
      for (unsigned n = 0; n < in.count; ++n) {
        if (in.to[n] != nowhere) {
          write_register(
              o, in.wide >> n & 1U, in.to[n], lane, loaded(in, t.data + std::size_t{n} * in.bytes));
        }
      }
      return t;
    }
    if (in.kind == action::store) {
      for (unsigned n = 0; n < in.count; ++n) {
        const std::uint64_t x = register_value(o, in.wide >> n & 1U, in.to[n], lane);
        std::memcpy(t.data + std::size_t{n} * in.bytes, &x, in.bytes);
      }
    } else {
      const std::uint64_t old = loaded(in, t.data);
      const std::uint64_t x = in.combine(old,
                                         register_value(o, in.wide, in.args[1], lane),
                                         register_value(o, in.wide, in.args[2], lane));
      std::memcpy(t.data, &x, in.bytes);
      if (in.to[0] != nowhere) {
        write_register(o, in.wide, in.to[0], lane, old);
      }
    }
    if (t.kind == memory_kind::shared) {
      std::memset(b.shared_states.data() + t.offset, written, size);
    } else if (t.in != nullptr) {
      t.in->mark_written(address, size);
    }
    return t;
  }

  [[nodiscard]] static std::uint64_t loaded(const instruction& in, const std::byte* from) {
    std::uint64_t x = 0;
    std::memcpy(&x, from, in.bytes);
    if (in.is_signed && in.bytes < 8) {
      const unsigned unused = 64 - 8U * in.bytes;
      x = static_cast<std::uint64_t>(static_cast<std::int64_t>(x << unused) >> unused);
    }
    return x;
  }
  [[nodiscard]] static std::uint64_t
  register_value(const operands& o, unsigned is_wide, place p, unsigned lane) {
    return is_wide != 0 ? o.at<const std::uint64_t>(p)[lane] : o.at<const std::uint32_t>(p)[lane];
  }
  static void
  write_register(const operands& o, unsigned is_wide, place p, unsigned lane, std::uint64_t x) {
    if (is_wide != 0) {
      o.at<std::uint64_t>(p)[lane] = x;
    } else {
      o.at<std::uint32_t>(p)[lane] = static_cast<std::uint32_t>(x);
    }
  }

  void check_written(block& b,
                     const warp& w,
                     const instruction& in,
                     unsigned lane,
                     const target& t,
                     std::size_t size) {
    bool is_written = true;
    if (t.kind == memory_kind::shared) {
      for (std::size_t n = 0; n < size; ++n) {
        is_written =
            is_written && (b.shared_states[t.offset + n] == written || (in.used >> n & 1U) == 0);
      }
    } else if (t.in != nullptr) {
      is_written = t.in->is_written(t.in->begin + t.offset, size, in.used);
    }
    if (!is_written && first_time(in, 1)) {
      machine_.report(about(b, w, in, lane) + " reads what was never written: " +
                      (t.kind == memory_kind::shared
                           ? "byte " + std::to_string(t.offset) + " of shared memory"
                           : where(t.in->begin + t.offset)));
    }
  }

  // --- races ---

  void watch(block& b,
             const warp& w,
             const instruction& in,
             std::uint32_t pc,
             lane_mask lanes,
             const target& t) {
    const bool is_atomic = in.order != memory_order::weak;
    const access_kind kind = in.kind == action::load
                                 ? (is_atomic ? access_kind::atomic_read : access_kind::read)
                                 : (is_atomic ? access_kind::atomic_write : access_kind::write);
    access_history& history = t.kind == memory_kind::shared ? b.history : t.in->history;
    const std::size_t size = std::size_t{in.bytes} * in.count;
    for (std::size_t n = 0; n < size;) {
      const std::uint64_t at = t.offset + n;
      const std::size_t here = std::min<std::size_t>(4 - at % 4, size - n);
      auto bytes = static_cast<std::uint8_t>(((1U << here) - 1U) << (at % 4));
      const auto used = static_cast<std::uint8_t>((in.used >> n & 15U) << (at % 4));
      bytes = in.kind == action::load ? bytes & used : bytes;
      n += here;
      if (bytes == 0) {
        continue;
      }
      const access now{b.index * warps_ + w.index, lanes, b.clock.now(), pc, bytes, kind};
      const auto race = add_access(
          history.at(at, number_), now, b.clock, warps_, needed_.empty() ? nullptr : &needed_);
      if (race && first_time(in, 2)) {
        report_race(b, w, in, *race, std::countr_zero(lanes), t);
      }
    }
  }

  void synchronise(block& b, const warp& w, const instruction& in, unsigned lane, const target& t) {
    const std::uint64_t key = t.kind == memory_kind::shared
                                  ? shared_window | std::uint64_t{b.index} << 24U | t.offset
                                  : t.in->begin + t.offset;
    const bool acquires = in.order == memory_order::acquire || in.order == memory_order::acq_rel;
    const bool releases = in.order == memory_order::release || in.order == memory_order::acq_rel;
    if (in.kind == action::store && !releases) {
      released_.erase(key);
      return;
    }
    knowledge_ptr& place = released_[key];
    if (acquires && in.kind != action::store) {
      b.clock.acquire(w.index, lane, place);
    }
    if (releases && in.kind != action::load) {
      place = b.clock.release(w.index, lane, in.kind == action::atomic ? place : nullptr);
    }
  }

  void report_race(const block& b,
                   const warp& w,
                   const instruction& in,
                   const access& other,
                   int lane,
                   const target& t) {
    const instruction& there = code_[other.at];
    const std::uint32_t of_block = other.warp / warps_;
    const unsigned thread =
        other.warp % warps_ * warp_size + static_cast<unsigned>(std::countr_zero(other.lanes));
    machine_.report(
        "race at " +
        (t.kind == memory_kind::shared ? "byte " + std::to_string(t.offset) + " of shared memory"
                                       : where(t.in->begin + t.offset)) +
        ": " + about(b, w, in, static_cast<unsigned>(lane)) + "\n  with block " +
        std::to_string(of_block) + " thread " + std::to_string(thread) + " " + text_of(there));
  }

  // --- reports ---

  [[nodiscard]] std::uint32_t origin_at(std::uint32_t pc) const {
    return of_barrier_.empty() ? 0 : of_barrier_[pc];
  }
  [[nodiscard]] static bool is_barrier(const instruction& in) {
    return in.kind == action::block_barrier || in.kind == action::warp_barrier;
  }
  // "file:line<file:line": where it is, then where that was inlined; files from include/ on.
  [[nodiscard]] std::string source_of(const instruction& in) const {
    std::string s;
    for (const source_line& at : kernel_.sources[in.source]) {
      const std::string& file = launch_.from->file(at.file);
      const std::size_t folder = file.rfind("/include/");
      s += (s.empty() ? "" : "<") + (folder == std::string::npos ? file : file.substr(folder + 9)) +
           ":" + std::to_string(at.line);
    }
    return s;
  }
  [[nodiscard]] std::string text_of(const instruction& in) const {
    std::string s = "line " + std::to_string(in.line) + " `" +
                    std::string(kernel_.texts[static_cast<std::size_t>(&in - code_)]) + "`";
    if (in.source != 0) {
      s += " (" + source_of(in) + ")";
    }
    for (std::uint32_t call = in.call; call != 0; call = kernel_.calls[call].from) {
      s += ", called at line " + std::to_string(kernel_.calls[call].line);
    }
    return s;
  }
  [[nodiscard]] std::string
  about(const block& b, const warp& w, const instruction& in, unsigned lane) const {
    return demangled(kernel_.name) + "\n  block " + std::to_string(b.index) + " thread " +
           std::to_string(w.index * warp_size + lane) + " " + text_of(in);
  }
  [[nodiscard]] std::string where(std::uint64_t address) const {
    return machine_.memory().describe(address);
  }
  [[noreturn]] void fail(const block& b,
                         const warp& w,
                         const instruction& in,
                         auto lane,
                         const std::string& what) const {
    machine_.report(about(b, w, in, static_cast<unsigned>(lane)) + " " + what);
    throw launch_failed{};
  }
  // A kind of report about an instruction comes once.
  [[nodiscard]] bool first_time(const instruction& in, int kind) {
    return machine_.first_time(&in, kind);
  }

  // Who waits where, when none of a block can go on.
  void report_stuck(const block& b) {
    std::map<std::uint32_t, std::vector<unsigned>> waiting;
    std::vector<unsigned> left;
    for (const warp& w : b.warps) {
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        const unsigned thread = w.index * warp_size + lane;
        if ((w.waiting >> lane & 1U) != 0) {
          waiting[w.at[lane]].push_back(thread);
        } else if (thread < threads_) {
          left.push_back(thread);
        }
      }
    }
    std::string s = "deadlock: " + demangled(kernel_.name) + "\n  block " + std::to_string(b.index);
    for (const auto& [pc, threads] : waiting) {
      s += "\n  threads " + ranges_of(threads) + " wait at " + text_of(code_[pc]);
    }
    if (!left.empty()) {
      s += "\n  threads " + ranges_of(left) + " have returned";
    }
    machine_.report(s);
  }

  machine& machine_;
  const launch& launch_;
  const kernel& kernel_;
  const instruction* code_;
  std::uint32_t number_;
  bool is_random_;
  bool watches_;
  bool counts_accesses_;
  kernel_counts counts_;
  testing::dice& dice_;
  std::vector<char> left_out_;             // by instruction
  std::vector<std::uint64_t> passed_;      // the same
  std::vector<std::uint32_t> of_barrier_;  // the same: of barriers
  std::vector<char> needed_;               // by place
  unsigned threads_ = 0;
  unsigned warps_ = 0;
  std::size_t fixed_shared_ = 0;
  std::size_t local_bytes_ = 0;
  std::unordered_map<std::uint64_t, knowledge_ptr> released_;
};

[[nodiscard]] std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

[[nodiscard]] std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');) {
    list.push_back(one);
  }
  return list;
}

}  // namespace

schedule schedule::from_environment() {
  schedule s;
  s.seed = setting("UNMASK_PTX_SEED", 0);
  s.resident = static_cast<unsigned>(setting("UNMASK_PTX_RESIDENT", s.seed == 0 ? 1 : 4));
  s.watches_races = setting("UNMASK_PTX_RACES", s.seed == 0 ? 0 : 1) != 0;
  s.multiprocessors = static_cast<int>(setting("UNMASK_PTX_MULTIPROCESSORS", 132));
  s.is_late = setting("UNMASK_PTX_LATE", 0) != 0;
  s.stops = setting("UNMASK_PTX_STOP", 0) != 0;
  if (const char* const file = std::getenv("UNMASK_PTX_BARRIERS")) {
    s.barriers = file;
  }
  if (const char* const file = std::getenv("UNMASK_PTX_COUNTS")) {
    s.counts = file;
  }
  if (const char* const all = std::getenv("UNMASK_PTX_WITHOUT")) {
    s.without = list_of(all);
  }
  if (const char* const all = std::getenv("UNMASK_PTX_FORWARDS")) {
    s.forwards = list_of(all);
  }
  return s;
}

machine::machine(const schedule& how)
    : how_(how)
    , dice_(how.seed) {
  mallopt(M_MMAP_THRESHOLD, 256 * 1024 * 1024);  // registers of block after block
  mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
}

bool machine::run(const launch& what) {
  const std::size_t shared = what.code->shared_bytes + what.dynamic_shared;
  const std::size_t threads = what.block.size();
  if (what.grid.size() == 0 || threads == 0 || threads > what.code->most_threads ||
      shared > std::size_t{48} * 1024) {
    report(demangled(what.code->name) + "\n  cannot be launched with " + std::to_string(threads) +
           " threads in " + std::to_string(what.grid.size()) + " blocks and " +
           std::to_string(shared) + " bytes of shared memory");
    return false;
  }
  try {
    launch_run(*this, what, ++launches_).run();
    return true;
  } catch (const launch_failed&) {
    return false;
  }
}

void machine::report(const std::string& what) {
  // A mistake in a kernel comes in each of its launches.
  if (reports_.size() < 20) {
    std::fprintf(stderr, "ptx: %s\n", what.c_str());
    reports_.push_back(what);
  }
  if (how_.stops) {
    std::_Exit(3);
  }
}

void machine::write_counts() const {
  if (!how_.barriers.empty()) {
    std::ofstream file(how_.barriers);
    for (const auto& [origin, number] : origins_) {
      if (passed_[number] > 0) {
        file << passed_[number] << ' ' << (needed_[number] != 0) << ' ' << origin << '\n';
      }
    }
  }
  if (!how_.counts.empty()) {
    std::ofstream file(how_.counts);
    for (const auto& [kernel, c] : counts_) {
      file << "{\"kernel\": \"" << kernel << '"';
      const std::pair<const char*, std::uint64_t> members[] = {
          {"launches", c.launches},
          {"blocks", c.blocks},
          {"threads", c.threads},
          {"instructions", c.instructions},
          {"block_barriers", c.block_barriers},
          {"warp_barriers", c.warp_barriers},
          {"bytes_read", c.bytes_read},
          {"sectors_read", c.sectors_read},
          {"bytes_written", c.bytes_written},
          {"sectors_written", c.sectors_written},
          {"atomics", c.atomics},
          {"shared_passes", c.shared_passes},
          {"least_shared_passes", c.least_shared_passes}};
      for (const auto& [name, value] : members) {
        file << ", \"" << name << "\": " << value;
      }
      file << "}\n";
    }
  }
}

std::string machine::caller_in(const std::string& source) const {
  std::string rest = source;
  for (std::size_t end = 0; (end = rest.find('<')) != std::string::npos;) {
    const std::string first = rest.substr(0, end);
    const bool is_syncwarp = first.starts_with("sm_30_intrinsics.hpp");  // an inline function there
    if (!is_syncwarp &&
        std::find(how_.forwards.begin(), how_.forwards.end(), first) == how_.forwards.end()) {
      break;
    }
    rest = rest.substr(end + 1);
  }
  return rest.substr(0, rest.find('<'));
}

std::uint32_t machine::origin_of(const std::string& source) {
  const auto number = static_cast<std::uint32_t>(origins_.size());
  const auto [found, is_new] = origins_.emplace(caller_in(source), number);
  if (is_new) {
    passed_.push_back(0);
    needed_.push_back(0);
  }
  return found->second;
}

void machine::count(const std::string& kernel, const kernel_counts& more) {
  kernel_counts& c = counts_[kernel];
  c.launches += more.launches;
  c.blocks += more.blocks;
  c.threads = more.threads;
  c.instructions += more.instructions;
  c.block_barriers += more.block_barriers;
  c.warp_barriers += more.warp_barriers;
  c.bytes_read += more.bytes_read;
  c.sectors_read += more.sectors_read;
  c.bytes_written += more.bytes_written;
  c.sectors_written += more.sectors_written;
  c.atomics += more.atomics;
  c.shared_passes += more.shared_passes;
  c.least_shared_passes += more.least_shared_passes;
}

std::vector<std::string> machine::take_reports() {
  seen_.clear();
  return std::exchange(reports_, {});
}

}  // namespace unmask::ptx
