// Elements made of words. Stored text is hostile: it only ever becomes a text node, never markup, and no
// address in a link comes from it. What stands here is all that touches the document's structure.

/** An element; props are attributes, but on… are listeners; children are nodes or words, empty ones left out. */
export function h(tag, props = {}, ...children) {
  const made = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, set] of Object.entries(value)) made.style.setProperty(key, set);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** The address of a view; arguments that are empty are left out. */
export function to(view, args = {}) {
  const given = Object.entries(args).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

/** The view and the arguments that an address names. */
export function place(address) {
  const [name, query] = address.replace(/^#\//, "").split("?");
  return { name, args: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export const link = (view, args, ...children) => h("a", { href: to(view, args) }, ...children);

export const count = (number) => number.toLocaleString("en");
export const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** A time as its reader's clock tells it, whole under the pointer. */
export function time(at) {
  if (!at) return "";
  const moment = new Date(at);
  const shown = Number.isNaN(moment.getTime())
    ? at
    : moment.toLocaleString("sv", { dateStyle: "short", timeStyle: "short" });
  return h("time", { datetime: at, title: at }, shown);
}

/** Facts as a list of terms; those without a value are left out. */
export function facts(pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

const said = (cell) => (cell instanceof Node ? cell.textContent : String(cell ?? ""));
const isFigure = (cell) => /^[\d,.%]*$/.test(said(cell));

/** A table with a caption; rows are lists of cells, the first of which heads its row. Columns of figures end alike. */
export function table(caption, heads, rows) {
  const figure = heads.map((_, column) => (column && rows.length && rows.every((row) => isFigure(row[column])) ? "figure" : null));
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, heads.map((head, column) => h("th", { scope: "col", class: figure[column] }, head)))),
      h("tbody", {}, rows.map(([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell, column) => h("td", { class: figure[column + 1] }, cell))))),
    ),
  );
}

/** Addresses of a session (#12, e104, e104..e238) as links to what they name. */
export function addresses(session, refs) {
  return refs.map((ref, index) => [index ? " " : "", address(session, ref)]);
}

export function address(session, ref) {
  if (ref.startsWith("#")) return link("dag", { session, node: ref.slice(1) }, ref);
  return link("conversation", { session, at: ref.split("..")[0] }, ref);
}

/** The number of a row: 104 of e104. */
export const number = (ref) => Number(ref.slice(1));
