// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/core/statistics.hpp>

#include <type_traits>

/// The numbers that a record holds of a row for each statistic, and how those of two records merge.
///
/// A record has a best column; its fields are about the other columns of the row, weighed against
/// the best (second_moment also counts the best one). A field F is a struct of floats; F{}, or
/// F::empty() where that is another, is of no column. F::names is the statistic that it is there
/// for. The merge is stated in one of two ways.
///
/// A statistic that the kernels do not know is computed column by column:
///
///     void add(float logit, float below);  // adds a column, `below` = logit - best <= 0
///     void join(const F& other);           // adds other columns with the same best; commutative
///     void rise(const lowering& by);       // if the numbers depend on the best: it rises
///     float bar() const;                   // if columns that do not exceed it change nothing
///
/// With bar(), add() and join() are exact in any order; without it, the 64 lanes of a chunk are
/// joined in the canonical order. No column is NaN or -inf. All kernels, devices and ranks follow.
/// To add a statistic: a bit in statistics.hpp, a header with its field, and in record.hpp a line
/// in the list and an accessor. On the host it costs a pass over the chunks that exceed the bar so
/// far, or add() for every column if there is no bar().
///
/// The fields below are gathered by each kernel's own code; they state how records merge, absorb().
namespace UNMASK_NAMESPACE::field {

/// Factors that rescale the weights of columns to a larger best logit.
struct lowering {
  /// The columns' best minus the larger one, at least math::exp_floor: logits of -3e38 instead of
  /// -inf are common, and with so large a shift their negligible weight would count.
  float shift;
  /// e^shift.
  float scale;
  /// Sum of e^(z - the columns' best) over the columns.
  float weight;
};

/// The weight of all columns except the best.
struct confidence {
  static constexpr statistics names = stat::confidence;  ///< The statistic of the field.
  float rest = 0.0F;                                     ///< Sum of e^(z - best).

  /// Adds the columns of another record with the largest logit `best`, at most this record's best.
  UNMASK_HD void absorb(const confidence& /*low*/, float /*best*/, const lowering& by) {
    rest = math::fma(by.scale, by.weight, rest);
  }
  /// Rescales the columns to a larger best.
  UNMASK_HD void rise(const lowering& by) { rest = math::product(rest, by.scale); }
};

/// The runner-up.
struct margin {
  static constexpr statistics names = stat::margin;  ///< The statistic of the field.
  float second = 0.0F;  ///< The second largest logit, with multiplicity.

  /// The field of a record without columns.
  [[nodiscard]] UNMASK_HD static margin empty() { return {-math::infinity()}; }
  /// Adds the columns of another record with the largest logit `best`.
  UNMASK_HD void absorb(const margin& /*low*/, float best, const lowering& /*by*/) {
    second = math::max(second, best);
  }
};

/// The weighted logits of the columns.
struct entropy {
  static constexpr statistics names = stat::entropy;  ///< The statistic of the field.
  float weighted = 0.0F;                              ///< Sum of e^(z - best) (z - best).

  /// Adds the columns of another record.
  UNMASK_HD void absorb(const entropy& low, float /*best*/, const lowering& by) {
    weighted = math::fma(by.scale, math::fma(by.shift, by.weight, low.weighted), weighted);
  }
  /// Rescales the columns to a larger best.
  UNMASK_HD void rise(const lowering& by) {
    weighted = math::product(by.scale, math::fma(by.shift, by.weight, weighted));
  }
};

/// The squared weights of all columns.
struct second_moment {
  static constexpr statistics names = stat::second_moment;  ///< The statistic of the field.
  float square = 0.0F;  ///< Sum of e^(2(z - best)), 1 for the best.

  /// Adds the columns of another record.
  UNMASK_HD void absorb(const second_moment& low, float /*best*/, const lowering& by) {
    square = math::fma(by.scale * by.scale, low.square, square);
  }
  /// Rescales the columns to a larger best.
  UNMASK_HD void rise(const lowering& by) {
    square = math::fma(by.scale * by.scale, square - 1.0F, 1.0F);
  }
};

/// The largest key of a draw, independent of the best column.
struct sampled {
  static constexpr statistics names = stat::sampled;  ///< The statistic of the field.
  float key = -math::infinity();                      ///< The winning key; -inf: none is drawn.
  float drawn_logit = 0.0F;                           ///< The logit of the token drawn.
  token_id drawn = no_token;                          ///< The token drawn.

  /// The field of a record without columns.
  [[nodiscard]] UNMASK_HD static sampled empty() { return {}; }
  /// The larger key wins, the lower token between equal keys. NaN loses to every number, so that
  /// the order of merges has no effect.
  [[nodiscard]] UNMASK_HD bool beats(const sampled& other) const {
    const bool drew = !math::is_nan(key);
    const bool other_drew = !math::is_nan(other.key);
    if (drew != other_drew) {
      return drew;
    }
    return key > other.key || (!(other.key > key) && drawn < other.drawn);
  }
};

/// The weights of the columns times those that they had in the previous step.
struct drift {
  static constexpr statistics names = stat::drift;  ///< The statistic of the field.
  float cross = 0.0F;                               ///< Sum of e^(z - best) e^(z' - best').
  float previous_square = 0.0F;                     ///< second_moment::square of the previous step.

  /// Adds the columns of another record.
  UNMASK_HD void absorb(const drift& low, float /*best*/, const lowering& by) {
    cross = math::fma(by.scale, low.cross, cross);
  }
};

/// The weights of the columns times the logarithms that they had in the previous step.
struct divergence {
  static constexpr statistics names = stat::divergence;  ///< The statistic of the field.
  float shared = 0.0F;                                   ///< Sum of e^(z - best) ln p'.

  /// Adds the columns of another record.
  UNMASK_HD void absorb(const divergence& low, float /*best*/, const lowering& by) {
    shared = math::fma(by.scale, low.shared, shared);
  }
};

/// True for a field that is lifted column by column.
template <class F>
concept lifted = requires(F f) {
  f.add(0.0F, 0.0F);
  f.join(f);
};

/// True for a lifted field that few columns change, whichever is the best.
template <class F>
concept barred = lifted<F> && requires(const F& f) { f.bar(); } &&
                 !requires(F f, const lowering& by) { f.rise(by); };

/// Rescales the columns of a field to a larger best.
template <class F>
UNMASK_HD void rise(F& f, const lowering& by) {
  if constexpr (requires { f.rise(by); }) {
    f.rise(by);
  }
}

/// Adds the columns of a record to a field: its field `low` and its best column, which is at most
/// this record's best.
template <class F>
UNMASK_HD void absorb(F& high, F low, float best, const lowering& by) {
  if constexpr (lifted<F>) {
    rise(low, by);
    low.add(best, by.shift);
    high.join(low);
  } else if constexpr (requires { high.absorb(low, best, by); }) {
    high.absorb(low, best, by);
  }
}

}  // namespace unmask::field

namespace UNMASK_NAMESPACE {

/// Names a field.
template <class F>
struct field_tag {
  using type = F;  ///< The field.
};

namespace detail {

// Replaces a field that a record does not have. Distinct types: two empty bases of one type would
// not share an address.
template <class F>
struct absent {};

template <bool Present, class F>
using field_or_absent = std::conditional_t<Present, F, absent<F>>;

}  // namespace detail

/// The fields that records may have.
template <class... F>
struct field_list {
  /// Base class with the fields that a record of S has.
  template <statistics S>
  struct of : detail::field_or_absent<S.contains(F::names), F>... {};

  /// Calls use(field_tag<G>{}) for each of them.
  template <statistics S, class Use>
  UNMASK_HD static constexpr void for_each(const Use& use) {
    (visit<S, F>(use), ...);
  }

  /// Like for_each(), in host code only. A lambda there is a function of the host, and nvcc warns
  /// if a function of host and device calls one.
  template <statistics S, class Use>
  static constexpr void for_each_on_host(const Use& use) {
    const auto visit = [&use](auto tag) {
      if constexpr (S.contains(decltype(tag)::type::names)) {
        use(tag);
      }
    };
    (visit(field_tag<F>{}), ...);
  }

  /// Base class with the fields of S that are lifted column by column.
  template <statistics S>
  struct lifted_of : detail::field_or_absent<field::lifted<F> && S.contains(F::names), F>... {};

 private:
  template <statistics S, class G, class Use>
  UNMASK_HD static constexpr void visit(const Use& use) {
    if constexpr (S.contains(G::names)) {
      use(field_tag<G>{});
    }
  }
};

}  // namespace unmask
