// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/logits.hpp>
#include <unmask/core/plan.hpp>

#include <concepts>
#include <string_view>

namespace UNMASK_NAMESPACE {

template <class Policy, class Backend>
class session;

/// A session whose policy is a text does not compile, with a sentence.
template <class Text, class Backend>
  requires std::convertible_to<const Text&, std::string_view>
class session<Text, Backend> {
 public:
  static_assert(
      sizeof(Text) == 0,
      "a session is given a policy of parts, such as policy{by_confidence{}, "
      "threshold{0.9F}}; for a policy as text named_session(read_policy(text), model, capacity) of "
      "<unmask/named_policy.hpp> makes one");
  static constexpr memory space = Backend::space;  ///< See session::space.
  /// Never compiles, see above.
  session(const Text&, const model_info&, tokens_view<memory::host>, const sequence_shape&) {}
};

}  // namespace unmask
