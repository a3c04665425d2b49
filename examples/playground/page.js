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
// What answers may be: kinds as the program calls them, and examples. Words are an expression, too.
const LANGUAGES = {
  expression: ['matches of an expression', {
    'a number': '[0-9]{1,4}',
    'a flat JSON object': '\\{"[a-z]{1,8}":("[A-Za-z]{1,12}"|[0-9]{1,4})(,"[a-z]{1,8}":("[A-Za-z]{1,12}"|[0-9]{1,4}))*\\}',
    'numbers of two digits': '[0-9]{2}( [0-9]{2})*',
    'a sum and its result': '[0-9]+(\\+[0-9]+)+=([0-9]+);#\\d+',
  }],
  schema: ['JSON of a schema', {
    'age and name': '{"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 150}, '
        + '"name": {"type": "string", "pattern": "^[A-Z][a-z]+$"}}, "required": ["age", "name"]}',
    'a list of numbers': '{"type": "array", "items": {"type": "integer", "minimum": 10, "maximum": 99}, "minItems": 2, "maxItems": 6}',
    'one of three values': '{"enum": ["yes", "no", null]}',
  }],
  grammar: ['texts of a grammar', {
    'a sum in parentheses': 'root ::= "(" sum ")"\nsum ::= term ("+" term)*\nterm ::= [0-9]+ | "(" sum ")"',
    'steps': 'root ::= step (";" step)* ";#" number\nstep ::= number [-+] number "=" number\nnumber ::= [0-9]+',
  }],
  words: ['one of some words', {'yes or no': 'yes | no', 'digits': '1 | 2 | 3'}],
  table: ['strings of a saved table', {}],
};
// The form's values where the link has none, and the cells of a row, if the answer is a grid.
const MODELS = {
  text: {answer: 40, block: 20},
  sudoku: {answer: 36, block: 36, fold: 6},
  chains: {answer: 128, block: 128},
  waiting: {answer: 237, block: 237},
};
const NUMBERS = {answer: [1, 256], block: [1, 256], seed: [0, 4294967295], count: [1, 200]};
const USUAL = {seed: 0, count: 50};

let module = null;
let saved = null;  // the bytes of a table that was chosen
let turn = 0;     // of the decode that runs; a newer one stops it
let runs = [];    // the newest first: {key, policy, trace, forwards, committed, milliseconds, answer}
let shown = [];   // keys of the runs in the viewer
let scored = {set: '', of: []};  // the problems, and what each policy did with them: {policy, right, forwards, segments, committed}

const text = (call, types = [], values = []) => module.ccall(`playground_${call}`, 'string', types, values);
const integer = (call) => module.ccall(`playground_${call}`, 'number', [], []);

/// Problems of a model, by task.
const problems = (model) => globalThis.playgroundProblems[model];

/// The first problems of a model's tasks, as examples.
const examples = (model) => Object.values(problems(model)).flatMap((of) => of.slice(0, 3));

/// The least, most and usual value of a number of the form.
function bounds(name) {
  return [...NUMBERS[name], USUAL[name] ?? MODELS[$('model').value][name]];
}

/// The values of the form, each number within its range.
function settings() {
  const all = {};
  for (const name of ['model', 'language', 'is', 'policy', 'second', 'prompt', 'given', 'task']) {
    all[name] = $(name).value;
  }
  for (const name of Object.keys(NUMBERS)) {
    const [least, most, usual] = bounds(name);
    const value = Math.round(Number($(name).value));
    all[name] = Number.isFinite(value) && $(name).value !== '' ? Math.min(most, Math.max(least, value)) : usual;
  }
  if (all.model === 'sudoku') {  // clues, and no text before them
    Object.assign(all, {prompt: '', given: all.given.replace(/[^1-6]/g, '_').padEnd(36, '_').slice(0, 36)});
  }
  if (all.given !== '') {
    all.answer = all.given.length;
  }
  return all;
}

/// The language that is chosen: its kind, and its text or the file of its table; kind '' for any text.
function chosenLanguage() {
  const kind = $('language').value;
  const value = $('is').value;
  if (kind === 'words') {
    const words = value.split('|').map((w) => w.trim()).filter((w) => w !== '');
    const escaped = words.map((w) => w.replace(/[\^$\\.*+?()[\]{}|/]/g, '\\$&'));
    return words.length > 0 ? {kind: 'expression', value: escaped.join('|'), shown: ''} : {kind: ''};
  }
  if (kind === 'table') {
    return {kind: saved === null ? '' : kind, value: '/language.dfa', shown: ''};
  }
  return {kind: value.trim() === '' ? '' : kind, value, shown: value};
}

/// Gives the language to the program, and shows what is wrong with it. Returns whether it is right.
function setLanguage() {
  const {kind, value = '', shown = ''} = chosenLanguage();
  if (kind === 'table') {
    module.FS.writeFile(value, saved);
  }
  return tell('is', text('language', ['string', 'string', 'string'], [$('model').value, kind, value]), shown);
}

/// The fields of the language as its kind wants them.
function adaptLanguage() {
  const kind = $('language').value;
  const of = Object.entries(LANGUAGES[kind]?.[1] ?? {});
  $('table').hidden = kind !== 'table';
  $('is').hidden = $('languages').hidden = of.length === 0;
  $('languages').replaceChildren(new Option('examples', ''), ...of.map(([name, value]) => new Option(name, value)));
  fitLanguage();
}

/// As many lines as the text has.
function fitLanguage() {
  $('is').rows = Math.min(12, $('is').value.split('\n').length);
}

/// The fields as the model wants them.
function adapt() {
  const model = $('model').value;
  $('prompt-field').hidden = model === 'sudoku';
  $('answer').disabled = model !== 'text';
  const prompts = model === 'text' ? PROMPTS : [...new Set(examples(model).map((p) => p.prompt ?? ''))].filter(Boolean);
  const option = (value) => new Option(value, value);
  $('prompts').replaceChildren(new Option('examples', ''), ...prompts.map(option));
  $('givens').replaceChildren(new Option('examples', ''), ...examples(model).map((p) => p.given).filter(Boolean).map(option));
  $('task').replaceChildren(...Object.keys(problems(model)).map(option));
}

/// The first problem of a model.
function first(model) {
  return model === 'text' ? {prompt: PROMPTS[0], given: ''} : {prompt: '', given: '', ...examples(model)[0]};
}

/// Fills in an example: of a prompt or of what is given; one belongs to the other.
function fillExample({prompt = '', given = ''}) {
  $('prompt').value = prompt;
  $('given').value = given;
  if (given !== '') {
    $('answer').value = given.length;
  }
}

function fromLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  $('model').value = Object.hasOwn(MODELS, link.get('model') ?? '') ? link.get('model') : 'text';
  adapt();
  const model = $('model').value;
  $('policy').value = (link.get('policy') ?? 'threshold(0.9)').slice(0, 2000);
  $('second').value = (link.get('second') ?? 'tokens_per_step(2)').slice(0, 2000);
  const known = (id, value) => ([...$(id).options].some((o) => o.value === value) ? value : $(id).options[0].value);
  $('language').value = known('language', link.get('language'));
  $('task').value = known('task', link.get('task'));
  $('is').value = (link.get('is') ?? '').slice(0, 4000);
  adaptLanguage();
  const usual = link.has('prompt') || link.has('given') ? {prompt: '', given: ''} : first(model);
  const clues = model === 'sudoku' ? link.get('prompt') : null;  // where links had them before there was a field
  $('prompt').value = (link.get('prompt') ?? usual.prompt).slice(0, 400);
  $('given').value = (link.get('given') ?? clues ?? usual.given).slice(0, 400);
  for (const name of Object.keys(NUMBERS)) {
    $(name).value = /^\d{1,10}$/.test(link.get(name) ?? '') ? link.get(name) : bounds(name)[2];
  }
}

function toLink() {
  history.replaceState(null, '', `#${new URLSearchParams(settings())}`);
}

/// Shows below a field what is wrong with its text, at its place. Returns whether nothing is.
function tell(field, wrong, value) {
  const box = $(`${field}-error`);
  const column = wrong ? integer('column') : 0;
  box.hidden = wrong === '';
  $(field).setAttribute('aria-invalid', String(wrong !== ''));
  const line = (value.split('\n')[Math.max(1, integer('line')) - 1] ?? '').replace(/\s/g, ' ');
  const at = wrong.indexOf(`column ${column}: `);
  const shown = [...line].length >= column - 1 && column > 0 && at >= 0;
  const problem = shown && integer('line') === 0 ? wrong.slice(at) : wrong;
  box.textContent = shown ? `${line}\n${' '.repeat(column - 1)}^\n${problem}` : problem;
  return wrong === '';
}

/// Checks the text of a policy.
function check(field) {
  const value = $(field).value;
  return tell(field, value.trim() === '' && field === 'second' ? '' : text('check', ['string'], [value]), value);
}

const START = ['string', 'string', 'string', 'string', 'number', 'number', 'number', 'number'];
const pause = () => new Promise((resolve) => setTimeout(resolve));

/// Runs a decode to its end and calls `seen(forwards)`, which may wait, after each pass. Returns the passes; null if
/// `seen` said false.
async function run(policy, s, traced, seen) {
  const wrong = text('start', START, [s.model, policy, s.prompt, s.given, s.answer, s.block, s.seed, traced ? 1 : 0]);
  if (wrong) {
    throw new Error(wrong);
  }
  for (let forwards = 0;; ++forwards) {
    const more = integer('step');
    if (more < 0) {
      throw new Error(text('said'));
    }
    if (more === 0) {
      return forwards;
    }
    if (await seen(forwards + 1) === false) {
      return null;
    }
  }
}

/// Whether an answer is right for a problem.
const isRight = ({prompt = '', given = '', answer = '', checker = ''}, said) =>
  module.ccall('playground_right', 'number', Array(5).fill('string'), [prompt, given, answer, checker, said]) === 1;

/// Decodes with one policy. Null if a newer decode has begun.
async function decode(policy, s, mine) {
  const key = JSON.stringify([s.model, policy, s.prompt, s.given, s.answer, s.block, s.seed, s.language, s.is]);
  let milliseconds = 0;
  let began = performance.now();
  const forwards = await run(policy, s, true, async (count) => {
    milliseconds += performance.now() - began;
    $('progress').textContent = `${policy}: forward ${count}`;
    await pause();
    began = performance.now();
    return mine === turn;
  });
  if (forwards === null) {
    return null;
  }
  const made = {key, policy, fold: MODELS[s.model].fold ?? 0, trace: text('trace'), forwards, milliseconds,
    committed: integer('committed'), answer: text('answer')};
  if (chosenLanguage().kind !== '') {
    made.language = `${integer('refused')} refused, ${integer('filled')} filled`;
  }
  const known = Object.values(problems(s.model)).flat().find((p) => (p.prompt ?? '') === s.prompt && (p.given ?? '') === s.given);
  if (s.model === 'sudoku') {
    const solved = isRight({given: s.given, checker: 'sudoku_6x6'}, made.answer);
    made.answer = `${solved ? 'solved' : 'wrong'}: ${made.answer.replace(/.{6}(?=.)/g, '$& ')}`;
  } else if (known && !made.language) {
    made.verdict = isRight(known, made.answer) ? 'right' : 'wrong';
  }
  return made;
}

/// Decodes the problems of the form with one policy. Null if something else has begun.
async function score(policy, s, set, mine) {
  const result = {policy, right: [], forwards: 0, segments: 0, committed: 0};
  let rested = performance.now();
  for (const problem of set) {
    const given = problem.given ?? '';
    const its = {...s, prompt: problem.prompt ?? '', given, answer: given === '' ? s.answer : given.length};
    const forwards = await run(policy, its, false, async () => {
      if (performance.now() - rested > 50) {
        $('score-progress').textContent = `${policy}: problem ${result.right.length + 1} of ${set.length}`;
        await pause();
        rested = performance.now();
      }
      return mine === turn;
    });
    if (forwards === null) {
      return null;
    }
    result.right.push(isRight(problem, text('answer')));
    result.forwards += forwards;
    result.segments += integer('segments');
    result.committed += integer('committed');
  }
  return result;
}

async function scoreAll() {
  const mine = ++turn;
  const right = [check('policy'), check('second'), setLanguage()];
  toLink();
  if (right.includes(false)) {
    return;
  }
  const s = settings();
  const of = problems(s.model)[s.task].slice(0, s.count);
  const set = JSON.stringify([s.model, s.task, of.length, s.answer, s.block, s.seed, s.language, s.is]);
  if (set !== scored.set) {
    scored = {set, of: []};
  }
  $('error').hidden = true;
  $('score-stop').hidden = false;
  try {
    for (const policy of [s.policy, s.second].filter((p) => p.trim() !== '')) {
      if (scored.of.some((r) => r.policy === policy)) {
        continue;
      }
      const result = await score(policy, s, of, mine);
      if (result === null) {
        break;
      }
      scored.of.push(result);
      fillScores();
    }
  } catch (error) {
    $('error').textContent = error.message;
    $('error').hidden = false;
  }
  fillScores();
  if (mine === turn) {
    $('score-stop').hidden = true;
    $('score-progress').textContent = '';
  }
}

/// The row of the control first; it is the first policy that was scored.
function fillScores() {
  const body = $('scores').tBodies[0];
  $('scores').hidden = scored.of.length === 0;
  body.replaceChildren();
  for (const result of scored.of) {
    const row = body.insertRow();
    const {right, share, forwards, segments, each} = summary(result);
    const {counts, points, p} = result === scored.of[0] ? {counts: '', points: '', p: ''} : compared(result, scored.of[0]);
    for (const content of [result.policy, right, share, forwards, segments, each, counts, points, p]) {
      row.insertCell().textContent = content;
    }
  }
}

async function decodeAll() {
  const mine = ++turn;
  $('score-stop').hidden = true;
  $('score-progress').textContent = '';
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
      const made = await decode(policy, s, mine);
      if (made === null) {
        return;
      }
      done.push(made);
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
    for (const more of [run.verdict, run.language].filter(Boolean)) {
      answer.append(' ');
      element('span', more, answer).classList.add('soft');
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
    for (const name of ['answer', 'block']) {
      $(name).value = MODELS[$('model').value][name];
    }
    fillExample(first($('model').value));
    decodeAll();
  });
  for (const [id, field] of [['prompts', 'prompt'], ['givens', 'given']]) {
    $(id).addEventListener('change', () => {
      if ($(id).value !== '') {
        fillExample(examples($('model').value).find((p) => p[field] === $(id).value) ?? {[field]: $(id).value});
        $(id).value = '';
        decodeAll();
      }
    });
  }
  $('theme').addEventListener('change', () => {
    document.documentElement.dataset.theme = $('theme').value;
    $('viewer').contentWindow.postMessage({unmaskTheme: $('theme').value}, '*');
  });
  $('language').append(new Option('any text', ''), ...Object.entries(LANGUAGES).map(([kind, [name]]) => new Option(name, kind)));
  const setText = (value) => {
    $('is').value = value;
    fitLanguage();
    decodeAll();
  };
  $('language').addEventListener('change', () => {
    adaptLanguage();
    setText(Object.values(LANGUAGES[$('language').value]?.[1] ?? {})[0] ?? '');
  });
  $('languages').addEventListener('change', () => {
    if ($('languages').value !== '') {
      setText($('languages').value);
      $('languages').value = '';
    }
  });
  $('table').addEventListener('change', async () => {
    const file = $('table').files[0];
    saved = file ? new Uint8Array(await file.arrayBuffer()) : null;
    decodeAll();
  });
  fromLink();

  module = await globalThis.makePlayground({wasmBinary: bytes(globalThis.playgroundData.wasm)});
  for (const name of Object.keys(MODELS)) {
    module.FS.writeFile(`/${name}.gguf`, bytes(globalThis.playgroundData[name]));
    const wrong = text('load', ['string', 'string'], [name, `/${name}.gguf`]);
    if (wrong) {
      throw new Error(wrong);
    }
  }
  globalThis.playgroundData = null;
  $('parts').textContent = text('parts');
  $('decode').disabled = false;
  $('score-start').disabled = false;
  $('progress').textContent = '';

  let waiting = 0;
  for (const field of ['policy', 'second', 'prompt', 'given', 'is', 'answer', 'block', 'seed']) {
    $(field).addEventListener('input', () => {
      check('policy');
      check('second');
      fitLanguage();
      clearTimeout(waiting);
      waiting = setTimeout(decodeAll, 500);
    });
  }
  $('form').addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    decodeAll();
  });
  $('score').addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    scoreAll();
  });
  $('score-stop').addEventListener('click', () => {
    ++turn;
    $('score-stop').hidden = true;
    $('score-progress').textContent = '';
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
