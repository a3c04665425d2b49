// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hostile/engine.hpp"

#include <algorithm>
#include <limits>

namespace unmask::hostile {

namespace {

using testing::dice;
using testing::mixed;
using testing::unit;

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();
constexpr float smallest = std::numeric_limits<float>::denorm_min();

/// One of some kinds with these weights.
template <class Kind, std::size_t N>
Kind drawn(const std::array<double, N>& weights, std::uint64_t hash) {
  double sum = 0.0;
  for (const double w : weights) {
    sum += w;
  }
  const double at = unit(hash) * sum;
  double below = 0.0;
  for (std::size_t k = 0; k < N; ++k) {
    below += weights[k];
    if (at < below) {
      return static_cast<Kind>(k);
    }
  }
  return Kind{};
}

/// Key of a row: the tokens near it and, in a restless engine, the step.
std::uint64_t key_of(const hostile_engine& e, const row_place& where, bool restless) {
  std::uint64_t key = mixed(e.seed, where.sequence, static_cast<std::uint64_t>(where.row));
  if (restless) {
    return mixed(key, static_cast<std::uint64_t>(where.step) + 1);
  }
  const auto size = static_cast<index_t>(where.tokens.size());
  for (index_t p = std::max(where.row - 2, 0); p < std::min(where.row + 3, size); ++p) {
    key = mixed(key, static_cast<std::uint64_t>(where.tokens[static_cast<std::size_t>(p)]));
  }
  return key;
}

void fill(mood m, std::uint64_t key, const model_info& model, std::span<float> out) {
  const std::uint64_t columns = out.size();
  const auto favourite = static_cast<std::size_t>(mixed(key, 1) % columns);
  const auto sane = [&] {
    std::uint64_t h = mixed(key, 2);
    for (float& z : out) {
      h = h * 6364136223846793005U + 1442695040888963407U;
      z = static_cast<float>(h >> 40U) * 0x1p-22F - 2.0F;
    }
    out[favourite] += 6.0F * (static_cast<float>(mixed(key, 3) >> 44U) * 0x1p-20F);  // is exact
  };
  const auto each = [&](const auto& value) {
    for (std::size_t v = 0; v < out.size(); ++v) {
      out[v] = value(mixed(key, 4, v));
    }
  };
  switch (m) {
  case mood::sane:
  case mood::count:
    return sane();
  case mood::sure:
    sane();
    out[favourite] = 40.0F;
    return;
  case mood::one_nan:
    sane();
    out[favourite] = nan;
    return;
  case mood::all_nan:
    return std::fill(out.begin(), out.end(), nan);
  case mood::nothing:
    return std::fill(out.begin(), out.end(), -infinite);
  case mood::infinite:
    sane();
    out[favourite] = infinite;
    return;
  case mood::denormal:
    return each(
        [](std::uint64_t h) { return static_cast<float>(static_cast<int>(h % 5) - 2) * smallest; });
  case mood::equal:
    return std::fill(out.begin(), out.end(), static_cast<float>(mixed(key, 5) % 3) - 1.0F);
  case mood::few:
    return each([](std::uint64_t h) { return h % 4 == 0 ? 0.0F : h % 4 == 1 ? -0.0F : -1.0F; });
  case mood::huge:
    return each([](std::uint64_t h) {
      const float size = h % 8 == 0 ? largest : largest * static_cast<float>(unit(mixed(h)));
      return h % 16 < 8 ? -size : size;
    });
  case mood::sparse:
    std::fill(out.begin(), out.end(), -infinite);
    out[favourite] = 1.0F;
    return;
  case mood::halves:
    std::fill(out.begin(), out.end(), -infinite);
    for (std::uint64_t k = 0; k < (1U << (mixed(key, 7) % 3)); ++k) {
      out[(favourite + k) % columns] = 0.5F;
    }
    return;
  case mood::ends:
  case mood::masks:
    sane();
    const token_id token = m == mood::ends ? model.eos_token : model.mask_token;
    if (token != no_token) {
      out[static_cast<std::size_t>(token)] = 9.0F;
    }
    return;
  }
}

}  // namespace

hostile_engine random_engine(dice& d) {
  hostile_engine e;
  e.seed = d.bits();
  if (d.chance(0.8)) {  // mostly sane rows, some of any kind
    for (double& weight : e.moods) {
      weight = d.chance(0.5) ? d.real(0.0, 0.3) : 0.0;
    }
    e.moods[0] = d.real(0.5, 3.0);
    e.moods[static_cast<std::size_t>(mood::sure)] = d.real(0.0, 2.0);
    e.moods[static_cast<std::size_t>(mood::halves)] = d.chance(0.4) ? d.real(0.0, 2.0) : 0.0;
  } else {  // of one kind
    e.moods = {};
    e.moods[d.bits() % e.moods.size()] = 1.0;
  }
  for (double& weight : e.grammars) {
    weight = d.chance(0.5) ? d.real(0.0, 1.0) : 0.0;
  }
  e.grammars[static_cast<std::size_t>(grammar::half)] = 1.0;
  e.doomed = d.chance(0.25) ? d.real(0.0, 1.0) : 0.0;
  e.restless = d.chance(0.3);
  e.restless_grammar = d.chance(0.5);
  e.has_grammar = d.chance(0.3);
  e.has_guidance = d.chance(0.15);
  e.cfg_scale = d.one_of(std::vector<float>{0.0F, 0.5F, 1.0F, -1.0F, 3.0F, 1e30F});
  return e;
}

void write_row(const hostile_engine& e,
               const model_info& model,
               const row_place& where,
               std::span<float> out) {
  const std::uint64_t key = key_of(e, where, e.restless);
  const std::uint64_t fate =
      mixed(e.seed, where.sequence + 77, static_cast<std::uint64_t>(where.row));
  mood m = drawn<mood>(e.moods, mixed(key, 6));
  if (unit(fate) < e.doomed) {
    constexpr mood never_valid[] = {mood::one_nan, mood::all_nan, mood::nothing, mood::infinite};
    m = never_valid[mixed(fate) % std::size(never_valid)];
  }
  fill(m, key, model, out);
}

void write_hidden(const hostile_engine& e,
                  const row_place& where,
                  index_t layer,
                  std::span<float> out) {
  std::uint64_t h = mixed(key_of(e, where, e.restless), 13, static_cast<std::uint64_t>(layer));
  const mood m = drawn<mood>(e.moods, mixed(h, 14));
  const model_info nothing;
  fill(m == mood::ends || m == mood::masks ? mood::sane : m, h, nothing, out);
}

void write_unconditional(const hostile_engine& e,
                         const model_info& model,
                         const row_place& where,
                         std::span<float> out) {
  hostile_engine other = e;
  other.seed = mixed(e.seed, 8);
  write_row(other, model, where, out);
}

void write_allowed(const hostile_engine& e,
                   const model_info& model,
                   const row_place& where,
                   std::span<std::uint32_t> out) {
  const std::uint64_t key =
      e.restless_grammar
          ? key_of(e, where, true)
          : mixed(e.seed, where.sequence + 78, static_cast<std::uint64_t>(where.row));
  const auto allow = [&](token_id token) {
    out[static_cast<std::size_t>(token) / 32] |= 1U << (static_cast<unsigned>(token) % 32U);
  };
  switch (drawn<grammar>(e.grammars, mixed(key, 9))) {
  case grammar::everything:
  case grammar::count:
    std::fill(out.begin(), out.end(), ~0U);
    break;
  case grammar::nothing:
    std::fill(out.begin(), out.end(), 0U);
    break;
  case grammar::one_token:
    std::fill(out.begin(), out.end(), 0U);
    allow(static_cast<token_id>(mixed(key, 10) % static_cast<std::uint64_t>(model.vocab)));
    break;
  case grammar::half:
    for (std::size_t w = 0; w < out.size(); ++w) {
      out[w] = static_cast<std::uint32_t>(mixed(key, 11, w));
    }
    break;
  case grammar::mask_only:
    std::fill(out.begin(), out.end(), 0U);
    allow(model.mask_token);
    break;
  }
  if (model.vocab % 32 != 0) {  // what is behind the vocabulary means nothing
    const std::uint32_t behind = ~0U << (static_cast<unsigned>(model.vocab) % 32U);
    out.back() = (out.back() & ~behind) | (static_cast<std::uint32_t>(mixed(key, 12)) & behind);
  }
}

}  // namespace unmask::hostile
