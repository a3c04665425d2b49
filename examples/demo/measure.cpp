// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/measure.hpp"

#include <string>
#include <utility>
#include <vector>

#include "demo/terminal.hpp"

namespace demo {

std::unique_ptr<unmask::any_layer_session> session_of(const chosen_policy& policy,
                                                      engine& model,
                                                      std::span<const problem> problems,
                                                      const options& o,
                                                      index_t batch) {
  model.drop_keys(policy.parts(o.stop_at_eos).cache.dropped);
  return policy.make({.model = model.info(),
                      .capacity = capacity_for(model, problems, o.shape, batch),
                      .block_length = o.shape.block_length,
                      .stop_at_eos = o.stop_at_eos,
                      .decode_first = [&](unmask::any_layer_session& session,
                                          const std::function<void()>& after_step) {
                        decode(
                            session, 1, model, problems.first(1), o.shape, [&](const step_seen&) {
                              after_step();
                            });
                      }});
}

summary measure(const chosen_policy& policy,
                engine& model,
                std::span<const problem> problems,
                const options& o) {
  const index_t batch = o.batch.value_or(8);
  std::size_t count = 0;
  progress shown(policy.label(), problems.size());
  std::vector<problem> in_order;
  decoding all;
  for (const std::string& task : tasks_of(problems)) {
    const std::vector<problem> of_task = choose(problems, {{task}}, 0);
    const auto session = session_of(policy, model, of_task, o, batch);
    decoding decoded = decode(*session, batch, model, of_task, o.shape, [&](const step_seen& step) {
      count += step.report.end != unmask::ending::running ? 1U : 0U;
      shown.done(count);
    });
    in_order.insert(in_order.end(), of_task.begin(), of_task.end());
    all.add(std::move(decoded));
  }
  summary s = summarize(policy.name(), std::string(policy.about()), in_order, all);
  s.cache = policy.cache().label();
  return s;
}

}  // namespace demo
