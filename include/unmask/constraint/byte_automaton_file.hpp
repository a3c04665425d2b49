// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/constraint/byte_automaton.hpp>

#include <cstdio>
#include <memory>
#include <stdexcept>

/// Definitions of byte_automaton.hpp.
namespace UNMASK_NAMESPACE {

UNMASK_LIBRARY void validate(const byte_automaton& a) {
  check_argument(!a.accepting.empty(), "byte_automaton::accepting.size()", 0, "at least 1");
  check_argument(a.accepting.size() < (std::size_t{1} << 30U),
                 "byte_automaton::accepting.size()",
                 a.accepting.size(),
                 "less than 2^30");
  check_argument(a.next.size() == 256 * a.accepting.size(),
                 "byte_automaton::next.size()",
                 a.next.size(),
                 "256 for each state, ",
                 256 * a.accepting.size());
  check_argument(a.start < a.states(),
                 "byte_automaton::start",
                 a.start,
                 "less than the number of states, ",
                 a.states());
  for (const std::uint32_t next : a.next) {
    check_argument(next == dead_state || next < a.states(),
                   "byte_automaton::next",
                   next,
                   "dead_state or less than the number of states, ",
                   a.states());
  }
}

namespace detail {

inline constexpr char byte_table_magic[] = {'u', 'n', 'm', 'a', 's', 'k', 'D', 'F'};
inline constexpr std::uint32_t byte_table_version = 1;

// Takes little-endian numbers from bytes that may end too early.
class byte_source {
 public:
  byte_source(std::span<const std::uint8_t> bytes, const std::string& name)
      : bytes_(bytes)
      , name_(name) {}

  [[nodiscard]] std::uint32_t take(std::size_t count) {
    require(count <= bytes_.size() - at_, "it ends too early");
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      number |= std::uint32_t{bytes_[at_ + i]} << 8 * i;
    }
    at_ += count;
    return number;
  }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  void require(bool holds, const char* what) const {
    if (!holds) {
      raise<std::runtime_error>(message().add(name_).add(": no byte table: ").add(what).text());
    }
  }

 private:
  std::span<const std::uint8_t> bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
};

UNMASK_LIBRARY std::vector<std::uint8_t> byte_table_bytes(const byte_automaton& a) {
  validate(a);
  std::vector<std::uint8_t> out;
  const auto put = [&out](std::uint32_t number, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(static_cast<std::uint8_t>(number >> 8 * i));
    }
  };
  for (const char c : byte_table_magic) {
    out.push_back(static_cast<std::uint8_t>(c));
  }
  put(byte_table_version, 4);
  put(static_cast<std::uint32_t>(a.states()), 4);
  put(a.start, 4);
  for (std::size_t q = 0; q < a.states(); ++q) {
    const std::span row = a.next.subspan(256 * q, 256);
    out.push_back(a.accepting[q] != 0 ? 1 : 0);
    const std::size_t count_at = out.size();
    put(0, 2);
    std::uint32_t runs = 0;
    for (std::uint32_t first = 0; first < 256;) {
      std::uint32_t last = first;
      while (last + 1 < 256 && row[last + 1] == row[first]) {
        ++last;
      }
      if (row[first] != dead_state) {
        put(first, 1);
        put(last, 1);
        put(row[first], 4);
        ++runs;
      }
      first = last + 1;
    }
    out[count_at] = static_cast<std::uint8_t>(runs);
    out[count_at + 1] = static_cast<std::uint8_t>(runs >> 8U);
  }
  return out;
}

UNMASK_LIBRARY byte_table byte_table_of(std::span<const std::uint8_t> bytes,
                                        std::uint32_t most_states,
                                        const std::string& name) {
  byte_source source(bytes, name);
  for (const char c : byte_table_magic) {
    source.require(source.take(1) == static_cast<std::uint8_t>(c), "it begins with other bytes");
  }
  source.require(source.take(4) == byte_table_version, "its version is not 1");
  const std::uint32_t states = source.take(4);
  source.require(states >= 1, "it has no states");
  source.require(states <= most_states, "it has more states than most_states allows");
  source.require(states <= source.left() / 3, "it ends too early");
  byte_table table;
  table.start = source.take(4);
  source.require(table.start < states, "its start is not a state");
  table.accepting.resize(states);
  table.next.assign(std::size_t{256} * states, dead_state);
  for (std::size_t q = 0; q < states; ++q) {
    const std::uint32_t accepting = source.take(1);
    source.require(accepting <= 1, "a state accepts with another number than 0 or 1");
    table.accepting[q] = static_cast<std::uint8_t>(accepting);
    const std::uint32_t runs = source.take(2);
    source.require(runs <= 256, "a state has more than 256 runs");
    std::uint32_t after = 0;
    for (std::uint32_t r = 0; r < runs; ++r) {
      const std::uint32_t first = source.take(1);
      const std::uint32_t last = source.take(1);
      const std::uint32_t next = source.take(4);
      source.require(first >= after && last >= first, "the runs of a state do not ascend");
      source.require(next < states, "a byte leads to no state");
      for (std::size_t b = first; b <= last; ++b) {
        table.next[256 * q + b] = next;
      }
      after = last + 1;
    }
  }
  source.require(source.at_end(), "it has bytes after its last state");
  return table;
}

// A file of the C library: iostreams take longer to compile than all of this.
struct close_file {
  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};
using file_handle = std::unique_ptr<std::FILE, close_file>;

}  // namespace detail

UNMASK_LIBRARY void write_byte_table(const std::string& path, const byte_automaton& automaton) {
  const std::vector<std::uint8_t> bytes = detail::byte_table_bytes(automaton);
  detail::file_handle file(std::fopen(path.c_str(), "wb"));
  const bool is_written = file != nullptr &&
                          std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() &&
                          std::fflush(file.get()) == 0;
  if (!is_written) {
    detail::raise<std::runtime_error>(
        detail::message().add(path).add(": cannot be written").text());
  }
}

UNMASK_LIBRARY byte_table read_byte_table(const std::string& path, std::uint32_t most_states) {
  detail::file_handle file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    detail::raise<std::runtime_error>(detail::message().add(path).add(": cannot be read").text());
  }
  // The largest file of `most_states` states; a larger one is read no further.
  const std::size_t most = 20 + std::size_t{most_states} * (3 + 256 * 6) + 1;
  std::vector<std::uint8_t> bytes;
  std::uint8_t buffer[4096];
  std::size_t got = 0;
  while (bytes.size() < most && (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    bytes.insert(bytes.end(), buffer, buffer + got);
  }
  return detail::byte_table_of(bytes, most_states, path);
}

}  // namespace unmask
