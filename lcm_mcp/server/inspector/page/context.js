// What a request shows, drawn to scale: each section as wide as its share of the window, its sources linked.

import { ask } from "./ask.js";
import { addresses, count, facts, h, many, table, time, to } from "./dom.js";

export const title = ({ session }) => `Context of ${session}`;

export async function draw({ session, window_tokens }) {
  const { last, now } = await ask("context", { session, window_tokens });
  return h(
    "section",
    {},
    h("h1", {}, "Context"),
    h("h2", {}, "The last request"),
    last ? seen(session, last) : h("p", { class: "note" }, "No request was prepared in this session yet. An agent's prepare_context does that, or `lcm-mcp context --window 200000 --compact auto`."),
    now ? asked(session, now, window_tokens) : null,
  );
}

/** What a request would show now, under a window that may be chosen. */
function asked(session, now, window_tokens) {
  const field = h("input", { id: "window", type: "number", min: 1, step: 1, value: window_tokens ?? now.window_tokens ?? "" });
  const other = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        location.hash = to("context", { session, window_tokens: field.value });
      },
    },
    h("label", { for: "window" }, "Window in tokens"),
    field,
    h("button", {}, "Show"),
  );
  return [
    h("h2", {}, "A request now"),
    h("p", {}, "As it would be without any compaction and without a preamble; looking at it changes nothing."),
    other,
    seen(session, now),
  ];
}

/** One observation: the bar, its sections and its figures. */
export function seen(session, observation) {
  const { sections, window_tokens: window, estimated_input_tokens: estimate } = observation;
  return h(
    "div",
    { class: "observation" },
    bar(observation),
    sections.length ? sectionsOf(session, sections, window ?? estimate) : h("p", {}, "It shows nothing yet."),
    observation.notes.map((note) => h("p", { class: "note" }, note)),
    facts([
      ["Status", observation.status.replaceAll("_", " ")],
      ["Strategy", `${observation.strategy}, ${observation.regime}`],
      ["Window", window ? `${count(window)} tokens (${observation.window_source})` : "unknown"],
      ["Compaction starts", observation.trigger_tokens && `${count(observation.trigger_tokens)} tokens`],
      ["Estimate", `${count(estimate)} tokens (${observation.estimate_method})`],
      ["Calibrated", observation.calibrated_input_tokens && `${count(observation.calibrated_input_tokens)} tokens`],
      ["The provider counted", observation.provider_input_tokens && `${count(observation.provider_input_tokens)} tokens`],
      ["Of them cached", observation.provider_cached_tokens !== null && count(observation.provider_cached_tokens)],
      ["Compaction", done(observation)],
      ["Cut", observation.cut],
      ["Prepared", [observation.prepared, " ", time(observation.made_at)]],
    ].map(([name, value]) => [name, value === false ? null : value])),
  );
}

function done({ done: pass, before, after }) {
  if (!pass) return null;
  const made = [many(pass.leaves, "leaf").replace("leafs", "leaves"), many(pass.parents, "parent")].join(", ");
  return `${made} made; ${count(before.tokens)} → ${count(after.tokens)} tokens`;
}

function bar({ sections, window_tokens: window, trigger_tokens: trigger, estimated_input_tokens: estimate }) {
  const whole = Math.max(window ?? 0, estimate, 1);
  const words = sections.map((section) => `${section.label}: ${count(section.tokens)} tokens`).join("; ");
  const share = (tokens) => `${(100 * tokens) / whole}%`;
  return h(
    "div",
    { class: "bar", role: "img", "aria-label": `${count(estimate)} tokens of ${window ? count(window) : "an unknown window"}. ${words}` },
    sections.map((section) => h("span", { class: section.kind, title: `${section.label}: ${count(section.tokens)} tokens`, style: { width: share(section.tokens) } })),
    trigger ? h("i", { title: `Compaction starts at ${count(trigger)} tokens`, style: { left: share(trigger) } }) : null,
    window && window < whole ? h("i", { class: "window", title: `The window: ${count(window)} tokens`, style: { left: share(window) } }) : null,
  );
}

function sectionsOf(session, sections, whole) {
  return table(
    "Sections in order",
    ["Section", "Tokens", "Share", "Items", "Bytes", "Sources", "Begins"],
    sections.map((section) => [
      [h("span", { class: `key ${section.kind}`, "aria-hidden": "true" }), " ", section.label],
      count(section.tokens),
      `${((100 * section.tokens) / whole).toFixed(1)}%`,
      count(section.items),
      count(section.bytes),
      addresses(session, section.sources),
      section.preview,
    ]),
  );
}

