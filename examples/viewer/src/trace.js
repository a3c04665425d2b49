// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads unmask-trace/1: JSON lines. Nothing of a trace is trusted: every member that is used is
// checked, and what does not fit is an error that names line and rule. What stands before that line
// is kept.

export const FORMAT = 'unmask-trace/1';
export const MOST_CHARACTERS = 8 * 1024 * 1024;  // of a line
export const OUTCOMES = 'cfhxierkwgl';
export const COLUMNS = ['log_probability', 'confidence', 'margin', 'entropy', 'rank'];

export class TraceError extends Error {}

/// A value as an error shows it: JSON, cut short.
function shown(value) {
  let text;
  if (Array.isArray(value)) {
    text = `a list of ${value.length}`;
  } else if (value !== null && typeof value === 'object') {
    text = 'an object';
  } else {
    text = value === undefined ? 'missing' : JSON.stringify(value);
  }
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

function refuse(name, value, rule) {
  throw new TraceError(`${name} is ${shown(value)}; it must be ${rule}.`);
}

/// The own member of an object, and never one of its prototype.
function member(object, name) {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function wantObject(value, name) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    refuse(name, value, 'an object');
  }
  return value;
}

function wantList(value, name) {
  return Array.isArray(value) ? value : refuse(name, value, 'a list');
}

function wantInteger(value, name, first, last) {
  if (!Number.isInteger(value) || value < first || value > last) {
    refuse(name, value, last < 2147483647 ? `an integer from ${first} to ${last}`
                                          : `an integer, at least ${first}`);
  }
  return value;
}

function wantString(value, name) {
  return typeof value === 'string' ? value : refuse(name, value, 'a string');
}

function wantStrings(value, name) {
  wantList(value, name).forEach((one, i) => wantString(one, `${name}[${i}]`));
  return value;
}

/// `wanted(value, name)` of a member if it is there, else `otherwise`.
function optional(object, name, otherwise, wanted) {
  const value = member(object, name);
  return value === undefined || value === null ? otherwise : wanted(value, `"${name}"`);
}

const MOST = 2147483647;
const count = (value, name) => wantInteger(value, name, 0, MOST);

/// Numbers of one kind that grow at the end.
class Column {
  constructor(Kind, room = 256) {
    this.data = new Kind(room);
    this.size = 0;
  }
  /// Makes room for `more` numbers and returns where they go.
  grow(more) {
    const first = this.size;
    this.size += more;
    if (this.size > this.data.length) {
      const larger = new this.data.constructor(Math.max(this.size, 2 * this.data.length));
      larger.set(this.data.subarray(0, first));
      this.data = larger;
    }
    return first;
  }
}

/// One decode: its shape, and its steps with their candidates.
class Sequence {
  /// `trace` has the policy of a sequence that names none.
  constructor(value, name, trace) {
    wantObject(value, name);
    this.policy = optional(value, 'policy', trace.policy, wantString);
    this.parts = optional(value, 'parts', trace.parts, wantStrings);
    this.slot = wantInteger(member(value, 'slot'), `${name}.slot`, 0, MOST);
    this.sequence = optional(value, 'sequence', 0, count);
    const shape = wantObject(member(value, 'shape'), `${name}.shape`);
    const tokens = wantList(member(value, 'tokens'), `${name}.tokens`);
    this.length = wantInteger(member(shape, 'length'), `${name}.shape.length`, 1, MOST);
    if (tokens.length !== this.length) {
      refuse(`${name}.tokens`, tokens, `a list of shape.length = ${this.length} tokens`);
    }
    this.promptLength =
        wantInteger(member(shape, 'prompt_length'), `${name}.shape.prompt_length`, 0, this.length);
    this.blockLength = optional(shape, 'block_length', 0, count);
    this.tokens = Int32Array.from(
        tokens, (token, i) => wantInteger(token, `${name}.tokens[${i}]`, -1, MOST));
    this.given = new Uint8Array(this.length).fill(1, 0, this.promptLength);
    const fixed = member(value, 'fixed') ?? [];
    wantList(fixed, `${name}.fixed`).forEach((position, i) => {
      this.given[wantInteger(position, `${name}.fixed[${i}]`, 0, this.length - 1)] = 1;
    });
    this.begins = new Uint8Array(this.length);  // committed at the start: given, and may be edited
    wantList(member(value, 'committed') ?? [], `${name}.committed`).forEach((position, i) => {
      const p = wantInteger(position, `${name}.committed[${i}]`, this.promptLength, this.length - 1);
      this.given[p] = this.begins[p] = 1;
    });
    wantList(member(value, 'filled') ?? [], `${name}.filled`).forEach((position, i) => {
      this.given[wantInteger(position, `${name}.filled[${i}]`, this.promptLength, this.length - 1)] = 1;
    });
    this.steps = [];
    this.offsets = [0];  // the candidates of step s are offsets[s] to offsets[s + 1]
    this.position = new Column(Int32Array);
    this.token = new Column(Int32Array);
    this.outcome = new Column(Uint8Array);  // index into OUTCOMES
    this.by = new Column(Int32Array);
    for (const name of COLUMNS) {
      this[name] = new Column(Float32Array);  // NaN where there is none
    }
    this.end = null;
  }
}

/// Feeds on text, in any pieces, and makes a trace of it:
///   name, head, policy, parts, model, text (token -> string), sequences, bytes;
///   error: null, or the sentence about the line that could not be read;
///   notes: sentences about what is incomplete.
export class TraceReader {
  constructor(name) {
    this.trace = {name, policy: '', parts: [], model: {}, text: new Map(), sequences: [], lines: 0,
                  library: '', seed: null, error: null, notes: [], characters: 0};
    this.rest = '';
    this.line = 0;
    this.hasHead = false;
    this.slots = new Map();  // slot -> its sequence, null if that has ended
    this.partial = false;
  }

  /// Text of the trace. Returns false when the rest is of no use.
  push(piece) {
    this.trace.characters += piece.length;
    let from = 0;
    while (!this.trace.error) {
      const to = piece.indexOf('\n', from);
      const stop = to < 0 ? piece.length : to;
      if (this.rest.length + stop - from > MOST_CHARACTERS) {
        this.fail(this.line + 1, `the line has more than ${MOST_CHARACTERS / 1048576} million ` +
                                     `characters (of 1,048,576), which no line of a trace has.`);
        this.rest = '';
        break;
      }
      this.rest += piece.slice(from, stop);
      if (to < 0) {
        break;
      }
      from = to + 1;
      const line = this.rest;
      this.rest = '';
      this.take(line, false);
    }
    return !this.trace.error;
  }

  /// The end of the text.
  finish() {
    const trace = this.trace;
    if (!trace.error && this.rest.trim() !== '') {
      this.take(this.rest, true);
    }
    this.rest = '';
    if (!trace.error && !this.hasHead) {
      this.fail(1, 'the file is empty; a trace begins with its head.');
    }
    if (!trace.error && !this.partial && trace.sequences.some((s) => s.end === null)) {
      trace.notes.push('No end is recorded: the decode was still running, or its recording stopped.');
    }
    return trace;
  }

  fail(line, rule) {
    this.trace.error = `Line ${line}: ${rule}` +
        (this.hasHead ? ` The ${line - 1} lines before it are shown.` : '');
  }

  take(line, last) {
    this.line += 1;
    if (line.trim() === '') {
      return;
    }
    let value;
    try {
      value = JSON.parse(line.charCodeAt(0) === 0xFEFF ? line.slice(1) : line);
    } catch (error) {
      if (last && this.hasHead) {
        this.partial = true;
        this.trace.notes.push(`The trace is cut off within line ${this.line}; what stands before it is shown.`);
      } else {
        this.fail(this.line, this.hasHead ? 'this is not JSON; each line of a trace is one JSON object.'
                                          : `this is no trace: a trace is JSON lines, and begins with {"format":"${FORMAT}".`);
      }
      return;
    }
    try {
      wantObject(value, 'The line');
      if (!this.hasHead) {
        this.takeHead(value);
        this.hasHead = true;
      } else if (Object.hasOwn(value, 'step')) {
        this.takeStep(value);
      } else if (Object.hasOwn(value, 'end')) {
        this.takeEnd(value);
      } else if (Object.hasOwn(value, 'start')) {
        this.addSequence(value.start, '"start"');
      } else if (!Object.hasOwn(value, 'text')) {
        throw new TraceError('the line has none of "step", "end", "start" and "text".');
      }
      this.takeText(value);
      this.trace.lines = this.line;
    } catch (error) {
      if (error instanceof TraceError) {
        this.fail(this.line, error.message);
      } else if (error instanceof RangeError) {
        this.fail(this.line, 'the trace does not fit into the memory of this browser.');
      } else {
        throw error;
      }
    }
  }

  takeHead(head) {
    const format = member(head, 'format');
    if (typeof format !== 'string' || !/^unmask-trace\/\d+$/.test(format)) {
      throw new TraceError(`this is no trace: "format" is ${shown(format)}; it must be "${FORMAT}".`);
    }
    if (format !== FORMAT) {
      throw new TraceError(`the trace has the format ${format.slice(0, 40)}, and this viewer reads ${
          FORMAT}; take the viewer of the version that wrote it.`);
    }
    const trace = this.trace;
    trace.library = optional(head, 'library', '', wantString);
    trace.policy = optional(head, 'policy', '', wantString);
    trace.parts = optional(head, 'parts', [], wantStrings);
    const seed = member(head, 'seed');
    trace.seed = typeof seed === 'number' || typeof seed === 'string' ? String(seed) : null;
    const model = optional(head, 'model', {}, wantObject);
    trace.model = {
      name: optional(model, 'name', '', wantString),
      vocab: optional(model, 'vocab', 0, (value, name) => wantInteger(value, name, 1, MOST)),
      mask: optional(model, 'mask', -1, (value, name) => wantInteger(value, name, -1, MOST)),
      eos: optional(model, 'eos', -1, (value, name) => wantInteger(value, name, -1, MOST)),
      layers: optional(model, 'layers', 0, count),
    };
    const sequences = wantList(member(head, 'sequences'), '"sequences"');
    if (sequences.length === 0) {
      refuse('"sequences"', sequences, 'a list of one sequence or more');
    }
    sequences.forEach((value, i) => this.addSequence(value, `"sequences"[${i}]`));
  }

  addSequence(value, name) {
    const sequence = new Sequence(value, name, this.trace);
    if (this.slots.get(sequence.slot)) {
      throw new TraceError(`${name}.slot is ${sequence.slot}, and a sequence is running there.`);
    }
    this.trace.sequences.push(sequence);
    this.slots.set(sequence.slot, sequence);
  }

  takeText(value) {
    const text = member(value, 'text');
    if (text === undefined) {
      return;
    }
    for (const key of Object.keys(wantObject(text, '"text"'))) {
      if (!/^\d{1,10}$/.test(key)) {
        throw new TraceError(`"text" has the key ${shown(key)}; keys are token ids.`);
      }
      this.trace.text.set(Number(key), wantString(text[key], `"text"."${key}"`));
    }
  }

  /// The sequence that runs in the slot of a line.
  running(value) {
    const slot = member(value, 'slot') ?? 0;
    const sequence = this.slots.get(slot);
    if (!Number.isInteger(slot) || sequence === undefined) {
      throw new TraceError(`"slot" is ${shown(slot)}; the slots of this trace are ${
          [...this.slots.keys()].slice(0, 20).join(', ')}.`);
    }
    if (sequence === null) {
      throw new TraceError(`the sequence in slot ${slot} has ended before this line.`);
    }
    return sequence;
  }

  takeStep(value) {
    const s = this.running(value);
    const parts = s.parts.length;
    const last = s.steps.at(-1);
    const step = wantInteger(member(value, 'step'), '"step"', last ? last.step + 1 : 0, MOST);
    const range = (pair, name) => {
      if (wantList(pair, name).length !== 2) {
        refuse(name, pair, 'a list of two positions, the first and one past the last');
      }
      const first = wantInteger(pair[0], `${name}[0]`, 0, s.length);
      return [first, wantInteger(pair[1], `${name}[1]`, first, s.length)];
    };
    const info = {
      step,
      forward: optional(value, 'forward', step + 1,
                        (v, name) => wantInteger(v, name, last ? last.forward : 0, MOST)),
      segment: optional(value, 'segment', 0, count),
      score: optional(value, 'score', null, range),
      compute: optional(value, 'compute', null, range),
      layers: optional(value, 'layers', null, (list, name) => wantList(list, name).map(
          (n, i) => Array.isArray(n) ? n.length : count(n, `${name}[${i}]`))),
      branches: optional(value, 'branches', [], wantList).map((b, i) => {
        const name = `"branches"[${i}]`;
        wantObject(b, name);
        const score = member(b, 'score');
        return {position: wantInteger(member(b, 'position'), `${name}.position`, -1, s.length - 1),
                token: wantInteger(member(b, 'token') ?? -1, `${name}.token`, -1, MOST),
                score: typeof score === 'number' ? score : NaN};
      }),
      after: optional(value, 'after', null, (moved, name) => {
        wantObject(moved, name);
        const first = wantInteger(member(moved, 'first'), `${name}.first`, 0, s.length);
        const tokens = wantList(member(moved, 'tokens'), `${name}.tokens`);
        if (tokens.length > s.length - first) {
          refuse(`${name}.tokens`, tokens, `a list of at most ${s.length - first}: the sequence has ${s.length} positions`);
        }
        return {first, tokens: Int32Array.from(
            tokens, (token, i) => wantInteger(token, `${name}.tokens[${i}]`, -1, MOST))};
      }),
      winner: optional(value, 'winner', -1, (v, name) => wantInteger(v, name, -1, MOST)),
      cache: optional(value, 'cache', '', wantString),
      milliseconds: optional(value, 'milliseconds', NaN,
                             (v, name) => typeof v === 'number' && v >= 0 ? v : refuse(name, v, 'a number, at least 0')),
    };

    const positions = wantList(member(value, 'position'), '"position"');
    const n = positions.length;
    const column = (name, otherwise) => {
      const list = optional(value, name, otherwise, wantList);
      if (list !== null && list.length !== n) {
        refuse(`"${name}"`, list, `a list of ${n}, as "position" has`);
      }
      return list;
    };
    const tokens = column('token', undefined) ?? refuse('"token"', undefined, 'a list');
    const outcomes = wantString(member(value, 'outcome') ?? undefined, '"outcome"');
    if (outcomes.length !== n) {
      throw new TraceError(`"outcome" has ${outcomes.length} letters; it must have ${n}, as "position" has.`);
    }
    const by = column('by', null);
    const numbers = COLUMNS.map((name) => column(name, null));

    // All is checked before anything is kept, so that a bad line leaves no half of itself.
    let before = -1;
    for (let i = 0; i < n; ++i) {
      if (!Number.isInteger(positions[i]) || positions[i] <= before || positions[i] >= s.length) {
        refuse(`"position"[${i}]`, positions[i],
               `an integer from ${before + 1} to ${s.length - 1}, as positions ascend`);
      }
      before = positions[i];
      wantInteger(tokens[i], `"token"[${i}]`, -1, MOST);
      if (by !== null) {
        wantInteger(by[i], `"by"[${i}]`, -1, parts - 1);
      }
    }
    numbers.forEach((list, k) => list?.forEach((x, i) => {
      if (x !== null && typeof x !== 'number') {
        refuse(`"${COLUMNS[k]}"[${i}]`, x, 'a number or null');
      }
    }));

    const first = s.position.grow(n);
    for (const name of ['token', 'outcome', 'by', ...COLUMNS]) {
      s[name].grow(n);
    }
    for (let i = 0; i < n; ++i) {
      s.position.data[first + i] = positions[i];
      s.token.data[first + i] = tokens[i];
      const letter = OUTCOMES.indexOf(outcomes[i]);  // of a later version: as if held
      s.outcome.data[first + i] = letter < 0 ? OUTCOMES.indexOf('h') : letter;
      s.by.data[first + i] = by === null ? -1 : by[i];
    }
    COLUMNS.forEach((name, k) => {
      const list = numbers[k];
      const data = s[name].data;
      for (let i = 0; i < n; ++i) {
        data[first + i] = list === null || list[i] === null ? NaN : list[i];
      }
    });
    s.steps.push(info);
    s.offsets.push(first + n);
  }

  takeEnd(value) {
    const s = this.running(value);
    s.end = {
      reason: wantString(member(value, 'end'), '"end"'),
      forwards: optional(value, 'forwards', s.steps.length, count),
      committed: optional(value, 'committed', null, count),
      tokens: optional(value, 'tokens', null, wantList),
    };
    if (s.end.tokens !== null) {
      if (s.end.tokens.length !== s.length) {
        refuse('"tokens"', s.end.tokens, `a list of ${s.length}, as the head has`);
      }
      s.end.tokens.forEach((t, i) => wantInteger(t, `"tokens"[${i}]`, -1, MOST));
    }
    this.slots.set(s.slot, null);
  }
}

/// A trace of text that is already here.
export function readText(text, name) {
  const reader = new TraceReader(name);
  reader.push(text);
  return reader.finish();
}

/// A trace of a file or a Blob: read in pieces, so that the page goes on; `progress(fraction)`.
export async function readBlob(blob, name, progress) {
  const reader = new TraceReader(name);
  const pieces = blob.stream().pipeThrough(new TextDecoderStream()).getReader();
  let done = 0;
  let shown = performance.now();
  for (;;) {
    const {value, done: ended} = await pieces.read();
    if (ended || !reader.push(value)) {
      break;
    }
    done += value.length;
    if (performance.now() - shown > 50) {
      progress(Math.min(1, done / blob.size));
      await new Promise((resolve) => setTimeout(resolve));
      shown = performance.now();
    }
  }
  pieces.cancel().catch(() => {});
  return reader.finish();
}
