// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/math.hpp>
#include <unmask/named/policy_text_error.hpp>
#include <unmask/text/json_reader.hpp>
#include <unmask/trace/trace_head.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Host only: reads a trace, the format unmask-trace/1 that README.md of this folder documents.
namespace UNMASK_NAMESPACE {

/// A step of a trace: its columns, by candidate.
struct traced_step {
  index_t slot = 0;                        ///< Slot of its sequence.
  index_t step = 0;                        ///< Index of the forward pass, from 0.
  range score = {};                        ///< Positions that it decided.
  range keys = {};                         ///< Positions that the pass attended to.
  std::vector<index_t> position;           ///< Positions of the candidates, ascending.
  std::vector<token_id> token;             ///< The proposed tokens.
  std::vector<float> log_probability;      ///< -inf where the trace has none.
  std::vector<candidate_outcome> outcome;  ///< Outcome of each.
  /// In a step that moved text: the lowest position that moved, and the text from there to its end
  /// after the step.
  index_t first_moved = -1;
  std::vector<token_id> after;          ///< The tokens from `first_moved`.
  std::vector<token_probability> soft;  ///< The most probable tokens of positions left masked.
  index_t winner = -1;  ///< The branch of lookahead that won; -1: the sequence itself, or none.
  index_t line = 0;     ///< Its line in the text, from 1.
};

/// A sequence of a trace.
struct traced_sequence {
  index_t slot = 0;                ///< Slot of its session.
  sequence_shape shape = {};       ///< Its geometry and seed.
  std::vector<token_id> tokens;    ///< Its tokens before the first step.
  std::vector<index_t> fixed;      ///< Positions after the prompt that are given.
  std::vector<index_t> committed;  ///< Positions that are committed at the start.
  std::vector<index_t> filled;     ///< Positions that a constraint filled before the first step.
  std::string policy;              ///< Text of its policy: that of the trace, or its own.
  std::vector<std::string> parts;  ///< Its parts.
  index_t begin_length = 0;        ///< Positions at its start; 0: all.
  std::vector<traced_step> steps;  ///< Its steps in order.
  ending end = ending::running;    ///< Why it ended; running: the trace was cut before.
  std::vector<token_id> final_tokens;  ///< Its tokens at the end; empty if it was cut before.
};

/// A trace as it was read.
struct trace {
  std::string model;               ///< Name of the model.
  model_info info = {};            ///< Vocabulary, mask token, EOS token and layers of the model.
  std::string policy;              ///< Text of the policy.
  std::vector<std::string> parts;  ///< Its parts.
  std::vector<traced_sequence> sequences;  ///< Its sequences, in the order of their start.
};

namespace detail {

class trace_text_reader {
 public:
  [[nodiscard]] trace read(std::string_view text) {
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != text.npos; at = end + 1) {
      ++line_;
      json_reader line(text.substr(at, end - at), "trace", line_);
      has_head_ ? read_line(line) : read_head(line);
      line.finish();
    }
    if (!has_head_) {
      throw std::invalid_argument("trace: it has no whole line");
    }
    for (traced_sequence& s : all_.sequences) {
      if (s.policy.empty() && s.parts.empty()) {
        s.policy = all_.policy;
        s.parts = all_.parts;
      }
    }
    return std::move(all_);
  }

 private:
  void read_head(json_reader& in) {
    std::string format;
    in.object([&](std::string_view key) {
      if (key == "format") {
        format = in.string();
      } else if (key == "model") {
        in.object([&](std::string_view member) {
          if (member == "name") {
            all_.model = in.string();
          } else if (member == "vocab") {
            all_.info.vocab = in.whole<index_t>();
          } else if (member == "mask") {
            all_.info.mask_token = in.whole<token_id>();
          } else if (member == "eos") {
            all_.info.eos_token = in.whole<token_id>();
          } else if (member == "layers") {
            all_.info.layers = in.whole<index_t>();
          } else {
            in.skip();
          }
        });
      } else if (key == "policy") {
        all_.policy = in.string();
      } else if (key == "parts") {
        in.list([&] { all_.parts.push_back(in.string()); });
      } else if (key == "sequences") {
        in.list([&] { read_sequence(in); });
      } else {
        in.skip();
      }
    });
    if (format != trace_format) {
      in.fail("its format must be " + std::string(trace_format));
    }
    has_head_ = true;
  }

  void read_sequence(json_reader& in) {
    traced_sequence s;
    in.object([&](std::string_view key) {
      if (key == "slot") {
        s.slot = in.whole<index_t>();
      } else if (key == "sequence") {
        s.shape.sequence = in.whole<std::uint32_t>();
      } else if (key == "seed") {
        s.shape.seed = in.whole<std::uint64_t>();
      } else if (key == "shape") {
        in.object([&](std::string_view member) {
          if (member == "prompt_length") {
            s.shape.prompt_length = in.whole<index_t>();
          } else if (member == "length") {
            s.shape.length = in.whole<index_t>();
          } else if (member == "block_length") {
            s.shape.block_length = in.whole<index_t>();
          } else {
            in.skip();
          }
        });
      } else if (key == "tokens") {
        in.list([&] { s.tokens.push_back(in.whole<token_id>()); });
      } else if (key == "fixed") {
        in.list([&] { s.fixed.push_back(in.whole<index_t>()); });
      } else if (key == "committed") {
        in.list([&] { s.committed.push_back(in.whole<index_t>()); });
      } else if (key == "filled") {
        in.list([&] { s.filled.push_back(in.whole<index_t>()); });
      } else if (key == "policy") {
        s.policy = in.string();
      } else if (key == "parts") {
        in.list([&] { s.parts.push_back(in.string()); });
      } else if (key == "begin_length") {
        s.begin_length = in.whole<index_t>();
      } else {
        in.skip();
      }
    });
    all_.sequences.push_back(std::move(s));
  }

  void read_line(json_reader& in) {
    traced_step step;
    step.line = line_;
    bool is_step = false;
    bool is_start = false;
    std::string outcomes;
    std::string end;
    std::vector<token_id> tokens;
    std::vector<index_t> score;
    std::vector<index_t> keys;
    in.object([&](std::string_view key) {
      if (key == "start") {
        read_sequence(in);
        is_start = true;
      } else if (key == "slot") {
        step.slot = in.whole<index_t>();
      } else if (key == "step") {
        step.step = in.whole<index_t>();
        is_step = true;
      } else if (key == "score") {
        in.list([&] { score.push_back(in.whole<index_t>()); });
      } else if (key == "keys") {
        in.list([&] { keys.push_back(in.whole<index_t>()); });
      } else if (key == "position") {
        in.list([&] { step.position.push_back(in.whole<index_t>()); });
      } else if (key == "token") {
        in.list([&] { step.token.push_back(in.whole<token_id>()); });
      } else if (key == "log_probability") {
        in.list([&] { step.log_probability.push_back(in.real(-math::infinity())); });
      } else if (key == "after") {
        in.object([&](std::string_view member) {
          if (member == "first") {
            step.first_moved = in.whole<index_t>();
          } else if (member == "tokens") {
            in.list([&] { step.after.push_back(in.whole<token_id>()); });
          } else {
            in.skip();
          }
        });
      } else if (key == "winner") {
        step.winner = in.whole<index_t>();
      } else if (key == "soft") {
        read_soft(in, step);
      } else if (key == "outcome") {
        outcomes = in.string();
      } else if (key == "end") {
        end = in.string();
      } else if (key == "tokens") {
        in.list([&] { tokens.push_back(in.whole<token_id>()); });
      } else {
        in.skip();
      }
    });
    if (is_start) {
      return;
    }
    traced_sequence* const sequence = sequence_in(step.slot);
    if (sequence == nullptr) {
      in.fail("no sequence was started in slot " + std::to_string(step.slot));
    }
    if (is_step) {
      if (score.size() != 2) {
        in.fail("\"score\" must have two numbers");
      }
      for (token_probability& e : step.soft) {
        e.slot = step.slot;
        e.step = step.step;
      }
      step.score = {score[0], score[1]};
      step.keys = keys.size() == 2 ? range{keys[0], keys[1]} : range{0, sequence->shape.length};
      const std::size_t count = step.position.size();
      if (step.token.size() != count || step.log_probability.size() != count ||
          outcomes.size() != count) {
        in.fail("its columns must have as many values as \"position\", " + std::to_string(count));
      }
      for (const char letter : outcomes) {
        const std::size_t at = trace_outcomes.find(letter);
        step.outcome.push_back(at == trace_outcomes.npos ? candidate_outcome::held
                                                         : static_cast<candidate_outcome>(at));
      }
      sequence->steps.push_back(std::move(step));
    } else if (!end.empty()) {
      for (std::size_t i = 1; i < trace_endings.size(); ++i) {
        sequence->end = trace_endings[i] == end ? static_cast<ending>(i) : sequence->end;
      }
      if (sequence->end == ending::running) {
        in.fail("unknown end " + detail::quoted(end));
      }
      sequence->final_tokens = std::move(tokens);
    }
  }

  static void read_soft(json_reader& in, traced_step& step) {
    std::size_t columns = 0;
    const auto column = [&](auto read) {
      std::size_t i = 0;
      in.list([&] {
        if (i == step.soft.size()) {
          step.soft.emplace_back();
        }
        read(step.soft[i++]);
      });
      if (++columns > 1 && i != step.soft.size()) {
        in.fail("the columns of \"soft\" must have as many values");
      }
    };
    in.object([&](std::string_view member) {
      if (member == "position") {
        column([&](token_probability& e) { e.position = in.whole<index_t>(); });
      } else if (member == "token") {
        column([&](token_probability& e) { e.token = in.whole<token_id>(); });
      } else if (member == "probability") {
        column([&](token_probability& e) { e.probability = in.real(0.0F); });
      } else if (member == "share") {
        column([&](token_probability& e) { e.share = in.real(0.0F); });
      } else {
        in.skip();
      }
    });
  }

  // The last sequence of a slot.
  [[nodiscard]] traced_sequence* sequence_in(index_t slot) {
    for (std::size_t i = all_.sequences.size(); i-- > 0;) {
      if (all_.sequences[i].slot == slot) {
        return &all_.sequences[i];
      }
    }
    return nullptr;
  }

  trace all_;
  bool has_head_ = false;
  index_t line_ = 0;
};

}  // namespace detail

/// Reads a trace. A last line without its end is ignored, and so are members that are not known.
/// Errors: std::invalid_argument that names line and column of what is not a trace.
[[nodiscard]] inline trace read_trace(std::string_view text) {
  return detail::trace_text_reader().read(text);
}

}  // namespace unmask
