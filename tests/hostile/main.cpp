// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// unmask_hostile: random policies by name on random engines that go wrong in every way known.
//
//     unmask_hostile --seed 1 --decodes 100000      counts, and the first violations
//     unmask_hostile --seed 1 --case 4711           one case in detail
//     unmask_hostile --seed 1 --small ...           the same of small cases, which are other ones
//     unmask_hostile --record 6000                  what the first cases decide, as hashes
//     unmask_hostile --record-newer 500             the same of cases with parts that came later
//     unmask_hostile --recorded FILE                whether they still decide so (recorded.hpp)
//     unmask_hostile --parts                        the list of parts, for recorded_parts.hpp
//
// A case is a policy, a model, some sequences and an engine, all of which follow from the seed and
// the case's number. It is decoded once with an oracle (oracle.cpp), then again alone, with three
// threads, on each instruction set and with read() and decide(): every bit must be the same. A
// failing case is reduced before it is shown. Exit status: 0 every property holds, 1 one is
// violated, 2 wrong arguments.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <unistd.h>
#if defined(__SANITIZE_ADDRESS__)
#  include <sanitizer/common_interface_defs.h>
#endif

#include "hostile/oracle.hpp"
#include "hostile/recorded.hpp"

namespace unmask::hostile {

namespace {

struct options {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::int64_t one_case = -1;
  std::int64_t decodes = 2000;
  int most_failures = 5;
  unsigned patience = 120;
  case_size size = case_size::any;
  bool reasons = false;
  bool shrinks = true;
  std::uint64_t record = 0;
  std::string recorded;
  bool lists_parts = false;
};

struct counts {
  std::uint64_t cases = 0;
  std::uint64_t decodes = 0;  ///< sequences decoded, those of repetitions included
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;
  std::uint64_t refused = 0;
  std::uint64_t failures = 0;
  std::map<std::string, int> reasons;
};

char place[128] = "";

// A hang or a crash inside the library: say where, with nothing that needs memory.
void on_signal(int number) {
  const char* const what = number == SIGALRM ? "a call that does not return" : "a crash";
  static_cast<void>(!::write(2, what, std::strlen(what)));
  static_cast<void>(!::write(2, place, std::strlen(place)));
  if (number == SIGALRM) {
    std::_Exit(1);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void say_where_it_ends() {
  std::signal(SIGALRM, on_signal);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback([] { static_cast<void>(!::write(2, place, std::strlen(place))); });
#else
  for (const int number : {SIGSEGV, SIGFPE, SIGABRT}) {
    std::signal(number, on_signal);
  }
#endif
}

/// Decodes a case in every way. Returns the violation, if there is one. Throws refusal.
std::optional<violation> tried(const scenario& s, unsigned patience, counts* sum) {
  const auto add = [&](const std::vector<std::vector<step_record>>& records) {
    for (const auto& steps : records) {
      if (sum != nullptr) {
        ++sum->decodes;
        sum->steps += steps.size() - 1;
        sum->tokens += static_cast<std::uint64_t>(steps.back().report.committed);
      }
    }
  };
  ::alarm(patience);
  std::optional<violation> broken;
  try {
    check(s, add);
  } catch (const violation& v) {
    broken = v;
  }
  ::alarm(0);
  return broken;
}

/// Reduces the case as long as the same property is violated.
scenario shrunk(scenario s, const std::string& promise, unsigned patience) {
  const auto is_kept = [&](const scenario& less) {
    try {
      const auto v = tried(less, patience, nullptr);
      return v && v->promise == promise;
    } catch (const refusal&) {
      return false;
    }
  };
  for (bool again = true; again;) {
    again = false;
    for (const scenario& less : smaller(s)) {
      if (is_kept(less)) {
        s = less;
        again = true;
        break;
      }
    }
  }
  return s;
}

/// Prints each step as it is decided.
class teller final : public observer {
 public:
  void on_tokens(std::size_t, const std::vector<token_id>&) override {}
  void on_start(std::size_t i, const step_record& now) override { tell(i, now); }
  void on_cancel(std::size_t i, const step_record& now) override { tell(i, now); }
  void on_step(std::size_t i,
               const step_record& now,
               const std::vector<std::vector<given_row>>&) override {
    tell(i, now);
  }

 private:
  static void tell(std::size_t i, const step_record& now) {
    const sequence_report& r = now.report;
    std::cout << "sequence " << i << ", step " << r.forwards << ": scored ["
              << now.planned.score.first << ", " << now.planned.score.last << "), "
              << now.segments.size() << " segments, end " << int(r.end) << ", masked " << r.masked
              << ", committed " << r.committed_prefix << ", forced " << r.forced << ", invalid "
              << r.invalid_rows << "\n  tokens    ";
    for (const token_id v : now.tokens) {
      std::cout << ' ' << v;
    }
    std::cout << "\n  committed ";
    for (const commit_entry& e : now.commits) {
      std::cout << ' ' << e.position << "<-" << e.token << " (" << e.log_probability << ')';
    }
    std::cout << "\n  candidates";
    for (const candidate_entry& e : now.candidates) {
      std::cout << ' ' << e.position << (e.committed ? "<-" : "?") << e.token << " ("
                << e.log_probability << ')';
    }
    std::cout << '\n';
  }
};

/// A case step by step. Throws refusal, or violation.
void tell(const scenario& s) {
  std::cout << description(s);
  teller t;
  static_cast<void>(decode(s, {}, &t));
}

void fail(const scenario& s, const violation& v, const options& o) {
  std::cout << "case " << s.number << " of seed " << s.seed << ": " << v.what() << '\n'
            << description(s);
  if (o.shrinks) {
    const scenario less = shrunk(s, v.promise, o.patience);
    std::cout << "  made smaller:\n" << description(less);
    if (o.one_case >= 0) {
      try {
        tell(less);
      } catch (const violation& same) {
        std::cout << same.what() << '\n';
      }
    }
  }
  std::cout.flush();
}

int run(const options& o) {
  counts sum;
  const auto one = [&](std::uint64_t number) {
    std::snprintf(place,
                  sizeof place,
                  " in case %llu of seed %llu\n",
                  static_cast<unsigned long long>(number),
                  static_cast<unsigned long long>(o.seed));
    const scenario s = random_scenario(o.seed, number, o.size);
    ++sum.cases;
    try {
      if (const auto v = tried(s, o.patience, &sum)) {
        ++sum.failures;
        fail(s, *v, o);
      }
    } catch (const refusal& r) {
      ++sum.refused;
      if (o.reasons) {
        const std::string what = r.what();
        const std::size_t at = what.find("column");
        ++sum.reasons[at == std::string::npos ? what : what.substr(what.find(':', at) + 2)];
      }
    }
  };
  if (o.one_case >= 0) {
    const auto number = static_cast<std::uint64_t>(o.one_case);
    try {
      tell(random_scenario(o.seed, number, o.size));
    } catch (const std::runtime_error& e) {
      std::cout << e.what() << '\n';
    }
    one(number);
  } else {
    for (std::uint64_t number = o.first; sum.decodes < static_cast<std::uint64_t>(o.decodes) &&
                                         sum.failures < static_cast<std::uint64_t>(o.most_failures);
         ++number) {
      one(number);
    }
  }
  for (const auto& [reason, times] : sum.reasons) {
    std::cout << times << " x " << reason << '\n';
  }
  const double share = sum.cases == 0 ? 0.0 : 100.0 * double(sum.refused) / double(sum.cases);
  std::cout << "seed " << o.seed << ": " << sum.cases << " policies, " << sum.refused << " ("
            << share << " %) refused; " << sum.decodes << " decodes, " << sum.steps << " steps, "
            << sum.tokens << " tokens; " << sum.failures << " broken promises\n";
  return sum.failures == 0 ? 0 : 1;
}

void record(std::uint64_t cases, std::uint64_t first) {
  if (first == first_of_newer && !has_newer_parts()) {
    throw std::invalid_argument("--record-newer: recorded_parts.hpp lists every part, so there is "
                                "nothing to record");
  }
  std::cout << "# unmask_hostile --record" << (first > 0 ? "-newer " : " ") << cases << '\n';
  for (std::uint64_t number = first; number < first + cases; ++number) {
    std::cout << recorded_line(number) << '\n';
  }
}

int check_record(const options& o) {
  std::uint64_t changed = 0;
  const std::vector<std::string> lines = read_record(o.recorded);
  for (const std::string& line : lines) {
    try {
      check_line(line);
    } catch (const violation& v) {
      if (++changed <= static_cast<std::uint64_t>(o.most_failures)) {
        std::cout << v.what() << '\n' << description(recorded_case(std::stoull(line)));
      }
    }
  }
  std::cout << changed << " of " << lines.size() << " recorded cases decide otherwise\n";
  if (changed > 0) {
    std::cout << "If this is meant, record them anew, and say why:\n  unmask_hostile --record"
              << (std::stoull(lines.front()) < first_of_newer ? " " : "-newer ") << lines.size()
              << " > " << o.recorded << '\n';
  }
  return changed == 0 ? 0 : 1;
}

options read_options(int count, char** values) {
  options o;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    const auto number = [&] {
      if (++i == count) {
        throw std::invalid_argument(name + " wants a number");
      }
      return std::stoll(values[i]);
    };
    if (name == "--seed") {
      o.seed = static_cast<std::uint64_t>(number());
    } else if (name == "--case") {
      o.one_case = number();
    } else if (name == "--first") {
      o.first = static_cast<std::uint64_t>(number());
    } else if (name == "--decodes") {
      o.decodes = number();
    } else if (name == "--failures") {
      o.most_failures = static_cast<int>(number());
    } else if (name == "--patience") {
      o.patience = static_cast<unsigned>(number());
    } else if (name == "--record" || name == "--record-newer") {
      o.record = static_cast<std::uint64_t>(number());
      o.first = name == "--record" ? 0 : first_of_newer;
    } else if (name == "--parts") {
      o.lists_parts = true;
    } else if (name == "--recorded") {
      if (++i == count) {
        throw std::invalid_argument(name + " wants a file");
      }
      o.recorded = values[i];
    } else if (name == "--small") {
      o.size = case_size::small;
    } else if (name == "--reasons") {
      o.reasons = true;
    } else if (name == "--no-shrink") {
      o.shrinks = false;
    } else {
      throw std::invalid_argument("cannot use the argument \"" + name + "\"");
    }
  }
  return o;
}

}  // namespace

}  // namespace unmask::hostile

int main(int count, char** values) {
  unmask::hostile::say_where_it_ends();
  unmask::hostile::options chosen;
  try {
    chosen = unmask::hostile::read_options(count, values);
  } catch (const std::logic_error& e) {
    std::cerr << e.what()
              << "\nusage: unmask_hostile [--seed N] [--case N] [--first N] [--decodes N] "
                 "[--failures N] [--patience SECONDS] [--small] [--reasons] [--no-shrink] "
                 "[--record N] [--record-newer N] [--recorded FILE] [--parts]\n";
    return 2;
  }
  try {
    if (chosen.lists_parts) {
      std::cout << unmask::hostile::list_of_parts();
      return 0;
    }
    if (chosen.record > 0) {
      unmask::hostile::record(chosen.record, chosen.first);
      return 0;
    }
    if (!chosen.recorded.empty()) {
      return unmask::hostile::check_record(chosen);
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
  return unmask::hostile::run(chosen);
}
