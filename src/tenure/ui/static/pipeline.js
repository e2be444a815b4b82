// One pipeline: verdict, terms, members, the last takeover, batches, checkpoints, events.

import { Table, ago, byId, bytes, chooser, chosen, clock, element, finder, lasting, nowWord, pill } from "./dom.js";
import { secondsOf, timeLine, waterfall } from "./drawings.js";
import { Chart } from "./charts.js";
import { Live } from "./live.js";
import { actionsOf } from "./actions.js";

const RANGES = { "": "all that is kept", 900: "15 min", 3600: "1 h", 21600: "6 h", 86400: "1 d", 604800: "7 d" };
const OF_BATCHES = new Set(["BatchStarted", "CheckpointSaved", "BatchCommitted"]);
const OF_TROUBLE = /Failed|Ended|Away|Silent|Skipped|Refused|Paused|Left|Delayed|Orphans/;
const MOST_EVENTS = 100, MOST_BATCHES = 50;

export function showPipeline(scope, session) {
  document.title = `${scope} – Tenure`;
  byId("title").textContent = scope;
  const main = byId("main");
  const section = (title, kind, ...children) => {
    const made = element("section", { class: kind, "aria-label": title }, element("h2", {}, title), ...children);
    main.append(made);
    return made;
  };
  const table = (caption, columns, empty) => new Table(caption, columns, { empty });
  const folded = (what, node) => element("details", {}, element("summary", {}, `${what}, as a table`), node);

  const live = new Live(scope && document.documentElement.dataset.alone ? "/api/live" : `/api/p/${encodeURIComponent(scope)}/live`, (names) => redraw(names));
  const say = element("div", { class: "findings" });
  main.append(element("section", { class: "wide verdict", "aria-label": "verdict" }, say));
  const actions = actionsOf(scope, session, live);
  if (actions) main.append(actions.node);

  const line = element("div", { class: "drawing" });
  const terms = table("terms, the newest first", ["epoch", "holder", "from", "to", "lasted", "why it ended"], "nobody ever led");
  section("Terms", "wide", element("div", { class: "controls" }, chooser("Time", "range", RANGES, () => drawLine())), line, terms.node);

  const members = table("members", ["member", "role", "state", "host", "joined", "mirror is behind", "driver", "tags", "answers"], "no member lives");
  const reach = element("p", { class: "dim" });
  section("Members", "wide", members.node, reach);

  const phases = element("div", { class: "drawing" });
  const phaseRows = table("phases of the takeover", ["phase", "from", "took"], "no phase is known");
  const which = element("select", { id: "which-takeover", onchange: () => drawTakeover() });
  const took = section("Takeover", "half", element("div", { class: "controls" }, element("label", {}, "Term ", which)), phases, folded("the phases", phaseRows.node));

  const seconds = element("div"), rows = element("div"), behind = element("div");
  const charts = [new Chart(seconds, "s", (one) => one.seconds), new Chart(rows, "rows", (one) => one.rows), new Chart(behind, "offsets", (one) => one.behind)];
  const noBatches = element("p", { class: "dim" }, "no member has said anything of batches yet");
  const batchRows = table("the newest batches", ["at", "query", "batch", "epoch", "took", "rows"], "none");
  section("Batches", "half", element("h3", {}, "Seconds"), seconds, noBatches, rows, behind, folded("the newest batches", batchRows.node));

  const queries = table("the newest checkpoint of each query", ["query", "batch", "epoch", "planned", "offsets behind", "kept"], "none is planned");
  section("Checkpoints", "half", queries.node);
  const mirrors = table("mirrors and the sweep", ["what", "how far"], "nothing is known");
  section("Mirrors and sweep", "half", mirrors.node);

  const events = table("events, the newest first", ["at", "of", "event", "text"], "none that fits");
  events.table.classList.add("compact");
  section("Events", "wide", element("div", { class: "controls" }, finder("Filter", "events", () => drawEvents()),
    chooser("Kind", "kind", { "": "all but batches", trouble: "trouble", all: "all" }, () => drawEvents())), events.node);

  let said = null, lastTakeovers = "";
  new ResizeObserver(() => { drawLine(); drawTakeover(); }).observe(line);
  setInterval(() => { drawLine(); drawTerms(); drawQueries(); }, 1000);

  function redraw(names) {
    const has = (...wanted) => wanted.some((name) => names.has(name));
    if (has("verdict", "office")) drawVerdict();
    if (has("terms", "spans")) { drawLine(); drawTerms(); }
    if (has("members", "says", "office")) drawMembers();
    if (has("takeovers")) drawTakeovers();
    if (has("batches", "backlog", "spans")) drawBatches();
    if (has("queries", "checkpoints")) drawQueries();
    if (has("members", "sweep")) drawMirrors();
    if (has("events")) drawEvents();
    actions?.update();
  }

  function drawVerdict() {
    const { verdict, office } = live.parts;
    if (!verdict) return;
    say.replaceChildren(...verdict.findings.map((one, number) => element(number ? "div" : "p", { class: number ? "finding" : "finding first", "data-rule": one.rule },
      pill(one.level), element(number ? "span" : "strong", {}, one.sentence),
      one.cause ? element("span", { class: "note" }, one.cause) : null,
      one.do ? element("span", { class: "note" }, "to do: ", element("code", {}, one.do)) : null)));
    const asked = office?.switchover;
    if (asked) say.append(element("p", { class: "note" }, `a switchover${asked.to ? ` to ${asked.to}` : ""} is asked for${asked.by ? ` by ${asked.by}` : ""}${asked.reason ? `: ${asked.reason}` : ""}`));
    if (!office) return;
    const leader = office.leader ? `${office.leader} leads, epoch ${office.epoch}` : "nobody leads";
    if (leader === said) return;
    if (said !== null) byId("announce").textContent = leader; // only a change is said
    said = leader;
    document.documentElement.dataset.leader = office.leader ?? "";
    document.documentElement.dataset.leaderAt = String(Date.now());
  }

  function drawLine() { timeLine(line, live.parts.spans ?? [], Number(chosen("range")) * 1000); }

  function drawTerms() {
    const spans = live.parts.spans ?? [], known = new Map((live.parts.terms ?? []).map((term) => [term.epoch, term]));
    terms.update([...spans].reverse().filter((span) => span.kind === "term" || secondsOf(span) >= 1).slice(0, 40).map((span) => {
      const to = span.until ? clock(span.until) : nowWord();
      const lasted = lasting(secondsOf(span));
      if (span.kind !== "term") return [`${span.kind} ${span.since}`, ["", { text: span.kind === "gap" ? "nobody led" : "nobody knows", mark: "bad" }, clock(span.since), to, lasted, span.kind === "gap" ? "" : "after the last known sign of the leader"]];
      const term = known.get(span.epoch);
      return [`term ${span.epoch}`, [span.epoch, span.holder, clock(span.since), to, lasted, term?.why ? { text: term.why, note: term.note ? `${term.holder} said later: ${term.note}` : "" } : "it leads"]];
    }));
  }

  function drawMembers() {
    const says = new Map((live.parts.says ?? []).map((one) => [one.member, one])), all = live.parts.members ?? [];
    members.update(all.map((one) => {
      const answer = says.get(one.member);
      const answers = !one.has_probes ? "serves no --http" : !answer ? "" : answer.trouble ? { text: "no", mark: "bad", note: answer.trouble } : "yes";
      const driver = !answer || answer.trouble ? "" : answer.silent_s > 5 ? { text: `silent for ${lasting(answer.silent_s)}`, mark: "bad" } : "gives signs of life";
      return [one.member, [
        { text: one.member, mark: one.role === "leader" ? "strong" : "" }, one.role,
        { text: answer?.away ? "away" : one.state, mark: { leading: "ok", warm: "ok", failing: "bad" }[one.state] ?? "warn", note: answer?.away || one.trouble || "" },
        `${one.host}, pid ${one.pid}`, { text: clock(one.joined), title: one.joined },
        one.lag ? `${one.lag.batches} batches, ${bytes(one.lag.bytes)}` : "", driver, one.tags.join(", "), answers]];
    }));
    const asked = all.filter((one) => one.has_probes), answering = asked.filter((one) => says.get(one.member) && !says.get(one.member).trouble);
    reach.hidden = !all.length || answering.length > 0;
    reach.textContent = !all.length || answering.length ? "" : asked.length ? "No member answers: this page has what the store knows, and no more." : "No member serves --http: this page has what the store knows, and no events and batches.";
  }

  function drawTakeovers() {
    const found = live.parts.takeovers ?? [];
    const names = found.map((one) => `${one.epoch} ${one.holder}`).join("|");
    if (names !== lastTakeovers) {
      const kept = which.selectedIndex > 0 ? which.value : "";
      lastTakeovers = names;
      which.replaceChildren(...[...found].reverse().map((one) => element("option", { value: one.epoch, selected: String(one.epoch) === kept }, `${one.epoch}: ${one.holder}, ${clock(one.since)}`)));
    }
    drawTakeover();
  }

  function drawTakeover() {
    const found = live.parts.takeovers ?? [];
    const one = found.find((each) => String(each.epoch) === which.value) ?? found.at(-1);
    took.classList.toggle("nothing", !one);
    phaseRows.update((one?.bars ?? []).map((bar, number) => [`${number} ${bar.text}`, [bar.text, clock(bar.since), lasting((Date.parse(bar.until) - Date.parse(bar.since)) / 1000 + bar.before_s)]]));
    if (one) waterfall(phases, one); else phases.replaceChildren(element("p", { class: "dim" }, "no phase of a takeover is known yet"));
  }

  function drawBatches() {
    const batches = live.logs.batches ?? [], spans = live.parts.spans ?? [];
    const shown = charts[0].update(batches, spans);
    charts[1].update(batches, spans);
    charts[2].update(live.logs.backlog ?? [], spans);
    noBatches.hidden = shown;
    batchRows.update([...batches].reverse().slice(0, MOST_BATCHES).map((one) => [`${one.of} ${one.number} ${one.at}`, [clock(one.at), one.query, one.batch, one.epoch, `${one.seconds.toFixed(2)} s${one.repeated ? " (the sink had it)" : ""}`, one.rows]]));
  }

  function drawQueries() {
    const kept = {};
    for (const one of live.parts.checkpoints ?? []) (kept[one.query] ??= []).push(one.batch);
    queries.update((live.parts.queries ?? []).map((one) => [one.query, [one.query, one.batch, one.epoch, { text: one.planned_at ? ago(one.planned_at) : "", title: one.planned_at }, one.behind, kept[one.query] ? `${kept[one.query][0]} to ${kept[one.query].at(-1)}` : ""]]));
  }

  function drawMirrors() {
    const found = (live.parts.members ?? []).filter((one) => one.role === "standby").map((one) => [one.member, [`mirror of ${one.member}`, one.lag ? `${one.lag.batches} batches and ${bytes(one.lag.bytes)} behind` : "mirrors nothing"]]);
    const sweep = live.parts.sweep;
    if (sweep) found.push(["sweep", [`sweep, ${clock(sweep.at)}`, sweepLine(sweep)]]);
    mirrors.update(found);
  }

  function drawEvents() {
    const kind = chosen("kind"), needle = chosen("events").toLowerCase();
    const fits = (one) => (kind === "all" || (kind === "trouble" ? OF_TROUBLE.test(one.event) : !OF_BATCHES.has(one.event)))
      && (!needle || `${one.of} ${one.event} ${one.text}`.toLowerCase().includes(needle));
    const found = (live.logs.events ?? []).filter(fits).sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-MOST_EVENTS).reverse();
    events.update(found.map((one) => [`${one.of} ${one.number} ${one.at}`, [{ text: clock(one.at), title: one.at }, one.of, one.event, one.text]]));
  }
}

function sweepLine(news) {
  if (news.event === "OrphansFound") return `${news.count} orphans found (${news.row}), removal goes on`;
  const left = news.left ? `, ${news.left} left${news.first ? `, the first: ${news.first}` : ""}` : "";
  if (news.event === "CleanupDelayed") return `cleanup tries again in ${lasting(news.again_s)}${left}`;
  return `${news.removed} removed in ${lasting(news.seconds)}${left}`;
}

