// The stored sessions, last active first.

import { ask } from "./ask.js";
import { count, h, link, table, time, to } from "./dom.js";

export const title = () => "Sessions";

export async function draw({ query, cursor }) {
  const page = await ask("lcm_sessions", { project: "*", limit: 50, query, cursor });
  const field = h("input", { id: "query", type: "search", value: query ?? "", maxlength: 200 });
  const filter = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        location.hash = to("sessions", { query: field.value });
      },
    },
    h("label", { for: "query" }, "Key or title holds"),
    field,
    h("button", {}, "Filter"),
  );
  return h(
    "section",
    {},
    h("h1", {}, "Sessions"),
    filter,
    page.note ? h("p", { class: "note" }, page.note) : null,
    page.sessions.length ? listed(page) : page.note ? null : h("p", {}, "No session is called so."),
    page.next_cursor ? h("p", {}, link("sessions", { query, cursor: page.next_cursor }, "Older sessions")) : null,
  );
}

function listed(page) {
  return table(
    `${count(page.sessions.length)} of ${count(page.total)} sessions, last active first`,
    ["Session", "Source", "Rows", "Tokens", "Summaries", "Strategy", "Last row"],
    page.sessions.map((each) => [
      [
        h("div", { class: "title", title: each.title }, link("conversation", { session: each.key }, each.title || each.key)),
        h("small", {}, [each.title ? each.key : null, each.project].filter(Boolean).join(" · ")),
        each.parent ? h("small", {}, `${each.link} of `, link("conversation", { session: each.parent, at: each.opener }, each.parent)) : null,
      ],
      each.source,
      count(each.rows),
      count(each.tokens),
      link("dag", { session: each.key, }, count(each.nodes)),
      link("context", { session: each.key }, each.strategy),
      time(each.last_at),
    ]),
  );
}
