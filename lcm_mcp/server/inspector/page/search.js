// A search across sessions, as lcm_grep does it: literal, all words, or a regular expression.

import { ask } from "./ask.js";
import { count, h, link, time, to } from "./dom.js";

export const title = ({ pattern }) => `Search ${pattern ?? ""}`;

const MODES = [["literal", "as it stands"], ["words", "all of its words"], ["regex", "a regular expression"]];
const SCOPES = [["all", "rows and summaries"], ["rows", "rows"], ["summaries", "summaries"]];

export async function draw({ pattern, mode = "literal", scope = "all", session }) {
  document.getElementById("needle").value = pattern ?? "";
  const drawn = h("section", {}, h("h1", {}, "Search"), asking(pattern, mode, scope, session));
  if (!pattern) return drawn;
  const hits = h("ol", { id: "hits" });
  const state = h("p", { role: "status" });
  const more = h("button", {}, "More hits");
  let cursor = null;
  let seen = 0;
  const add = async () => {
    const page = await ask("lcm_grep", { pattern, mode, scope, session: session || "*", limit: 20, cursor });
    seen += page.hits.length;
    hits.append(...page.hits.map((hit) => hitOf(hit, pattern, mode)));
    if (page.near.length) drawn.append(h("h2", {}, "Rows that hold all its words"), h("ol", {}, page.near.map((hit) => hitOf(hit, pattern, "words"))));
    cursor = page.next_cursor;
    more.hidden = !cursor;
    const all = page.total === null ? `at least ${count(page.at_least)}` : count(page.total);
    state.textContent = `${count(seen)} of ${all} shown. Searched: ${page.searched}.${page.reason ? ` It ${page.reason}.` : ""}`;
  };
  more.addEventListener("click", add);
  drawn.append(state, hits, more);
  await add();
  return drawn;
}

function asking(pattern, mode, scope, session) {
  const field = h("input", { id: "pattern", type: "search", value: pattern ?? "", maxlength: 500, required: true });
  const within = h("input", { id: "within", value: session ?? "", maxlength: 200 });
  const choice = (id, options, chosen) => h("select", { id }, options.map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
  const modes = choice("mode", MODES, mode);
  const scopes = choice("scope", SCOPES, scope);
  const go = (event) => {
    event.preventDefault();
    location.hash = to("search", { pattern: field.value, mode: modes.value, scope: scopes.value, session: within.value });
  };
  return h(
    "form",
    { onsubmit: go },
    h("label", { for: "pattern" }, "Text"),
    field,
    h("label", { for: "mode" }, "taken"),
    modes,
    h("label", { for: "scope" }, "in"),
    scopes,
    h("label", { for: "within" }, "of session (empty: all)"),
    within,
    h("button", {}, "Search"),
  );
}

function hitOf(hit, pattern, mode) {
  const ref = hit.ref.split("/").at(-1);
  const where = hit.kind === "summary" ? link("dag", { session: hit.session, node: ref.slice(1) }, ref) : link("conversation", { session: hit.session, at: ref }, ref);
  return h(
    "li",
    {},
    h("p", {}, where, ` in `, link("conversation", { session: hit.session }, hit.session), " ", hit.role ?? "summary", " ", time(hit.at), hit.removed ? h("mark", {}, "removed") : null),
    h("pre", {}, marked(hit.snippet, pattern, mode)),
    hit.also.length ? h("small", {}, "Also in ", hit.also.map((key, index) => [index ? ", " : "", link("conversation", { session: key }, key)])) : null,
  );
}

/** A snippet with the places of a literal pattern marked. */
function marked(snippet, pattern, mode) {
  const needles = mode === "literal" ? [pattern] : mode === "words" ? pattern.split(/\s+/).filter(Boolean) : [];
  if (!needles.length) return snippet;
  const safe = needles.map((needle) => needle.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return snippet.split(new RegExp(`(${safe})`, "giu")).map((piece, index) => (index % 2 ? h("mark", {}, piece) : piece));
}
