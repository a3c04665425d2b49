// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// unmask_goldens DIR: decodes the recorded lines of published implementations with the library and
// compares every step. Exit status: 0 all passed, 1 a line failed, 2 a line cannot be read.

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "goldens/rules.hpp"

namespace unmask::goldens {

namespace {

constexpr const char* usage = "usage: unmask_goldens [--verbose] [--rule NAME] DIR\n";

struct options {
  std::string directory;
  std::string rule;
  bool verbose = false;
  bool help = false;
};

options read_options(int count, char** values) {
  options o;
  for (int i = 1; i < count; ++i) {
    const std::string value = values[i];
    if (value == "--verbose") {
      o.verbose = true;
    } else if (value == "--help") {
      o.help = true;
    } else if (value == "--rule" && i + 1 < count) {
      o.rule = values[++i];
    } else if (value.rfind("--", 0) != 0 && o.directory.empty()) {
      o.directory = value;
    } else {
      throw std::invalid_argument("cannot use the argument \"" + value + "\"");
    }
  }
  if (o.directory.empty() && !o.help) {
    throw std::invalid_argument("DIR is missing");
  }
  return o;
}

std::vector<std::string> golden_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".jsonl") {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) {
    throw schema_error(directory + ": holds no *.jsonl");
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct step_reduction {
  int passed = 0;
  int failed = 0;
  int skipped = 0;

  step_reduction& operator+=(const step_reduction& other) {
    passed += other.passed;
    failed += other.failed;
    skipped += other.skipped;
    return *this;
  }
};

/// Runs the lines and collects what came of them.
class run {
 public:
  explicit run(const options& o)
      : options_(o) {}

  void file(const std::string& path) {
    for (const node& line : read_json_lines(path)) {
      const auto name = line.get<std::string>("rule");
      if (options_.rule.empty() || options_.rule == name) {
        one(line, name);
      }
    }
  }

  /// Prints the table and the totals; returns the exit status.
  [[nodiscard]] int summary() const {
    step_reduction all;
    std::size_t width = 4;
    for (const auto& [name, count] : step_reductions_) {
      width = std::max(width, name.size());
    }
    const auto row = [width](const std::string& name, auto a, auto b, auto c) {
      std::cout << std::left << std::setw(static_cast<int>(width)) << name << std::right
                << std::setw(8) << a << std::setw(8) << b << std::setw(14) << c << '\n';
    };
    row("rule", "passed", "failed", "not replayed");
    for (const auto& [name, count] : step_reductions_) {
      row(name, count.passed, count.failed, count.skipped);
      all += count;
    }
    std::cout << '\n' << all.passed << " passed, " << all.failed << " failed";
    if (all.skipped > 0) {
      std::cout << ", " << all.skipped << " skipped";
    }
    std::cout << std::endl;
    return all.failed > 0 ? 1 : 0;
  }

 private:
  void one(const node& line, const std::string& name) {
    step_reduction& count = step_reductions_[name];
    const auto rules = supported_rules();
    const auto found =
        std::find_if(rules.begin(), rules.end(), [&](const rule& r) { return r.name == name; });
    if (found == rules.end()) {
      ++count.skipped;
      return;
    }
    const verdict v = checked(*found, line);
    ++(v.skipped ? count.skipped : v.passed ? count.passed : count.failed);
    if (!v.passed || options_.verbose) {
      std::cout << (v.skipped  ? "skipped"
                    : v.passed ? "passed"
                               : "FAILED")
                << ' ' << name << ' ' << line.get_or<std::string>("id", line.where())
                << (v.detail.empty() ? "" : ": " + v.detail) << '\n';
    }
  }

  /// An error of the library is a failure of the line; one of the line's shape ends the program.
  [[nodiscard]] static verdict checked(const rule& r, const node& line) {
    try {
      return r.check(line);
    } catch (const schema_error&) {
      throw;
    } catch (const std::exception& error) {
      return verdict::fail(error.what());
    }
  }

  const options& options_;
  std::map<std::string, step_reduction> step_reductions_;
};

int start(int count, char** values) {
  try {
    const options o = read_options(count, values);
    if (o.help) {
      std::cout << usage;
      return 0;
    }
    run lines(o);
    for (const std::string& path : golden_files(o.directory)) {
      lines.file(path);
    }
    return lines.summary();
  } catch (const std::invalid_argument& error) {
    std::cerr << "unmask_goldens: " << error.what() << '\n' << usage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "unmask_goldens: " << error.what() << '\n';
    return 2;
  }
}

}  // namespace

}  // namespace unmask::goldens

int main(int count, char** values) {
  return unmask::goldens::start(count, values);
}
