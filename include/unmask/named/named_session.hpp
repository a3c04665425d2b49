// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/any_layer_session.hpp>
#include <unmask/named/compose_named.hpp>

#include <utility>
#include <vector>

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
  named_session_of(const named_parts& parts,
                   const model_info& model,
                   const session_capacity& capacity,
                   const Backend& where)
      : base(compose(parts, model.vocab), model, capacity, where)
      , vocab_(model.vocab)
      , branches_(capacity.branches)
      , rules_(static_cast<std::size_t>(capacity.sequences), base::rule_info()) {}

  [[nodiscard]] bool use(const named_parts& parts) override {
    const bool is_one = fits(parts.has, A) && detail::look_of(parts).branches <= branches_;
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

}  // namespace unmask
