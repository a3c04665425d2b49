// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "demo/decode.hpp"
#include "engine/llada.hpp"
#include "engine/tokenizer.hpp"

namespace demo {

/// A token that a pass wrote.
struct written_token {
  index_t position = 0;      ///< in the answer
  double probability = 0.0;  ///< of the token when it was written
};

struct recorded_pass {
  /// [position of the answer], in front of the pass; on a canvas: it does not have its last token.
  std::vector<bool> masked;
  unmask::range decided;                     ///< positions of the answer whose blocks it decides
  std::vector<index_t> run;                  ///< positions of the sequence that enter the pass
  std::vector<index_t> reused;               ///< other positions whose K/V are attended to
  std::vector<std::vector<index_t>> layers;  ///< positions that each layer computes
  std::vector<written_token> written;
  std::vector<written_token> reported;  ///< of session::probabilities(): those of the first token
};

/// A decode: what each forward pass did.
struct recording {
  index_t prompt_length = 0;
  std::vector<std::string> answer;  ///< text of each token; "·" for the EOS token
  std::vector<recorded_pass> passes;
};

/// Decodes prompts with one model, one at a time, and records them.
class recorder {
 public:
  explicit recorder(const std::filesystem::path& file);

  /// Decodes with the policy of that text. The file of a profile that it names is not read: the
  /// profile is calibrated with a decode of the same prompt.
  recording record(const std::string& policy, std::string_view prompt, const geometry& g);

 private:
  explicit recorder(const example::gguf_file& file);
  recording record(const unmask::named_policy& parts,
                   std::string_view prompt,
                   const geometry& g,
                   const std::function<void(unmask::named_session&)>& after_pass);

  example::char_tokenizer text_;
  example::llada_model model_;
};

}  // namespace demo
