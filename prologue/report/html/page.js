"use strict";
// Tables that sort: a click on a column's head. Cells of digits and commas are compared as numbers.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = [...body.rows].map((row) => [row, key(row.cells[column].textContent)]);
      keyed.sort(([, a], [, b]) => (down ? -1 : 1) * compare(a, b));
      body.append(...keyed.map(([row]) => row));
    });
  });
}

function key(text) {
  const number = /^[+-]?[\d,]*\.?\d+/.exec(text);
  return number ? Number(number[0].replaceAll(",", "")) : text;
}

function compare(a, b) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}
