// The summaries as a picture: the frontier as one band, and under each node that is opened the band of its
// children, down to the rows they were made of. A block is as wide as the rows it covers are many.

import { ask } from "./ask.js";
import { rowOf } from "./conversation.js";
import { addresses, count, facts, h, link, many, number, table, time, to } from "./dom.js";

export const title = ({ session }) => `Summaries of ${session}`;

export async function draw({ session, node, row, cursor }) {
  const top = await ask("lcm_list", { session, frontier_only: true, limit: 100, cursor });
  const opened = node ? await lineage(top.session, `#${node}`, top.nodes) : [];
  const last = opened.at(-1);
  const leaf = last && !last.children.length ? await rowsOf(top.session, last.node) : { rows: [], next: null };
  const rows = leaf.rows;
  return h(
    "section",
    {},
    h("h1", {}, "Summaries"),
    h("p", {}, told(top)),
    top.note ? h("p", { class: "note" }, top.note) : null,
    picture(top, opened, rows, row),
    top.next_cursor ? h("p", {}, link("dag", { session, cursor: top.next_cursor }, "Later summaries")) : null,
    last ? detail(top.session, last.node, last.children) : null,
    rows.length ? words(top.session, rows, row) : null,
    leaf.next ? h("p", {}, link("conversation", { session: top.session, at: leaf.next }, "Its further rows")) : null,
    await everyNode(session, top),
  );
}

function told(page) {
  const nodes = page.total === 1 ? "One summary covers" : `${count(page.total)} summaries together cover`;
  if (!page.covered_end) return "Nothing is summarized yet.";
  return `${nodes} the conversation up to ${page.covered_end} of ${page.leaf}. Open one to see what it was made of.`;
}

/** The nodes from the frontier down to one, each with its children. */
async function lineage(session, id, frontier) {
  const found = [await ask("node", { session, id })];
  const standing = new Set(frontier.map((each) => each.id));
  while (!standing.has(found[0].node.id) && found[0].node.parents.length)
    found.unshift(await ask("node", { session, id: found[0].node.parents[0] }));
  return found;
}

/** The first rows under a leaf, and where they go on. */
async function rowsOf(session, node) {
  const page = await ask("conversation", { session, at: node.span[0], line: node.span[1], newer: true, limit: 100 });
  return { rows: page.rows, next: page.newer };
}

function picture(top, opened, rows, chosen) {
  const session = top.session;
  const bands = [{ label: "Frontier", blocks: [...top.nodes.map((each) => nodeBlock(session, each)), ...tail(top)] }];
  if (opened.length && !top.nodes.some((each) => each.id === opened[0].node.id))
    bands.push({ label: "Beside the frontier", blocks: [nodeBlock(session, opened[0].node)] });
  for (const each of opened)
    if (each.children.length) bands.push({ label: `Under ${each.node.id}`, blocks: each.children.map((child) => nodeBlock(session, child)) });
  const last = opened.at(-1)?.node;
  if (rows.length) bands.push({ label: `Rows of ${last.id}`, blocks: rows.map((row) => rowBlock(session, last, row)) });
  const open = new Set([...opened.map((each) => each.node.id), chosen]);
  return h("div", { class: "bands", onkeydown: walk }, bands.map((band) => drawBand(band, open)));
}

function nodeBlock(session, node) {
  const words = `${node.id}, depth ${node.depth}, ${node.span[0]} to ${node.span[1]}, ${many(node.rows, "row")}, ${node.source_tokens} tokens in ${node.tokens}`;
  return { id: node.id, weight: node.rows, kind: `depth${Math.min(node.depth, 3)}`, words, href: to("dag", { session, node: node.id.slice(1) }) };
}

/** What lies behind the last summary, word for word. */
function tail(top) {
  const covered = top.covered_end ? number(top.covered_end) : 0;
  const left = top.leaf ? number(top.leaf) - covered : 0;
  if (left <= 0 || top.next_cursor) return [];
  const words = `${many(left, "row")} up to ${top.leaf} without a summary yet`;
  return [{ id: "…", weight: left, kind: "tail", words, href: to("conversation", { session: top.session, at: `e${covered + 1}` }) }];
}

function rowBlock(session, node, row) {
  const said = row.parts.find((part) => part.text)?.text.slice(0, 80) ?? "";
  const answers = row.parts.length && row.parts.every((part) => part.kind === "tool_result");
  return { id: row.ref, weight: row.tokens ?? 1, kind: answers ? "tool" : row.role, words: `${row.ref}, ${row.role}: ${said}`, href: to("dag", { session, node: node.id.slice(1), row: row.ref }) };
}

/** A band of blocks, and the lines from the opened one to the band below. */
function drawBand({ label, blocks }, open) {
  const total = blocks.reduce((sum, block) => sum + block.weight, 0);
  const weights = blocks.map((block) => Math.max(block.weight, total / 200, 1));
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  let left = 0;
  let lines = null;
  const drawn = blocks.map((block, index) => {
    const width = (100 * weights[index]) / whole;
    const current = open.has(block.id);
    if (current) lines = funnel(left, left + width);
    left += width;
    return h(
      "li",
      { style: { width: `${width}%` } },
      h("a", { id: `block-${block.id}`, class: block.kind, href: block.href, title: block.words, "aria-label": block.words, "aria-current": current ? "true" : null }, h("span", { class: block.id.length > 3 ? null : "short" }, block.id)),
    );
  });
  return [h("h2", { class: "band" }, label), h("ol", { class: "band", "aria-label": label }, drawn), lines];
}

function funnel(left, right) {
  const shape = h("svg:path", { d: `M${left} 0H${right}L100 10H0Z` });
  return h("svg:svg", { class: "funnel", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, shape);
}

/** Arrow keys: along a band, down into a block, up to the band above. */
function walk(event) {
  const here = event.target.closest("ol.band li");
  if (!here || event.altKey || event.ctrlKey || event.metaKey) return;
  const bands = [...event.currentTarget.querySelectorAll("ol.band")];
  const above = bands[bands.indexOf(here.parentElement) - 1];
  const next = {
    ArrowLeft: () => here.previousElementSibling?.firstElementChild,
    ArrowRight: () => here.nextElementSibling?.firstElementChild,
    ArrowUp: () => above?.querySelector("[aria-current]") ?? above?.querySelector("a"),
    ArrowDown: () => {
      const below = bands[bands.indexOf(here.parentElement) + 1];
      if (here.firstElementChild.ariaCurrent && below) return below.querySelector("a");
      here.firstElementChild.click();
      return null;
    },
  }[event.key];
  if (!next) return;
  event.preventDefault();
  next()?.focus();
}

function detail(session, node, children) {
  return h(
    "article",
    { class: "node", "aria-label": `Node ${node.id}` },
    h("h2", {}, `Node ${node.id}`),
    facts([
      ["Covers", [link("conversation", { session, at: node.span[0] }, `${node.span[0]}..${node.span[1]}`), `, ${many(node.rows, "row")}`]],
      ["Size", `${count(node.source_tokens)} → ${count(node.tokens)} tokens`],
      ["Depth", node.depth],
      ["Level", ["", "1, detailed", "2, bullets", "3, truncated"][node.level] ?? node.level],
      ["Made by", node.model],
      ["Made", time(node.made_at)],
      ["Made of", children.length ? addresses(session, node.children) : "rows"],
      ["Part of", node.parents.length ? addresses(session, node.parents) : null],
      ["State", node.removed ? "removed: its rows are off the active path" : node.frontier ? "on the frontier" : null],
    ]),
    h("pre", {}, node.text),
    node.superseded.map((old) => h("details", {}, h("summary", {}, "An earlier text, superseded ", time(old.superseded_at)), h("pre", {}, old.text))),
    node.files.length ? h("details", {}, h("summary", {}, many(node.file_count, "file")), h("ul", {}, node.files.map((file) => h("li", {}, link("conversation", { session, at: file.ref }, file.id), ` ${file.path}: ${file.summary}`)))) : null,
  );
}

/** The words a leaf was made of: of the chosen row, or of all. */
function words(session, rows, chosen) {
  const shown = chosen ? rows.filter((row) => row.ref === chosen) : rows;
  return h("section", { "aria-label": "Original words" }, h("h2", {}, chosen ? `The words of ${chosen}` : "Its words"), shown.map((row) => rowOf(session, row)));
}

/** Every node as a table, also those that the picture leaves out. */
async function everyNode(session, top) {
  if (top.note) return null;
  const rest = h("details", {});
  const add = async (cursor) => {
    const page = await ask("lcm_list", { session, limit: 100, cursor });
    const rows = page.nodes.map((node) => [
      link("dag", { session: page.session, node: node.id.slice(1) }, node.id),
      node.depth,
      link("conversation", { session: page.session, at: node.span[0] }, `${node.span[0]}..${node.span[1]}`),
      count(node.rows),
      `${count(node.source_tokens)} → ${count(node.tokens)}`,
      [node.frontier ? "frontier" : null, node.removed ? "removed" : null].filter(Boolean).join(", "),
      node.preview,
    ]);
    rest.append(table(`Nodes, oldest rows first, of ${count(page.total)}`, ["Node", "Depth", "Rows from, to", "Rows", "Tokens", "State", "Begins"], rows));
    if (page.next_cursor) {
      const more = h("button", { onclick: () => (more.remove(), add(page.next_cursor)) }, "More nodes");
      rest.append(more);
    }
  };
  rest.append(h("summary", {}, "All nodes as a table"));
  rest.addEventListener("toggle", () => rest.children.length === 1 && add(null));
  return rest;
}
