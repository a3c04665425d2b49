// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/terminal.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#if __has_include(<unistd.h>) && __has_include(<sys/ioctl.h>)
#  include <sys/ioctl.h>
#  include <unistd.h>
#  define DEMO_HAS_TERMINALS 1
#endif

namespace demo {

namespace {

bool is_terminal([[maybe_unused]] std::FILE* file) {
#ifdef DEMO_HAS_TERMINALS
  return isatty(fileno(file)) != 0;
#else
  return false;
#endif
}

volatile std::sig_atomic_t was_interrupted = 0;

}  // namespace

void watch_for_interrupts() {
  std::signal(SIGINT, [](int) {
    was_interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
}

void check_interrupt() {
  if (was_interrupted != 0) {
    throw interrupted{};
  }
}

display display_of_output(bool plain, std::chrono::milliseconds pause) {
  display d;
  if (plain || !is_terminal(stdout)) {
    return d;
  }
  d.in_place = true;
  d.pause = pause;
#ifdef DEMO_HAS_TERMINALS
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    d.columns = std::max<std::size_t>(size.ws_col, 20);
    d.rows = size.ws_row;
  }
#endif
  return d;
}

progress::progress(std::string what, std::size_t total)
    : what_(std::move(what))
    , total_(total)
    , terminal_(is_terminal(stderr))
    , next_(clock::now() + std::chrono::seconds(terminal_ ? 1 : 20)) {}

progress::~progress() {
  if (terminal_ && drawn_) {
    std::fputs("\r\033[2K", stderr);
  }
}

void progress::done(std::size_t count) {
  if (count == 0 || clock::now() < next_) {
    return;
  }
  next_ = clock::now() + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(20));
  drawn_ = true;
  const std::chrono::duration<double> spent = clock::now() - begin_;
  const double left =
      spent.count() * (static_cast<double>(total_) / static_cast<double>(count) - 1);
  std::fprintf(stderr,
               terminal_ ? "\r\033[2K%s: %zu of %zu answers, about %.0f s left"
                         : "%s: %zu of %zu answers, about %.0f s left\n",
               what_.c_str(),
               count,
               total_,
               left);
  std::fflush(stderr);
}

}  // namespace demo
