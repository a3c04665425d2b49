// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
'use strict';

const $ = (id) => document.getElementById(id);

const POLICIES = [
  ['every token above 90 %', 'threshold(0.9)'],
  ['above 60 %: faster, and wrong more often', 'threshold(0.6)'],
  ['two tokens in each pass', 'tokens_per_step(2)'],
  ['one token in each pass', 'tokens_per_step(1)'],
  ['six passes for each block', 'steps_per_block(6)'],
  ['from the left, four in each pass', 'left_to_right + tokens_per_step(4)'],
  ['together only if each is likely', 'factor(0.2)'],
  ['entropies that add up to little', 'by_entropy + entropy_bound(0.1)'],
  ['above 90 %, or two', 'by_margin + any_of(threshold(0.9), tokens_per_step(2))'],
  ['tokens that led before count more', 'threshold(0.9) + trace_credit'],
  ['looks ahead with three branches', 'threshold(0.9) + lookahead(3)'],
  ['the whole answer as one block', 'threshold(0.9) + single_block'],
  ['blocks overlap', 'threshold(0.9) + block_pipeline(0.1, whole_canvas=true)'],
  ['ends with the answer', 'threshold(0.9) + stop_at_eos'],
  ['keeps K/V on both sides of the block', 'threshold(0.9) + dual_cache'],
  ['draws tokens at random', 'threshold(0.9) + temperature(0.7) + sampling'],
];
const PROMPTS = [
  'Q:Ivy has 10 keys. Buys 8. Eats 7. Gets 4. How many?',
  'Q:Gus has 12 books. Gets 2. Gets 6. How many?',
  'J:age 73 name Eve',
  'S:30 21 77 36 63',
  'P:a=6;a-=1;a+=2;a+=5;a+=4',
];
const PUZZLES = [  // 6 x 6 cells, row by row
  '__1__62_65146_3__5_24_3_1___________',
  '__36_4_4__2_41___6_6_1_______3_____2',
  '_4__6_6_____5_12____41___26___1___42',
];
const NUMBERS = {answer: [1, 128, 40], block: [1, 128, 20], seed: [0, 4294967295, 0]};

let module = null;
let saved = null;  // the bytes of a table that was chosen
let turn = 0;     // of the decode that runs; a newer one stops it
let runs = [];    // the newest first: {key, policy, trace, forwards, committed, milliseconds, answer}
let shown = [];   // keys of the runs in the viewer

const text = (call, types = [], values = []) => module.ccall(`playground_${call}`, 'string', types, values);
const integer = (call) => module.ccall(`playground_${call}`, 'number', [], []);

/// The values of the form, each number within its range.
function settings() {
  const all = {model: $('model').value, language: $('language').value, words: $('words').value, policy: $('policy').value, second: $('second').value, prompt: $('prompt').value};
  for (const [name, [least, most, usual]] of Object.entries(NUMBERS)) {
    const value = Math.round(Number($(name).value));
    all[name] = Number.isFinite(value) && $(name).value !== '' ? Math.min(most, Math.max(least, value)) : usual;
  }
  if (all.model === 'sudoku') {  // the clues are positions that are given; no text stands before them
    Object.assign(all, {answer: 36, given: all.prompt.replace(/[^1-6]/g, '_').padEnd(36, '_').slice(0, 36)});
  }
  return all;
}

/// The table of some strings, as write_byte_table() writes it: a state for each beginning.
function tableOf(strings) {
  const states = [{next: new Map(), ends: false}];
  for (const string of strings) {
    let at = 0;
    for (const byte of new TextEncoder().encode(string)) {
      if (!states[at].next.has(byte)) {
        states[at].next.set(byte, states.push({next: new Map(), ends: false}) - 1);
      }
      at = states[at].next.get(byte);
    }
    states[at].ends = true;
  }
  const out = [...new TextEncoder().encode('unmaskDF')];
  const put = (number, count) => {
    for (let i = 0; i < count; ++i) {
      out.push(Math.floor(number / 256 ** i) % 256);
    }
  };
  put(1, 4);
  put(states.length, 4);
  put(0, 4);
  for (const {next, ends} of states) {
    put(ends ? 1 : 0, 1);
    put(next.size, 2);
    for (const byte of [...next.keys()].sort((a, b) => a - b)) {
      put(byte, 1);
      put(byte, 1);
      put(next.get(byte), 4);
    }
  }
  return Uint8Array.from(out);
}

/// The table of the language that is chosen; null for any text.
function chosenTable() {
  const kind = $('language').value;
  if (kind === 'words') {
    const strings = $('words').value.split('|').map((w) => w.trim()).filter((w) => w !== '');
    return strings.length > 0 ? tableOf(strings) : null;
  }
  const ready = globalThis.playgroundLanguages.find((l) => l.name === kind);
  return kind === 'table' ? saved : ready ? bytes(ready.table) : null;
}

/// Gives the language to the program. Returns whether it could be read.
function setLanguage() {
  const kind = $('language').value;
  const ready = globalThis.playgroundLanguages.find((l) => l.name === kind);
  $('words').hidden = kind !== 'words';
  $('table').hidden = kind !== 'table';
  $('expression').hidden = !ready;
  $('expression').textContent = ready ? ready.expression : '';
  const table = chosenTable();
  if (table !== null) {
    module.FS.writeFile('/language.dfa', table);
  }
  const wrong = text('language', ['string', 'string'], [$('model').value, table === null ? '' : '/language.dfa']);
  $('language-error').hidden = wrong === '';
  $('language-error').textContent = wrong;
  return wrong === '';
}

/// The fields as the model wants them.
function adapt() {
  const sudoku = $('model').value === 'sudoku';
  $('prompt-label').textContent = sudoku ? 'Clues: 36 cells, row by row, _ is empty' : 'Prompt';
  $('answer').disabled = sudoku;
  $('prompts').replaceChildren(new Option('examples', ''), ...(sudoku ? PUZZLES : PROMPTS).map((p) => new Option(p, p)));
}

function fromLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  $('model').value = link.get('model') === 'sudoku' ? 'sudoku' : 'text';
  adapt();
  $('policy').value = (link.get('policy') ?? 'threshold(0.9)').slice(0, 2000);
  $('second').value = (link.get('second') ?? 'tokens_per_step(2)').slice(0, 2000);
  const known = [...$('language').options].map((o) => o.value);
  $('language').value = known.includes(link.get('language')) ? link.get('language') : '';
  $('words').value = (link.get('words') ?? 'yes | no').slice(0, 400);
  $('prompt').value = (link.get('prompt') ?? ($('model').value === 'sudoku' ? PUZZLES : PROMPTS)[0]).slice(0, 200);
  for (const [name, [, , usual]] of Object.entries(NUMBERS)) {
    $(name).value = /^\d{1,10}$/.test(link.get(name) ?? '') ? link.get(name) : usual;
  }
}

function toLink() {
  const {given, ...all} = settings();
  const link = new URLSearchParams(all);
  history.replaceState(null, '', `#${link}`);
}

/// Shows what is wrong with the text of a policy, at its column. Returns whether it is right.
function check(field) {
  const value = $(field).value;
  const box = $(`${field}-error`);
  const wrong = value.trim() === '' && field === 'second' ? '' : text('check', ['string'], [value]);
  const column = wrong ? integer('column') : 0;
  box.hidden = wrong === '';
  $(field).setAttribute('aria-invalid', String(wrong !== ''));
  const line = value.replace(/\s/g, ' ');
  const problem = column > 0 ? wrong.slice(wrong.indexOf(`column ${column}: `)) : wrong;
  box.textContent = column > 0 ? `${line}\n${' '.repeat(column - 1)}^\n${problem}` : problem;
  return wrong === '';
}

const START = ['string', 'string', 'string', 'string', 'number', 'number', 'number'];
const pause = () => new Promise((resolve) => setTimeout(resolve));

/// Decodes with one policy. Null if a newer decode has begun.
async function decode(policy, s, mine) {
  const key = JSON.stringify([s.model, policy, s.prompt, s.answer, s.block, s.seed, s.language, s.words]);
  const wrong = text('start', START, [s.model, policy, s.given ? '' : s.prompt, s.given ?? '', s.answer, s.block, s.seed]);
  if (wrong) {
    throw new Error(wrong);
  }
  let forwards = 0;
  let milliseconds = 0;
  for (;;) {
    const began = performance.now();
    const more = integer('step');
    milliseconds += performance.now() - began;
    if (more < 0) {
      throw new Error(text('said'));
    }
    if (more === 0) {
      break;
    }
    forwards += 1;
    $('progress').textContent = `${policy}: forward ${forwards}`;
    await pause();
    if (mine !== turn) {
      return null;
    }
  }
  const trace = text('trace');
  const end = trace.trimEnd().split('\n').at(-1);
  const run = {key, policy, fold: s.given ? 6 : 0, trace, forwards, milliseconds, committed: JSON.parse(end).committed ?? 0,
               answer: text('answer', ['number'], [s.answer])};
  if (chosenTable() !== null) {
    run.language = `${integer('refused')} refused, ${integer('filled')} filled`;
  }
  if (s.given) {
    const solved = module.ccall('playground_solves', 'number', ['string', 'string'], [s.given, run.answer]);
    run.answer = `${solved ? 'solved' : 'wrong'}: ${run.answer.replace(/.{6}(?=.)/g, '$& ')}`;
  }
  return run;
}

async function decodeAll() {
  const mine = ++turn;
  const right = [check('policy'), check('second'), setLanguage()];
  toLink();
  if (right.includes(false)) {
    return;
  }
  const s = settings();
  $('error').hidden = true;
  const done = [];
  try {
    for (const policy of [s.policy, s.second].filter((p) => p.trim() !== '')) {
      const run = await decode(policy, s, mine);
      if (run === null) {
        return;
      }
      done.push(run);
    }
  } catch (error) {
    $('error').textContent = error.message;
    $('error').hidden = false;
  }
  $('progress').textContent = '';
  if (done.length > 0) {
    const keys = done.map((r) => r.key);
    runs = [...done, ...runs.filter((r) => !keys.includes(r.key))].slice(0, 20);
    view(done);
  }
}

/// Shows one run in the viewer, or two.
function view(these) {
  shown = these.map((r) => r.key);
  $('viewer').contentWindow.postMessage(
      {unmaskTraces: these.map((r) => ({name: r.policy, text: r.trace})), unmaskFold: these[0].fold,
        unmaskTheme: $('theme').value}, '*');
  fill();
}

function fill() {
  const element = (tag, content, parent) => {
    const made = document.createElement(tag);
    made.textContent = content;
    parent.append(made);
    return made;
  };
  const body = $('runs').tBodies[0];
  body.replaceChildren();
  for (const run of runs) {
    const row = element('tr', '', body);
    const side = shown.indexOf(run.key);
    row.classList.toggle('shown', side >= 0);
    const policy = element('td', run.policy, row);
    if (side >= 0 && shown.length > 1) {
      policy.dataset.side = 'AB'[side];  // as the viewer calls it
    }
    element('td', String(run.forwards), row);
    element('td', run.forwards > 0 ? (run.committed / run.forwards).toFixed(2) : '-', row);
    element('td', run.milliseconds.toFixed(0), row);
    const answer = element('td', run.answer, row);
    if (run.language) {
      answer.append(' ');
      element('span', run.language, answer).classList.add('soft');
    }
    const buttons = element('td', '', row);
    element('button', 'Show', buttons).addEventListener('click', () => view([run]));
    if (shown.length > 0 && shown[0] !== run.key) {
      buttons.append(' ');
      element('button', 'Compare', buttons).addEventListener('click', () => view([runs.find((r) => r.key === shown[0]) ?? run, run]));
    }
  }
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

async function begin() {
  for (const [id, field] of [['policies', 'policy'], ['seconds', 'second']]) {
    $(id).append(new Option('examples', ''), ...POLICIES.map(([name, value]) => new Option(name, value)));
    $(id).addEventListener('change', () => {
      if ($(id).value !== '') {
        $(field).value = $(id).value;
        $(id).value = '';
        decodeAll();
      }
    });
  }
  $('model').addEventListener('change', () => {
    adapt();
    $('prompt').value = ($('model').value === 'sudoku' ? PUZZLES : PROMPTS)[0];
    $('block').value = $('model').value === 'sudoku' ? 36 : 20;
    decodeAll();
  });
  $('prompts').addEventListener('change', () => {
    if ($('prompts').value !== '') {
      $('prompt').value = $('prompts').value;
      $('prompts').value = '';
      decodeAll();
    }
  });
  $('theme').addEventListener('change', () => {
    document.documentElement.dataset.theme = $('theme').value;
    $('viewer').contentWindow.postMessage({unmaskTheme: $('theme').value}, '*');
  });
  $('language').append(new Option('any text', ''),
      ...globalThis.playgroundLanguages.map(({name}) => new Option(name, name)),
      new Option('one of some words', 'words'), new Option('of a saved table', 'table'));
  $('language').addEventListener('change', decodeAll);
  $('table').addEventListener('change', async () => {
    const file = $('table').files[0];
    saved = file ? new Uint8Array(await file.arrayBuffer()) : null;
    decodeAll();
  });
  fromLink();

  module = await globalThis.makePlayground({wasmBinary: bytes(globalThis.playgroundData.wasm)});
  for (const name of ['text', 'sudoku']) {
    module.FS.writeFile(`/${name}.gguf`, bytes(globalThis.playgroundData[name]));
    const wrong = text('load', ['string', 'string'], [name, `/${name}.gguf`]);
    if (wrong) {
      throw new Error(wrong);
    }
  }
  globalThis.playgroundData = null;
  $('parts').textContent = text('parts');
  $('decode').disabled = false;
  $('progress').textContent = '';

  let waiting = 0;
  for (const field of ['policy', 'second', 'prompt', 'words', ...Object.keys(NUMBERS)]) {
    $(field).addEventListener('input', () => {
      check('policy');
      check('second');
      clearTimeout(waiting);
      waiting = setTimeout(decodeAll, 500);
    });
  }
  $('form').addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    decodeAll();
  });
  $('share').addEventListener('click', async () => {
    toLink();
    try {
      await navigator.clipboard.writeText(location.href);
      $('progress').textContent = 'Copied.';
    } catch {
      $('progress').textContent = 'The link is in the address bar.';
    }
  });
  addEventListener('hashchange', () => {
    fromLink();
    decodeAll();
  });
  await decodeAll();
}

addEventListener('load', async () => {  // the viewer's frame is loaded then, too
  try {
    await begin();
  } catch (error) {
    $('error').textContent = `The playground cannot run here: ${error.message}`;
    $('error').hidden = false;
    $('progress').textContent = '';
  }
  document.documentElement.dataset.ready = 'true';
});
