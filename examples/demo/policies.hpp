// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/policy/named_parts.hpp>
#include <unmask/unmask.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/caches.hpp"
#include "demo/call_text.hpp"

namespace demo {

/// Decodes one sequence with a session, alone, and calls a function after every step.
using rehearsal = std::function<void(unmask::any_layer_session&, const std::function<void()>&)>;

/// What a session is made with beside its policy.
struct session_setup {
  unmask::model_info model;
  unmask::limits capacity;
  unmask::index_t block_length = 0;
  bool stop_at_end = false;  ///< end a sequence once its end token is settled
  rehearsal decode_first = {};  ///< for a policy that learns from a first sequence; may be empty
};

/// The values of one knob that trade accuracy for forward passes.
struct sweep {
  std::string_view knob;
  std::vector<double> values;
  std::vector<std::string_view> also;  ///< the policy with other knobs changed, swept too
};

/// One line of the table of policies.
struct known_policy {
  std::string_view name;
  std::string_view about;
  std::vector<knob> knobs;
  std::vector<std::string_view> shown;  ///< as what it appears when no policy is asked for
  sweep main;                           ///< the points of its frontier; no knob: it is one point
  /// The composition that it stands for, with a {hole} for each knob; empty for profile.
  std::string_view text;
};

/// Every policy that the demo has a name for: a new one is one more entry in policies.cpp.
std::span<const known_policy> known_policies();

/// Stands in the table's place for a policy that was composed by its parts' names.
const known_policy& composed_policy();

/// A policy with its knobs set.
class chosen_policy {
 public:
  /// Reads `name`, `name(0.9)` or `name(knob=0.9, ...)` of the table, or else a composition such as
  /// `credit + threshold(0.9)`: unmask::read_policy. Throws std::invalid_argument naming what is
  /// wrong and what is known. Whether a knob's value makes sense is for the policy to say, in
  /// make().
  explicit chosen_policy(std::string_view text);

  /// The name, with its knobs if any were given: `threshold(0.9)`.
  const std::string& name() const { return name_; }
  /// The same with its cache, if it has one: `threshold(0.9) + dual`.
  std::string label() const;
  const chosen_cache& cache() const { return cache_; }
  std::string_view about() const { return entry_->about; }

  /// The knob that its frontier goes over.
  const sweep& main() const { return entry_->main; }
  /// The label without that knob.
  std::string series() const;
  /// The same policy with another value of its main knob.
  chosen_policy with_main(double value) const;
  /// The same policy with a cache.
  chosen_policy with_cache(const chosen_cache& cache) const;

  /// The parts of the composition with its knobs' values, and of its cache. Throws
  /// std::invalid_argument where they do not go together. Of profile, with the static rule of its
  /// first decode.
  unmask::named_parts parts(bool stop_at_end) const;

  /// A session that decodes with this policy and its cache. Throws std::invalid_argument where the
  /// two do not go together.
  std::unique_ptr<unmask::any_layer_session> make(const session_setup& setup) const;

 private:
  const known_policy* entry_;
  std::vector<double> values_;
  std::string name_;
  chosen_cache cache_;
};

/// The policies that are compared when none is asked for.
std::vector<chosen_policy> default_policies();

/// Every policy of the table, and what its sweep names besides.
std::vector<chosen_policy> all_policies();

/// Each policy with each cache; the policies as they are if there is no cache.
std::vector<chosen_policy> each_with(std::span<const chosen_policy> policies,
                                     std::span<const chosen_cache> caches);

/// The table as text, for --help.
std::string list_of_policies();

}  // namespace demo
