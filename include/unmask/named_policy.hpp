// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/any_session.hpp>
#include <unmask/host/backend.hpp>
#include <unmask/named/compose_named.hpp>
#include <unmask/named/read_policy.hpp>

#include <algorithm>
#include <utility>
#include <vector>

/// Policies composed by name, at run time: for command lines, configuration files and bindings.
///
///     const auto session = unmask::make_any_session("trace_credit + threshold(0.9)", model, capacity);
///
/// Decisions are exactly those of the policy composed of the same parts in C++. Few types are
/// compiled: within a type the parts are selected at run time, and a type is selected by the
/// abilities that cost time or memory. With UNMASK_COMPILED the common types come from a library
/// (compiled.hpp); without it, include this header only where sessions are made, because it takes
/// long to compile.
///
/// Sessions on a stream are made by the same functions in a .cu file that includes
/// <unmask/cuda.cuh>. Each type of `Compositions` compiles kernels of three element types, so list
/// only those needed.
namespace UNMASK_NAMESPACE {

/// A session of policies by name whose type has the same abilities: each sequence is started with
/// the policy that was last given to use().
template <memory M>
class basic_named_session : public basic_any_layer_session<M> {
 public:
  /// Sequences that are started from now on decode with this policy. Returns false, without effect,
  /// if the type of this session has not the policy's abilities, or its slots have not the memory
  /// for its lookahead branches.
  [[nodiscard]] virtual bool use(const named_parts& parts) = 0;

 protected:
  basic_named_session() = default;
};

/// Sessions of policies by name on the host.
using named_session = basic_named_session<memory::host>;

/// Type of the policies by name whose abilities are among `A`.
template <abilities A>
using named_composition = decltype(compose_named<A>(std::declval<const named_parts&>()));

/// The basic_named_session of the policies whose abilities are among `A`.
template <abilities A, class Backend = on_host>
class named_session_of final : public any_layer_session_of<named_composition<A>,
                                                           Backend,
                                                           basic_named_session<Backend::space>> {
  using base =
      any_layer_session_of<named_composition<A>, Backend, basic_named_session<Backend::space>>;
  using typename base::layer_rule_info;

 public:
  /// A session whose sequences decode with `parts` until use() is called.
  named_session_of(const named_parts& parts,
                   const model_info& model,
                   const session_capacity& capacity,
                   const Backend& where)
      : base(compose(parts, model.vocab), model, capacity, where)
      , vocab_(model.vocab)
      , branches_(capacity.branches)
      , rules_(static_cast<std::size_t>(capacity.sequences), base::rule_info()) {}

  [[nodiscard]] bool use(const named_parts& parts) override {
    const bool is_one = fits(parts.has, A) && parts.look.branches <= branches_;
    if (is_one) {
      base::set_rules(compose(parts, vocab_));
    }
    return is_one;
  }

  void start(index_t slot,
             token_id* tokens,
             index_t count,
             const sequence_shape& geometry,
             const start_options& options) override {
    base::start(slot, tokens, count, geometry, options);
    rules_[static_cast<std::size_t>(slot)] = base::rule_info();
  }

 private:
  // A canvas draws from the model's vocabulary.
  [[nodiscard]] static named_composition<A> compose(named_parts parts, index_t vocab) {
    parts.canvas.vocab = vocab;
    return compose_named<A>(parts);
  }

  [[nodiscard]] layer_rule_info rule_of(const segment& s) const override {
    return rules_[static_cast<std::size_t>(s.slot)];
  }

  index_t vocab_;
  index_t branches_;
  std::vector<layer_rule_info> rules_;  // of the slots' sequences
};

namespace detail {

[[nodiscard]] inline session_capacity with_branches(const named_parts& parts,
                                                    session_capacity capacity) {
  if (capacity.branches >= 0) {  // of which the session refuses a negative number
    capacity.branches = std::max(capacity.branches, parts.look.branches);
  }
  return capacity;
}

inline void refuse_layers(const named_parts& parts) {
  if (parts.has.layered) {
    throw std::invalid_argument(
        "this policy decides which positions each layer of the model computes, so the engine must "
        "call at_layer() there: use make_any_layer_session instead of make_any_session");
  }
}

}  // namespace detail

/// Makes a session that decodes with the parts of a composition.
///
/// session_capacity::branches is raised to the number of lookahead branches. Errors: as session's
/// constructor, and std::invalid_argument for abilities that no type of `Compositions` combines,
/// and for a layer rule, which needs make_any_layer_session.
template <class Compositions = common_compositions, class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const named_parts& parts,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const Backend& where = {}) {
  detail::refuse_layers(parts);
  return with_policy<Compositions>(
      parts, model, [&](const auto& p) -> std::unique_ptr<any_session> {
        return make_any_session(p, model, detail::with_branches(parts, capacity), where);
      });
}

/// Makes a session for engines with hooks, which decode every policy.
template <class Compositions = common_layer_compositions, class Backend = on_host>
[[nodiscard]] std::unique_ptr<basic_named_session<Backend::space>>
make_any_layer_session(const named_parts& parts,
                       const model_info& model,
                       const session_capacity& capacity,
                       const Backend& where = {}) {
  using session_pointer = std::unique_ptr<basic_named_session<Backend::space>>;
  return detail::with_type(Compositions{}, parts.has, [&](auto type) -> session_pointer {
    constexpr abilities A = decltype(type)::value;
    return std::make_unique<named_session_of<A, Backend>>(
        parts, model, detail::with_branches(parts, capacity), where);
  });
}

#if defined(UNMASK_COMPILED)
// The same for the common types on the host, defined in the library.
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const named_parts& parts,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const on_host& where = {});
[[nodiscard]] std::unique_ptr<named_session>
make_any_layer_session(const named_parts& parts,
                       const model_info& model,
                       const session_capacity& capacity,
                       const on_host& where = {});
#endif

/// Makes a session from the text of a policy. Errors: also those of read_policy.
template <std::convertible_to<std::string_view> Text, class Backend = on_host>
[[nodiscard]] std::unique_ptr<any_session> make_any_session(const Text& text,
                                                            const model_info& model,
                                                            const session_capacity& capacity,
                                                            const Backend& where = {}) {
  return make_any_session(read_policy(text), model, capacity, where);
}

}  // namespace unmask
