// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text that row_kernel.inl includes, once per instruction set like itself, hence no #pragma once:
// prepares a chunk before its sums are computed.
template <>
struct stage_kernel<UNMASK_SIMD> {
  using simd = UNMASK_SIMD;
  using floats = simd::floats;
  static constexpr index_t width = simd::width;
  static constexpr index_t lanes = canonical::lanes;

  // Form in which the columns [first, first + count) of `row` are given to the sums.
  enum class form : unsigned char { plain, masked, staged };

  // Complete groups of lanes without any option are read from the engine's memory, and a mask can
  // be applied to them on the way; others are written to a buffer first. So are columns that a mask
  // mostly excludes, which then need not be read. `next_excluded` is the first excluded token not
  // yet reached.
  template <element T>
  UNMASK_TARGET static form form_of(const row_input<T>& row,
                                    row_transform edit,
                                    index_t first,
                                    index_t count,
                                    index_t next_excluded) {
    const token_id begin = row.first_token + first;
    const bool excludes =
        next_excluded < row.excluded_count && row.excluded[next_excluded] < begin + count;
    if (edit || row.unconditional != nullptr || excludes || count % lanes != 0) {
      return form::staged;
    }
    if (row.allowed == nullptr) {
      return form::plain;
    }
    if (begin % 32 != 0) {
      return form::staged;
    }
    index_t left_out = 0;  // sampled every 256 columns
    for (index_t j = 0; j < count; j += 256) {
      left_out += row.allowed[(begin + j) / 32] == 0 ? 256 : 0;
    }
    return left_out <= count / 4 ? form::masked : form::staged;
  }

  // Edits and masks the columns [first, first + count) of `row` into `buffer`, with -inf for
  // excluded tokens and as padding to complete groups of lanes; advances `next_excluded`.
  template <element T>
  UNMASK_TARGET static void stage(const row_input<T>& row,
                                  row_transform edit,
                                  index_t first,
                                  index_t count,
                                  index_t& next_excluded,
                                  float* buffer) {
    const token_id token = row.first_token + first;
    index_t loaded = 0;
    if (row.allowed == nullptr && row.unconditional == nullptr) {
      for (; loaded + lanes <= count; loaded += lanes) {
        for (index_t j = loaded; j < loaded + lanes; j += width) {
          simd::store(buffer + j, simd::load(row.logits + first + j));
        }
      }
    }
    for (; loaded < count; loaded += lanes) {
      load_columns(row, first + loaded, math::min(lanes, count - loaded), buffer + loaded);
    }
    if (edit) {
      edit(buffer, count, token, simd::level);
      for (index_t done = 0; row.allowed != nullptr && done < count; done += lanes) {
        const index_t left = math::min(lanes, count - done);
        mask(buffer + done, allowed_bits(row.allowed, token + done, left));
      }
    }
    const token_id end = token + count;
    for (; next_excluded < row.excluded_count && row.excluded[next_excluded] < end;
         ++next_excluded) {
      float& z = buffer[row.excluded[next_excluded] - token];
      if (row.excluded_logits != nullptr) {
        row.excluded_logits[next_excluded] = z;
      }
      z = -math::infinity();
    }
  }

 private:
  // `count` <= 64 columns with guidance and mask, padded with -inf to 64.
  template <element T>
  UNMASK_TARGET static void
  load_columns(const row_input<T>& row, index_t first, index_t count, float* z) {
    const std::uint64_t kept = allowed_bits(row.allowed, row.first_token + first, count);
    if (kept == 0) {  // the logits are not even read
      for (index_t j = 0; j < lanes; j += width) {
        simd::store(z + j, simd::splat(-math::infinity()));
      }
      return;
    }
    const T* c = row.logits + first;
    const T* u = row.unconditional == nullptr ? nullptr : row.unconditional + first;
    if (u == nullptr && count == lanes) {
      for (index_t j = 0; j < lanes; j += width) {
        const auto bits = static_cast<std::uint32_t>(kept >> static_cast<unsigned>(j));
        const floats x = simd::load(c + j);
        simd::store(z + j, ~kept == 0 ? x : simd::kept(x, bits));
      }
      return;
    }
    if (count == lanes) {
      load_guided(c, u, row.cfg_scale, z);
    } else {
      load_tail(c, u, row.cfg_scale, count, z);
    }
    mask(z, kept);
  }

  // Sets the columns whose bit is not set to -inf.
  UNMASK_TARGET static void mask(float* z, std::uint64_t kept) {
    if (~kept != 0) {
      for (index_t j = 0; j < lanes; j += width) {
        const auto bits = static_cast<std::uint32_t>(kept >> static_cast<unsigned>(j));
        simd::store(z + j, simd::kept(simd::load(z + j), bits));
      }
    }
  }

  template <element T>
  UNMASK_TARGET static void load_guided(const T* c, const T* u, float scale, float* z) {
    const floats weight = simd::splat(scale + 1.0F);
    for (index_t j = 0; j < lanes; j += width) {
      const floats y = simd::load(u + j);
      simd::store(z + j, simd::fma(weight, simd::sub(simd::load(c + j), y), y));
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
};
