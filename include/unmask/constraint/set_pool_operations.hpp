// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/set_pool.hpp>

#include <algorithm>
#include <cstring>

/// Definitions of set_pool.hpp.
namespace UNMASK_NAMESPACE::detail::constraints {

// The number of entries of the given size in a share of the memory, at least 4.
[[nodiscard]] inline std::uint32_t
entries_in(std::size_t share, std::size_t bytes, std::uint32_t most) {
  const std::size_t entries = std::min<std::size_t>(share / bytes, most);
  return static_cast<std::uint32_t>(std::max<std::size_t>(entries, 4));
}
inline constexpr std::uint32_t most_entries = std::uint32_t{1} << 20U;
inline constexpr std::uint32_t most_masks = 4096;

// An eighth of the memory is for sets of states, an eighth for sets of classes, a quarter for
// results and half for masks.
UNMASK_LIBRARY set_pool::set_pool(std::shared_ptr<const token_automaton> automaton,
                                  const constraint_limits& limits)
    : a_(std::move(automaton))
    , sets_(a_->state_words(),
            entries_in(limits.bytes / 8,
                       bit_sets::bytes_of(a_->state_words()) + 4,
                       std::min(limits.entries, most_entries)))
    , class_sets_(a_->class_words(),
                  entries_in(limits.bytes / 8,
                             bit_sets::bytes_of(a_->class_words()) + 4,
                             std::min(limits.entries, most_entries)))
    , memo_(entries_in(
          limits.bytes / 4, memo::bytes_of_entry(), std::min(limits.entries, most_entries)))
    , scratch_(a_->state_words() + 2)
    , class_scratch_(a_->class_words())
    , seen_(a_->label_count())
    , rename_(zeroed<std::uint32_t>(sets_.capacity()))
    , mask_words_((a_->token_words() + 15) / 16 * 16)
    , mask_of_(zeroed<std::uint32_t>(class_sets_.capacity()))
    , restrictions_(most_restrictions * a_->class_words()) {
  const std::uint32_t masks =
      entries_in(limits.bytes / 2, 4 * mask_words_, std::min(limits.entries, most_masks));
  mask_bits_ = zeroed<std::uint32_t>(mask_words_ * masks);
  masks_.resize(masks);
  for (std::uint32_t c = 0; c < a_->classes; ++c) {
    add_bit(restrictions_.data(), c);
  }
  restriction_uses_[0] = 1;
}

UNMASK_LIBRARY std::uint64_t* set_pool::scratch() {
  std::fill(scratch_.begin(), scratch_.end(), 0);
  return scratch_.data() + 1;
}

UNMASK_LIBRARY std::uint32_t set_pool::intern_scratch() {
  std::uint32_t found = sets_.find_or_add(scratch_.data() + 1);
  if (found == bit_sets::none) {
    flush();
    found = sets_.find_or_add(scratch_.data() + 1);
  }
  return found;
}

// Forgets all sets but those that sequences use. Indices are only names: what is remembered does
// not change what is decided.
UNMASK_LIBRARY void set_pool::flush() {
  ++flushes_;
  memo_.clear();
  std::fill_n(rename_.get(), sets_.size(), 0U);
  for (kept_sets* const k : kept_) {
    k->chain->end = k->chain->ok;
    for (index_t i = 0; i <= k->chain->ok; ++i) {
      rename_[k->value[i]] = 1;
    }
  }
  sets_.keep([&](std::uint32_t i) { return rename_[i] != 0; },
             [&](std::uint32_t i, std::uint32_t to) { rename_[i] = 1 + to; });
  for (kept_sets* const k : kept_) {
    for (index_t i = 0; i <= k->chain->ok; ++i) {
      k->value[i] = rename_[k->value[i]] - 1;
    }
  }
}

UNMASK_LIBRARY void set_pool::add(kept_sets* sets, std::size_t count) {
  std::size_t wanted = promised_ + 2;  // and those of one operation
  for (std::size_t i = 0; i < count; ++i) {
    wanted += static_cast<std::size_t>(sets[i].room);
  }
  if (wanted > sets_.capacity()) {
    check_argument(wanted < (std::size_t{1} << 29U),
                   "positions of all sequences of a constraint",
                   wanted,
                   "less than 2^28");
    const auto capacity = static_cast<std::uint32_t>(2 * wanted);
    rename_ = zeroed<std::uint32_t>(capacity);
    sets_.grow(capacity);
  }
  kept_.reserve(kept_.size() + count);
  promised_ = wanted - 2;
  for (std::size_t i = 0; i < count; ++i) {
    kept_.push_back(&sets[i]);
  }
}

UNMASK_LIBRARY void set_pool::remove(kept_sets* sets, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    promised_ -= static_cast<std::size_t>(sets[i].room);
    std::erase(kept_, &sets[i]);
  }
}

UNMASK_LIBRARY std::uint32_t set_pool::set_of(std::uint32_t state) {
  add_bit(scratch(), state);
  return intern_scratch();
}

UNMASK_LIBRARY std::uint32_t set_pool::all_states() {
  std::uint64_t* const out = scratch();
  for (std::uint32_t q = 0; q < a_->states; ++q) {
    add_bit(out, q);
  }
  return intern_scratch();
}

UNMASK_LIBRARY std::uint32_t set_pool::suffix(index_t tokens) {
  if (tokens < 0) {
    return all_states();
  }
  if (a_->end_class != no_class) {  // EOS tokens fill what is left
    std::uint64_t* const out = scratch();
    for (std::uint32_t q = 0; q < a_->states; ++q) {
      if (a_->distance[q] <= static_cast<std::uint32_t>(tokens)) {
        add_bit(out, q);
      }
    }
    return intern_scratch();
  }
  std::copy(a_->accepting.begin(), a_->accepting.end(), scratch());
  const auto first = scratch_.begin() + 1;
  std::vector<std::uint64_t> set(first, first + static_cast<std::ptrdiff_t>(sets_.words()));
  std::vector<std::uint64_t> before;
  for (index_t i = 0; i < tokens && set != before; ++i) {
    before = set;
    std::uint64_t* const out = scratch();
    for_each_bit(before.data(), before.size(), [&](std::size_t q) {
      for (std::uint32_t k = a_->first_back[q]; k < a_->first_back[q + 1]; ++k) {
        add_bit(out, a_->back_from[k]);
      }
    });
    std::copy_n(out, set.size(), set.begin());
  }
  std::copy(set.begin(), set.end(), scratch());
  return intern_scratch();
}

UNMASK_LIBRARY bool set_pool::leads(std::uint32_t label, std::uint32_t restriction) const {
  const std::size_t words = a_->class_words();
  const std::uint64_t* const by = a_->labels.data() + words * label;
  const std::uint64_t* const left = this->restriction(restriction);
  std::uint64_t any = 0;
  for (std::size_t w = 0; w < words; ++w) {
    any |= by[w] & left[w];
  }
  return any != 0;
}

UNMASK_LIBRARY void set_pool::mark_pairs(const std::vector<std::uint32_t>& first,
                                         const std::vector<std::uint32_t>& to,
                                         const std::vector<std::uint32_t>& label,
                                         std::uint32_t set,
                                         std::uint32_t restriction) {
  std::uint64_t* const out = scratch();
  for_each_bit(sets_[set], sets_.words(), [&](std::size_t q) {
    for (std::uint32_t k = first[q]; k < first[q + 1]; ++k) {
      if (leads(label[k], restriction)) {
        add_bit(out, to[k]);
      }
    }
  });
}

UNMASK_LIBRARY std::uint32_t set_pool::forward(std::uint32_t set, std::uint32_t symbol) {
  const std::uint64_t name = key(forwards, set, symbol);
  std::uint32_t result = 0;
  if (memo_.find(name, result)) {
    return result;
  }
  if (symbol == any(0)) {
    a_->after_all.add(sets_[set], scratch(), sets_.words());
  } else if (symbol > any(0)) {
    mark_pairs(a_->first_pair, a_->pair_next, a_->pair_label, set, symbol - a_->classes);
  } else {
    a_->add_after(symbol, sets_[set], scratch());
  }
  const std::size_t before = flushes_;
  result = intern_scratch();
  if (flushes_ == before) {  // or `set` has another name now
    memo_.add(name, result);
  }
  return result;
}

UNMASK_LIBRARY std::uint32_t set_pool::backward(std::uint32_t set, std::uint32_t symbol) {
  const std::uint64_t name = key(backwards, set, symbol);
  std::uint32_t result = 0;
  if (memo_.find(name, result)) {
    return result;
  }
  if (symbol == any(0)) {
    a_->before_all.add(sets_[set], scratch(), sets_.words());
  } else if (symbol > any(0)) {
    mark_pairs(a_->first_back, a_->back_from, a_->back_label, set, symbol - a_->classes);
  } else {
    a_->add_before(symbol, sets_[set], scratch());
  }
  const std::size_t before = flushes_;
  result = intern_scratch();
  if (flushes_ == before) {
    memo_.add(name, result);
  }
  return result;
}

UNMASK_LIBRARY bool set_pool::intersects(std::uint32_t a, std::uint32_t b) const {
  std::uint64_t any = 0;
  for (std::size_t w = 0; w < sets_.words(); ++w) {
    any |= sets_[a][w] & sets_[b][w];
  }
  return any != 0;
}

UNMASK_LIBRARY std::uint32_t set_pool::between(std::uint32_t left, std::uint32_t right) {
  const std::uint64_t name = key(betweens, left, right);
  std::uint32_t result = 0;
  if (memo_.find(name, result)) {
    return result;
  }
  if (++call_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    ++call_;
  }
  std::fill(class_scratch_.begin(), class_scratch_.end(), 0);
  const std::size_t words = a_->class_words();
  const std::uint64_t* const to = sets_[right];
  for_each_bit(sets_[left], sets_.words(), [&](std::size_t q) {
    for (std::uint32_t k = a_->first_pair[q]; k < a_->first_pair[q + 1]; ++k) {
      const std::uint32_t label = a_->pair_label[k];
      if (seen_[label] != call_ && has_bit(to, a_->pair_next[k])) {
        seen_[label] = call_;
        const std::uint64_t* const by = a_->labels.data() + words * label;
        for (std::size_t w = 0; w < words; ++w) {
          class_scratch_[w] |= by[w];
        }
      }
    }
  });
  result = class_sets_.find_or_add(class_scratch_.data());
  if (result == bit_sets::none) {
    ++flushes_;
    memo_.clear();
    class_sets_.clear();
    std::fill_n(mask_of_.get(), class_sets_.capacity(), 0U);
    for (mask_entry& m : masks_) {
      m.class_set = bit_sets::none;
    }
    result = class_sets_.find_or_add(class_scratch_.data());
  }
  memo_.add(name, result);
  return result;
}

// The oldest mask that no row needs; null if all are needed.
UNMASK_LIBRARY std::uint32_t* set_pool::free_mask(std::uint32_t for_class_set) {
  for (std::size_t tries = 0; tries < masks_.size(); ++tries) {
    const std::size_t at = next_mask_;
    next_mask_ = next_mask_ + 1 == masks_.size() ? 0 : next_mask_ + 1;
    mask_entry& m = masks_[at];
    if (m.epoch != epoch_) {
      if (m.class_set != bit_sets::none) {
        mask_of_[m.class_set] = 0;
      }
      m = {for_class_set, epoch_};
      if (for_class_set != bit_sets::none) {
        mask_of_[for_class_set] = static_cast<std::uint32_t>(at + 1);
      }
      return mask_bits_.get() + mask_words_ * at;
    }
  }
  return nullptr;
}

UNMASK_LIBRARY void set_pool::write_mask(std::uint32_t class_set, std::uint32_t* out) const {
  const std::size_t words = a_->token_words();
  bool is_empty = true;
  for_each_bit(class_sets_[class_set], class_sets_.words(), [&](std::size_t c) {
    if (a_->bitmap_of[c] == no_class) {
      return;
    }
    const std::uint32_t* const large = a_->bitmaps.data() + words * a_->bitmap_of[c];
    if (is_empty) {
      std::copy_n(large, words, out);
      is_empty = false;
      return;
    }
    for (std::size_t w = 0; w < words; ++w) {
      out[w] |= large[w];
    }
  });
  if (is_empty) {
    std::fill_n(out, words, 0U);
  }
  for_each_bit(class_sets_[class_set], class_sets_.words(), [&](std::size_t c) {
    if (a_->bitmap_of[c] != no_class) {
      return;
    }
    for (std::uint32_t k = a_->first_token[c]; k < a_->first_token[c + 1]; ++k) {
      add_token(out, a_->tokens[k]);
    }
  });
}

UNMASK_LIBRARY const std::uint32_t* set_pool::mask(std::uint32_t class_set) {
  if (mask_of_[class_set] != 0) {
    const std::size_t at = mask_of_[class_set] - 1;
    masks_[at].epoch = epoch_;
    return mask_bits_.get() + mask_words_ * at;
  }
  std::uint32_t* const out = free_mask(class_set);
  if (out != nullptr) {
    write_mask(class_set, out);
  }
  return out;
}

UNMASK_LIBRARY const std::uint32_t* set_pool::mask(std::uint32_t class_set,
                                                   const std::uint32_t* given) {
  const std::uint32_t* const own = mask(class_set);
  std::uint32_t* const both = own == nullptr ? nullptr : free_mask(bit_sets::none);
  if (both != nullptr) {
    for (std::size_t w = 0; w < a_->token_words(); ++w) {
      both[w] = own[w] & given[w];
    }
  }
  return both;
}

UNMASK_LIBRARY std::uint32_t set_pool::take_restriction(const std::uint64_t* classes) {
  const std::size_t words = a_->class_words();
  std::uint32_t found = most_restrictions;
  for (std::uint32_t r = 0; r < most_restrictions; ++r) {
    if (std::equal(classes, classes + words, restriction(r))) {
      ++restriction_uses_[r];
      return r;
    }
    found = restriction_uses_[r] == 0 && found == most_restrictions ? r : found;
  }
  if (found < most_restrictions) {
    std::copy(classes,
              classes + words,
              restrictions_.begin() + static_cast<std::ptrdiff_t>(found * words));
    restriction_uses_[found] = 1;
    memo_.clear();  // results of the restriction that had this index
  }
  return found;
}

UNMASK_LIBRARY void set_pool::drop_restriction(std::uint32_t restriction) {
  --restriction_uses_[restriction];
}

}  // namespace unmask::detail::constraints
