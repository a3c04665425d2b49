// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order map: a column for each position after the prompt, a row for each forward pass. One
// pixel a cell is painted once into a bitmap; a frame scales what is in view of it.
import {OUTCOMES} from './trace.js';
import {shadeOf, tokenText} from './decode.js';
import {MONO, SANS, Surface, channels, colours} from './surface.js';

const [LEFT, BOTTOM, TOP] = [40, 20, 4];
const HIGHEST = 440;
const LARGEST = 30;

export class OrderMap {
  constructor(box, label, on) {
    this.surface = new Surface(box, label, (context, view) => this.draw(context, view));
    this.on = on;  // {select(position), go(forward)}
    this.decode = null;
    this.zoom = 1;
    this.all = false;  // shades every candidate, not just commits
    this.now = 0;
    this.selected = -1;
    this.difference = null;
    const {canvas} = this.surface;
    canvas.addEventListener('click', (event) => {
      const [x, y] = this.surface.place(event);
      const position = this.decode.first + Math.floor((x - LEFT) / this.cellWidth);
      const step = Math.floor((y - TOP) / this.cellHeight);
      if (position >= this.decode.first && position < this.decode.length) {
        this.on.select(position);
      }
      if (step >= 0 && step < this.decode.forwards) {
        this.on.go(step + 1);
      }
    });
    canvas.addEventListener('keydown', (event) => {
      if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || !this.decode) {
        return;
      }
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
      if (by) {
        const from = this.selected < 0 ? this.decode.first : this.selected + by;
        this.on.select(Math.min(this.decode.length - 1, Math.max(this.decode.first, from)));
      } else if (step) {
        this.on.go(this.now + step);
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
  }

  load(decode) {
    this.decode = decode;
    this.zoom = 1;
    this.bitmap = null;
  }

  get columns() {
    return this.decode.length - this.decode.first;
  }

  /// `forwards`: of the longer of two decodes that are compared, so that their rows are aligned.
  layout(forwards) {
    const room = Math.max(120, this.surface.box.clientWidth - LEFT - 6);
    const fit = Math.min(LARGEST, room / this.columns);
    this.cellWidth = Math.min(Math.max(LARGEST, fit), fit * this.zoom);
    const fitHeight = Math.min(18, (HIGHEST - BOTTOM - TOP) / Math.max(1, forwards));
    this.cellHeight = Math.min(Math.max(18, fitHeight), fitHeight * this.zoom);
    this.surface.resize(LEFT + this.columns * this.cellWidth + 4, TOP + Math.max(1, this.decode.forwards) * this.cellHeight + BOTTOM, HIGHEST);
  }

  /// True while a larger zoom would still change anything.
  get canZoomIn() {
    return this.cellWidth < LARGEST - 0.01 || this.cellHeight < 17.99;
  }

  forget() {
    this.bitmap = null;
  }

  /// A pixel a cell: masked until committed, the shade of the commit, the page's colour behind it.
  makeBitmap() {
    const {decode} = this;
    const s = decode.sequence;
    const rows = Math.max(1, decode.forwards);
    const [columns, first] = [this.columns, decode.first];
    const c = colours();
    const word = (colour) => {
      const [r, g, b] = channels(colour);
      return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    };
    const [masked, clear, changed, held] = [c.masked, c.panel, c.changed, c.held].map(word);
    const shades = c.shades.map(word);
    const image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const state = new Uint8Array(columns);  // 1: holds a token
    for (let p = first; p < decode.length; ++p) {
      state[p - first] = s.given[p];
    }
    const wipe = OUTCOMES.indexOf('r');
    const edit = OUTCOMES.indexOf('e');
    for (let row = 0; row < decode.forwards; ++row) {
      const base = row * columns;
      for (let k = 0; k < columns; ++k) {
        pixels[base + k] = state[k] ? clear : masked;
      }
      for (let i = s.offsets[row]; i < s.offsets[row + 1]; ++i) {
        const k = s.position.data[i] - first;
        const letter = OUTCOMES[s.outcome.data[i]];
        if ('cfwl'.includes(letter)) {
          pixels[base + k] = shades[shadeOf(s.confidence.data[i])];
          state[k] = 1;
        } else if (s.outcome.data[i] === wipe || s.outcome.data[i] === edit) {
          pixels[base + k] = changed;
          state[k] = s.outcome.data[i] === edit ? 1 : 0;
        } else if (letter !== 'k' || this.all) {
          state[k] = letter === 'k' ? 1 : 0;
          pixels[base + k] = this.all ? shades[shadeOf(s.confidence.data[i])] : held;
        }
      }
    }
    const bitmap = document.createElement('canvas');
    bitmap.width = columns;
    bitmap.height = rows;
    bitmap.getContext('2d').putImageData(image, 0, 0);
    this.bitmap = bitmap;
  }

  show(now, selected, difference) {
    this.now = now;
    this.selected = selected;
    this.difference = difference;
    this.surface.paint();
  }

  reveal() {
    if (this.now > 0) {
      const x = this.selected >= this.decode.first ? this.x(this.selected) : this.surface.box.scrollLeft + LEFT;
      this.surface.reveal(x - LEFT, this.y(this.now - 1), this.cellWidth + LEFT, this.cellHeight + BOTTOM, 2);
    }
  }

  x(position) {
    return LEFT + (position - this.decode.first) * this.cellWidth;
  }

  y(step) {
    return TOP + step * this.cellHeight;
  }

  draw(context, view) {
    if (!this.decode) {
      return;
    }
    if (this.bitmap === null) {
      this.makeBitmap();
    }
    const c = colours();
    const {decode, cellWidth: cw, cellHeight: ch} = this;
    const rows = Math.max(1, decode.forwards);
    const [c0, r0] = [Math.max(0, Math.floor(view.left / cw)), Math.max(0, Math.floor((view.top - TOP) / ch))];
    const c1 = Math.min(this.columns, Math.ceil((view.left + view.width - LEFT) / cw) + 1);
    const r1 = Math.min(rows, Math.ceil((view.top + view.height - TOP) / ch) + 1);
    const small = cw < 4 || ch < 4;
    if (small) {
      this.drawSmall(context, view, r0, r1, c0, c1);
    } else {
      this.drawCells(context, r0, r1, c0, c1);
    }

    if (cw >= 6 && ch >= 6) {  // a grid
      context.strokeStyle = c.panel;
      context.lineWidth = 1;
      context.beginPath();
      for (let k = c0; k <= c1; ++k) {
        context.moveTo(LEFT + k * cw, TOP + r0 * ch);
        context.lineTo(LEFT + k * cw, TOP + r1 * ch);
      }
      for (let r = r0; r <= r1; ++r) {
        context.moveTo(LEFT + c0 * cw, TOP + r * ch);
        context.lineTo(LEFT + c1 * cw, TOP + r * ch);
      }
      context.stroke();
    }
    if (!small) {
      this.drawEvents(context, r0, r1, c0, c1);
    }

    if (decode.sequence.blockLength > 0) {  // borders of blocks
      context.strokeStyle = c.soft;
      context.lineWidth = 1;
      context.setLineDash([2, 3]);
      context.beginPath();
      const {promptLength, blockLength} = decode.sequence;
      for (let p = promptLength + blockLength; p < decode.length && blockLength * cw > 24; p += blockLength) {
        context.moveTo(Math.round(this.x(p)) + 0.5, TOP + r0 * ch);
        context.lineTo(Math.round(this.x(p)) + 0.5, TOP + r1 * ch);
      }
      context.stroke();
      context.setLineDash([]);
    }

    const line = (colour, x, y, w, h) => {  // around cells, or through them if they are small
      if (Math.min(w, h) < 4) {
        context.fillStyle = colour;
        context.fillRect(x, y, Math.max(w, 1), Math.max(h, 1));
      } else {
        context.strokeStyle = colour;
        context.lineWidth = 1.5;
        context.strokeRect(x, y, w, h);
      }
    };
    if (this.selected >= decode.first) {
      line(c.ink, this.x(this.selected), TOP, cw, rows * ch);
    }
    if (this.now > 0) {
      line(c.now, LEFT, this.y(this.now - 1), this.columns * cw, ch);
    }
    if (this.difference && this.difference.step > 0 && this.difference.step <= rows) {
      const y = this.y(this.difference.step - 1);
      context.strokeStyle = c.differs;
      context.lineWidth = 1.5;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(LEFT + this.columns * cw, y);
      context.stroke();
      context.setLineDash([]);
      if (this.difference.position >= decode.first) {
        const [x, size] = [this.x(this.difference.position) + cw / 2, 7];
        context.fillStyle = c.differs;
        context.beginPath();
        context.moveTo(x, y - size);
        context.lineTo(x + size, y);
        context.lineTo(x, y + size);
        context.lineTo(x - size, y);
        context.fill();
      }
    }
    this.drawAxes(context, view, r0, r1, c0, c1);
  }

  drawCells(context, r0, r1, c0, c1) {
    const {cellWidth: cw, cellHeight: ch} = this;
    context.imageSmoothingEnabled = cw < 1 || ch < 1;
    context.imageSmoothingQuality = 'high';
    context.drawImage(this.bitmap, c0, r0, c1 - c0, r1 - r0, LEFT + c0 * cw, TOP + r0 * ch, (c1 - c0) * cw, (r1 - r0) * ch);
  }

  /// Small cells, as they are in this view: a picture that is kept until view, size or colours change.
  drawSmall(context, view, r0, r1, c0, c1) {
    const {a: ratio} = context.getTransform();
    const key = [view.left, view.top, view.width, view.height, this.cellWidth, this.cellHeight, ratio].join();
    if (this.still?.key !== key || this.still.bitmap !== this.bitmap) {
      const kept = this.still?.kept ?? document.createElement('canvas');
      kept.width = Math.max(1, Math.round(view.width * ratio));
      kept.height = Math.max(1, Math.round(view.height * ratio));
      const inner = kept.getContext('2d');
      inner.setTransform(ratio, 0, 0, ratio, -view.left * ratio, -view.top * ratio);
      this.drawCells(inner, r0, r1, c0, c1);
      this.drawDots(inner, r0, r1, c0, c1);
      this.still = {key, kept, bitmap: this.bitmap};
    }
    context.drawImage(this.still.kept, view.left, view.top, this.still.kept.width / ratio, this.still.kept.height / ratio);
  }

  /// Marks of changed positions, where cells are smaller than can be seen.
  drawDots(context, r0, r1, c0, c1) {
    const c = colours();
    const {decode, cellWidth: cw, cellHeight: ch} = this;
    const s = decode.sequence;
    const [w, h] = [Math.max(cw, 2), Math.max(ch, 2)];
    const last = c.shades.length;
    for (let pass = 0; pass <= last; ++pass) {
      context.fillStyle = pass < last ? c.shades[pass] : c.changed;
      for (let r = r0; r < r1 && r < decode.forwards; ++r) {
        for (let e = decode.eventOffsets[r]; e < decode.eventOffsets[r + 1]; ++e) {
          const i = decode.events[e];
          const k = s.position.data[i] - decode.first;
          const o = s.outcome.data[i];
          const of = 'er'.includes(OUTCOMES[o]) ? last : 'cfwl'.includes(OUTCOMES[o]) ? shadeOf(s.confidence.data[i]) : -1;
          if (of === pass && k >= c0 && k < c1) {
            context.fillRect(LEFT + k * cw, TOP + r * ch, w, h);
          }
        }
      }
    }
  }

  /// Text and shapes of what changed a position, where cells are large enough.
  drawEvents(context, r0, r1, c0, c1) {
    const c = colours();
    const {decode, cellWidth: cw, cellHeight: ch} = this;
    const s = decode.sequence;
    context.font = `${Math.min(12, Math.floor(ch * 0.72))}px ${MONO}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let e = decode.eventOffsets[Math.min(r0, decode.forwards)]; e < decode.eventOffsets[Math.min(r1, decode.forwards)]; ++e) {
      const i = decode.events[e];
      const p = s.position.data[i];
      if (p - decode.first < c0 || p - decode.first >= c1 || !'cfwer'.includes(decode.letter(i))) {
        continue;
      }
      const row = this.stepOf(e);
      const [x, y, letter] = [this.x(p), this.y(row), decode.letter(i)];
      if (letter === 'f') {
        context.fillStyle = c.forced;
        context.beginPath();
        context.moveTo(x, y + ch);
        context.lineTo(x, y + ch / 2);
        context.lineTo(x + Math.min(cw, ch) / 2, y + ch);
        context.fill();
      } else if (letter === 'e' || letter === 'r') {
        context.fillStyle = c.panel;
        context.beginPath();
        context.moveTo(x + cw - ch / 3, y);
        context.lineTo(x + cw, y);
        context.lineTo(x + cw, y + ch / 3);
        context.fill();
      }
      if (cw >= 11 && ch >= 11) {
        const text = letter === 'r' ? '×' : tokenText(decode.trace, s.token.data[i]);
        context.fillStyle = letter === 'e' || letter === 'r' ? c.page : c.on[shadeOf(s.confidence.data[i])];
        let shown = text.trim() || text;  // as much of it as there is room for; a dot for EOS
        shown = s.token.data[i] === decode.trace.model.eos && cw < 24 ? '·' : shown;
        while (shown.length > 1 && context.measureText(shown).width > cw - 1) {
          shown = shown.slice(0, -1);
        }
        context.fillText(shown, x + cw / 2, y + ch / 2 + 0.5);
      }
    }
  }

  stepOf(e) {
    const offsets = this.decode.eventOffsets;
    let low = 0;
    let high = offsets.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (offsets[middle] <= e) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  drawAxes(context, view, r0, r1, c0, c1) {
    const c = colours();
    const {cellWidth: cw, cellHeight: ch, decode} = this;
    const every = (size, room) => {  // 1, 2, 5, 10, ...: the least that leaves so much room
      for (let scale = 1;; scale *= 10) {
        for (const n of [scale, 2 * scale, 5 * scale]) {
          if (n * size >= room) {
            return n;
          }
        }
      }
    };
    context.fillStyle = c.panel;
    context.fillRect(view.left, view.top, LEFT - 2, view.height);
    context.fillRect(view.left, view.top + view.height - BOTTOM + 1, view.width, BOTTOM);
    context.font = `11px ${SANS}`;
    context.fillStyle = c.soft;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const down = every(ch, 14);
    for (let r = r0; r < r1 && r < decode.forwards; ++r) {
      const y = this.y(r) + ch / 2;
      if (((r + 1) % down === 0 || r === 0) && y < view.top + view.height - BOTTOM) {
        context.fillText(String(r + 1), view.left + LEFT - 6, y);
      }
    }
    context.textAlign = 'center';
    const across = every(cw, 34);
    for (let k = c0; k < c1; ++k) {
      const p = k + decode.first;
      const x = this.x(p) + cw / 2;
      if (p % across === 0 && x > view.left + LEFT && x < view.left + view.width - 12) {
        context.fillText(String(p), x, view.top + view.height - BOTTOM / 2 + 1);
      }
    }
  }
}
