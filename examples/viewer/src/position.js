// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One position: what was proposed for it in each forward pass, how likely, and what became of it.
import {COLUMNS} from './trace.js';
import {OUTCOME_NAMES, STATE, percent, shadeOf, tokenText} from './decode.js';
import {colours} from './surface.js';

const MOST_ROWS = 2000;
const HEADS = ['forward', 'token', 'confidence', 'log-probability', 'margin', 'entropy', 'rank', 'outcome'];

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('aria-') || name === 'role') {
      made.setAttribute(name, value);
    } else {
      made[name] = value;
    }
  }
  made.append(...children);
  return made;
}

export class PositionView {
  constructor(box, name, on) {
    this.on = on;  // {go(forward)}
    this.title = element('p', {className: 'sentence'});
    this.curve = element('canvas', {className: 'curve', role: 'img'});
    this.table = element('div', {className: 'candidates', role: 'table', 'aria-label': `candidates of the position, ${name}`, tabIndex: 0});
    box.append(this.title, this.curve, this.table);
    this.position = -1;
    this.rows = [];
  }

  load(decode) {
    this.decode = decode;
    this.position = -2;  // another than any that is chosen
    const s = decode.sequence;
    this.shown = COLUMNS.filter((name) => s[name].data.subarray(0, s[name].size).some((x) => !Number.isNaN(x)));
  }

  show(now, position) {
    if (position !== this.position) {
      this.position = position;
      this.fill(now);
    }
    this.title.textContent = this.sentence(now);
    for (const {row, step} of this.rows) {
      const is = step + 1 === now;
      if (row.classList.contains('now') !== is) {
        row.classList.toggle('now', is);
        if (is) {
          row.setAttribute('aria-current', 'step');
          const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
          if (top < this.table.scrollTop + 30 || bottom > this.table.scrollTop + this.table.clientHeight) {
            this.table.scrollTop = top - this.table.clientHeight / 2;
          }
        } else {
          row.removeAttribute('aria-current');
        }
      }
    }
    this.draw(now);
  }

  sentence(now) {
    const {decode, position} = this;
    if (position < 0) {
      return 'Choose a position in the canvas or in the order map.';
    }
    if (position >= decode.length) {
      return `There is no position ${position} in this trace.`;
    }
    const {state, token, candidate, shift} = decode.at(now);
    const text = `“${tokenText(decode.trace, token[position])}”`;
    if (state[position] === 0) {
      return `Position ${position} is given: ${text}.`;
    }
    const when = now === 0 ? 'before the first forward' : `after forward ${now}`;
    if (state[position] === STATE.absent) {
      return `Position ${position}, ${when}: not part of the text.`;
    }
    const by = Math.abs(shift[position]);
    const moved = by === 0 ? '' : ` This forward moved it ${by} ${by === 1 ? 'position' : 'positions'} to the ${
        shift[position] > 0 ? 'right' : 'left'}.`;
    const i = candidate[position];
    if (i < 0 && token[position] >= 0) {
      return `Position ${position}, ${when}: ${text}, inserted without a decision.${moved}`;
    }
    if (i < 0 || (state[position] === 1 && decode.letter(i) === 'r')) {
      return `Position ${position}, ${when}: masked${now > 0 ? ', and not scored in this forward' : ''}.${moved}`;
    }
    const c = decode.sequence.confidence.data[i];
    const of = Number.isNaN(c) ? '' : ` (confidence ${percent(c)})`;
    return `Position ${position}, ${when}: ${['', 'masked', 'proposed', 'committed', 'changed'][state[position]]} ${
        token[position] >= 0 ? text : ''}${of}. ${decode.reason(i)}${moved}`;
  }

  fill(now) {
    const {decode, position} = this;
    this.history = position >= 0 && position < decode.length ? decode.history(position) : [];
    const cell = (text, name, role = 'cell') => element('span', {role, className: name, textContent: text});
    const columns = HEADS.filter((name) => name === 'forward' || name === 'token' || name === 'outcome' ||
                                           this.shown.includes(name.replace('-', '_')));
    this.table.hidden = this.history.length === 0;
    this.curve.hidden = this.history.length < 2;
    this.curve.setAttribute('aria-label', 'confidence of the proposed token over the forward passes; the table has the numbers');
    let list = this.history;
    let left = 0;
    if (list.length > MOST_ROWS) {
      const at = Math.max(0, list.findIndex((h) => h.step + 1 >= now));
      const from = Math.max(0, Math.min(at - MOST_ROWS / 2, list.length - MOST_ROWS));
      left = list.length - MOST_ROWS;
      list = list.slice(from, from + MOST_ROWS);
    }
    const s = decode.sequence;
    this.rows = list.map(({step, index}) => {
      const letter = decode.letter(index);
      const confidence = s.confidence.data[index];
      const bar = element('span', {className: `bar shade${shadeOf(confidence)}`});
      bar.style.width = `${Number.isNaN(confidence) ? 0 : Math.round(48 * Math.min(1, Math.max(0, confidence)))}px`;
      const cells = {
        forward: () => {
          const go = element('button', {type: 'button', className: 'link', textContent: String(step + 1), 'aria-label': `go to forward ${step + 1}`});
          go.addEventListener('click', () => this.on.go(step + 1));
          return element('span', {role: 'cell', className: 'forward'}, go);
        },
        token: () => cell(tokenText(decode.trace, s.token.data[index]), 'token'),
        confidence: () => element('span', {role: 'cell', className: 'confidence'}, bar, element('span', {textContent: percent(confidence)})),
        'log-probability': () => cell(digits(s.log_probability.data[index]), 'number'),
        margin: () => cell(digits(s.margin.data[index]), 'number'),
        entropy: () => cell(digits(s.entropy.data[index]), 'number'),
        rank: () => cell(s.rank.data[index] >= 0 ? String(s.rank.data[index]) : '', 'number'),
        outcome: () => element('span', {role: 'cell', className: 'outcome'},
                               element('b', {className: `letter ${letter}`, textContent: letter, title: OUTCOME_NAMES[letter]}),
                               element('span', {textContent: decode.reason(index)})),
      };
      return {step, row: element('div', {role: 'row', className: `row ${letter}`}, ...columns.map((name) => cells[name]()))};
    });
    this.table.replaceChildren(
        element('div', {role: 'row', className: 'row head'}, ...columns.map((name) => cell(name, ['log-probability', 'margin', 'entropy', 'rank'].includes(name) ? 'number' : name, 'columnheader'))),
        ...this.rows.map((r) => r.row));
    if (left > 0) {
      this.table.append(element('p', {textContent: `${left} further rows are left out.`}));
    }
    this.table.className = `candidates has${columns.length}`;
  }

  /// The curve of the confidence: a dot where it was decided, a tick where another token is proposed.
  draw(now) {
    if (this.curve.hidden || !this.curve.clientWidth) {
      return;
    }
    const [width, height, ratio] = [this.curve.clientWidth, 64, globalThis.devicePixelRatio || 1];
    if (this.curve.width !== Math.round(width * ratio)) {
      this.curve.width = Math.round(width * ratio);
      this.curve.height = height * ratio;
    }
    const c = colours();
    const context = this.curve.getContext('2d', {alpha: false});
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = c.panel;
    context.fillRect(0, 0, width, height);
    const first = this.history[0].step;
    const last = Math.max(this.history.at(-1).step, first + 1);
    const x = (step) => 40 + (step - first) / (last - first) * (width - 56);
    const y = (p) => 8 + (1 - Math.min(1, Math.max(0, p || 0))) * (height - 16);
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = c.soft;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const p of [0, 0.5, 1]) {
      context.fillText(`${100 * p} %`, 36, y(p));
      context.fillStyle = c.line;
      context.fillRect(40, y(p), width - 48, 1);
      context.fillStyle = c.soft;
    }
    if (now > first && now - 1 <= last) {
      context.fillStyle = c.now;
      context.fillRect(x(now - 1) - 1, 4, 2, height - 8);
    }
    const s = this.decode.sequence;
    context.strokeStyle = c.shade3;
    context.lineWidth = 2;
    context.beginPath();
    this.history.forEach(({step, index}, k) => {
      context[k === 0 ? 'moveTo' : 'lineTo'](x(step), y(s.confidence.data[index]));
    });
    context.stroke();
    let before = null;
    for (const {step, index} of this.history) {
      const letter = this.decode.letter(index);
      const token = s.token.data[index];
      if (before !== null && token !== before) {
        context.fillStyle = c.ink;
        context.fillRect(x(step) - 0.75, height - 9, 1.5, 7);
      }
      before = token;
      if (!'hxk'.includes(letter)) {
        context.fillStyle = letter === 'e' || letter === 'r' ? c.changed : c.ink;
        context.beginPath();
        context.arc(x(step), y(s.confidence.data[index]), 4, 0, 7);
        context.fill();
      }
    }
  }
}

function digits(x) {
  return Number.isNaN(x) ? '-' : Math.abs(x) >= 0.0005 || x === 0 ? x.toFixed(3) : x.toExponential(1);
}
