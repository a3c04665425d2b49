// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unmask/text/renamed.hpp>
#include <unmask/unmask.hpp>

#include <chrono>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <thread>

#include "arguments.hpp"
#include "calibrator.hpp"
#include "constraints.hpp"
#include "languages.hpp"
#include "models.hpp"
#include "parts.hpp"
#include "policy_parts.hpp"
#include "read.hpp"
#include "record.hpp"
#include "repr.hpp"
#include "requirements.hpp"
#include "session.hpp"
#include "tune.hpp"

namespace unmask_python {
namespace {

using namespace nb::literals;

/// The message of an error with the names of Python's arguments; a longer name before its
/// beginning.
[[nodiscard]] std::string in_python(const char* what) {
  static constexpr std::string_view session = "the session's ";
  static constexpr unmask::detail::name_elsewhere names[] = {
      {"session_capacity::trace", "trace"},
      {"session_capacity::", session},
      {"model_info::", session},
      {"sequence_shape::", ""},
      {"start_options::suppressed.size()", "len(suppressed)"},
      {"start_options::soft_tokens", "soft_tokens"},
      {"start_options::editable.size()", "len(editable)"},
      {"start_options::", ""},
      {"row_modifiers::", ""},
      {"search::", ""},
      {"decoded::", "Decoded."},
      {"forward_request::", "Request."},
      {" segment::rows.size()", " the length of Segment.rows"},
      {" no_token", " None"},
  };
  std::string text = unmask::detail::renamed(what, names);
  if (text.starts_with(session)) {
    text.erase(0, session.size());
  }
  return text;
}

}  // namespace

void without_gil::wait_at_exit() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    is_exiting = true;
    while (calls > 0) {
      const nb::gil_scoped_release others;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }));
}

namespace {

[[nodiscard]] bool is_list(nb::handle given) {
  return nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
}

[[nodiscard]] nb::slice slice_of(const unmask::range& r) {
  return nb::slice(nb::int_(r.first), nb::int_(r.last), nb::none());
}

/// A tensor or None.
[[nodiscard]] std::optional<tensor> optional_of(nb::handle given, const std::string& name) {
  return given.is_none() ? std::nullopt : std::optional(tensor_of(given, name));
}

/// Tensors of a step, on the session's stream.
[[nodiscard]] tensor lent_tensor(const session& s, nb::handle given, const std::string& name) {
  return tensor_of(lent_to(s.stream(), given), name);
}
[[nodiscard]] std::optional<tensor>
lent_if_any(const session& s, nb::handle given, const std::string& name) {
  return given.is_none() ? std::nullopt : std::optional(lent_tensor(s, given, name));
}

/// One for each of `count` segments: those of a list or tuple, or None for each.
[[nodiscard]] std::vector<std::optional<tensor>>
each_of(const session& s, const nb::object& given, const std::string& name, std::size_t count) {
  std::vector<std::optional<tensor>> all(count);
  if (given.is_none()) {
    return all;
  }
  if (!is_list(given)) {
    refuse_type(name + " must be a list, as the logits are, got " + type_of(given));
  }
  if (nb::len(given) != count) {
    refuse(name,
           "have one entry for each of the " + std::to_string(count) + " tensors",
           std::to_string(nb::len(given)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = lent_if_any(s, given[i], name + "[" + std::to_string(i) + "]");
  }
  return all;
}

void supply(session& s,
            const nb::object& logits,
            const nb::object& allowed,
            const nb::object& unconditional,
            const nb::object& cfg_scale) {
  const std::string scale_type = "a number, or a list of them";
  if (!is_list(logits)) {
    if (is_list(cfg_scale)) {
      refuse("cfg_scale", "be a number with one tensor of logits", "a list");
    }
    s.supply(lent_tensor(s, logits, "logits"),
             {lent_if_any(s, allowed, "allowed"),
              lent_if_any(s, unconditional, "unconditional"),
              taken<float>(cfg_scale, "cfg_scale", scale_type)});
    return;
  }
  const std::size_t count = nb::len(logits);
  std::vector<float> scales;
  if (is_list(cfg_scale)) {
    scales = taken<std::vector<float>>(cfg_scale, "cfg_scale", scale_type);
  } else {
    scales.assign(count, taken<float>(cfg_scale, "cfg_scale", scale_type));
  }
  if (scales.size() != count) {
    refuse("cfg_scale",
           "be a number, or one for each of the " + std::to_string(count) + " tensors",
           std::to_string(scales.size()));
  }
  const auto masks = each_of(s, allowed, "allowed", count);
  const auto beside = each_of(s, unconditional, "unconditional", count);
  std::vector<tensor> rows;
  std::vector<modifier_tensors> modifiers;
  for (std::size_t i = 0; i < count; ++i) {
    rows.push_back(lent_tensor(s, logits[i], "logits[" + std::to_string(i) + "]"));
    modifiers.push_back({masks[i], beside[i], scales[i]});
  }
  s.supply(rows, modifiers);
}

void bind_values(nb::module_& m) {
  using unmask::candidate_outcome;
  using unmask::ending;
  nb::enum_<candidate_outcome>(m, "Outcome", "Outcome of a candidate in a step.")
      .value("committed", candidate_outcome::committed, "Committed by the commit rule.")
      .value("forced", candidate_outcome::forced, "Committed by the progress guarantee.")
      .value("held",
             candidate_outcome::held,
             "Still masked: the commit rule, or the filter of a part, rejected it.")
      .value("excluded",
             candidate_outcome::excluded,
             "Still masked: a part excluded it from this step.")
      .value("invalid", candidate_outcome::invalid, "Still masked: its row is invalid.")
      .value("replaced", candidate_outcome::replaced, "A committed token became the proposed one.")
      .value("remasked", candidate_outcome::remasked, "A committed position is masked again.")
      .value("kept",
             candidate_outcome::kept,
             "A committed position was a candidate again, and keeps its token.")
      .value("from_branch",
             candidate_outcome::from_branch,
             "Committed with the winning lookahead branch.")
      .value("refused",
             candidate_outcome::refused,
             "Unchanged: its constraint does not allow the token.")
      .value("filled",
             candidate_outcome::filled,
             "Committed without a decision: the only token that its constraint leaves there.");

  nb::enum_<ending>(m, "Ending", "Why a sequence came to its end.")
      .value("running", ending::running, "It has not.")
      .value("complete", ending::complete, "No position is masked any more.")
      .value(
          "eos_token", ending::eos_token, "An EOS token and everything left of it are committed.")
      .value("stop_tokens",
             ending::stop_tokens,
             "A stop sequence and everything left of it are committed.")
      .value(
          "max_steps", ending::max_steps, "The number of forward passes it was given is used up.")
      .value("cancelled", ending::cancelled, "The engine called cancel().")
      .value("idle", ending::idle, "No sequence was started in the slot yet.");

  using unmask::segment;
  nb::class_<kept_segment>(m, "Segment", "One sequence's, or one branch's, share of a pass.")
      .def_ro("slot", &segment::slot)
      .def_ro("branch", &segment::branch, "0 is the sequence itself.")
      .def_prop_ro(
          "placed",
          [](const kept_segment& s) {
            std::vector<std::pair<int, int>> placed;
            for (const unmask::placement& p : s.tokens) {
              placed.emplace_back(p.position, p.token);
            }
            return placed;
          },
          "Of a branch: positions and tokens in which it differs from its sequence.")
      .def_prop_ro(
          "rows",
          [](const kept_segment& s) { return slice_of(s.rows); },
          "Give back these rows of the model's output as they are: with logits_shift 1 they "
          "already "
          "begin one position earlier.")
      .def_prop_ro(
          "query",
          [](const kept_segment& s) { return slice_of(s.query); },
          "Run these positions; an engine without a cache may run more.")
      .def_prop_ro(
          "keys",
          [](const kept_segment& s) { return slice_of(s.keys); },
          "The positions that are run attend to these.")
      .def_prop_ro(
          "evict",
          [](const kept_segment& s) { return name_of(s.evict); },
          "\"choose\": each layer selects keys for the next passes; \"chosen\": the selected keys "
          "and those of the decided blocks receive attention; None: all of `keys` do.")
      .def_prop_ro(
          "attention",
          [](const kept_segment& s) { return name_of(s.attention); },
          "'bidirectional', 'causal' or 'shadow': what the positions attend to, among `keys`. A "
          "shadow is of masks at the positions of `query`, each of which attends to the segment "
          "`shadow_of` but for the token at its own position, and to the other masks.")
      .def_prop_ro(
          "shadow_of",
          [](const kept_segment& s) {
            return s.shadow_of < 0 ? std::nullopt : std::optional<int>(s.shadow_of);
          },
          "Index of the segment that a shadow attends to.")
      .def_ro("logits_shift",
              &segment::logits_shift,
              "Row p - shift of this segment predicts position p.")
      .def_ro("first_row",
              &segment::first_row,
              "Index of the first of them in a tensor that has the rows of all segments.")
      .def("__repr__", [](const kept_segment& s) {
        return shown("Segment",
                     std::pair("slot", s.slot),
                     std::pair("branch", s.branch),
                     std::pair("query", slice_of(s.query)),
                     std::pair("keys", slice_of(s.keys)),
                     std::pair("rows", slice_of(s.rows)),
                     std::pair("first_row", s.first_row));
      });

  nb::class_<layer_rule>(m, "LayerRule", "Demands of a policy on an engine, as those of Session.")
      .def_prop_ro("reads", &layer_rule::read)
      .def_prop_ro("kept", &layer_rule::kept)
      .def_ro("single_positions", &layer_rule::single_positions)
      .def_ro("evicts", &layer_rule::evicts);

  nb::class_<request>(m, "Request", "The next forward request.")
      .def_ro("segments", &request::segments)
      .def_ro("rows", &request::rows, "Rows of logits in all.")
      .def("__repr__", [](const request& r) {
        return shown(
            "Request", std::pair("rows", r.rows), std::pair("segments", nb::cast(r.segments)));
      });

  nb::class_<eviction_in_pass>(m, "Eviction", "Eviction of keys in the pass of a segment.")
      .def_prop_ro(
          "evict",
          [](const eviction_in_pass& e) { return name_of(e.evict); },
          "As that of the segment.")
      .def_prop_ro(
          "blocks",
          [](const eviction_in_pass& e) { return slice_of(e.blocks); },
          "The decided blocks, whose keys are never dropped.")
      .def_ro("keep", &eviction_in_pass::keep, "Share of the other keys that is kept.")
      .def_ro("pool",
              &eviction_in_pass::pool,
              "Number of neighbouring keys whose largest score is that of a key.");

  using unmask::plan;
  nb::class_<plan>(
      m, "Plan", "Plan of a step for an engine with a cache, in addition to the segments.")
      .def_ro("winner",
              &plan::winner,
              "The branch that won the last step: keep its K/V. 0 is the sequence itself.")
      .def_prop_ro(
          "freeze",
          [](const plan& p) { return slice_of(p.freeze); },
          "K/V of these positions are final from now on.")
      .def_ro("refresh",
              &plan::refresh,
              "Whether every layer computes all positions of the next pass.");

  using unmask::sequence_report;
  nb::class_<sequence_report> report(m, "Report", "Report of one sequence so far.");
  bind_record(
      report,
      std::tuple{
          record_member{"end", &sequence_report::end, ""},
          record_member{"forwards", &sequence_report::forwards, "Forward passes supplied."},
          record_member{"committed", &sequence_report::committed, "Tokens committed by decisions."},
          record_member{
              "committed_prefix",
              &sequence_report::committed_prefix,
              "Every position before this one is committed, or filled with the EOS token by the "
              "end of the sequence."},
          record_member{
              "answer_end",
              &sequence_report::answer_end,
              "One past the last position of the answer. While the sequence runs: its length. Of "
              "an ended sequence: after the EOS token or the stop sequence, and never after the "
              "first position that no decision committed, such as those that max_steps fills with "
              "EOS tokens or that cancel() leaves masked. The text to show ends before the lower "
              "of this and committed_prefix: it is final, unless the policy rewrites."},
          record_member{"masked", &sequence_report::masked, "Positions still masked."},
          record_member{
              "rewritten", &sequence_report::rewritten, "Committed tokens replaced or remasked."},
          record_member{"forced",
                        &sequence_report::forced,
                        "Forced commits: candidates that the commit rule did not commit."},
          record_member{"invalid_rows",
                        &sequence_report::invalid_rows,
                        "Rows with sums that are not finite."},
          record_member{"second_reads",
                        &sequence_report::second_reads,
                        "Rows that were read twice: by truncation, or for Field.read_again."},
          record_member{"last_commits", &sequence_report::last_commits, nullptr},
          record_member{"last_probabilities", &sequence_report::last_probabilities, nullptr},
          record_member{"last_moved", &sequence_report::last_moved, nullptr},
          record_member{"last_candidates", &sequence_report::last_candidates, nullptr},
          record_member{"refused",
                        &sequence_report::refused,
                        "Candidates that a constraint refused and that stayed as they were."},
          record_member{"filled",
                        &sequence_report::filled,
                        "Committed tokens that a constraint left no choice about."},
          record_member{
              "constraint_met",
              &sequence_report::constraint_met,
              "Whether the sequence has ended with a string of the language in each of its "
              "constrained fields."}});
  report.def_prop_ro("tokens_per_forward", &sequence_report::tokens_per_forward)
      .def("__repr__",
           [](const sequence_report& r) { return "Report(Ending." + to_string(r) + ")"; });

  using unmask::candidate_entry;
  using unmask::commit_entry;
  nb::class_<commit_entry>(m, "Commit", "A token that a step wrote.")
      .def_ro("slot", &commit_entry::slot)
      .def_ro("position", &commit_entry::position)
      .def_ro("token", &commit_entry::token)
      .def_ro("log_probability",
              &commit_entry::log_probability,
              "Of the probability that the decision rested on, in nats.")
      .def_ro("step", &commit_entry::step, "Index of the forward pass, from 0.")
      .def_ro("block", &commit_entry::block)
      .def_ro("block_step",
              &commit_entry::block_step,
              "Forward passes since the block became active, from 0.")
      .def_ro("rank",
              &commit_entry::rank,
              "Rank among the candidates of the step, from 0; -1 if it had none: a token of a "
              "branch, of an invalid row, of an edit, or filled in at the end.")
      .def("__repr__", [](const commit_entry& c) {
        return "Commit(slot=" + std::to_string(c.slot) +
               ", position=" + std::to_string(c.position) + ", token=" + std::to_string(c.token) +
               ", log_probability=" + std::to_string(c.log_probability) + ")";
      });
  nb::class_<candidate_entry, commit_entry>(
      m, "Candidate", "A candidate of a step, the token proposed for it, and what the step did.")
      .def_ro("committed", &candidate_entry::committed, "Whether the step wrote the token.")
      .def_ro("outcome", &candidate_entry::outcome, "Its outcome.")
      .def_ro("part",
              &candidate_entry::part,
              "The part of the policy that decided, counted as in the text from 0; -1 if none did.")
      .def_ro("confidence", &candidate_entry::confidence, "Softmax probability of the token.")
      .def_ro("margin",
              &candidate_entry::margin,
              "Confidence minus the runner-up's probability; NaN if not known.")
      .def_ro("entropy", &candidate_entry::entropy, "Of the row, in nats; NaN if not known.");

  using unmask::token_probability;
  nb::class_<token_probability>(
      m, "Probability", "The probability of a probed token, or of a soft token.")
      .def_ro("slot", &token_probability::slot)
      .def_ro("position", &token_probability::position)
      .def_ro("token", &token_probability::token)
      .def_ro("probability", &token_probability::probability)
      .def_ro(
          "share",
          &token_probability::share,
          "Probability among the probed tokens alone, or among the soft tokens of the position.");
}

constexpr const char* session_arguments =
    "def __init__(self, policy: str, *, vocab: int, mask_token: int, eos_token: int | None = None, "
    "length: int, window: int, sequences: int = 1, logits_shift: int = 0, "
    "suppress_mask: bool = True, layers: int = 0, causal_attention: bool = False, "
    "shadow_attention: bool = False, branches: int = 0, trace: bool | str = False, "
    "model: str = '', "
    "token_text: collections.abc.Callable[[int], str] | None = None, threads: int = 1, "
    "stream: int | None = None, files: bool = True) -> None";
constexpr const char* start_arguments =
    "def start(self, slot: int, tokens: object, *, prompt_length: int, length: int | None = None, "
    "block_length: int = 32, seed: int = 0, editable: object | None = None, "
    "suppressed: collections.abc.Sequence[int] = [], policy: str | None = None, "
    "sequence: int = 0, constraint: Constraint | Field | None = None, "
    "fields: collections.abc.Sequence[object] | None = None, soft_tokens: int = 0) -> None";

void make_session(session* place, const nb::args& by_place, const nb::kwargs& by_name) {
  arguments given("Session()", session_arguments, by_place, by_name);
  auto policy = given.get<std::string>("policy");
  std::optional<std::string> file;
  bool trace = false;
  if (given.has("trace") && !nb::try_cast(nb::borrow(given["trace"]), trace)) {
    file = given.get<std::string>("trace");
  }
  const unmask::model_info info = {.vocab = given.get<int>("vocab"),
                                   .mask_token = given.get<int>("mask_token"),
                                   .eos_token =
                                       given.optional<int>("eos_token").value_or(unmask::no_token),
                                   .logits_shift = given.get("logits_shift", 0),
                                   .suppress_mask = given.get("suppress_mask", true),
                                   .layers = given.get("layers", 0),
                                   .causal_attention = given.get("causal_attention", false),
                                   .shadow_attention = given.get("shadow_attention", false)};
  const unmask::session_capacity capacity = {.sequences = given.get("sequences", 1),
                                             .length = given.get<int>("length"),
                                             .window = given.get<int>("window"),
                                             .branches = given.get("branches", 0),
                                             .trace = trace || file};
  auto model = given.get("model", std::string());
  std::optional<nb::callable> token_text;
  if (given.has("token_text") && !given["token_text"].is_none()) {
    if (PyCallable_Check(given["token_text"].ptr()) == 0) {
      refuse_type("token_text must be a function of a token, got " + type_of(given["token_text"]));
    }
    token_text = nb::borrow<nb::callable>(given["token_text"]);
  }
  const int threads = given.get("threads", 1);
  const auto stream = given.optional<std::uintptr_t>("stream");
  const bool files = given.get("files", true);
  {
    const without_gil others;
    new (place) session(std::move(policy), info, capacity, threads, stream, files);
  }
  if (file) {
    try {
      place->record(*file, std::move(model), std::move(token_text));
    } catch (...) {
      place->~session();
      throw;
    }
  }
}

void start(session& s, const nb::args& by_place, const nb::kwargs& by_name) {
  arguments given("start()", start_arguments, by_place, by_name);
  const auto slot = given.get<int>("slot");
  writable_tensor tokens = writable_of(lent_to(s.stream(), given["tokens"]), "tokens");
  const auto all = static_cast<int>(tokens.ndim() == 1 ? tokens.shape(0) : 0);
  std::optional<tensor> editable;
  if (given.has("editable")) {
    editable = optional_of(given["editable"], "editable");
  }
  s.start(slot,
          std::move(tokens),
          {.prompt_length = given.get<int>("prompt_length"),
           .length = given.optional<int>("length").value_or(all),
           .block_length = given.get("block_length", 32),
           .seed = given.get<std::uint64_t>("seed", 0),
           .sequence = given.get<std::uint32_t>("sequence", 0)},
          editable,
          given.get("suppressed", std::vector<int>()),
          given.optional<std::string>("policy"),
          fields_of(given.has("constraint") ? given["constraint"] : nb::handle(),
                    given.has("fields") ? given["fields"] : nb::handle()),
          given.get("soft_tokens", 0));
}

// An object that refers to a session may be in a cycle with it: `token_text` is often a method of
// its owner.
int visit_session(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));  // calls visit with arg
  return nb::inst_ready(self) ? nb::inst_ptr<session>(self)->visit(visit, arg) : 0;
}
int clear_session(PyObject* self) {
  nb::inst_ptr<session>(self)->clear();
  return 0;
}
PyType_Slot session_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&visit_session)},
                               {Py_tp_clear, reinterpret_cast<void*>(&clear_session)},
                               {0, nullptr}};

void bind_session(nb::module_& m) {
  nb::class_<session>(m,
                      "Session",
                      nb::type_slots(session_slots),
                      R"doc(Decodes one or many sequences with a policy given by name.

    session = unmask.Session("trace_credit + threshold(0.9)", vocab=V, mask_token=M, window=32, length=L)
    session.start(0, tokens, prompt_length=prompt)
    while (request := session.next()) is not None:
        logits = engine(tokens)                       # float32, bfloat16 or float16
        session.supply([logits[s.rows] for s in request.segments])

The engine owns tokens and logits; tokens are written in place, logits are read where they are.
`window` is the largest number of positions whose rows one step reads: the block length, or the
whole answer. `suppress_mask=False` lets the mask token be proposed, as released decoders do; its
position then stays masked. With `causal_attention` and `shadow_attention` the engine says that it
runs segments of these kinds of attention (Segment.attention); a policy that needs another is refused.
`trace` is True for candidates(), or the name of a file ("-": standard
output) that gets the decode as a trace, lines of JSON; `model` is the name of the model in it, and
`token_text(token)` the text of a token, which must not call the session: what it raises comes out of
the call behind the lines of the trace, and it is asked again where the token occurs again. The policy
"replay('decode.jsonl', 2)" commits what the third sequence of a trace committed in the same steps,
with the log-probabilities that these logits give. `threads` read the rows; sessions with the same
number share them. With `stream`, a cudaStream_t as an integer, tokens and logits are on that stream's
device. With `files=False` no text of a policy may name a file, for policies that come from others.

An engine that runs single positions of its layers also decodes policies with a layer rule, such as
"es_dllm", and names the number of its `layers`. For segment i of a request:

    hidden = embed(session.positions(i))
    for l in range(layers):
        hidden = layer[l](hidden, session.positions(i))   # attends to segment.keys
        if session.hooks(i, l):                           # of a rule that reads "hidden"
            hidden = hidden[session.at_layer(i, l, hidden, stored[l])]
    logits = head(hidden[session.rows(i)])

Other threads of Python run during every call. A session that two threads use serves them in turn.)doc")
      .def("__init__", &make_session, nb::sig(session_arguments))
      .def("__repr__",
           [](const session& s) {
             return shown("Session",
                          std::pair("policy", s.policy()),
                          std::pair("vocab", s.model().vocab),
                          std::pair("mask_token", s.model().mask_token),
                          std::pair("sequences", s.capacity().sequences),
                          std::pair("length", s.capacity().length),
                          std::pair("window", s.capacity().window));
           })
      .def(
          "start",
          &start,
          nb::sig(start_arguments),
          R"doc(Begins a sequence in a slot. One that still runs there is given up without an error, and its
tokens stay as they are.

Masks the positions behind the prompt and writes the mask token there. `editable` says for each
position whether it is masked: True or 1, or fixed: False or 0. 2 is committed: the token stays, and
parts that edit or remask committed tokens may change it. `tokens` is int32, or int64 on a CPU, and
is written in place until the sequence has ended. `suppressed` tokens are never proposed. `policy` is the text of a policy of its own; None
is the session's. Requests with equal prompts draw equal tokens unless `seed` or `sequence`
differs. `soft_tokens` is the number of tokens of a row in soft_tokens(); 0 asks for none.)doc")
      .def(
          "next",
          [](session& s, const nb::object& slots) {
            return s.next(slots.is_none() ? std::nullopt
                                          : std::optional(taken<std::vector<int>>(
                                                slots, "slots", "a list of int")));
          },
          "slots"_a = nb::none(),
          nb::sig("def next(self, slots: collections.abc.Sequence[int] | None = None) -> Request "
                  "| None"),
          R"doc(The next forward request, or None when no sequence runs. Does not change until supply().

With `slots` it has those of these slots only that run, for a limit on the tokens of a pass and for
paused sequences; the others stay as they are. None then says that none of these slots runs, also for
an empty list.)doc")
      .def("supply",
           &supply,
           "logits"_a.none(),
           nb::kw_only(),
           "allowed"_a = nb::none(),
           "unconditional"_a = nb::none(),
           "cfg_scale"_a.none() = 0.0F,
           nb::sig("def supply(self, logits: object, *, allowed: object | None = None, "
                   "unconditional: object | None = None, "
                   "cfg_scale: float | collections.abc.Sequence[float] = 0.0) -> None"),
           R"doc(Takes the logits of the request and decides.

Logits or log-probabilities, never probabilities: a RuntimeWarning, once, where the first rows lie in
[0, 1] and add up to 1, and where rows were NaN or infinite. `logits` is one tensor with the rows of all segments, or a list with one for each segment; columns
behind the vocabulary are ignored. `allowed` are a grammar's packed bits, ceil(vocab / 32) int32
words a row; `unconditional` are the rows u of z = u + (cfg_scale + 1)(c - u), LLaDA's formula: any
finite cfg_scale, 0 is off. Each is shaped as `logits` is: a tensor, or a list of tensors and
None; so may be `cfg_scale`, a list of numbers.)doc")
      .def_prop_ro(
          "reads",
          [](const session& s) { return s.rule().read(); },
          "The tensor that at_layer() is about: hidden after a layer, about those that follow; "
          "another one inside it, before attention. None if the policy has no layer rule.")
      .def_prop_ro(
          "kept",
          [](const session& s) { return s.rule().kept(); },
          "Whether a position that is not chosen continues with what the engine stored of the "
          "layer; "
          "otherwise it leaves the pass.")
      .def_prop_ro(
          "single_positions",
          [](const session& s) { return s.rule().single_positions; },
          "Whether a pass is the positions of positions() and returns the logits of "
          "rows(), which the slices of its segment only bound.")
      .def_prop_ro(
          "evicts",
          [](const session& s) { return s.rule().evicts; },
          "Whether the policy drops keys: obey Segment.evict with eviction() and "
          "select_keys().")
      .def("layer_rule",
           &session::rule_of,
           "segment"_a,
           "reads, kept, single_positions and evicts of the policy of a segment's sequence, which "
           "start() may have named.")
      .def("positions",
           &session::positions,
           "segment"_a,
           "The positions that the next layer gets, ascending.")
      .def("hooks",
           &session::hooks,
           "segment"_a,
           "layer"_a,
           "Whether at_layer() is to be called for a layer.")
      .def(
          "at_layer",
          [](session& s,
             std::size_t segment,
             int layer,
             const nb::object& now,
             const nb::object& stored) {
            return s.at_layer(segment, layer, tensor_of(now, "now"), writable_of(stored, "stored"));
          },
          "segment"_a,
          "layer"_a,
          "now"_a.none(),
          "stored"_a.none(),
          nb::sig("def at_layer(self, segment: int, layer: int, now: object, stored: object) -> "
                  "list[int]"),
          R"doc(Chooses what is computed from a layer on: indices of rows of `now`, ascending.

`now` has a row of the tensor `reads` for each of positions(); `stored` has one for each position of
the sequence, the engine's own of this layer, and is written.)doc")
      .def("rows",
           &session::rows,
           "segment"_a,
           "The rows whose logits supply() takes: indices of positions() after the last layer.")
      .def("eviction",
           &session::eviction_of,
           "segment"_a,
           "Eviction of keys in the pass of a segment; keep is 1 for a policy that drops none.")
      .def(
          "select_keys",
          [](session& s, std::size_t segment, const nb::object& scores) {
            return s.select_keys(segment, tensor_of(scores, "scores"));
          },
          "segment"_a,
          "scores"_a.none(),
          nb::sig("def select_keys(self, segment: int, scores: object) -> list[int]"),
          R"doc(Selects the keys that one layer keeps, where Segment.evict is "choose".

`scores`, float32, has the score of the key of each position of [0, Segment.keys.stop): see
score_keys(). Returns the kept positions outside the decided blocks, ascending; passes with "chosen"
attend to them and to the blocks. Ties: the lower position; NaN ranks highest.)doc")
      .def("report", &session::report, "slot"_a = 0, "Report of the sequence in a slot.")
      .def("committed",
           &session::committed,
           "slot"_a = 0,
           "Tokens that the last step wrote in a slot.")
      .def("candidates",
           &session::candidates,
           "slot"_a = 0,
           "Candidates of the last step, and why each was committed or not; needs trace=True.")
      .def("probabilities",
           &session::probabilities,
           "slot"_a = 0,
           "Probabilities of the tokens that the policy probes.")
      .def(
          "soft_tokens",
          &session::soft_tokens,
          "slot"_a = 0,
          "The most probable tokens of each position that the last step read and left masked, best "
          "first; their number is soft_tokens of start(). For an engine that feeds such a position "
          "with a mixture of embeddings.")
      .def("alternatives",
           &session::alternatives,
           "slot"_a = 0,
           "Like soft_tokens(), for each position that the last step read and committed: for "
           "interfaces that show alternatives of a token. One that was drawn need not be among "
           "them.")
      .def("planned", &session::planned, "slot"_a = 0, "The plan of a slot's next step.")
      .def("constraint_state",
           &session::constraint_state,
           "slot"_a = 0,
           "field"_a = 0,
           "The state of a constrained field behind its committed prefix: `state` of the Field of "
           "the "
           "next block, for hosts that decode an answer block by block.")
      .def("cancel", &session::cancel, "slot"_a, "Ends a sequence as it is.")
      .def(
          "abandon",
          &session::abandon,
          "Forgets the request of a forward pass that failed: next() requests the same step again.")
      .def("cancel_request",
           &session::cancel_request,
           "Cancels every sequence of the request and forgets it: for a pass that failed after "
           "at_layer().")
      .def_prop_ro("policy", &session::policy)
      .def_prop_ro(
          "stream", &session::stream, "The stream that it was made with; None on the host.")
      .def_prop_ro("vocab", [](const session& s) { return s.model().vocab; })
      .def_prop_ro("mask_token", [](const session& s) { return s.model().mask_token; });
}

}  // namespace
}  // namespace unmask_python

NB_MODULE(_unmask, m) {
  using namespace nanobind::literals;
  m.doc() = "Decoding policies for masked diffusion language models.";
  nanobind::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const std::invalid_argument& e) {
      PyErr_SetString(PyExc_ValueError, unmask_python::in_python(e.what()).c_str());
    } catch (const std::logic_error& e) {
      PyErr_SetString(PyExc_RuntimeError, unmask_python::in_python(e.what()).c_str());
    }
  });
  unmask_python::without_gil::wait_at_exit();
  unmask_python::bind_values(m);
  unmask_python::bind_constraints(m);
  unmask_python::bind_languages(m);
  unmask_python::bind_session(m);
  unmask_python::bind_requirements(m);
  unmask_python::bind_calibrator(m);
  unmask_python::bind_tune(m);
  unmask_python::bind_parts(m);
  unmask_python::bind_policy_parts(m);
  unmask_python::bind_models(m);
  unmask_python::bind_read(m);
  m.def(
      "score_keys",
      &unmask_python::score_keys,
      "keys"_a.none(),
      "query"_a.none(),
      "scores"_a.none(),
      nanobind::sig("def score_keys(keys: object, query: object, scores: object) -> None"),
      R"doc(Writes the products of a query, the mean of the queries of the decided blocks, with each
row of `keys`, all heads in one row, into `scores`, float32: for Session.select_keys(). The bits do
not depend on the instruction set.)doc");
  m.def("describe_parts",
        &unmask::describe_parts,
        "The parts that a policy may name, with their arguments and ranges, as text.");
  m.attr("version") = std::to_string(UNMASK_VERSION_MAJOR) + "." +
                      std::to_string(UNMASK_VERSION_MINOR) + "." +
                      std::to_string(UNMASK_VERSION_PATCH);
#ifdef UNMASK_PYTHON_CUDA
  m.attr("has_cuda") = true;
#else
  m.attr("has_cuda") = false;
#endif
}
