// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of ranks that are damaged, cut, repeated or of another step: refused, with the session
// as it was, or taken for numbers. The decode is then the one that undamaged messages give, or
// commits tokens of the vocabulary.

#include <unmask/sharded_session.hpp>
#include <unmask/unmask.hpp>

#include <memory>
#include <stdexcept>

#include "fuzz/target.hpp"
#include "hostile/engine.hpp"
#include "support/cuts.hpp"

namespace unmask::fuzz {
namespace {

using testing::dice;

constexpr sequence_shape ranks_shape{.prompt_length = 1, .length = 6, .block_length = 3};

template <class Policy>
class damaged_decode {
 public:
  damaged_decode(const Policy& p, dice& d)
      : d_(d) {
    model_ = {.vocab = d.within(5, 4500), .mask_token = 4, .eos_token = 1};
    engine_ = hostile::random_engine(d);
    cuts_ = testing::random_cuts(d, model_.vocab, d.within(1, 3), canonical::chunk_columns);
    tokens_.assign(cuts_.size() - 1, std::vector<token_id>(std::size_t{ranks_shape.length}, 0));
    const session_capacity capacity{
        .length = ranks_shape.length, .window = ranks_shape.length, .trace = true};
    for (std::size_t r = 0; r + 1 < cuts_.size(); ++r) {
      ranks_.push_back(std::make_unique<sharded_session<Policy>>(
          model_, capacity, cuts_, static_cast<index_t>(r)));
      ranks_[r]->start(0, p, tokens_[r], ranks_shape);
    }
    whole_tokens_ = tokens_[0];
    whole_ = std::make_unique<session<Policy>>(model_, capacity);
    whole_->start(0, p, whole_tokens_, ranks_shape);
  }

  void run() {
    while (const auto request = whole_->next()) {
      const std::vector<float> logits = forward(*request);
      std::vector<std::vector<std::byte>> messages;
      for (auto& rank : ranks_) {
        require(rank->next().has_value(), "a rank runs while the session does");
        const range columns = rank->columns();
        const auto mine = rank->read_shard(host_logits<float>(
            logits.data() + columns.first, request->rows, columns.size(), model_.vocab));
        messages.emplace_back(mine.begin(), mine.end());
      }
      whole_->supply(host_logits<float>(logits.data(), request->rows, model_.vocab));
      const std::vector<std::byte> all = joined(messages);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        for (int n = d_.within(0, 3); n > 0; --n) {
          if (took(*ranks_[r], damaged(messages))) {
            for (const token_id v : tokens_[r]) {
              require(v >= 0 && v < model_.vocab, "a token of the vocabulary");
            }
            return;
          }
        }
        ranks_[r]->supply(all);
        require(tokens_[r] == whole_tokens_ &&
                    ranks_[r]->report(0).forwards == whole_->report(0).forwards,
                "the decode of whole rows");
      }
      before_ = messages;
    }
  }

 private:
  [[nodiscard]] std::vector<float> forward(const forward_request& request) const {
    const auto vocab = static_cast<std::size_t>(model_.vocab);
    std::vector<float> logits(static_cast<std::size_t>(request.rows) * vocab);
    const segment& s = request.segments[0];
    for (index_t r = s.rows.first; r < s.rows.last; ++r) {
      write_row(
          engine_,
          model_,
          {1, 0, r, whole_tokens_},
          std::span(logits).subspan(static_cast<std::size_t>(r - s.rows.first) * vocab, vocab));
    }
    return logits;
  }

  [[nodiscard]] static std::vector<std::byte>
  joined(const std::vector<std::vector<std::byte>>& messages) {
    std::vector<std::byte> all;
    for (const auto& m : messages) {
      all.insert(all.end(), m.begin(), m.end());
    }
    return all;
  }

  [[nodiscard]] std::vector<std::byte> damaged(std::vector<std::vector<std::byte>> messages) {
    switch (d_.within(0, 4)) {
    case 0:
      messages = before_;
      break;
    case 1:
      messages.push_back(d_.one_of(messages));
      break;
    case 2:
      std::swap(messages.front(), messages.back());
      break;
    default:
      break;
    }
    std::vector<std::byte> all = joined(messages);
    for (int n = d_.within(0, 3); n > 0 && !all.empty(); --n) {
      const auto size = static_cast<std::int32_t>(all.size());
      const auto at = static_cast<std::size_t>(d_.chance(0.6) ? d_.within(0, std::min(size, 44) - 1)
                                                              : d_.within(0, size - 1));
      all[at] = static_cast<std::byte>(
          d_.one_of(std::vector<int>{0, 1, 0x7f, 0x80, 0xff, d_.within(0, 255)}));
    }
    if (d_.chance(0.1)) {
      all.resize(static_cast<std::size_t>(d_.within(0, static_cast<std::int32_t>(all.size()))));
    }
    return all;
  }

  // Whether a rank decided with these bytes instead of refusing them.
  [[nodiscard]] bool took(sharded_session<Policy>& rank, const std::vector<std::byte>& bytes) {
    return accepted([&] { rank.supply(bytes); });
  }

  dice& d_;
  model_info model_;
  hostile::hostile_engine engine_;
  std::vector<index_t> cuts_;
  std::vector<std::vector<token_id>> tokens_;
  std::vector<token_id> whole_tokens_;
  std::vector<std::unique_ptr<sharded_session<Policy>>> ranks_;
  std::unique_ptr<session<Policy>> whole_;
  std::vector<std::vector<std::byte>> before_;
};

}  // namespace

UNMASK_FUZZ_TARGET(ranks) {
  dice d(data);
  if (d.chance(0.5)) {
    damaged_decode(policy{by_margin{}, threshold{0.5F}, repetition_penalty<>{1.2F}, stop_at_eos{}},
                   d)
        .run();
  } else {
    damaged_decode(policy{by_entropy{}, tokens_per_step{2}, sampling{1.0F}}, d).run();
  }
}

}  // namespace unmask::fuzz
