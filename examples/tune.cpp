// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches for the policy that answers often enough at the least cost, on the problems of a model,
// and checks it on problems that the search did not see. `--help` lists the options.
#include <unmask/named_policy.hpp>

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "demo/measure.hpp"
#include "demo/tuning.hpp"

namespace {

using namespace demo;
namespace tune = unmask::tune;

/// Decodes with the example engine, a few problems on each thread.
class example_engines final : public search_engine {
 public:
  example_engines(const search_options& o, std::span<const problem> problems)
      : o_(o)
      , problems_(problems) {
    for (index_t i = 0; i < o.demo.threads; ++i) {
      engines_.push_back(std::make_unique<engine>(o.demo.model_file, 1));
    }
    for (const problem& p : problems_) {
      static_cast<void>(engines_[0]->canvas(p.prompt, answer_length(p, o.demo.shape), p.given));
    }
  }

  // Throws what a thread throws.
  std::vector<search_result> decode(const std::string& text,
                                    std::span<const index_t> chosen) override {
    const unmask::named_policy parts = unmask::read_policy(text);
    std::vector<search_result> runs(chosen.size());
    std::vector<std::exception_ptr> failed(engines_.size());
    const auto work = [&](std::size_t thread) noexcept {
      try {
        engine& model = *engines_[thread];
        const unmask::session_capacity capacity = capacity_for(model, problems_, o_.demo.shape, 1);
        model.drop_keys(parts.eviction.find<unmask::key_eviction>());
        // Policies that agree so far run the same passes. Shared ones take no time, so a search for
        // the least time runs all; the random tokens of a canvas recur in no other policy.
        const bool is_shared = o_.minimise != tune::measure::seconds && !parts.has_canvas();
        share_passes(model, is_shared ? std::size_t{1} << 30U : 0, parts);
        unmask::named_session session(parts, model.info(), capacity);
        for (std::size_t i = thread; i < chosen.size(); i += engines_.size()) {
          const std::span one(&problems_[static_cast<std::size_t>(chosen[i])], 1);
          decoding d = demo::decode(session, 1, model, one, o_.demo.shape);
          runs[i] = {{.forwards = static_cast<double>(d.answers[0].forwards),
                      .segments = static_cast<double>(d.segments),
                      .layer_positions = static_cast<double>(d.computed),
                      .seconds = d.engine_seconds},
                     std::move(d.answers[0].tokens),
                     std::move(d.answers[0].text)};
        }
      } catch (...) {
        failed[thread] = std::current_exception();
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t t = 1; t < engines_.size() && t < chosen.size(); ++t) {
      threads.emplace_back(work, t);
    }
    work(0);
    for (std::thread& t : threads) {
      t.join();
    }
    for (const std::exception_ptr& e : failed) {
      if (e != nullptr) {
        std::rethrow_exception(e);
      }
    }
    return runs;
  }

 private:
  const search_options& o_;
  std::span<const problem> problems_;
  std::vector<std::unique_ptr<engine>> engines_;
};

}  // namespace

int main(int count, char** arguments) {
  return run_search({.name = "unmask_tune",
                     .make =
                         [](const search_options& o, std::span<const problem> problems) {
                           return std::make_unique<example_engines>(o, problems);
                         }},
                    {arguments + 1, arguments + count});
}
