// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <unmask/session.hpp>
#include <unmask/stats/message.hpp>

#include <span>
#include <vector>

namespace UNMASK_NAMESPACE {

/// Cuts a vocabulary into `ranks` shards at multiples of canonical::chunk_columns, as evenly as
/// that allows; the first ones are the larger. Rank r has columns [cuts[r], cuts[r + 1]); with
/// fewer chunks than ranks the last ones have none.
[[nodiscard]] inline std::vector<index_t> chunk_cuts(index_t vocab, index_t ranks) {
  check_argument(vocab >= 1, "vocab", vocab, "at least 1");
  check_argument(ranks >= 1, "ranks", ranks, "at least 1");
  const index_t chunks = canonical::chunks_of(vocab);
  std::vector<index_t> cuts{0};
  std::int64_t end = 0;
  for (index_t r = 0; r < ranks; ++r) {
    end += chunks / ranks + (r < chunks % ranks ? 1 : 0);
    cuts.push_back(
        static_cast<index_t>(std::min<std::int64_t>(end * canonical::chunk_columns, vocab)));
  }
  return cuts;
}

/// The cuts of an engine that gives each rank `columns` columns, the last ones partly or wholly
/// padding.
[[nodiscard]] inline std::vector<index_t>
padded_cuts(index_t vocab, index_t ranks, index_t columns) {
  check_argument(vocab >= 1, "vocab", vocab, "at least 1");
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
    cuts.push_back(static_cast<index_t>(std::min<std::int64_t>(r * columns, vocab)));
  }
  return cuts;
}

/// A session for one of several ranks that each hold some columns of the logits. Every rank has
/// one, makes the same calls with the same arguments, and decides on its own:
///
///     while (auto request = session.next()) {
///       const auto mine = session.read_shard(engine.forward(*request));  // bytes
///       all_gather(mine, everyone);                                      // any transport
///       session.supply(everyone);
///     }
///
/// What is exchanged is a record or a few for each row instead of its logits: message_bytes().
///
/// - **Equal bits.** Cut at multiples of canonical::chunk_columns (chunk_cuts), the ranks decide
/// bit
///   by bit what `session` decides from the whole rows, for any number of ranks. Cut anywhere else,
///   sums differ by rounding, so tokens are the same but where two candidates are that close, and a
///   token that is drawn is drawn from the same distribution, not with the same number.
/// - **Equal ranks.** All ranks merge the same bytes in the same order, so they agree in any case.
///   Tokens, drafts, seeds and grammar masks must be the same everywhere.
/// - **Row edits.** Masks, guidance, edits, watched and suppressed tokens are told by token, which
///   is global; a watched token's logit comes from the rank that has its column.
///
/// Ranks that each hold whole rows of some lookahead branches instead cut nothing (cuts {0, vocab},
/// rank 0) and give read_shard() the range of segments that they ran.
///
/// For host memory, and policies that neither truncate rows (a truncation may need a second read)
/// nor skip positions at layers. A policy that compares rows with the step before keeps this rank's
/// columns only. Nothing is allocated after construction.
template <class Policy, class Backend = on_host>
class sharded_session : private session<Policy, Backend> {
  using base = session<Policy, Backend>;
  using memory_type = step::slot_memory<Policy>;
  static constexpr statistics contents = Policy::required;

 public:
  static_assert(Backend::space == memory::host,
                "the CUDA backend cannot read shards yet: read them on the host, or fill the "
                "messages of stats/message.hpp in a kernel of your own");
  static_assert(!Policy::truncates,
                "keep_top_k, keep_top_p and keep_min_p may have to read a row again, for which "
                "ranks would need a second exchange: leave them out where the vocabulary is cut");
  using policy_type = Policy;

  /// `cuts` are the first columns of all ranks' shards and, last, model.vocab: {0, ..., vocab},
  /// ascending; `rank` in [0, cuts.size() - 1). Throws std::invalid_argument for cuts that are not,
  /// and for those of two columns of a chunk alone where tokens are drawn, which two numbers cannot
  /// be drawn for; see session for the rest.
  sharded_session(const model_info& of,
                  const limits& room,
                  std::span<const index_t> cuts,
                  index_t rank,
                  const Backend& where = {})
      : base(of, room, where, validated(of, cuts, rank).size())
      , columns_(validated(of, cuts, rank))
      , nodes_(most_nodes(cuts, of.vocab))
      , most_rows_(static_cast<std::size_t>(room.sequences) *
                   static_cast<std::size_t>(room.window) *
                   (1 + static_cast<std::size_t>(Policy::branches ? room.branches : 0)))
      , reader_(most_rows_ * static_cast<std::size_t>(ranks::nodes_of(columns_, of.vocab)),
                where.executor,
                where.tier)
      , message_(ranks::message_bytes<contents>(
            static_cast<index_t>(most_rows_), nodes_, memory_type::watch_capacity))
      , watched_(static_cast<std::size_t>(memory_type::watch_capacity))
      , covered_(most_rows_) {}

  using base::cancel;
  using base::candidates;
  using base::capacity;
  using base::committed;
  using base::finished;
  using base::model;
  using base::next;
  using base::planned;
  using base::probabilities;
  using base::report;
  using base::start;

  /// The columns of this rank.
  [[nodiscard]] range columns() const { return columns_; }

  /// Bytes of the largest message there will ever be: what a transport may set aside.
  [[nodiscard]] std::size_t most_bytes() const { return message_.size(); }

  /// Bytes of each message of the request that is out, the same on every rank.
  [[nodiscard]] std::size_t message_bytes() {
    check_order(base::waiting(), "message_bytes() without a request: call next() first");
    return ranks::message_bytes<contents>(about());
  }

  /// Reads this rank's columns of the request's logits, packed as for session::supply(); column 0
  /// is token columns().first, and columns behind the shard are padding. `riders` as for supply():
  /// masks of the whole vocabulary, unconditional rows of this rank's columns. Once a request.
  ///
  /// With `segments` only those of the request were run by this rank, and the tensor holds their
  /// rows. Returns this rank's message, valid until the next call. Errors as session::supply().
  template <row_tensor Tensor>
  [[nodiscard]] std::span<const std::byte> read_shard(
      const Tensor& tensor,
      const row_riders<typename decltype(as_rows(std::declval<const Tensor&>()))::element_type>&
          riders = {},
      range segments = {0, no_token}) {
    const auto logits = as_rows(tensor);
    using T = typename decltype(logits)::element_type;
    static_assert(decltype(logits)::space == memory::host,
                  "these logits live in device memory: a sharded session reads host_logits");
    check_order(base::waiting(), "read_shard() without a request: call next() first");
    check_order(!packed_, "read_shard() twice in a step: supply() the messages first");
    check_argument(logits.columns >= columns_.size(),
                   "columns of the shard's logits",
                   logits.columns,
                   "at least this rank's, ",
                   columns_.size());
    index_t rows = 0;
    const auto count = static_cast<index_t>(base::segments().size());
    const range mine{math::max(segments.first, 0), math::min(segments.last, count)};
    for (index_t k = mine.first; k < mine.last; ++k) {
      rows += segment_at(k).rows.size();
    }
    check_argument(logits.rows == rows,
                   "rows of the shard's logits",
                   logits.rows,
                   "those of the request's segments, ",
                   rows);
    ranks::message_header h = about();
    index_t row = 0;
    h.rows = {h.all_rows, h.all_rows};
    for_each_row([&](index_t k, const memory_type& m, index_t branch, index_t i) {
      if (mine.contains(k)) {
        h.rows.first = math::min(h.rows.first, row);
        h.rows.last = row + 1;
        const segment& s = segment_at(k);
        const index_t position = m.status->next.score.first + i;
        const index_t r = first_row(mine.first, k) +
                          math::max(position - base::model().row_shift, 0) - s.rows.first;
        const T* const row_of_logits = columns_.empty() ? nullptr : logits.row(r);
        reader_.note(m, branch, i, row_of_logits, riders.from_row(r), columns_);
      }
      ++row;
    });
    const record<contents>* nodes = reader_.template read<T>();
    const index_t nodes_of_row = ranks::nodes_of(columns_, h.vocab);
    row = 0;
    for_each_row([&](index_t, const memory_type& m, index_t branch, index_t i) {
      if (h.rows.contains(row)) {
        const float* watched = watched_of(m, branch, i, h.watched);
        ranks::pack<contents>(h, row, nodes, watched, message_.data());
        nodes += nodes_of_row;
      }
      ++row;
    });
    std::memcpy(message_.data(), &h, sizeof h);
    packed_ = true;
    return {message_.data(), ranks::message_bytes<contents>(h)};
  }

  /// Takes the messages of all ranks, one after the other in the order of their columns, or the one
  /// that ranks::merge() made of them, and decides the step as session::supply() does.
  ///
  /// Throws std::logic_error without a request; std::invalid_argument for messages of another
  /// session, step or cut, and where they do not cover every row: the session is then as it was,
  /// but for this rank's message, which remains.
  void supply(std::span<const std::byte> messages) {
    check_order(base::waiting(), "supply() without a request: call next() first");
    const ranks::message_header mine = about();
    const std::size_t bytes = ranks::message_bytes<contents>(mine);
    check_argument(!messages.empty() && messages.size() % bytes == 0,
                   "bytes of the messages",
                   messages.size(),
                   "a multiple of message_bytes() = ",
                   bytes);
    const std::size_t count = messages.size() / bytes;
    check_cover(messages.data(), count, mine, bytes);
    index_t row = 0;
    for_each_row([&](index_t, const memory_type& m, index_t branch, index_t i) {
      ranks::node_stack<contents> sum{mine.vocab};
      std::fill(watched_.begin(), watched_.end(), -math::infinity());
      for (std::size_t k = 0; k < count; ++k) {
        const std::byte* const message = messages.data() + k * bytes;
        const ranks::message_header h = ranks::header_of(message);
        if (h.rows.contains(row)) {
          ranks::unpack<contents>(h, message, row, sum);
          for (index_t w = 0; w < h.watched; ++w) {
            float& logit = watched_[static_cast<std::size_t>(w)];
            logit = logit == -math::infinity() ? ranks::watched_logit<contents>(h, message, row, w)
                                               : logit;
          }
        }
      }
      m.row(branch, i) = sum[0];
      if constexpr (memory_type::watches) {
        const watched_logits w = m.kept_apart(branch, i);
        std::copy_n(watched_.data(), w.count, w.logits);
      }
      ++row;
    });
    ++step_;
    packed_ = false;
    base::decide();
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

  // Of any shard and of any neighbouring shards put together.
  [[nodiscard]] static index_t most_nodes(std::span<const index_t> cuts, index_t vocab) {
    index_t most = 1;
    for (std::size_t a = 0; a < cuts.size(); ++a) {
      for (std::size_t b = a + 1; b < cuts.size(); ++b) {
        most = math::max(most, ranks::nodes_of({cuts[a], cuts[b]}, vocab));
      }
    }
    return most;
  }

  [[nodiscard]] const segment& segment_at(index_t k) const {
    return base::segments()[static_cast<std::size_t>(k)];
  }

  // Row of segment k in a tensor of the segments from `first` on.
  [[nodiscard]] index_t first_row(index_t first, index_t k) const {
    return segment_at(k).first_row - segment_at(first).first_row;
  }

  // Calls use(segment, memory, branch, i) for each row that the step is decided from, in the order
  // of the messages' rows.
  void for_each_row(const auto& use) {
    for (index_t k = 0; k < static_cast<index_t>(base::segments().size()); ++k) {
      const segment& s = segment_at(k);
      const memory_type& m = base::workspace().memory_of(s.slot);
      for (index_t i = 0; i < m.status->next.score.size(); ++i) {
        if (m.reads(s.branch, i)) {
          use(k, m, s.branch, i);
        }
      }
    }
  }

  // The header of this rank's message about all rows.
  [[nodiscard]] ranks::message_header about() {
    ranks::message_header h;
    h.contents = contents.bits;
    h.step = step_;
    h.vocab = base::model().vocab;
    h.columns = columns_;
    h.nodes = nodes_;
    for_each_row([&](index_t, const memory_type& m, index_t branch, index_t i) {
      ++h.all_rows;
      if constexpr (memory_type::watches) {
        h.watched = math::max(h.watched, m.kept_apart(branch, i).count);
      }
    });
    h.rows = {0, h.all_rows};
    return h;
  }

  // The watched logits of a row, continued with -inf to what the message has room for.
  [[nodiscard]] const float*
  watched_of(const memory_type& m, index_t branch, index_t i, index_t count) {
    if constexpr (memory_type::watches) {
      const watched_logits w = m.kept_apart(branch, i);
      std::copy_n(w.logits, w.count, watched_.data());
      std::fill(watched_.data() + w.count, watched_.data() + count, -math::infinity());
    }
    return watched_.data();
  }

  [[nodiscard]] static const char* fault_text(ranks::fault found) {
    switch (found) {
    case ranks::fault::not_a_message:
      return "what read_shard() returned, of every rank; the bytes of this one are no message";
    case ranks::fault::other_record:
      return "of sessions with one policy and one model; this one has other statistics or another "
             "vocabulary";
    default:
      return "of one step, in which all ranks have as many rows, watched tokens and cuts; this one "
             "is of another";
    }
  }

  // Each row's columns must be told from left to right without a gap.
  void check_cover(const std::byte* messages,
                   std::size_t count,
                   const ranks::message_header& mine,
                   std::size_t bytes) {
    std::fill(covered_.begin(), covered_.end(), 0);
    for (std::size_t k = 0; k < count; ++k) {
      const ranks::message_header h = ranks::header_of(messages + k * bytes);
      const ranks::fault found = ranks::compare<contents>(mine, h);
      check_argument(found == ranks::fault::none, "messages", k, fault_text(found));
      for (index_t r = h.rows.first; r < h.rows.last && !h.columns.empty(); ++r) {
        index_t& covered = covered_[static_cast<std::size_t>(r)];
        check_argument(h.columns.first == covered,
                       "first column of a message",
                       h.columns.first,
                       "where the messages before it end, ",
                       covered);
        covered = h.columns.last;
      }
    }
    for (index_t r = 0; r < mine.all_rows; ++r) {
      check_argument(covered_[static_cast<std::size_t>(r)] == mine.vocab,
                     "columns that the messages have of a row",
                     covered_[static_cast<std::size_t>(r)],
                     "all of the vocabulary, ",
                     mine.vocab);
    }
  }

  range columns_;
  index_t nodes_;
  std::size_t most_rows_;
  typename Backend::template shard_reader<Policy> reader_;
  std::vector<std::byte> message_;
  std::vector<float> watched_;
  std::vector<index_t> covered_;
  std::uint32_t step_ = 0;
  bool packed_ = false;
};

}  // namespace unmask
