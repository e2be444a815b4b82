// Figures of batches over time, by uPlot: the line of a query breaks where nobody led, and a takeover is a mark.

import { element } from "./dom.js";
import { dashOf, legend } from "./drawings.js";

const HEIGHT = 210;

export class Chart {
  // valueOf(line): the figure of a line of the log; undefined: it has none
  constructor(place, unit, valueOf) {
    this.place = place;
    this.unit = unit;
    this.valueOf = valueOf;
    this.box = element("div", { class: "chart", role: "img", "aria-label": `${unit} over time; the table below has the same figures` });
    this.names = element("div");
    place.append(this.names, this.box);
    this.plot = null;
    this.key = "";
    new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: HEIGHT })).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.key = ""; this.again?.(); });
  }

  get width() { return Math.max(200, Math.floor(this.place.clientWidth)); }

  // spans: those of the time line. Returns whether there is anything to show.
  update(lines, spans) {
    this.again = () => this.update(lines, spans);
    const known = lines.filter((line) => this.valueOf(line) !== undefined);
    this.place.hidden = !known.length;
    if (!known.length) return false;
    const queries = [...new Set(known.map((line) => line.query))].sort();
    const from = Math.min(...known.map((line) => Date.parse(line.at)));
    const breaks = spans.filter((span) => span.kind !== "term").map((span) => Date.parse(span.since) / 1000).filter((at) => at * 1000 > from);
    this.marks = spans.filter((span) => span.kind === "term" && Date.parse(span.since) > from).map((span) => ({ at: Date.parse(span.since) / 1000, text: `${span.holder} ${span.epoch}` }));
    const times = [...new Set([...known.map((line) => Date.parse(line.at) / 1000), ...breaks])].sort((a, b) => a - b);
    const place = new Map(times.map((time, number) => [time, number]));
    const series = queries.map((query) => {
      const values = Array(times.length).fill(undefined); // no figure of this query: the line goes on
      for (const at of breaks) values[place.get(at)] = null; // nobody led: the line breaks
      for (const line of known) if (line.query === query) values[place.get(Date.parse(line.at) / 1000)] = this.valueOf(line);
      return values;
    });
    const key = queries.join(" ");
    if (this.key === key && this.plot) this.plot.setData([times, ...series]);
    else this.#begin(queries, [times, ...series]);
    this.key = key;
    return true;
  }

  #begin(queries, data) {
    this.plot?.destroy();
    const colour = (name) => getComputedStyle(this.place).getPropertyValue(name);
    const probe = element("i");
    this.place.append(probe);
    const real = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
    const [dim, line, gap, ...colours] = ["--dim", "--line", "--gap", "--a", "--b", "--c", "--d"].map(real);
    probe.remove();
    const font = `12px ${colour("font-family") || "sans-serif"}`;
    const ends = { stroke: dim, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    this.names.replaceChildren(legend(queries));
    this.plot = new uPlot({
      width: this.width, height: HEIGHT, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false }, cursor: { drag: { x: false, y: false } },
      series: [{}, ...queries.map((query, number) => ({ label: query, stroke: colours[number % 4], width: 1.5, dash: dashOf(number), spanGaps: false, points: { show: data[0].length < 300, size: 4 } }))],
      axes: [{ ...ends, values: (plot, ticks) => ticks.map((at) => new Date(at * 1000).toISOString().slice(11, 19)), space: 70 }, { ...ends, size: 62, values: (plot, ticks) => ticks.map((value) => `${value} ${this.unit}`) }],
      scales: { y: { range: (plot, low, high) => [0, Math.max(high * 1.25, 0.1)] } },
      hooks: { draw: [(plot) => this.#draw(plot, gap, font)] },
    }, data, this.box);
  }

  #draw(plot, colour, font) {
    const { ctx, bbox } = plot;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.font = font.replace("12px", `${11 * scale}px`);
    ctx.setLineDash([4 * scale, 3 * scale]);
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(mark.text, Math.min(x + 3 * scale, bbox.left + bbox.width - 60 * scale), bbox.top + 11 * scale);
    }
    ctx.restore();
  }
}
