// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// The lines of lopa.jsonl as structs.

#include <string>
#include <vector>

#include "goldens/lines.hpp"

namespace unmask::goldens {

/// State of a block in a branch before a forward pass.
struct lopa_block {
  range at;
  int masks = 0;
  std::string state;  ///< "active", "to_cache" or "in_cache"
  bool fully_activated = false;
};

/// A sequence that one round runs: a lookahead branch, or the anchor (`base`).
struct lopa_branch {
  bool base = true;
  bool eos = false;
  double creation_conf = 1;
  double score = 0;
  std::vector<lopa_block> blocks;
  tokens x;  ///< from `prefix_end` on; d2f.single_branch: empty
};

/// A token that a new lookahead branch places.
struct lopa_spawn {
  commit placed;
  double conf = 0;
};

/// One round: a forward of every branch, what the winner fills, the new branches.
struct lopa_round {
  std::string where;
  int prefix_end = -1;  ///< -1: not given (d2f.single_branch)
  int input_start = 0;
  int length = -1;       ///< d2f.single_branch: tokens in all; otherwise -1
  int cache_update = 0;  ///< d2f.single_branch: positions cached by this forward
  std::pair<int, int> last_row{-1, -1};
  std::vector<lopa_branch> branches;  ///< as recorded: the winner itself may be there twice
  int winner = 0;
  bool winner_tie = false;
  std::vector<commit> filled;
  std::vector<lopa_spawn> spawned;  ///< empty where no candidate was left
};

/// A line of lopa.jsonl.
struct lopa_line {
  std::string where;
  std::string rule;
  json args;
  fake_model model;
  tokens prompt;
  tokens final;
  int forwards = 0;
  int reported_steps = 0;
  std::vector<lopa_round> rounds;
};

namespace detail {

inline lopa_block read_lopa_block(const node& n) {
  return {{n.at(0).get<int>(), n.at(1).get<int>()},
          n.at(2).get<int>(),
          n.at(3).get<std::string>(),
          n.at(4).get<bool>()};
}

inline lopa_branch read_lopa_branch(const node& n) {
  return {n.get<bool>("base"),
          n.get<bool>("eos"),
          n.get<double>("creation_conf"),
          n.get<double>("score"),
          n.list("blocks", read_lopa_block),
          n.get<tokens>("x")};
}

inline lopa_round read_lopa_round(const node& n) {
  lopa_round r;
  r.where = n.where();
  r.input_start = n.get<int>("input_start");
  r.filled = n.list("filled", read_commit);
  r.last_row = read_pair<int, int>(n.at("last_row"));
  if (!n.has("branches")) {
    r.length = n.get<int>("length");
    r.cache_update = n.get<int>("cache_update");
    r.branches.emplace_back();
    r.branches.back().blocks = n.list("blocks", read_lopa_block);
    return r;
  }
  r.prefix_end = n.get<int>("prefix_end");
  r.branches = n.list("branches", read_lopa_branch);
  r.winner = n.get<int>("winner_index");
  r.winner_tie = n.get<bool>("winner_tie");
  if (r.winner < 0 || r.winner >= static_cast<int>(r.branches.size())) {
    n.at("winner_index").fail("no such branch");
  }
  const node spawned = n.at("spawn");
  for (std::size_t k = 0; k < spawned.size(); ++k) {
    const node placed = spawned.at(k).at("commit");
    if (placed.size() > 0) {
      r.spawned.push_back({read_commit(placed.at(0)), spawned.at(k).get<double>("conf")});
    }
  }
  return r;
}

}  // namespace detail

[[nodiscard]] inline lopa_line read_lopa_line(const node& n) {
  lopa_line line;
  line.where = n.where();
  line.rule = n.get<std::string>("rule");
  line.args = n.at("args").raw();
  line.model = read_model(n.at("model"));
  line.prompt = n.get<tokens>("prompt");
  line.final = n.get<tokens>("final");
  line.forwards = n.get<int>("forwards");
  line.reported_steps = n.get<int>("reported_steps");
  line.rounds = n.list("rounds", detail::read_lopa_round);
  if (line.rounds.empty() || line.final.size() <= line.prompt.size()) {
    n.fail("a line decodes at least one token in one round");
  }
  return line;
}

}  // namespace unmask::goldens
