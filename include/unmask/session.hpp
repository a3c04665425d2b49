// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/lent_tokens.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/session_of_text.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/core/validate_rows.hpp>
#include <unmask/step/pending_request.hpp>
#include <unmask/step/slot.hpp>
#include <unmask/step/state_bytes.hpp>

#include <concepts>
#include <optional>
#include <span>

namespace UNMASK_NAMESPACE {

/// A backend: the memory space and the kernels of a session, `on_host` or `on_stream`.
///
/// A value with a memory space and a class template `workspace<Policy>` that contains the slots.
/// The session checks arguments and the order of calls; the workspace computes.
template <class B>
concept backend = std::copyable<B> && requires {
  { B::space } -> std::convertible_to<memory>;
};

struct on_host;

/// Decodes one or many sequences: requests forward passes from the engine and commits tokens.
///
///     while (auto request = session.next()) session.supply(engine.forward(*request));
///
/// next() returns the positions of each sequence to compute and the rows of logits to return;
/// supply() takes these rows, decides, and writes the tokens in place. The engine owns the tokens
/// and the logits. A sequence ends after at most most_forwards(policy, shape) forward passes
/// (core/walk.hpp), whatever the logits. Nothing is allocated after construction. One thread at a
/// time may use a session; several sessions are independent.
///
/// A sequence occupies a slot. start() may reuse a slot at any time between supply() and next(), so
/// sequences join and leave a batch freely; no sequence influences another.
///
/// `Layered` is for layer_session, which adds the calls that an engine makes inside its layers.
template <class Policy, class Backend = on_host, bool Layered = false>
class session {
 public:
  static_assert(
      Layered || !Policy::layered,
      "this policy decides which positions each layer of the model computes, so the engine "
      "must call at_layer() there: decode with layer_session instead of session; "
      "Policy::layered tells an engine at compile time");
  static constexpr memory space = Backend::space;  ///< Memory that logits and tokens are in.
  using policy_type = Policy;                      ///< Type of the policy.

  /// Allocates O(sequences * (length + window)) bytes. Errors: std::invalid_argument.
  session(const model_info& model, const session_capacity& capacity, const Backend& where = {})
    requires backend<Backend>
      : session(model, capacity, where, model.vocab) {}

  /// A session of one slot, started with `tokens`.
  session(const Policy& policy,
          const model_info& model,
          tokens_view<space> tokens,
          const sequence_shape& geometry,
          const Backend& where = {})
      : session(model, detail::capacity_for(policy, tokens.size, geometry), where) {
    start(0, policy, tokens, geometry);
  }

  /// Starts a sequence in `slot`: masks the positions behind the prompt (only those that
  /// `options.editable` marks, if given) and writes the mask token there. A sequence that still
  /// runs in the slot is given up without an error, and its tokens stay as they are.
  ///
  /// The memory of the tokens must not overlap that of another running sequence of this session.
  /// Errors: std::invalid_argument, naming argument, value and rule, before anything is changed;
  /// std::logic_error between next() and supply().
  void start(index_t slot,
             const Policy& policy,
             tokens_view<space> tokens,
             const sequence_shape& geometry,
             const start_options& options = {}) {
    request_.check_start();
    validate_start(model_, capacity_, slot, tokens.data, tokens.size, geometry, options);
    const sequence_shape shape = bounded(geometry);
    validate_reach(math::min(detail::policy_reach(policy, shape), shape.length), capacity_);
    detail::check_parts(policy, geometry, model_);
    validate_branches(detail::policy_branches(policy), capacity_);
    tokens_.check(slot, tokens.data, geometry.length, [this](std::size_t other) {
      return workspace_.statuses()[other].next.active();
    });
    workspace_.start(slot, policy, tokens, shape, options);
    tokens_.record(slot, tokens.data, geometry.length);
  }

  /// Returns the next forward pass to compute, or nothing when no sequence runs. Returns the same
  /// until supply(). On a device only this call, report() and what reads their status synchronise.
  /// The request's spans are valid until supply().
  [[nodiscard]] std::optional<forward_request> next() {
    if (!request_.is_out()) {
      request_.choose_all();
    }
    return request();
  }

  /// The same for some slots only, of which those that run are in the pass: for a limit on tokens
  /// in a pass, or paused sequences. The others stay as they are until a request that has them.
  /// Nothing is returned if none of `slots` runs.
  ///
  /// Errors: std::logic_error while a request is out; std::invalid_argument for a slot that does
  /// not exist or repeats. Cost: also O(slots.size()^2).
  [[nodiscard]] std::optional<forward_request> next(std::span<const index_t> slots) {
    request_.choose(slots);
    return request();
  }

  /// Takes the logits of the request (or log-probabilities, never probabilities), packed: row
  /// segment.first_row + r of the tensor is the row of position segment.rows.first + r. `modifiers`
  /// are indexed by the same rows.
  ///
  /// Errors: std::logic_error without a request and after read(), std::invalid_argument for a wrong
  /// shape; the session is then unchanged.
  template <row_tensor Tensor>
  void supply(
      const Tensor& tensor,
      const row_modifiers<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
          modifiers = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    request_.check_supply();
    index_t rows = 0;
    for (const segment& s : segments()) {
      rows += wanted_rows(s);
    }
    check_rows(logits, modifiers, rows, "rows of the logits", "forward_request::rows = ");
    index_t first = 0;
    for (const segment& s : segments()) {
      const index_t count = wanted_rows(s);
      workspace_.enqueue(s, logits.subrows({first, first + count}), modifiers.from_row(first));
      first += count;
    }
    finish();
  }

  /// Takes the logits as one tensor for each segment, in the request's order, in a std::vector,
  /// std::span or std::array of rows_view: for engines that keep the logits of each sequence apart.
  /// `modifiers` are empty or one for each segment, indexed by its rows.
  template <detail::rows_list List, class Modifiers = std::span<const detail::modifiers_for<List>>>
  void supply(const List& tensors, const Modifiers& modifiers = {}) {
    check_supply(tensors, modifiers);
    for (std::size_t i = 0; i < segments().size(); ++i) {
      workspace_.enqueue(segments()[i], tensors[i], detail::modifiers_at(tensors, modifiers, i));
    }
    finish();
  }

  /// Throws what supply() would throw for these arguments, and changes nothing.
  template <detail::rows_list List, class Modifiers = std::span<const detail::modifiers_for<List>>>
  void check_supply(const List& tensors, const Modifiers& modifiers = {}) {
    check_space<detail::view_in<List>>();
    request_.check_supply();
    const std::size_t count = segments().size();
    request_.check_count("number of tensors", tensors.size());
    request_.check_count("number of modifiers", modifiers.size() == 0 ? count : modifiers.size());
    for (std::size_t i = 0; i < count; ++i) {
      check_segment(tensors[i], detail::modifiers_at(tensors, modifiers, i), segments()[i]);
    }
  }

  /// Refuses, with a message, arguments that are not logits.
  template <class Other, class... More>
    requires(!row_tensor<Other> && !detail::rows_list<Other>)
  void supply(const Other&, const More&...) {
    detail::check_tensor<Other>();
  }

  /// Reads the logits of segment `index` of the request at once: supply() in pieces, for engines
  /// that compute one segment at a time in the same buffer. Call it once for every segment, in any
  /// order, then decide().
  ///
  /// Errors: std::logic_error without a request and for a segment that was already read,
  /// std::invalid_argument for a wrong index or shape; the session is then unchanged.
  template <row_tensor Tensor>
  void
  read(std::size_t index,
       const Tensor& tensor,
       const row_modifiers<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
           modifiers = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    request_.check_read(index);
    const segment& s = segments()[index];
    check_segment(logits, modifiers, s);
    workspace_.enqueue(s, logits, modifiers);
    workspace_.run();
    request_.was_read(index);
  }

  /// Does not compile: says what logits are.
  template <class Other, class... More>
    requires(!row_tensor<Other>)
  void read(std::size_t, const Other&, const More&...) {
    detail::check_tensor<Other>();
  }

  /// Decides the step after read() of every segment. Errors: std::logic_error without a request and
  /// before every segment was read; the session is then unchanged.
  void decide() {
    request_.check_decide();
    finish();
  }

  /// Forgets the request, for an engine whose forward pass failed or was preempted. cancel() and
  /// start() are then allowed again, and next() requests the same step of the sequences that run.
  ///
  /// Errors: std::logic_error without a request, and after read() or at_layer(), which have changed
  /// what the step is decided from; the session is then unchanged.
  void abandon() { request_.abandon(); }

  /// Cancels every sequence of the request and forgets it: for a forward pass that failed behind
  /// read() or at_layer() and can be neither abandoned nor repeated. Returns the segments that it
  /// had, until next(); a slot with branches has several. Errors: std::logic_error without a
  /// request.
  std::span<const segment> cancel_request() {
    const auto cancelled = request_.cancel();
    for (const segment& s : cancelled) {
      workspace_.cancel(s.slot);
    }
    return cancelled;
  }

  /// True when no sequence runs, as far as the device has finished its steps; never synchronises. A
  /// host that replays captured steps calls this between launches and need not call next() until it
  /// is true. Considers only sequences whose start next() or report() has seen.
  [[nodiscard]] bool finished() const {
    if constexpr (space == memory::device) {
      for (const std::uint32_t& word : running()) {
        if (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0) {  // the device may be writing it
          return false;
        }
      }
    } else {
      for (const step::slot_status& slot : workspace_.statuses()) {
        if (slot.next.active()) {
          return false;
        }
      }
    }
    return true;
  }

  /// The words that finished() reads, for kernels and conditions of a graph: one for each slot, 1
  /// while its sequence runs, in memory that host and device can read.
  [[nodiscard]] std::span<const std::uint32_t> running() const
    requires(space == memory::device) {
    return workspace_.running();
  }

  /// Report of the sequence in `slot`. On a device it synchronises with the last step, as next()
  /// does.
  [[nodiscard]] const sequence_report& report(index_t slot = 0) { return status(slot).report; }

  /// Plan of the slot's next step: positions, blocks and caches. Synchronises as report() does.
  [[nodiscard]] const plan& planned(index_t slot = 0) { return status(slot).next; }

  /// Tokens that the last supply() committed in `slot`, in ascending positions. Valid until the
  /// next supply().
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot = 0) {
    return workspace_.committed(slot, status(slot).report.last_commits);
  }

  /// Every position that was masked in the scored range of the last supply() in `slot`, and every
  /// committed one that a part made a candidate again, replaced or remasked: the proposed token and
  /// what the step did, in ascending positions. Valid until the next supply(). Errors:
  /// std::logic_error unless session_capacity::trace is set.
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot = 0) {
    check_order(capacity_.trace, "candidates() of a session without session_capacity::trace");
    return workspace_.candidates(slot, status(slot).report.last_candidates);
  }

  /// Probabilities of the tokens that the policy probes (probability_of), at every masked position
  /// of the last step whose row was valid, in ascending positions. Valid until the next supply().
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot = 0) {
    return workspace_.probabilities(slot, status(slot).report.last_probabilities);
  }

  /// Ends the sequence in `slot` in its current state; masked positions keep the mask token.
  /// Errors: std::logic_error between next() and supply() or abandon().
  void cancel(index_t slot) {
    request_.check_cancel();
    static_cast<void>(status(slot));
    workspace_.cancel(slot);
  }

  /// Capacities that the session was made with.
  [[nodiscard]] const session_capacity& capacity() const { return capacity_; }
  /// The model that the session was made with.
  [[nodiscard]] const model_info& model() const { return model_; }

  /// Bytes that the session allocates for its slots, in the backend's memory.
  [[nodiscard]] std::size_t bytes() const { return state_bytes<Policy>(capacity_); }

 protected:
  using workspace_type = typename Backend::template workspace<Policy>;

  /// For sharded_session, whose previous rows have `columns` columns.
  session(const model_info& model,
          const session_capacity& capacity,
          const Backend& where,
          index_t columns)
      : model_(model)
      , capacity_(detail::capacity_with<Policy>(model, capacity, columns))
      , workspace_(model, capacity_, where)
      , request_(capacity_)
      , tokens_(capacity_.sequences) {}

  /// The workspace of the pending request. For derived sessions.
  [[nodiscard]] workspace_type& workspace() { return workspace_; }
  [[nodiscard]] std::span<const segment> segments() const { return request_.segments(); }
  [[nodiscard]] bool waiting() const { return request_.is_out(); }
  void was_hooked() { request_.was_hooked(); }
  /// Decides the step after all its rows were read.
  void finish() {
    workspace_.decide(segments());
    request_.was_decided();
  }

 private:
  [[nodiscard]] std::optional<forward_request> request() {
    const bool any = request_.is_out() ||
                     request_.make(workspace_.statuses(), model_.logits_shift, Policy::branches);
    return any ? std::optional(request_.view()) : std::nullopt;
  }

  /// Number of rows of logits that a segment returns: less than segment::rows if positions were
  /// dropped.
  [[nodiscard]] index_t wanted_rows(const segment& s) {
    if constexpr (Policy::layered) {
      check_order(workspace_.has_passed(s.slot),
                  "logits of a pass in which at_layer() was not called at each layer with a hook");
      return workspace_.logits_rows(s.slot);
    } else {
      return s.rows.size();
    }
  }

  template <class View>
  static constexpr void check_space() {
    static_assert(
        View::space == space,
        "these logits live in another memory space than the session's backend: give a host "
        "session host_logits and a stream session device_logits");
  }

  template <element T, memory M>
  void check_rows(const rows_view<T, M>& logits,
                  const row_modifiers<T>& modifiers,
                  index_t wanted,
                  const char* name,
                  const char* rule) const {
    validate(logits, model_.vocab, "model_info::vocab = ");
    check_argument(logits.rows == wanted,
                   name,
                   logits.rows,
                   Policy::layered ? "those that remain in the pass, " : rule,
                   wanted);
    validate(modifiers, wanted, model_.vocab, model_.vocab);
  }

  template <element T, memory M>
  void check_segment(const rows_view<T, M>& logits,
                     const row_modifiers<T>& modifiers,
                     const segment& s) {
    check_rows(
        logits, modifiers, wanted_rows(s), "rows of a segment's logits", "segment::rows.size() = ");
  }

  [[nodiscard]] const step::slot_status& status(index_t slot) {
    validate_slot(slot, capacity_);
    return workspace_.statuses()[static_cast<std::size_t>(slot)];
  }

  model_info model_;
  session_capacity capacity_;
  workspace_type workspace_;
  step::pending_request request_;
  lent_tokens tokens_;
};
/// Does not compile, with a sentence: a policy as text (core/session_of_text.hpp).
template <class Text>
  requires std::convertible_to<const Text&, std::string_view>
session(const Text&, const model_info&, tokens_view<memory::host>, const sequence_shape&)
    -> session<Text, on_host, false>;

}  // namespace unmask
