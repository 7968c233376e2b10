// How full requests were as the conversation grew: what each weighed, the window, and the cuts between.

import { ask } from "./ask.js";
import { address, count, h, number, table, time } from "./dom.js";

const WIDE = 800;
const HIGH = 320;
const LEFT = 70;
const BELOW = 46;
const CLOSE = 26;
const LINE = 12;

export const title = ({ session }) => `Occupancy of ${session}`;

export async function draw({ session }) {
  const trail = await ask("trail", { session });
  const points = [...trail.points];
  let cursor = trail.next_cursor;
  while (cursor) {
    const page = await ask("trail", { session, cursor });
    points.push(...page.points);
    cursor = page.next_cursor;
  }
  points.reverse();
  return h(
    "section",
    {},
    h("h1", {}, "Occupancy"),
    points.length ? null : h("p", { class: "note" }, "No request was prepared in this session yet: the plot shows how the conversation itself grew."),
    trail.samples.length ? plot(trail.samples, points) : h("p", {}, "This session has no rows."),
    points.length ? requests(trail.session, points) : null,
  );
}

function plot(samples, points) {
  const rows = Math.max(...samples.map((each) => number(each.row)), ...points.map((each) => number(each.row)), 2);
  const shown = points.flatMap((each) => [each.after_tokens, each.before_tokens, each.window_tokens ?? 0, each.provider_input_tokens ?? 0]);
  const most = nice(Math.max(...(points.length ? shown : samples.map((each) => each.tokens)), 1));
  const x = (row) => LEFT + ((number(row) - 1) / (rows - 1)) * (WIDE - LEFT - 10);
  const y = (tokens) => 10 + (1 - Math.min(tokens, most) / most) * (HIGH - BELOW - 10);
  const cuts = points.filter((each, index) => each.cut && each.cut !== points[index - 1]?.cut);
  // The name of a cut that stands close behind another one is written below that one's.
  const heights = cuts.map(() => 20);
  for (let at = 1; at < cuts.length; at++)
    if (x(cuts[at].row) - x(cuts[at - 1].row) < CLOSE) heights[at] = heights[at - 1] + LINE > HIGH - BELOW ? 20 : heights[at - 1] + LINE;
  const title = `Tokens of ${count(points.length)} requests over ${count(rows)} rows, with ${count(cuts.length)} cuts`;
  return h(
    "figure",
    { class: "plot" },
    h(
      "svg:svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title}. The table below has the figures.` },
      axes(samples, most, x, y),
      line("growth", samples.filter((each) => each.tokens <= most).map((each) => [x(each.row), y(each.tokens)])),
      steps("window", points, (each) => each.window_tokens, x, y),
      steps("trigger", points, (each) => each.trigger_tokens, x, y),
      line("requests", points.flatMap((each) => (each.before_tokens > each.after_tokens ? [[x(each.row), y(each.before_tokens)]] : []).concat([[x(each.row), y(each.after_tokens)]]))),
      cuts.map((each, index) => h("svg:g", { class: "cut" }, h("svg:line", { x1: x(each.row), x2: x(each.row), y1: 10, y2: HIGH - BELOW }), h("svg:text", { x: x(each.row) - 3, y: heights[index], "text-anchor": "end" }, each.cut))),
      points.map((each) => h("svg:circle", { cx: x(each.row), cy: y(each.after_tokens), r: 3, class: "request" }, h("svg:title", {}, told(each)))),
      points.filter((each) => each.provider_input_tokens !== null).map((each) => h("svg:circle", { cx: x(each.row), cy: y(each.provider_input_tokens), r: 2.5, class: "provider" })),
    ),
    h("figcaption", {}, keys(points)),
  );
}

function keys(points) {
  const named = [["growth", "the conversation, whole and word for word"]];
  if (points.length) named.push(["requests", "what a request showed"], ["window", "the window"], ["trigger", "compaction starts"], ["cut", "a cut"]);
  if (points.some((each) => each.provider_input_tokens !== null)) named.push(["provider", "what the provider counted"]);
  return named.map(([kind, words]) => h("span", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), ` ${words} `));
}

function line(kind, places) {
  if (!places.length) return null;
  return h("svg:polyline", { class: kind, points: places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") });
}

/** A value that holds until the next request names another. */
function steps(kind, points, value, x, y) {
  const known = points.filter((each) => value(each) !== null);
  const places = known.flatMap((each, index) => [[x(each.row), y(value(each))], [known[index + 1] ? x(known[index + 1].row) : WIDE - 10, y(value(each))]]);
  return line(kind, places);
}

function axes(samples, most, x, y) {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => share * most);
  const along = [0, 0.25, 0.5, 0.75, 1].map((share) => samples[Math.round(share * (samples.length - 1))]);
  return h(
    "svg:g",
    { class: "axes" },
    marks.map((mark) => [h("svg:line", { x1: LEFT, x2: WIDE - 10, y1: y(mark), y2: y(mark) }), h("svg:text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, count(Math.round(mark)))]),
    [...new Set(along)].map((each, index, all) => {
      const anchor = index === 0 ? "start" : index === all.length - 1 ? "end" : "middle";
      return [
        h("svg:text", { x: x(each.row), y: HIGH - BELOW + 18, "text-anchor": anchor }, each.row),
        h("svg:text", { x: x(each.row), y: HIGH - BELOW + 34, "text-anchor": anchor }, time(each.at).textContent),
      ];
    }),
  );
}

/** A round number at or above one: 1, 2, 2.5 or 5 times a power of ten. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= value);
}

const told = (each) => `${each.prepared} at ${each.row}: ${count(each.after_tokens)} tokens, ${each.status.replaceAll("_", " ")}`;

function requests(session, points) {
  return table(
    `${count(points.length)} requests, newest first`,
    ["Prepared", "Last row", "Time", "Tokens", "Before", "Window", "The provider counted", "Cached", "Status", "Strategy"],
    [...points].reverse().map((each) => [
      each.prepared,
      address(session, each.row),
      time(each.at),
      count(each.after_tokens),
      each.before_tokens === each.after_tokens ? "" : count(each.before_tokens),
      each.window_tokens ? count(each.window_tokens) : "unknown",
      each.provider_input_tokens === null ? "" : count(each.provider_input_tokens),
      each.provider_cached_tokens === null ? "" : count(each.provider_cached_tokens),
      each.status.replaceAll("_", " "),
      each.strategy,
    ]),
  );
}
