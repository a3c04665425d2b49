// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/policy.hpp>
#include <unmask/named/named_parts.hpp>

#include <tuple>

namespace UNMASK_NAMESPACE {

namespace detail {

// A tuple of the part if the composition has it, otherwise an empty tuple.
template <bool Has, class Part>
[[nodiscard]] constexpr auto part_if(const Part& part) {
  if constexpr (Has) {
    return std::tuple<Part>{part};
  } else {
    return std::tuple<>{};
  }
}

}  // namespace detail

/// Returns the policy of a composition whose abilities are among `A`, with `more` parts. For nvcc,
/// `A` is the name of a constexpr variable.
template <abilities A, class... More>
[[nodiscard]] auto compose_named(const named_parts& p, const More&... more) {
  const auto parts = std::tuple_cat(
      std::tuple{p.ranking, any_commit_rule<A.compares>(p.commit_rule)},
      detail::part_if<A.transforms>(p.transform),
      detail::part_if<A.tracks>(any_logits_processors<A.remembers>{p.logits_processors}),
      std::tuple{p.filter, p.stops},
      detail::part_if<!A.layered>(p.cache),
      detail::part_if<A.layered>(any_picking_cache{p.cache}),
      detail::part_if<A.layered>(p.layers),
      detail::part_if<!A.renoises>(p.schedule),
      detail::part_if<A.renoises>(p.canvas),
      detail::part_if<A.draws>(p.draw),
      detail::part_if<A.keeps>(p.keep),
      detail::part_if<A.edits_tokens>(p.edits_tokens),
      detail::part_if<A.remasks>(p.remask),
      detail::part_if<A.branches>(p.look),
      std::tuple<More...>{more...});
  return std::apply([](const auto&... part) { return policy{part...}; }, parts);
}

/// True if a composition with abilities `has` can use the type for `type`. An ability that is not
/// used changes nothing, but for comparison with the step before, a canvas and layer rules.
[[nodiscard]] constexpr bool fits(const abilities& has, const abilities& type) {
  const auto at_most = [](bool used, bool there) { return !used || there; };
  return at_most(has.transforms, type.transforms) && at_most(has.tracks, type.tracks) &&
         at_most(has.remembers, type.remembers) && at_most(has.branches, type.branches) &&
         at_most(has.draws, type.draws) && at_most(has.keeps, type.keeps) &&
         at_most(has.edits_tokens, type.edits_tokens) && at_most(has.remasks, type.remasks) &&
         has.compares == type.compares && has.renoises == type.renoises &&
         has.layered == type.layered;
}

/// Types to which compositions by name are compiled; the first that fits is used. Each is a policy,
/// a session and its kernels.
template <abilities... A>
struct compositions {};

namespace detail {

template <class A, class B>
struct joined_compositions;
template <abilities... A, abilities... B>
struct joined_compositions<compositions<A...>, compositions<B...>> {
  using type = compositions<A..., B...>;
};

}  // namespace detail

/// The types of both lists.
template <class A, class B>
using joined = typename detail::joined_compositions<A, B>::type;

/// Abilities together with all edits that go with them and cost almost nothing when unused.
[[nodiscard]] constexpr abilities edits_and(const abilities& more) {
  abilities all = more;
  all.transforms = true;
  all.tracks = true;
  all.remembers = !more.keeps;
  return all;
}

/// Types for all combinations of parts that go together (composition_rules), but for edit_committed
/// and remask_current_below beside a comparison with the step before, or beside lookahead and
/// truncation, and for a canvas that is truncated or compared. The rules keep these from being one
/// type. Types with the same statistics share their kernels.
using common_compositions = compositions<
    edits_and({.branches = true, .draws = true, .edits_tokens = true}),
    edits_and({.draws = true, .edits_tokens = true, .remasks = true}),
    edits_and({.draws = true, .keeps = true, .edits_tokens = true, .remasks = true}),
    abilities{.transforms = true, .branches = true, .draws = true, .keeps = true},
    edits_and({.renoises = true}),
    abilities{.transforms = true, .compares = true, .draws = true, .keeps = true, .remasks = true}>;

/// The given abilities and a layer rule.
[[nodiscard]] constexpr abilities layered(const abilities& without) {
  abilities all = without;
  all.layered = true;
  return all;
}

/// common_compositions for engines with hooks, before those that need none.
using common_layer_compositions = joined<
    compositions<
        layered(edits_and({.draws = true, .edits_tokens = true, .remasks = true})),
        layered(edits_and({.draws = true, .keeps = true, .edits_tokens = true, .remasks = true})),
        layered(
            {.transforms = true, .compares = true, .draws = true, .keeps = true, .remasks = true})>,
    common_compositions>;

/// Types for sessions on a stream in libraries: a kernel takes long to compile, so these are fewer
/// than on the host, and a policy that needs another is refused with a message.
using few_compositions =
    compositions<edits_and({.branches = true, .edits_tokens = true}),
                 edits_and({.branches = true, .draws = true, .edits_tokens = true})>;

/// few_compositions for engines with hooks, too.
using few_layer_compositions =
    joined<compositions<layered(edits_and({.edits_tokens = true}))>, few_compositions>;

namespace detail {

[[nodiscard]] inline std::string text_of(const abilities& has) {
  std::string all;
  const auto note = [&all](bool there, const char* name) {
    all += there ? (all.empty() ? "" : ", ") + std::string(name) : "";
  };
  note(has.tracks, "edits of single tokens");
  note(has.remembers, "credit");
  note(has.compares, "comparison with the step before");
  note(has.branches, "lookahead");
  note(has.draws, "sampling");
  note(has.keeps, "truncation");
  note(has.edits_tokens, "rewriting of committed tokens");
  note(has.remasks, "remasking");
  note(has.renoises, "a canvas");
  note(has.layered, "a layer rule");
  return all;
}

[[noreturn]] inline void refuse_together(const abilities& has) {
  throw std::invalid_argument("this combination is not compiled by name: " + text_of(has) +
                              "; compose it in C++ as unmask::policy{...}");
}

template <abilities A>
struct type_of_abilities {
  static constexpr abilities value = A;
};

template <abilities Head, abilities... Tail, class Use>
auto with_type(compositions<Head, Tail...>, const abilities& has, const Use& use)
    -> decltype(use(type_of_abilities<Head>{})) {
  if (fits(has, Head)) {
    return use(type_of_abilities<Head>{});
  }
  if constexpr (sizeof...(Tail) == 0) {
    refuse_together(has);
  } else {
    return with_type(compositions<Tail...>{}, has, use);
  }
}

// The result's type is written: where clang 14 had to find it in the body, in a decltype, it left
// out virtual functions that the body needs.
template <abilities Head, abilities... Tail, class Use, class... More>
auto with_policy(compositions<Head, Tail...> types,
                 const named_parts& parts,
                 const Use& use,
                 const More&... more) -> decltype(use(compose_named<Head>(parts, more...))) {
  using result = decltype(use(compose_named<Head>(parts, more...)));
  return with_type(types, parts.has, [&](auto type) -> result {
    constexpr abilities A = decltype(type)::value;
    return use(compose_named<A>(parts, more...));
  });
}

}  // namespace detail

/// Calls use(policy) with the policy of a composition, of the first type of `Compositions` that
/// fits, and `more` parts; returns its result. A canvas draws from the model's vocabulary. Errors:
/// std::invalid_argument if no type fits.
template <class Compositions = common_compositions, class Use, class... More>
[[nodiscard]] auto with_policy(const named_parts& parts,
                               const model_info& model,
                               const Use& use,
                               const More&... more) {
  named_parts complete = parts;
  complete.canvas.vocab = model.vocab;
  return detail::with_policy(Compositions{}, complete, use, more...);
}

}  // namespace unmask
