// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hooks of a step: what a part type P may have, in the order of a step. What is known
// about all of them is made from this list: the traits of a part and the constants of a policy
// (core/part/traits.hpp, core/policy.hpp), the checks of a part's functions
// (core/part/part_check.hpp), and which parts a sequence uses (step/active.hpp). Included several
// times, hence no #pragma once, after these macros are defined:
//
//   UNMASK_HOOK(name, has, question, functions...)
//       A step asks each part that has it whether it uses it now: step::<name>_now(policy or slot).
//       The part answers by its function `question`; without that function the answer is true.
//       `always` is the name of no function.
//   UNMASK_TRAIT(name, has, functions...)
//       A step does not ask.
//   UNMASK_FUNCTION(name, has, sentence)
//       One of the functions: a part that has one of this name and not `has` is refused with the
//       sentence.
//
// The last two may be left out. All are undefined at the end.

#if !defined(UNMASK_TRAIT)
#  define UNMASK_TRAIT(name, has, ...)
#endif
#if !defined(UNMASK_FUNCTION)
#  define UNMASK_FUNCTION(name, has, sentence)
#endif

// clang-format off
UNMASK_TRAIT(ranks, ranking<P>,
  UNMASK_FUNCTION(score, ranking<P>,
      "score(candidate) or score(candidate, context) must be const and return float"))
UNMASK_TRAIT(ranks_by_confidence, ordering_by_confidence<P>)
UNMASK_HOOK(ranks_by_reduction, detail::declares_ranks_by_reduction<P>, always)
UNMASK_TRAIT(commits, detail::basic_commit_rule<P>,
  UNMASK_FUNCTION(commits, detail::basic_commit_rule<P>,
      "commits(candidate, rank_info) or commits(candidate, rank_info, context) must be const "
      "and return bool"))
// computes a cost of candidates
UNMASK_HOOK(costs, (detail::basic_commit_rule<P> && detail::costing<P>), always,
  UNMASK_FUNCTION(cost, detail::costing<P>,
      "cost(candidate) must be const and return float"))
// commits along the order of confidence
UNMASK_TRAIT(follows_confidence, detail::declares_follows_confidence<P>)
UNMASK_HOOK(needs_spans, span_aware<P>, always)
// marks candidates for others near them
UNMASK_HOOK(anchors, anchoring<P>, always,
  UNMASK_FUNCTION(anchors, anchoring<P>,
      "anchors(candidate) must be const and return bool, and the part must declare up to which "
      "distance: anchor_radius() -> index_t")
  UNMASK_FUNCTION(anchor_radius, anchoring<P>,
      "anchor_radius() must be const and return index_t, in a part that has anchors(candidate)"))
UNMASK_HOOK(filters, candidate_filter<P>, always,
  UNMASK_FUNCTION(filter, candidate_filter<P>,
      "filter(candidate, context) or filter(candidate, neighbours, context) must be const and "
      "return filter_result"))
// a function of the host decides
UNMASK_HOOK(calls_back, detail::declares_calls_back<P>, always)
UNMASK_HOOK(reduces, step_reducing<P>, always,
  UNMASK_FUNCTION(reduce, step_reducing<P>,
      "reduce(candidate, context) must be const and return the part's step reduction, which "
      "has merge(step reduction)"))
// reduces over the commits of a step
UNMASK_HOOK(reviews, reviewing<P>, always,
  UNMASK_FUNCTION(review, reviewing<P>,
      "review(candidate, context) must be const and return the part's step reduction, which "
      "has merge(step reduction)"))
// decides by the number of the step
UNMASK_TRAIT(counts_steps, detail::declares_counts_steps<P>)
// transforms logits while they are read
UNMASK_HOOK(transforms, logits_transform<P>, transforms_now,
  UNMASK_FUNCTION(transform, logits_transform<P>,
      "transform(logit, token) must be const and return float")
  UNMASK_FUNCTION(transform_at, logits_transform<P>,
      "transform_at(at) must be const and return a function object that returns a float for "
      "(logit, token)"))
UNMASK_TRAIT(processes_logits, logits_processor<P>,
  UNMASK_FUNCTION(process, logits_processor<P>,
      "process(row, context) must be const and return void"))
UNMASK_HOOK(is_probe, probing<P>, always,
  UNMASK_FUNCTION(probe, probing<P>,
      "probe(row, context, out) must be const and return index_t, and the part must say how "
      "many probabilities it writes: static constexpr index_t probes"))
// edits or probes rows after their read
UNMASK_HOOK(processes, (logits_processor<P> || probing<P>), always)
// names tracked tokens
UNMASK_HOOK(names_tokens, tracking<P>, always,
  UNMASK_FUNCTION(track, tracking<P>,
      "track(list, context) must be const, and the part must declare how many tokens it tracks "
      "at a position: static constexpr index_t tracks = ..."))
UNMASK_TRAIT(restricts, restricting<P>,
  UNMASK_FUNCTION(allows, restricting<P>,
      "allows(token, at) must be const and return bool"))
// keeps state at each position
UNMASK_TRAIT(remembers, detail::remembering<P>)
// the state of tracked tokens
UNMASK_TRAIT(stores_tokens, (detail::remembering<P> && detail::tracks_of<P> != 0))
// is written before parts that store tokens
UNMASK_TRAIT(precedes_memory, detail::declares_precedes_memory<P>)
UNMASK_HOOK(truncates, truncating<P>, truncates_now)
UNMASK_TRAIT(renormalises, detail::declares_renormalises<P>)
// reads what a truncation keeps
UNMASK_TRAIT(reads_truncated, P::required.contains(stat::truncated))
UNMASK_TRAIT(draws, drawing<P>,
  UNMASK_FUNCTION(draw_temperature, drawing<P>,
      "draw_temperature() must be const and return float"))
// names the tokens that are drawn
UNMASK_HOOK(forces, forcing<P>, always)
// compares rows with the rows of the previous step
UNMASK_HOOK(compares, (P::required.contains(stat::drift) || P::required.contains(stat::divergence)), always)
UNMASK_HOOK(reads_sequence, sequence_reading<P>, always)
UNMASK_TRAIT(schedules, scheduling<P>,
  UNMASK_FUNCTION(schedule, scheduling<P>,
      "schedule(sequence, plan, context) must be const and return void"))
// decides one block after another
UNMASK_TRAIT(decides_one_block, detail::declares_decides_one_block<P>)
UNMASK_HOOK(paces, pacing<P>, always)
UNMASK_TRAIT(replans, replanning<P>,
  UNMASK_FUNCTION(replan, replanning<P>,
      "replan(sequence, plan, context) must be const and return void, in a part that schedules"))
// finds the end of a block in its rows
UNMASK_HOOK(ends_blocks, block_ending<P>, always)
UNMASK_TRAIT(reads_ahead, reading_ahead<P>)
UNMASK_TRAIT(reaches, reaching<P>)
// may plan passes that commit nothing
UNMASK_TRAIT(idles, (scheduling<P> || renoising<P>))
// depends on the committed tokens left of it
UNMASK_TRAIT(follows_text, detail::declares_follows_text<P>)
UNMASK_HOOK(stops, stopping<P>, always,
  UNMASK_FUNCTION(stop, stopping<P>,
      "stop(sequence, context) must be const and return ending")
  UNMASK_FUNCTION(answer_end, delimiting<P>,
      "answer_end(sequence) must be const and return index_t, in a part that has "
      "stop(sequence, context)"))
// allows or refuses tokens that are about to be committed
UNMASK_TRAIT(gates, gating<P>,
  UNMASK_FUNCTION(admits, gating<P>,
      "admits(position, token, context) must be const and return bool"))
// has lookahead branches
UNMASK_HOOK(looks_ahead, branching<P>, branches_now)
UNMASK_HOOK(drafts, drafting<P>, branches_now)
UNMASK_HOOK(beams, beam_searching<P>, branches_now)
// checks drafts
// says itself which positions a pass computes
UNMASK_TRAIT(plans_positions, (verifying<P> || detail::declares_plans_positions<P>))
UNMASK_HOOK(verifies, verifying<P>, always,
  UNMASK_FUNCTION(accepts, verifying<P>,
      "accepts(candidate, context) must be const and return bool, in a part that has "
      "schedule(sequence, plan, context)"))
// rewrites committed tokens: edits, remasks or verifies
UNMASK_HOOK(rewrites, detail::rewriting<P>, edits_tokens_now)
// rewrites them by its own rule
UNMASK_TRAIT(edits, (detail::rewriting<P> && !verifying<P> && !reconsidering<P>))
UNMASK_TRAIT(edits_tokens, token_editing<P>,
  UNMASK_FUNCTION(edit_token, token_editing<P>,
      "edit_token(candidate, context) must be const and return verdict"))
UNMASK_HOOK(remasks, remasking<P>, edits_tokens_now,
  UNMASK_FUNCTION(remasks, remasking<P>,
      "remasks(candidate, context) must be const and return bool"))
UNMASK_TRAIT(remasks_current, detail::declares_remasks_current<P>)
// remasks the least certain tokens
UNMASK_HOOK(remasks_least, remasking_least<P>, edits_tokens_now,
  UNMASK_FUNCTION(remask_count, remasking_least<P>,
      "remask_count(context) must be const and return index_t, in a part that has "
      "remask_score(candidate, context) and extra_remasks(sequence_shape)")
  UNMASK_FUNCTION(remask_score, remasking_least<P>,
      "remask_score(candidate, context) must be const and return float, in a part that has "
      "remask_count(context) and extra_remasks(sequence_shape)"))
// may go on without masked positions
UNMASK_TRAIT(goes_on, going_on<P>,
  UNMASK_FUNCTION(goes_on, going_on<P>,
      "goes_on(sequence, context) must be const and return bool, in a part that has "
      "remask_count(context)"))
// reconsiders committed tokens without them
UNMASK_HOOK(reconsiders, reconsidering<P>, reconsiders_now,
  UNMASK_FUNCTION(hide_count, reconsidering<P>,
      "hide_count(context) must be const and return index_t, in a part that has the other "
      "functions of core/part/rewriting.hpp")
  UNMASK_FUNCTION(hide_score, reconsidering<P>,
      "hide_score(candidate, context) must be const and return float, in a part that has the "
      "other functions of core/part/rewriting.hpp")
  UNMASK_FUNCTION(reconsider_count, reconsidering<P>,
      "reconsider_count(context) must be const and return index_t, in a part that has the "
      "other functions of core/part/rewriting.hpp")
  UNMASK_FUNCTION(reconsider_score, reconsidering<P>,
      "reconsider_score(candidate, context) must be const and return float, in a part that has "
      "the other functions of core/part/rewriting.hpp"))
// rewrites the scored block as a whole
UNMASK_HOOK(rewrites_blocks, block_rewriting<P>, rewrites_blocks_now,
  UNMASK_FUNCTION(rewrite_block, block_rewriting<P>,
      "rewrite_block(rows, context) must be const and return void, in a part that declares so: "
      "static constexpr bool rewrites_blocks = true"))
// sequences begin shorter than they may become
UNMASK_TRAIT(grows, growing<P>,
  UNMASK_FUNCTION(begin_length, growing<P>,
      "begin_length(sequence_shape) must be const and return index_t, in a part that has "
      "rewrite_block(rows, context)"))
// reads committed positions in a shadow
UNMASK_HOOK(shadows, (detail::attention_of<P> == attention_kind::shadow), shadows_now)
UNMASK_HOOK(tracks_current, (current_tracking<P> || ((remasking_least<P> || verifying<P> || reconsidering<P>) && detail::declares_tracks_current<P>)), always)
UNMASK_HOOK(renoises, renoising<P>, always,
  UNMASK_FUNCTION(refill, renoising<P>,
      "refill(position, context) must be const and return token_id, and so must "
      "conclude(context)")
  UNMASK_FUNCTION(conclude, renoising<P>,
      "conclude(context) must be const and return token_id, and so must refill(position, "
      "context)"))
// keeps the tokens of accepted positions on a canvas
UNMASK_HOOK(absorbs, absorbing<P>, always)
UNMASK_HOOK(caches, caching<P>, always,
  UNMASK_FUNCTION(set_query, caching<P>,
      "set_query(sequence, plan, context) must be const and return void"))
UNMASK_HOOK(evicts, evicting<P>, always,
  UNMASK_FUNCTION(evicts, evicting<P>,
      "evicts(sequence, plan, context) must be const and return eviction"))
// selects single positions of a pass
UNMASK_HOOK(picks, picking<P>, always,
  UNMASK_FUNCTION(in_query, picking<P>,
      "in_query(row, context) must be const and return bool, in a part that has set_query()"))
// selects positions at a layer
UNMASK_HOOK(skips, layer_rule<P>, always)
// clang-format on

#undef UNMASK_HOOK
#undef UNMASK_TRAIT
#undef UNMASK_FUNCTION
