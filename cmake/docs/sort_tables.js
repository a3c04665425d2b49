// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts a table of a page by the column whose head is clicked: numbers by value, the largest first, other
// texts by the alphabet; a second click reverses the order. A number is the first one in a cell.
const number = (text) => {
  const found = /[-+]?[\d,]*\.?\d+(e[-+]?\d+)?/.exec(text);
  return found ? Number(found[0].replaceAll(",", "")) : NaN;
};

function sortBy(table, column, reverse) {
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => row.querySelector("td"));
  const texts = rows.map((row) => row.cells[column]?.textContent.trim() ?? "");
  const isNumeric = texts.every((text) => text === "" || /^[-+]?[\d.,]/.test(text));
  const keys = new Map(rows.map((row, i) => [row, isNumeric ? number(texts[i]) : texts[i]]));
  const before = (a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (!isNumeric) return x.localeCompare(y);
    return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : y - x;
  };
  rows.sort(before);
  if (reverse) rows.reverse();
  body.append(...rows);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.markdownTable")) {
    const heads = [...table.querySelectorAll("th")];
    heads.forEach((head, column) => {
      head.style.cursor = "pointer";
      head.title = "sort";
      head.addEventListener("click", () => {
        const reverse = head.getAttribute("aria-sort") === "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", reverse ? "ascending" : "descending");
        sortBy(table, column, reverse);
      });
    });
  }
});
