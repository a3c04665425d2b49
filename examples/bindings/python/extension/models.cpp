// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "models.hpp"

#include <unmask/named_policy.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <optional>
#include <string>

namespace unmask_python {

namespace nb = nanobind;
using namespace nb::literals;
using unmask::known_model;

namespace {

std::optional<int> token_of(unmask::token_id token) {
  return token == unmask::no_token ? std::nullopt : std::optional<int>(token);
}

nb::object model_or_none(const known_model* model) {
  return model == nullptr ? nb::none() : nb::cast(*model);
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<known_model>(m,
                          "Model",
                          "A released model: its word in texts, the policy that it means, and "
                          "the numbers that belong "
                          "to it.")
      .def_prop_ro(
          "word", [](const known_model& k) { return k.word; }, "In texts: 'model:llada2_1'.")
      .def_prop_ro(
          "models", [](const known_model& k) { return k.models; }, "The models, and the settings.")
      .def_prop_ro(
          "policy", [](const known_model& k) { return k.text; }, "The policy that the word means.")
      .def_ro("block_length",
              &known_model::block_length,
              "Positions of a block; 0: the whole answer is one.")
      .def_ro("answer_length",
              &known_model::answer_length,
              "Positions that are decoded unless one says otherwise.")
      .def_ro("whole_blocks",
              &known_model::whole_blocks,
              "Whether the sequence ends with a whole block.")
      .def_ro("beyond", &known_model::beyond, "Positions decoded right of the answer.")
      .def_prop_ro(
          "mask_token",
          [](const known_model& k) { return token_of(k.mask_token); },
          "None: there is none, or the tokenizer has it.")
      .def_prop_ro(
          "eos_tokens",
          [](const known_model& k) {
            nb::list all;
            for (const unmask::token_id token : k.eos_tokens) {
              if (token != unmask::no_token) {
                all.append(token);
              }
            }
            return nb::tuple(all);
          },
          nb::sig("def eos_tokens(self) -> tuple[int, ...]"),
          "EOS tokens, the first that of a Session; none where the tokenizer has them.")
      .def_ro("logits_shift", &known_model::logits_shift, "As that of a Session.")
      .def_ro("proposes_mask",
              &known_model::proposes_mask,
              "Whether the released code lets the mask token be proposed: suppress_mask=False.")
      .def_ro("temperature", &known_model::temperature, "Temperature of the policy's draws.")
      .def_prop_ro(
          "source",
          [](const known_model& k) { return k.source; },
          "What was read, with its version.")
      .def_prop_ro(
          "date", [](const known_model& k) { return k.date; }, "When it was read.")
      .def(
          "length",
          [](const known_model& k, int prompt_length, int answer_length) {
            return unmask::shape_of(k, prompt_length, answer_length).length;
          },
          "prompt_length"_a,
          "answer_length"_a = 0,
          "Length of a sequence with that answer, 0 for the model's own length: with what its last "
          "block needs, and with what is decoded beyond it. Tokens right of prompt_length + "
          "answer_length are not part of the answer.")
      .def("__repr__", [](const known_model& k) {
        return "Model('" + std::string(k.word) + "', policy='" + std::string(k.text) + "')";
      });
  m.def(
      "models",
      [] {
        nb::list all;
        for (const known_model& k : unmask::known_models()) {
          all.append(k);
        }
        return all;
      },
      nb::sig("def models() -> list[Model]"),
      "The released models that have a word.");
  m.def(
      "find_model",
      [](std::string_view word) { return model_or_none(unmask::find_model(word)); },
      "word"_a,
      nb::sig("def find_model(word: str) -> Model | None"),
      "The model with that word, with or without 'model:'.");
  m.def(
      "model_of",
      [](std::string_view type, std::string_view checkpoint) {
        return model_or_none(unmask::model_of(type, checkpoint));
      },
      "model_type"_a,
      "checkpoint"_a = "",
      nb::sig("def model_of(model_type: str, checkpoint: str = '') -> Model | None"),
      "The model for the `model_type` of a configuration, or the architecture of a GGUF file; the "
      "name "
      "of the checkpoint tells apart those of one type.");
  m.def("describe_models",
        &unmask::describe_models,
        "The released models that have a word, with their policies, numbers and sources, as text.");
}

}  // namespace unmask_python
