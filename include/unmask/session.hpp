// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/core/check.hpp>
#include <unmask/core/lent_tokens.hpp>
#include <unmask/core/logits.hpp>
#include <unmask/core/policy.hpp>
#include <unmask/core/request.hpp>
#include <unmask/core/validate.hpp>
#include <unmask/core/validate_rows.hpp>
#include <unmask/step/open_request.hpp>
#include <unmask/step/slot.hpp>
#include <unmask/step/state_bytes.hpp>

#include <algorithm>
#include <concepts>
#include <optional>
#include <span>

namespace UNMASK_NAMESPACE {

/// Where a session's memory is and its kernels run: `on_host`, `on_stream`.
///
/// A value with a memory space and a class template `workspace<Policy>` that holds the slots. The
/// session checks arguments and keeps the protocol; the workspace does the work.
template <class B>
concept backend = std::copyable<B> && requires {
  { B::space } -> std::convertible_to<memory>;
};

struct on_host;

/// Decodes one or many sequences: asks the engine for forward passes and commits tokens.
///
///     while (auto request = session.next()) session.supply(engine.forward(*request));
///
/// next() says which positions of which sequences to run and which rows of logits to give back;
/// supply() takes them, decides, writes the tokens in place. The engine owns the tokens and the
/// logits. A sequence ends after at most most_forwards(policy, layout) forward passes
/// (core/walk.hpp), whatever the logits hold. Nothing is allocated after construction. One
/// thread at a time may use a session; several sessions are independent.
///
/// A sequence lives in a slot: start() may reuse a slot at any time between supply() and next(),
/// so sequences join and leave a batch freely, and none influences another.
///
/// `Layered` is for layer_session, which adds to this one what an engine asks inside its layers.
template <class Policy, class Backend = on_host, bool Layered = false>
class session {
 public:
  static_assert(
      Layered || !Policy::layered,
      "this policy decides which positions each layer of the model computes, so the engine "
      "has to ask it there: decode with layer_session instead of session; "
      "Policy::layered tells an engine at compile time");
  static constexpr memory space = Backend::space;
  using policy_type = Policy;

  /// Allocates everything, O(sequences * (length + window)) bytes. Throws std::invalid_argument for
  /// capacities or a model that cannot work.
  session(const model_info& model,
          const limits& capacity,
          const Backend& where = {}) requires backend<Backend>
      : session(model, capacity, where, model.vocab) {}

  /// A session of one slot, started with `tokens`.
  session(const Policy& policy,
          const model_info& model,
          tokens_view<space> tokens,
          const layout& geometry,
          const Backend& where = {})
      : session(model, fitting(policy, tokens.size, geometry), where) {
    start(0, policy, tokens, geometry);
  }

  /// Begins a sequence in `slot`, replacing what was there: opens the positions behind the prompt
  /// (only those `options.editable` marks, if given) and writes the mask token there.
  ///
  /// No other sequence of this session that runs may have any of these tokens. Throws
  /// std::invalid_argument, naming argument, value and rule, before anything is changed;
  /// std::logic_error between next() and supply().
  void start(index_t slot,
             const Policy& policy,
             tokens_view<space> tokens,
             const layout& geometry,
             const start_options& options = {}) {
    check_order(!request_.is_out(),
                "start() between next() and supply(): the request is out, supply it first");
    check_argument(slot >= 0 && slot < capacity_.sequences,
                   "slot",
                   slot,
                   "in [0, limits::sequences = ",
                   capacity_.sequences,
                   ")");
    validate(geometry, tokens.size, capacity_);
    detail::check_address(tokens.data, "the tokens");
    validate(options, model_, geometry);
    const layout shape = bounded(geometry);
    const index_t reach = math::min(detail::policy_reach(policy, shape), shape.length);
    check_argument(reach <= capacity_.window,
                   "positions read in one step",
                   reach,
                   "at most limits::window = ",
                   capacity_.window);
    detail::check_parts(policy, geometry, model_);
    const index_t branches = detail::policy_branches(policy);
    check_argument(branches <= capacity_.branches,
                   "lookahead branches",
                   branches,
                   "at most limits::branches = ",
                   capacity_.branches);
    tokens_.check(slot, tokens.data, geometry.length, [this](std::size_t other) {
      return workspace_.statuses()[other].next.active();
    });
    workspace_.start(slot, policy, tokens, shape, options);
    tokens_.note(slot, tokens.data, geometry.length);
  }

  /// What to compute next, or nothing when no sequence runs. Idempotent until supply(). On a device
  /// this is the only call that waits. The request's spans are valid until supply().
  [[nodiscard]] std::optional<forward_request> next() {
    const bool any = request_.is_out() ||
                     request_.make(workspace_.statuses(), model_.row_shift, Policy::branches);
    return any ? std::optional(request_.view()) : std::nullopt;
  }

  /// Takes the logits of the request, packed: row segment.first_row + r of the tensor is the row of
  /// position segment.rows.first + r. `riders` are indexed by the same rows.
  ///
  /// Throws std::logic_error without a request and after read(), std::invalid_argument for a wrong
  /// shape; the session is then as it was.
  template <row_tensor Tensor>
  void
  supply(const Tensor& tensor,
         const row_riders<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
             riders = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    request_.check_supply();
    index_t rows = 0;
    for (const segment& s : segments()) {
      rows += wanted_rows(s);
    }
    check_rows(logits, riders, rows, "rows of the logits", "forward_request::rows = ");
    index_t first = 0;
    for (const segment& s : segments()) {
      const index_t count = wanted_rows(s);
      workspace_.read(s, logits.subrows({first, first + count}), riders.from_row(first));
      first += count;
    }
    finish();
  }

  /// The same with one tensor for each segment, in the request's order: for engines that keep each
  /// sequence's logits apart.
  template <element T, memory M>
  void supply(std::span<const rows_view<T, M>> tensors) {
    check_space<rows_view<T, M>>();
    request_.check_supply();
    check_argument(tensors.size() == segments().size(),
                   "number of tensors",
                   tensors.size(),
                   "the number of segments, ",
                   segments().size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      check_segment(tensors[i], row_riders<T>{}, segments()[i]);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      workspace_.read(segments()[i], tensors[i], row_riders<T>{});
    }
    finish();
  }

  /// Says what logits are.
  template <class Other, class... More>
    requires(!row_tensor<Other>)
  void supply(const Other&, const More&...) {
    check_tensor<Other>();
  }

  /// supply() in pieces, for engines that run one segment at a time in the same buffer: reads the
  /// logits of segment `index` of the request at once. Every segment once, in any order, then
  /// decide().
  ///
  /// Throws std::logic_error without a request and for a segment that was read already,
  /// std::invalid_argument for a wrong index or shape; the session is then as it was.
  template <row_tensor Tensor>
  void
  read(std::size_t index,
       const Tensor& tensor,
       const row_riders<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
           riders = {}) {
    const auto logits = as_rows(tensor);
    using view = std::remove_const_t<decltype(logits)>;
    check_space<view>();
    request_.check_read(index);
    const segment& s = segments()[index];
    check_segment(logits, riders, s);
    workspace_.read(s, logits, riders);
    workspace_.flush();
    request_.was_read(index);
  }

  template <class Other, class... More>
    requires(!row_tensor<Other>)
  void read(std::size_t, const Other&, const More&...) {
    check_tensor<Other>();
  }

  /// Decides the step whose segments were all given to read(). Throws std::logic_error without a
  /// request and before every segment was read; the session is then as it was.
  void decide() {
    request_.check_decide();
    finish();
  }

  /// True when no sequence runs, as far as the steps are through: never waits. A host that replays
  /// captured steps asks this between launches and need not call next() before it is true. Counts
  /// only sequences that next() or report() has seen start.
  [[nodiscard]] bool finished() const {
    if constexpr (space == memory::device) {
      return std::ranges::all_of(running(), [](const std::uint32_t& word) {
        return __atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0;  // the device may be writing it
      });
    } else {
      return std::ranges::none_of(workspace_.statuses(),
                                  [](const step::slot_status& s) { return s.next.active(); });
    }
  }

  /// What finished() looks at, for kernels and for conditions of a graph: a word for each slot, 1
  /// while its sequence runs, in memory that both sides of a stream read.
  [[nodiscard]] std::span<const std::uint32_t> running() const requires(space == memory::device) {
    return workspace_.running();
  }

  /// What became of the sequence in `slot`. Waits as next() does.
  [[nodiscard]] const sequence_report& report(index_t slot = 0) { return status(slot).report; }

  /// The plan of the slot's next step: which positions, blocks and caches it is about.
  [[nodiscard]] const plan& planned(index_t slot = 0) { return status(slot).next; }

  /// What the last supply() committed in `slot`, in ascending positions. Valid until the next one.
  [[nodiscard]] std::span<const commit_entry> committed(index_t slot = 0) {
    return workspace_.committed(slot, status(slot).report.last_commits);
  }

  /// What the last supply() decided about in `slot`: every position that was open in the scored
  /// range, with its proposed token and whether that was written, in ascending positions. Valid
  /// until the next supply(). A token that lookahead elected is among committed() only. Throws
  /// std::logic_error unless limits::trace is set.
  [[nodiscard]] std::span<const candidate_entry> candidates(index_t slot = 0) {
    check_order(capacity_.trace, "candidates() of a session without limits::trace");
    return workspace_.candidates(slot, status(slot).report.last_candidates);
  }

  /// How probable the tokens were that the policy asks about (probability_of), at every open
  /// position of the last step whose row was valid, in ascending positions. Valid until the next
  /// supply().
  [[nodiscard]] std::span<const token_probability> probabilities(index_t slot = 0) {
    return workspace_.probabilities(slot, status(slot).report.last_probabilities);
  }

  /// Ends the sequence in `slot` as it is; open positions keep the mask token. Not between next()
  /// and supply().
  void cancel(index_t slot) {
    check_order(!request_.is_out(),
                "cancel() between next() and supply(): the request is out, supply it first");
    static_cast<void>(status(slot));
    workspace_.cancel(slot);
  }

  [[nodiscard]] const limits& capacity() const { return capacity_; }
  [[nodiscard]] const model_info& model() const { return model_; }

  /// Bytes that the session holds for its slots, on the backend's side.
  [[nodiscard]] std::size_t bytes() const { return state_bytes<Policy>(capacity_); }

 protected:
  using workspace_type = typename Backend::template workspace<Policy>;

  /// For sharded_session, which keeps `columns` of the rows of the step before.
  session(const model_info& model, const limits& capacity, const Backend& where, index_t columns)
      : model_(model)
      , capacity_(usable(model, capacity, columns))
      , workspace_(model, capacity_, where)
      , request_(capacity_)
      , tokens_(capacity_.sequences) {}

  /// The request that is out, and what works on it. For sessions derived from this one.
  [[nodiscard]] workspace_type& workspace() { return workspace_; }
  [[nodiscard]] std::span<const segment> segments() const { return request_.segments(); }
  [[nodiscard]] bool waiting() const { return request_.is_out(); }
  /// Decides the step, whose rows are all in the workspace.
  void finish() {
    workspace_.decide();
    request_.was_decided();
  }

 private:
  /// Rows of logits that come of a segment: fewer than segment::rows where rows left the pass.
  [[nodiscard]] index_t wanted_rows(const segment& s) {
    if constexpr (Policy::layered) {
      check_order(workspace_.has_passed(s.slot),
                  "logits of a pass in which at_layer() was not called at each layer with a hook");
      return workspace_.logits_rows(s.slot);
    } else {
      return s.rows.size();
    }
  }

  [[nodiscard]] static limits
  fitting(const Policy& policy, index_t tokens, const layout& geometry) {
    validate(geometry, tokens, {.length = max_length});
    const index_t reach = detail::policy_reach(policy, bounded(geometry));
    return {.sequences = 1,
            .length = geometry.length,
            .window = reach > 0 ? reach : 1,
            .branches = detail::policy_branches(policy)};
  }

  [[nodiscard]] static limits usable(const model_info& model, limits capacity, index_t columns) {
    validate(model);
    check_argument(!Policy::layered || model.layers >= 1,
                   "model_info::layers",
                   model.layers,
                   "at least 1 for a policy that skips positions at its layers");
    capacity.vocab = columns;
    capacity.layers = model.layers;
    static_cast<void>(state_bytes<Policy>(capacity));
    return validated(capacity);
  }

  template <class Other>
  static constexpr void check_tensor() {
    static_assert(
        detail::are_logits<Other>,
        "logits are a tensor with rows, of float, bfloat16 or float16: a view such as "
        "host_logits<float>(data, rows, columns), or a class of yours with as_rows(tensor) beside "
        "it; one view for each segment is a std::span<const host_logits<float>>");
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
                  const row_riders<T>& riders,
                  index_t wanted,
                  const char* name,
                  const char* rule) const {
    validate(logits, model_.vocab, "model_info::vocab = ");
    check_argument(logits.rows == wanted,
                   name,
                   logits.rows,
                   Policy::layered ? "those that the pass still wants, " : rule,
                   wanted);
    validate(riders, wanted, model_.vocab, model_.vocab);
  }

  template <element T, memory M>
  void check_segment(const rows_view<T, M>& logits, const row_riders<T>& riders, const segment& s) {
    check_rows(logits,
               riders,
               wanted_rows(s),
               "rows of a segment's logits",
               "segment::rows.size() = ");
  }

  [[nodiscard]] const step::slot_status& status(index_t slot) {
    check_argument(slot >= 0 && slot < capacity_.sequences,
                   "slot",
                   slot,
                   "in [0, limits::sequences = ",
                   capacity_.sequences,
                   ")");
    return workspace_.statuses()[static_cast<std::size_t>(slot)];
  }

  model_info model_;
  limits capacity_;
  workspace_type workspace_;
  step::open_request request_;
  lent_tokens tokens_;
};

}  // namespace unmask
