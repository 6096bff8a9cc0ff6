// Zoom, search and the line below of a flame graph; every frame says in data-left and data-count what it is of the whole.
"use strict";
(() => {
  const svg = document.currentScript.ownerSVGElement;
  const { width, letter, fewest } = Object.fromEntries(
    Object.entries(svg.dataset).map(([key, value]) => [key, Number(value)]),
  );
  const line = svg.querySelector(".line");
  const found = svg.querySelector(".found");
  const frames = [...svg.querySelectorAll(".frame")].map((group) => ({
    group,
    box: group.querySelector("rect"),
    label: group.querySelector("text"),
    title: group.querySelector("title").textContent,
    name: group.dataset.name,
    depth: Number(group.dataset.depth),
    left: Number(group.dataset.left),
    count: Number(group.dataset.count),
  }));
  const whole = frames[0];
  let sought = null;

  const inside = (frame, other) => frame.left >= other.left && frame.left + frame.count <= other.left + other.count;

  function place(frame, left, size) {
    const room = Math.floor((size - letter) / letter);
    const fits = frame.name.length <= room;
    frame.box.setAttribute("x", left);
    frame.box.setAttribute("width", Math.max(size, 0.5));
    frame.label.setAttribute("x", left + letter / 2);
    frame.label.textContent = fits ? frame.name : room >= fewest ? frame.name.slice(0, room - 2) + ".." : "";
  }

  function zoom(to) {
    for (const frame of frames) {
      const above = frame.depth < to.depth;
      const shown = above ? inside(to, frame) : inside(frame, to);
      frame.group.classList.toggle("hidden", !shown);
      frame.group.classList.toggle("outer", above && shown);
      if (shown && above) place(frame, 0, width);
      else if (shown) place(frame, ((frame.left - to.left) / to.count) * width, (frame.count / to.count) * width);
    }
  }

  function search(text) {
    let pattern = null;
    try {
      pattern = text ? new RegExp(text) : null;
    } catch {
      found.textContent = `not a regular expression: ${text}`;
      return;
    }
    sought = text;
    let count = 0;
    let end = -1; // of the last match that is counted: what it called is in it already
    const byPlace = [...frames].sort((a, b) => a.left - b.left || a.depth - b.depth);
    for (const frame of byPlace) {
      const matches = pattern !== null && pattern.test(frame.name);
      frame.group.classList.toggle("match", matches);
      if (matches && frame.left >= end) {
        count += frame.count;
        end = frame.left + frame.count;
      }
    }
    found.textContent = pattern ? `${text}: ${((100 * count) / whole.count).toFixed(2)}%` : "";
  }

  for (const frame of frames) {
    frame.group.addEventListener("click", () => zoom(frame));
    frame.group.addEventListener("mouseenter", () => (line.textContent = frame.title));
    frame.group.addEventListener("mouseleave", () => (line.textContent = ""));
  }
  const ask = () => {
    const text = prompt("Functions (a regular expression; empty: none)", sought ?? "");
    if (text !== null) search(text);
  };
  svg.querySelector(".search").addEventListener("click", ask);
  svg.querySelector(".reset").addEventListener("click", () => zoom(whole));
  window.addEventListener("keydown", (event) => {
    if (event.key === "/" || (event.ctrlKey && event.key === "f")) {
      event.preventDefault();
      ask();
    } else if (event.key === "Escape") zoom(whole);
  });
  svg.classList.add("live");
})();
