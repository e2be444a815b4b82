// Elements, times and tables. A table changes only the cells that differ, so the focus of the keyboard stays.

export const ROOT = document.documentElement.dataset.root;
export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child != null && child !== ""));
  return made;
}

// --- time ---

let ahead = 0; // how far the server's clock is ahead of this one, in ms

export const setNow = (now) => { ahead = Date.parse(now) - Date.now(); };
export const nowMs = () => Date.now() + ahead;

let frozen = null; // when the store was read last, while it does not answer

export const freeze = (time) => { frozen = time ? Date.parse(time) : null; };
export const knownUntilMs = () => frozen ?? nowMs(); // nothing is known of the time after it
export const nowWord = () => (frozen ? `as of ${clock(new Date(frozen).toISOString())}` : "now");

export function lasting(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return `${s.toFixed(2)} s`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export const ago = (time) => (time ? `${lasting(Math.floor((nowMs() - Date.parse(time)) / 1000) || 0)} ago`.replace("0.00 s ago", "now") : "–");

export function clock(time) {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return time || "–";
  const text = new Date(at).toISOString();
  return Math.abs(nowMs() - at) < 20 * 3600e3 ? text.slice(11, 19) : `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count, unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// --- words of a level: never by colour alone ---

export const WORDS = { bad: "needs you", warn: "look", ok: "ok" };
export const MARKS = { bad: "✖", warn: "▲", ok: "●" };

export function pill(level, word) {
  return element("span", { class: `pill ${level}` }, element("span", { "aria-hidden": "true" }, `${MARKS[level]} `), word ?? WORDS[level]);
}

// --- tables: a cell is text, or { text, title, href, code, level, mark, note, button } ---

export class Table {
  constructor(caption, columns, { empty = "none" } = {}) {
    this.columns = columns;
    this.rows = new Map();
    this.body = element("tbody", { role: "rowgroup" });
    const heads = columns.map((name) => element("th", { scope: "col", role: "columnheader" }, name));
    this.table = element("table", { role: "table" }, element("caption", { class: "unseen" }, caption),
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, heads)), this.body);
    this.none = element("p", { class: "dim" }, empty);
    this.node = element("div", { class: "table" }, this.table, this.none);
    this.table.hidden = true;
  }

  // rows: [key, cells] in order
  update(rows) {
    const kept = new Set(rows.map(([key]) => key));
    for (const [key, row] of this.rows) {
      if (!kept.has(key)) { row.node.remove(); this.rows.delete(key); }
    }
    let before = null;
    for (const [key, cells] of rows) {
      const row = this.rows.get(key) ?? this.#begin(key, cells.length);
      cells.forEach((cell, number) => {
        const signature = JSON.stringify(cell);
        if (row.signatures[number] !== signature) {
          row.signatures[number] = signature;
          row.cells[number].replaceChildren(...shown(cell));
          row.cells[number].classList.toggle("blank", cell == null || cell === "");
        }
      });
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== row.node) this.body.insertBefore(row.node, place);
      before = row.node;
    }
    this.table.hidden = rows.length === 0;
    this.none.hidden = rows.length > 0;
  }

  #begin(key, count) {
    const cells = Array.from({ length: count }, (_, number) => element("td", { role: "cell", "data-label": this.columns[number] }));
    const row = { cells, signatures: [], node: element("tr", { role: "row", "data-key": key }, cells) };
    this.rows.set(key, row);
    return row;
  }
}

function shown(cell) {
  if (cell == null || cell === "") return ["–"];
  if (typeof cell !== "object") return [String(cell)];
  const parts = [];
  if (cell.level) parts.push(pill(cell.level, cell.text));
  else if (cell.href) parts.push(element("a", { href: cell.href, title: cell.title }, cell.text));
  else if (cell.button) parts.push(element("button", { type: "button", onclick: cell.button.press }, cell.text));
  else if (cell.text) parts.push(element("span", { class: cell.mark, title: cell.title }, cell.text));
  if (cell.note) parts.push(element("span", { class: "note" }, cell.note));
  if (cell.code) parts.push(element("span", { class: "note" }, "to do: ", element("code", {}, cell.code)));
  return parts;
}

// --- the address keeps what a person chose ---

export const chosen = (name) => new URLSearchParams(location.search).get(name) ?? "";

export function choose(name, value) {
  const all = new URLSearchParams(location.search);
  if (value) all.set(name, value); else all.delete(name);
  history.replaceState(null, "", `${location.pathname}${all.size ? `?${all}` : ""}`);
}

export function chooser(label, name, options, changed) {
  const select = element("select", { id: `choose-${name}`, onchange: () => { choose(name, select.value); changed(select.value); } },
    Object.entries(options).map(([value, text]) => element("option", { value, selected: value === chosen(name) }, text)));
  return element("label", {}, `${label} `, select);
}

export function finder(label, name, changed) {
  const input = element("input", { type: "search", id: `find-${name}`, value: chosen(name), oninput: () => { choose(name, input.value); changed(input.value); } });
  return element("label", {}, `${label} `, input);
}
