// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that must not compile, each with the message that it must get: tests/fail/expect.py.

// case: own_part_of_two_stages_with_state
// expect: a part of UNMASK_OWN_PARTS with functions of several stages keeps no state
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  struct sequence_state {
    int steps = 0;
  };
  float score(const auto& c) const { return c.confidence() - value; }
  unmask::ending stop(const unmask::sequence_view&, auto& context) const {
    return ++context.sequence.steps > 3 ? unmask::ending::max_steps : unmask::ending::running;
  }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_that_no_text_spells
// expect: must be one that a text can spell: letters, digits and underscores
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"my rule", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_that_truncates
// expect: a part of UNMASK_OWN_PARTS is a ranking, a commit rule, a logits processor
#define UNMASK_OWN_PARTS <unmask/policy/logits/truncation.hpp>

#include UNMASK_OWN_PARTS

namespace unmask {
using own_parts = part_list<top_k>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_whose_knob_no_text_spells
// expect: the name of a knob must be one that a text can spell
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  static constexpr unmask::knob<mine> knobs[] = {{"my value", &mine::value, unmask::within(0, 1)}};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_default_out_of_range
// expect: the default of a knob, which is the initialiser of its member, must be in the range of
// the knob
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  static constexpr unmask::knob<mine> knobs[] = {{"value", &mine::value, unmask::within(0.6, 1)}};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_function_that_no_text_calls
// expect: a part of UNMASK_OWN_PARTS has none of the functions transform
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
  float transform(float logit, unmask::token_id) const { return logit * value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_misspelt_function
// expect: this part has a function commit\(\): did you mean commits\(candidate, rank_info\)\?
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  bool commit(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_taken_name
// expect: a part of UNMASK_OWN_PARTS has the name of a part or of a method of the library
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"threshold", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_varying_requirement
// expect: a part must declare what it reads: static constexpr statistics required
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_a_vector
// expect: must be trivially copyable and have a default: no std::vector
#include <vector>

#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  struct position_state {
    std::vector<int> seen;
  };
  bool commits(const auto& c, const unmask::rank_info&, auto& context) const {
    context.state.seen.push_back(c.token);
    return c.confidence() > value;
  }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_the_name_of_a_joint
// expect: is called any_of, all_of, at_most or replay: choose another name
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"any_of", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_part_with_the_name_of_a_method
// expect: a part of UNMASK_OWN_PARTS has the name of a part or of a method of the library
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"lopa", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}

// case: own_parts_of_one_name
// expect: two parts of UNMASK_OWN_PARTS have one name
#define UNMASK_OWN_PARTS <unmask/core/policy.hpp>
#include UNMASK_OWN_PARTS

struct mine {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

struct another {
  float value = 0.5F;
  static constexpr unmask::statistics required = unmask::stat::confidence;
  static constexpr unmask::part_label label{"mine", "mine"};
  bool commits(const auto& c, const unmask::rank_info&) const { return c.confidence() > value; }
};

namespace unmask {
using own_parts = part_list<mine, another>;
}

#include <unmask/named_policy.hpp>

int main() {
  return unmask::read_policy("threshold").count;
}
