// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named/known_part.hpp>

namespace UNMASK_NAMESPACE {

namespace detail::table {

[[nodiscard]] constexpr std::array<token_id, 3>
these(token_id first, token_id second = no_token, token_id third = no_token) {
  return {first, second, third};
}

// Rows of models that share numbers.
[[nodiscard]] constexpr known_model llada(known_model row) {
  row.block_length = 32;
  row.mask_token = 126336;
  row.eos_tokens = these(126081, 126348);
  row.proposes_mask = true;
  return row;
}
[[nodiscard]] constexpr known_model llada2(known_model row) {
  row.block_length = 32;
  row.answer_length = 2048;
  row.whole_blocks = true;
  row.mask_token = 156895;
  row.eos_tokens[0] = 156892;
  return row;
}
[[nodiscard]] constexpr known_model dream(known_model row) {
  row.mask_token = 151666;
  row.eos_tokens = these(151643);
  row.logits_shift = 1;
  row.proposes_mask = true;
  row.types = "dream";
  return row;
}
[[nodiscard]] constexpr known_model nemotron(known_model row) {
  row.answer_length = 512;
  row.mask_token = 100;
  row.eos_tokens = these(11);
  row.proposes_mask = true;
  return row;
}
[[nodiscard]] constexpr known_model diffusion_gemma(known_model row) {
  row.answer_length = 256;
  row.eos_tokens = these(1, 106, 50);
  row.proposes_mask = true;
  return row;
}

// The models by name. One that shares its type with others comes before the one without a
// `checkpoint`, which is taken for the rest.
inline constexpr known_model models[] = {
    llada({.word = "model:d3llm",
           .models = "d3LLM over LLaDA: certain tokens by entropy, several blocks at a time",
           .text =
               "by_entropy + entropy_below(0.5) + block_pipeline(0.1, 1, 64, whole_canvas=true, "
               "ends_at_eos=false) + stop_at_eos",
           .answer_length = 256,
           .types = "llada",
           .checkpoint = "d3llm",
           .source = "hao-ai-lab/d3LLM e5bfcac, d3llm_LLaDA/d3llm_llada_generate_util.py",
           .date = "2026-11-27"}),
    llada({.word = "model:llada",
           .models = "LLaDA 8B and 1.5: 32 steps for each block",
           .text = "steps_per_block(32)",
           .answer_length = 128,
           .types = "llada",
           .source = "ML-GSAI/LLaDA b7e6c35, generate.py and its README",
           .date = "2026-11-20"}),
    {.word = "model:llada_moe",
     .models = "LLaDA-MoE 7B-A1B: 32 steps for each block",
     .text = "steps_per_block(32)",
     .block_length = 32,
     .answer_length = 128,
     .mask_token = 156895,
     .eos_tokens = these(156892),
     .proposes_mask = true,
     .types = "llada_moe",
     .source = "inclusionAI/LLaDA-MoE-7B-A1B-Instruct, model card",
     .date = "2026-11-29"},
    llada2({.word = "model:llada2_1_speed",
            .models = "LLaDA2.1 mini and flash, its speed settings: needs the edits",
            .text = "any_of(threshold(0.5), tokens_per_step(1)) + edit_committed(0) + "
                    "edited_blocks(16, aligned=true, ends_at_eos=true)",
            .proposes_mask = true,
            .source = "inclusionAI/LLaDA2.1, model card and modeling_llada2_moe.py, as in "
                      "ZHZisZZ/dllm ca17675",
            .date = "2026-11-28"}),
    llada2({.word = "model:llada2_1",
            .models = "LLaDA2.1 mini and flash, its quality settings",
            .text = "any_of(threshold(0.7), tokens_per_step(1)) + edit_committed(0.5) + "
                    "edited_blocks(16, aligned=true, ends_at_eos=true)",
            .proposes_mask = true,
            .types = "llada2_moe",
            .checkpoint = "llada2.1",
            .source = "inclusionAI/LLaDA2.1, model card and modeling_llada2_moe.py, as in "
                      "ZHZisZZ/dllm ca17675",
            .date = "2026-11-28"}),
    llada2({.word = "model:llada2_1_fluxserve",
            .models = "LLaDA2.1 in FluxServe: a confidence of the threshold commits",
            .text = "threshold(0.7, inclusive=true) + edit_committed(0.5) + "
                    "edited_blocks(16, aligned=true, ends_at_eos=true)",
            .source = "FLX-OSS/FluxServe 7f2bfb0, decoders/llada/joint_threshold.py",
            .date = "2026-11-28"}),
    llada2({.word = "model:llada2_2",
            .models = "LLaDA2.2 mini and flash: erases and inserts, as SGLang decides it",
            .text = "joint_threshold_indel(0.5, 0, 16, 156930, 156931)",
            .eos_tokens = these(156892, 156900),
            .proposes_mask = true,
            .types = "llada2_moe",
            .checkpoint = "llada2.2",
            .source = "SGLang 0.5.23, srt/dllm/algorithm/joint_threshold_indel.py",
            .date = "2026-11-27"}),
    llada2({.word = "model:llada2",
            .models = "LLaDA2.0 mini and flash, CAP included",
            .text = "any_of(threshold(0.95), steps_per_block(32, whole_block=true)) + "
                    "semi_autoregressive(aligned=true) + stop_at_eos(whole_block=true)",
            .proposes_mask = true,
            .types = "llada2_moe",
            .source = "inclusionAI/LLaDA2.0, modeling_llada2_moe.py, as in ZHZisZZ/dllm ca17675",
            .date = "2026-11-28"}),
    llada2(
        {.word = "model:llada2_mlx",
         .models = "LLaDA2.0 and 2.1 in mlx-vlm: no edits, 32 passes a block at most",
         .text =
             "threshold(0.95) + edited_blocks(0, aligned=true, ends_at_eos=true, most_forwards=32)",
         .proposes_mask = true,
         .source = "mlx-vlm 0.7.10, models/llada2_moe/language.py",
         .date = "2026-11-28"}),
    dream({.word = "model:diffucoder",
           .models = "DiffuCoder 7B: Dream's sampler at temperature 0.4, a token a step",
           .text = "by_entropy + timesteps(256) + single_block + temperature(0.4) + sampling + "
                   "top_p(0.95) + confidence_after_truncation",
           .answer_length = 256,
           .temperature = 0.4F,
           .checkpoint = "diffucoder",
           .source = "apple/ml-diffucoder, its demonstration",
           .date = "2026-11-28"}),
    dream({.word = "model:dream",
           .models = "Dream 7B: 512 steps by entropy at temperature 0.2",
           .text = "by_entropy + timesteps(512) + single_block + temperature(0.2) + sampling + "
                   "top_p(0.95) + confidence_after_truncation",
           .answer_length = 512,
           .temperature = 0.2F,
           .source = "HKUNLP/Dream, generation_utils.py and its README",
           .date = "2026-11-20"}),
    {.word = "model:sdar",
     .models = "SDAR 1.7B to 30B, TraDo",
     .text = "any_of(threshold(0.85), steps_per_block(4, whole_block=true)) + "
             "semi_autoregressive(aligned=true) + sampling(1) + stop_at_eos(whole_block=true)",
     .block_length = 4,
     .answer_length = 2048,
     .whole_blocks = true,
     .mask_token = 151669,
     .eos_tokens = these(151643),
     .proposes_mask = true,
     .temperature = 1.0F,
     .types = "sdar|sdar_moe",
     .source = "JetAstra/SDAR c2041a8, generate.py",
     .date = "2026-11-28"},
    {.word = "model:fast_dllm_v2",
     .models = "Fast-dLLM v2 1.5B and 7B: sub-blocks of 8, the first token of a block from a store",
     .text = "threshold(0.9) + seeded_blocks(aligned=true, sub_block=8) + stop_at_eos",
     .block_length = 32,
     .answer_length = 2048,
     .whole_blocks = true,
     .mask_token = 151665,
     .eos_tokens = these(151645),
     .logits_shift = 1,
     .proposes_mask = true,
     .types = "fast_dllm_qwen",
     .source = "Efficient-Large-Model/Fast_dLLM_v2_7B, modeling.py, as in Satgoy152/DualDiffusion "
               "d3a3470",
     .date = "2026-11-28"},
    nemotron(
        {.word = "model:nemotron_dlm",
         .models = "Nemotron-Labs-Diffusion 3B, 8B, 14B: blocks with a causal first token",
         .text = "threshold(0.9, inclusive=true) + seeded_blocks(causal=true) + stop_at_eos",
         .block_length = 32,
         .types = "nemotron_labs_diffusion",
         .source =
             "NVIDIA, modeling_nemotron_labs_diffusion.py; FluxServe 3be102e, decoders/nemotron.py",
         .date = "2026-11-28"}),
    nemotron(
        {.word = "model:nemotron_mlx",
         .models = "Nemotron-Labs-Diffusion in mlx-vlm, diffusion mode: at most 32 passes a block",
         .text = "any_of(threshold(0.9, inclusive=true), block_deadline(33)) + "
                 "seeded_blocks(causal=true) + stop_at_eos(whole_block=true)",
         .block_length = 32,
         .source = "mlx-vlm 0.7.10, models/nemotron_labs_diffusion/language.py",
         .date = "2026-11-28"}),
    nemotron(
        {.word = "model:nemotron_linear_spec",
         .models =
             "Nemotron-Labs-Diffusion, linear self-speculation: drafts that a causal pass checks",
         .text = "threshold(0, inclusive=true) + self_speculation(32, 8) + stop_at_eos",
         .source = "mlx-vlm 0.7.10, models/nemotron_labs_diffusion/language.py",
         .date = "2026-11-27"}),
    {.word = "model:wedlm",
     .models = "WeDLM 7B and 8B: entropy and distance, a window of 16 masked positions",
     .text = "by_entropy_and_distance(0.02) + entropy_below(0.4, 0.02) + sliding_block(16) + "
             "sampling(0.2) + stop_at_eos",
     .answer_length = 1024,
     .beyond = 16,
     .proposes_mask = true,
     .temperature = 0.2F,
     .types = "wedlm",
     .source = "Tencent/WeDLM 0216110, wedlm/engine/wedlm_decoder.py and sampler.py",
     .date = "2026-11-28"},
    {.word = "model:stable_diffcoder",
     .models = "Stable-DiffCoder 8B: a token a step in blocks of 4",
     .text = "any_of(threshold(1), steps_per_block(4)) + semi_autoregressive(aligned=true) + "
             "stop_at_eos(whole_block=true)",
     .block_length = 4,
     .answer_length = 512,
     .mask_token = 5,
     .proposes_mask = true,
     .types = "stable_diffcoder",
     .source = "ByteDance-Seed/Stable-DiffCoder-8B-Instruct, modeling_stable_diffcoder.py and card",
     .date = "2026-11-28"},
    diffusion_gemma(
        {.word = "model:diffusion_gemma",
         .models = "DiffusionGemma 26B-A4B in transformers: a canvas by entropy",
         .text = "by_entropy + entropy_bound(0.1) + canvas(48, 0.4, 0.8, 1, 0.005)",
         .temperature = 0.8F,
         .types = "diffusion_gemma",
         .source = "transformers 5.24.0, models/diffusion_gemma/generation_diffusion_gemma.py",
         .date = "2026-11-28"}),
    diffusion_gemma(
        {.word = "model:diffusion_gemma_mlx",
         .models = "DiffusionGemma 26B-A4B in mlx-vlm: certain positions of a canvas keep tokens",
         .text = "any_of(threshold(0.9, inclusive=true), tokens_per_step(1)) + "
                 "canvas(48, 0.4, 0.8, 1, 0.005, absorbing=true, draws=false)",
         .source = "mlx-vlm 0.7.10, mlx_vlm/generate/diffusion.py",
         .date = "2026-11-28"}),
};

}  // namespace detail::table

}  // namespace unmask
