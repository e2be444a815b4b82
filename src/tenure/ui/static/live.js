// The stream of a page: its parts, whether they are old, and who is signed in.

import { ROOT, ago, byId, clock, element, freeze, setNow } from "./dom.js";

const MOST = 4000; // lines of a log

export class Live {
  // changed(names): these parts or logs have changed
  constructor(path, changed) {
    this.parts = {};
    this.logs = {};
    this.lostAt = null;
    this.path = path;
    this.changed = changed;
    this.old = element("section", { class: "old", hidden: true });
    byId("main").append(this.old);
    this.connect();
    setInterval(() => this.showAge(), 1000);
  }

  connect() {
    this.source?.close();
    this.source = new EventSource(`${ROOT}${this.path}`);
    this.source.onmessage = (message) => this.take(JSON.parse(message.data));
    this.source.onerror = () => {
      this.lostAt ??= new Date().toISOString();
      this.showAge();
      if (this.source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), 3000);
    };
  }

  take(update) {
    setNow(update.now);
    this.lostAt = null;
    if (update.first) this.logs = {};
    const names = new Set([...Object.keys(update.parts), ...Object.keys(update.logs)]);
    if (update.first) Object.keys(this.parts).filter((name) => !(name in update.parts)).forEach((name) => { names.add(name); delete this.parts[name]; });
    for (const [name, part] of Object.entries(update.parts)) {
      if (part === null) delete this.parts[name]; else this.parts[name] = part;
    }
    for (const [name, lines] of Object.entries(update.logs)) {
      this.logs[name] = [...(this.logs[name] ?? []), ...lines].slice(-MOST);
    }
    this.showAge();
    this.changed(names);
  }

  showAge() {
    const store = this.parts.store;
    freeze(this.lostAt || store?.away_since ? store?.read_at : null);
    const lines = [];
    if (this.lostAt) lines.push(`This page has no connection to its server since ${clock(this.lostAt)} UTC.`);
    if (store?.away_since) lines.push(`The store does not answer since ${clock(store.away_since)} UTC (${ago(store.away_since)}): ${store.why}`);
    if (lines.length && store) lines.push(store.read_at ? `The parts of the store below are old, as of ${clock(store.read_at)} UTC.` : "Nothing is known of the store yet.");
    const text = lines.join("\n");
    if (this.old.dataset.text !== text) {
      this.old.dataset.text = text;
      this.old.replaceChildren(...lines.map((line) => element("p", {}, line)));
      this.old.hidden = !lines.length;
    }
    document.documentElement.classList.toggle("is-old", lines.length > 0);
    byId("fresh").textContent = !store ? "connecting" : lines.length ? "old" : `live, ${clock(store.read_at)} UTC`;
  }
}
