// The summaries and the context of a session inside a client: the page's own views, moved about by their links.

import { Refused, begin, on, tell } from "./host.js";
import * as context from "./context.js";
import * as conversation from "./conversation.js";
import * as dag from "./dag.js";
import { h, link, place, to } from "./dom.js";

const VIEWS = { dag, context, conversation };
const main = document.querySelector("main");
let shown = 0;

async function show(address) {
  const { name, args } = place(address);
  const turn = ++shown;
  let drawn;
  try {
    drawn = await (VIEWS[name] ?? dag).draw(args);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    drawn = h("p", { class: "refusal", role: "alert" }, error.message);
  }
  if (turn !== shown) return;
  const { session } = args;
  main.replaceChildren(h("nav", { "aria-label": "Views" }, link("dag", { session }, "Summaries"), " · ", link("context", { session }, "Context")), drawn);
}

// A link would leave the client's frame.
document.addEventListener("click", (event) => {
  const address = event.target.closest("a")?.getAttribute("href");
  if (!address?.startsWith("#/")) return;
  event.preventDefault();
  show(address);
});

on("ui/notifications/tool-result", ({ structuredContent: answer }) => {
  if (!answer?.session) return;
  const view = "prepared" in answer ? "context" : "dag";
  show(to(view, { session: answer.session }));
});
on("ui/notifications/host-context-changed", themed);

function themed({ theme }) {
  if (theme) document.documentElement.dataset.theme = theme;
}

new ResizeObserver(() => tell("ui/notifications/size-changed", { height: document.documentElement.scrollHeight })).observe(document.body);
themed((await begin(document.documentElement.dataset.version)).hostContext ?? {});
