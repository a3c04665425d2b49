// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/policy/read_policy.hpp>

#include <algorithm>
#include <utility>

#include "demo/policies.hpp"

namespace demo {

namespace {

named_call call_of(const known_policy& p) {
  return {p.name, p.knobs};
}

// True for a text that is not of the table: it joins parts, or begins with the name of a method, or
// of a part that the table has no policy of.
bool is_composition(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(" \t("));
  const auto is_named = [name](const auto& known) { return known.name == name; };
  return text.find('+') != std::string_view::npos || name == "any_of" || name == "all_of" ||
         std::ranges::any_of(unmask::known_methods(), is_named) ||
         (std::ranges::any_of(unmask::known_parts(), is_named) &&
          std::ranges::none_of(known_policies(), is_named));
}

}  // namespace

chosen_policy::chosen_policy(std::string_view text) {
  if (is_composition(text)) {
    static_cast<void>(unmask::read_policy(text));  // says what is wrong with it now
    entry_ = &composed_policy();
    name_ = text;
    return;
  }
  std::vector<named_call> known;
  for (const known_policy& p : known_policies()) {
    known.push_back(call_of(p));
  }
  read_call read = parse_call(text, known);
  entry_ = &known_policies()[read.index];
  values_ = std::move(read.values);
  name_ = std::move(read.label);
}

std::string chosen_policy::label() const {
  return name_ + (cache_.is_none() ? "" : " + " + cache_.label());
}

chosen_policy chosen_policy::with_main(double value) const {
  chosen_policy other = *this;
  other.values_[find_knob(call_of(*entry_), entry_->main.knob)] = value;
  other.name_ = call_label(call_of(*entry_), other.values_);
  return other;
}

chosen_policy chosen_policy::with_cache(const chosen_cache& cache) const {
  chosen_policy other = *this;
  other.cache_ = cache;
  return other;
}

std::string chosen_policy::series() const {
  if (entry_ == &composed_policy()) {
    return label();
  }
  std::string knobs;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const knob& k = entry_->knobs[i];
    if (k.name != entry_->main.knob && values_[i] != k.value) {
      knobs += (knobs.empty() ? "" : ", ") + std::string(k.name) + "=" + shortest(values_[i]);
    }
  }
  return std::string(entry_->name) + (knobs.empty() ? "" : "(" + knobs + ")") +
         (cache_.is_none() ? "" : " + " + cache_.label());
}

std::vector<chosen_policy> all_policies() {
  std::vector<chosen_policy> policies;
  for (const known_policy& p : known_policies()) {
    policies.emplace_back(p.name);
    for (const std::string_view text : p.main.also) {
      policies.emplace_back(text);
    }
  }
  return policies;
}

std::vector<chosen_policy> default_policies() {
  std::vector<chosen_policy> policies;
  for (const known_policy& p : known_policies()) {
    for (const std::string_view text : p.shown) {
      policies.emplace_back(text);
    }
  }
  return policies;
}

std::vector<chosen_policy> each_with(std::span<const chosen_policy> policies,
                                     std::span<const chosen_cache> caches) {
  std::vector<chosen_policy> all;
  for (const chosen_policy& policy : policies) {
    for (const chosen_cache& cache : caches) {
      all.push_back(policy.with_cache(cache));
    }
  }
  return caches.empty() ? std::vector(policies.begin(), policies.end()) : all;
}

std::string list_of_policies() {
  std::string list;
  for (const known_policy& p : known_policies()) {
    list += call_help(call_of(p), p.about, p.text);
  }
  return list;
}

}  // namespace demo
