// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/unmask.hpp>

#include <llama-cpp.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// Options of a llama_cpp_host.
struct llama_cpp_settings {
  /// Keep K/V of what a policy's cache does not run: opens the file as architecture `llama`, whose
  /// graph has a memory, and so needs its keys (`llama.*`) in the file.
  bool cache = false;
  /// No flash attention and K/V in single precision; llama.cpp's defaults round both to half.
  bool exact = true;
  int gpu_layers = 0;
  int threads = 1;
};

/// libllama as the engine behind an unmask session: one batch answers a request, with a sequence id
/// for each slot and each of its lookahead branches, and the logits are read where libllama has
/// written them.
///
/// A position that is run is run to the end of what it attends to, because the memory of llama.cpp
/// requires positions in order: dual_cache and block_cache compute what prefix_cache does.
class llama_cpp_host {
 public:
  /// Loads a GGUF file. Throws std::runtime_error for one that is no masked diffusion model.
  explicit llama_cpp_host(const std::string& file, const llama_cpp_settings& settings = {})
      : settings_(settings) {
    llama_model_kv_override memory[2] = {{LLAMA_KV_OVERRIDE_TYPE_STR, "general.architecture", {}},
                                         {}};
    std::string_view("llama").copy(memory[0].val_str, sizeof memory[0].val_str);
    llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = settings.gpu_layers;
    p.kv_overrides = settings.cache ? memory : nullptr;
    model_.reset(llama_model_load_from_file(file.c_str(), p));
    require(model_ != nullptr,
            file + ": llama.cpp can not load it" +
                (settings.cache ? " as architecture llama, which a cache needs" : ""));
    require(llama_vocab_mask(vocab()) != LLAMA_TOKEN_NULL, file + ": has no mask token");
    require(settings.cache || llama_model_is_diffusion(model_.get()),
            file + ": is no diffusion model to llama.cpp");
  }

  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }
  int context() const { return llama_model_n_ctx_train(model_.get()); }

  /// The model_info of a session. Rows are shifted unless the file has another value,
  /// as in llama.cpp's own example.
  unmask::model_info info() const {
    char shift[8] = "true";
    llama_model_meta_val_str(model_.get(), "diffusion.shift_logits", shift, sizeof shift);
    const llama_token end = llama_vocab_eos(vocab());
    return {.vocab = llama_vocab_n_tokens(vocab()),
            .mask_token = llama_vocab_mask(vocab()),
            .eos_token = end == LLAMA_TOKEN_NULL ? unmask::no_token : end,
            .logits_shift = std::string_view(shift) == "false" ? 0 : 1,
            .layers = llama_model_n_layer(model_.get())};
  }

  /// Makes room for the requests of a session with these capacities; what was kept is gone.
  void reserve(const unmask::session_capacity& capacity) {
    unmask::check_argument(capacity.length <= context(),
                           "session_capacity::length",
                           capacity.length,
                           "at most the model's context, ",
                           context());
    branches_ = 1 + capacity.branches;
    llama_context_params p = llama_context_default_params();
    p.n_seq_max = static_cast<uint32_t>(capacity.sequences * branches_);
    p.n_ctx = p.n_batch = p.n_ubatch = p.n_seq_max * static_cast<uint32_t>(capacity.length);
    p.n_threads = p.n_threads_batch = settings_.threads;
    p.kv_unified = true;  // branches share the K/V of what stands left of them
    if (settings_.exact) {
      p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
      p.type_k = p.type_v = GGML_TYPE_F32;
    }
    batch_.reset();
    context_.reset(llama_init_from_model(model_.get(), p));
    require(context_ != nullptr,
            "llama.cpp can not make a context for " + std::to_string(p.n_seq_max) +
                " sequences of " + std::to_string(capacity.length));
    llama_set_causal_attn(context_.get(), false);
    batch_.reset(llama_batch_ext_init(context_.get()));
  }

  /// Runs a request; `tokens[slot]` is the sequence in that slot. The logits of each segment are
  /// valid until the next call. Throws std::runtime_error with what llama.cpp returned.
  std::span<const unmask::host_logits<float>>
  forward(const unmask::forward_request& request,
          std::span<const std::vector<unmask::token_id>> tokens) {
    const llama_memory_t memory = llama_get_memory(context_.get());
    llama_batch_ext_clear(batch_.get());
    first_rows_.clear();
    int32_t row = 0;
    for (const unmask::segment& s : request.segments) {
      const llama_seq_id id = sequence_of(s.slot, s.branch);
      const unmask::index_t first = computed(s).first;
      llama_memory_seq_rm(memory, id, s.branch > 0 ? 0 : first, -1);
      if (s.branch > 0) {
        llama_memory_seq_cp(memory, sequence_of(s.slot, 0), id, 0, first);
      }
      first_rows_.push_back(row + s.rows.first - first);
      for (llama_pos p = first; p < s.keys.last; ++p, ++row) {
        unmask::token_id token =
            tokens[static_cast<std::size_t>(s.slot)][static_cast<std::size_t>(p)];
        for (const unmask::placement& placed : s.placed) {
          token = placed.position == p ? placed.token : token;
        }
        const int added = llama_batch_ext_add_token(batch_.get(), id, token);
        require(added == row, "a request larger than what was reserved, or a token that is none");
        llama_batch_ext_set_pos(batch_.get(), row, &p);
        const bool wanted = memory == nullptr || s.rows.contains(p);  // without memory: all or none
        llama_batch_ext_set_output_logits(batch_.get(), row, wanted);
      }
    }
    const int status = llama_process(context_.get(), LLAMA_PROCESS_TYPE_DECODE, batch_.get());
    require(status == 0, "llama_process returned " + std::to_string(status));
    logits_.clear();
    for (std::size_t i = 0; i < request.segments.size(); ++i) {
      logits_.emplace_back(llama_get_logits_ith(context_.get(), first_rows_[i]),
                           request.segments[i].rows.size(),
                           llama_vocab_n_tokens(vocab()));
    }
    return logits_;
  }

  /// Positions that every layer computes for a segment.
  unmask::range computed(const unmask::segment& s) const {
    const bool keeps = llama_get_memory(context_.get()) != nullptr;
    return {keeps ? s.query.first : s.keys.first, s.keys.last};
  }

  /// Keeps the K/V of one of the branches of a slot that the last request computed.
  void keep(unmask::index_t slot, unmask::index_t winner) {
    if (const llama_memory_t memory = llama_get_memory(context_.get()); winner > 0) {
      llama_memory_seq_rm(memory, sequence_of(slot, 0), 0, -1);
      llama_memory_seq_cp(memory, sequence_of(slot, winner), sequence_of(slot, 0), 0, -1);
    }
  }

 private:
  static void require(bool holds, const std::string& message) {
    if (!holds) {
      throw std::runtime_error(message);
    }
  }
  llama_seq_id sequence_of(unmask::index_t slot, unmask::index_t branch) const {
    return slot * branches_ + branch;
  }

  llama_cpp_settings settings_;
  llama_model_ptr model_;
  llama_context_ptr context_;
  llama_batch_ext_ptr batch_;
  unmask::index_t branches_ = 1;
  std::vector<int32_t> first_rows_;  // of each segment, in the batch
  std::vector<unmask::host_logits<float>> logits_;
};

}  // namespace example
