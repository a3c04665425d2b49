// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.hpp includes, once per tier like itself, hence no #pragma once: what happens
// to a chunk before its sums are taken. Included alone, this file is empty.
#if defined(UNMASK_SIMD)

template <>
struct stage_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;

  // How the statistics see the columns [first, first + count) of `row`.
  enum class form : unsigned char { plain, masked, staged };

  // Whole groups of lanes without any option are what the engine wrote, and a mask can be applied
  // to them on the way; the rest is written to a buffer first. So is what a mask leaves mostly out,
  // of which the columns need not be read. `blank` is the first blanked token that has not been met.
  template <element T, class Edit>
  UNMASK_TARGET static form form_of(
      const row_input<T>& row, const Edit& /*edit*/, index_t first, index_t count, index_t blank) {
    const token_id begin = row.first_token + first;
    const bool blanks = blank < row.blanked_count && row.blanked[blank] < begin + count;
    if (!std::is_same_v<Edit, no_edit> || row.unconditional != nullptr || blanks ||
        count % lanes != 0) {
      return form::staged;
    }
    if (row.allowed == nullptr) {
      return form::plain;
    }
    if (begin % 32 != 0) {
      return form::staged;
    }
    index_t left_out = 0;  // of a few looked at
    for (index_t j = 0; j < count; j += 256) {
      left_out += row.allowed[(begin + j) / 32] == 0 ? 256 : 0;
    }
    return left_out <= count / 4 ? form::masked : form::staged;
  }

  // Edits, masks and blanks the columns [first, first + count) of `row` into `buffer`, padded with
  // -inf to whole groups of lanes; `blank` moves on.
  template <element T, class Edit>
  UNMASK_TARGET static void stage(const row_input<T>& row,
                                  const Edit& edit,
                                  index_t first,
                                  index_t count,
                                  index_t& blank,
                                  float* buffer) {
    for (index_t done = 0; done < count; done += lanes) {
      stage_group(row, edit, first + done, math::min(lanes, count - done), buffer + done);
    }
    const token_id end = row.first_token + first + count;
    for (; blank < row.blanked_count && row.blanked[blank] < end; ++blank) {
      float& z = buffer[row.blanked[blank] - row.first_token - first];
      if (row.blanked_logits != nullptr) {
        row.blanked_logits[blank] = z;
      }
      z = -math::infinity();
    }
  }

 private:
  // `count` <= 64 columns with every option, continued with -inf to 64.
  template <element T, class Edit>
  UNMASK_TARGET static void
  stage_group(const row_input<T>& row, const Edit& edit, index_t first, index_t count, float* z) {
    const token_id token = row.first_token + first;
    const std::uint64_t kept = allowed_bits(row.allowed, token, count);
    if (kept == 0) {  // the logits are not even read
      for (index_t j = 0; j < lanes; j += width) {
        simd::store(z + j, simd::splat(-math::infinity()));
      }
      return;
    }
    const T* c = row.logits + first;
    const T* u = row.unconditional == nullptr ? nullptr : row.unconditional + first;
    if (std::is_same_v<Edit, no_edit> && u == nullptr && count == lanes) {
      for (index_t j = 0; j < lanes; j += width) {
        const auto bits = static_cast<std::uint32_t>(kept >> static_cast<unsigned>(j));
        const floats x = simd::load(c + j);
        simd::store(z + j, ~kept == 0 ? x : simd::kept(x, bits));
      }
      return;
    }
    if (count == lanes) {
      load_group(c, u, row.cfg_scale, z);
    } else {
      load_tail(c, u, row.cfg_scale, count, z);
    }
    if constexpr (!std::is_same_v<Edit, no_edit>) {
      edit_columns(z, count, token, edit);
    }
    if (~kept != 0) {
      for (index_t j = 0; j < lanes; j += width) {
        const auto bits = static_cast<std::uint32_t>(kept >> static_cast<unsigned>(j));
        simd::store(z + j, simd::kept(simd::load(z + j), bits));
      }
    }
  }

  template <element T>
  UNMASK_TARGET static void load_group(const T* c, const T* u, float scale, float* z) {
    const floats weight = simd::splat(scale + 1.0F);
    for (index_t j = 0; j < lanes; j += width) {
      floats x = simd::load(c + j);
      if (u != nullptr) {
        const floats y = simd::load(u + j);
        x = simd::fma(weight, simd::sub(x, y), y);
      }
      simd::store(z + j, x);
    }
  }

  template <element T>
  UNMASK_TARGET static void
  load_tail(const T* c, const T* u, float scale, index_t count, float* z) {
    for (index_t j = 0; j < lanes; ++j) {  // what lies behind the row may not even be mapped
      float x = 0.0F;
      if (j < count) {
        x = math::to_float(c[j]);
        if (u != nullptr) {
          const float y = math::to_float(u[j]);
          x = math::fma(scale + 1.0F, x - y, y);
        }
      }
      z[j] = x;
    }
  }

  template <class Edit>
  UNMASK_TARGET __attribute__((flatten)) static void
  edit_columns(float* z, index_t count, token_id token, const Edit& given) {
    const Edit edit = given;  // a copy cannot alias z, which would keep the loop scalar
    if (count == lanes) {
      for (index_t j = 0; j < lanes; ++j) {  // g++ -O2 vectorises a loop of known length
        z[j] = edit(z[j], token + j);
      }
    } else {
      for (index_t j = 0; j < count; ++j) {
        z[j] = edit(z[j], token + j);
      }
    }
  }
};

#endif
