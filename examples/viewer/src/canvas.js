// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The canvas: all tokens of a sequence after a forward pass. A box for each position, as wide as the
// widest token that is ever proposed there, so that nothing moves when the forward changes.
import {STATE, shadeOf, tokenText} from './decode.js';
import {MONO, Surface, colours} from './surface.js';

const ROW = 34;
const HEIGHT = 26;
const GAP = 3;
const [NARROWEST, WIDEST] = [20, 150];
const FONT = `14px ${MONO}`;
const HIGHEST = 380;

export class TokenCanvas {
  constructor(box, label, on) {
    this.surface = new Surface(box, label, (context, view) => this.draw(context, view));
    this.on = on;  // {select(position), step(by), hint(position)}
    this.decode = null;
    this.now = 0;
    this.selected = -1;
    this.fold = 0;  // positions of a row after the prompt; 0: as many as fit
    this.differs = null;  // [position] 1 where the other decode has something else now
    const {canvas} = this.surface;
    canvas.addEventListener('click', (event) => {
      const p = this.positionAt(...this.surface.place(event));
      if (p >= 0) {
        this.on.select(p);
      }
    });
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  /// Widths of the texts of all tokens that occur; the positions' boxes.
  load(decode) {
    this.decode = decode;
    const s = decode.sequence;
    const context = this.surface.canvas.getContext('2d', {alpha: false});
    context.font = FONT;
    this.texts = new Map();
    const widths = new Map();
    const width = (token) => {
      let w = widths.get(token);
      if (w === undefined) {
        const text = tokenText(decode.trace, token);
        w = Math.min(WIDEST, Math.max(NARROWEST, Math.ceil(context.measureText(text).width) + 10));
        this.texts.set(token, this.fit(context, text, w - 8));
        widths.set(token, w);
      }
      return w;
    };
    this.widths = new Float32Array(decode.length).fill(NARROWEST);
    for (let p = 0; p < decode.length; ++p) {
      if (s.given[p]) {
        this.widths[p] = width(s.tokens[p]);
      }
    }
    for (const {first, tokens: after} of decode.moves.values()) {
      after.forEach((t, k) => { this.widths[first + k] = Math.max(this.widths[first + k], width(t)); });
    }
    const {data: positions, size} = s.position;
    const tokens = s.token.data;
    let [last, lastWidth] = [-2, 0];
    for (let i = 0; i < size; ++i) {
      if (tokens[i] !== last) {
        last = tokens[i];
        lastWidth = width(last);
      }
      if (lastWidth > this.widths[positions[i]]) {
        this.widths[positions[i]] = lastWidth;
      }
    }
  }

  fit(context, text, room) {
    if (context.measureText(text).width <= room) {
      return text;
    }
    let cut = [...text];
    while (cut.length > 1 && context.measureText(`${cut.join('')}…`).width > room) {
      cut = cut.slice(0, -1);
    }
    return `${cut.join('')}…`;
  }

  layout() {
    const {decode} = this;
    const room = Math.max(NARROWEST, this.surface.box.clientWidth - 2);
    this.x = new Float32Array(decode.length);
    this.y = new Float32Array(decode.length);
    this.rows = [0];  // first position of each row
    let [x, y] = [GAP, 4];
    for (let p = 0; p < decode.length; ++p) {
      const {promptLength} = decode.sequence;
      const behindPrompt = p === promptLength && p > 0;
      const folded = this.fold > 0 && p > promptLength && (p - promptLength) % this.fold === 0;
      if (p > 0 && (behindPrompt || folded || x + this.widths[p] + GAP > room)) {
        x = GAP;
        y += ROW + (behindPrompt ? 8 : 0);
        this.rows.push(p);
      }
      this.x[p] = x;
      this.y[p] = y;
      x += this.widths[p] + GAP;
    }
    this.surface.resize(room, y + ROW, HIGHEST);
  }

  positionAt(x, y) {
    for (const p of this.visible(y, y)) {
      if (x >= this.x[p] && x < this.x[p] + this.widths[p] + GAP && y >= this.y[p] && y < this.y[p] + ROW) {
        return p;
      }
    }
    return -1;
  }

  /// Positions of the rows between two heights.
  * visible(top, bottom) {
    let low = 0;
    let high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.y[this.rows[middle]] + ROW <= top) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    for (let p = this.rows[low]; p < this.decode.length && this.y[p] <= bottom; ++p) {
      yield p;
    }
  }

  key(event) {
    if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || !this.decode) {
      return;
    }
    const row = (by) => {
      const from = Math.max(this.selected, 0);
      const target = this.y[from] + by * ROW;
      let best = from;
      for (const p of this.visible(target - 9, target + 9)) {
        if (Math.sign(this.y[p] - this.y[from]) === by &&
            (best === from || Math.abs(this.x[p] - this.x[from]) < Math.abs(this.x[best] - this.x[from]))) {
          best = p;
        }
      }
      return best;
    };
    const moves = {ArrowLeft: () => this.selected - 1, ArrowRight: () => this.selected + 1,
                   ArrowUp: () => row(-1), ArrowDown: () => row(1)};
    if (Object.hasOwn(moves, event.key)) {
      event.preventDefault();
      event.stopPropagation();
      this.on.select(Math.min(this.decode.length - 1, Math.max(0, moves[event.key]())));
    }
  }

  show(now, selected, differs) {
    this.now = now;
    this.selected = selected;
    this.differs = differs;
    this.surface.paint();
  }

  reveal(position) {
    if (position >= 0 && position < this.decode.length) {
      this.surface.reveal(0, this.y[position], 1, ROW, 4);
    }
  }

  draw(context, view) {
    if (!this.decode) {
      return;
    }
    const c = colours();
    const {state, token, candidate, fresh, shift} = this.decode.at(this.now);
    const confidence = this.decode.sequence.confidence.data;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const p of this.visible(view.top, view.top + view.height)) {
      if (state[p] === STATE.absent) {
        continue;
      }
      const [x, y, w] = [this.x[p], this.y[p], this.widths[p]];
      const text = this.texts.get(token[p]) ?? '';
      const i = candidate[p];
      context.font = FONT;
      context.setLineDash([]);
      let ink = c.ink;
      if (state[p] === STATE.given) {
        context.strokeStyle = c.line;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(x, y + HEIGHT + 0.5);
        context.lineTo(x + w, y + HEIGHT + 0.5);
        context.stroke();
        ink = c.soft;
      } else if (state[p] === STATE.masked) {
        context.fillStyle = c.masked;
        context.fillRect(x, y, w, HEIGHT);
        context.fillStyle = c.soft;
        context.fillRect(x + w / 2 - 1.5, y + HEIGHT / 2 - 1.5, 3, 3);
      } else if (state[p] === STATE.proposed) {
        context.strokeStyle = c.proposed;
        context.lineWidth = 1.5;
        context.setLineDash([3, 2.5]);
        context.strokeRect(x + 0.75, y + 0.75, w - 1.5, HEIGHT - 1.5);
        context.setLineDash([]);
        context.font = `italic ${FONT}`;
      } else {
        const shade = i >= 0 && !Number.isNaN(confidence[i]) ? shadeOf(confidence[i]) : 0;
        const remasked = token[p] < 0 || (i >= 0 && this.decode.letter(i) === 'r');
        context.fillStyle = remasked ? c.masked : state[p] === STATE.changed ? c.changed : c.shades[shade];
        context.fillRect(x, y, w, HEIGHT);
        ink = remasked ? c.ink : state[p] === STATE.changed ? c.page : c.on[shade];
        if (state[p] === STATE.changed) {  // a cut corner: a shape beside the colour
          context.fillStyle = c.panel;
          context.beginPath();
          context.moveTo(x + w - 8, y);
          context.lineTo(x + w, y);
          context.lineTo(x + w, y + 8);
          context.fill();
          if (remasked) {
            context.strokeStyle = c.changed;
            context.lineWidth = 2;
            context.strokeRect(x + 1, y + 1, w - 2, HEIGHT - 2);
          }
        }
        if (i >= 0 && this.decode.letter(i) === 'f') {
          context.fillStyle = c.forced;
          context.beginPath();
          context.moveTo(x, y + HEIGHT);
          context.lineTo(x, y + HEIGHT - 9);
          context.lineTo(x + 9, y + HEIGHT);
          context.fill();
        }
      }
      if (text) {
        context.fillStyle = ink;
        context.fillText(text, x + w / 2, y + HEIGHT / 2 + 0.5);
      }
      if (shift[p] !== 0) {  // an arrow below, the way that the token went
        const [middle, to] = [x + w / 2, Math.sign(shift[p]) * 4];
        context.fillStyle = c.changed;
        context.beginPath();
        context.moveTo(middle - to, y + HEIGHT);
        context.lineTo(middle + to, y + HEIGHT + 3);
        context.lineTo(middle - to, y + HEIGHT + 6);
        context.fill();
      }
      if (fresh[p]) {
        context.fillStyle = c.now;
        context.fillRect(x, y + HEIGHT + 1, w, 3);
      }
      if (p === this.selected) {
        context.strokeStyle = c.ink;
        context.lineWidth = 2;
        context.strokeRect(x - 1, y - 1, w + 2, HEIGHT + 2);
      }
      if (this.differs?.[p]) {
        context.fillStyle = c.differs;
        context.beginPath();
        context.moveTo(x + 5, y - 4);
        context.lineTo(x + 10, y + 1);
        context.lineTo(x + 5, y + 6);
        context.lineTo(x, y + 1);
        context.fill();
      }
    }
  }
}
