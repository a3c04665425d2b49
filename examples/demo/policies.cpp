// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/policies.hpp"

#include <unmask/named_policy.hpp>
#include <unmask/policy/commit/profile_json.hpp>
#include <unmask/policy/commit/threshold_calibrator.hpp>

namespace demo {

namespace {

using namespace unmask;

/// The policy with the profile of one decode, which is recorded.
named_policy calibrated(named_policy parts, const session_setup& s) {
  session_capacity tracing = s.capacity;
  tracing.trace = true;  // candidates are reported, too
  named_session session(parts, s.model, tracing);
  const calibrated_threshold<>& rule = parts.commit_rule.profile();
  threshold_calibrator recorder({.block_length = s.block_length}, rule.recorded);
  s.decode_first(session, [&] { recorder.observe(session); });
  parts.commit_rule.set_profile(recorder.calibrate(rule));
  return parts;
}

}  // namespace

chosen_cache::chosen_cache(std::string_view text)
    : label_(text) {
  const preset* const found = find_preset(cache_presets(), text);
  text_ = found != nullptr ? text_of(*found, found->value) : std::string(text);
  if (!text_.empty()) {
    static_cast<void>(
        read_policy("tokens_per_step(1) + " + text_));  // says what is wrong with it now
  }
}

chosen_policy::chosen_policy(std::string_view text)
    : preset_(find_preset(policy_presets(), text))
    , value_(preset_ != nullptr ? preset_->value : 0.0)
    , series_(text)
    , name_(text) {
  static_cast<void>(parts(false));
}

std::string_view chosen_policy::about() const {
  return preset_ != nullptr ? preset_->about : "composed by name";
}

std::string chosen_policy::with_cache_label(const std::string& name) const {
  return name + (cache_.text().empty() ? "" : " + " + cache_.label());
}

std::string_view chosen_policy::knob() const {
  return preset_ != nullptr ? preset_->knob : std::string_view{};
}

std::span<const double> chosen_policy::sweep() const {
  return preset_ != nullptr ? std::span<const double>(preset_->sweep) : std::span<const double>{};
}

chosen_policy chosen_policy::with(double value) const {
  chosen_policy other = *this;
  other.value_ = value;
  other.name_ = series_ + ": " + std::string(knob()) + " " + shortest(value);
  return other;
}

chosen_policy chosen_policy::with(const chosen_cache& cache) const {
  chosen_policy other = *this;
  other.cache_ = cache;
  return other;
}

std::string chosen_policy::text(bool stop_at_eos) const {
  const std::string own = preset_ != nullptr ? text_of(*preset_, value_) : name_;
  return own + (cache_.text().empty() ? "" : " + " + cache_.text()) +
         (stop_at_eos ? " + stop_at_eos" : "");
}

named_policy chosen_policy::parts(bool stop_at_eos) const {
  return read_policy(text(stop_at_eos));
}

std::unique_ptr<named_session> chosen_policy::make(const session_setup& setup) const {
  named_policy all = parts(setup.stop_at_eos);
  if (all.commit_rule.needs_profile() && setup.decode_first) {
    all = calibrated(all, setup);
    if (setup.profile != nullptr) {
      *setup.profile = to_json(all.commit_rule.profile());
    }
  }
  return std::make_unique<named_session>(all, setup.model, setup.capacity);
}

std::vector<chosen_policy> all_policies() {
  std::vector<chosen_policy> all;
  for (const preset& p : policy_presets()) {
    all.emplace_back(p.name);
  }
  return all;
}

std::vector<chosen_policy> live_policies() {
  return {chosen_policy("one"), chosen_policy("fast_dllm")};  // the slowest and a fast one
}

std::vector<chosen_policy> default_policies() {
  std::vector<chosen_policy> shown;
  for (const preset& p : policy_presets()) {
    if (p.shown) {
      shown.emplace_back(p.name);
    }
  }
  return shown;
}

std::vector<chosen_policy> each_with(std::span<const chosen_policy> policies,
                                     std::span<const chosen_cache> caches) {
  std::vector<chosen_policy> all;
  for (const chosen_policy& policy : policies) {
    for (const chosen_cache& cache : caches) {
      all.push_back(policy.with(cache));
    }
  }
  return caches.empty() ? std::vector(policies.begin(), policies.end()) : all;
}

}  // namespace demo
