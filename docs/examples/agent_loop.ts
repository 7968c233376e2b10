// An agent loop over lcm-mcp: the model is sent what fits its window, and a turn carries what is new.
//
// With `lcm-mcp serve --transport http` running: `node agent_loop.ts SESSION QUESTION…` (node 22.18 or newer, no
// packages). The session is in the store alone and each entry has an id of its own, so the same command again
// goes on wherever it stopped.

import { createHash } from "node:crypto";

type Json = any;
type Message = { role: string; content: Json[] };
type Page = Record<string, Json>;
type Held = { prepared?: string; messages: Message[]; marks: number[] };

const MCP = process.env.MCP_URL ?? "http://127.0.0.1:8765/mcp";
const API = process.env.ANTHROPIC_BASE_URL ?? "https://api.anthropic.com";
const KEY = process.env.ANTHROPIC_API_KEY ?? "";
const MODEL = process.env.ANTHROPIC_MODEL ?? "claude-sonnet-4-5";
const TIMEOUT_MS = 1000 * Number(process.env.AGENT_TIMEOUT_S ?? "60");
const WINDOW = Number(process.env.AGENT_WINDOW_TOKENS ?? "200000");
const SYSTEM = "You are a helpful agent. What is only summarized can be found and read in full with your tools.";
const TOOLS = [
  tool("lcm_grep", "Find a text anywhere in this conversation.", "pattern"),
  tool("lcm_expand", "The original rows under an address: e104, e104..e238 or #12.", "id"),
];

function tool(name: string, description: string, argument: string): Json {
  const schema = { type: "object", properties: { [argument]: { type: "string" } }, required: [argument] };
  return { name, description, input_schema: schema };
}

// --- memory

/** Of what is held keep `keep` messages after the first `omit`; put each one given in at its place. */
function spliced(held: Message[], pages: Page[]): Message[] {
  const { omit, keep } = pages[0];
  const messages = held.slice(omit, omit + keep);
  for (const [index, message] of given(pages)) messages.splice(index, 0, message);
  return messages;
}

/** Every message of the pages with its place; one too large for a page comes as pieces of its JSON. */
function* given(pages: Page[]): Generator<[number, Message]> {
  let pieces = "";
  for (const page of pages) {
    for (const [n, shown] of page.messages.entries()) yield [page.first_message + n, shown.message];
    for (const shown of page.insert) yield [shown.index, shown.message];
    if (page.fragment === null) continue;
    const { index, offset, total, json } = page.fragment;
    pieces += json;
    if (offset + [...json].length === total) { // characters, not UTF-16 units
      yield [index, JSON.parse(pieces)];
      pieces = "";
    }
  }
}

/** Call a tool until it is answered: the server may be gone, or gone before it could answer. */
async function call(name: string, args: Json): Promise<Json> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "agent-loop", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, _meta } };
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": name,
  };
  for (const pause of [500, 1000, 2000, 4000, 8000, 16000]) {
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(MCP, { method: "POST", headers, body: JSON.stringify(body), signal });
      const { result, error } = (await response.json()) as Json;
      if (result !== undefined) return result;
      console.error(`${name} is called again: ${error.message}`);
    } catch (error) {
      console.error(`${name} is called again: ${error}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  throw new Error(`${name} was not answered; run the same command again to go on`);
}

function textOf(result: Json): string {
  return result.content.map((part: Json) => part.text ?? "").join("\n");
}

async function prepare(args: Json): Promise<Page> {
  const result = await call("prepare_context", args);
  if (result.isError) throw new Error(textOf(result));
  return result.structuredContent;
}

/** Append an entry, and hold the next request: what is held already, and what is new. */
async function advance(session: string, held: Held, entry: Json, usage?: Json): Promise<Held> {
  const same = { session, format: "anthropic" };
  const preamble = { system: SYSTEM, tools: TOOLS, window_tokens: WINDOW, model: MODEL };
  const known = held.prepared ? { have: held.prepared, after: held.prepared.split(".")[1] } : {};
  const pages = [await prepare({ ...same, ...preamble, ...known, append: [entry], usage })];
  for (let cursor = pages[0].next_cursor; cursor; cursor = pages.at(-1)!.next_cursor)
    pages.push(await prepare({ ...same, cursor }));
  const { prepared, cache_breakpoints } = pages[0];
  return { prepared, messages: spliced(held.messages, pages), marks: cache_breakpoints };
}

// --- the model

/** The model's reply to the request that is held. */
async function ask(held: Held): Promise<Json> {
  const messages = [...held.messages];
  for (const mark of held.marks) {
    const content = [...messages[mark].content];
    content.push({ ...content.pop(), cache_control: { type: "ephemeral" } });
    messages[mark] = { ...messages[mark], content };
  }
  const headers = { "x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json" };
  const body = JSON.stringify({ model: MODEL, max_tokens: 4096, system: SYSTEM, tools: TOOLS, messages });
  const response = await fetch(`${API}/v1/messages`, { method: "POST", headers, body });
  if (!response.ok) throw new Error(`the model answered ${response.status}: ${await response.text()}`);
  return response.json();
}

function usageOf(held: Held, counted: Json): Json {
  const cached = counted.cache_read_input_tokens ?? 0;
  const tokens = counted.input_tokens + cached + (counted.cache_creation_input_tokens ?? 0);
  return { prepared: held.prepared, input_tokens: tokens, cached_tokens: cached };
}

/** Run the tools, and give their results as an entry. */
async function resultsOf(session: string, calls: Json[]): Promise<Json> {
  const content: Json[] = [];
  for (const { id, name, input } of calls) {
    const result = await call(name, { session, ...input });
    content.push({ type: "tool_result", tool_use_id: id, content: textOf(result), is_error: result.isError });
  }
  return { role: "user", content, entry_id: `${calls[0].id}-results` };
}

// --- the loop

/** Go on until the model has nothing more to call; what to do next is told by the last message alone. */
async function turn(session: string, held: Held): Promise<Held> {
  while (true) {
    const last = held.messages.at(-1)!;
    const calls = last.content.filter((block) => block.type === "tool_use");
    if (last.role === "user") {
      const reply = await ask(held);
      const entry = { role: "assistant", content: reply.content, entry_id: reply.id };
      held = await advance(session, held, entry, usageOf(held, reply.usage));
    } else if (calls.length > 0) {
      held = await advance(session, held, await resultsOf(session, calls));
    } else {
      return held;
    }
  }
}

// The same in the same command again, another one for what is asked in another command.
function idOf(number: number, question: string): string {
  return `q${number}-${createHash("sha256").update(question).digest("hex").slice(0, 16)}`;
}

const [session, ...questions] = process.argv.slice(2);
if (questions.length === 0) {
  console.error(`usage: node ${process.argv[1]} SESSION QUESTION…`);
  process.exit(2);
}
let held: Held = { messages: [], marks: [] };
for (const [number, question] of questions.entries()) {
  held = await advance(session, held, { role: "user", content: question, entry_id: idOf(number, question) });
  held = await turn(session, held);
  const said = held.messages.at(-1)!.content.filter((block) => block.type === "text");
  console.log(said.map((block) => block.text).join(" "));
}
