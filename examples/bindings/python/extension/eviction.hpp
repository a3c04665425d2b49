// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/families.hpp>
#include <unmask/unmask.hpp>

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "arguments.hpp"
#include "gil.hpp"
#include "tensor.hpp"

namespace unmask_python {

/// Name of what a pass does with keys, None if it attends to all.
[[nodiscard]] inline std::optional<const char*> name_of(unmask::eviction e) {
  return e == unmask::eviction::choose   ? std::optional("choose")
         : e == unmask::eviction::chosen ? std::optional("chosen")
                                         : std::nullopt;
}

/// Eviction of keys in the pass of a segment.
struct eviction_in_pass {
  unmask::eviction evict = unmask::eviction::none;
  unmask::range blocks;
  double keep = 1.0;
  unmask::index_t pool = 1;
};

/// Eviction of keys by a policy: nothing for a policy that drops none.
class key_evictor {
 public:
  key_evictor() = default;
  explicit key_evictor(const unmask::eviction_family& eviction) {
    if (eviction.count > 0) {
      dropped_ = eviction.find<unmask::key_eviction>();
    }
  }

  [[nodiscard]] eviction_in_pass about(const unmask::segment& s, const unmask::plan& next) const {
    eviction_in_pass e{.evict = s.evict, .blocks = next.score};
    if (dropped_) {
      e.keep = dropped_->keep;
      e.pool = dropped_->pool;
    }
    return e;
  }

  [[nodiscard]] std::vector<unmask::index_t> select(unmask::host::key_selector& selector,
                                                    const unmask::segment& s,
                                                    const unmask::plan& next,
                                                    std::span<const float> scores) const {
    const eviction_in_pass e = about(s, next);
    unmask::check_order(e.evict == unmask::eviction::choose,
                        "select_keys() in a pass that selects none: call it where Segment.evict is "
                        "\"choose\"");
    unmask::check_argument(scores.size() == static_cast<std::size_t>(s.keys.last),
                           "number of scores",
                           scores.size(),
                           "Segment.keys.stop = ",
                           s.keys.last);
    const auto kept = selector.select(scores, e.blocks, e.keep, e.pool);
    return {kept.begin(), kept.end()};
  }

 private:
  std::optional<unmask::key_eviction> dropped_;
};

/// The numbers of a tensor with one dimension, float32 in host memory.
[[nodiscard]] inline auto floats_of(const auto& t, const char* name) {
  using number = std::conditional_t<std::is_same_v<decltype(t.data()), void*>, float, const float>;
  check_dense(t, name, 1);
  if (!is_of(t, nb::dlpack::dtype_code::Float, 32)) {
    refuse(name, "be float32", dtype_of(t));
  }
  if (space_of(t, name) != unmask::memory::host) {
    refuse(name, "be in host memory", "device memory");
  }
  return std::span<number>(static_cast<number*>(t.data()), t.shape(0));
}

/// Writes the scores of keys for a query: unmask::host::score_keys().
inline void
score_keys(const nb::object& key_rows, const nb::object& mean_query, const nb::object& written) {
  const tensor keys = tensor_of(key_rows, "keys");
  const tensor query = tensor_of(mean_query, "query");
  const writable_tensor scores = writable_of(written, "scores");
  const unmask::any_rows rows = rows_of(keys, "keys");
  const std::span<float> out = floats_of(scores, "scores");
  check_dense(query, "query", 1);
  if (query.dtype() != keys.dtype()) {
    refuse("query", "have the dtype of the keys", dtype_of(query));
  }
  if (rows.space != unmask::memory::host || space_of(query, "query") != unmask::memory::host) {
    refuse("keys and query", "be in host memory", "device memory");
  }
  const auto score = [&]<class T>(T) {
    const unmask::rows_view<T, unmask::memory::host> typed(
        static_cast<const T*>(rows.data), rows.rows, rows.columns, rows.stride);
    unmask::validate(typed, 1, "", "keys");
    const without_gil others;
    unmask::host::score_keys<T>(
        typed, std::span(static_cast<const T*>(query.data()), query.shape(0)), out);
  };
  switch (rows.kind) {
  case unmask::element_kind::f32:
    return score(float{});
  case unmask::element_kind::bf16:
    return score(unmask::bfloat16{});
  case unmask::element_kind::f16:
    return score(unmask::float16{});
  }
}

}  // namespace unmask_python
