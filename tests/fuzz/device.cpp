// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions by name on a stream, with emulated kernels, beside the same on the host: equal requests,
// tokens, reports, commits and candidates at every step, bit by bit.

#include <unmask/named/read_policy.hpp>
#include <unmask/named_policy.hpp>

#include <gtest/gtest.h>

#include "fuzz/target.hpp"
#include "hostile/written_policy.hpp"
#include "support/sessions_beside.hpp"
#include "unmask/device/emulated_launches.hpp"

namespace unmask::fuzz {
namespace {

// The comparison of the tests fails by gtest's means; here each difference is a broken promise.
class differences final : public ::testing::EmptyTestEventListener {
 public:
  std::string text;

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed() && text.size() < 2000) {
      text += std::string(result.summary()) + '\n';
    }
  }
};

differences& seen() {
  static auto* const listener = [] {
    static int count = 1;
    static char name[] = "device";
    static char* arguments[] = {name, nullptr};
    ::testing::InitGoogleTest(&count, arguments);
    auto* const made = new differences;
    ::testing::UnitTest::GetInstance()->listeners().Append(made);
    return made;
  }();
  return *listener;
}

void decode_beside(const named_policy& p, testing::dice& d) {
  const testing::test_stream stream;
  const index_t vocab = d.one_of(std::vector<index_t>{7, 33, 301});
  // An error is of the model's vocabulary, or of its EOS token.
  static_cast<void>(accepted([&] {
    testing::sessions_beside<named_policy> both(p, vocab, d.within(1, 2), 9, stream.get(), d);
    for (int i = 0; i < 30 && both.template step<float>(); ++i) {
    }
  }));
}

}  // namespace

UNMASK_FUZZ_TARGET(device) {
  seen().text.clear();
  testing::dice d(data);
  const hostile::written_policy written =
      hostile::random_policy(d, {.vocab = 33, .mask_token = 32, .eos_token = 3});
  named_policy policy;
  try {
    policy = read_policy(text_of(written));
  } catch (const std::invalid_argument&) {
    return;
  }
  if (!policy.layered_now()) {
    decode_beside(policy, d);
  }
  require(seen().text.empty(), text_of(written) + ":\n" + seen().text);
}

}  // namespace unmask::fuzz
