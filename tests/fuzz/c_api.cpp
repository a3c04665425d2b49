// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of the C interface in any order with any arguments that its contract allows: memory is as
// large as the arguments say, or they must be refused. A second session gets only the calls that
// succeeded, and must say the same: an error changes nothing.

#include <unmask/c_layers.h>
#include <unmask/core/types.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

#include "fuzz/target.hpp"
#include "hostile/written_policy.hpp"
#include "support/dice.hpp"

namespace unmask::fuzz {
namespace {

using testing::dice;

constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t longest = 24;  // positions of a sequence
constexpr std::int32_t slots = 2;
constexpr std::size_t width = 3;  // columns of a row at a layer

/// A session with the memory that its caller owns.
struct host {
  unmask_session* session = nullptr;
  std::vector<std::vector<std::int32_t>> tokens{slots, std::vector<std::int32_t>(longest, 1)};
  std::vector<float> stored = std::vector<float>(16 * longest * width);

  host() = default;
  host(const host&) = delete;
  host& operator=(const host&) = delete;
  ~host() { unmask_destroy(session); }
};

/// A structure in as many bytes as any version's may have, whose size may be any.
template <class T>
class sized {
 public:
  sized(dice& d, const T& value)
      : bytes_(128) {
    std::memcpy(bytes_.data(), &value, sizeof value);
    if (d.chance(0.05)) {
      const auto size =
          d.one_of(std::vector<std::uint32_t>{0, 3, 4, 8, 16, 40, 48, 64, 127, 128, 129, ~0U});
      std::memcpy(bytes_.data(), &size, sizeof size);
      bytes_.back() = d.chance(0.1) ? std::byte{1} : std::byte{0};
    }
  }
  [[nodiscard]] T* get() { return reinterpret_cast<T*>(bytes_.data()); }

 private:
  std::vector<std::byte> bytes_;
};

class caller {
 public:
  explicit caller(dice& d)
      : d_(d) {}

  void run() {
    create();
    for (int n = d_.within(4, 30); n > 0 && one_.session != nullptr; --n) {
      call();
    }
    for (std::size_t slot = 0; slot < slots && one_.session != nullptr; ++slot) {
      require(one_.tokens[slot] == two_.tokens[slot], "tokens that errors did not change");
      unmask_report a = UNMASK_REPORT_INIT;
      unmask_report b = UNMASK_REPORT_INIT;
      const auto index = static_cast<std::int32_t>(slot);
      if (unmask_get_report(one_.session, index, &a) == UNMASK_OK) {
        check(unmask_get_report(two_.session, index, &b), UNMASK_OK);
        require(std::memcmp(&a, &b, sizeof a) == 0, "a report that errors did not change");
      }
    }
  }

 private:
  static void check(unmask_status status, unmask_status expected) {
    require(status == expected, std::string("another status: ") + unmask_last_error());
  }

  // Makes a call on the first session and, if it succeeds, on the second.
  bool both(const auto& make) {
    const unmask_status status = make(one_);
    if (status != UNMASK_OK) {
      require(status == UNMASK_INVALID_ARGUMENT || status == UNMASK_OUT_OF_ORDER ||
                  status == UNMASK_UNSUPPORTED,
              std::string("an error of the caller, got another: ") + unmask_last_error());
      require(is_message(unmask_last_error()),
              std::string("a message in words, got ") + unmask_last_error());
      return false;
    }
    check(make(two_), UNMASK_OK);
    return true;
  }

  [[nodiscard]] std::int32_t slot() {
    return d_.chance(0.9) ? d_.within(0, slots - 1)
                          : d_.one_of(std::vector<std::int32_t>{-1, slots, most, least});
  }
  [[nodiscard]] std::int32_t any_number(std::int32_t right) {
    const std::int32_t below = right > least ? right - 1 : right;
    const std::int32_t above = right < most ? right + 1 : right;
    return d_.chance(0.9)
               ? right
               : d_.one_of(std::vector<std::int32_t>{0, 1, -1, below, above, most, least});
  }

  void create() {
    unmask_options o = UNMASK_OPTIONS_INIT;
    o.vocab = d_.within(2, 9);
    o.mask_token = d_.within(0, o.vocab - 1);
    o.eos_token = d_.chance(0.5) ? UNMASK_NO_TOKEN : (o.mask_token + 1) % o.vocab;
    o.logits_shift = d_.within(0, 1);
    o.sequences = slots;
    o.length = longest;
    o.window = longest;
    o.trace = d_.within(0, 1);
    o.layers = d_.within(0, 4);
    o.branches = d_.one_of(std::vector<std::int32_t>{0, 2, 16});
    o.threads = d_.chance(0.1) ? 2 : 1;
    model_ = {.vocab = o.vocab, .mask_token = o.mask_token, .eos_token = o.eos_token};
    for (std::int32_t* const member : {&o.vocab,
                                       &o.mask_token,
                                       &o.eos_token,
                                       &o.logits_shift,
                                       &o.layers,
                                       &o.branches,
                                       &o.threads,
                                       &o.memory_space}) {
      if (d_.chance(0.01)) {
        *member = any_number(d_.chance(0.5) ? 2000 : *member);
      }
    }
    layers_ = std::min(std::max(o.layers, 0), 16);
    sized<unmask_options> options(d_, o);
    const std::string text = policy();
    if (d_.chance(0.1)) {
      static_cast<void>(unmask_check_policy(text.c_str()));
      sized<unmask_sequence> q(d_, sequence());
      sized<unmask_requirements> r(d_, UNMASK_REQUIREMENTS_INIT);
      static_cast<void>(unmask_get_requirements(text.c_str(), options.get(), q.get(), r.get()));
    }
    both([&](host& h) { return unmask_create(text.c_str(), options.get(), &h.session); });
    require(one_.session == nullptr || two_.session != nullptr, "a session twice");
  }

  [[nodiscard]] std::string policy() { return text_of(hostile::random_policy(d_, model_)); }

  [[nodiscard]] unmask_sequence sequence() {
    unmask_sequence q = UNMASK_SEQUENCE_INIT;
    q.length = any_number(d_.within(1, longest));
    q.prompt_length = any_number(d_.within(0, std::min(std::max(q.length, 1), longest)));
    q.block_length = any_number(d_.within(1, 9));
    q.seed = d_.bits();
    if (d_.chance(0.2)) {
      editable_.clear();
      for (int i = 0; i < longest; ++i) {
        editable_.push_back(static_cast<std::uint8_t>(d_.within(0, 2)));
      }
      q.editable = editable_.data();
    }
    if (d_.chance(0.2)) {
      suppressed_ = {any_number(0), any_number(1), 1, 0};
      q.suppressed = d_.chance(0.9) ? suppressed_.data() : nullptr;
      q.suppressed_count = d_.one_of(std::vector<std::uint32_t>{0, 1, 2, 4, 16, ~0U});
    }
    return q;
  }

  void start() {
    sequence_policy_ = policy();
    unmask_sequence given = sequence();
    given.policy = d_.chance(0.15) ? sequence_policy_.c_str() : nullptr;
    sized<unmask_sequence> q(d_, given);
    const std::int32_t where = slot();
    const std::int32_t count = d_.chance(0.9) ? longest : d_.within(-1, longest);
    const auto whose = static_cast<std::size_t>(d_.chance(0.9) ? where & 1 : d_.within(0, 1));
    const bool has_tokens = d_.chance(0.98);
    both([&](host& h) {
      return unmask_start(
          h.session, where, has_tokens ? h.tokens[whose].data() : nullptr, count, q.get());
    });
  }

  // Rows of `right` numbers that are as the arguments say, or must be refused.
  [[nodiscard]] unmask_logits rows(std::int32_t count, std::int32_t columns) {
    unmask_logits l = UNMASK_LOGITS_INIT;
    l.rows = any_number(count);
    l.columns = d_.chance(0.9) ? columns : any_number(columns);
    l.kind = d_.chance(0.95) ? d_.within(0, 2) : any_number(3);
    l.memory_space = d_.chance(0.98) ? UNMASK_HOST : any_number(1);
    l.rows = std::min(l.rows, 1000);
    l.columns = std::min(l.columns, 1000);
    l.stride = d_.chance(0.8) ? 0
               : d_.chance(0.7)
                   ? l.columns + d_.within(0, 3)
                   : d_.one_of(std::vector<std::int64_t>{-1,
                                                         1,
                                                         l.columns - 1,
                                                         std::numeric_limits<std::int64_t>::max(),
                                                         std::numeric_limits<std::int64_t>::min()});
    const auto distance = static_cast<std::size_t>(
        l.stride > 0 && l.stride < 1100 ? l.stride : std::max(l.columns, 1));
    memory_.push_back(std::vector<float>(distance * static_cast<std::size_t>(std::max(l.rows, 1))));
    const auto offset = static_cast<std::uint64_t>(d_.within(0, 3)) * 77;
    for (std::size_t i = 0; i < memory_.back().size(); ++i) {
      const std::uint64_t hash = testing::mixed(offset, i);
      memory_.back()[i] = hash % 50 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                         : static_cast<float>(testing::unit(hash)) * 9.0F;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().data());
    l.data = d_.chance(0.03)   ? nullptr
             : d_.chance(0.03) ? reinterpret_cast<const void*>(address + 1)  // odd, and refused
                               : memory_.back().data();
    return l;
  }

  // Everything right, so that decodes go on.
  void step() {
    unmask_request request = UNMASK_REQUEST_INIT;
    if (!both([&](host& h) { return unmask_next(h.session, &request); })) {
      return;
    }
    if (request.count == 0) {
      return;
    }
    std::vector<unmask_logits> tensors;
    for (std::int32_t k = 0; k < request.count; ++k) {
      for (std::int32_t layer = 0; layer < layers_; ++layer) {
        hook(k, layer);
      }
      const std::int32_t* list = nullptr;
      std::int32_t count = 0;
      if (!both([&](host& h) { return unmask_rows(h.session, k, &list, &count); })) {
        return;
      }
      memory_.emplace_back(static_cast<std::size_t>(count * model_.vocab));
      for (std::size_t i = 0; i < memory_.back().size(); ++i) {
        memory_.back()[i] = static_cast<float>(testing::unit(testing::mixed(i, d_.bits() % 5)));
      }
      unmask_logits l = UNMASK_LOGITS_INIT;
      l.rows = count;
      l.columns = model_.vocab;
      l.data = memory_.back().data();
      tensors.push_back(l);
    }
    both([&](host& h) {
      return unmask_supply_segments(h.session, tensors.data(), nullptr, request.count);
    });
  }

  void hook(std::int32_t segment, std::int32_t layer) {
    std::int32_t hooked = 0;
    const std::int32_t* list = nullptr;
    std::int32_t count = 0;
    if (!both([&](host& h) { return unmask_hooks(h.session, segment, layer, &hooked); }) ||
        hooked == 0 ||
        !both([&](host& h) { return unmask_positions(h.session, segment, &list, &count); })) {
      return;
    }
    hidden_.assign(static_cast<std::size_t>(count) * width, static_cast<float>(layer));
    unmask_logits now = UNMASK_LOGITS_INIT;
    now.rows = count;
    now.columns = width;
    now.data = hidden_.data();
    if (d_.chance(0.05)) {
      now = rows(count, width);
    }
    unmask_stored wanted = UNMASK_STORED_INIT;
    wanted.last = longest;
    wanted.columns = width;
    wanted.kind = d_.chance(0.97) ? now.kind : any_number(1);
    if (d_.chance(0.03)) {
      wanted.columns = any_number(wanted.columns);
      wanted.columns = wanted.columns > int(width) ? -1 : wanted.columns;
      wanted.first = -any_number(0);
    }
    both([&](host& h) {
      unmask_stored stored = wanted;
      stored.data = h.stored.data() + static_cast<std::size_t>(layer % 16) * longest * width;
      return unmask_at_layer(h.session, segment, layer, &now, &stored, &list, &count);
    });
  }

  void call() {
    const std::int32_t where = slot();
    unmask_request request = UNMASK_REQUEST_INIT;
    const void* entries = nullptr;
    std::int32_t count = 0;
    memory_.clear();
    switch (d_.within(0, 19)) {
    case 0:
    case 1:
    case 2:
      return start();
    case 3:
    case 4:
    case 5:
    case 6:
      return step();
    case 7: {
      sized<unmask_request> r(d_, request);
      both([&](host& h) { return unmask_next(h.session, r.get()); });
      return;
    }
    case 8: {
      const std::vector<std::int32_t> some = {slot(), slot(), slot()};
      const std::int32_t n = d_.within(-1, 3);
      both([&](host& h) { return unmask_next_slots(h.session, some.data(), n, &request); });
      return;
    }
    case 9: {
      both([&](host& h) { return unmask_next(h.session, &request); });
      sized<unmask_logits> l(d_, rows(request.rows, model_.vocab));
      both([&](host& h) { return unmask_supply(h.session, l.get()); });
      return;
    }
    case 10: {
      both([&](host& h) { return unmask_next(h.session, &request); });
      std::vector<unmask_logits> tensors;
      for (std::int32_t k = 0; k < request.count; ++k) {
        const unmask_segment& s = request.segments[k];
        tensors.push_back(rows(s.row_last - s.row_first, model_.vocab));
      }
      const std::int32_t n = any_number(request.count);
      const bool is_right = n <= request.count;  // or refused
      both([&](host& h) {
        return unmask_supply_segments(h.session, is_right ? tensors.data() : nullptr, nullptr, n);
      });
      return;
    }
    case 11:
      both([&](host& h) { return unmask_cancel(h.session, where); });
      return;
    case 12:
      if (d_.chance(0.5)) {
        both([&](host& h) { return unmask_abandon(h.session); });
      } else {
        both([&](host& h) { return unmask_cancel_request(h.session); });
      }
      return;
    case 13: {
      sized<unmask_report> r(d_, UNMASK_REPORT_INIT);
      sized<unmask_plan> p(d_, UNMASK_PLAN_INIT);
      both([&](host& h) { return unmask_get_report(h.session, where, r.get()); });
      both([&](host& h) { return unmask_get_plan(h.session, where, p.get()); });
      return;
    }
    case 14:
      both([&](host& h) {
        return unmask_committed(h.session,
                                where,
                                sizeof(unmask_commit),
                                reinterpret_cast<const unmask_commit**>(&entries),
                                &count);
      });
      both([&](host& h) {
        return unmask_candidates(h.session,
                                 where,
                                 sizeof(unmask_candidate),
                                 reinterpret_cast<const unmask_candidate**>(&entries),
                                 &count);
      });
      both([&](host& h) {
        return unmask_probabilities(h.session,
                                    where,
                                    sizeof(unmask_probability),
                                    reinterpret_cast<const unmask_probability**>(&entries),
                                    &count);
      });
      return;
    case 15:
      return decide(where);
    case 16: {
      const std::int32_t segment = any_number(d_.within(0, 2));
      unmask_layer_rule rule = UNMASK_LAYER_RULE_INIT;
      unmask_eviction eviction = UNMASK_EVICTION_INIT;
      both([&](host& h) { return unmask_get_layer_rule(h.session, &rule); });
      both([&](host& h) { return unmask_get_segment_rule(h.session, segment, &rule); });
      both([&](host& h) { return unmask_get_eviction(h.session, segment, &eviction); });
      return;
    }
    case 17:
      return hook(any_number(0), any_number(d_.within(0, std::max(layers_ - 1, 0))));
    case 18:
      return select_keys();
    default:
      both([&](host& h) { return unmask_record(h.session, "/dev/null", "model"); });
      return;
    }
  }

  void decide(std::int32_t where) {
    const std::int32_t n = d_.within(-1, longest);
    const auto room = static_cast<std::size_t>(std::max(n, 0));
    const std::vector<std::uint8_t> editable(room, 1);
    sized<unmask_logits> l(d_, rows(n, model_.vocab));
    std::vector<std::int32_t> given(room);
    for (std::int32_t& v : given) {
      v = any_number(d_.within(0, model_.vocab - 1));
    }
    const bool is_marked = d_.chance(0.5);
    std::vector<std::vector<std::int32_t>> written;
    both([&](host& h) {
      std::vector<std::int32_t> own = given;
      std::vector<std::uint8_t> transfer(room);
      const unmask_status status = unmask_decide(h.session,
                                                 where,
                                                 own.data(),
                                                 n,
                                                 is_marked ? editable.data() : nullptr,
                                                 3,
                                                 l.get(),
                                                 transfer.data());
      require(status == UNMASK_OK || own == given, "tokens that an error did not change");
      written.push_back(own);
      return status;
    });
    require(written.size() < 2 || written[0] == written[1], "the same decision twice");
  }

  void select_keys() {
    const std::int32_t segment = any_number(0);
    const std::int32_t count = any_number(longest);
    const std::vector<float> scores(static_cast<std::size_t>(longest) + 1, 1.0F);
    const std::int32_t* list = nullptr;
    std::int32_t selected = 0;
    if (count <= longest + 1) {
      both([&](host& h) {
        return unmask_select_keys(h.session, segment, scores.data(), count, &list, &selected);
      });
    }
    const std::int32_t n = d_.within(0, 4);
    sized<unmask_logits> keys(d_, rows(n, width));
    const std::vector<float> query(1100, 1.0F);
    std::vector<float> products(1100);
    static_cast<void>(unmask_score_keys(keys.get(), query.data(), products.data()));
  }

  dice& d_;
  model_info model_;
  std::int32_t layers_ = 0;
  std::string sequence_policy_;
  std::vector<std::uint8_t> editable_;
  std::vector<std::int32_t> suppressed_;
  std::vector<std::vector<float>> memory_;
  std::vector<float> hidden_;
  host one_;
  host two_;
};

}  // namespace

UNMASK_FUZZ_TARGET(c_api) {
  dice d(data);
  caller(d).run();
}

}  // namespace unmask::fuzz
