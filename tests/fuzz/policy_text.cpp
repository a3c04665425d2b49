// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of a policy, whatever it is: either an error with its column and in words, or parts that
// make a session, and the session a decode that ends.

#include <unmask/named_policy.hpp>
#include <unmask/trace/part_texts.hpp>

#include <stdexcept>

#include "fuzz/decode.hpp"
#include "support/bound_session.hpp"

namespace unmask::fuzz {
namespace {

constexpr const char* profile =
    R"({"unmask_profile": 1, "mode": "step_block", "statistic": "median",
  "recorded": "committed", "threshold": 0.9, "cap": 0.75, "slack": 0.2, "block_length": 4,
  "blocks": [[0.95, 0.5], [0.25]]})";

// No file of this machine is opened.
std::string contents(const std::string& name) {
  if (name != "p") {
    throw std::invalid_argument("the file cannot be read");
  }
  return profile;
}

void decode_with(const named_policy& parts) {
  constexpr sequence_shape shape{.prompt_length = 2, .length = 11, .block_length = 4};
  constexpr model_info model{.vocab = 9, .mask_token = 8, .eos_token = 3, .layers = 3};
  std::unique_ptr<testing::bound_session<named_policy>> session;
  std::vector<token_id> tokens(std::size_t{shape.length}, 1);
  if (accepted([&] {
        session = testing::make_bound(
            parts, model, {.length = shape.length, .window = shape.length, .trace = true});
        session->start(0, tokens.data(), shape.length, shape);
      })) {
    decode(*session, model, tokens, 40);
  }
}

}  // namespace

UNMASK_FUZZ_TARGET(policy_text) {
  const std::string text(text_of(data));
  named_policy parts;
  try {
    parts = read_policy(text, contents);
  } catch (const policy_text_error& e) {
    require(is_message(e.what()), "a message in words, got '" + std::string(e.what()) + "'");
    require(e.column() >= 1 && e.column() <= text.size() + 1,
            "a column of the text, got " + std::to_string(e.column()));
    return;
  }
  const std::vector<std::string> written = part_texts(text);
  require(static_cast<index_t>(written.size()) == parts.count, "as many texts of parts as parts");
  decode_with(parts);
}

}  // namespace unmask::fuzz
