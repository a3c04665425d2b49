// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decodes prompts with a tiny masked diffusion language model under several policies: shows answers
// filling in, then prints what each policy got right and what it cost. `--help` lists the options.
#include <unmask/named_policy.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "demo/check.hpp"
#include "demo/frontier.hpp"
#include "demo/live.hpp"
#include "demo/measure.hpp"
#include "demo/options.hpp"
#include "demo/replay.hpp"
#include "demo/summary.hpp"
#include "demo/terminal.hpp"
#include "demo/version.hpp"
#include "demo/viewer_page.hpp"

namespace {

using namespace demo;

constexpr int interrupted_status = 130;

constexpr std::string_view next_steps =
    "\nnext\n"
    "  --policy \"threshold(0.9) + trace_credit\"       any policy; --parts lists the parts\n"
    "  --policy \"threshold(0.9)\" --html decode.html   a page that shows the decode\n"
    "  --model sudoku --no-live                       puzzles, which tell policies apart better\n"
    "  --all                                          every policy that has a name here\n";

std::vector<problem> wanted_problems(const options& o) {
  std::vector<problem> problems;
  if (o.prompts.empty() || !o.prompts_file.empty()) {
    const auto all = read_problems(o.prompts_file.empty() ? o.held_prompts : o.prompts_file);
    try {
      problems = choose(all, o.tasks, o.limit.value_or(o.check_file.empty() ? 8 : 0), o.skip);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(std::string("--task ") + e.what());
    }
  }
  if (problems.empty() && o.prompts.empty()) {
    throw std::invalid_argument("--skip must be less than the number of prompts of a task, got '" +
                                std::to_string(o.skip) + "'");
  }
  for (const std::string& text : o.prompts) {
    problems.push_back({.task = "prompt", .prompt = text, .answer = "", .answered = false});
  }
  return problems;
}

/// Fails early for a prompt that the model can not decode.
void check_prompts(const engine& model, std::span<const problem> problems, const geometry& shape) {
  for (const problem& p : problems) {
    try {
      static_cast<void>(model.canvas(p.prompt, answer_length(p, shape), p.given));
      static_cast<void>(right_tokens(model.text(), p));
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument("prompt '" + p.prompt + "': " + e.what());
    }
  }
}

/// Fails early for a knob out of range, which a policy checks when a sequence starts.
void check_policies(std::span<const chosen_policy> policies,
                    engine& model,
                    std::span<const problem> problems,
                    const options& o) {
  const problem& first = problems.front();
  const index_t answer = answer_length(first, o.shape);
  std::vector<token_id> tokens = model.canvas(first.prompt, answer, first.given);
  const auto length = static_cast<index_t>(tokens.size());
  for (const chosen_policy& policy : policies) {
    try {
      session_of(policy, model, problems, o, 1)
          ->start(0,
                  tokens,
                  {.prompt_length = model.prompt_length(first.prompt),
                   .length = length,
                   .block_length = o.shape.block_length});
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument("--policy " + policy.label() + ": " + e.what());
    }
  }
}

/// Shows the first problems being decoded.
void show_live(const chosen_policy& policy,
               engine& model,
               std::span<const problem> problems,
               const options& o,
               const display& how) {
  std::cout << policy.label() << ": " << policy.about() << "\n\n";
  // Drawing in place needs everything that changes on the screen, with a line to spare.
  const std::size_t fitting =
      how.in_place
          ? std::max<std::size_t>(1, (how.rows - 1) / live_view::height(how, problems, o.shape))
          : problems.size();
  const std::size_t together = std::min(fitting, static_cast<std::size_t>(o.batch.value_or(1)));
  for (std::size_t first = 0; first < problems.size(); first += together) {
    const auto shown = problems.subspan(first, std::min(together, problems.size() - first));
    const auto batch = static_cast<index_t>(shown.size());
    const auto session = session_of(policy, model, shown, o, batch);
    live_view view(std::cout, how, model.text(), shown, o.shape);
    decode(*session, batch, model, shown, o.shape, [&](const step_seen& s) { view.see(s); });
    view.finish();
  }
}

/// The problems to show: of each task in turn, so that two show two tasks.
std::vector<problem> first_problems(std::span<const problem> problems, int count) {
  std::vector<problem> shown;
  for (int limit = 1; shown.size() < static_cast<std::size_t>(count); ++limit) {
    const std::vector<problem> more = choose(problems, {}, limit);
    if (more.size() == shown.size()) {
      break;
    }
    shown = more;
  }
  shown.resize(std::min(shown.size(), static_cast<std::size_t>(count)));
  return shown;
}

nlohmann::json as_json(const summary& s) {
  nlohmann::json exact;
  for (const exact_match& task : s.tasks) {
    exact[task.task] = {{"right", task.right}, {"of", task.of}};
  }
  return {{"policy", s.policy},
          {"cache", s.cache},
          {"about", s.about},
          {"exact", exact},
          {"answers", s.answers},
          {"right", s.right},
          {"whole", s.whole},
          {"forwards", s.forwards},
          {"forwards_each", s.forwards_each},
          {"segments_each", s.segments_each},
          {"masked_each", s.masked_each},
          {"restored_each", s.restored_each},
          {"wrong_each", s.wrong_each},
          {"segments", s.segments},
          {"layer_positions", s.computed},
          {"layer_positions_in_full", s.in_full},
          {"committed", s.committed},
          {"forced", s.forced},
          {"answer_tokens", s.answer_tokens},
          {"tokens_per_forward", s.tokens_per_forward()},
          {"answer_tokens_per_forward", s.answer_tokens_per_forward()},
          {"profile", s.profile},
          {"engine_seconds", s.engine_seconds},
          {"policy_seconds", s.policy_seconds}};
}

/// Calls use(policy) for each, as long as Ctrl-C is not pressed. Returns the program's status.
int for_each(std::span<const chosen_policy> policies, const auto& use) {
  try {
    for (const chosen_policy& policy : policies) {
      use(policy);
    }
  } catch (const interrupted&) {
    return interrupted_status;
  }
  return 0;
}

int print_json(std::span<const chosen_policy> policies,
               engine& model,
               std::span<const problem> problems,
               const options& o) {
  nlohmann::json measured = nlohmann::json::array();
  const int status = for_each(policies, [&](const chosen_policy& policy) {
    measured.push_back(as_json(measure(policy, model, problems, o)));
  });
  const nlohmann::json object = {{"version", version()},
                                 {"commit", commit()},
                                 {"interrupted", status != 0},
                                 {"model", o.model_file.filename().string()},
                                 {"prompts", problems.size()},
                                 {"answer_length", o.shape.answer_length},
                                 {"block_length", o.shape.block_length},
                                 {"stop_at_eos", o.stop_at_eos},
                                 {"seed", o.shape.seed},
                                 {"batch", o.batch.value_or(8)},
                                 {"threads", model.threads()},
                                 {"policies", measured}};
  std::cout << object.dump(2) << '\n';
  return status;
}

int print_table(std::span<const chosen_policy> policies,
                engine& model,
                std::span<const problem> problems,
                const options& o) {
  std::size_t widest = 0;
  for (const chosen_policy& policy : policies) {
    widest = std::max(widest, policy.label().size());
  }
  const bool restored = std::ranges::any_of(
      problems, [&](const problem& p) { return !right_tokens(model.text(), p).empty(); });
  const table_text table(tasks_of(problems), widest, problems.size(), restored);
  const std::string positions = (o.shape.own_length ? "up to " : "") +
                                std::to_string(o.shape.answer_length) + " positions in blocks of " +
                                std::to_string(o.shape.block_length);
  std::cout << problems.size() << " prompts, "
            << (model.text().ends_all() ? "answers as long as given" : "answers of " + positions)
            << ", batch " << o.batch.value_or(8) << ", " << model.threads()
            << (model.threads() == 1 ? " thread\n\n" : " threads\n\n") << table.header()
            << std::flush;
  std::size_t rows = 0;
  const int status = for_each(policies, [&](const chosen_policy& policy) {
    std::cout << table.row(measure(policy, model, problems, o)) << std::flush;
    ++rows;
  });
  if (status != 0) {
    std::cout << "interrupted: " << rows << " of " << policies.size() << " policies\n";
  }
  std::cout << (restored ? "\nrestored: masked positions that have the token of the answer" : "")
            << "\nexact match: the text up to the EOS token; whole: with nothing but EOS tokens\n"
               "after it; all: tokens committed, answer: those before the EOS token;\n"
               "forwards: of one sequence each; layer-rows: positions that the layers\n"
               "computed, as a share of full forwards; policy: inside next(), read() and\n"
               "decide()\n";
  return status;
}

int run(options o) {
  engine model(o.model_file, o.threads);
  if (model.text().ends_all() && !o.blocks_chosen) {
    o.shape.block_length = model.context();
  }
  if (!o.replay.empty()) {
    const replay_engine engine{
        .info = model.info(),
        .begin = [&](const unmask::named_policy& parts,
                     index_t) { model.drop_keys(parts.eviction.find<unmask::key_eviction>()); },
        .forward = [&](auto& session,
                       const auto& request,
                       auto tokens) { return model.forward(session, request, tokens); }};
    return replay(o.replay, engine) ? 0 : 1;
  }
  const std::vector<problem> problems = wanted_problems(o);
  check_prompts(model, problems, o.shape);
  if (o.calibration) {
    check_prompts(model, {&*o.calibration, 1}, o.shape);
  }
  if (!o.check_file.empty()) {
    return check(model, problems, o) ? 0 : 1;
  }
  if (!o.frontier.empty()) {
    const auto policies = each_with(o.policies.empty() ? all_policies() : o.policies, o.caches);
    check_policies(policies, model, problems, o);
    return write_frontier(policies, model, problems, o) ? 0 : interrupted_status;
  }
  const bool by_default = o.policies.empty() && !o.all;
  const auto policies = each_with(by_default ? default_policies()
                                  : o.all    ? all_policies()
                                             : o.policies,
                                  o.caches);
  check_policies(policies, model, problems, o);
  if (!o.html.empty()) {
    write_viewer_page(policies, model, first_problems(problems, std::max(1, o.live)), o);
    return 0;
  }
  if (!o.trace.empty()) {
    write_trace(policies.front(), model, first_problems(problems, std::max(1, o.live)), o);
    return 0;
  }
  if (o.json) {
    return print_json(policies, model, problems, o);
  }
  if (o.live > 0) {
    const display how = display_of_output(o.plain, std::chrono::milliseconds(o.pause));
    const std::vector<problem> shown = first_problems(problems, o.live);
    const auto live = by_default ? each_with(live_policies(), o.caches) : policies;
    std::cout << (by_default ? std::to_string(live.size()) + " policies live, then a table of " +
                                   std::to_string(policies.size()) + "; --all shows all\n"
                             : "")
              << live_view::legend(how) << "\n\n";
    const int status = for_each(
        live, [&](const chosen_policy& policy) { show_live(policy, model, shown, o, how); });
    if (status != 0) {
      return status;
    }
  }
  const int status = print_table(policies, model, problems, o);
  if (by_default && status == 0) {
    std::cout << next_steps;
  }
  return status;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const options o = parse_options({arguments + 1, arguments + count});
    if (o.parts) {
      std::cout << unmask::describe_parts();
      return 0;
    }
    if (o.help) {
      std::cout << help_text();
      return 0;
    }
    if (o.version) {
      std::cout << "unmask_demo " << version() << (commit().empty() ? "" : ", commit " + commit())
                << '\n';
      return 0;
    }
    watch_for_interrupts();
    return run(o);
  } catch (const interrupted&) {
    return interrupted_status;
  } catch (const std::exception& e) {
    std::cerr << "unmask_demo: " << e.what() << '\n';
    return 2;
  }
}
