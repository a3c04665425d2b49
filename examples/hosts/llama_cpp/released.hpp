// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <gguf.h>
#include <memory>
#include <string>
#include <string_view>

namespace example {

/// The released model in a GGUF file, by its architecture and the names of its weights; null for
/// one that has no word. A file whose mask token is another one is another model of that
/// architecture: the numbers of the word are not its own. Null also for a file that is no GGUF.
inline const unmask::known_model* released_model(const std::string& file) {
  const std::unique_ptr<gguf_context, void (*)(gguf_context*)> metadata(
      gguf_init_from_file(file.c_str(), {.no_alloc = true, .ctx = nullptr}), &gguf_free);
  if (metadata == nullptr) {
    return nullptr;
  }
  const auto find = [&](const char* key, gguf_type type) {
    const auto at = gguf_find_key(metadata.get(), key);
    return at >= 0 && gguf_get_kv_type(metadata.get(), at) == type ? at : -1;
  };
  const auto text = [&](const char* key) -> std::string {
    const auto at = find(key, GGUF_TYPE_STRING);
    return at < 0 ? "" : gguf_get_val_str(metadata.get(), at);
  };
  const unmask::known_model* const found =
      unmask::model_of(text("general.architecture"),
                       text("general.name") + ' ' + text("general.basename") + ' ' +
                           std::filesystem::path(file).filename().string());
  const auto mask = find("tokenizer.ggml.mask_token_id", GGUF_TYPE_UINT32);
  const bool is_it =
      found != nullptr && mask >= 0 &&
      gguf_get_val_u32(metadata.get(), mask) == static_cast<std::uint32_t>(found->mask_token);
  return is_it ? found : nullptr;
}

/// The model whose word a policy has; null if it has none.
inline const unmask::known_model* model_in(std::string_view policy) {
  for (const unmask::part_text& part : unmask::parse_policy_text(policy)) {
    if (part.name.starts_with("model:")) {
      return unmask::find_model(part.name);
    }
  }
  return nullptr;
}

}  // namespace example
