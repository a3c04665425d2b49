// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page: opens traces, keeps the forward and the position that are shown, draws.
import {readBlob, readText} from './trace.js';
import {Decode, firstDifference, number, tokenText} from './decode.js';
import {forgetColours} from './surface.js';
import {TokenCanvas} from './canvas.js';
import {OrderMap} from './map.js';
import {ForwardChart} from './chart.js';
import {PositionView, element} from './position.js';

const $ = (id) => document.getElementById(id);
const NAMES = ['A', 'B'];
const state = {now: 0, selected: -1, playing: 0, difference: null};
const sides = [null, null];  // {trace, decode, index}; B is there only beside A

/// The drawings of both sides, made once.
const panes = NAMES.map((name, side) => {
  const on = {select: (p) => select(p), go: (n) => go(n)};
  const box = (id, ...children) => {
    const pane = element('div', {className: `pane ${name}`}, ...children);
    $(id).append(pane);
    return pane;
  };
  const inner = (id) => {
    const div = element('div');
    box(id, element('h4', {className: 'side', textContent: name}), div);
    return div;
  };
  const card = box('cards');
  return {
    card,
    canvas: new TokenCanvas(inner('canvases'), `canvas ${name}: tokens by position; arrow keys choose a position`, on),
    map: new OrderMap(inner('maps'), `order map ${name}: left and right choose a position, up and down a forward`, on),
    chart: new ForwardChart(inner('charts'), `forward passes ${name}: commits, rows, positions computed`, on),
    position: new PositionView(inner('positions'), name, on),
    side,
  };
});
const loaded = () => panes.filter((pane) => sides[pane.side] !== null);
const most = () => Math.max(0, ...loaded().map((pane) => sides[pane.side].decode.forwards));
const within = (pane) => Math.min(state.now, sides[pane.side].decode.forwards);

let wanted = false;
function draw() {
  if (!wanted) {
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      frame();
    });
  }
}

/// Draws everything for the forward and the position of `state`.
function frame() {
  const shown = loaded();
  if (shown.length === 0) {
    return;
  }
  let differs = null;
  if (shown.length === 2 && sides[0].decode.length === sides[1].decode.length) {
    const [a, b] = shown.map((pane) => sides[pane.side].decode.at(within(pane)));
    differs = new Uint8Array(a.state.length);
    for (let p = 0; p < differs.length; ++p) {
      const [x, y] = [a, b].map(({state: s, token}) => s[p] === 0 || s[p] >= 3 ? token[p] : -1);
      differs[p] = x !== y;
    }
  }
  for (const pane of shown) {
    const now = within(pane);
    pane.canvas.show(now, state.selected, differs);
    pane.map.show(now, state.selected, state.difference);
    pane.chart.show(now, state.difference);
    pane.position.show(now, state.selected);
    pane.sentence.textContent = forwardSentence(sides[pane.side].decode, state.now);
  }
  const range = $('forward');
  range.value = state.now;
  range.setAttribute('aria-valuetext', state.now === 0 ? 'before the first forward' : `after forward ${state.now} of ${most()}`);
  $('count').textContent = `${state.now} / ${most()}`;
}

function forwardSentence(decode, now) {
  if (now === 0) {
    return `Before the first forward: ${number(decode.sequence.given.reduce((n, g) => n + 1 - g, 0))} masked positions.`;
  }
  if (now > decode.forwards) {
    return `This decode has ended after forward ${decode.forwards}.`;
  }
  const info = decode.sequence.steps[now - 1];
  const {counts, commits, rows, layerPositions} = decode.perStep[now - 1];
  const said = [];
  const add = (n, word) => n > 0 && said.push(`${number(n)} ${word}`);
  const [, forced, held, excluded, invalid, replaced, remasked, kept, winner] = counts;
  add(commits, 'committed');
  add(forced, 'of them forced');
  add(winner, 'of them with the winning branch');
  add(held, 'held');
  add(excluded, 'excluded');
  add(invalid, 'invalid');
  add(replaced, 'replaced');
  add(remasked, 'remasked');
  add(kept, 'considered again and kept');
  const moved = decode.moves.get(now - 1);
  if (moved) {
    add(moved.from.filter((from, k) => from >= 0 && from !== k).length, 'moved');
    add(moved.from.filter((from) => from < 0).length, 'inserted');
  }
  const where = info.score && info.score[1] > info.score[0] ? ` (positions ${info.score[0]} to ${info.score[1] - 1})` : '';
  const work = layerPositions !== null ? `, ${number(layerPositions)} positions computed in all layers` : '';
  const extra = [info.cache && `cache: ${info.cache}`,
                 info.branches.length > 0 && `${info.branches.length} branches, ${
                     info.winner >= 0 && info.winner < info.branches.length ? `branch ${info.winner + 1} won` : 'none won'}`,
                 !Number.isNaN(info.milliseconds) && `${info.milliseconds.toFixed(2)} milliseconds`].filter(Boolean);
  return `Forward ${now}${info.forward !== now ? ` (number ${info.forward} of the session)` : ''}: ${number(rows)} rows${where}${work}. ${
      said.length > 0 ? said.join(', ') : 'Nothing was decided'}.${extra.length > 0 ? ` ${extra.join('; ')}.` : ''}`;
}

function go(n, keepPlaying = false) {
  if (!keepPlaying) {
    play(false);
  }
  state.now = Math.min(most(), Math.max(0, Math.round(n) || 0));
  draw();
  for (const pane of loaded()) {
    pane.map.now = within(pane);
    pane.map.reveal();
  }
}

function select(position) {
  state.selected = position;
  for (const pane of loaded()) {
    pane.canvas.selected = position;
    pane.canvas.reveal(position);
    pane.map.selected = position;
    pane.map.reveal();
  }
  draw();
  const pane = loaded()[0];
  if (pane) {
    pane.position.decode = sides[pane.side].decode;
    const before = pane.position.position;
    pane.position.position = position;
    $('say').textContent = pane.position.sentence(within(pane));
    pane.position.position = before;
  }
}

function play(on) {
  clearInterval(state.playing);
  state.playing = 0;
  if (on && loaded().length > 0) {
    if (state.now >= most()) {
      go(0);
    }
    state.playing = setInterval(() => {
      go(state.now + 1, true);
      if (state.now >= most()) {
        play(false);
      }
    }, Number($('speed').value));
  }
  $('play').setAttribute('aria-pressed', String(state.playing !== 0));
  $('play').setAttribute('aria-label', state.playing ? 'pause' : 'play');
  $('play').classList.toggle('playing', state.playing !== 0);
}

/// All that depends on the width of the page.
function layout() {
  for (const pane of loaded()) {
    pane.canvas.layout();
    pane.map.layout(most());
    pane.chart.layout(loaded().map((other) => other.chart));
  }
  const maps = loaded().map((pane) => pane.map);
  $('zoom-in').disabled = !maps.some((map) => map.canZoomIn);
  $('zoom-out').disabled = !maps.some((map) => map.zoom > 1);
}

const COUNTERS = [
  ['forwards', (d) => number(d.forwards), true],
  ['committed', (d) => number(d.commits), true],
  ['tokens per forward', (d) => d.forwards ? (d.commits / d.forwards).toFixed(2) : '-', true],
  ['rows of logits', (d) => number(d.rows), true],
  ['layer-positions', (d) => d.layerPositions === null ? 0 : number(d.layerPositions)],
  ['forced', (d) => d.totals.f, true],
  ['held', (d) => number(d.totals.h), true],
  ['excluded', (d) => number(d.totals.x)],
  ['invalid rows', (d) => number(d.totals.i)],
  ['replaced', (d) => number(d.totals.e)],
  ['remasked', (d) => number(d.totals.r)],
  ['kept', (d) => number(d.totals.k)],
  ['milliseconds', (d) => d.milliseconds === null ? 0 : d.milliseconds.toFixed(1)],
];

function fillCard(pane) {
  const {trace, decode, index} = sides[pane.side];
  const {model} = trace;
  const facts = [model.name, model.layers && `${model.layers} ${model.layers === 1 ? 'layer' : 'layers'}`, trace.seed !== null && `seed ${trace.seed}`,
                 `${decode.length - decode.sequence.promptLength} positions after a prompt of ${decode.sequence.promptLength}`,
                 decode.sequence.blockLength > 0 && `blocks of ${decode.sequence.blockLength}`,
                 decode.sequence.end && `end: ${decode.sequence.end.reason}`, trace.library].filter(Boolean);
  const choice = element('select', {'aria-label': `sequence of trace ${NAMES[pane.side]}`});
  trace.sequences.forEach((s, i) => choice.append(
      element('option', {value: String(i), textContent: `sequence ${s.sequence} (slot ${s.slot})`, selected: i === index})));
  choice.addEventListener('change', () => show(trace, pane.side, Number(choice.value)));
  const list = element('dl', {className: 'counters'});
  for (const [name, of, always] of COUNTERS) {
    const value = of(decode);
    if (always || (value !== 0 && value !== '0')) {
      list.append(element('div', {}, element('dt', {textContent: name}), element('dd', {textContent: String(value)})));
    }
  }
  pane.sentence = element('p', {className: 'sentence'});
  pane.card.replaceChildren(
      element('h2', {}, element('span', {className: 'side', textContent: NAMES[pane.side]}),
              element('span', {className: 'policy', textContent: decode.sequence.policy || trace.name})),
      element('p', {className: 'facts', textContent: facts.join(' · ')}),
      ...(trace.sequences.length > 1 ? [choice] : []), list, pane.sentence,
      ...[...trace.notes, ...decode.notes].map((note) => element('p', {className: 'note', textContent: note})));
}

/// Shows a trace on a side; null takes B away.
function show(trace, side, index = 0) {
  play(false);
  if (trace === null) {
    sides[side] = null;
  } else {
    sides[side] = {trace, index, decode: new Decode(trace, trace.sequences[index])};
  }
  const both = sides[0] !== null && sides[1] !== null;
  document.body.classList.toggle('comparing', both);
  document.body.classList.toggle('empty', sides[0] === null);
  $('start').hidden = sides[0] !== null;
  $('main').hidden = sides[0] === null;
  state.difference = both ? firstDifference(sides[0].decode, sides[1].decode) : null;
  $('difference').hidden = !both;
  if (both) {
    $('difference-text').textContent = state.difference ? state.difference.sentence : 'Both decide the same in every forward.';
    $('difference-go').hidden = state.difference === null;
  }
  $('close').hidden = !both;
  for (const pane of loaded()) {
    if (pane.side === side) {
      const {decode} = sides[side];
      pane.canvas.load(decode);
      pane.map.load(decode);
      pane.chart.load(decode);
      pane.position.load(decode);
      fillCard(pane);
    }
  }
  const range = $('forward');
  range.max = most();
  const mark = $('mark');
  mark.hidden = state.difference === null || most() === 0;
  if (!mark.hidden) {
    mark.style.left = `${100 * state.difference.step / most()}%`;
  }
  if (state.selected >= 0 && !loaded().some((pane) => state.selected < sides[pane.side].decode.length)) {
    state.selected = -1;
  }
  layout();
  go(trace !== null && side === 0 ? most() : state.now);
}

function complain(side, sentence) {
  const box = $(side === 0 ? 'error-a' : 'error-b');
  box.textContent = sentence;
  box.hidden = sentence === '';
}

/// Takes a trace that was read: shows it, or says why not.
function accept(trace, side) {
  complain(side, trace.error ? `${trace.name}: ${trace.error}` : '');
  $('progress').hidden = true;
  if (trace.sequences.length > 0) {
    show(trace, sides[0] === null ? 0 : side);
  }
}

async function openBlob(blob, name, side) {
  $('progress').hidden = false;
  $('progress').textContent = `Reading ${name}`;
  try {
    accept(await readBlob(blob, name, (done) => {
      $('progress').textContent = `Reading ${name}: ${Math.round(100 * done)} %`;
    }), side);
  } catch (error) {
    $('progress').hidden = true;
    complain(side, `${name} cannot be read: ${error.message}`);
  }
}

async function openFiles(files, side) {
  const list = [...files].slice(0, 2);
  for (const [i, file] of list.entries()) {
    await openBlob(file, file.name, list.length > 1 ? i : side);
  }
}

function openText(text, name, side) {
  accept(readText(text, name), side);
}

// Opening: file pickers, dropping, pasting, and what is embedded.
for (const [id, side] of [['open-a', 0], ['open-b', 1], ['open-first', 0]]) {
  $(id).addEventListener('change', (event) => {
    openFiles(event.target.files, side).finally(() => { event.target.value = ''; });
  });
}
addEventListener('dragover', (event) => {
  event.preventDefault();
  document.body.classList.add('dragging');
});
addEventListener('dragleave', (event) => {
  if (event.relatedTarget === null) {
    document.body.classList.remove('dragging');
  }
});
addEventListener('drop', (event) => {
  event.preventDefault();
  document.body.classList.remove('dragging');
  const side = event.target.closest?.('#drop-b') && sides[0] !== null ? 1 : 0;
  if (event.dataTransfer.files.length > 0) {
    openFiles(event.dataTransfer.files, side);
  } else if (event.dataTransfer.getData('text')) {
    openText(event.dataTransfer.getData('text'), 'dropped text', side);
  }
});
for (const id of ['paste', 'paste-first']) {
  $(id).addEventListener('click', () => {
    $('paste-b').hidden = sides[0] === null;
    $('paste-dialog').showModal();
  });
}
for (const [id, side] of [['paste-a', 0], ['paste-b', 1]]) {
  $(id).addEventListener('click', () => {
    $('paste-dialog').close();
    openText($('paste-text').value, 'pasted text', side);
    $('paste-text').value = '';
  });
}
$('paste-cancel').addEventListener('click', () => $('paste-dialog').close());
addEventListener('paste', (event) => {
  const text = event.clipboardData?.getData('text');
  if (text && !event.target.closest?.('textarea, input')) {
    event.preventDefault();
    openText(text, 'pasted text', 0);
  }
});
$('show-example').addEventListener('click', () => openText($('example').textContent.trimStart(), 'the example', 0));
$('show-llada').addEventListener('click', () => openText($('llada').textContent.trimStart(), 'LLaDA 8B', 0));
$('close').addEventListener('click', () => {
  complain(1, '');
  show(null, 1);
});

// The forward that is shown.
$('forward').addEventListener('input', (event) => go(Number(event.target.value)));
$('first').addEventListener('click', () => go(0));
$('back').addEventListener('click', () => go(state.now - 1));
$('next').addEventListener('click', () => go(state.now + 1));
$('last').addEventListener('click', () => go(most()));
$('play').addEventListener('click', () => play(state.playing === 0));
$('speed').addEventListener('change', () => state.playing && play(true));
$('difference-go').addEventListener('click', () => {
  go(state.difference.step);
  if (state.difference.position >= 0) {
    select(state.difference.position);
  }
});
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || loaded().length === 0 || $('paste-dialog').open) {
    return;
  }
  const {target} = event;
  const keys = {ArrowLeft: () => go(state.now - 1), ArrowRight: () => go(state.now + 1), Home: () => go(0),
                End: () => go(most()), ' ': () => play(state.playing === 0)};
  if (!Object.hasOwn(keys, event.key) || target.matches('select, textarea, [type=number]') ||
      (event.key === ' ' && target.closest('button, label, summary'))) {
    return;
  }
  event.preventDefault();
  keys[event.key]();
});

// The order map.
const zoom = (by) => {
  for (const pane of loaded()) {
    pane.map.zoom = Math.max(1, pane.map.zoom * by);
  }
  layout();
  for (const pane of loaded()) {
    pane.map.reveal();
  }
  draw();
};
$('zoom-in').addEventListener('click', () => zoom(2));
$('zoom-out').addEventListener('click', () => zoom(0.5));
$('shade-all').addEventListener('change', (event) => {
  for (const {map} of panes) {
    map.all = event.target.checked;
    map.forget();
  }
  draw();
});

function fold(positions) {
  $('fold').value = positions;
  for (const {canvas} of panes) {
    canvas.fold = Math.min(9999, Math.max(0, Math.round(positions) || 0));
  }
  layout();
  draw();
}
$('fold').addEventListener('change', (event) => fold(Number(event.target.value)));

// The theme and the width of the page.
function recolour() {
  forgetColours();
  panes.forEach(({map}) => map.forget());
  draw();
}
$('theme').addEventListener('change', (event) => {
  document.documentElement.dataset.theme = event.target.value;
  recolour();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
let width = 0;
new ResizeObserver(() => {
  if ($('main').clientWidth !== width) {
    width = $('main').clientWidth;
    layout();
    draw();
  }
}).observe($('main'));

// A page around this one may give traces, checked as any other, positions of a row, and the theme.
addEventListener('message', (event) => {
  if (event.source !== globalThis.parent || globalThis.parent === globalThis || event.data === null || typeof event.data !== 'object') {
    return;
  }
  const {unmaskTraces: traces, unmaskTheme: theme, unmaskFold: positions} = event.data;
  if (Array.isArray(traces) && traces.length > 0) {
    complain(1, '');
    show(null, 1);
    traces.slice(0, 2).forEach((given, side) => openText(String(given?.text ?? ''), String(given?.name ?? 'trace'), side));
  }
  if (Number.isInteger(positions)) {
    fold(positions);
  }
  if (['auto', 'light', 'dark'].includes(theme)) {
    $('theme').value = theme;
    $('theme').parentElement.hidden = true;  // the page around has one for both
    document.documentElement.dataset.theme = theme;
    recolour();
  }
});

/// For tests.
globalThis.unmaskViewer = {
  open: openText,
  go,
  select,
  frame,
  state,
  side: (i) => sides[i],
  pane: (i) => panes[i],
  text: (i, token) => tokenText(sides[i].trace, token),
};

document.body.classList.add('empty');
[...document.querySelectorAll('script.trace')].slice(0, 2).forEach((script, side) => {
  openText(script.textContent.replace(/^\n/, ''), script.title || 'the embedded trace', side);
});
frame();  // a page that is only loaded and printed may never be given a frame
document.documentElement.dataset.ready = 'true';
