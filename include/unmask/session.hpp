// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/any_rows.hpp>
#include <unmask/core/check.hpp>
#include <unmask/core/lent_tokens.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/core/validate_rows.hpp>
#include <unmask/session_layers.hpp>
#include <unmask/session_rows.hpp>
#include <unmask/step/callbacks.hpp>
#include <unmask/step/pending_request.hpp>
#include <unmask/step/slot.hpp>
#include <unmask/step/state_bytes.hpp>
#include <unmask/text/report_text.hpp>
#include <unmask/text/session_of_text.hpp>

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
/// An engine that can compute single positions of a layer and keeps K/V also decodes policies that
/// skip positions:
///
///     while (auto request = session.next()) {
///       for (std::size_t i = 0; i < request->segments.size(); ++i) {
///         auto pass = session.pass(i);
///         session.read(i, engine.forward(pass));
///       }
///       session.decide();
///     }
///
/// and inside the engine, for one segment:
///
///     hidden = embed(pass.positions());
///     for (l = 0; l < layers; ++l) {
///       hidden = layer[l](hidden, pass.positions(), attending to pass.keys());  // writes K/V
///       if (pass.hooks(l)) {
///         hidden = gather(hidden, pass.at_layer(l, hidden, previous[l]).rows);
///       }
///     }
///     logits = head(gather(hidden, pass.rows()));
///
/// Such an engine sets model_info::layers; with 0 a policy that needs it is refused when it is
/// started, or when a session of its type is made. policy/layers/README.md has the rest.
///
/// A policy by name (named_policy) has one type for all texts: each sequence may have another. Only
/// a start whose policy needs more memory than the slot has allocates.
template <class Policy, class Backend = on_host>
class session : public detail::session_rows<session<Policy, Backend>, Backend::space> {
 public:
  static constexpr memory space = Backend::space;  ///< Memory that logits and tokens are in.
  using policy_type = Policy;                      ///< Type of the policy.
  /// Ascending indices of rows or positions, in host or device memory.
  using list = index_list<Backend::space>;
  /// True if the policy may have a layer rule: at_layer() is then called.
  static constexpr bool has_hooks = step::layers::has_rule<Policy>;

  /// Allocates O(sequences * (length + window)) bytes; a session by name allocates the memory of a
  /// slot at its first start(). Errors: std::invalid_argument.
  session(const model_info& model, const session_capacity& capacity, const Backend& where = {})
    requires backend<Backend>
      : session(model, capacity, where, model.vocab) {}

  /// A session of this policy: its slots have the memory that it needs, and sequences that name no
  /// policy are started with it.
  session(const Policy& policy,
          const model_info& model,
          const session_capacity& capacity,
          const Backend& where = {});
  /// A session of this policy with one slot, started with `tokens`.
  session(const Policy& policy,
          const model_info& model,
          tokens_view<space> tokens,
          const sequence_shape& geometry,
          const Backend& where = {})
      : session(policy, model, detail::capacity_for(policy, tokens.size, geometry), where) {
    start(0, tokens, geometry);
  }

  /// Starts a sequence in `slot`: masks the positions after the prompt (only those that
  /// `options.editable` marks as masked, if given) and writes the mask token there. A sequence that
  /// still runs in the slot is replaced without an error, and its tokens stay as they are.
  ///
  /// The memory of the tokens must not overlap the tokens of another running sequence of this
  /// session.
  /// Errors: std::invalid_argument, naming argument, value and rule, before anything is changed;
  /// std::logic_error between next() and supply().
  void start(index_t slot,
             const Policy& policy,
             tokens_view<space> tokens,
             const sequence_shape& geometry,
             const start_options& options = {});

  /// Starts a sequence with the policy that the session was made with. Errors: also
  /// std::logic_error for a session that was made without one.
  void start(index_t slot,
             tokens_view<space> tokens,
             const sequence_shape& geometry,
             const start_options& options = {}) {
    check_order(policy_.has_value(), "start() without a policy in a session that has none");
    start(slot, *policy_, tokens, geometry, options);
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

  /// Overload for some slots only: for a limit on the tokens of a pass, or paused sequences. The
  /// pass contains the running ones among `slots`; the others keep their state. Returns nothing if
  /// none of `slots` runs, so for no slots at all: finished() says whether another slot runs.
  ///
  /// Errors: std::logic_error while a request is pending; std::invalid_argument for a slot that
  /// does not exist or repeats. Cost: also O(slots.size()^2).
  [[nodiscard]] std::optional<forward_request> next(std::span<const index_t> slots) {
    request_.choose(slots);
    return request();
  }

  /// The pass of one segment through the layers.
  using layer_pass = unmask::layer_pass<session>;

  /// Begins the pass of segment `index` of the request.
  [[nodiscard]] layer_pass pass(std::size_t index) {
    check_order(request_.is_out(), "pass() without a request: call next() first");
    check_argument(index < segments().size(),
                   "index of the segment",
                   index,
                   "less than the number of segments, ",
                   segments().size());
    return layer_pass{*this, segments()[index]};
  }

  /// layer_pass::at_layer() of several segments at once, for an engine that computes them together.
  /// On a stream: one or two launches, depending on the rule, for each 16 segments. Segments
  /// ascending; errors in any of them are thrown before anything is selected.
  template <element T>
  void at_layer(index_t layer, std::span<layer_hook<T, Backend::space>> hooks) {
    check_order(has_hooks, "at_layer() of a policy that has no hook: call hooks() first");
    check_order(request_.is_out(), "at_layer() without a request: call next() first");
    if constexpr (has_hooks) {
      for (std::size_t i = 0; i < hooks.size(); ++i) {
        check_argument(i == 0 || hooks[i].segment > hooks[i - 1].segment,
                       "index of the segment",
                       hooks[i].segment,
                       "larger than that of the hook before it: sort hooks by segment");
        layers_.check(workspace_, pass(hooks[i].segment).about(), layer, model_.layers, hooks[i]);
      }
      if (!hooks.empty()) {
        request_.was_hooked();
      }
      workspace_.at_layer(segments(), layer, hooks);
    }
  }

  /// Forgets the request, for an engine whose forward pass failed or was preempted. cancel() and
  /// start() are then allowed again, and next() requests the same step of the sequences that run.
  ///
  /// Errors: std::logic_error without a request, and after read() or at_layer(), which have changed
  /// what the step is decided from; the session is then unchanged.
  void abandon() { request_.abandon(); }

  /// Cancels every sequence of the request and forgets it: for a forward pass that failed after
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

  /// True if no sequence is active after the steps that the device has completed. Non-blocking. A
  /// host that replays captured steps calls this between launches and need not call next() until it
  /// is true. Counts only sequences that were started before the last next() or report().
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
    if constexpr (space == memory::device) {  // clang 14 also instantiates it on the host
      return workspace_.running();
    } else {
      return {};
    }
  }

  /// Report of the sequence in `slot`; its end is ending::idle before the first start there. On a
  /// device it synchronises with the last step, as next() does.
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

  /// The most probable tokens of each position that the last supply() in `slot` read and left
  /// masked, start_options::soft_tokens of them, best first, in ascending positions: for an engine
  /// that feeds such a position with a mixture of embeddings. Of the rows after all edits; tokens
  /// that cannot be proposed, and positions with an invalid row, have no entry. Valid until the
  /// next supply() or start() in the slot. On a device each call copies them and synchronises.
  [[nodiscard]] std::span<const token_probability> soft_tokens(index_t slot = 0) {
    static_cast<void>(status(slot));
    return workspace_.soft_tokens(slot);
  }

  /// The most probable tokens of each position that the last supply() in `slot` read and committed,
  /// start_options::soft_tokens of them: for interfaces that show alternatives (`top_logprobs`). A
  /// token that was drawn need not be among them; committed() has its log-probability. Order, rows
  /// and validity as soft_tokens().
  [[nodiscard]] std::span<const token_probability> alternatives(index_t slot = 0) {
    static_cast<void>(status(slot));
    return workspace_.alternatives(slot);
  }

  /// The state of a constrained field after its committed prefix: constrained_field::state of the
  /// sequence with the next block, for hosts that decode an answer block by block. Errors:
  /// std::logic_error for a sequence without constraints, std::invalid_argument for a field that it
  /// does not have.
  [[nodiscard]] std::uint32_t constraint_state(index_t slot = 0, std::size_t field = 0) {
    static_cast<void>(status(slot));
    return workspace_.constraint_state(slot, field);
  }

  /// Ends the sequence in `slot` in its current state; masked positions keep the mask token, and
  /// sequence_report::answer_end is at most the first of them. Without effect on a slot that is
  /// idle or has ended.
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

  /// Bytes that the session has allocated for its slots, in the backend's memory: 0 before the
  /// first start() in a session by name that was made without a policy.
  [[nodiscard]] std::size_t bytes() const { return workspace_.bytes(); }

 private:
  template <class, class>
  friend class sharded_session;
  friend detail::session_rows<session, space>;
  friend unmask::layer_pass<session>;
  using workspace_type = typename Backend::template workspace<Policy>;

  // For sharded_session, whose previous rows have `columns` columns.
  session(const model_info& model,
          const session_capacity& capacity,
          const Backend& where,
          index_t columns);

  void start_checked(index_t slot,
                     const Policy& policy,
                     tokens_view<space> tokens,
                     const sequence_shape& geometry,
                     const sequence_shape& shape,
                     const start_options& options);

  [[nodiscard]] std::span<const segment> segments() const { return request_.segments(); }
  // Decides the step after all its rows were read.
  void finish() {
    workspace_.decide(segments());
    request_.was_decided();
    if constexpr (space == memory::host) {
      workspace_.check_callbacks();
    }
  }
  [[nodiscard]] std::optional<forward_request> request();

  [[nodiscard]] const step::slot_status& status(index_t slot) {
    validate_slot(slot, capacity_);
    return workspace_.statuses()[static_cast<std::size_t>(slot)];
  }

  model_info model_;
  session_capacity capacity_;
  workspace_type workspace_;
  step::pending_request request_;
  lent_tokens tokens_;
  std::optional<std::remove_const_t<Policy>> policy_;
  detail::session_layers<Policy, Backend> layers_;
};

/// Does not compile, with a sentence: a policy as text (text/session_of_text.hpp).
template <class Text>
  requires std::convertible_to<const Text&, std::string_view>
session(const Text&, const model_info&, tokens_view<memory::host>, const sequence_shape&)
    -> session<Text, on_host>;

}  // namespace unmask

#include <unmask/session.inl>
