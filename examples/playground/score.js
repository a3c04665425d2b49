// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
'use strict';

// Statistics of right answers, as bench/paired.py and bench/board.py compute them.

const Z95 = 1.959964;

/// Ends of the 95 % interval of a share, in percent (Wilson).
function wilson(right, n) {
  const p = right / n;
  const middle = p + Z95 ** 2 / 2 / n;
  const half = Z95 * Math.sqrt(p * (1 - p) / n + Z95 ** 2 / 4 / n / n);
  return [middle - half, middle + half].map((end) => 100 * end / (1 + Z95 ** 2 / n));
}

/// Ends, in percentage points, of the 95 % interval of a paired difference (Agresti and Min, 2005).
function pairedDifference(gained, lost, n) {
  const [a, b, m] = [gained + 0.5, lost + 0.5, n + 2];
  const half = Z95 * Math.sqrt(a + b - (a - b) ** 2 / m);
  return [a - b - half, a - b + half].map((end) => 100 * end / m);
}

/// Two-sided p of the exact sign test.
function signTest(gained, lost) {
  const n = gained + lost;
  let ways = 1;
  let sum = 0;
  for (let k = 0; k <= Math.min(gained, lost); ++k) {
    sum += ways;
    ways *= (n - k) / (k + 1);
  }
  return Math.min(1, 2 * sum / 2 ** n);
}

/// A policy's results on problems in numbers: right is a boolean of each.
function summary({right, forwards, segments, committed}) {
  const n = right.length;
  const count = right.filter(Boolean).length;
  return {right: `${count} of ${n}`, share: wilson(count, n).map((end) => end.toFixed(1)).join(' to '),
    forwards: (forwards / n).toFixed(2), segments: (segments / n).toFixed(2),
    each: forwards > 0 ? (committed / forwards).toFixed(2) : '-'};
}

/// A policy beside its control, on the same problems.
function compared(policy, control) {
  const gained = policy.right.filter((right, i) => right && !control.right[i]).length;
  const lost = policy.right.filter((right, i) => !right && control.right[i]).length;
  const signed = (value) => `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(1)}`;
  return {counts: `+${gained} -${lost}`, points: pairedDifference(gained, lost, policy.right.length).map(signed).join(' to '),
    p: String(Number(signTest(gained, lost).toPrecision(2)))};
}
