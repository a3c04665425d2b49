// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Parts of policy texts for which functions of the host decide (policy/callback.hpp): for programs
/// in other languages. A rule of C++ is a part of its own, without this.
namespace UNMASK_NAMESPACE {

/// An argument of such a part.
struct function_argument {
  std::string_view name = {};       ///< Its name in texts.
  double value = 0.0;               ///< Its default.
  knob_range range = any_finite();  ///< The values that it may have; a search tries some of them.
  bool is_whole = false;            ///< Whether it is a whole number.
};

/// A function with the name of its part.
struct part_function {
  callback_stage stage = callback_stage::rule;        ///< Stage of the part.
  std::string_view name = {};                         ///< The part's name in texts.
  std::string_view about = {};                        ///< The part in one line, for the help.
  std::span<const function_argument> arguments = {};  ///< At most max_callback_arguments.
  callback_function function = nullptr;               ///< See callback_function.
  void* context = nullptr;                            ///< Its first argument.
};

/// Gives a function a name: texts of policies, known_parts() and the search of a policy know it as
/// a part from then on, in all sessions of the process. Another call with the name replaces the
/// function for texts that are read later; policies that were read keep theirs. So function and
/// context must stay valid until the process ends.
///
/// Such a part decides as a part of C++ that answers the same: expressions, constraints, lookahead,
/// traces and the bound on the passes are as for every part. It is slow: a call for each step of
/// a sequence, with a candidate for each position.
///
/// Errors: std::invalid_argument for a name that no text can spell or that the library has, and for
/// such a name of an argument, a default out of its range, more arguments than a part may have, or
/// no function.
/// Thread-safe. Allocates; a name that is given again leaves some 30 KB behind.
UNMASK_LIBRARY void register_part(const part_function& part);

/// A part that register_part() has made.
class registered_part {
 public:
  explicit registered_part(const part_function& part);

  [[nodiscard]] const known_part& about() const { return about_; }
  /// Valid until the process ends.
  [[nodiscard]] const callback& function() const { return function_; }

 private:
  std::string name_;
  std::string line_;
  std::vector<std::string> names_;
  std::vector<part_argument> arguments_;
  callback function_;
  known_part about_;
};

}  // namespace unmask

#if UNMASK_DEFINES
#  include <unmask/core/check.hpp>
#  include <unmask/named/known_parts.hpp>
#  include <unmask/named/read_policy.hpp>

#  include <algorithm>
#  include <cmath>

namespace UNMASK_NAMESPACE {

namespace detail {

// Puts a part of type P with a registered function.
template <class P>
void put_function(named_policy& parts, const argument_values& values) {
  P part{};
  part.decides = &values.part().registered->function();
  for (std::size_t i = 0; i < values.part().arguments.size(); ++i) {
    part.arguments[i] = static_cast<float>(values.number(i));
  }
  table::put(parts, values, part);
}

template <class P>
void describe_function(known_part& about) {
  about.stage = stage_of<P>();
  about.traits = traits_of<P>;
  about.add = &put_function<P>;
}

// The parts of texts: of the library, then of registered functions.
class part_registry {
 public:
  // Never destroyed: functions may be called until the process ends.
  [[nodiscard]] static part_registry& of_process() {
    alignas(part_registry) static std::byte memory[sizeof(part_registry)];  // no allocation
    static auto* const registry = ::new (static_cast<void*>(memory)) part_registry;
    return *registry;
  }

  [[nodiscard]] std::span<const known_part> known() const {
    const std::vector<known_part>* const all = known_.load(std::memory_order_acquire);
    return all != nullptr ? std::span<const known_part>(*all) : library();
  }

  void add(const part_function& part) {
    auto made = std::make_unique<registered_part>(part);
    const std::lock_guard lock(mutex_);
    const std::span<const known_part> before = known();
    auto all = std::make_unique<std::vector<known_part>>(before.begin(), before.end());
    std::erase_if(*all, [&](const known_part& p) { return p.name == made->about().name; });
    all->push_back(made->about());
    parts_.push_back(std::move(made));
    lists_.push_back(std::move(all));
    known_.store(lists_.back().get(), std::memory_order_release);
  }

  [[nodiscard]] static std::span<const known_part> library() {
    return table::entries_of<table::all_parts>::all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<registered_part>> parts_;
  std::vector<std::unique_ptr<const std::vector<known_part>>> lists_;
  std::atomic<const std::vector<known_part>*> known_ = nullptr;
};

inline void check_function(const part_function& part) {
  const std::string name = quoted(part.name);
  check_argument(is_spelt(part.name),
                 "the name of a part",
                 name,
                 "letters, digits and underscores, without a digit in front");
  const auto library = part_registry::library();
  const bool is_taken =
      with_name(library, part.name) != library.end() || find_method(part.name) ||
      part.name == "replay" || part.name == "model" ||
      std::find(std::begin(table::joining), std::end(table::joining), part.name) !=
          std::end(table::joining);
  check_argument(!is_taken, "the name of a part", name, "one that the library does not have");
  check_argument(part.stage <= callback_stage::stop,
                 "the stage of a part",
                 static_cast<int>(part.stage),
                 "one of callback_stage");
  check_argument(part.function != nullptr, "the function of a part", "null", "a function");
  check_argument(part.arguments.size() <= std::size_t{max_callback_arguments},
                 "the number of arguments of a part",
                 part.arguments.size(),
                 "at most ",
                 max_callback_arguments);
  for (std::size_t i = 0; i < part.arguments.size(); ++i) {
    const function_argument& a = part.arguments[i];
    check_argument(is_spelt(a.name),
                   "the name of an argument of " + name,
                   quoted(a.name),
                   "letters, digits and underscores, without a digit in front");
    check_argument(with_name(part.arguments.first(i), a.name) == part.arguments.first(i).end(),
                   "the name of an argument of " + name,
                   quoted(a.name),
                   "another one than that of an argument before it");
    const part_argument described{
        {a.name, a.is_whole ? knob_kind::whole : knob_kind::real, a.range}, a.value};
    check_argument(std::isfinite(a.value) && a.range.holds(a.value) &&
                       !(a.is_whole && std::floor(a.value) != a.value),
                   "the default of " + std::string(a.name) + " of " + name,
                   a.value,
                   rule_text(described));
  }
}

}  // namespace detail

UNMASK_LIBRARY registered_part::registered_part(const part_function& part)
    : name_(part.name)
    , line_(part.about.substr(0, part.about.find('\n'))) {
  detail::check_function(part);
  function_.name = name_;
  function_.stage = part.stage;
  function_.function = part.function;
  function_.context = part.context;
  function_.argument_count = static_cast<index_t>(part.arguments.size());
  names_.reserve(part.arguments.size());  // views of them are kept
  for (std::size_t i = 0; i < part.arguments.size(); ++i) {
    names_.emplace_back(part.arguments[i].name);
    const function_argument& a = part.arguments[i];
    arguments_.push_back(
        {{names_.back(), a.is_whole ? knob_kind::whole : knob_kind::real, a.range}, a.value});
  }
  about_.name = name_;
  about_.about = line_;
  about_.arguments = arguments_;
  about_.registered = this;
  switch (part.stage) {
  case callback_stage::rule:
    detail::describe_function<callback_rule>(about_);
    break;
  case callback_stage::ranking:
    detail::describe_function<callback_ranking>(about_);
    break;
  case callback_stage::filter:
    detail::describe_function<callback_filter>(about_);
    break;
  case callback_stage::stop:
    detail::describe_function<callback_stop>(about_);
    break;
  }
}

UNMASK_LIBRARY void register_part(const part_function& part) {
  detail::part_registry::of_process().add(part);
}

}  // namespace unmask
#endif
