// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/policy/replay.hpp>

namespace UNMASK_NAMESPACE {

/// replay with the address of its view, so that a policy by name stays small enough for a kernel's
/// argument; it also moves text as the trace did.
struct replay_by_address {
  const replay_view* trace = nullptr;

  static constexpr statistics required = replay::required;
  static constexpr bool paces = replay::paces;
  static constexpr bool rewrites_blocks = true;

  void check(const sequence_shape& g, const model_info& m) const { whole().check_trace(g, m); }
  [[nodiscard]] index_t reach(const sequence_shape& g) const { return whole().reach(g); }
  [[nodiscard]] UNMASK_HD std::int64_t extra_forwards(const sequence_shape& g) const {
    return whole().extra_forwards(g);
  }
  UNMASK_HD bool commits(const auto& c, const rank_info& s, const auto& context) const {
    return whole().commits(c, s, context);
  }
  [[nodiscard]] UNMASK_HD bool rewrites_blocks_now() const {
    return trace != nullptr && trace->moves_text;
  }
  [[nodiscard]] bool moves_text() const { return rewrites_blocks_now(); }
  [[nodiscard]] UNMASK_HD index_t begin_length(const sequence_shape& g) const {
    return rewrites_blocks_now() ? trace->begin_length : g.length;
  }
  UNMASK_HD void rewrite_block(auto& rows, auto& context) const {
    const index_t step = context.at.step;
    if (step >= trace->count || trace->steps[step].size < 0) {
      return;
    }
    const replay_step& now = trace->steps[step];
    for (index_t k = now.first_move; k < now.last_move; ++k) {
      const replay_move& move = trace->moves[k];
      if (move.inserts < 0) {
        rows.erase(move.position);
      } else {
        rows.insert(move.position, move.inserts);
      }
    }
    rows.resize(now.size);
    if (now.appended > 0) {
      rows.append(now.appended, now.token);
    }
  }
  UNMASK_HD verdict edit_token(const auto& c, const auto& context) const {
    return whole().edit_token(c, context);
  }
  /// As replay, without a copy of the view in the kernels that read.
  [[nodiscard]] UNMASK_HD float draw_temperature() const { return 1.0F; }
  [[nodiscard]] UNMASK_HD token_id forced_token(const step_info& at) const {
    return whole().forced_token(at);
  }
  [[nodiscard]] UNMASK_HD detail::placed_tokens filled_tokens(index_t step) const {
    return whole().filled_tokens(step);
  }
  UNMASK_HD ending stop(const sequence_view& q, auto& context) const {
    return whole().stop(q, context);
  }
  UNMASK_HD void schedule(sequence_view& q, plan& next, auto& context) const {
    whole().schedule(q, next, context);
  }

 private:
  [[nodiscard]] UNMASK_HD replay whole() const {
    return trace != nullptr ? replay{*trace} : replay{};
  }
};
static_assert(commit_rule<replay_by_address> && token_editing<replay_by_address> &&
              forcing<replay_by_address> && pacing<replay_by_address> &&
              stopping<replay_by_address> && reaching<replay_by_address> &&
              growing<replay_by_address>);

/// Its schedule alone: a part of a family has the functions of that family only.
struct replayed_schedule : private replay_by_address {
  replayed_schedule() = default;
  explicit replayed_schedule(const replay_by_address& all)
      : replay_by_address(all) {}
  using replay_by_address::begin_length;
  using replay_by_address::check;
  using replay_by_address::extra_forwards;
  using replay_by_address::moves_text;
  using replay_by_address::paces;
  using replay_by_address::reach;
  using replay_by_address::required;
  using replay_by_address::rewrite_block;
  using replay_by_address::rewrites_blocks;
  using replay_by_address::rewrites_blocks_now;
  using replay_by_address::schedule;
  [[nodiscard]] UNMASK_HD bool edits_tokens_now() const { return rewrites_blocks_now(); }
};
/// Its commit rule alone.
struct replayed_commits : private replay_by_address {
  replayed_commits() = default;
  explicit replayed_commits(const replay_by_address& all)
      : replay_by_address(all) {}
  using replay_by_address::check;
  using replay_by_address::commits;
  using replay_by_address::extra_forwards;
  using replay_by_address::required;
};
/// Its tokens and its end alone.
struct replayed_draw : private replay_by_address {
  replayed_draw() = default;
  explicit replayed_draw(const replay_by_address& all)
      : replay_by_address(all) {}
  using replay_by_address::check;
  using replay_by_address::draw_temperature;
  using replay_by_address::filled_tokens;
  using replay_by_address::forced_token;
  using replay_by_address::required;
  using replay_by_address::stop;
};
/// Its edits alone.
struct replayed_edits : private replay_by_address {
  replayed_edits() = default;
  explicit replayed_edits(const replay_by_address& all)
      : replay_by_address(all) {}
  using replay_by_address::check;
  using replay_by_address::edit_token;
  using replay_by_address::extra_forwards;
  using replay_by_address::required;
};

}  // namespace unmask
