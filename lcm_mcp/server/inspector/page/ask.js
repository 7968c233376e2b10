// Questions to the server, with the token where it wants one. The token is kept for this tab alone.

import { h } from "./dom.js";

const KEPT = "lcm-token";

export class Refused extends Error {}

async function fetched(path) {
  for (;;) {
    const token = sessionStorage.getItem(KEPT);
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(path, { headers, cache: "no-store" });
    if (answer.status !== 401) return answer;
    await wanted(token !== null);
  }
}

/** Ask the server a question; the answer is the same as the tool's of that name. Throws Refused. */
export async function ask(question, args = {}) {
  const given = Object.entries(args).filter(([, value]) => value !== null && value !== undefined && value !== "");
  let answer;
  try {
    answer = await fetched(`/inspect/${question}?${new URLSearchParams(given)}`);
  } catch {
    throw new Refused("The server does not answer. Is `lcm-mcp serve --transport http` running?");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(body.error?.message ?? body.error ?? `The server answered ${answer.status}.`);
  return body;
}

/** The bytes of a stored image. */
export async function imageOf(session, image) {
  const answer = await fetched(`/inspect/image?${new URLSearchParams({ session, n: image.number })}`);
  return answer.ok ? answer.blob() : null;
}

let asked = null;

/** A form for the token; resolves once one is given. */
function wanted(wrong) {
  asked ??= new Promise((given) => {
    const field = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
    const form = h(
      "form",
      { id: "unlock" },
      h("label", { for: "token" }, wrong ? "That token is wrong. The server's LCM_TOKEN:" : "The server's LCM_TOKEN:"),
      field,
      h("button", {}, "Open"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEPT, field.value.trim());
      form.remove();
      asked = null;
      given();
    });
    document.querySelector("main").before(form);
    field.focus();
  });
  return asked;
}
