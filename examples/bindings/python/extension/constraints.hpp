// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint.hpp>

#include <cstddef>
#include <list>
#include <memory>
#include <nanobind/nanobind.h>
#include <optional>
#include <utility>
#include <vector>

#include "gil.hpp"

namespace unmask_python {

namespace nb = nanobind;

/// A constraint, and the byte table that it was made from, if any. Sessions of several threads may
/// have it: each makes another() of its own.
struct language {
  unmask::constraint lifted;
  std::optional<unmask::byte_table> table;
};

/// The table that `make` returns, lifted to the tokens of a vocabulary while other threads run.
template <class Make>
[[nodiscard]] std::shared_ptr<language>
lifted(const Make& make, const unmask::vocabulary& words, const unmask::constraint_limits& limits) {
  const without_gil others;
  unmask::byte_table table = make();
  unmask::constraint c(table.view(), words, limits);
  return std::make_shared<language>(language{std::move(c), std::move(table)});
}

/// A field of an answer, as Python gives it.
struct field {
  std::shared_ptr<const language> of;
  unmask::index_t first = 0;
  std::optional<unmask::index_t> last;
  std::optional<unmask::index_t> tokens_after = 0;
  std::optional<std::uint32_t> state;
  bool fill = true;
  bool read_again = false;
};

/// The constraints of a session: one with a memory of its own for each language that its latest
/// sequences had. Sequences that run keep theirs.
class own_constraints {
 public:
  /// The fields of a sequence, valid until the next call.
  [[nodiscard]] std::vector<unmask::constrained_field> of(const std::vector<field>& fields) {
    std::vector<unmask::constrained_field> out;
    for (const field& f : fields) {
      out.push_back({.language = &own(f.of),
                     .first = f.first,
                     .last = f.last.value_or(0x7fffffff),
                     .tokens_after = f.tokens_after.value_or(unmask::any_number),
                     .state = f.state.value_or(unmask::from_start),
                     .fill = f.fill,
                     .read_again = f.read_again});
    }
    while (all_.size() > most + fields.size()) {
      all_.pop_back();
    }
    return out;
  }

 private:
  static constexpr std::size_t most = 16;

  [[nodiscard]] unmask::constraint& own(const std::shared_ptr<const language>& wanted) {
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      if (at->first == wanted) {
        all_.splice(all_.begin(), all_, at);
        return all_.front().second;
      }
    }
    all_.emplace_front(wanted, wanted->lifted.another());
    return all_.front().second;
  }

  std::list<std::pair<std::shared_ptr<const language>, unmask::constraint>> all_;
};

/// The fields in the arguments `constraint` and `fields` of a call.
[[nodiscard]] std::vector<field> fields_of(nb::handle constraint, nb::handle fields);

void bind_constraints(nb::module_& m);

}  // namespace unmask_python
