// Signing in, and the requests of an operator: only where the page was started with a token.

import { ROOT, byId, element } from "./dom.js";

async function send(path, method, body) {
  const answer = await fetch(`${ROOT}${path}`, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ?? `the answer is ${answer.status}`);
  return told;
}

export async function sessionOf() {
  const session = await (await fetch(`${ROOT}/api/session`)).json();
  const who = byId("who");
  if (!session.acts) return session;
  if (session.name) {
    who.append(`${session.name} `, element("button", { type: "button", onclick: async () => { await send("/api/session", "DELETE", {}); location.reload(); } }, "Sign out"));
  } else {
    who.append(element("button", { type: "button", onclick: () => signIn(session.reads) }, "Sign in"));
    if (!session.reads) signIn(false);
  }
  return session;
}

function signIn(mayClose) {
  const name = element("input", { name: "name", required: true, autocomplete: "username", pattern: "[\\w.@\\-]{1,64}" });
  const token = element("input", { name: "token", type: "password", required: true, autocomplete: "current-password" });
  ask("Sign in", "Sign in", [["Your name, for the history", name], ["Token, as in the file of --token-file", token]],
    async () => { await send("/api/session", "POST", { name: name.value, token: token.value }); location.reload(); }, mayClose);
}

// A dialog with fields; `done` does it, and raises what went wrong.
function ask(title, verb, fields, done, mayClose = true) {
  const wrong = element("p", { class: "bad", role: "alert" });
  const form = element("form", { method: "dialog" }, element("h2", { id: "dialog-title" }, title),
    fields.map(([label, control]) => element("label", {}, label, control)), wrong,
    element("div", { class: "controls" }, element("button", { type: "submit", class: "strong" }, verb),
      mayClose ? element("button", { type: "button", onclick: () => dialog.close() }, "Cancel") : null));
  const dialog = element("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    try { await done(); dialog.close(); } catch (error) { wrong.textContent = error.message; }
  });
  document.body.append(dialog);
  dialog.showModal();
}

// The section of a pipeline; null: nobody is signed in.
export function actionsOf(scope, session, live) {
  if (!session.acts || !session.name) return null;
  const told = element("p", { class: "dim" });
  const pause = element("button", { type: "button", onclick: () => order(live.parts.office?.is_paused ? "resume" : "pause") }, "Pause");
  const buttons = ["switchover", "failover", "restart"].map((kind) => element("button", { type: "button", onclick: () => order(kind) }, kind[0].toUpperCase() + kind.slice(1)));

  function order(kind) {
    const members = live.parts.members ?? [];
    const fields = [], reason = element("input", { name: "reason", maxlength: 300 });
    const choices = kind === "restart" ? members : members.filter((one) => one.role !== "leader");
    const member = element("select", { name: "member" }, kind === "restart" ? null : element("option", { value: "" }, "the best standby"), choices.map((one) => element("option", { value: one.member }, one.member)));
    const typed = element("input", { name: "typed", autocomplete: "off", required: true });
    if (["switchover", "failover"].includes(kind)) fields.push(["Next leader", member]);
    if (kind === "restart") fields.push(["Member", member]);
    if (kind !== "resume") fields.push(["Reason, for the history", reason]);
    if (kind === "failover") fields.push([`The term ends at once. Type ${scope} to confirm`, typed]);
    ask(`${kind[0].toUpperCase()}${kind.slice(1)} ${scope}`, kind, fields, async () => {
      const { done } = await send(`/api/p/${encodeURIComponent(scope)}/${kind}`, "POST", { member: member.value, reason: reason.value, typed: typed.value });
      told.textContent = done;
    });
  }

  const node = element("section", { class: "wide", "aria-label": "Actions" }, element("h2", {}, "Actions"), element("div", { class: "controls" }, buttons, pause), told);
  return { node, update: () => { pause.textContent = live.parts.office?.is_paused ? "Resume" : "Pause"; } };
}
