// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes a masked diffusion language model with llama.cpp as the engine and any policy.
#include <unmask/language.hpp>
#include <unmask/named_policy.hpp>
#include <unmask/trace.hpp>
#include <unmask/unmask.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "demo/problems.hpp"
#include "demo/replay.hpp"
#include "demo/terminal.hpp"
#include "hosts/llama_cpp/decode.hpp"
#include "hosts/llama_cpp/numbers.hpp"
#include "hosts/llama_cpp/released.hpp"
#include "hosts/llama_cpp/text.hpp"

namespace {

using unmask::index_t;

constexpr const char* help = R"(usage: unmask_llama_cpp [options]

Decodes masked diffusion language models (GGUF files of the LLaDA and Dream architectures) with
llama.cpp as the engine and a policy of unmask.

  --model FILE          GGUF file (default: examples/tiny_llada/tiny-f16.gguf)
  --policy TEXT         parts joined by '+', such as 'by_entropy + entropy_bound(0.1) + lookahead(3) +
                        stop_at_eos', or the word of a model, 'model:llada'; may be repeated. Default:
                        the word for the architecture of the file, which is printed, or if it has none
                        'trace_credit + threshold(0.9)'. With prefix_cache what stands left of the
                        block keeps its K/V; dual_cache, block_cache and interval_cache run to the end
                        of the sequence, too
  --prompt TEXT         decode this text; may be repeated
  --special             special tokens may be spelled out in prompts, as a chat template does
  --prompts FILE        lines of JSON {task, prompt, answer} (default: those of the tiny model)
  --limit N             prompts of each task of such a file, 0 for all (default 2)
  --length N            positions of the answer (default: those of the model's word, or 40)
  --block-length N      positions denoised together (default: those of the model's word, or 20)
  --batch N             prompts decoded together (default 1)
  -j, --json-schema SCHEMA, -jf, --json-schema-file FILE
                        every answer is JSON that obeys this schema, {} for any JSON
  --grammar TEXT, --grammar-file FILE
                        every answer is a text of this grammar, GBNF as llama.cpp has it
  --regex TEXT          every answer matches this expression, of ECMA-262, from its first byte to
                        its last
  --structural-tag JSON every answer has texts between tags, as SGLang and vLLM define them
  --constraint FILE     every answer obeys the language in this file, which
                        unmask.constraints.save() of Python writes
  --seed N              of policies that draw random numbers (default 0)
  --threads N           threads of llama.cpp (default 1)
  --gpu-layers N        layers that llama.cpp moves to a GPU (default 0)
  --fast                flash attention and K/V in half precision, as llama.cpp decides
  --trace FILE          write the decode of the one policy as a trace, too; - is the standard output
  --replay FILE         decode a trace again instead, of any engine with the same tokens, and compare
                        its log-probabilities with those of this model
  --json                one JSON object a prompt, and nothing else
  --quiet               only the summary
  --verbose             what llama.cpp logs, on standard error
  --help                this text, and the parts of policies

parts
)";

/// An option that says what every answer is, and how its text becomes an automaton.
struct language_option {
  std::string_view name, also;
  unmask::language::compiled (*compile)(std::string_view text, std::uint64_t longest);
  bool is_file = false;
};
unmask::language::compiled schema(std::string_view text, std::uint64_t longest) {
  return unmask::language::compile_schema(text, {.limits = {}, .longest = longest});
}
unmask::language::compiled grammar(std::string_view text, std::uint64_t /*longest*/) {
  return unmask::language::compile_grammar(text);
}
unmask::language::compiled expression(std::string_view text, std::uint64_t /*longest*/) {
  return unmask::language::compile_expression(text);
}
unmask::language::compiled structural_tag(std::string_view text, std::uint64_t longest) {
  return unmask::language::compile_structural_tag(text, {.limits = {}, .longest = longest});
}
constexpr language_option language_options[] = {{"--json-schema", "-j", schema},
                                                {"--json-schema-file", "-jf", schema, true},
                                                {"--grammar", "", grammar},
                                                {"--grammar-file", "", grammar, true},
                                                {"--regex", "", expression},
                                                {"--structural-tag", "", structural_tag},
                                                {"--constraint", "", nullptr, true}};

struct options {
  std::string model = UNMASK_EXAMPLES_DIR "/tiny_llada/tiny-f16.gguf";
  std::string prompts_file = UNMASK_EXAMPLES_DIR "/tiny_llada/prompts.jsonl";
  std::string trace, replay;
  const language_option* language = nullptr;  // of the answers; null: any text
  std::string language_text;                  // or the name of its file
  std::vector<std::string> policies, prompts;
  index_t length = 0, block_length = 0, batch = 1;  // 0: as the policy says
  int limit = 2, threads = 1, gpu_layers = 0;
  std::uint64_t seed = 0;
  bool special = false, fast = false, json = false, quiet = false, verbose = false;
};

const language_option* find_language(std::string_view name) {
  const auto* const found = std::ranges::find_if(language_options, [name](const auto& l) {
    return name == l.name || (!l.also.empty() && name == l.also);
  });
  return found == std::end(language_options) ? nullptr : found;
}

/// The options, or nothing if help was requested.
std::optional<options> parse(std::span<char*> arguments) {
  options o;
  const std::map<std::string, bool*> flags{{"--special", &o.special},
                                           {"--fast", &o.fast},
                                           {"--json", &o.json},
                                           {"--quiet", &o.quiet},
                                           {"--verbose", &o.verbose}};
  const std::map<std::string, std::pair<int*, int>> numbers{
      {"--limit", {&o.limit, 0}},
      {"--length", {&o.length, 1}},
      {"--batch", {&o.batch, 1}},
      {"--block-length", {&o.block_length, 1}},
      {"--threads", {&o.threads, 1}},
      {"--gpu-layers", {&o.gpu_layers, 0}}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i];
    if (name == "--help") {
      return {};
    }
    if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (i + 1 == arguments.size()) {
      throw std::invalid_argument("option '" + name + "' must be one of those that --help lists, " +
                                  "with its value");
    }
    const std::string value = arguments[++i];
    if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second.first = example::whole_number(name, value, number->second.second);
    } else if (name == "--model") {
      o.model = value;
    } else if (name == "--prompts") {
      o.prompts_file = value;
    } else if (name == "--trace") {
      o.trace = value;
    } else if (name == "--replay") {
      o.replay = value;
    } else if (const auto* const language = find_language(name); language != nullptr) {
      if (o.language != nullptr) {
        throw std::invalid_argument(name + " must be left out: " + std::string(o.language->name) +
                                    " says what the answers are");
      }
      o.language = language;
      o.language_text = value;
    } else if (name == "--policy") {
      o.policies.push_back(value);
    } else if (name == "--prompt") {
      o.prompts.push_back(value);
    } else if (name == "--seed") {
      o.seed = static_cast<std::uint64_t>(example::whole_number(name, value, 0));
    } else {
      throw std::invalid_argument("option '" + name + "' must be one of those that --help lists");
    }
  }
  if (!o.replay.empty() && !o.policies.empty()) {
    throw std::invalid_argument("--policy must be left out with --replay, whose trace names it, "
                                "got '" +
                                o.policies.front() + "'");
  }
  if (!o.replay.empty() && o.language != nullptr) {
    throw std::invalid_argument(std::string(o.language->name) +
                                " must be left out with --replay, which decodes as the trace did");
  }
  if (!o.trace.empty() && o.policies.size() > 1) {
    throw std::invalid_argument("--trace must be given with one --policy, got '" + o.trace + "'");
  }
  return o;
}

std::vector<demo::problem> problems_of(const options& o) {
  if (o.prompts.empty()) {
    return demo::choose(demo::read_problems(o.prompts_file), {}, o.limit);
  }
  std::vector<demo::problem> problems;
  for (const std::string& text : o.prompts) {
    problems.push_back({.task = "prompt", .prompt = text, .answer = {}, .answered = false});
  }
  return problems;
}

/// A policy as it was written, its parts, and the lengths of answers and blocks: those that options
/// give, or of the model whose word it has.
struct named {
  std::string text;
  unmask::named_policy parts;
  bool cache = false;
  unmask::known_model lengths;
};

unmask::known_model lengths_of(const options& o, const std::string& policy) {
  const unmask::known_model* const model = example::model_in(policy);
  unmask::known_model lengths{};
  if (model != nullptr) {
    lengths = *model;
  } else {
    lengths.answer_length = 40;
    lengths.block_length = 20;
  }
  lengths.answer_length = o.length > 0 ? o.length : lengths.answer_length;
  lengths.block_length = o.block_length > 0 ? o.block_length : lengths.block_length;
  return lengths;
}

std::vector<named> policies_of(const options& o) {
  std::vector<std::string> texts = o.policies;
  if (texts.empty()) {
    const unmask::known_model* const released = example::released_model(o.model);
    texts.emplace_back(released == nullptr ? "trace_credit + threshold(0.9)" : released->word);
    if (released != nullptr) {
      std::cerr << "policy " << released->word
                << ", by the file's architecture: " << released->models << '\n';
    }
  }
  std::vector<named> policies;
  for (const std::string& text : texts) {
    const unmask::named_policy parts = unmask::read_policy(text);
    policies.push_back(
        {text, parts, example::uses_cache("--policy '" + text + "'", parts), lengths_of(o, text)});
  }
  return policies;
}

/// The automaton of the language of the answers, which are any text if there is none. Throws
/// std::invalid_argument with the option and the place of the error.
std::optional<unmask::byte_table> language_of(const options& o, std::span<const named> policies) {
  if (o.language == nullptr) {
    return {};
  }
  std::string at = std::string(o.language->name) + ": ";
  std::string text = o.language_text;
  if (o.language->is_file) {
    at = std::string(o.language->name) + " '" + text + "': ";
    try {
      if (o.language->compile == nullptr) {
        return unmask::read_byte_table(text);
      }
      text = unmask::contents_of_file(text);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(at + e.what());
    }
  }
  index_t longest = 0;
  for (const named& p : policies) {
    longest = std::max(longest, p.lengths.answer_length);
  }
  const auto made = o.language->compile(
      text, std::uint64_t{example::most_token_bytes} * static_cast<std::uint64_t>(longest));
  if (!made) {
    throw std::invalid_argument(at + made.refused->message);
  }
  return made.bytes.table();
}

/// Replays a trace; a host with a memory is made for a policy with a cache. Returns the status.
int replay_all(const options& o) {
  std::optional<example::llama_cpp_host> host;
  bool has_cache = false;
  const auto open = [&](bool cache) {
    if (!host || cache != has_cache) {
      host.reset();
      host.emplace(
          o.model,
          example::llama_cpp_settings{
              .cache = cache, .exact = !o.fast, .gpu_layers = o.gpu_layers, .threads = o.threads});
      has_cache = cache;
    }
  };
  open(false);
  const demo::replay_engine engine{
      .info = host->info(),
      .begin =
          [&](const unmask::named_policy& parts, index_t length) {
            open(example::uses_cache("the policy of --replay", parts));
            host->reserve({.sequences = 1, .length = length, .window = length});
          },
      .forward =
          [&](auto&, const auto& request, auto tokens) { return host->forward(request, tokens); }};
  return demo::replay(o.replay, engine) ? 0 : 1;
}

/// Prints the committed part of an answer as it grows.
class stream {
 public:
  explicit stream(const llama_vocab* vocab)
      : vocab_(vocab) {}

  void see(const example::job& j) {
    const auto answer = j.answer();
    const bool ended = j.report.end != unmask::ending::running;
    const index_t end = std::min(
        {ended ? j.shape.length : j.report.committed_prefix, j.report.answer_end, j.answer_end()});
    const std::string text = example::text_of(
        vocab_, answer.first(static_cast<std::size_t>(end - j.shape.prompt_length)));
    if (text.starts_with(shown_)) {
      std::fputs(text.c_str() + shown_.size(), stdout);
      shown_ = text;
    } else if (ended) {  // a policy that rewrites what was committed
      std::printf("\n%s", text.c_str());
    }
    std::fflush(stdout);
  }

 private:
  const llama_vocab* vocab_;
  std::string shown_;
};

struct totals {
  int prompts = 0, answered = 0, exact = 0;
  std::int64_t forwards = 0, tokens = 0;
  double forward_seconds = 0.0, policy_seconds = 0.0;
};

/// Decodes all problems with one policy and prints what became of each.
totals run(example::llama_cpp_host& host,
           const named& policy,
           std::span<const demo::problem> problems,
           std::vector<example::job> jobs,
           const unmask::session_capacity& capacity,
           const options& o) {
  const bool streaming = !o.json && !o.quiet && o.batch == 1;
  totals sum;
  unmask::session_capacity with_trace = capacity;
  with_trace.trace = !o.trace.empty();
  unmask::named_session session(policy.parts, host.info(), with_trace);
  std::optional<unmask::trace_file> file;
  std::optional<unmask::trace_writer> trace;
  if (!o.trace.empty()) {
    file.emplace(o.trace);
    trace.emplace(*file,
                  unmask::trace_head{.model = std::filesystem::path(o.model).filename().string(),
                                     .info = host.info(),
                                     .policy = policy.text,
                                     .parts = unmask::part_texts(policy.text),
                                     .text = [&host](unmask::token_id token) {
                                       return example::text_of(host.vocab(), {&token, 1});
                                     }});
  }
  std::optional<demo::progress> progress;
  if (!streaming) {
    progress.emplace(policy.text, problems.size());
  }
  std::optional<stream> shown;
  const auto see = [&](const example::job& j, auto&, index_t) {
    const demo::problem& p = problems[static_cast<std::size_t>(&j - jobs.data())];
    if (streaming && !shown) {
      std::printf("> %s\n", p.prompt.c_str());
      shown.emplace(host.vocab());
    }
    if (streaming) {
      shown->see(j);
    }
    if (j.report.end == unmask::ending::running) {
      return;
    }
    shown.reset();
    const auto answer = j.answer();
    const std::string text = example::text_of(host.vocab(), answer);
    const bool exact = p.answered && text == p.answer;
    const auto tokens = std::ranges::find_if(
        answer, [&](auto token) { return llama_vocab_is_eog(host.vocab(), token); });
    ++sum.prompts;
    sum.answered += p.answered ? 1 : 0;
    sum.exact += exact ? 1 : 0;
    sum.forwards += j.report.forwards;
    sum.tokens += j.report.committed;
    sum.forward_seconds += j.forward_seconds;
    sum.policy_seconds += j.policy_seconds;
    if (progress) {
      progress->done(static_cast<std::size_t>(sum.prompts));
    }
    if (o.json) {
      nlohmann::json record{{"policy", policy.text},
                            {"task", p.task},
                            {"prompt", p.prompt},
                            {"text", text},
                            {"end", unmask::name_of(j.report.end)},
                            {"forwards", j.report.forwards},
                            {"committed", j.report.committed},
                            {"tokens_per_forward", j.report.tokens_per_forward()},
                            {"answer_tokens", tokens - answer.begin()},
                            {"forced", j.report.forced},
                            {"rewritten", j.report.rewritten},
                            {"tokens", std::vector(answer.begin(), answer.end())},
                            {"forward_seconds", j.forward_seconds},
                            {"policy_seconds", j.policy_seconds}};
      if (p.answered) {
        record["answer"] = p.answer;
        record["exact"] = exact;
      }
      std::cout << record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                << std::endl;
    } else if (!o.quiet) {
      std::printf(
          "%s  %s: %d forwards, %.1f tokens a forward, %.1f ms in llama.cpp, %.2f ms in the "
          "policy\n",
          streaming ? "\n" : (text + "\n").c_str(),
          policy.text.c_str(),
          j.report.forwards,
          j.report.tokens_per_forward(),
          1e3 * j.forward_seconds,
          1e3 * j.policy_seconds);
    }
  };
  example::decode(host, session, o.batch, jobs, see, trace ? &*trace : nullptr);
  if (trace && !trace->ok()) {
    throw std::runtime_error(file->error());
  }
  return sum;
}

int decode_all(const options& o) {
  const std::vector<named> policies = policies_of(o);
  const std::optional<unmask::byte_table> table = language_of(o, policies);
  const bool cache = std::ranges::any_of(policies, &named::cache);
  example::llama_cpp_host host(
      o.model,
      {.cache = cache, .exact = !o.fast, .gpu_layers = o.gpu_layers, .threads = o.threads});
  const std::vector<demo::problem> problems = problems_of(o);
  std::optional<unmask::constraint> language;
  if (table) {
    language.emplace(table->view(),
                     example::vocabulary_of(host.vocab(), host.info()),
                     unmask::constraint_limits{.states = 1U << 16U});
  }
  unmask::session_capacity capacity{.sequences = o.batch, .length = 0, .window = 0};
  std::vector<std::vector<example::job>> jobs(policies.size());
  for (std::size_t i = 0; i < policies.size(); ++i) {
    capacity.branches = std::max(capacity.branches, policies[i].parts.lookahead.branches);
    for (const demo::problem& p : problems) {
      jobs[i].push_back(example::job_of(
          example::tokens_of(host.vocab(), p.prompt, o.special), host, policies[i].lengths));
      example::job& j = jobs[i].back();
      j.shape.seed = o.seed;
      j.shape.sequence = static_cast<std::uint32_t>(jobs[i].size() - 1);
      j.language = language ? &*language : nullptr;
      capacity.length = std::max(capacity.length, j.shape.length);
      capacity.window = std::max(capacity.window, j.shape.length - j.shape.prompt_length);
    }
  }
  host.reserve(capacity);
  std::vector<totals> sums;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    sums.push_back(run(host, policies[i], problems, jobs[i], capacity, o));
  }
  if (o.json) {
    return 0;
  }
  std::size_t width = std::string_view("policy").size();
  for (const named& policy : policies) {
    width = std::max(width, policy.text.size());
  }
  std::printf("\n%-*s %9s %9s %8s %10s %12s %12s\n",
              static_cast<int>(width),
              "policy",
              "prompts",
              "exact",
              "forwards",
              "tokens/fwd",
              "ms llama.cpp",
              "ms policy");
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const totals& t = sums[i];
    std::printf(
        "%-*s %9d %9s %8lld %10.2f %12.1f %12.2f\n",
        static_cast<int>(width),
        policies[i].text.c_str(),
        t.prompts,
        t.answered > 0 ? (std::to_string(t.exact) + "/" + std::to_string(t.answered)).c_str() : "-",
        static_cast<long long>(t.forwards),
        static_cast<double>(t.tokens) / static_cast<double>(t.forwards),
        1e3 * t.forward_seconds,
        1e3 * t.policy_seconds);
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const std::optional<options> o = parse({arguments + 1, arguments + count});
    if (!o) {
      std::cout << help << unmask::describe_parts();
      return 0;
    }
    if (!o->verbose) {
      llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    }
    return o->replay.empty() ? decode_all(*o) : replay_all(*o);
  } catch (const std::exception& e) {
    std::cerr << "unmask_llama_cpp: " << e.what() << '\n';
    return 2;
  }
}
