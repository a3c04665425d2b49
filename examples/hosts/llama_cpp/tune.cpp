// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches for a policy as unmask_tune does, with llama.cpp as the engine.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "demo/tuning.hpp"
#include "hosts/llama_cpp/decode.hpp"
#include "hosts/llama_cpp/numbers.hpp"
#include "hosts/llama_cpp/text.hpp"

namespace {

using unmask::index_t;

constexpr const char* more_help =
    "\n--model also takes a GGUF file. --batch N prompts run together (default 1);\n"
    "--gpu-layers N and --fast (flash attention, K/V in half precision) are those of\n"
    "unmask_llama_cpp. A search for the least layer_positions or seconds tries prefix_cache, too, "
    "where\n"
    "the file also has the keys of the architecture llama.\n";

/// libllama, opened without a memory and, once a policy has a cache, with one.
class llama_cpp_engine final : public demo::search_engine {
 public:
  llama_cpp_engine(const demo::search_options& o,
                   example::llama_cpp_settings settings,
                   std::span<const demo::problem> problems)
      : o_(o)
      , settings_(settings)
      , slots_(o.demo.batch.value_or(1)) {
    settings_.threads = o.demo.threads;
    const example::llama_cpp_host& host = open(false);
    for (const demo::problem& p : problems) {
      jobs_.push_back(job_of(p, host));
      const unmask::sequence_shape& shape = jobs_.back().shape;
      longest_ = std::max(longest_, shape.length);
      window_ = std::max(window_, shape.length - shape.prompt_length);
    }
  }

  std::vector<demo::search_result> decode(const std::string& policy,
                                          std::span<const index_t> chosen) override {
    const unmask::named_policy parts = unmask::read_policy(policy);
    example::llama_cpp_host& host = open(example::uses_cache("'" + policy + "'", parts));
    const unmask::session_capacity capacity{.sequences = slots_,
                                            .length = longest_,
                                            .window = window_,
                                            .branches = parts.lookahead.branches};
    unmask::named_session session(parts, host.info(), capacity);
    index_t& reserved = branches_[parts.cache.count == 0 ? 0 : 1];
    if (capacity.branches > reserved) {  // a context takes longer to make than a decode
      host.reserve(capacity);
      reserved = capacity.branches;
    }
    std::vector<example::job> jobs;
    for (const index_t p : chosen) {
      jobs.push_back(jobs_[static_cast<std::size_t>(p)]);
    }
    example::decode(host, session, slots_, jobs, [](auto&&...) {});
    std::vector<demo::search_result> results;
    for (example::job& j : jobs) {
      j.tokens.erase(j.tokens.begin(), j.tokens.begin() + j.shape.prompt_length);
      results.push_back({{.forwards = static_cast<double>(j.report.forwards),
                          .segments = static_cast<double>(j.segments),
                          .layer_positions = static_cast<double>(j.layer_positions),
                          .seconds = j.forward_seconds},
                         j.tokens,
                         example::text_of(host.vocab(), j.tokens)});
    }
    return results;
  }

 private:
  example::llama_cpp_host& open(bool cache) {
    std::optional<example::llama_cpp_host>& host = hosts_[cache ? 1 : 0];
    if (!host) {
      settings_.cache = cache;
      try {
        host.emplace(o_.demo.model_file.string(), settings_);
      } catch (const std::runtime_error& e) {
        if (!cache) {
          throw;
        }
        throw std::invalid_argument(e.what());  // the search goes on without caches
      }
    }
    return *host;
  }

  example::job job_of(const demo::problem& p, const example::llama_cpp_host& host) const {
    const demo::geometry& shape = o_.demo.shape;
    example::job j = example::job_of(example::tokens_of(host.vocab(), p.prompt, false),
                                     host,
                                     demo::answer_length(p, shape),
                                     shape.block_length);
    const auto answer = j.tokens.begin() + j.shape.prompt_length;
    if (!p.given.empty()) {
      const auto given = example::tokens_of_given(host.vocab(), p.given);
      unmask::check_argument(std::ssize(given) == j.tokens.end() - answer,
                             "tokens of a given answer",
                             given.size(),
                             "as many as the answer has positions, ",
                             j.tokens.end() - answer);
      std::ranges::copy(given, answer);
    }
    j.shape.seed = shape.seed;
    for (const unmask::token_id token : j.tokens) {
      j.editable.push_back(token == host.info().mask_token ? 1 : 0);
    }
    return j;
  }

  const demo::search_options& o_;
  example::llama_cpp_settings settings_;
  index_t slots_;
  std::optional<example::llama_cpp_host> hosts_[2];
  std::vector<example::job> jobs_;
  index_t branches_[2] = {-1, -1};  // for which there is room
  index_t longest_ = 0, window_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  example::llama_cpp_settings settings;
  return demo::run_search(
      {.name = "unmask_llama_cpp_tune",
       .make =
           [&](const demo::search_options& o, std::span<const demo::problem> problems) {
             return std::make_unique<llama_cpp_engine>(o, settings, problems);
           },
       .help = more_help,
       .read =
           [&](const std::string& name, const std::function<std::string()>& value) {
             if (name == "--gpu-layers") {
               settings.gpu_layers = example::whole_number(name, value(), 0);
             } else if (name == "--fast") {
               settings.exact = false;
             } else {
               return false;
             }
             return true;
           }},
      {arguments + 1, arguments + count});
}
