// Questions to the server by way of the client that shows this view (MCP Apps): JSON-RPC over postMessage.
// It stands where ask.js stands in the page, so that the views are the same.

const VERSION = "2026-01-26";

export class Refused extends Error {}

const waiting = new Map();
const heard = new Map();
let last = 0;

const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
export const tell = (method, params = {}) => send({ method, params });

function request(method, params) {
  const id = ++last;
  send({ id, method, params });
  return new Promise((given, refused) => waiting.set(id, { given, refused }));
}

/** Hear what the client tells under a method's name. */
export const on = (method, act) => heard.set(method, act);

window.addEventListener("message", ({ source, data }) => {
  if (source !== window.parent || data?.jsonrpc !== "2.0") return;
  if (data.method) {
    heard.get(data.method)?.(data.params ?? {});
    if (data.id !== undefined) send({ id: data.id, result: {} }); // a ping, or the end of the view
    return;
  }
  const { given, refused } = waiting.get(data.id) ?? {};
  waiting.delete(data.id);
  if (data.error) refused?.(new Refused(data.error.message));
  else given?.(data.result);
});

/** Say that the view is there; what the client tells of itself. */
export async function begin(version) {
  const told = await request("ui/initialize", {
    protocolVersion: VERSION,
    appInfo: { name: "lcm-mcp", version },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  });
  tell("ui/notifications/initialized");
  return told;
}

async function called(name, given) {
  const named = Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const answer = await request("tools/call", { name, arguments: Object.fromEntries(named) });
  const words = (answer.content ?? []).map((each) => each.text ?? "").join("\n");
  if (answer.isError || !answer.structuredContent) throw new Refused(words || "The client gave no answer.");
  return answer.structuredContent;
}

const QUESTIONS = { node, conversation, context };

/** Ask as the page asks: a tool by its name, or a question of the page made of tools. Throws Refused. */
export const ask = (question, args = {}) => (QUESTIONS[question] ?? ((given) => called(question, given)))(args);

export const imageOf = async () => null;

async function node({ session, id }) {
  const found = await called("lcm_describe", { session, id });
  const below = found.node.children.map((child) => called("lcm_describe", { session: found.session, id: child }));
  return { session: found.session, node: found.node, children: (await Promise.all(below)).map((child) => child.node) };
}

/** Rows as the page has them, by their text alone. */
async function conversation({ session, at, line }) {
  const id = line ? `${at}..${line}` : at;
  const page = await called("lcm_expand", { session, id, max_bytes: 50000 });
  const rows = page.rows.map((row) => ({ ...row, parts: [{ kind: "text", text: row.text, more: 0, images: [] }] }));
  const next = page.next_cursor ? rows.at(-1)?.ref : null;
  return { session: page.session, first: at, line: null, leaf: null, rows, older: null, newer: next };
}

async function context({ session }) {
  const answer = await request("resources/read", { uri: `lcm://session/${encodeURIComponent(session)}/context` });
  return { last: JSON.parse(answer.contents[0].text), now: null };
}
