// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/gguf.hpp"

// Files that the tests of the example engine read.
namespace example::testing {

/// Path of a weights file: kind is f32, f16 or q8_0.
inline std::filesystem::path weights_path(const std::string& kind) {
  return std::filesystem::path(UNMASK_EXAMPLES_DIR) / "tiny_llada" / ("tiny-" + kind + ".gguf");
}

/// All bytes of a weights file.
inline std::vector<std::byte> weights_bytes(const std::string& kind) {
  const std::filesystem::path path = weights_path(kind);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::filesystem::file_size(path)));
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) {
    throw std::runtime_error("can not read " + path.string());
  }
  return bytes;
}

/// Every line of a file with one JSON value a line. Throws if the file has none.
inline std::vector<nlohmann::json> json_lines(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<nlohmann::json> result;
  for (std::string line; std::getline(stream, line);) {
    result.push_back(nlohmann::json::parse(line));
  }
  if (result.empty()) {
    throw std::runtime_error("nothing to read in " + path.string());
  }
  return result;
}

inline std::vector<nlohmann::json> prompts() {
  return json_lines(std::filesystem::path(UNMASK_EXAMPLES_DIR) / "tiny_llada" / "prompts.jsonl");
}

inline std::vector<nlohmann::json> reference(const std::string& name) {
  return json_lines(std::filesystem::path(UNMASK_TEST_DATA) / "tiny_llada" / (name + ".jsonl"));
}

}  // namespace example::testing
