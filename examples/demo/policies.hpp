// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "demo/presets.hpp"

namespace demo {

/// Decodes one sequence with a session, alone, and calls a function after every step.
using rehearsal = std::function<void(unmask::named_session&, const std::function<void()>&)>;

/// Constructor arguments of a session besides its policy.
struct session_setup {
  unmask::model_info model;
  unmask::session_capacity capacity;
  unmask::index_t block_length = 0;
  bool stop_at_eos = false;        ///< end a sequence once its EOS token is committed
  rehearsal decode_first = {};     ///< for a policy that learns from a first sequence; may be empty
  std::string* profile = nullptr;  ///< gets what it learned, as JSON; may be null
};

/// Parts that a policy is extended with: a preset's, or a text of the library. By default none.
class chosen_cache {
 public:
  chosen_cache() = default;
  explicit chosen_cache(std::string_view text);

  const std::string& label() const { return label_; }
  const std::string& text() const { return text_; }

 private:
  std::string label_ = "none";
  std::string text_;
};

/// A policy: a preset with one of its values, or a text of the library.
class chosen_policy {
 public:
  /// Throws std::invalid_argument where the library refuses the text.
  explicit chosen_policy(std::string_view text);

  /// The preset, with its value if that is not its own: `fast_dllm: threshold 0.5`; or the text.
  const std::string& name() const { return name_; }
  std::string_view about() const;
  const chosen_cache& cache() const { return cache_; }
  /// The name with its cache, if it has one: `one + dual`.
  std::string label() const { return with_cache_label(name_); }
  /// The label without the value.
  std::string series() const { return with_cache_label(series_); }

  /// The settings that its frontier goes over; empty for a text.
  std::string_view knob() const;
  std::span<const double> sweep() const;
  chosen_policy with(double value) const;
  chosen_policy with(const chosen_cache& cache) const;

  /// The text of the composition and of its cache. Of a calibrated profile, with the rule of its
  /// first decode.
  std::string text(bool stop_at_eos) const;

  /// The parts of the composition, and of its cache. Throws std::invalid_argument where they do not
  /// go together. Of a calibrated profile, with the rule of its first decode.
  unmask::named_policy parts(bool stop_at_eos) const;

  /// A session that decodes with this policy and its cache. Throws std::invalid_argument where the
  /// two do not go together.
  std::unique_ptr<unmask::named_session> make(const session_setup& setup) const;

 private:
  std::string with_cache_label(const std::string& name) const;

  const preset* preset_;  ///< null for a text
  double value_ = 0.0;
  std::string series_;
  std::string name_;
  chosen_cache cache_;
};

/// The policies that are shown live by default, those that are compared, and every preset.
std::vector<chosen_policy> live_policies();
std::vector<chosen_policy> default_policies();
std::vector<chosen_policy> all_policies();

/// Each policy with each cache; the policies as they are if there is no cache.
std::vector<chosen_policy> each_with(std::span<const chosen_policy> policies,
                                     std::span<const chosen_cache> caches);

}  // namespace demo
