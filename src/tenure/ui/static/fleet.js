// All pipelines: one line for all, then the worst first.

import { ROOT, Table, ago, byId, chooser, chosen, element, finder, pill } from "./dom.js";
import { Live } from "./live.js";

const ORDER = { bad: 0, warn: 1, ok: 2 };
const COLUMNS = ["state", "pipeline", "verdict", "leader", "standbys", "newest batch"];

export function showFleet() {
  document.title = "Tenure";
  const say = element("div", { class: "say" });
  const controls = element("div", { class: "controls" },
    finder("Filter", "q", () => draw()),
    chooser("Show", "level", { "": "all", bad: "those that need you", warn: "those to look at, and worse" }, () => draw()),
    chooser("Group", "group", { "": "no", prefix: "by prefix" }, () => draw()));
  const groups = element("div");
  byId("main").append(element("section", {}, say), element("section", {}, element("h2", {}, "Pipelines"), controls, groups));
  const tables = new Map(); // prefix -> its table, and its heading

  const live = new Live("/api/live", () => draw());
  setInterval(() => draw(), 5000); // ages

  function draw() {
    const all = live.parts.all;
    if (!all) return;
    say.replaceChildren(pill(all.level), element("strong", {}, all.sentence),
      element("span", { class: "dim" }, `${all.bad} need you, ${all.warn} to look at, ${all.ok} ok; store ${live.parts.store?.name ?? ""}`));
    const needle = chosen("q").toLowerCase(), worst = ORDER[chosen("level")] ?? 2, byPrefix = chosen("group") === "prefix";
    const rows = Object.entries(live.parts).filter(([name]) => name.startsWith("row ")).map(([, row]) => row)
      .filter((row) => ORDER[row.level] <= worst && matches(row, needle))
      .sort((a, b) => ORDER[a.level] - ORDER[b.level] || (a.scope < b.scope ? -1 : 1));
    const grouped = new Map();
    for (const row of rows) {
      const prefix = byPrefix ? prefixOf(row.scope) : "";
      grouped.set(prefix, [...(grouped.get(prefix) ?? []), row]);
    }
    if (!grouped.size) grouped.set("", []);
    for (const [prefix, group] of tables) {
      if (!grouped.has(prefix)) { group.node.remove(); tables.delete(prefix); }
    }
    let before = null;
    for (const [prefix, members] of [...grouped].sort((a, b) => (byPrefix ? (a[0] < b[0] ? -1 : 1) : 0))) {
      const group = tables.get(prefix) ?? begin(prefix);
      group.heading.replaceChildren(prefix ? `${prefix} ` : "", element("span", { class: "dim" }, prefix ? summary(members) : ""));
      group.table.update(members.map((row) => [row.scope, cells(row)]));
      const place = before ? before.nextSibling : groups.firstChild;
      if (place !== group.node) groups.insertBefore(group.node, place);
      before = group.node;
    }
    if (all.shown < all.total) before.append(element("p", { class: "dim" }, `the worst ${all.shown} of ${all.total}`));
  }

  function begin(prefix) {
    const table = new Table(prefix ? `pipelines ${prefix}` : "pipelines", COLUMNS, { empty: "no pipeline fits the filter" });
    const heading = element(prefix ? "h3" : "span", {});
    const group = { table, heading, node: element("div", { class: "group" }, heading, table.node) };
    tables.set(prefix, group);
    return group;
  }
}

const matches = (row, needle) => !needle || [row.scope, row.leader, row.sentence, row.cause].some((text) => text?.toLowerCase().includes(needle));
const prefixOf = (scope) => /^[^-_.=]+/.exec(scope)?.[0] ?? scope;

function summary(rows) {
  const bad = rows.filter((row) => row.level === "bad").length;
  return `${rows.length}${bad ? `, ${bad} of which need you` : ""}`;
}

function cells(row) {
  const word = row.has_ended ? "ended" : row.is_paused && row.level === "warn" ? "paused" : undefined;
  return [
    { level: row.level, text: word },
    { text: row.scope, href: `${ROOT}/p/${encodeURIComponent(row.scope)}` },
    { text: row.sentence, note: row.cause, code: row.level === "ok" ? "" : row.do },
    row.leader ? `${row.leader}, epoch ${row.epoch}` : row.epoch ? `nobody, epoch ${row.epoch}` : "nobody",
    row.standbys ? `${row.ready} of ${row.standbys} ready` : "",
    { text: row.planned_at ? ago(row.planned_at) : "", title: row.planned_at },
  ];
}
