// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of all drawings: colours of the theme, and a canvas that draws only what is in view.

const NAMES = ['page', 'panel', 'ink', 'soft', 'line', 'masked', 'proposed', 'changed', 'forced',
               'differs', 'now', 'held', 'shade0', 'shade1', 'shade2', 'shade3', 'shade4', 'on0', 'on1', 'on2', 'on3', 'on4'];
let cache = null;

/// The colours of the style sheet as rgb() values, by name.
export function colours() {
  if (cache === null) {
    cache = {};
    const probe = document.createElement('span');
    document.body.append(probe);
    for (const name of NAMES) {
      probe.style.color = `var(--${name})`;
      cache[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    cache.shades = [0, 1, 2, 3, 4].map((i) => cache[`shade${i}`]);
    cache.on = [0, 1, 2, 3, 4].map((i) => cache[`on${i}`]);
  }
  return cache;
}

export function forgetColours() {
  cache = null;
}

export const MONO = 'ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
export const SANS = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

/// [red, green, blue] of an rgb() value.
export function channels(colour) {
  return (colour.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
}

/// A scrolled box with a canvas of the size of the box. `draw(context, view)` draws what is in view:
/// {left, top, width, height} of the content; the origin of the context is the content's.
export class Surface {
  constructor(box, label, draw) {
    this.box = box;
    this.draw = draw;
    this.canvas = document.createElement('canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', label);
    this.sizer = document.createElement('div');
    box.classList.add('surface');
    box.replaceChildren(this.canvas, this.sizer);
    box.addEventListener('scroll', () => this.paint(), {passive: true});
    this.width = 0;
    this.height = 0;
  }

  /// Size of the content; the box is as high as it, up to `highest`.
  resize(width, height, highest) {
    const scrolls = width > this.box.clientWidth + 1;
    this.width = width;
    this.height = height;
    this.sizer.style.width = `${width}px`;
    this.sizer.style.height = `${height}px`;
    this.box.style.height = `${Math.min(height, highest) + (scrolls ? 14 : 0) + 2}px`;
  }

  paint() {
    const width = Math.min(this.box.clientWidth, Math.max(1, Math.ceil(this.width)));
    const height = Math.min(this.box.clientHeight, Math.max(1, Math.ceil(this.height)));
    const ratio = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext('2d', {alpha: false});
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours().panel;
    context.fillRect(0, 0, width, height);
    const [left, top] = [this.box.scrollLeft, this.box.scrollTop];
    context.translate(-left, -top);
    this.draw(context, {left, top, width, height});
  }

  /// Scrolls no more than needed for a rectangle of the content to be in view.
  reveal(x, y, width, height, margin = 0) {
    const box = this.box;
    if (y - margin < box.scrollTop) {
      box.scrollTop = y - margin;
    } else if (y + height + margin > box.scrollTop + box.clientHeight) {
      box.scrollTop = y + height + margin - box.clientHeight;
    }
    if (x - margin < box.scrollLeft) {
      box.scrollLeft = x - margin;
    } else if (x + width + margin > box.scrollLeft + box.clientWidth) {
      box.scrollLeft = x + width + margin - box.clientWidth;
    }
  }

  /// The place of a pointer event within the content.
  place(event) {
    const at = this.canvas.getBoundingClientRect();
    return [event.clientX - at.left + this.box.scrollLeft, event.clientY - at.top + this.box.scrollTop];
  }
}
