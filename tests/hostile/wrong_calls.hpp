// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// \file
/// Calls of a session that are wrong in every way known: out of order, with slots, segments,
/// layers, rows, strides, types and tokens that do not fit.

#include <unmask/named_policy.hpp>

#include <functional>
#include <string>
#include <vector>

#include "hostile/scenario.hpp"
#include "support/bound_session.hpp"

namespace unmask::hostile {

/// Makes wrong calls beside those of a decode, now and then. Each must be refused by a
/// std::logic_error or std::invalid_argument with a message, and change nothing: the decode is
/// compared with one without them. Throws violation.
class wrong_calls {
 public:
  wrong_calls(const scenario& s,
              const session_capacity& capacity,
              testing::bound_session<named_policy>& session,
              testing::dice d);

  /// While no request is out. `running` are the tokens of a sequence that runs in `slot`, or none.
  void between_steps(index_t slot, std::vector<token_id>& running);
  /// While this request is out, before anything is given for it.
  void in_request(const forward_request& request);
  /// In front of the hook of a layer in the pass of a segment, whose arguments would be these.
  void at_hook(named_session::layer_pass pass,
               index_t layer,
               const any_rows& now,
               const any_state& previous);
  /// In front of read() of a segment with these rows, all hooks of which were called.
  void at_read(std::size_t index, const any_rows& rows);
  /// In front of supply() of these rows.
  void at_supply(const any_rows& rows);
  /// Behind read() of a segment of the request, of which others wait or not.
  void behind_read(std::size_t index, bool is_last);

 private:
  struct wrong_call {
    const char* name;
    std::function<void()> make;
  };
  void make_one_of(const std::vector<wrong_call>& calls);
  [[nodiscard]] index_t no_slot();

  const scenario& s_;
  session_capacity capacity_;
  testing::bound_session<named_policy>& session_;
  testing::dice d_;
  std::vector<token_id> tokens_;
  std::vector<float> memory_;
};

}  // namespace unmask::hostile
