// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One sequence of a trace: the state of each position after each step, sums, and the first
// difference of two decodes. Nothing here draws.
import {OUTCOMES} from './trace.js';

export const STATE = {given: 0, masked: 1, proposed: 2, committed: 3, changed: 4, absent: 5};
export const STATE_NAMES = ['given', 'masked', 'proposed', 'committed', 'changed', 'not part of the text'];

const COMMITS = [...OUTCOMES].map((letter) => 'cfwl'.includes(letter));
const EDITED = OUTCOMES.indexOf('e');
const REMASKED = OUTCOMES.indexOf('r');
const KEPT = OUTCOMES.indexOf('k');

/// Least probability of each shade, the last the darkest.
export const SHADES = [0, 0.5, 0.9, 0.99, 0.999].map(Math.fround);  // as the confidences are kept
export const SHADE_NAMES = ['below 50 %', '50 % to 90 %', '90 % to 99 %', '99 % to 99.9 %', 'above 99.9 %'];
export function shadeOf(confidence) {
  let shade = 0;
  while (shade + 1 < SHADES.length && confidence >= SHADES[shade + 1]) {
    ++shade;
  }
  return shade;
}

/// Where each token of `after` stood in `before`: an index, or -1 for an inserted one. The longest
/// common subsequence, but for what begins and ends both; none is sought in very long texts.
export function moveOf(before, after) {
  const from = new Int32Array(after.length).fill(-1);
  let first = 0;
  while (first < before.length && first < after.length && before[first] === after[first]) {
    from[first] = first;
    ++first;
  }
  let [i, j] = [before.length, after.length];
  while (i > first && j > first && before[i - 1] === after[j - 1]) {
    from[--j] = --i;
  }
  const [rows, columns] = [i - first, j - first];
  if (rows * columns > 4e6) {
    return from;
  }
  const best = new Uint32Array((rows + 1) * (columns + 1));  // of what is right of both
  for (let r = rows - 1; r >= 0; --r) {
    for (let c = columns - 1; c >= 0; --c) {
      const at = r * (columns + 1) + c;
      best[at] = before[first + r] === after[first + c] ? best[at + columns + 2] + 1
                                                        : Math.max(best[at + columns + 1], best[at + 1]);
    }
  }
  for (let r = 0, c = 0; r < rows && c < columns;) {
    const at = r * (columns + 1) + c;
    if (before[first + r] === after[first + c]) {
      from[first + c++] = first + r++;
    } else if (best[at + columns + 1] >= best[at + 1]) {
      ++r;
    } else {
      ++c;
    }
  }
  return from;
}

/// The changes by a sequence's steps. Events are the candidates that changed a position.
export class Decode {
  constructor(trace, sequence) {
    this.trace = trace;
    this.sequence = sequence;
    this.length = sequence.length;
    this.forwards = sequence.steps.length;
    this.events = [];  // candidate indices, by step
    this.eventOffsets = [0];
    this.totals = {};
    for (const letter of OUTCOMES) {
      this.totals[letter] = 0;
    }
    this.perStep = [];
    const {position, outcome} = sequence;
    this.moves = new Map();  // step -> {first, from, tokens}: `from` counts from `first`
    this.end = sequence.length;  // of the text before the first step
    const ends = sequence.steps.map(({after}) => after).filter(Boolean).map((a) => a.first + a.tokens.length);
    if (ends.length > 0 && Math.min(...ends) < sequence.length) {  // it grows, or shrinks
      this.end = sequence.steps[0].compute?.[1] ?? sequence.length;
    }
    const text = Int32Array.from(sequence.tokens, (token, p) => sequence.given[p] ? token : trace.model.mask);
    let end = this.end;
    this.first = sequence.length;
    const holds = sequence.given.slice();
    for (let p = 0; p < this.length; ++p) {
      if (!sequence.given[p]) {
        this.first = Math.min(this.first, p);
      }
    }
    for (let s = 0; s < this.forwards; ++s) {
      const counts = new Uint32Array(OUTCOMES.length);
      for (let i = sequence.offsets[s]; i < sequence.offsets[s + 1]; ++i) {
        const o = outcome.data[i];
        ++counts[o];
        const p = position.data[i];
        this.first = Math.min(this.first, p);
        if (COMMITS[o] || o === EDITED || o === REMASKED || (holds[p] && o !== KEPT)) {
          this.events.push(i);  // the last: a canvas that was given noise again
          holds[p] = COMMITS[o] || o === EDITED ? 1 : 0;
          text[p] = holds[p] ? sequence.token.data[i] : trace.model.mask;
        }
      }
      const {after} = sequence.steps[s];
      if (after !== null) {
        const {first, tokens} = after;
        this.moves.set(s, {first, tokens, from: moveOf(text.subarray(first, Math.max(end, first)), tokens)});
        end = first + tokens.length;
        text.set(tokens, first);
        for (let p = first; p < this.length; ++p) {
          holds[p] = p < end && text[p] !== trace.model.mask ? 1 : 0;
        }
      }
      this.eventOffsets.push(this.events.length);
      [...OUTCOMES].forEach((letter, o) => { this.totals[letter] += counts[o]; });
      const info = sequence.steps[s];
      const rows = info.score ? info.score[1] - info.score[0]
                              : sequence.offsets[s + 1] - sequence.offsets[s];
      const computed = info.compute ? info.compute[1] - info.compute[0] : null;
      const layerPositions = info.layers ? info.layers.reduce((a, b) => a + b, 0)
          : computed !== null && trace.model.layers ? computed * trace.model.layers : null;
      this.perStep.push({
        counts, rows, computed, layerPositions,
        commits: counts.reduce((sum, n, o) => sum + (COMMITS[o] ? n : 0), 0),
        changes: counts[EDITED] + counts[REMASKED],
      });
    }
    if (this.first === this.length) {
      this.first = Math.min(sequence.promptLength, this.length - 1);
    }
    // On a canvas a position is committed in each step again: the end line counts it once.
    this.commits = sequence.end?.committed ?? this.perStep.reduce((sum, s) => sum + s.commits, 0);
    this.rows = this.perStep.reduce((sum, s) => sum + s.rows, 0);
    this.layerPositions = this.perStep.some((s) => s.layerPositions !== null)
        ? this.perStep.reduce((sum, s) => sum + (s.layerPositions ?? 0), 0) : null;
    this.milliseconds = sequence.steps.some((s) => !Number.isNaN(s.milliseconds))
        ? sequence.steps.reduce((sum, s) => sum + (s.milliseconds || 0), 0) : null;
    this.cached = null;
    this.notes = [];
    if (sequence.end?.tokens) {
      const {state, token} = this.at(this.forwards);
      const p = sequence.end.tokens.findIndex((t, i) => state[i] >= STATE.committed && token[i] >= 0 && t !== token[i]);
      if (p >= 0) {
        this.notes.push(`The end line has token ${sequence.end.tokens[p]} at position ${p}; its steps commit token ${token[p]}.`);
      }
    }
  }

  /// The letter of a candidate.
  letter(i) {
    return OUTCOMES[this.sequence.outcome.data[i]];
  }

  /// After `n` steps (0: before the first): arrays [position].
  ///   state; token: committed, proposed or given, -1 for none; candidate: index of the one that
  ///   decided the token, or proposed it in the last step, -1; fresh: 1 if the last step did it;
  ///   shift: by how many positions the last step moved the token.
  at(n) {
    if (this.cached?.n === n) {
      return this.cached;
    }
    const s = this.sequence;
    const state = new Uint8Array(this.length).fill(STATE.masked);
    const token = new Int32Array(this.length).fill(-1);
    const candidate = new Int32Array(this.length).fill(-1);
    const fresh = new Uint8Array(this.length);
    const touched = new Uint8Array(this.length);  // replaced or remasked before
    for (let p = 0; p < this.length; ++p) {
      if (s.given[p]) {
        state[p] = s.begins[p] ? STATE.committed : STATE.given;
        token[p] = s.tokens[p];
      }
    }
    const shift = new Int32Array(this.length);
    const clear = (p, is) => {
      [state[p], token[p], candidate[p], touched[p]] = [is, -1, -1, 0];
    };
    for (let p = this.end; p < this.length; ++p) {
      clear(p, STATE.absent);
    }
    const move = ({first, tokens, from}) => {
      const columns = [state, token, candidate, touched].map((column) => column.slice(first));
      tokens.forEach((t, k) => {
        const p = first + k;
        if (from[k] >= 0) {
          [state[p], token[p], candidate[p], touched[p]] = columns.map((column) => column[from[k]]);
        } else {
          clear(p, STATE.masked);
        }
        if (t !== this.trace.model.mask && token[p] !== t) {
          [state[p], token[p], candidate[p]] = [STATE.committed, t, -1];
        }
      });
      for (let p = first + tokens.length; p < this.length; ++p) {
        clear(p, STATE.absent);
      }
    };
    let moved = 0;  // events before this one have moved with the text
    const steps = [...this.moves.keys()].filter((s) => s < n);
    for (let e = 0; e < this.eventOffsets[n]; ++e) {
      while (moved < steps.length && e >= this.eventOffsets[steps[moved] + 1]) {
        move(this.moves.get(steps[moved++]));
      }
      const i = this.events[e];
      const p = s.position.data[i];
      const o = s.outcome.data[i];
      candidate[p] = i;
      if (!COMMITS[o] && o !== EDITED) {
        touched[p] |= o === REMASKED;
        state[p] = STATE.masked;
        token[p] = -1;
      } else {
        touched[p] |= o === EDITED;
        state[p] = touched[p] ? STATE.changed : STATE.committed;
        token[p] = s.token.data[i];
      }
    }
    while (moved < steps.length) {
      move(this.moves.get(steps[moved++]));
    }
    const last = this.moves.get(n - 1);
    const now = new Map();  // where the positions of the last step's candidates are
    last?.from.forEach((from, k) => {
      const p = last.first + k;
      if (from >= 0) {
        now.set(last.first + from, p);
        shift[p] = k - from;
      } else {
        fresh[p] = 1;
      }
    });
    for (let i = n > 0 ? s.offsets[n - 1] : 0; n > 0 && i < s.offsets[n]; ++i) {
      const at = s.position.data[i];
      const p = last === undefined || at < last.first ? at : now.get(at);
      if (p === undefined) {
        continue;  // erased
      }
      const o = s.outcome.data[i];
      if (COMMITS[o] || o === EDITED) {
        fresh[p] = 1;
      } else if (o === REMASKED) {
        fresh[p] = 1;
        state[p] = STATE.changed;
        candidate[p] = i;
      } else if (state[p] === STATE.masked) {
        state[p] = STATE.proposed;
        token[p] = s.token.data[i];
        candidate[p] = i;
      }
    }
    this.cached = {n, state, token, candidate, fresh, touched, shift};
    return this.cached;
  }

  /// The candidate of a position in step s (from 0), or -1: the columns ascend.
  find(s, position) {
    const data = this.sequence.position.data;
    let low = this.sequence.offsets[s];
    let high = this.sequence.offsets[s + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data[middle] < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < this.sequence.offsets[s + 1] && data[low] === position ? low : -1;
  }

  /// All candidates of a position: [{step (from 0), index}].
  history(position) {
    const found = [];
    for (let s = 0; s < this.forwards; ++s) {
      const index = this.find(s, position);
      if (index >= 0) {
        found.push({step: s, index});
      }
    }
    return found;
  }

  commitsAt(s) {
    return this.events.slice(this.eventOffsets[s], this.eventOffsets[s + 1]);
  }

  partOf(i) {
    const by = this.sequence.by.data[i];
    return by >= 0 ? this.sequence.parts[by] : '';
  }

  /// Why a candidate ended as it did: a sentence.
  reason(i) {
    const part = this.partOf(i);
    const letter = this.letter(i);
    switch (letter) {
      case 'c': return part ? `Committed by ${part}.` : 'Committed by the commit rule.';
      case 'f': return 'Forced: no rule chose it, but each step commits at least one token (progress guarantee).';
      case 'h': return part ? `Held: ${part} did not choose it in this step.` : 'Held: the commit rule did not choose it in this step.';
      case 'x': return part ? `Excluded from this step by ${part}.` : 'Excluded from this step by a part of the policy.';
      case 'i': return 'Invalid row: the logits of this position have no finite probabilities.';
      case 'e': return part ? `A committed token, replaced by ${part}.` : 'A committed token, replaced.';
      case 'r': return part ? `A committed token, masked again by ${part}.` : 'A committed token, masked again.';
      case 'k': return part ? `A committed token, considered again by ${part}; it stays.` : 'A committed token, considered again; it stays.';
      case 'w': return 'Committed with the winning lookahead branch.';
      default: return '';
    }
  }
}

export const OUTCOME_NAMES = {
  c: 'committed', f: 'forced', h: 'held', x: 'excluded', i: 'invalid row', e: 'replaced', r: 'remasked', k: 'kept',
  w: 'winning branch', g: 'refused', l: 'filled'
};

/// The text of a token, made visible: no control or formatting character is left in it.
export function tokenText(trace, token) {
  if (token < 0) {
    return '';
  }
  if (token === trace.model.eos) {
    return 'EOS';
  }
  const text = trace.text.get(token);
  if (text === undefined || text === '') {
    return `#${token}`;
  }
  let clean = text.length > 64 ? `${text.slice(0, 63)}…` : text;
  clean = clean.replace(/\r?\n/g, '↵').replace(/\t/g, '⇥').replace(/^ +$/, (spaces) => '␣'.repeat(spaces.length));
  return clean.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb]/gu,
                       (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);
}

/// Where two decodes part: null if they decide the same, else
/// {step (0: before the first forward), position, sentence}.
export function firstDifference(a, b) {
  const text = (d, token) => token < 0 ? 'nothing' : `“${tokenText(d.trace, token)}”`;
  if (a.length !== b.length) {
    return {step: 0, position: -1, sentence: `The canvases differ: ${a.length} positions in A, ${b.length} in B.`};
  }
  for (let p = 0; p < a.length; ++p) {
    const given = a.sequence.given[p];
    if (given !== b.sequence.given[p] || (given && a.sequence.tokens[p] !== b.sequence.tokens[p])) {
      return {step: 0, position: p, sentence: `The prompts differ at position ${p}.`};
    }
  }
  const says = (d, step, position, event) => {
    if (event !== undefined) {
      const c = d.sequence.confidence.data[event];
      const what = {e: 'replaces the token with', r: 'masks it again, which was', c: 'commits', f: 'commits', w: 'commits'}[d.letter(event)] ?? 'proposes';
      return `${what} ${text(d, d.sequence.token.data[event])}${Number.isNaN(c) ? '' : ` at ${percent(c)}`}`;
    }
    const i = step < d.forwards ? d.find(step, position) : -1;
    if (i < 0) {
      return step < d.forwards ? 'does not score it' : 'has ended';
    }
    const part = d.partOf(i);
    const c = d.sequence.confidence.data[i];
    return `proposes ${text(d, d.sequence.token.data[i])}${Number.isNaN(c) ? '' : ` at ${percent(c)}`} and does not commit it` +
        (part ? ` (${part})` : '');
  };
  const steps = Math.max(a.forwards, b.forwards);
  for (let s = 0; s < steps; ++s) {
    if (s >= a.forwards || s >= b.forwards) {
      const [ended, longer] = s >= a.forwards ? ['A', 'B'] : ['B', 'A'];
      return {step: s + 1, position: -1, sentence: `${ended} ends after forward ${s}; ${longer} goes on. Up to there they decide the same.`};
    }
    const [x, y] = [a, b].map((d) => new Map(d.commitsAt(s).map((i) => [d.sequence.position.data[i], i])));
    const positions = [...new Set([...x.keys(), ...y.keys()])].sort((p, q) => p - q);
    for (const p of positions) {
      const [i, j] = [x.get(p), y.get(p)];
      if (i === undefined || j === undefined || a.sequence.token.data[i] !== b.sequence.token.data[j] ||
          COMMITS[a.sequence.outcome.data[i]] !== COMMITS[b.sequence.outcome.data[j]]) {
        return {step: s + 1, position: p,
                sentence: `First difference: forward ${s + 1}, position ${p}. A ${says(a, s, p, i)}; B ${says(b, s, p, j)}.`};
      }
    }
  }
  return null;
}

export function percent(x) {
  if (Number.isNaN(x)) {
    return '-';
  }
  const digits = x > 0.9995 && x < 1 ? 3 : x > 0.99 && x < 1 ? 2 : 1;
  return `${(100 * x).toFixed(digits)} %`;
}

export function number(x) {
  return Math.round(x).toLocaleString('en');
}
