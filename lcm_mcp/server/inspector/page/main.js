// Which view is shown, where its keys lead, and that it stays true while a session grows.

import { Refused, ask } from "./ask.js";
import * as context from "./context.js";
import * as conversation from "./conversation.js";
import * as dag from "./dag.js";
import { h, link, place } from "./dom.js";
import * as occupancy from "./occupancy.js";
import * as search from "./search.js";
import * as sessions from "./sessions.js";

const VIEWS = { sessions, conversation, dag, context, occupancy, search };
const NAMES = { sessions: "Sessions", conversation: "Conversation", dag: "Summaries", context: "Context", occupancy: "Occupancy" };
const LOOK_MS = 2000;

const main = document.querySelector("main");
let shown = 0;

/** The view and its arguments that the page's address names. */
function here() {
  const { name, args } = place(location.hash);
  const known = name in VIEWS && (args.session || !(name in NAMES));
  return { name: known ? name : "sessions", args };
}

async function show() {
  const { name, args } = here();
  const turn = ++shown;
  document.title = `${VIEWS[name].title(args)} · lcm-mcp`;
  menu(name, args);
  say("");
  main.setAttribute("aria-busy", "true");
  const drawn = await drawOf(name, args);
  if (turn !== shown) return;
  const kept = document.activeElement?.closest("main") ? document.activeElement.id : null;
  main.replaceChildren(drawn);
  main.removeAttribute("aria-busy");
  const again = kept && document.getElementById(kept);
  if (again) again.focus();
  else if (document.activeElement === document.body) main.focus({ preventScroll: true });
  VIEWS[name].settle?.(args);
}

async function drawOf(name, args) {
  try {
    return await VIEWS[name].draw(args);
  } catch (error) {
    if (!(error instanceof Refused)) reportError(error);
    const whose = error instanceof Refused ? "" : "A fault of this page, not of what is stored: ";
    return h("p", { class: "refusal", role: "alert" }, whose + error.message);
  }
}

function menu(name, { session }) {
  const views = session === undefined ? ["sessions"] : Object.keys(NAMES);
  const items = views.map((view) => {
    const item = link(view, view === "sessions" ? {} : { session }, NAMES[view]);
    if (view === name) item.setAttribute("aria-current", "page");
    return h("li", {}, item);
  });
  const of = session === undefined ? null : h("p", { class: "session" }, session);
  document.querySelector("#views").replaceChildren(h("ul", {}, items), ...(of ? [of] : []));
}

const say = (words) => (document.querySelector("#live").textContent = words);

// --- live: while somebody looks, ask whether anything has changed, and draw only then

async function state({ name, args }) {
  if (name === "search") return "";
  const told = name === "sessions" ? await ask("lcm_sessions", { project: "*", limit: 50, ...args }) : await ask("now", { session: args.session });
  return JSON.stringify(told);
}

async function live() {
  let before = null;
  let turn = 0;
  for (;;) {
    await new Promise((next) => setTimeout(next, LOOK_MS));
    if (document.hidden || document.querySelector("#unlock")) continue;
    try {
      if (turn !== shown) before = null;
      turn = shown;
      const at = here();
      const now = await state(at);
      if (before !== null && now !== before && turn === shown) await renew(at);
      before = now;
    } catch (error) {
      if (!(error instanceof Refused)) reportError(error);
      say(error.message);
    }
  }
}

async function renew({ name, args }) {
  const view = VIEWS[name];
  const drawn = view.renew ? await view.renew(args, main.firstElementChild) : null;
  if (!drawn) await show();
  say(`Up to date, ${new Date().toLocaleTimeString("sv")}`);
}

// --- keys and the search field

document.querySelector("#find").addEventListener("submit", (event) => {
  event.preventDefault();
  const pattern = document.querySelector("#needle").value;
  if (pattern) location.hash = `#/search?${new URLSearchParams({ pattern })}`;
});

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("#needle").focus();
  } else if (event.key === "j" || event.key === "k") {
    const rows = [...document.querySelectorAll("article.row")];
    const here = rows.indexOf(document.activeElement?.closest("article.row"));
    const next = rows[event.key === "j" ? here + 1 : here - 1];
    next?.focus();
  }
});

window.addEventListener("hashchange", show);
await show();
live();
