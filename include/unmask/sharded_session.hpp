// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/ranks/message.hpp>
#include <unmask/session.hpp>

#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// Cuts a vocabulary into `ranks` shards at multiples of canonical::chunk_columns, as evenly as
/// possible; the first shards are the larger ones. Rank r has columns [cuts[r], cuts[r + 1]); with
/// fewer chunks than ranks the last shards are empty.
[[nodiscard]] inline std::vector<index_t> chunk_cuts(index_t vocab, index_t ranks) {
  check_argument(
      vocab >= 1 && vocab <= max_vocab, "vocab", vocab, "at least 1 and at most ", max_vocab);
  check_argument(ranks >= 1, "ranks", ranks, "at least 1");
  const index_t chunks = canonical::chunks_of(vocab);
  std::vector<index_t> cuts{0};
  std::int64_t end = 0;
  for (index_t r = 0; r < ranks; ++r) {
    end += chunks / ranks + (r < chunks % ranks ? 1 : 0);
    const std::int64_t column = end * canonical::chunk_columns;
    cuts.push_back(column < vocab ? static_cast<index_t>(column) : vocab);
  }
  return cuts;
}

/// Cuts for an engine that gives each rank `columns` columns; the columns of the last ranks may be
/// partly or entirely padding.
[[nodiscard]] inline std::vector<index_t>
padded_cuts(index_t vocab, index_t ranks, index_t columns) {
  check_argument(
      vocab >= 1 && vocab <= max_vocab, "vocab", vocab, "at least 1 and at most ", max_vocab);
  check_argument(ranks >= 1, "ranks", ranks, "at least 1");
  check_argument(std::int64_t{columns} * ranks >= vocab,
                 "columns of a rank",
                 columns,
                 "large enough for ",
                 ranks,
                 " ranks to hold the vocabulary of ",
                 vocab);
  std::vector<index_t> cuts{0};
  for (std::int64_t r = 1; r <= ranks; ++r) {
    cuts.push_back(r * columns < vocab ? static_cast<index_t>(r * columns) : vocab);
  }
  return cuts;
}

/// A session for one of several ranks that each hold some columns of the logits. Every rank has
/// one, makes the same calls with the same arguments, and computes the same decision:
///
///     while (auto request = session.next()) {
///       const auto mine = session.read_shard(engine.forward(*request));  // bytes
///       all_gather(mine, everyone);                                      // any transport
///       session.supply(everyone);
///     }
///
/// Instead of logits, the ranks exchange one or a few records for each row: message_bytes().
///
/// - **Deterministic.** With cuts at multiples of canonical::chunk_columns (chunk_cuts), the
///   decisions are bit for bit those of `session` with whole rows, for any number of ranks. With
///   other cuts, sums differ by rounding, so the same tokens commit unless two candidates are that
///   close, and a drawn token is drawn from the same distribution with a different random number.
/// - **Equal on all ranks.** All ranks merge the same bytes in the same order, so they agree in any
///   case. Tokens, drafts, seeds and grammar masks must be the same on every rank.
/// - **Per-row inputs.** Masks, guidance, edits, tracked and suppressed tokens use global token
///   ids; the logit of a tracked token comes from the rank that has its column.
/// - **On a stream** logits, tokens and messages are in device memory. read_shard() enqueues one
///   kernel, supply() two; nothing is copied and only next() synchronises, so that a transport in
///   stream order (NCCL) needs no host, and a step can be captured. Messages have a row for each
///   position of the windows, read or not, so their size is constant: all ranks must be on streams.
///
/// Ranks that each compute whole rows of some lookahead branches need no cuts (cuts {0, vocab},
/// rank 0) and give read_shard() the range of segments that they computed.
///
/// For policies that neither truncate rows (a truncation may need a second read) nor skip positions
/// at layers. A policy that compares rows with the rows of the previous step stores this rank's
/// columns only. Nothing is allocated after construction.
///
/// A sharded_session<Policy, on_stream> needs, in addition to the workspace of its session,
/// `template class unmask::on_stream::shard_workspace<Policy>;` in one .cu file.
template <class Policy, class Backend = on_host>
class sharded_session : private session<Policy, Backend> {
  using base = session<Policy, Backend>;
  using shard_workspace = typename Backend::template shard_workspace<Policy>;
  static constexpr statistics contents = Policy::required;

 public:
  static_assert(!Policy::truncates,
                "top_k, top_p and min_p may have to read a row again, for which "
                "ranks would need a second exchange: leave them out where the vocabulary is cut");
  static_assert(
      !Policy::shadows,
      "a part with shadow attention, such as wino{}, does not combine with ranks: messages "
      "have no rows for its second segment");
  using policy_type = Policy;  ///< Type of the policy.
  /// Bytes of one or more messages: a std::span in host memory, ranks::device_messages on a device.
  using messages = typename shard_workspace::messages;

  /// `cuts` are the first columns of all ranks' shards and, last, model.vocab: {0, ..., vocab},
  /// ascending; `rank` in [0, cuts.size() - 1). Errors: std::invalid_argument for other cuts and,
  /// if the policy draws tokens, for cuts that leave exactly two columns of a chunk to one rank;
  /// the rest as in session.
  sharded_session(const model_info& of,
                  const session_capacity& room,
                  std::span<const index_t> cuts,
                  index_t rank,
                  const Backend& where = {})
      : base(of, room, where, validated(of, cuts, rank).size())
      , columns_(validated(of, cuts, rank))
      , shards_(of, base::capacity(), columns_, most_nodes(cuts, of.vocab), where) {}

  using base::cancel;
  using base::candidates;
  using base::capacity;  ///< Capacities that the session was made with.
  using base::committed;
  using base::finished;
  using base::model;  ///< The model that the session was made with.
  using base::planned;
  using base::probabilities;
  using base::report;
  using base::running;

  /// Starts a sequence as session::start() does, in the same order on every rank.
  void start(index_t slot,
             const Policy& policy,
             tokens_view<Backend::space> tokens,
             const sequence_shape& geometry,
             const start_options& options = {}) {
    validate_unconstrained(options, "a session of several ranks");
    base::start(slot, policy, tokens, geometry, options);
    for (const std::uint64_t said : {static_cast<std::uint64_t>(slot),
                                     static_cast<std::uint64_t>(geometry.prompt_length),
                                     static_cast<std::uint64_t>(geometry.length),
                                     static_cast<std::uint64_t>(geometry.block_length),
                                     geometry.seed,
                                     geometry.seed >> 32U,
                                     static_cast<std::uint64_t>(geometry.sequence)}) {
      step_ = (step_ ^ static_cast<std::uint32_t>(said)) * 0x01000193U;  // FNV-1a by words
    }
  }

  /// Returns the next forward pass, as session::next(). On a stream it also detects messages that
  /// do not fit together: it throws, once, the error that supply() throws on the host. Nothing was
  /// decided then, and the request is pending again, also for read_shard().
  [[nodiscard]] std::optional<forward_request> next() {
    const auto request = base::next();
    --step_;  // not made unless the messages fit together
    shards_.check_merged();
    ++step_;
    return request;
  }

  /// Like session::abandon(), on every rank. Errors: also std::logic_error after read_shard().
  void abandon() {
    check_order(!packed_,
                "abandon() after read_shard(): supply() the messages, or call cancel_request()");
    base::abandon();
  }
  /// Like session::cancel_request(), on every rank.
  std::span<const segment> cancel_request() {
    const auto cancelled = base::cancel_request();
    packed_ = false;
    ++step_;  // messages of the cancelled pass do not fit the next one
    return cancelled;
  }

  /// Columns of this rank's shard.
  [[nodiscard]] range columns() const { return columns_; }

  /// Largest size of a message, in bytes: the buffer that a transport needs. On a stream all
  /// messages have this size.
  [[nodiscard]] std::size_t most_bytes() const { return shards_.most_bytes(); }

  /// Size of each message of the pending request, in bytes; the same on every rank.
  [[nodiscard]] std::size_t message_bytes() {
    check_order(base::request_.is_out(), "message_bytes() without a request: call next() first");
    return shards_.message_bytes(base::workspace_, base::segments());
  }

  /// Reads this rank's columns of the request's logits, packed as for session::supply(); column 0
  /// is token columns().first, and columns after the shard are padding. `modifiers` as in
  /// supply(): masks of the whole vocabulary, unconditional rows of this rank's columns. Once a
  /// request.
  ///
  /// With `segments` this rank computed only those segments of the request, and the tensor has
  /// their rows. Returns this rank's message, valid until the next call; on a stream its address
  /// never changes and its contents are written in stream order. Errors: as session::supply().
  template <row_tensor Tensor>
  [[nodiscard]] messages read_shard(
      const Tensor& tensor,
      const row_modifiers<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
          modifiers = {},
      range segments = {0, no_token}) {
    const auto logits = as_rows(tensor);
    static_assert(decltype(logits)::space == Backend::space,
                  "these logits live in another memory space than the session's backend: give a "
                  "host session host_logits and a stream session device_logits");
    check_order(base::request_.is_out(), "read_shard() without a request: call next() first");
    check_order(!packed_, "read_shard() twice in a step: supply() the messages first");
    validate(logits, columns_.size(), "this rank's, ", "the shard's logits");
    index_t rows = 0;
    const auto count = static_cast<index_t>(base::segments().size());
    const range mine{math::max(segments.first, 0), math::min(segments.last, count)};
    for (index_t k = mine.first; k < mine.last; ++k) {
      rows += base::segments()[static_cast<std::size_t>(k)].rows.size();
    }
    check_argument(logits.rows == rows,
                   "rows of the shard's logits",
                   logits.rows,
                   "those of the request's segments, ",
                   rows);
    validate(modifiers, rows, base::model().vocab, columns_.size());
    const messages packed =
        shards_.read(base::workspace_, base::segments(), mine, logits, modifiers, step_);
    packed_ = true;
    return packed;
  }

  /// Takes the messages of all ranks, concatenated in the order of their columns, or the one
  /// message that ranks::merge() made of them, and decides the step as session::supply() does.
  ///
  /// Errors: std::logic_error without a request; std::invalid_argument for messages of another
  /// session, step or cut, for messages that do not cover every row, and for a token outside the
  /// columns of its message; the session is then unchanged, and this rank's message stays valid. On
  /// a stream it throws for a wrong size only, and next() for the rest. Not detected: messages of a
  /// session whose sequences were started with equal shapes and seeds, and damaged numbers.
  void supply(messages everyones) {
    check_order(base::request_.is_out(), "supply() without a request: call next() first");
    const std::size_t bytes = message_bytes();
    const std::size_t size = everyones.size();
    check_argument(size > 0 && size % bytes == 0,
                   "bytes of the messages",
                   size,
                   "a multiple of message_bytes() = ",
                   bytes);
    shards_.merge(
        base::workspace_, base::segments(), everyones, static_cast<index_t>(size / bytes), step_);
    ++step_;
    packed_ = false;
    base::finish();
  }

 private:
  [[nodiscard]] static range
  validated(const model_info& of, std::span<const index_t> cuts, index_t rank) {
    check_argument(cuts.size() >= 2, "number of cuts", cuts.size(), "at least 2: {0, vocab}");
    check_argument(cuts.front() == 0, "the first cut", cuts.front(), "0");
    check_argument(
        cuts.back() == of.vocab, "the last cut", cuts.back(), "model_info::vocab = ", of.vocab);
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
      check_argument(
          cuts[r] <= cuts[r + 1], "a cut", cuts[r + 1], "at least the one before, ", cuts[r]);
      range rest{cuts[r], cuts[r + 1]};
      while (contents.contains(stat::sampled) && !rest.empty()) {
        const range node = ranks::first_node(rest, of.vocab);
        const bool whole = node.first % canonical::chunk_columns == 0 &&
                           (node.last % canonical::chunk_columns == 0 || node.last == of.vocab);
        check_argument(whole || node.size() != 2,
                       "columns of a chunk that a cut leaves to one rank, where tokens are drawn,",
                       node.size(),
                       "1 or at least 3");
        rest.first = node.last;
      }
    }
    check_argument(rank >= 0 && static_cast<std::size_t>(rank) + 1 < cuts.size(),
                   "rank",
                   rank,
                   "in [0, number of shards = ",
                   cuts.size() - 1,
                   ")");
    return {cuts[static_cast<std::size_t>(rank)], cuts[static_cast<std::size_t>(rank) + 1]};
  }

  // The largest number of nodes of any shard and of any adjacent shards merged.
  [[nodiscard]] static index_t most_nodes(std::span<const index_t> cuts, index_t vocab) {
    index_t most = 1;
    for (std::size_t a = 0; a < cuts.size(); ++a) {
      for (std::size_t b = a + 1; b < cuts.size(); ++b) {
        most = math::max(most, ranks::nodes_of({cuts[a], cuts[b]}, vocab));
      }
    }
    return most;
  }

  range columns_;
  shard_workspace shards_;
  std::uint32_t step_ = 0;  // counts on from a hash of what was started
  bool packed_ = false;
};

}  // namespace unmask
