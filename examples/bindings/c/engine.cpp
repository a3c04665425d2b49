// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bindings/c/engine.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "engine/llada_pass.hpp"
#include "engine/tokenizer.hpp"

// llada_model::forward() cut into its steps: examples/engine/llada_pass.hpp has the loop in C++.

namespace example {

class stepped_pass {
 public:
  stepped_pass(const gguf_file& file)
      : text(file)
      , model_(file) {}

  [[nodiscard]] const llada_config& config() const { return model_.config(); }
  [[nodiscard]] std::size_t width() const { return config().width; }
  [[nodiscard]] const sequence_memory& memory() const { return memory_; }
  [[nodiscard]] hidden_rows rows() const { return rows_; }

  void reset(std::size_t length) {
    memory_ = {};
    memory_.layers.resize(config().layers);
    for (layer_memory& layer : memory_.layers) {
      layer.store.reserve(length, width());
      layer.previous.resize(length * width());
    }
    length_ = length;
    model_.reserve(length, length);
  }
  void begin(const std::int32_t* tokens, std::span<const std::int32_t> positions, int keys) {
    keys_ = static_cast<std::size_t>(keys);
    memory_.drops_keys = false;
    rows_ = model_.embed(std::span(tokens, length_), positions);
  }
  void attend_to_kept(std::int32_t first, std::int32_t last) {
    memory_.drops_keys = true;
    memory_.blocks_first = first;
    memory_.blocks_last = last;
  }
  const float* input(std::size_t layer, unmask::feature what) {
    return input_of(config(),
                    model_.weights_->layer(layer),
                    detail::input_for(what),
                    rows_,
                    model_.scratch_)
        .data();
  }
  void keep(std::span<const std::int32_t> rows) { rows_ = model_.keep(rows_, rows); }
  void run(std::size_t layer) { model_.compute(layer, keys_, rows_, memory_); }
  void run_some(std::size_t layer, std::span<const std::int32_t> rows) {
    model_.compute_some(layer, keys_, rows_, rows, memory_);
  }
  float* stored(std::size_t layer) { return memory_.layers[layer].previous.data(); }
  const float* keys(std::size_t layer) {
    return model_.keys_of(memory_.layers[layer].store, keys_).data();
  }
  const float* mean_query(std::int32_t first, std::int32_t last) {
    return model_.mean_query(rows_, {first, last, 1.0, 1}).data();
  }
  void keep_keys(std::size_t layer, std::span<const std::int32_t> positions) {
    memory_.layers[layer].kept_keys.assign(positions.begin(), positions.end());
  }
  const float* logits() {
    model_.write_logits(rows_, model_.logits_.data());
    return model_.logits_.data();
  }

  const char_tokenizer text;

 private:
  llada_model model_;
  sequence_memory memory_;
  hidden_rows rows_;
  std::size_t length_ = 0, keys_ = 0;
};

}  // namespace example

struct engine : example::stepped_pass {
  using stepped_pass::stepped_pass;
};

namespace {

std::span<const std::int32_t> list(const std::int32_t* entries, std::int32_t count) {
  return {entries, static_cast<std::size_t>(count)};
}

}  // namespace

extern "C" {

engine* engine_open(const char* file) {
  try {
    return std::make_unique<engine>(example::gguf_file(file)).release();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return nullptr;
  }
}
void engine_close(engine* e) {
  delete e;
}
std::int32_t engine_layers(const engine* e) {
  return static_cast<std::int32_t>(e->config().layers);
}
std::int32_t engine_width(const engine* e) {
  return static_cast<std::int32_t>(e->width());
}
std::int32_t engine_vocabulary(const engine* e) {
  return static_cast<std::int32_t>(e->text.vocabulary());
}
std::int32_t engine_mask_token(const engine* e) {
  return e->text.mask();
}
std::int32_t engine_eos_token(const engine* e) {
  return e->text.end();
}

std::int32_t engine_tokens(const engine* e,
                           const char* prompt,
                           std::int32_t answer,
                           std::int32_t* tokens,
                           std::int32_t room) {
  try {
    const auto canvas = e->text.canvas(prompt, static_cast<std::size_t>(answer));
    if (canvas.size() > std::min(static_cast<std::size_t>(room), e->config().context)) {
      return -1;
    }
    std::ranges::copy(canvas, tokens);
    return static_cast<std::int32_t>(canvas.size());
  } catch (const std::exception&) {
    return -1;
  }
}
void engine_text(const engine* e,
                 const std::int32_t* tokens,
                 std::int32_t count,
                 char* text,
                 std::int32_t room) {
  std::snprintf(
      text, static_cast<std::size_t>(room), "%s", e->text.decode(list(tokens, count)).c_str());
}

void engine_reset(engine* e, std::int32_t length) {
  e->reset(static_cast<std::size_t>(length));
}
void engine_begin(engine* e,
                  const std::int32_t* tokens,
                  const std::int32_t* positions,
                  std::int32_t count,
                  std::int32_t keys) {
  e->begin(tokens, list(positions, count), keys);
}
void engine_attend_to_kept(engine* e, std::int32_t first, std::int32_t last) {
  e->attend_to_kept(first, last);
}
const float* engine_hidden(const engine* e) {
  return e->rows().data;
}
const float* engine_input(engine* e, std::int32_t layer, std::int32_t feature) {
  return e->input(static_cast<std::size_t>(layer), static_cast<unmask::feature>(feature));
}
void engine_keep(engine* e, const std::int32_t* rows, std::int32_t count) {
  e->keep(list(rows, count));
}
void engine_run(engine* e, std::int32_t layer) {
  e->run(static_cast<std::size_t>(layer));
}
void engine_run_some(engine* e, std::int32_t layer, const std::int32_t* rows, std::int32_t count) {
  e->run_some(static_cast<std::size_t>(layer), list(rows, count));
}
float* engine_stored(engine* e, std::int32_t layer) {
  return e->stored(static_cast<std::size_t>(layer));
}
const float* engine_keys(engine* e, std::int32_t layer) {
  return e->keys(static_cast<std::size_t>(layer));
}
const float* engine_mean_query(engine* e, std::int32_t first, std::int32_t last) {
  return e->mean_query(first, last);
}
void engine_keep_keys(engine* e,
                      std::int32_t layer,
                      const std::int32_t* positions,
                      std::int32_t count) {
  e->keep_keys(static_cast<std::size_t>(layer), list(positions, count));
}
const float* engine_logits(engine* e) {
  return e->logits();
}
std::int64_t engine_computed(const engine* e) {
  return e->memory().computed;
}

}  // extern "C"
