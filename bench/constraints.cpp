// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of constraints: the lift of an automaton, and what a step takes with a memory that has seen
// its sets and with one that has not. No model: proposals are drawn at random among what is
// possible, the hardest case.
//
// usage: unmask_bench_constraints VOCABULARY TABLE...
//
// VOCABULARY has, for each token, its length in 32 bits, little-endian, and its bytes; TABLE is a
// file of write_byte_table().

#include <unmask/constraint.hpp>
#include <unmask/core/constrained_field.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using unmask::detail::constraints::lift;
using unmask::detail::constraints::running_field;
using unmask::detail::constraints::set_pool;

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// Decodes one answer as a session would: masks of 32 rows, a gate of 4 candidates, filling. Returns
// the time of each step.
std::vector<double>
decode(const std::shared_ptr<set_pool>& pool, int length, std::mt19937& random) {
  const std::vector<unmask::token_id> tokens(static_cast<std::size_t>(length), unmask::no_token);
  const unmask::constrained_field about{};
  running_field field(pool, about, 0, tokens, {});
  const auto& a = pool->automaton();
  std::vector<int> masked(static_cast<std::size_t>(length));
  std::vector<unmask::token_id> certain(masked.size());
  for (int i = 0; i < length; ++i) {
    masked[static_cast<std::size_t>(i)] = i;
  }
  std::vector<double> times;
  while (!masked.empty()) {
    const std::size_t rows = std::min<std::size_t>(masked.size(), 32);
    const auto start = std::chrono::steady_clock::now();
    std::vector<const std::uint32_t*> masks;
    for (std::size_t r = 0; r < rows; ++r) {
      masks.push_back(field.mask(masked[r], nullptr));
    }
    double spent = microseconds_since(start);
    // Proposals, which are not timed.
    std::vector<std::pair<int, unmask::token_id>> proposals;
    for (int k = 0; k < 4; ++k) {
      const std::size_t r = random() % rows;
      std::vector<unmask::token_id> possible;
      for (unmask::token_id v = 0; v < a.model.vocab; ++v) {
        if ((masks[r][v / 32] >> v % 32 & 1U) != 0) {
          possible.push_back(v);
        }
      }
      proposals.emplace_back(masked[r], possible[random() % possible.size()]);
    }
    const auto gate = std::chrono::steady_clock::now();
    field.release();
    std::vector<int> written;
    for (const auto& [at, token] : proposals) {
      if (std::find(written.begin(), written.end(), at) == written.end() &&
          field.admits(unmask::serial{}, at, token)) {
        field.write(at, token);
        written.push_back(at);
      }
    }
    field.fill(
        unmask::serial{}, certain.data(), [&](int at, unmask::token_id) { written.push_back(at); });
    spent += microseconds_since(gate);
    times.push_back(spent);
    std::erase_if(masked, [&](int at) {
      return std::find(written.begin(), written.end(), at) != written.end();
    });
  }
  return times;
}

double mean(const std::vector<double>& times) {
  double sum = 0;
  for (const double t : times) {
    sum += t;
  }
  return sum / static_cast<double>(times.size());
}

// Keeps the lower time of each step.
void keep_faster(std::vector<double>& kept, const std::vector<double>& times) {
  kept.resize(times.size(), 1e30);
  for (std::size_t i = 0; i < times.size(); ++i) {
    kept[i] = std::min(kept[i], times[i]);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s VOCABULARY TABLE...\n", arguments[0]);
    return 2;
  }
  // Each memory is new: without this a second one would be the pages that the first one has freed.
  mallopt(M_MMAP_THRESHOLD, 1 << 16);
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at + 4 <= all.size();) {
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      size |= std::uint32_t{static_cast<std::uint8_t>(all[at + i])} << 8 * i;
    }
    words.push_back(std::string_view(all).substr(at + 4, size));
    at += 4 + size;
  }
  words.resize(words.size() + 293);  // special tokens
  const auto vocab = static_cast<unmask::index_t>(words.size());
  auto start = std::chrono::steady_clock::now();
  const unmask::vocabulary vocabulary(
      words, {.vocab = vocab, .mask_token = vocab - 1, .eos_token = vocab - 2});
  std::printf("vocabulary of %d tokens: %.0f ms\n\n", vocab, microseconds_since(start) / 1e3);
  std::printf("| language | states | classes | lift | automaton | step warm | step cold, mean | "
              "worst |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (int i = 2; i < count; ++i) {
    const std::string path = arguments[i];
    const unmask::byte_table table = unmask::read_byte_table(path);
    start = std::chrono::steady_clock::now();
    const auto automaton = std::make_shared<const unmask::detail::constraints::token_automaton>(
        lift(table.view(), vocabulary.data(), {.states = 1 << 20, .rows = 1 << 20}));
    const double lifted = microseconds_since(start) / 1e3;
    std::vector<double> warm;
    std::vector<double> cold;
    for (unsigned seed = 0; seed < 4; ++seed) {
      const int length = automaton->distance[automaton->start] > 100 ? 256 : 128;
      std::vector<double> first;
      std::vector<double> again;
      for (int turn = 0; turn < 5;
           ++turn) {  // the same decode; other programs use the machine, too
        const auto pool = std::make_shared<set_pool>(automaton, unmask::constraint_limits{});
        std::mt19937 random(seed);
        keep_faster(first, decode(pool, length, random));
        random.seed(seed);
        keep_faster(again, decode(pool, length, random));
      }
      cold.insert(cold.end(), first.begin(), first.end());
      warm.insert(warm.end(), again.begin(), again.end());
    }
    std::printf("| %s | %u | %u | %.0f ms | %.1f MB | %.1f us | %.1f us | %.0f us |\n",
                path.substr(path.find_last_of('/') + 1).c_str(),
                automaton->states,
                automaton->classes,
                lifted,
                static_cast<double>(automaton->bytes()) / 1e6,
                mean(warm),
                mean(cold),
                *std::max_element(cold.begin(), cold.end()));
  }
}
