"use strict";
// The map of a kernel's text: a strip for each mechanism. What the data are is said in text_map.py.
(async () => {
  const map = document.getElementById("map");
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const hover = map.querySelector(".hover");
  if (!data.strips.length) {
    hover.textContent = "No mechanism owns a word of this text.";
    return;
  }

  async function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
  }
  async function unpacked(text) {
    const planes = new Uint8Array(await (await inflated(text)).arrayBuffer());
    const n = planes.length / 4;
    const words = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      words[i] = planes[i] | (planes[n + i] << 8) | (planes[2 * n + i] << 16) | (planes[3 * n + i] << 24);
    }
    return words;
  }
  const summed = (steps) => { for (let i = 1; i < steps.length; i++) steps[i] += steps[i - 1]; return steps; };
  // How many of the sorted numbers are less than x.
  function below(sorted, x) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < x) low = middle + 1; else high = middle;
    }
    return low;
  }

  const blocks = summed(await unpacked(data.blocks));
  const symbolAt = summed(await unpacked(data.symbols.at));
  const names = (await (await inflated(data.symbols.names)).text()).split("\n");
  const texts = JSON.parse(await (await inflated(data.texts)).text());
  const base = BigInt(data.base);
  // Places on the map: blocks without owned words are left out.
  const whole = data.words;
  const placed = (at) => (below(blocks, at + 1) - 1) * data.block + (at % data.block);
  const unplaced = (x) => {
    const inside = Math.min(Math.max(Math.floor(x), 0), whole - 1);
    return blocks[Math.floor(inside / data.block)] + (inside % data.block);
  };
  const address = (at) => "0x" + (base + 4n * BigInt(at)).toString(16);
  function symbol(at) {
    const row = below(symbolAt, at + 1) - 1;
    return row < 0 ? "" : `${names[row]}+0x${(4 * (at - symbolAt[row])).toString(16)}`;
  }
  function insn(word, at) {
    const hex = word.toString(16).padStart(8, "0");
    const kind = word >>> 26;
    if (kind !== 5 && kind !== 37) return `${hex}  ${texts[hex] ?? ""}`;
    const target = at + ((word << 6) >> 6); // sign of the 26-bit offset in words
    return `${hex}  ${kind === 37 ? "bl" : "b"} ${address(target)} ${target < 0 ? "" : `<${symbol(target)}>`}`;
  }

  let from = 0, to = whole;
  const strips = [];
  for (const strip of data.strips) {
    const at = summed(await unpacked(strip.at));
    const linked = await unpacked(strip.linked), live = await unpacked(strip.live);
    const changes = new Uint32Array(at.length + 1);
    const stands = data.says === "changed" ? (i) => linked[i] !== live[i] : () => true;
    for (let i = 0; i < at.length; i++) changes[i + 1] = changes[i] + (stands(i) ? 1 : 0);
    const box = document.createElement("div"), label = document.createElement("span");
    const canvas = document.createElement("canvas");
    box.className = "strip";
    const of = data.says === "changed" ? `${strip.changed.toLocaleString("en")} of ` : "";
    label.textContent = `${strip.name}: ${of}${strip.count.toLocaleString("en")} ${data.says}`
      + (strip.wrong.length ? `, ${strip.wrong.length.toLocaleString("en")} wrong` : "");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label.textContent);
    box.append(label, canvas);
    map.querySelector(".strips").append(box);
    const x = Uint32Array.from(at, placed);
    strips.push({ ...strip, at, linked, live, changes, x, canvas, wrongX: strip.wrong.map((row) => x[row]) });
    listen(canvas, strips.at(-1));
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const strip of strips) {
      const { canvas } = strip;
      const width = canvas.width = Math.max(canvas.clientWidth, 1) * devicePixelRatio;
      const height = canvas.height = canvas.clientHeight * devicePixelRatio;
      const pen = canvas.getContext("2d"), step = (to - from) / width;
      const edges = Array.from({ length: width + 1 }, (_, column) => below(strip.x, from + column * step));
      const counts = [];
      for (let column = 0; column < width; column++) {
        const [first, end] = [edges[column], edges[column + 1]];
        counts.push([end - first, strip.changes[end] - strip.changes[first]]);
      }
      const most = Math.log1p(Math.max(1, ...counts.map(([all]) => all)));
      counts.forEach((column, k) => ["could", "changed"].forEach((name, which) => {
        if (!column[which]) return;
        pen.fillStyle = colour(name);
        const high = Math.max((height * Math.log1p(column[which])) / most, 2);
        pen.fillRect(k, height - high, Math.max(1, Math.min(1 / step, 12)), high);
      }));
      pen.fillStyle = colour("wrong");
      for (const x of strip.wrongX) {
        if (x >= from && x < to) pen.fillRect((x - from) / step - devicePixelRatio / 2, 0, 2 * devicePixelRatio, height);
      }
    }
    map.querySelector(".range").textContent = `${address(unplaced(from))} to ${address(unplaced(to - 1))}`;
  }

  function zoom(by, centre) {
    const size = by ? Math.min(Math.max((to - from) / by, 32), whole) : whole;
    const share = (centre - from) / (to - from);
    from = Math.min(Math.max(centre - share * size, 0), whole - size);
    to = from + size;
    draw();
  }

  function show(strip, left, right) {
    const first = below(strip.x, left), end = below(strip.x, right);
    if (first === end) {
      hover.textContent = `${strip.name}\n${symbol(unplaced((left + right) / 2))}: no word of this mechanism here`;
      return;
    }
    const lines = [];
    if (end - first > 4) {
      const changed = strip.changes[end] - strip.changes[first];
      const words = data.says === "changed" ? `${(end - first).toLocaleString("en")} words, ` : "";
      lines.push(`${strip.name}: ${words}${changed.toLocaleString("en")} ${data.says}`);
      lines.push(`${symbol(strip.at[first])} to ${symbol(strip.at[end - 1])}: zoom in to see each`);
    }
    const rows = strip.wrong.filter((row) => row >= first && row < end);
    for (const row of (rows.length || end - first > 4 ? rows : Array.from({ length: end - first }, (_, k) => first + k)).slice(0, 4)) {
      const at = strip.at[row];
      lines.push(`${symbol(at)}  ${address(at)}  ${strip.name}`);
      lines.push(`  linked  ${insn(strip.linked[row], at)}`, `  live    ${insn(strip.live[row], at)}`);
      const why = data.wrong.find(([start, words]) => at >= start && at < start + words);
      if (why) lines.push(`  ${why[2]}: ${why[3]}`);
    }
    hover.textContent = lines.join("\n");
  }

  function listen(canvas, strip) {
    const place = (event) => from + ((to - from) * event.offsetX) / canvas.clientWidth;
    let held = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.5 : 1 / 1.5, place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      held = place(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null || event.buttons === 0) {
        const reach = (3 * (to - from)) / canvas.clientWidth;
        show(strip, place(event) - reach, place(event) + reach);
        return;
      }
      const size = to - from;
      from = Math.min(Math.max(from + held - place(event), 0), whole - size);
      to = from + size;
      draw();
    });
  }

  for (const button of map.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom), (from + to) / 2));
  }
  addEventListener("resize", draw);
  for (const media of ["print", "(prefers-color-scheme: dark)"]) matchMedia(media).addEventListener("change", draw);
  draw();
  map.dataset.ready = "yes";
})();
