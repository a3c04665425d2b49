// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/part/sequence_view.hpp>
#include <unmask/core/types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Functions of the host that decide for a part: of a program in another language, whose rule is
/// not a type of C++. A step calls such a function once for all its candidates, on the thread that
/// supplies the logits. Host only; allocates in each step.
namespace UNMASK_NAMESPACE {

/// Stages of such a part, and the answers of its function.
enum class callback_stage : std::uint8_t {
  rule,     ///< which candidates commit: 0 or 1 for each
  ranking,  ///< their order: a score for each, the higher commits earlier, NaN last
  filter,   ///< a filter_result for each: 0 keep, 1 ranked last, 2 rejected, 3 excluded
  stop      ///< one answer: an ending. 0 running, 2 EOS token, 3 stop tokens, 4 max steps
};

/// Name of a stage in messages.
[[nodiscard]] constexpr std::string_view to_string(callback_stage s) {
  constexpr std::string_view names[] = {"rule", "ranking", "filter", "stop"};
  return names[static_cast<std::size_t>(s)];
}

/// A candidate as such a function sees it: its statistics, and what step_info has of its block.
struct callback_candidate {
  index_t position = 0;               ///< Its position.
  token_id token = no_token;          ///< The proposed token.
  float confidence = 0.0F;            ///< Softmax probability of that token.
  float log_probability = 0.0F;       ///< Its logarithm.
  float margin = 0.0F;                ///< Confidence minus the second largest probability.
  float entropy = 0.0F;               ///< Entropy of the row, in nats.
  float score = 0.0F;                 ///< Score of the ranking, for a rule; otherwise NaN.
  index_t rank = -1;                  ///< 0 for the best-ranked, for a rule; -1 for the others.
  index_t block = 0;                  ///< step_info::block_index
  index_t block_step = 0;             ///< step_info::block_step
  index_t block_masked = 0;           ///< step_info::block_masked
  index_t block_masked_at_first = 0;  ///< step_info::block_masked_at_first
  index_t block_length = 0;           ///< step_info::block_length
};

/// A step as such a function sees it. Borrowed for the call.
struct callback_step {
  /// For a rule the candidates that it decides about, the best-ranked first; for rankings and
  /// filters all of the step, in ascending positions; for a stop none. Lookahead asks filters about
  /// single candidates.
  std::span<const callback_candidate> candidates;
  const sequence_view& view;         ///< The sequence before the commits of the step.
  index_t slot = 0;                  ///< Slot of the sequence.
  std::uint64_t seed = 0;            ///< sequence_shape::seed
  std::uint32_t sequence = 0;        ///< sequence_shape::sequence
  std::span<const float> arguments;  ///< Values of the part's arguments.
};

/// The function: writes an answer for each candidate, one for a stop. It may throw. It must not use
/// the session that calls it.
using callback_function = void (*)(void* context, const callback_step& step, float* answers);

/// Most arguments of a part for which a function decides.
inline constexpr index_t max_callback_arguments = 4;

/// A function with the name of its part. It must outlive the policies that have it.
struct callback {
  std::string_view name = {};                   ///< Name of the part, for messages.
  callback_stage stage = callback_stage::rule;  ///< Stage of the part.
  callback_function function = nullptr;         ///< The function.
  void* context = nullptr;                      ///< Its first argument.
  index_t argument_count = 0;                   ///< Number of arguments of the part.
};

/// A part for which a function decides: the function, and the values of the part's arguments.
struct callback_use {
  const callback* decides = nullptr;             ///< The function.
  float arguments[max_callback_arguments] = {};  ///< The first argument_count are its arguments.
};

/// A function has failed: it has thrown, or its answers break their rule. Its step was completed
/// without it and the sequence cancelled; the other sequences of the request were decided.
struct callback_error : std::runtime_error {
  std::exception_ptr cause;  ///< The exception of the function.
  index_t slot = 0;          ///< Slot of the cancelled sequence.

  /// An error of the sequence in a slot.
  callback_error(const std::string& message, std::exception_ptr why, index_t where)
      : std::runtime_error(message)
      , cause(std::move(why))
      , slot(where) {}
};

namespace detail {

/// A candidate as a function sees it.
[[nodiscard]] callback_candidate callback_candidate_of(const auto& c, const step_info& at) {
  callback_candidate seen;
  seen.position = c.position;
  seen.token = c.token;
  seen.confidence = c.confidence();
  seen.log_probability = c.log_probability();
  seen.margin = c.margin();
  seen.entropy = c.entropy();
  seen.score = std::numeric_limits<float>::quiet_NaN();
  seen.block = at.block_index;
  seen.block_step = at.block_step;
  seen.block_masked = at.block_masked;
  seen.block_masked_at_first = at.block_masked_at_first;
  seen.block_length = at.block_length;
  return seen;
}

/// Answers of the functions of a policy, while this thread decides about one slot.
class callback_scope {
 public:
  explicit callback_scope(index_t slot)
      : slot_(slot)
      , outer_(std::exchange(innermost(), this)) {}
  ~callback_scope() { innermost() = outer_; }
  callback_scope(const callback_scope&) = delete;
  callback_scope& operator=(const callback_scope&) = delete;

  /// The scope of the slot about which this thread decides; a function may decode in another
  /// session.
  [[nodiscard]] static callback_scope*& innermost() {
    static thread_local callback_scope* scope = nullptr;
    return scope;
  }

  /// A callback_error, or null.
  [[nodiscard]] const std::exception_ptr& failure() const { return failure_; }

  /// Asks the function of a part about all candidates of a step, for answer().
  void ask(const callback_use& part,
           const std::vector<callback_candidate>& candidates,
           const step_info& at) {
    answered all{&part, std::vector<index_t>(), std::vector<float>(candidates.size())};
    for (const callback_candidate& c : candidates) {
      all.positions.push_back(c.position);
    }
    call(part, candidates, at, all.answers.data());
    answered_.push_back(std::move(all));
  }
  /// Forgets the answers: candidates have changed.
  void close() { answered_.clear(); }

  /// The answer about one candidate, which is asked for if there is none.
  [[nodiscard]] float answer(const callback_use& part, const auto& c, const step_info& at) {
    for (answered& all : answered_) {
      if (all.part != &part) {
        continue;
      }
      // A step asks in the order of the candidates.
      for (std::size_t n = 0; n < all.positions.size(); ++n, ++all.next) {
        all.next = all.next < all.positions.size() ? all.next : 0;
        if (all.positions[all.next] == c.position) {
          return all.answers[all.next];
        }
      }
    }
    const callback_candidate seen = callback_candidate_of(c, at);
    float alone = 0.0F;
    call(part, {&seen, 1}, at, &alone);
    return alone;
  }
  /// The answer of a stop.
  [[nodiscard]] float answer(const callback_use& part, const step_info& at) {
    float alone = 0.0F;
    call(part, {}, at, &alone);
    return alone;
  }

 private:
  struct answered {
    const callback_use* part;
    std::vector<index_t> positions;
    std::vector<float> answers;
    std::size_t next = 0;
  };

  // Calls the function; after a failure no function is called, and answers are those that change
  // nothing.
  void call(const callback_use& part,
            std::span<const callback_candidate> candidates,
            const step_info& at,
            float* answers) {
    const callback& what = *part.decides;
    const std::size_t count =
        what.stage == callback_stage::stop ? std::size_t{1} : candidates.size();
    std::fill_n(answers, count, 0.0F);
    if (failure_ || count == 0) {
      return;
    }
    const callback_step step{candidates,
                             *at.view,
                             slot_,
                             at.seed,
                             at.sequence,
                             {part.arguments, static_cast<std::size_t>(what.argument_count)}};
#if defined(__cpp_exceptions)
    try {
#endif
      what.function(what.context, step, answers);
      check(what, {answers, count});
#if defined(__cpp_exceptions)
    } catch (const std::exception& e) {
      fail(what, e.what());
    } catch (...) {
      fail(what, "an exception that is no std::exception");
    }
    if (failure_) {
      std::fill_n(answers, count, 0.0F);
    }
#endif
  }

  [[gnu::cold]] void fail(const callback& what, const char* why) {
    failure_ = std::make_exception_ptr(callback_error(
        "the " + std::string(to_string(what.stage)) + " '" + std::string(what.name) +
            "' failed in slot " + std::to_string(slot_) + ", whose sequence is cancelled: " + why,
        std::current_exception(),
        slot_));
  }

  static void check(const callback& what, std::span<const float> answers) {
    static constexpr const char* rules[] = {"0 or 1", "", "0, 1, 2 or 3", "0, 2, 3 or 4"};
    const auto holds = [&what](float a) {
      switch (what.stage) {
      case callback_stage::rule:
        return a == 0.0F || a == 1.0F;
      case callback_stage::filter:
        return a == 0.0F || a == 1.0F || a == 2.0F || a == 3.0F;
      case callback_stage::stop:
        return a == 0.0F || a == 2.0F || a == 3.0F || a == 4.0F;
      default:
        return true;
      }
    };
    for (const float a : answers) {
      check_argument(holds(a), "its answer", a, rules[static_cast<std::size_t>(what.stage)]);
    }
  }

  index_t slot_;
  callback_scope* outer_;
  std::exception_ptr failure_;
  std::vector<answered> answered_;
};

}  // namespace detail

}  // namespace unmask
