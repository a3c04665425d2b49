// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tune.hpp"

#include <unmask/tune.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arguments.hpp"
#include "record.hpp"
#include "repr.hpp"

namespace unmask_python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using namespace unmask::tune;

[[nodiscard]] measure measure_of(const std::string& name) {
  constexpr std::pair<std::string_view, measure> all[] = {
      {"forwards", measure::forwards},
      {"segments", measure::segments},
      {"layer_positions", measure::layer_positions},
      {"seconds", measure::seconds}};
  for (const auto& [known, value] : all) {
    if (known == name) {
      return value;
    }
  }
  throw std::invalid_argument(
      "minimise must be forwards, segments, layer_positions or seconds, got '" + name + "'");
}

// Calls Python for the results of a search, and ends it when the user interrupts.
class python_decoder {
 public:
  explicit python_decoder(nb::callable decode)
      : decode_(std::move(decode)) {}

  [[nodiscard]] std::vector<decoded> operator()(const std::string& policy,
                                                std::span<const unmask::index_t> problems) {
    nb::list indexes;
    for (const unmask::index_t p : problems) {
      indexes.append(p);
    }
    nb::object answers;
    try {
      answers = decode_(policy, indexes);
    } catch (const nb::python_error& e) {
      if (take_interrupt(e) || e.matches(PyExc_ValueError)) {
        throw std::invalid_argument("this policy was not decoded");
      }
      throw;
    }
    std::vector<decoded> all;
    if (!nb::try_cast(answers, all)) {
      throw nb::type_error("decode(policy, problems) must return a list of unmask.Decoded");
    }
    return all;
  }

  [[nodiscard]] bool interrupted() {
    if (PyErr_CheckSignals() != 0) {
      const nb::python_error error;  // takes it
      if (!take_interrupt(error)) {
        throw error;
      }
    }
    return interrupted_;
  }

  /// True for the first interrupt of the user, which ends the search. A second one ends the end,
  /// too.
  [[nodiscard]] bool take_interrupt(const nb::python_error& error) {
    return error.matches(PyExc_KeyboardInterrupt) && !std::exchange(interrupted_, true);
  }

 private:
  nb::callable decode_;
  bool interrupted_ = false;
};

constexpr const char* tune_arguments =
    "def tune(decode: collections.abc.Callable[[str, list[int]], list[Decoded]], *, problems: int, "
    "target: float = 0.97, confidence_level: float = 0.8, minimise: str = 'forwards', "
    "depth: int = 2, progress: collections.abc.Callable[[str, int, int], object] | None = None, "
    "resume: str | os.PathLike[str] | None = None, engine: str = '') -> Tuned";

[[nodiscard]] nb::callable function_of(nb::handle given, const std::string& name) {
  if (PyCallable_Check(given.ptr()) == 0) {
    refuse_type(name + " must be a function, got " + type_of(given));
  }
  return nb::borrow<nb::callable>(given);
}

[[nodiscard]] tuned tune(const nb::args& by_place, const nb::kwargs& by_name) {
  arguments given("tune()", tune_arguments, by_place, by_name);
  nb::callable decode = function_of(given["decode"], "decode");
  if (given.has("resume") && !given["resume"].is_none()) {
    decode = nb::borrow<nb::callable>(nb::module_::import_("unmask._results")
                                          .attr("kept")(decode,
                                                        given["resume"],
                                                        given.get("engine", std::string()),
                                                        given.get<int>("problems")));
  }
  python_decoder engine(std::move(decode));
  results known([&engine](const std::string& policy, std::span<const unmask::index_t> wanted) {
    return engine(policy, wanted);
  });
  search how{.problems = given.get<int>("problems"),
             .target = given.get("target", 0.97),
             .confidence_level = given.get("confidence_level", 0.8),
             .minimise = measure_of(given.get("minimise", std::string("forwards")))};
  how.depth = given.get("depth", 2);
  how.stop = [&engine] { return engine.interrupted(); };
  std::optional<nb::callable> progress;
  if (given.has("progress") && !given["progress"].is_none()) {
    progress = function_of(given["progress"], "progress");
    how.progress = [&](std::string_view stage, unmask::index_t done, unmask::index_t of) {
      try {
        (*progress)(std::string(stage), done, of);
      } catch (const nb::python_error& e) {
        if (!engine.take_interrupt(e)) {
          throw;
        }
      }
    };
  }
  return tuner(how, known).run();
}

constexpr std::tuple members_of_decoded{record_member{"right", &decoded::right},
                                        record_member{"forwards", &decoded::forwards},
                                        record_member{"segments", &decoded::segments},
                                        record_member{"layer_positions", &decoded::layer_positions},
                                        record_member{"seconds", &decoded::seconds}};

}  // namespace

void bind_tune(nb::module_& m) {
  nb::class_<decoded> result(m, "Decoded", "Result of one problem, for tune().");
  result
      .def(
          "__init__",
          [](decoded* self,
             bool right,
             double forwards,
             std::optional<double> segments,
             double layer_positions,
             double seconds) {
            new (self)
                decoded{right, forwards, segments.value_or(forwards), layer_positions, seconds};
          },
          "right"_a,
          nb::kw_only(),
          "forwards"_a,
          "segments"_a = nb::none(),
          "layer_positions"_a = 0.0,
          "seconds"_a = 0.0,
          "Whether the answer is accepted, and what it cost; segments are forwards unless given.")
      .def("__repr__", [](const decoded& d) {
        return std::apply(
            [&d](const auto&... member) {
              return shown("Decoded", std::pair(member.name, d.*member.of)...);
            },
            members_of_decoded);
      });
  bind_record(result, members_of_decoded);

  nb::class_<point>(m, "OperatingPoint", "A policy with its results on a set of problems.")
      .def_ro("policy", &point::policy, "Its text.")
      .def_ro("problems", &point::problems, "Problems that it decoded.")
      .def_ro("right", &point::right, "Those answered right.")
      .def_prop_ro(
          "share",
          [](const point& p) { return std::pair(p.share.low, p.share.high); },
          "95 % interval of the share of right answers.")
      .def_ro("mean", &point::mean, "Means of the costs; `right` has no meaning there.")
      .def_ro("each", &point::each, "The result of each problem.")
      .def_ro("is_single", &point::is_single, "Whether it is a ranking and one commit rule.")
      .def_ro("is_efficient",
              &point::is_efficient,
              "Whether no other point is as right at no more cost.")
      .def("__repr__", [](const point& p) {
        return shown("OperatingPoint",
                     std::pair("policy", p.policy),
                     std::pair("problems", p.problems),
                     std::pair("right", p.right),
                     std::pair("forwards", p.mean.forwards));
      });

  nb::class_<comparison>(m, "Comparison", "Two policies on the same problems.")
      .def_ro("problems", &comparison::problems)
      .def_ro("only_first", &comparison::only_first, "Problems that only the first answers right.")
      .def_ro("only_second", &comparison::only_second, "Those that only the second answers right.")
      .def_ro("p", &comparison::p, "McNemar's exact test of the two numbers.")
      .def_ro("saved", &comparison::saved, "Mean cost of the second minus the first.")
      .def_ro("margin", &comparison::margin, "Half of the 95 % interval of that difference.");

  nb::class_<tuned>(m, "Tuned", "Result of a search.")
      .def_ro("reaches", &tuned::reaches, "Whether a policy reached the target.")
      .def_ro("stopped", &tuned::stopped, "Whether the user interrupted the search.")
      .def_ro("best", &tuned::best, "The policy, on the problems of the search.")
      .def_ro("chosen", &tuned::chosen, "Its result on the problems by which it was chosen.")
      .def_ro("checked", &tuned::checked, "Its result on problems that the search did not see.")
      .def_ro("rival", &tuned::rival, "The cheapest single rule that is as right on those.")
      .def_ro("against_rival", &tuned::against_rival, "`checked` compared with `rival`.")
      .def_ro("dominating",
              &tuned::dominating,
              "Single rules that are as right at no more cost on those.")
      .def_ro("singles", &tuned::singles, "Single rules on those, by cost.")
      .def_ro(
          "points", &tuned::points, "Every policy decoded on all problems of the search, by cost.")
      .def("__repr__", [](const tuned& t) {
        return shown("Tuned",
                     std::pair("best", t.best.policy),
                     std::pair("reaches", t.reaches),
                     std::pair("checked", t.checked),
                     std::pair("rival", t.rival));
      });

  m.def(
      "tune",
      &tune,
      nb::sig(tune_arguments),
      "Searches for the policy that costs least among those that are right often enough.\n\n"
      "decode(policy, problems) returns a Decoded for each index of the list `problems`, all "
      "below\n"
      "the number given here; ValueError: this policy is not possible. Even problems are for the\n"
      "search and the choice, odd ones for the check. The policy found misses the target on other\n"
      "problems with a probability of at most 1 - confidence_level. Ctrl-C ends the search with "
      "what\n"
      "it has, after one more test; a second one ends it at once. progress(stage, done, of) is "
      "called "
      "after\n"
      "each policy: within a stage `done` only grows. `resume` is a file that keeps the results, "
      "from "
      "which\n"
      "another search takes those that it has; `engine` says there what they are of, and a file of "
      "another\n"
      "engine is refused.");
}

}  // namespace unmask_python
