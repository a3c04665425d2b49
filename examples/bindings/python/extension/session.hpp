// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/named_policy.hpp>
#include <unmask/threads.hpp>
#include <unmask/trace.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "constraints.hpp"
#include "device.hpp"
#include "eviction.hpp"
#include "gil.hpp"
#include "mistakes.hpp"
#include "policy_of.hpp"
#include "tensor.hpp"

namespace unmask_python {

/// The tokens of a slot, which the caller owns: int32 tokens are written where they are, int64
/// tokens by way of a copy, because a session's tokens have 32 bits.
class slot_tokens {
 public:
  slot_tokens() = default;
  explicit slot_tokens(writable_tensor tokens)
      : tensor_(std::move(tokens)) {
    using code = nb::dlpack::dtype_code;
    check_dense(tensor_, "tokens", 1);
    space_ = space_of(tensor_, "tokens");
    size_ = static_cast<unmask::index_t>(tensor_.shape(0));
    if (is_of(tensor_, code::Int, 32)) {
      data_ = static_cast<unmask::token_id*>(tensor_.data());
    } else if (is_of(tensor_, code::Int, 64) && space_ == unmask::memory::host) {
      wide_ = static_cast<std::int64_t*>(tensor_.data());
      for (unmask::index_t p = 0; p < size_; ++p) {
        if (wide_[p] != static_cast<unmask::token_id>(wide_[p])) {
          refuse("tokens", "fit in 32 bits", std::to_string(wide_[p]) + " at " + std::to_string(p));
        }
      }
      copy_.assign(wide_, wide_ + size_);
      data_ = copy_.data();
    } else {
      refuse("tokens", "be int32, or int64 on a CPU", dtype_of(tensor_));
    }
  }

  [[nodiscard]] unmask::token_id* data() { return data_; }
  [[nodiscard]] unmask::index_t size() const { return size_; }
  [[nodiscard]] unmask::memory space() const { return space_; }
  /// Whether two slots write the same memory, of which a session sees the copies of int64 tokens.
  [[nodiscard]] bool shares(const slot_tokens& other) const {
    const std::less<const void*> before;
    return before(first(), other.last()) && before(other.first(), last());
  }

  /// Shows the caller what the session has written.
  void publish(unmask::index_t first, unmask::index_t last) {
    for (unmask::index_t p = first; wide_ != nullptr && p < last; ++p) {
      wide_[p] = copy_[static_cast<std::size_t>(p)];
    }
  }

 private:
  [[nodiscard]] const void* first() const {
    return wide_ != nullptr ? static_cast<const void*>(wide_) : data_;
  }
  [[nodiscard]] const void* last() const {
    return wide_ != nullptr ? static_cast<const void*>(wide_ + size_) : data_ + size_;
  }

  writable_tensor tensor_;
  std::vector<unmask::token_id> copy_;
  std::int64_t* wide_ = nullptr;
  unmask::token_id* data_ = nullptr;
  unmask::index_t size_ = 0;
  unmask::memory space_ = unmask::memory::host;
};

/// A segment with its own tokens, those of a branch: the session's are in its plan.
struct kept_segment : unmask::segment {
  std::vector<unmask::placement> tokens;

  kept_segment(const unmask::segment& s)  // NOLINT(google-explicit-constructor): of a list of them
      : segment(s)
      , tokens(s.placed.begin(), s.placed.end()) {
    placed = {};
  }
};

/// A forward_request that Python may keep.
struct request {
  std::vector<kept_segment> segments;
  unmask::index_t rows = 0;
};

/// Demands of a policy on an engine.
struct layer_rule : unmask::layer_rule_info {
  bool single_positions = false;
  bool evicts = false;
  key_evictor evictor;

  explicit layer_rule(const unmask::named_policy& policy)
      : unmask::layer_rule_info(unmask::layer_rule_of(policy))
      , single_positions(policy.layered_now())
      , evicts(policy.eviction.count > 0)
      , evictor(policy.eviction) {}
  /// Name of the tensor that the rule compares; None without a rule.
  [[nodiscard]] std::optional<const char*> read() const {
    static constexpr const char* names[] = {"hidden", "input", "query", "key", "value"};
    return has_hooks ? std::optional(names[static_cast<std::size_t>(reads)]) : std::nullopt;
  }
  [[nodiscard]] bool kept() const { return skipped == unmask::skipping::kept; }
};

/// unmask::named_session for Python: checks tensors, keeps what the session points to alive, and
/// lets other threads of Python run while it works.
class session {
  // Without the GIL, and one thread at a time. A call out of token_text, or of a function that
  // decides for a part, would wait for itself.
  auto alone(const auto& work) {
    unmask::check_order(owner_.load() != std::this_thread::get_id(),
                        "a call of a session inside its own token_text, or inside a function that "
                        "decides for its policy");
    const without_gil others;
    const auto turn = wait(others.released());
    owner_ = std::this_thread::get_id();
    struct leaving {
      std::atomic<std::thread::id>& owner;
      ~leaving() { owner = std::thread::id(); }
    } const leave{owner_};
    return work();
  }

  // The turn of this thread; while it waits, Ctrl-C ends the call. With the GIL it must not wait.
  [[nodiscard]] std::unique_lock<std::timed_mutex> wait(bool may_wait) {
    std::unique_lock turn(mutex_, std::try_to_lock);
    if (!turn.owns_lock() && !may_wait) {
      throw std::runtime_error("the session is in use, and the interpreter ends");
    }
    while (!turn.owns_lock() && !turn.try_lock_for(std::chrono::milliseconds(50))) {
      const nb::gil_scoped_acquire python;
      if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
      }
    }
    return turn;
  }

  // use(session) with the session in its memory.
  template <class Use>
  decltype(auto) with(const Use& use) {
#ifdef UNMASK_PYTHON_CUDA
    if (device_ != nullptr) {
      return use(*device_);
    }
#endif
    return use(*host_);
  }

  template <class T>
  [[nodiscard]] static std::vector<T> copied(std::span<const T> entries) {
    return {entries.begin(), entries.end()};
  }

 public:
  session(std::string policy,
          const unmask::model_info& model,
          const unmask::session_capacity& capacity,
          unmask::index_t threads,
          std::optional<std::uintptr_t> stream,
          bool files)
      : policy_(std::move(policy))
      , model_(model)
      , capacity_(capacity)
      , stream_(stream)
      , space_(stream ? unmask::memory::device : unmask::memory::host)
      , selector_(std::max(capacity.length, 0))
      , files_(files)
      , replay_(files ? unmask::read_replay(policy_)
                      : unmask::read_replay(policy_, unmask::no_files)) {
    const unmask::named_policy parts =
        replay_ != nullptr ? replay_->policy() : policy_of(policy_, files);
    if (stream) {
      unmask::check_argument(replay_ == nullptr, "stream", "a stream", "None with a replay");
#ifdef UNMASK_PYTHON_CUDA
      device_ = std::make_unique<device_session>(
          parts, model, capacity, unmask::on_stream{reinterpret_cast<cudaStream_t>(*stream)});
#else
      refuse("stream", "be None in a package built without UNMASK_PYTHON_CUDA", "a stream");
#endif
    } else {
      unmask::on_host where;
      if (threads != 1) {
        if (threads < 1 || threads > 1024) {
          refuse("threads", "be in [1, 1024]", std::to_string(threads));
        }
        threads_ = unmask::host::shared_thread_pool::of(threads);
        where.executor = *threads_;
      }
      host_ = std::make_unique<unmask::named_session>(parts, model, capacity, where);
    }
    own_.emplace(parts);
    if (stream) {
      static_cast<unmask::layer_rule_info&>(*own_) = {};
    }
    of_slot_.assign(static_cast<std::size_t>(capacity.sequences), *own_);
    slots_.resize(static_cast<std::size_t>(capacity.sequences));
  }

  /// Records the decodes in a file, with the texts that `text` gives for tokens, if it is given.
  void record(const std::string& file, std::string model, std::optional<nb::callable> text) {
    unmask::check_argument(
        space_ == unmask::memory::host, "trace", file, "True or False with a stream");
    if (file.find('\0') != std::string::npos) {
      refuse("trace", "have no NUL character", "one in " + unmask::detail::quoted(file));
    }
    unmask::trace_head head{.model = std::move(model),
                            .info = model_,
                            .policy = policy_,
                            .parts = unmask::part_texts(policy_)};
    if (text) {
      token_text_ = std::move(*text);
      head.text = [this](unmask::token_id token) { return text_of(token); };
    }
    file_.emplace(file);
    trace_.emplace(*file_, std::move(head));
  }

  void start(unmask::index_t slot,
             writable_tensor tokens,
             unmask::sequence_shape geometry,
             const std::optional<tensor>& editable,
             const std::vector<unmask::token_id>& suppressed,
             const std::optional<std::string>& policy,
             const std::vector<field>& fields,
             unmask::index_t soft_tokens) {
    used fresh{slot_tokens(std::move(tokens)), geometry};
    if (fresh.tokens.space() != space_) {
      refuse("tokens",
             "be in the session's memory",
             fresh.tokens.space() == unmask::memory::host ? "host memory" : "device memory");
    }
    unmask::start_options options;
    options.suppressed = suppressed;
    options.soft_tokens = soft_tokens;
    if (editable) {
      check_dense(*editable, "editable", 1);
      if (editable->dtype().bits != 8 || space_of(*editable, "editable") != unmask::memory::host) {
        refuse("editable", "be bool or uint8 in host memory", dtype_of(*editable));
      }
      options.editable = {static_cast<const std::uint8_t*>(editable->data()), editable->shape(0)};
    }
    layer_rule wanted = *own_;
    std::optional<unmask::named_policy> parts;
    if (policy) {
      unmask::check_argument(
          replay_ == nullptr, "policy", *policy, "None in a session that replays a trace");
      const without_gil others;
      parts = policy_of(*policy, files_);
      wanted = layer_rule(*parts);
    }
    alone([&] {
      check_apart(slot, fresh.tokens);
      const std::vector<unmask::constrained_field> constraints = constraints_.of(fields);
      options.constraints = constraints;
      if (replay_ != nullptr) {
        replay_->check_start(options, geometry);
      }
      unmask::trace_sequence traced{
          .slot = slot,
          .shape = geometry,
          .tokens = {fresh.tokens.data(), static_cast<std::size_t>(fresh.tokens.size())},
          .options = options};
      if (trace_) {
        unmask::validate_start(
            model_, capacity_, slot, fresh.tokens.data(), fresh.tokens.size(), geometry, options);
        if (policy) {
          traced.policy = std::make_shared<const unmask::trace_policy>(
              unmask::trace_policy{*policy, unmask::part_texts(*policy)});
        }
        trace_->reserve(traced);
      }
      with([&](auto& session) {
        const unmask::tokens_view<std::remove_reference_t<decltype(session)>::space> lent{
            fresh.tokens.data(), fresh.tokens.size()};
        try {
          parts ? session.start(slot, *parts, lent, geometry, options)
                : session.start(slot, lent, geometry, options);
        } catch (const unmask::callback_error& e) {
          std::rethrow_exception(e.cause);
        }
      });
      of_slot_[static_cast<std::size_t>(slot)] = std::move(wanted);
      std::swap(slots_[static_cast<std::size_t>(slot)], fresh);
      publish(slot);
      if (trace_) {
        trace_->start(traced, *host_);
        if (host_->report(slot).end != unmask::ending::running) {
          check_recording();
        }
      }
    });
  }

  [[nodiscard]] std::optional<request>
  next(const std::optional<std::vector<unmask::index_t>>& slots) {
    return alone([&] {
      const auto wanted =
          with([&](auto& session) { return slots ? session.next(*slots) : session.next(); });
      if (wanted && !wanted_) {
        try {
          request kept{{wanted->segments.begin(), wanted->segments.end()}, wanted->rows};
          if (trace_) {
            trace_->request(*wanted, *host_);
          }
          wanted_ = std::move(kept);
        } catch (...) {
          with([](auto& session) { session.abandon(); });  // the caller does not know of it
          throw;
        }
      }
      return wanted_;
    });
  }

  void supply(const tensor& logits, const modifier_tensors& modifiers) {
    const unmask::any_rows rows = rows_of(logits, "logits");
    check_not_swapped(rows, model_.vocab);
    const unmask::any_modifiers beside = modifiers.beside(rows, model_.vocab);
    mistakes_.check_rows(rows, model_.vocab);
    supply_alone([&](auto& session) { session.supply(rows, beside); });
  }

  /// One tensor for each segment of the request.
  void supply(const std::vector<tensor>& logits, const std::vector<modifier_tensors>& modifiers) {
    std::vector<unmask::any_rows> rows;
    std::vector<unmask::any_modifiers> beside;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      rows.push_back(rows_of(logits[i], "logits"));
      check_not_swapped(rows.back(), model_.vocab);
      beside.push_back(modifiers[i].beside(rows.back(), model_.vocab));
    }
    if (!rows.empty()) {
      mistakes_.check_rows(rows.front(), model_.vocab);
    }
    supply_alone([&](auto& session) { session.supply(rows, beside); });
  }

  [[nodiscard]] std::vector<unmask::index_t> positions(std::size_t segment) {
    return alone([&] { return copied(pass_of(segment).positions()); });
  }
  [[nodiscard]] std::vector<unmask::index_t> rows(std::size_t segment) {
    return alone([&] { return copied(pass_of(segment).rows()); });
  }
  [[nodiscard]] bool hooks(std::size_t segment, unmask::index_t layer) {
    return alone([&] { return pass_of(segment).hooks(layer); });
  }
  [[nodiscard]] std::vector<unmask::index_t> at_layer(std::size_t segment,
                                                      unmask::index_t layer,
                                                      const tensor& now,
                                                      const writable_tensor& stored) {
    const unmask::any_rows shown = rows_of(now, "now");
    const unmask::any_rows kept = rows_of(stored, "stored");
    unmask::any_state state;
    state.data = stored.data();
    state.kind = kept.kind;
    state.space = kept.space;
    state.positions = {0, kept.rows};
    state.columns = kept.columns;
    state.stride = kept.stride;
    return alone([&] { return copied(pass_of(segment).at_layer(layer, shown, state).rows); });
  }

  /// Demands of the session's policy; on a device it has no layer rule.
  [[nodiscard]] const layer_rule& rule() const { return *own_; }
  /// Demands of the policy of a segment's sequence.
  [[nodiscard]] layer_rule rule_of(std::size_t segment) {
    return alone([&] { return demands_of(pass_of(segment).about()); });
  }
  [[nodiscard]] eviction_in_pass eviction_of(std::size_t segment) {
    return alone([&] {
      const unmask::segment s = pass_of(segment).about();
      return demands_of(s).evictor.about(s, host_->planned(s.slot));
    });
  }
  [[nodiscard]] std::vector<unmask::index_t> select_keys(std::size_t segment,
                                                         const tensor& scores) {
    const std::span<const float> given = floats_of(scores, "scores");
    return alone([&] {
      const unmask::segment s = pass_of(segment).about();
      return demands_of(s).evictor.select(selector_, s, host_->planned(s.slot), given);
    });
  }

  [[nodiscard]] unmask::sequence_report report(unmask::index_t slot) {
    return alone([&] { return with([&](auto& session) { return session.report(slot); }); });
  }
  [[nodiscard]] auto committed(unmask::index_t slot) {
    return alone(
        [&] { return with([&](auto& session) { return copied(session.committed(slot)); }); });
  }
  [[nodiscard]] auto candidates(unmask::index_t slot) {
    return alone(
        [&] { return with([&](auto& session) { return copied(session.candidates(slot)); }); });
  }
  [[nodiscard]] auto probabilities(unmask::index_t slot) {
    return alone(
        [&] { return with([&](auto& session) { return copied(session.probabilities(slot)); }); });
  }
  [[nodiscard]] auto soft_tokens(unmask::index_t slot) {
    return alone(
        [&] { return with([&](auto& session) { return copied(session.soft_tokens(slot)); }); });
  }
  [[nodiscard]] auto alternatives(unmask::index_t slot) {
    return alone(
        [&] { return with([&](auto& session) { return copied(session.alternatives(slot)); }); });
  }
  [[nodiscard]] unmask::plan planned(unmask::index_t slot) {
    return alone([&] { return with([&](auto& session) { return session.planned(slot); }); });
  }
  [[nodiscard]] std::uint32_t constraint_state(unmask::index_t slot, std::size_t index) {
    return alone(
        [&] { return with([&](auto& session) { return session.constraint_state(slot, index); }); });
  }
  void abandon() {
    alone([&] {
      with([](auto& session) { session.abandon(); });
      wanted_.reset();
    });
  }
  void cancel_request() {
    alone([&] {
      with([](auto& session) { session.cancel_request(); });
      wanted_.reset();
      end_trace();
    });
  }
  void cancel(unmask::index_t slot) {
    alone([&] {
      with([&](auto& session) { session.cancel(slot); });
      end_trace();
    });
  }

  /// References to objects of Python, for its collector of cycles.
  int visit(visitproc use, void* with) const {
    return token_text_.is_valid() ? use(token_text_.ptr(), with) : 0;
  }
  /// Drops them.
  void clear() { token_text_ = nb::none(); }

  [[nodiscard]] const std::string& policy() const { return policy_; }
  [[nodiscard]] const unmask::session_capacity& capacity() const { return capacity_; }
  /// The stream that it was made with, if any.
  [[nodiscard]] std::optional<std::uintptr_t> stream() const { return stream_; }
  [[nodiscard]] const unmask::model_info& model() const { return model_; }

 private:
  // The core checks what it writes; of int64 tokens that is a copy.
  void check_apart(unmask::index_t slot, const slot_tokens& tokens) {
    for (std::size_t other = 0; other < slots_.size(); ++other) {
      const auto index = static_cast<unmask::index_t>(other);
      if (index != slot && slots_[other].tokens.shares(tokens)) {
        const bool runs = with([&](auto& session) { return session.planned(index).active(); });
        unmask::lent_tokens::check_apart(!runs, slot, index);
      }
    }
  }

  struct used {
    slot_tokens tokens;
    unmask::sequence_shape geometry;
  };

  void publish(unmask::index_t slot) {
    used& s = slots_[static_cast<std::size_t>(slot)];
    s.tokens.publish(s.geometry.prompt_length, s.geometry.length);
  }
  [[nodiscard]] unmask::named_session::layer_pass pass_of(std::size_t segment) {
    unmask::check_order(host_ != nullptr, "a session on a stream has no layer hooks");
    return host_->pass(segment);
  }
  [[nodiscard]] const layer_rule& demands_of(const unmask::segment& s) const {
    return of_slot_[static_cast<std::size_t>(s.slot)];
  }
  // Decides the step by `supply`, and warns about what its reports say. On a device those are not
  // known until it synchronises.
  void supply_alone(const auto& supply) {
    const auto [slot, invalid_rows] = alone([&] {
      std::exception_ptr raised;  // by a function of Python; the step is decided all the same
      try {
        with(supply);
      } catch (const unmask::callback_error& e) {
        raised = e.cause;
      }
      std::pair<unmask::index_t, unmask::index_t> found{0, 0};
      for (const unmask::segment& s : wanted_->segments) {
        if (space_ == unmask::memory::host && found.second == 0) {
          found = {s.slot, host_->report(s.slot).invalid_rows};
        }
      }
      publish_step();
      if (raised) {
        std::rethrow_exception(raised);
      }
      return found;
    });
    mistakes_.check_report(slot, invalid_rows);
  }
  // The slots of the request that is now answered: others may have new owners.
  void publish_step() {
    for (const unmask::segment& s : wanted_->segments) {
      publish(s.slot);
    }
    wanted_.reset();
    if (trace_) {
      trace_->step(*host_);
      check_recording();
    }
  }
  void end_trace() {
    if (trace_) {
      trace_->end(*host_);
      check_recording();
    }
  }
  // Ends a recording whose file is full.
  void check_recording() {
    if (!trace_->ok()) {
      const std::runtime_error error(file_->error());
      trace_.reset();
      throw error;
    }
  }
  // The text of a token, which Python gives.
  [[nodiscard]] std::string text_of(unmask::token_id token) {
    const nb::gil_scoped_acquire python;
    const nb::object text = token_text_(token);
    if (!nb::isinstance<nb::str>(text)) {
      throw nb::type_error(("token_text(" + std::to_string(token) + ") must return a str, got " +
                            nb::cast<std::string>(nb::type_name(text.type())))
                               .c_str());
    }
    Py_ssize_t size = 0;
    const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes == nullptr) {
      throw nb::python_error();
    }
    return {bytes, static_cast<std::size_t>(size)};
  }

  std::string policy_;
  unmask::model_info model_;
  unmask::session_capacity capacity_;
  std::optional<std::uintptr_t> stream_;
  unmask::memory space_;
  unmask::host::key_selector selector_;
  bool files_;  // whether texts of policies may name some
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> owner_;  // the thread whose call it is
  std::shared_ptr<unmask::host::shared_thread_pool> threads_;
  std::unique_ptr<const unmask::loaded_replay> replay_;  // null for other policies
  std::unique_ptr<unmask::named_session> host_;          // or
#ifdef UNMASK_PYTHON_CUDA
  std::unique_ptr<device_session> device_;
#endif
  own_constraints constraints_;
  std::optional<layer_rule> own_;    // of the session's policy
  std::vector<layer_rule> of_slot_;  // of the policies of the slots' sequences
  std::vector<used> slots_;
  std::optional<request> wanted_;  // the request that is out, which the trace has, too
  mistakes mistakes_;
  nb::object token_text_;
  std::optional<unmask::trace_file> file_;
  std::optional<unmask::trace_writer> trace_;
};

}  // namespace unmask_python
