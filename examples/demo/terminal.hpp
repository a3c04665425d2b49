// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace demo {

/// Place and style of the live part.
struct display {
  bool in_place = false;  ///< colours, and lines drawn over
  std::size_t columns = 80;
  std::size_t rows = 24;
  std::chrono::milliseconds pause{0};  ///< after each forward, if in place
};

/// The display that standard output offers; never in place if `plain`.
display display_of_output(bool plain, std::chrono::milliseconds pause);

/// Ctrl-C was pressed: what is done so far is shown, and the program ends with status 130.
struct interrupted {};

/// From now on the first Ctrl-C sets a flag, the second ends the program.
void watch_for_interrupts();
/// Throws `interrupted` once Ctrl-C was pressed.
void check_interrupt();

/// Says on standard error how far a long run has got: in place in a terminal, else a line now and
/// then, with an estimate of the time left, and nothing at all for what is done in a second.
class progress {
 public:
  explicit progress(std::string what, std::size_t total);
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress();

  void done(std::size_t count);

 private:
  using clock = std::chrono::steady_clock;

  std::string what_;
  std::size_t total_;
  bool terminal_;
  bool drawn_ = false;
  clock::time_point begin_ = clock::now();
  clock::time_point next_;
};

}  // namespace demo
