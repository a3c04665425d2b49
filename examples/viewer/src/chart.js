// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bars over the forward passes: commits, rows of logits, positions computed in all layers.
import {number} from './decode.js';
import {SANS, Surface, colours} from './surface.js';

const [LEFT, STRIP, BAR, BOTTOM] = [40, 66, 44, 18];

export class ForwardChart {
  constructor(box, label, on) {
    this.surface = new Surface(box, label, (context) => this.draw(context));
    this.decode = null;
    this.surface.canvas.addEventListener('click', (event) => {
      const [x] = this.surface.place(event);
      on.go(Math.min(this.decode.forwards, Math.max(0, 1 + Math.floor((x - LEFT) / this.step))));
    });
  }

  load(decode) {
    this.decode = decode;
    this.strips = [
      {name: 'commits', of: (s) => s.commits, more: (s) => s.changes},
      {name: 'rows of logits', of: (s) => s.rows},
    ];
    if (decode.layerPositions !== null) {
      this.strips.push({name: 'positions computed, summed over layers', of: (s) => s.layerPositions ?? 0});
    }
    for (const strip of this.strips) {
      strip.own = decode.perStep.reduce((most, s) => Math.max(most, strip.of(s) + (strip.more?.(s) ?? 0)), 1);
    }
  }

  /// `others`: charts with the same scales, this one among them.
  layout(others) {
    this.strips.forEach((strip, k) => {
      strip.most = Math.max(...others.map((chart) => chart.strips[k]?.own ?? 1));
    });
    const forwards = Math.max(1, ...others.map((chart) => chart.decode.forwards));
    const room = Math.max(100, this.surface.box.clientWidth - 2);
    this.step = Math.min(36, (room - LEFT - 6) / forwards);
    this.surface.resize(room, this.strips.length * STRIP + BOTTOM, 1000);
  }

  show(now, difference) {
    this.now = now;
    this.difference = difference;
    this.surface.paint();
  }

  draw(context) {
    if (!this.decode) {
      return;
    }
    const c = colours();
    const {decode, step} = this;
    const wide = Math.max(step - (step > 4 ? 2 : 0), 0.5);
    if (this.now > 0) {
      context.fillStyle = c.held;
      context.fillRect(LEFT + (this.now - 1) * step - 1, 0, Math.max(step, 3), this.strips.length * STRIP);
    }
    context.textBaseline = 'middle';
    this.strips.forEach((strip, k) => {
      const base = k * STRIP + STRIP - 2;
      context.font = `12px ${SANS}`;
      context.textAlign = 'left';
      context.fillStyle = c.ink;
      const here = this.now > 0 ? `: ${number(strip.of(decode.perStep[this.now - 1]))}` : '';
      context.fillText(`${strip.name}${here}`, LEFT, base - BAR - 9);
      context.fillStyle = c.soft;
      context.font = `11px ${SANS}`;
      context.textAlign = 'right';
      context.fillText(strip.most >= 1e5 ? `${Math.round(strip.most / 1000)}k` : number(strip.most), LEFT - 6, base - BAR + 4);
      context.fillText('0', LEFT - 6, base - 3);
      context.fillStyle = c.line;
      context.fillRect(LEFT, base, decode.forwards * step, 1);
      decode.perStep.forEach((s, i) => {
        const height = BAR * strip.of(s) / strip.most;
        context.fillStyle = i + 1 === this.now ? c.now : c.shade3;
        context.fillRect(LEFT + i * step, base - height, wide, height);
        const more = strip.more?.(s) ?? 0;
        if (more > 0) {
          context.fillStyle = c.changed;
          context.fillRect(LEFT + i * step, base - height - BAR * more / strip.most, wide, BAR * more / strip.most);
        }
      });
    });
    if (this.difference && this.difference.step > 0) {
      context.strokeStyle = c.differs;
      context.lineWidth = 1.5;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(LEFT + (this.difference.step - 1) * step - 0.5, 0);
      context.lineTo(LEFT + (this.difference.step - 1) * step - 0.5, this.strips.length * STRIP);
      context.stroke();
      context.setLineDash([]);
    }
    context.fillStyle = c.soft;
    context.font = `11px ${SANS}`;
    context.textAlign = 'center';
    let behind = -100;
    for (let i = 0; i < decode.forwards; ++i) {
      const x = LEFT + (i + 0.5) * step;
      if (x - behind >= 34) {
        context.fillText(String(i + 1), x, this.strips.length * STRIP + BOTTOM / 2 + 1);
        behind = x;
      }
    }
  }
}
