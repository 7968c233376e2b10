// A session's conversation: rows in their units, calls, results, images, and where branches leave.

import { ask, imageOf } from "./ask.js";
import { count, h, link, many, time, to } from "./dom.js";

const LONG = 600;

export const title = ({ session }) => `Conversation of ${session}`;

export async function draw({ session, at, line }) {
  const page = await ask("conversation", { session, at, line, newer: at ? true : null });
  const rows = h("div", { id: "rows" }, page.rows.map((row) => rowOf(page.session, row)));
  return h(
    "section",
    {},
    h("h1", {}, "Conversation"),
    page.line === page.leaf
      ? null
      : h("p", { class: "note" }, `This is a branch that was removed; it ends at ${page.line}. `, link("conversation", { session }, "The active path")),
    page.rows.length ? null : h("p", {}, "This session has no rows."),
    h("p", {}, link("conversation", { session, line, at: page.first }, "First row"), " · ", link("conversation", { session, at: line, line }, "Last row")),
    further(session, line, page, rows, false),
    rows,
    further(session, line, page, rows, true),
  );
}

/** Shows the row that was asked for, else the newest. */
export function settle({ at }) {
  const row = at ? document.getElementById(at) : document.querySelector("#rows")?.lastElementChild;
  row?.scrollIntoView({ block: at ? "start" : "end" });
}

/** A button that adds the rows before or after those shown; hidden where there are none. */
function further(session, line, page, rows, newer) {
  const button = h("button", { class: "further", id: newer ? "newer" : "older" }, newer ? "Newer rows" : "Older rows");
  let from = newer ? page.newer : page.older;
  button.hidden = !from;
  button.addEventListener("click", async () => {
    const next = await ask("conversation", { session, line, at: from, newer: newer || null });
    const made = next.rows.map((row) => rowOf(next.session, row));
    if (newer) rows.append(...made);
    else rows.prepend(...made);
    from = newer ? next.newer : next.older;
    button.hidden = !from;
  });
  return button;
}

/** Where the newest rows are shown, those that came since are added below them; null where all is to be drawn anew. */
export async function renew({ session, line }, drawn) {
  const rows = drawn.querySelector("#rows");
  const last = rows.lastElementChild?.id;
  if (line || !last || !drawn.querySelector("#newer").hidden) return drawn;
  const page = await ask("conversation", { session, at: last, newer: true });
  if (page.line !== page.leaf) return null;
  rows.append(...page.rows.slice(1).map((row) => rowOf(page.session, row)));
  const button = further(session, line, page, rows, true);
  drawn.querySelector("#newer").replaceWith(button);
  return drawn;
}

/** What the calls seen so far were of, by their ids: a result does not say it itself. */
const called = new Map();

/** One row with its parts. */
export function rowOf(session, row) {
  const answers = row.parts.length > 0 && row.parts.every((part) => part.kind === "tool_result");
  for (const part of row.parts) if (part.kind === "tool_call") called.set(part.call, part.name);
  const marks = [row.removed ? "removed" : null, row.pinned ? "pinned" : null].filter(Boolean);
  return h(
    "article",
    { id: row.ref, class: `row ${answers ? "tool" : row.role}${row.opens ? " opens" : ""}`, tabindex: "-1", "aria-label": `${row.ref}, ${row.role}` },
    row.opens ? h("h2", { class: "unit" }, `Unit from ${row.ref}`) : null,
    h(
      "header",
      {},
      h("a", { href: to("conversation", { session, at: row.ref }), class: "ref" }, row.ref),
      h("b", {}, answers && row.role !== "tool" ? `tool, sent as ${row.role}` : row.role),
      time(row.at),
      row.tokens === undefined ? null : h("span", {}, many(row.tokens, "token")),
      row.node ? h("span", {}, "under ", link("dag", { session, node: row.node.slice(1) }, row.node)) : null,
      marks.map((mark) => h("mark", {}, mark)),
    ),
    row.parts.map((part) => partOf(session, row, part)),
    row.more_parts ? h("p", {}, `${many(row.more_parts, "more part")}. `, whole(session, row)) : null,
    (row.branches ?? []).map((branch) =>
      h("p", { class: "branch" }, branch.active ? "The active path goes on with " : "A removed branch leaves here: ",
        link("conversation", { session, at: branch.first, line: branch.active ? null : branch.last }, `${branch.first}..${branch.last}`)),
    ),
    row.more_branches ? h("p", { class: "branch" }, `And ${count(row.more_branches)} more, which lcm-mcp tree names`) : null,
    (row.starts ?? []).map((begun) =>
      h("p", { class: "branch" }, `A ${begun.link} starts here: `, link("conversation", { session: begun.session }, begun.session), begun.title ? ` · ${begun.title}` : null),
    ),
    row.more_starts ? h("p", { class: "branch" }, `${many(row.more_starts, "more session")} that start here: `, link("sessions", {}, "all sessions")) : null,
  );
}

const WORDS = { text: "", reasoning: "Reasoning", tool_call: "Calls", tool_result: "Result", image: "", other: "Block" };

function partOf(session, row, part) {
  const words = [
    part.text ? h("pre", {}, part.text) : null,
    part.more ? h("p", {}, `${many(part.more, "more character")}. `, whole(session, row)) : null,
    part.images.map((image) => pictureOf(session, image)),
  ];
  if (part.kind === "text" || part.kind === "image") return h("div", { class: "part" }, words);
  const named = [WORDS[part.kind], part.is_error ? "error" : null, part.kind === "tool_result" ? called.get(part.call) : null, part.name, part.file].filter(Boolean).join(" · ");
  const open = part.kind !== "reasoning" && part.text.length <= LONG;
  return h(
    "details",
    { class: `part ${part.kind}${part.is_error ? " error" : ""}`, open },
    h("summary", {}, named, " ", h("small", {}, many(part.text.length + part.more, "character"))),
    words,
  );
}

/** A button that reads a row to its end, a page at a time. */
function whole(session, row) {
  const button = h("button", {}, "Read the whole row");
  let cursor = null;
  button.addEventListener("click", async () => {
    const page = await ask("lcm_expand", { session, id: row.ref, max_bytes: 100000, cursor });
    button.before(h("pre", { class: "whole" }, page.rows.map((piece) => piece.text).join("")));
    cursor = page.next_cursor;
    button.textContent = "Read on";
    if (!cursor) button.remove();
  });
  return button;
}

function pictureOf(session, image) {
  const size = image.width ? `${image.width}×${image.height}, ` : "";
  const words = `${image.media_type}, ${size}${count(image.bytes)} bytes`;
  const figure = h("figure", {}, h("figcaption", {}, image.number === null ? `${words}; its bytes were not stored` : words));
  if (image.number !== null) whenSeen(figure, async () => shown(figure, await imageOf(session, image), words));
  return figure;
}

function shown(figure, blob, words) {
  if (!blob || !blob.type.startsWith("image/")) {
    figure.append(h("p", {}, "No picture a browser may show."));
    return;
  }
  const url = URL.createObjectURL(blob);
  const free = () => URL.revokeObjectURL(url);
  figure.prepend(h("img", { src: url, alt: `Stored image, ${words}`, onload: free, onerror: free }));
}

function whenSeen(element, act) {
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    act();
  });
  watch.observe(element);
}
