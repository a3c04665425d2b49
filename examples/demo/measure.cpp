// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/measure.hpp"

#include <unmask/trace.hpp>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "demo/terminal.hpp"
#include "demo/trace_head.hpp"

namespace demo {

void share_passes(engine& model, std::size_t bytes, const unmask::named_policy& parts) {
  const bool is_full = !parts.layered_now() && parts.cache.count == 0 &&
                       !unmask::step::verifies_now(parts) && !unmask::step::shadows_now(parts);
  model.share_passes(is_full ? bytes : 0);
}

std::unique_ptr<unmask::named_session> session_of(const chosen_policy& policy,
                                                  engine& model,
                                                  std::span<const problem> problems,
                                                  const options& o,
                                                  index_t batch,
                                                  bool trace,
                                                  std::string* profile) {
  std::vector<problem> all(problems.begin(), problems.end());
  if (o.calibration) {
    all.push_back(*o.calibration);
  }
  unmask::session_capacity capacity = capacity_for(model, all, o.shape, batch);
  capacity.trace = trace;
  const unmask::named_policy parts = policy.parts(o.stop_at_eos);
  model.drop_keys(parts.eviction.find<unmask::key_eviction>());
  model.open_window(o.open_window);
  share_passes(model, o.open_window ? 0 : static_cast<std::size_t>(o.shared) << 20U, parts);
  return policy.make(
      {.model = model.info(),
       .capacity = capacity,
       .block_length = o.shape.block_length,
       .stop_at_eos = o.stop_at_eos,
       .decode_first =
           [&](unmask::named_session& session, const std::function<void()>& after_step) {
             const std::span first =
                 o.calibration ? std::span(&*o.calibration, 1) : problems.first(1);
             decode(session, 1, model, first, o.shape, [&](const step_seen&) { after_step(); });
           },
       .profile = profile});
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
  std::string profile;
  for (const std::string& task : tasks_of(problems)) {
    const std::vector<problem> of_task = choose(problems, {{task}}, 0);
    const auto session = session_of(policy, model, of_task, o, batch, false, &profile);
    decoding decoded = decode(*session, batch, model, of_task, o.shape, [&](const step_seen& step) {
      count += step.report.end != unmask::ending::running ? 1U : 0U;
      shown.done(count);
    });
    in_order.insert(in_order.end(), of_task.begin(), of_task.end());
    all.add(std::move(decoded));
  }
  summary s = summarize(policy.name(), std::string(policy.about()), in_order, all);
  s.cache = policy.cache().label();
  s.profile = profile;
  return s;
}

bool record(const chosen_policy& policy,
            engine& model,
            std::span<const problem> problems,
            const options& o,
            unmask::trace_sink sink) {
  unmask::trace_writer trace(
      std::move(sink),
      head_of_trace(model, o.model_file.filename().string(), policy.text(o.stop_at_eos)));
  const auto batch = static_cast<index_t>(problems.size());
  const auto session = session_of(policy, model, problems, o, batch, true);
  decode(*session, batch, model, problems, o.shape, {}, &trace);
  return trace.ok();
}

void write_trace(const chosen_policy& policy,
                 engine& model,
                 std::span<const problem> problems,
                 const options& o) {
  const unmask::trace_file file(o.trace);
  if (!record(policy, model, problems, o, file)) {
    throw std::runtime_error(file.error());
  }
}

}  // namespace demo
