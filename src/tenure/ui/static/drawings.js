// The time line of the terms, and the phases of a takeover, as SVG of the width of their place.

import { clock, element, knownUntilMs, lasting, nowWord, svg } from "./dom.js";

const NARROW = 560;
const kinds = ["a", "b", "c", "d"];
const holders = new Map();

// A holder keeps its colour; its name stands in the bar.
export function colourOf(holder) {
  if (!holders.has(holder)) holders.set(holder, kinds[holders.size % kinds.length]);
  return holders.get(holder);
}

export const secondsOf = (span) => ((span.until ? Date.parse(span.until) : knownUntilMs()) - Date.parse(span.since)) / 1000;

export function timeLine(place, spans, range) {
  const width = Math.floor(place.clientWidth);
  const now = knownUntilMs();
  const shown = spans.filter((span) => !range || (span.until ? Date.parse(span.until) : now) > now - range);
  if (width < NARROW || !shown.length) { place.replaceChildren(); return; }
  const first = Date.parse(shown[0].since);
  const from = range ? Math.max(first, now - range) : first;
  const height = 118, left = 4, right = width - 4;
  const x = (time) => left + ((Math.max(time, from) - from) / Math.max(1, now - from)) * (right - left);
  const hatch = svg("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 7, height: 7, class: "gap-ground" }), svg("rect", { width: 3, height: 7, class: "gap-stripe" }));
  const dots = svg("pattern", { id: "dots", width: 6, height: 6, patternUnits: "userSpaceOnUse" },
    svg("rect", { width: 6, height: 6, class: "gap-ground" }), svg("circle", { cx: 3, cy: 3, r: 1.4, class: "gap-stripe" }));
  const drawing = svg("svg", { width, height, role: "img", "aria-label": `terms since ${clock(new Date(from).toISOString())} UTC; the table below has the same` }, svg("defs", {}, hatch, dots));
  const above = [], below = []; // the ends of the texts of each row
  for (const span of shown) {
    const a = x(Date.parse(span.since)), b = x(span.until ? Date.parse(span.until) : now);
    if (span.kind === "term") {
      const bar = svg("rect", { x: a, y: 42, width: Math.max(2, b - a), height: 28, rx: 3, class: `bar ${colourOf(span.holder)}` });
      bar.append(svg("title", {}, `epoch ${span.epoch}: ${span.holder}, ${clock(span.since)} to ${span.until ? clock(span.until) : nowWord()}${span.why ? `; ${span.why}` : ""}`));
      drawing.append(bar);
      write(drawing, `${span.holder} ${span.epoch}`, a + 6, 61, "in-bar", b - a - 10);
      if (span.why) put(drawing, below, span.why, b, width, 86, 1);
    } else {
      const gap = svg("rect", { x: a, y: 36, width: Math.max(3, b - a), height: 40, class: span.kind });
      const text = span.kind === "gap" ? `nobody led for ${lasting(secondsOf(span))}` : `perhaps led, for ${lasting(secondsOf(span))}`;
      gap.append(svg("title", {}, `${text}, from ${clock(span.since)}`));
      drawing.append(gap);
      if (secondsOf(span) >= 1) put(drawing, above, text, a, width, 30, -1);
    }
  }
  axis(drawing, x, from, now, width, height);
  place.replaceChildren(drawing);
}

// A text at `at`, in the first of two rows that has room; without room there is none, and the table has it.
function put(drawing, rows, text, at, width, y, direction) {
  const wide = Math.min(text.length, 34) * 6.4;
  const start = Math.max(2, Math.min(at, width - wide - 2));
  const row = [0, 1].find((number) => (rows[number] ?? -1) < start);
  if (row === undefined) return;
  rows[row] = start + wide + 8;
  write(drawing, text, start, y + direction * row * 13, "reason", wide + 6);
}

function write(drawing, text, x, y, kind, room) {
  const most = Math.floor(room / 6.4);
  if (most < 3) return;
  drawing.append(svg("text", { x, y, class: kind }, text.length <= most ? text : `${text.slice(0, most - 1)}…`));
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000];

function axis(drawing, x, from, now, width, height) {
  const step = (STEPS.find((one) => (now - from) / 1000 / one <= width / 110) ?? STEPS.at(-1)) * 1000;
  for (let time = Math.ceil(from / step) * step; time < now; time += step) {
    if (x(time) > width - 60) continue;
    drawing.append(svg("line", { x1: x(time), x2: x(time), y1: 76, y2: 80, class: "tick" }),
      svg("text", { x: x(time), y: height - 4, class: "axis" }, clock(new Date(time).toISOString()).slice(0, step < 60e3 ? 19 : -3)));
  }
}

export function waterfall(place, takeover) {
  const width = Math.floor(place.clientWidth);
  if (!width) return;
  const bars = takeover.bars.map((bar) => ({ ...bar, from: Date.parse(bar.since) - bar.before_s * 1000, to: Date.parse(bar.until) }));
  const start = Math.min(...bars.map((bar) => bar.from)), end = Math.max(...bars.map((bar) => bar.to), start + 1);
  const narrow = width < NARROW, row = narrow ? 36 : 24, left = narrow ? 0 : Math.min(290, width * 0.42);
  const x = (time) => left + ((time - start) / (end - start)) * (width - left - 64);
  const drawing = svg("svg", { width, height: bars.length * row + 6, role: "img", "aria-label": `phases of the takeover by ${takeover.holder}; the table below has the same` });
  bars.forEach((bar, number) => {
    const top = number * row + (narrow ? 16 : 3);
    write(drawing, bar.text, 0, number * row + (narrow ? 12 : 16), "phase", narrow ? width : left - 8);
    drawing.append(svg("rect", { x: x(bar.from), y: top, width: Math.max(2, x(bar.to) - x(bar.from)), height: 15, rx: 2, class: `phase-${bar.phase}` }),
      svg("text", { x: x(bar.to) + 5, y: top + 12, class: "axis" }, lasting((bar.to - bar.from) / 1000)));
  });
  if (takeover.bars.some((bar) => bar.phase === "empty")) drawing.prepend(hatchOf());
  place.replaceChildren(drawing);
}

const hatchOf = () => svg("defs", {}, svg("pattern", { id: "hatch-2", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("rect", { width: 7, height: 7, class: "gap-ground" }), svg("rect", { width: 3, height: 7, class: "gap-stripe" })));

export const dashOf = (number) => [[], [7, 3], [2, 3], [9, 3, 2, 3]][number % 4];

export function legend(names) {
  return element("ul", { class: "legend" }, names.map((name, number) => element("li", {},
    svg("svg", { width: 30, height: 10, "aria-hidden": "true" }, svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, class: `line-${kinds[number % 4]}`, "stroke-dasharray": dashOf(number).join(" ") })), ` ${name}`)));
}
