// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// unmask_fuzz_replay: runs the inputs of the corpora without a fuzzer.
//
//     unmask_fuzz_replay tests/fuzz/corpus              every target
//     unmask_fuzz_replay --target policy_text FILE...   these inputs of one
//
// Exit status: 0 every promise holds, 1 one is broken, 2 wrong arguments or no inputs.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/target.hpp"

namespace unmask::fuzz {
namespace {

namespace files = std::filesystem;

char running[512] = "";  // for a crash

// Returns whether every promise holds.
bool run(const target& t, const files::path& file) {
  std::snprintf(running, sizeof running, "%s: %s", t.name, file.c_str());
  std::ifstream in(file, std::ios::binary);
  const std::string input(std::istreambuf_iterator<char>(in), {});
  if (!in) {
    std::fprintf(stderr, "%s: cannot be read\n", running);
    return false;
  }
  try {
    t.run({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
  } catch (const violation& v) {
    std::fprintf(stderr, "%s: %s\n", running, v.what.c_str());
    return false;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: an exception: %s\n", running, e.what());
    return false;
  }
  return true;
}

// Every file of a folder, sorted.
std::vector<files::path> inputs(const files::path& folder) {
  std::vector<files::path> all;
  if (files::is_directory(folder)) {
    for (const auto& entry : files::directory_iterator(folder)) {
      all.push_back(entry.path());
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

int replay(std::span<char*> arguments) {
  const bool is_one = arguments.size() > 2 && arguments[0] == std::string_view("--target");
  if (!is_one && arguments.size() != 1) {
    std::fprintf(stderr, "usage: unmask_fuzz_replay FOLDER | --target NAME FILE...\n");
    return 2;
  }
  bool all_hold = true;
  int count = 0;
  for (const target& t : targets()) {
    std::vector<files::path> all;
    if (!is_one) {
      all = inputs(files::path(arguments[0]) / t.name);
      if (all.empty()) {
        std::fprintf(stderr, "%s has no corpus\n", t.name);
        return 2;
      }
    } else if (arguments[1] == std::string_view(t.name)) {
      all.assign(arguments.begin() + 2, arguments.end());
    }
    for (const files::path& file : all) {
      all_hold = run(t, file) && all_hold;
      ++count;
    }
  }
  std::printf("%d inputs\n", count);
  return count == 0 ? 2 : all_hold ? 0 : 1;
}

}  // namespace
}  // namespace unmask::fuzz

int main(int count, char** values) {
  // An exception that a target lets through, or a crash, is of this input.
  std::set_terminate([] {
    std::fprintf(stderr, "%s: terminated\n", unmask::fuzz::running);
    std::abort();
  });
  return unmask::fuzz::replay(std::span(values, static_cast<std::size_t>(count)).subspan(1));
}
