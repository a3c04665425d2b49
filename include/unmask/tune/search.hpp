// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/tune/points.hpp>

/// Parameters and results of a search for a policy.
namespace UNMASK_NAMESPACE::tune {

/// Parameters of a search.
struct search {
  index_t problems = 0;           ///< Number of problems, indexed from 0; at least 8.
  double target = 0.97;           ///< Least share of right answers, in [0, 1].
  double confidence_level = 0.8;  ///< Least probability that unseen problems reach it, in (0, 1).
  measure minimise = measure::forwards;  ///< The cost.
  index_t kept = 4;                      ///< Candidates that get further parts; at least 1.
  index_t depth = 2;                     ///< Most parts that are added; 0 for single rules only.
  std::function<bool()> stop = {};       ///< True ends the search with what it has.
  /// Called after each of the `of` policies of a stage; `done` grows within a stage, and no stage
  /// comes twice.
  std::function<void(std::string_view stage, index_t done, index_t of)> progress = {};
};

/// Result of a search.
struct tuned {
  bool reaches = false;  ///< Whether a policy reached the target; otherwise `best` is most right.
  bool stopped = false;  ///< Whether search::stop ended it.
  point best;            ///< Result on the search set: the best of many, so optimistic.
  point chosen;          ///< Its result on the problems of the choice, where it was right enough.
  point checked;         ///< Its result on the problems of the check.
  std::vector<point> singles;     ///< Single rules on the problems of the check, those that cost
                                  ///< twice `best` only until one is as right.
  std::vector<point> dominating;  ///< The singles that are as right at no more cost.
  point rival;                    ///< The cheapest single that is as right on the check's problems,
                                  ///< or the most right one.
  comparison against_rival;       ///< `checked` compared with `rival`.
  std::vector<point> points;      ///< Every policy decoded on all problems of the search.
};

}  // namespace unmask::tune
