// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "demo/tuning.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <tuple>

#include "demo/frontier.hpp"
#include "demo/options.hpp"
#include "demo/problems.hpp"

namespace demo {

namespace {

namespace tune = unmask::tune;

volatile std::sig_atomic_t interrupted = 0;

constexpr const char* usage =
    " [--target TEXT] [--minimise COST] [options]\n\n"
    "Prints the text of the policy that costs least among those that are right often enough, its\n"
    "results on problems that the search did not see, and the best single rule beside it.\n\n"
    "  --target TEXT      \"exact >= 0.97\" (default): that share of answers is right; or\n"
    "                     \"agreement >= 0.97\": equal to those of one token a forward pass\n"
    "  --confidence-level P\n"
    "                     how sure that has to be for problems that were not decoded: 0.8\n"
    "  --minimise COST    forwards (default), segments, layer_positions or seconds\n"
    "  --depth N          most parts that are added to a rule (default 2)\n"
    "  --points STEM      write every policy decoded on all problems of the search as STEM.csv\n"
    "                     and STEM.svg\n"
    "  --resume FILE      keep results in FILE, and read those that it has\n"
    "  --problems FILE    lines of JSON, as --prompts of unmask_demo\n\n"
    "--model, --task, --limit (default: all), --skip, --length, --block-length, --blocks, --seed\n"
    "and --threads are those of unmask_demo. Ctrl-C ends the search and prints what it found.\n";

void read_target(search_options& o, const std::string& text) {
  char what[16] = {};
  double share = 0.0;
  int end = 0;
  const int read = std::sscanf(text.c_str(), " %15[a-z] >= %lf %n", what, &share, &end);
  const std::string name = what;
  if (read != 2 || static_cast<std::size_t>(end) != text.size() ||
      (name != "exact" && name != "agreement") || !(share >= 0.0 && share <= 1.0)) {
    reject("--target", "\"exact >= S\" or \"agreement >= S\" with S in [0, 1]", text);
  }
  o.agreement = name == "agreement";
  o.target = share;
}

search_options read_options(const search_program& program,
                            const std::vector<std::string>& arguments) {
  search_options o;
  std::vector<std::string> others = {"--limit", "0"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) {
        throw std::invalid_argument(name + " must be followed by a value, got nothing");
      }
      return arguments[++i];
    };
    if (name == "--help") {
      o.help = true;
    } else if (name == "--target") {
      read_target(o, value());
    } else if (name == "--confidence-level") {
      const std::string& text = value();
      char* end = nullptr;
      o.confidence_level = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != 0 || !(o.confidence_level > 0.0 && o.confidence_level < 1.0)) {
        reject(name, "a number between 0 and 1", text);
      }
    } else if (name == "--minimise") {
      constexpr const char* costs[] = {"forwards", "segments", "layer_positions", "seconds"};
      o.cost = value();
      const auto found = std::ranges::find(costs, o.cost);
      if (found == std::end(costs)) {
        reject(name, "forwards, segments, layer_positions or seconds", o.cost);
      }
      o.minimise = static_cast<tune::measure>(found - std::begin(costs));
    } else if (name == "--depth") {
      const std::string& text = value();
      if (text.size() != 1 || text[0] < '0' || text[0] > '9') {
        reject(name, "a whole number from 0 to 9", text);
      }
      o.depth = text[0] - '0';
    } else if (name == "--points") {
      o.points = value();
      const auto folder = o.points.parent_path();
      if (!o.points.has_filename() || (!folder.empty() && !std::filesystem::is_directory(folder))) {
        reject(name, "a file name, without ending, in an existing folder", o.points.string());
      }
    } else if (name == "--resume") {
      o.resume = value();
    } else if (!program.read || !program.read(name, value)) {
      others.push_back(name == "--problems" ? "--prompts" : name);
    }
  }
  o.demo = parse_options(others);
  return o;
}

/// Tells which results are right. A problem of an agreement is also decoded one token a pass.
class search_decoder {
 public:
  search_decoder(const search_options& o, std::span<const problem> problems, search_engine& engine)
      : o_(o)
      , problems_(problems)
      , engine_(engine)
      , reference_(problems.size()) {}

  std::vector<tune::decoded> operator()(const std::string& text, std::span<const index_t> chosen) {
    if (o_.agreement) {
      complete_reference(chosen);
    }
    const std::vector<search_result> runs = engine_.decode(text, chosen);
    std::vector<tune::decoded> all;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto p = static_cast<std::size_t>(chosen[i]);
      all.push_back(runs[i].cost);
      all.back().right =
          o_.agreement ? runs[i].tokens == reference_[p] : is_right(problems_[p], runs[i].text);
    }
    return all;
  }

 private:
  void complete_reference(std::span<const index_t> chosen) {
    std::vector<index_t> missing;
    for (const index_t p : chosen) {
      if (reference_[static_cast<std::size_t>(p)].empty()) {
        missing.push_back(p);
      }
    }
    const std::vector<search_result> runs =
        engine_.decode("by_confidence + tokens_per_step(1)", missing);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      reference_[static_cast<std::size_t>(missing[i])] = runs[i].tokens;
    }
  }

  const search_options& o_;
  std::span<const problem> problems_;
  search_engine& engine_;
  std::vector<std::vector<token_id>> reference_;
};

/// First line of a file of results. Another engine, model, set of problems or shape has another
/// one.
nlohmann::json head_of(const search_options& o, std::string_view program, std::size_t problems) {
  const std::filesystem::path file =
      o.demo.prompts_file.empty() ? o.demo.held_prompts : o.demo.prompts_file;
  return {{"format", "unmask-tune/2"},
          {"program", program},
          {"model", o.demo.model_file.filename().string()},
          {"model_bytes", std::filesystem::file_size(o.demo.model_file)},
          {"problems_bytes", std::filesystem::file_size(file)},
          {"problems", problems},
          {"skip", o.demo.skip},
          {"length", o.demo.shape.answer_length},
          {"block_length", o.demo.shape.block_length},
          {"seed", o.demo.shape.seed},
          {"right", o.agreement ? "agreement" : "exact"}};
}

/// Reads the results in a file, and returns the file to append to. A last line that was cut off is
/// ignored.
std::ofstream resume(const search_options& o,
                     std::string_view program,
                     std::size_t problems,
                     tune::results& known) {
  const nlohmann::json head = head_of(o, program, problems);
  std::ifstream in(o.resume, std::ios::binary);
  std::string line;
  std::string kept;
  if (in && std::getline(in, line)) {
    const auto found = nlohmann::json::parse(line, nullptr, false);
    if (found != head) {
      throw std::invalid_argument(
          "--resume must be a file of the same engine, model, problems and shape, '" +
          o.resume.string() + "' begins with " + line.substr(0, 300));
    }
    kept = line + "\n";
    while (std::getline(in, line) && !in.eof()) {
      const auto r = nlohmann::json::parse(line, nullptr, false);
      if (!r.is_array() || r.size() != 7 || !r[0].is_string() || !r[1].is_number_integer() ||
          !r[2].is_boolean() ||
          !std::all_of(r.begin() + 3, r.end(), [](const auto& x) { return x.is_number(); })) {
        throw std::invalid_argument("--resume '" + o.resume.string() +
                                    "' has a line that is no result: " + line.substr(0, 300));
      }
      known.know(r[0], r[1], {r[2], r[3], r[4], r[5], r[6]});
      kept += line + "\n";
    }
  }
  in.close();
  std::ofstream out(o.resume, std::ios::binary | std::ios::trunc);
  out << (kept.empty() ? head.dump() + "\n" : kept) << std::flush;
  if (!out) {
    throw std::invalid_argument("--resume must be a file that can be written, got '" +
                                o.resume.string() + "'");
  }
  return out;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string line_of(const tune::point& p, const search_options& o) {
  return std::to_string(p.right) + " of " + std::to_string(p.problems) + " right, " +
         percent(double(p.right) / p.problems) + " (95 %: " + percent(p.share.low) + " to " +
         percent(p.share.high) + "), " + number(tune::cost_of(p.mean, o.minimise)) + " " + o.cost +
         " a problem";
}

/// AUP of the efficient points of those that decoded all problems of the search.
double area(std::vector<tune::point> points, double tokens) {
  tune::mark_efficient(points, tune::measure::forwards);
  std::erase_if(points, [](const tune::point& p) { return !p.is_efficient; });
  return tune::accuracy_under_parallelism(points, tokens);
}

/// The first line is the policy. `tokens` is the mean number of masked positions of a problem.
void print(const tune::tuned& found, const search_options& o, double tokens) {
  std::cout << found.best.policy << '\n';
  if (found.stopped) {
    std::cout << "stopped: the best of what was decoded so far\n";
  }
  if (!found.reaches) {
    std::cout << "nothing is sure to reach " << percent(o.target)
              << " on unseen problems; this is the most right, or the cheapest of those\n";
  }
  std::cout << "\nsearch   " << line_of(found.best, o) << "\nchoice   " << line_of(found.chosen, o)
            << "\nunseen   " << line_of(found.checked, o) << '\n';
  if (!found.rival.policy.empty()) {
    const tune::comparison& c = found.against_rival;
    std::cout << "\nbest single rule on the unseen problems"
              << (found.rival.right >= found.checked.right ? ", of those as right"
                                                           : ", none being as right")
              << ": " << found.rival.policy << "\n         " << line_of(found.rival, o)
              << "\n         " << number(c.saved) << " +- " << number(c.margin) << " " << o.cost
              << " saved a problem (95 %); right there only: " << c.only_second
              << ", here only: " << c.only_first << ", p = " << number(c.p) << '\n'
              << found.dominating.size() << " of " << found.singles.size()
              << " single rules with a setting are as right at no more cost\n";
    for (const tune::point& p : found.dominating) {
      std::cout << "         " << p.policy << ": " << line_of(p, o) << '\n';
    }
  }
  std::cout << '\n'
            << found.points.size() << " policies decoded all problems of the search; the "
            << "efficient ones:\n";
  int lines = 0;
  for (const tune::point& p : found.points) {
    if (p.is_efficient && lines++ < 12) {
      std::cout << "         " << percent(double(p.right) / p.problems) << "  "
                << number(tune::cost_of(p.mean, o.minimise)) << "  " << p.policy << '\n';
    }
  }
  std::vector<tune::point> singles = found.points;
  std::erase_if(singles, [](const tune::point& p) { return !p.is_single; });
  std::cout << "AUP of the efficient ones " << number(area(found.points, tokens))
            << ", of single rules alone " << number(area(singles, tokens)) << '\n';
}

/// A field of a CSV file.
std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

void write_points(const tune::tuned& found, const search_options& o) {
  std::filesystem::path csv = o.points;
  csv += ".csv";
  std::filesystem::path svg = o.points;
  svg += ".svg";
  std::ofstream table(csv);
  table << "policy,problems,right,low,high,forwards,segments,layer_positions,seconds,efficient\n";
  std::vector<frontier_point> drawn;
  for (const tune::point& p : found.points) {
    table << quoted(p.policy) << ',' << p.problems << ',' << p.right << ',' << p.share.low << ','
          << p.share.high << ',' << p.mean.forwards << ',' << p.mean.segments << ','
          << p.mean.layer_positions << ',' << p.mean.seconds << ',' << p.is_efficient << '\n';
    const std::string series =
        p.is_single ? p.policy.substr(0, p.policy.find('(')) : "several parts";
    drawn.push_back({.series = series,
                     .label = p.policy,
                     .knob = "",
                     .value = 0.0,
                     .tasks = {},
                     .exact = double(p.right) / p.problems,
                     .forwards = tune::cost_of(p.mean, o.minimise),
                     .segments = p.mean.segments,
                     .tokens_per_forward = 0.0,
                     .efficient = p.is_efficient});
  }
  std::ranges::sort(drawn, {}, [](const frontier_point& p) {
    return std::tuple(p.series, p.forwards);  // a series is a line from left to right
  });
  std::ofstream picture(svg);
  picture << frontier_svg(
      drawn, o.cost + " a problem, " + std::to_string(found.best.problems) + " problems");
  table.flush();
  picture.flush();
  if (!table || !picture) {
    throw std::runtime_error(csv.string() + " and " + svg.string() + " can not be written");
  }
}

void search(const search_program& program, const search_options& o) {
  const auto file = o.demo.prompts_file.empty() ? o.demo.held_prompts : o.demo.prompts_file;
  std::vector<problem> problems =
      choose(read_problems(file), o.demo.tasks, o.demo.limit.value_or(0), o.demo.skip);
  // Task by task, so that every second problem is half of each: tasks in turn, if they are an even
  // number, would be searched on one half of the tasks and checked on the other.
  std::ranges::stable_sort(problems, {}, &problem::task);
  if (!o.agreement) {
    const auto unknown = std::ranges::find(problems, false, &problem::answered);
    if (unknown != problems.end()) {
      throw std::invalid_argument("--target \"exact\" needs an answer or a checker for every "
                                  "problem, '" +
                                  unknown->prompt +
                                  "' has none; \"agreement\" "
                                  "needs none");
    }
  }
  const std::size_t count = problems.size();
  double tokens = 0.0;
  for (const problem& p : problems) {
    tokens += p.given.empty() ? double(o.demo.shape.answer_length)
                              : double(std::ranges::count(p.given, '_'));
  }
  const std::unique_ptr<search_engine> engine = program.make(o, problems);
  search_decoder decoder(o, problems, *engine);
  std::ofstream log;
  tune::results known(std::ref(decoder), [&log](const std::string& text, index_t p, const auto& d) {
    if (log.is_open()) {
      log << nlohmann::json::array(
                 {text, p, d.right, d.forwards, d.segments, d.layer_positions, d.seconds})
                 .dump()
          << '\n';
    }
  });
  if (!o.resume.empty()) {
    log = resume(o, program.name, count, known);
  }
  tune::search how{.problems = static_cast<index_t>(count),
                   .target = o.target,
                   .confidence_level = o.confidence_level,
                   .minimise = o.minimise,
                   .depth = o.depth};
  how.stop = [&log] {
    log.flush();
    return interrupted != 0;
  };
  how.progress = [](std::string_view stage, index_t done, index_t of) {
    std::fprintf(stderr, "\r\x1b[K%.*s: %d of %d", int(stage.size()), stage.data(), done, of);
    if (done == of) {
      std::fprintf(stderr, "\n");
    }
  };
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
  const tune::tuned found = tune::tuner(how, known).run();
  print(found, o, tokens / double(count));
  if (!o.points.empty()) {
    write_points(found, o);
  }
}

}  // namespace

int run_search(const search_program& program, const std::vector<std::string>& arguments) {
  try {
    const search_options o = read_options(program, arguments);
    if (o.help) {
      std::cout << "usage: " << program.name << usage << program.help;
      return 0;
    }
    search(program, o);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << program.name << ": " << e.what() << '\n';
    return 2;
  }
}

}  // namespace demo
