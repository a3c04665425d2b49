// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/part/part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail {

struct rows_of_block {};  // in place of step::block_rows

}  // namespace detail

/// A rule that rewrites the scored block as a whole, and may move text in it:
/// `rewrite_block(rows, context)` is called once a step, by one thread, in place of the commit
/// rule. It sees every position of the scored range, masked or committed, and its row, and says
/// what is written there. Declared by `static constexpr bool rewrites_blocks = true`, in a part
/// that also has `schedule`, `track` and `commits`, which returns false. `context.at` concerns the
/// first position.
///
/// `rows` (step::block_rows) has, for i in [0, rows.size()) from the left:
///
///  - `is_masked(i)`, `is_committed(i)`, `is_inserted(i)`: a fixed position is neither masked nor
///    committed; an inserted one was not there when the sequence began;
///  - `token(i)`: the present token, `mask_token()` at a masked position;
///  - `best(i)`, `best(i, skips)`: the most probable token of the row, or of those tokens for which
///    `skips(token)` is false; it may skip tokens that `track` named; `token` is no_token if none is
///    left. `probability` is that in the whole row. Ties: the lower token;
///  - `write(i, token, probability)`: the position gets this token; the mask token masks it again;
///  - `erase(i)`: the position is removed, the text right of it moves left;
///  - `insert(i, count = 1)`: masked positions are put before it, the text right of it moves right;
///  - `most()`: the size that the range may have, `resize(size)`: that which it gets, for a range
///    that ends with the sequence; `append(count, token)`: so many positions more after that, masked
///    ones or committed ones with a token. The sequence is then longer or shorter.
///
/// Positions without a call stay as they are. After the writes the block is put together from left
/// to right and cut at its end; positions that become free there are masked. Everything that
/// belongs to a position moves with its token (step::move_position).
///
/// A start with a fixed position in the answer is refused, because text that moves could not leave
/// it where it is; not with `moves_text() -> bool` that returns false, for a value of the part that
/// only writes.
///
/// With `begin_length(sequence_shape) -> index_t` the sequence begins with so many positions,
/// prompt included, of the sequence_shape::length that it may have. Every decode has to end: a part
/// says how many passes it takes in extra_forwards(sequence_shape).
template <class P>
concept block_rewriting =
    part<P> && requires(const P& p, detail::rows_of_block& rows, part_context<P>& context) {
      requires bool { P::rewrites_blocks };
      { p.rewrite_block(rows, context) } -> std::same_as<void>;
    };

namespace detail {

// Whether a rule moves text.
template <class P>
[[nodiscard]] bool moves_text(const P& p) {
  if constexpr (requires { p.moves_text(); }) {
    return p.moves_text();
  } else {
    return block_rewriting<P>;
  }
}

}  // namespace detail

/// Such a rule whose sequences begin shorter than they may become.
template <class P>
concept growing = block_rewriting<P> && requires(const P& p, const sequence_shape& g) {
  { p.begin_length(g) } -> std::same_as<index_t>;
};

}  // namespace unmask
