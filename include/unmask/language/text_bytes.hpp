// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/language/automaton.hpp>
#include <unmask/language/budget.hpp>
#include <unmask/language/operations.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace UNMASK_NAMESPACE::detail::languages {

/// From code points to the bytes that write them.
///
/// Within a JSON string each character has one spelling: itself, or \" \\ \b \f \n \r \t, or \u00xx
/// in lower case for the other characters below U+0020 (unless `has_unicode_escapes` is false: then
/// those 26 are in no string). So a language and its complement have no text in common.
class text_bytes {
 public:
  text_bytes(const automaton& codes, text_form form, bool has_unicode_escapes, budget& left)
      : codes_(codes)
      , left_(left)
      , is_json_(form == text_form::json_string)
      , has_unicode_escapes_(has_unicode_escapes) {}

  /// The smallest automaton over bytes.
  [[nodiscard]] automaton run_all() {
    if (codes_.empty()) {
      return {};
    }
    for (const std::uint8_t is_accepting : codes_.accepting) {
      add_state(bytes_, !is_json_ && is_accepting != 0);
    }
    bytes_.start = codes_.start;
    if (is_json_) {
      bytes_.start = add_state(bytes_);
      end_ = add_state(bytes_, true);
      bytes_.runs[bytes_.start] = {{'"', '"', codes_.start}};
    }
    for (std::uint32_t s = 0; s < codes_.states(); ++s) {
      const std::vector<run>& of = codes_.runs[s];
      std::vector<run> runs;
      left_.spend(16 * of.size() + 64);
      if (is_json_) {
        add_json_ascii(s, runs);
      } else {
        clip(of, 0, 0x7f, 0, runs);
      }
      add_longer(of, 0x80, 0x7ff, 0xc0, 1, runs);
      add_longer(of, 0x800, 0xffff, 0xe0, 2, runs);
      add_longer(of, 0x10000, 0x10ffff, 0xf0, 3, runs);
      join(runs);
      bytes_.runs[s] = std::move(runs);
    }
    return minimise(std::move(bytes_), left_);
  }

 private:
  using runs_of_state = std::vector<run>;

  // The part first .. last of some runs, less `base`.
  static void clip(const runs_of_state& of,
                   std::uint32_t first,
                   std::uint32_t last,
                   std::uint32_t base,
                   runs_of_state& into) {
    auto at = std::lower_bound(of.begin(), of.end(), first, [](const run& r, std::uint32_t symbol) {
      return r.last < symbol;
    });
    for (; at != of.end() && at->first <= last; ++at) {
      into.push_back(
          {std::max(at->first, first) - base, std::min(at->last, last) - base, at->next});
    }
  }
  // The state with these runs.
  std::uint32_t state_with(const runs_of_state& runs) {
    key_.clear();
    for (const run& r : runs) {
      key_.push_back(r.first << 16U | r.last);
      key_.push_back(r.next);
    }
    left_.spend(4 * key_.size());
    const auto [index, is_new] = known_.add(key_);
    if (is_new) {
      states_.push_back(add_state(bytes_));
      bytes_.runs.back() = runs;
      left_.check_states(bytes_.states());
      left_.check_positions(count_ += runs.size());
    }
    return states_[index];
  }

  void add_json_ascii(std::uint32_t s, runs_of_state& runs) {
    const runs_of_state& of = codes_.runs[s];
    clip(of, 0x20, 0x21, 0, runs);
    if (codes_.accepting[s] != 0) {
      runs.push_back({'"', '"', end_});
    }
    clip(of, 0x23, 0x5b, 0, runs);
    if (const runs_of_state escapes = escapes_of(s); !escapes.empty()) {
      runs.push_back({'\\', '\\', state_with(escapes)});
    }
    clip(of, 0x5d, 0x7f, 0, runs);
  }
  runs_of_state escapes_of(std::uint32_t s) {
    struct escape {
      std::uint32_t code;
      char name;
    };
    static constexpr escape names[] = {
        {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
    runs_of_state escapes;
    for (const escape& e : names) {
      if (const std::uint32_t next = codes_.after(s, e.code); next != dead_state) {
        const auto name = static_cast<unsigned char>(e.name);
        escapes.push_back({name, name, next});
      }
    }
    runs_of_state by_high;
    for (std::uint32_t high = 0; has_unicode_escapes_ && high < 2; ++high) {
      runs_of_state by_low;
      for (std::uint32_t low = 0; low < 16; ++low) {
        const std::uint32_t code = 16 * high + low;
        const bool is_named = code >= 8 && code <= 13 && code != 11;
        const std::uint32_t next = is_named ? dead_state : codes_.after(s, code);
        if (next != dead_state) {
          const std::uint32_t digit = low < 10 ? '0' + low : 'a' + low - 10;
          by_low.push_back({digit, digit, next});
        }
      }
      join(by_low);
      if (!by_low.empty()) {
        by_high.push_back({'0' + high, '0' + high, state_with(by_low)});
      }
    }
    if (!by_high.empty()) {
      join(by_high);
      std::uint32_t next = state_with(by_high);
      next = state_with({{'0', '0', next}});
      next = state_with({{'0', '0', next}});
      escapes.push_back({'u', 'u', next});
    }
    std::sort(escapes.begin(), escapes.end(), [](const run& a, const run& b) {
      return a.first < b.first;
    });
    join(escapes);
    return escapes;
  }

  // Characters of `more` bytes behind the first, which is at least `lead`.
  void add_longer(const runs_of_state& of,
                  std::uint32_t first,
                  std::uint32_t last,
                  std::uint32_t lead,
                  std::uint32_t more,
                  runs_of_state& runs) {
    runs_of_state part;
    clip(of, first, last, 0, part);
    if (part.empty()) {
      return;
    }
    runs_of_state bytes;
    add_digits(part, more, last >> (6 * more), lead, bytes);
    join(bytes);
    runs.insert(runs.end(), bytes.begin(), bytes.end());
  }
  // One byte, lead + a digit of 0 .. most, for numbers of `more` digits of base 64 behind it.
  void add_digits(const runs_of_state& numbers,
                  std::uint32_t more,
                  std::uint32_t most,
                  std::uint32_t lead,
                  runs_of_state& bytes) {
    const std::uint32_t unit = 1U << (6 * more);
    for (std::uint32_t digit = 0; digit <= most;) {
      left_.spend();
      const auto at = std::lower_bound(
          numbers.begin(), numbers.end(), digit * unit, [](const run& r, std::uint32_t number) {
            return r.last < number;
          });
      if (at == numbers.end()) {
        return;
      }
      if (at->first >= (digit + 1) * unit) {
        digit = at->first / unit;
        continue;
      }
      if (at->first <= digit * unit && at->last >= (digit + 1) * unit - 1) {  // whole digits
        const std::uint32_t last = std::min(most, (at->last + 1) / unit - 1);
        bytes.push_back({lead + digit, lead + last, behind({{0, unit - 1, at->next}}, more)});
        digit = last + 1;
      } else {
        runs_of_state part;
        clip(numbers, digit * unit, (digit + 1) * unit - 1, digit * unit, part);
        bytes.push_back({lead + digit, lead + digit, behind(part, more)});
        ++digit;
      }
    }
  }
  // The state before `more` digits that write these numbers.
  std::uint32_t behind(const runs_of_state& numbers, std::uint32_t more) {
    if (more == 0) {
      return numbers.front().next;
    }
    runs_of_state bytes;
    add_digits(numbers, more - 1, 63, 0x80, bytes);
    join(bytes);
    return state_with(bytes);
  }

  const automaton& codes_;
  budget& left_;
  bool is_json_;
  bool has_unicode_escapes_;
  std::uint32_t end_ = dead_state;
  automaton bytes_;
  std::size_t count_ = 0;              // of runs
  lists_of_numbers known_;             // runs of states
  std::vector<std::uint32_t> states_;  // that have them
  std::vector<std::uint32_t> key_;
};

/// Returns the language of `codes` over bytes, smallest.
[[nodiscard]] inline automaton
bytes_of(const automaton& codes, text_form form, bool has_unicode_escapes, budget& left) {
  return text_bytes(codes, form, has_unicode_escapes, left).run_all();
}

}  // namespace UNMASK_NAMESPACE::detail::languages
