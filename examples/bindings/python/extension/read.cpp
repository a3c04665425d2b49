// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "read.hpp"

#include <unmask/core/check.hpp>
#include <unmask/core/record.hpp>
#include <unmask/host/read_rows.hpp>
#include <unmask/policy/logits/temperature.hpp>
#include <unmask/policy/logits/truncation.hpp>
#include <unmask/stats/truncate.hpp>

#include <algorithm>
#include <functional>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <span>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "gil.hpp"
#include "tensor.hpp"

namespace unmask_python {
namespace {

using namespace unmask;

/// The statistics of the sessions by name that truncate, for which the library has kernels.
inline constexpr statistics contents =
    stat::confidence | stat::margin | stat::entropy | stat::sampled | stat::kept;

/// Columns of the array that read_rows() writes.
enum column : std::size_t { best, log_total, second, entropy, log_kept_mass, columns };

/// Options of all rows of a call.
struct read_options {
  temperature scale;
  truncation rules;
  std::vector<token_id> suppressed;
  any_modifiers beside;

  [[nodiscard]] float edited(float logit, token_id token) const {
    return scale.transforms_now() ? scale.transform_at({})(logit, token) : logit;
  }
};

/// The mass of the kept tokens in units, from all columns of a row: for one whose held columns do
/// not determine it.
template <element T>
[[nodiscard]] canonical::mass_units
mass_of_all(const row_input<T>& row, const read_options& o, const canonical::row_limits& limits) {
  std::vector<std::uint64_t> keys;
  for (index_t j = 0; j < row.columns; ++j) {
    const bool allowed = row.allowed == nullptr || (row.allowed[j / 32] >> j % 32 & 1U) != 0;
    if (!allowed || std::ranges::binary_search(o.suppressed, j)) {
      continue;
    }
    float z = math::to_float(row.logits[j]);
    if (row.unconditional != nullptr) {
      const float u = math::to_float(row.unconditional[j]);
      z = math::fma(row.cfg_scale + 1.0F, z - u, u);
    }
    z = o.edited(z, j);
    if (limits.reaches(z)) {
      keys.push_back(rank_key(z, j));
    }
  }
  std::ranges::sort(keys, std::greater());
  canonical::mass_units mass = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0 && limits.end_after(static_cast<index_t>(i), mass)) {
      break;
    }
    mass += limits.mass_of(ranked(keys[i]).logit);
  }
  return mass;
}

/// ln of the share of the row that the truncation keeps.
template <element T>
[[nodiscard]] float log_kept(const row_input<T>& row,
                             const read_options& o,
                             const record<contents>& r,
                             const held_tokens& held) {
  const auto limits = canonical::row_limits::of(o.rules, r.best, r.total());
  canonical::mass_units masses[held_tokens::capacity];
  for (index_t i = 0; i < held.size(); ++i) {
    masses[i] = limits.mass_of(held[i].logit);
  }
  const index_t count = canonical::kept_of(held, held, masses, limits);
  canonical::mass_units mass = 0;
  if (count < 0) {
    mass = mass_of_all(row, o, limits);
  } else {
    for (index_t i = 0; i < count; ++i) {
      mass += masses[i];
    }
  }
  const float weight = static_cast<float>(mass) * (1.0F / canonical::units_of_mass);
  return math::log(math::min(math::divide(weight, r.total()), 1.0F));
}

template <element T>
void read_all(const any_rows& logits,
              const read_options& o,
              std::int32_t* tokens,
              float* statistics,
              host::instruction_set level) {
  const rows_view<T, memory::host> rows(
      static_cast<const T*>(logits.data), logits.rows, logits.columns, logits.stride);
  const bool truncates = !o.rules.keeps_all(logits.columns);
  const logit_factor edit = o.scale.transform_at({});
  held_tokens held;
  for (index_t r = 0; r < rows.rows; ++r) {
    const any_modifiers beside = o.beside.from_row(r, logits.kind);
    row_input<T> row;
    row.columns = rows.columns;
    row.logits = rows.row(r);
    row.allowed = beside.allowed;
    row.unconditional = static_cast<const T*>(beside.unconditional);
    row.cfg_scale = beside.cfg_scale;
    row.excluded = o.suppressed.data();
    row.excluded_count = static_cast<index_t>(o.suppressed.size());
    row.draw.temperature = 0.0F;  // nothing is drawn
    row.held = truncates ? &held : nullptr;
    held.clear();
    const host::row_transform by =
        o.scale.transforms_now() ? host::row_transform(edit) : host::row_transform();
    record<contents> whole;
    host::read_rows<contents, T>(
        std::span<const row_input<T>>(&row, 1), &by, &whole, host::executor_ref(), level, {}, {});
    const float nan = math::from_bits(0x7fc00000U);
    const bool valid = whole.valid();
    float* const out = statistics + static_cast<std::size_t>(r) * columns;
    tokens[r] = whole.token == no_token ? -1 : whole.token;
    out[best] = whole.best;
    out[log_total] = valid ? math::log1p(whole.rest) : nan;
    out[second] = whole.second;
    out[entropy] = valid ? whole.entropy() : nan;
    out[log_kept_mass] = !valid ? nan : truncates ? log_kept(row, o, whole, held) : 0.0F;
  }
}

void read_rows(const nb::args& by_place, const nb::kwargs& by_name, const char* signature) {
  arguments given("read_rows()", signature, by_place, by_name);
  const tensor logits = tensor_of(given["logits"], "logits");
  const writable_tensor tokens = writable_of(given["tokens"], "tokens");
  const writable_tensor written = writable_of(given["statistics"], "statistics");
  const any_rows rows = rows_of(logits, "logits");
  if (rows.space != memory::host) {
    refuse("logits", "be in host memory", "device memory");
  }
  unmask::detail::validate(rows, 1);
  const auto count = static_cast<std::size_t>(rows.rows);
  check_dense(tokens, "tokens", 1);
  if (!is_of(tokens, nb::dlpack::dtype_code::Int, 32) || tokens.shape(0) != count) {
    refuse("tokens",
           "be int32 with " + std::to_string(count) + " numbers",
           dtype_of(tokens) + ", " + shape_of(tokens));
  }
  check_dense(written, "statistics", 2);
  if (!is_of(written, nb::dlpack::dtype_code::Float, 32) || written.shape(0) != count ||
      written.shape(1) != columns ||
      (count > 1 && written.stride(0) != static_cast<std::int64_t>(columns))) {
    refuse("statistics",
           "be contiguous float32 of shape (" + std::to_string(count) + ", " +
               std::to_string(columns) + ")",
           dtype_of(written) + ", " + shape_of(written));
  }
  read_options o;
  o.scale.value = given.get("temperature", 1.0F);
  o.rules.tokens = given.optional<index_t>("top_k").value_or(o.rules.tokens);
  o.rules.mass = given.optional<float>("top_p").value_or(1.0F);
  o.rules.ratio = given.optional<float>("min_p").value_or(0.0F);
  check_argument(o.scale.value >= least_temperature && math::is_finite(o.scale.value),
                 "temperature",
                 o.scale.value,
                 "at least 1e-6 and finite");
  check_argument(o.rules.tokens >= 1 || !given.optional<index_t>("top_k"),
                 "top_k",
                 o.rules.tokens,
                 "at least 1");
  check_argument(o.rules.mass >= 0.0F && o.rules.mass <= 1.0F, "top_p", o.rules.mass, "in [0, 1]");
  check_argument(
      o.rules.ratio >= 0.0F && o.rules.ratio <= 1.0F, "min_p", o.rules.ratio, "in [0, 1]");
  if (!given.optional<index_t>("top_k")) {
    o.rules.tokens = rows.columns;
  }
  o.suppressed = given.get("suppressed", std::vector<token_id>());
  std::ranges::sort(o.suppressed);
  const auto repeated = std::ranges::unique(o.suppressed);
  o.suppressed.erase(repeated.begin(), repeated.end());
  for (const token_id token : o.suppressed) {
    check_argument(0 <= token && token < rows.columns,
                   "suppressed token",
                   token,
                   "in [0, columns of the logits), ",
                   rows.columns);
  }
  const auto tensor_or_none = [&](const char* name) {
    return !given.has(name) || given[name].is_none() ? std::nullopt
                                                     : std::optional(tensor_of(given[name], name));
  };
  const modifier_tensors beside{
      tensor_or_none("allowed"), tensor_or_none("unconditional"), given.get("cfg_scale", 0.0F)};
  o.beside = beside.beside(rows, rows.columns);
  auto* const to = static_cast<std::int32_t*>(tokens.data());
  auto* const out = static_cast<float*>(written.data());
  static const host::instruction_set level = host::best_instruction_set();
  const without_gil others;
  switch (rows.kind) {
  case element_kind::f32:
    return read_all<float>(rows, o, to, out, level);
  case element_kind::bf16:
    return read_all<bfloat16>(rows, o, to, out, level);
  case element_kind::f16:
    return read_all<float16>(rows, o, to, out, level);
  }
}

}  // namespace

void bind_read(nb::module_& m) {
  static constexpr const char* signature =
      "def read_rows(logits: object, tokens: object, statistics: object, *, "
      "temperature: float = 1.0, suppressed: list[int] = [], allowed: object | None = None, "
      "unconditional: object | None = None, cfg_scale: float = 0.0, top_k: int | None = None, "
      "top_p: float | None = None, min_p: float | None = None) -> None";
  m.def(
      "read_rows",
      [](const nb::args& by_place, const nb::kwargs& by_name) {
        read_rows(by_place, by_name, signature);
      },
      nb::sig(signature),
      R"doc(Reads rows of logits, each once, into `tokens` (int32) and `statistics` (float32, 5 columns).

unmask.read() makes these arrays, and explains them.)doc");
}

}  // namespace unmask_python
