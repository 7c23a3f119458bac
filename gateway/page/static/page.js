// The dashboard: one document a second from /live, drawn in place. Text from elsewhere only ever becomes text.

import { bar, chart, percent, short } from "/dashboard/charts.js";

const TEN_MINUTES = 600;
const byId = (id) => document.getElementById(id);

function cell(content, options = {}) {
  const td = document.createElement(options.head ? "th" : "td");
  if (options.head) td.scope = "row";
  if (options.kind) td.className = options.kind;
  td.append(...(Array.isArray(content) ? content : [content ?? "–"]));
  return td;
}

function row(cells, kind) {
  const tr = document.createElement("tr");
  if (kind) tr.className = kind;
  tr.append(...cells);
  return tr;
}

const ms = (value) => (value === null || value === undefined ? "–" : `${short(value)} ms`);
const place = (at) => (at.engine ? `${at.replica} #${at.engine}` : at.replica);

function tile(name, value, note) {
  const dt = document.createElement("dt"), dd = document.createElement("dd"), group = document.createElement("div");
  dt.textContent = name;
  dd.textContent = value;
  if (note) {
    const small = document.createElement("small");
    small.textContent = note;
    dd.append(small);
  }
  group.append(dt, dd);
  return group;
}

function drawMinute(minute) {
  const { exact, over, under } = minute.predictions, compared = exact + over + under;
  byId("tiles").replaceChildren(
    tile("requests", `${short(minute.requests / 60)} /s`, `${minute.failed} failed`),
    tile("hit ratio", percent(minute.hit_ratio), `${short(minute.cached_tokens)} of ${short(minute.prompt_tokens)} tokens`),
    tile("saved by cache", `${short(minute.saved_ms / 1e3)} s`, "of prefill, not done again"),
    tile("TTFT p50", ms(minute.ttft_p50_ms), `p90 ${ms(minute.ttft_p90_ms)}`),
    tile("predictions exact", percent(compared ? exact / compared : null), `${over} over, ${under} under`),
  );
}

function drawCharts(series, at) {
  const from = at - TEN_MINUTES;
  const line = (kind, read) => [kind, series.map((part) => [part.at, read(part)])];
  const exact = ({ predictions: p }) => (p.exact + p.over + p.under ? p.exact / (p.exact + p.over + p.under) : null);
  chart(byId("chart-hits"), "hit ratio", [line("first", (part) => part.hit_ratio)], from, at, 1);
  chart(byId("chart-ttft"), "time to first token",
    [line("first", (part) => part.ttft_p50_ms), line("second", (part) => part.ttft_p90_ms)], from, at);
  chart(byId("chart-exact"), "share of exact predictions", [line("first", exact)], from, at, 1);
  chart(byId("chart-rate"), "requests a second", [line("first", (part) => part.requests / 5)], from, at);
}

function held(blocks, capacity, kind) {
  return capacity ? [bar(blocks / capacity, kind), `${short(blocks)} / ${short(capacity)}`] : short(blocks);
}

function eventsCell(events) {
  if (!events) return cell("none told: its cache is unknown", { kind: "bad" });
  const age = events.confirmed_s_ago === null ? "never" : `${short(events.confirmed_s_ago)} s ago`;
  const faults = events.gaps + events.clears + events.unreadable;
  const text = `${events.late ? "late, " : ""}whole ${age}${faults ? `, ${events.gaps} gaps, ${events.clears} clears` : ""}`;
  return cell(text, { kind: events.late ? "bad" : "good" });
}

function drawFleet(engines) {
  byId("fleet").tBodies[0].replaceChildren(...engines.map((engine) => row([
    cell(place(engine), { head: true }),
    cell(engine.model),
    cell(engine.health, { kind: engine.health === "ready" ? "good" : engine.health === "fresh" ? "" : "bad" }),
    cell(short(engine.in_flight)), cell(short(engine.running)), cell(short(engine.waiting)), cell(short(engine.pending_tokens)),
    cell(held(engine.blocks.GPU, engine.capacity_blocks, "l0")), cell(held(engine.blocks.CPU, null, "l1")),
    eventsCell(engine.events),
  ])));
}

function drawDecisions(decisions) {
  if (byId("decisions").contains(document.activeElement)) return; // do not take the row from under the reader
  byId("decisions").tBodies[0].replaceChildren(...decisions.map((decision) => {
    const show = document.createElement("button");
    show.className = "link";
    show.textContent = decision.id.slice(0, 12);
    show.addEventListener("click", () => showDecision(decision.id));
    const other = decision.runner_up;
    return row([
      cell([show]), cell(place(decision)), cell(decision.reason, { kind: "wrap" }), cell(short(decision.prompt_tokens)),
      cell(short(decision.predicted.cached_tokens)), cell(short(decision.outcome.cached_tokens)),
      cell(ms(decision.predicted.ttft_ms)), cell(ms(decision.outcome.ttft_ms)),
      cell(other ? `${place(other)} +${ms(other.margin_ms)}` : "–"),
      cell(`${decision.outcome.status} ${decision.outcome.ending}`),
    ]);
  }));
}

function candidates(document_) {
  const table = document.createElement("table"), head = document.createElement("thead"), body = document.createElement("tbody");
  const terms = Object.keys(document_.candidates[0]?.predicted_ms ?? {});
  const tiers = Object.keys(document_.candidates[0]?.tokens ?? {});
  head.append(row(["replica", ...tiers.map((tier) => `${tier} tokens`), ...terms.map((term) => `${term} ms`)].map((name) => {
    const th = document.createElement("th");
    th.scope = "col";
    th.textContent = name;
    return th;
  })));
  body.append(...document_.candidates.map((candidate) => row([
    cell(place(candidate), { head: true }),
    ...tiers.map((tier) => cell(short(candidate.tokens[tier]))),
    ...terms.map((term) => cell(short(candidate.predicted_ms[term]))),
  ], candidate.replica === document_.replica && candidate.engine === document_.engine ? "chosen" : "")));
  table.append(head, body);
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(table);
  return scroll;
}

function sentence(text, kind) {
  const p = document.createElement("p");
  p.textContent = text;
  if (kind) p.className = kind;
  return p;
}

async function showDecision(id) {
  const holder = byId("decision");
  const answer = await fetch(`/decisions/${encodeURIComponent(id)}`);
  if (!answer.ok) {
    holder.replaceChildren(sentence("That decision is not held any more, or never was.", "bad"));
    return;
  }
  const told = await answer.json(), other = told.runner_up;
  holder.replaceChildren(
    sentence(`Request ${told.id} to ${told.endpoint} went to ${place(told)} by ${told.policy}: ${told.reason}.` +
      (other ? ` Next best was ${place(other)}, ${ms(other.margin_ms)} dearer.` : "")),
    sentence(`Predicted: ${short(told.predicted.cached_tokens)} tokens cached, first token in ${ms(told.predicted.ttft_ms)}. ` +
      `It came in ${ms(told.outcome.ttft_ms)}, with ${short(told.outcome.cached_tokens)} of ${short(told.outcome.prompt_tokens)} tokens cached.`),
    candidates(told),
  );
  holder.focus();
}

async function explain(event) {
  event.preventDefault();
  const form = new FormData(event.target), holder = byId("explained");
  const answer = await fetch(`/explain?endpoint=${encodeURIComponent(form.get("endpoint"))}`, { method: "POST", body: form.get("body") });
  const told = await answer.json();
  if (!answer.ok) {
    holder.replaceChildren(sentence(told.error?.message ?? `status ${answer.status}`, "bad"));
    return;
  }
  const prompt = told.prompt_tokens === null ? `Its prompt is not scored: ${told.unscored}.` : `${told.prompt_tokens} prompt tokens.`;
  holder.replaceChildren(sentence(`It would go to ${place(told)} by ${told.policy}: ${told.reason}. ${prompt}`), candidates(told));
}

function drawPolicy(snapshot) {
  const select = byId("policy");
  if (document.activeElement === select) return;
  select.replaceChildren(...snapshot.policies.map((name) => new Option(name, name, false, name === snapshot.policy)));
  select.disabled = !snapshot.may_switch;
}

function drawRows(table, pairs) {
  table.tBodies[0].replaceChildren(...Object.entries(pairs).map(([name, value]) => row([
    cell(name, { head: true }), cell(typeof value === "number" ? short(value) : `${value}`),
  ])));
}

function drawLosses(losses) {
  byId("losses").hidden = !losses;
  if (!losses) return;
  byId("losses-bars").replaceChildren(...Object.entries(losses).map(([name, share]) => {
    const line = document.createElement("p");
    line.className = "wide";
    line.append(bar(share, "l0"), `${name} ${percent(share)}`);
    return line;
  }));
}

function drawStorage(storage) {
  byId("l2-verdict").textContent = storage.verdict;
  drawRows(byId("l2"), storage.health);
}

function drawShadow(shadow) {
  byId("shadow").hidden = !shadow;
  if (shadow) drawRows(byId("shadow-table"), shadow);
}

function draw(snapshot) {
  const late = snapshot.engines.filter((engine) => !engine.events || engine.events.late).map(place);
  const faults = [...snapshot.degraded, ...(late.length ? [`events late or missing: ${late.join(", ")}`] : [])];
  const state = byId("state");
  const text = faults.length ? faults.join("; ") : `${snapshot.engines.length} engines, all well`;
  if (state.textContent !== text) state.textContent = text;
  state.className = faults.length ? "bad" : "";
  drawPolicy(snapshot);
  drawMinute(snapshot.minute);
  drawCharts(snapshot.series, snapshot.at);
  drawLosses(snapshot.losses);
  drawFleet(snapshot.engines);
  drawStorage(snapshot.storage);
  drawShadow(snapshot.shadow);
  drawDecisions(snapshot.decisions);
}

byId("explain").addEventListener("submit", explain);
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  showDecision(byId("find-id").value.trim());
});
byId("policy").addEventListener("change", (event) =>
  fetch("/policy", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ policy: event.target.value }) }));
const live = new EventSource("/live");
live.addEventListener("message", (event) => draw(JSON.parse(event.data)));
live.addEventListener("error", () => {
  if (live.readyState === EventSource.CLOSED) byId("state").textContent = "the gateway does not answer";
});
