"use strict";
// Tables that sort: a click on a column's head. Cells of digits and commas are compared as numbers, addresses digit by
// digit: a number has 53 bits.
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
  const address = /^0x([\da-f]+)$/.exec(text);
  if (address) return { address: address[1].padStart(16, "0") };
  const number = /^[+-]?[\d,]*\.?\d+%?(?= \[|$)/.exec(text);
  return number ? parseFloat(number[0].replaceAll(",", "")) : text;
}

function compare(a, b) {
  const kinds = ["number", "object", "string"];
  if (typeof a !== typeof b) return kinds.indexOf(typeof a) - kinds.indexOf(typeof b);
  if (typeof a === "object") return a.address < b.address ? -1 : Number(a.address > b.address);
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
}
