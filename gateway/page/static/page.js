// The dashboard: one document a second from /live, drawn in place.

import { bar, chart, percent, short } from "/dashboard/charts.js";
import { made, ms, place, sentence, supposed } from "/dashboard/decision.js";
import { cell, number, sync } from "/dashboard/table.js";

const TEN_MINUTES = 600, SLICE = 5; // seconds
const byId = (id) => document.getElementById(id);
let latest = null;

function tile(name, value, note) {
  const dt = document.createElement("dt"), dd = document.createElement("dd"), group = document.createElement("div");
  const small = document.createElement("small");
  dt.textContent = name;
  small.textContent = note;
  dd.append(value, small);
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
  const whole = series.filter((part) => part.at + SLICE <= at); // the current slice has not seen all of its requests
  const line = (kind, read) => [kind, whole.map((part) => [part.at, read(part)])];
  const exact = ({ predictions: p }) => (p.exact + p.over + p.under ? p.exact / (p.exact + p.over + p.under) : null);
  chart(byId("chart-hits"), "hit ratio", [line("first", (part) => part.hit_ratio)], from, at, 1);
  chart(byId("chart-ttft"), "time to first token",
    [line("first", (part) => part.ttft_p50_ms), line("second", (part) => part.ttft_p90_ms)], from, at);
  chart(byId("chart-exact"), "share of exact predictions", [line("first", exact)], from, at, 1);
  chart(byId("chart-rate"), "requests a second", [line("first", (part) => part.requests / SLICE)], from, at);
}

const held = (blocks, capacity, kind) =>
  capacity ? cell(`${short(blocks)} / ${short(capacity)}`, { bar: { share: blocks / capacity, kind } }) : cell(short(blocks));

function eventsCell(events) {
  if (!events) return cell("none told: its cache is unknown", { kind: "bad" });
  const age = events.confirmed_s_ago === null ? "never" : `${short(events.confirmed_s_ago)} s ago`;
  const faults = events.gaps + events.clears + events.unreadable;
  const text = `${events.late ? "late, " : ""}whole ${age}${faults ? `, ${events.gaps} gaps, ${events.clears} clears` : ""}`;
  return cell(text, { kind: events.late ? "bad" : "good" });
}

const isLate = ({ events }) => !events || events.late;
const isWell = (engine) => !isLate(engine) && ["ready", "fresh"].includes(engine.health);

function drawFleet(engines) {
  const wanted = byId("fleet-filter").value.trim().toLowerCase(), faultsOnly = byId("fleet-faults").checked;
  const shown = engines.filter((engine) =>
    `${place(engine)} ${engine.model}`.toLowerCase().includes(wanted) && !(faultsOnly && isWell(engine)));
  byId("fleet-count").textContent = shown.length === engines.length ? `${engines.length} engines` : `${shown.length} of ${engines.length} engines`;
  sync(byId("fleet").tBodies[0], shown.map((engine) => ({
    key: place(engine),
    cells: [
      cell(place(engine), { head: true }),
      cell(engine.model),
      cell(engine.health, { kind: engine.health === "ready" ? "good" : engine.health === "fresh" ? "" : "bad" }),
      number(engine.in_flight), number(engine.running), number(engine.waiting), number(engine.pending_tokens),
      held(engine.blocks.GPU, engine.capacity_blocks, "l0"), held(engine.blocks.CPU, null, "l1"),
      eventsCell(engine.events),
    ],
  })));
}

function drawDecisions(decisions) {
  if (byId("hold").checked) return;
  sync(byId("decisions").tBodies[0], decisions.map((decision) => {
    const other = decision.runner_up;
    return {
      key: `${decision.at} ${decision.id}`,
      cells: [
        cell(decision.id.slice(0, 12), { press: () => showDecision(decision.id) }),
        cell(place(decision)), cell(decision.reason, { kind: "wrap" }), number(decision.prompt_tokens),
        number(decision.predicted.cached_tokens), number(decision.outcome.cached_tokens),
        number(decision.predicted.ttft_ms, ms), number(decision.outcome.ttft_ms, ms),
        cell(other ? `${place(other)} ${other.margin_ms < 0 ? "" : "+"}${ms(other.margin_ms)}` : "–"),
        cell(`${decision.outcome.status} ${decision.outcome.ending}`),
      ],
    };
  }));
}

async function showDecision(id) {
  const holder = byId("decision");
  const answer = await fetch(`/decisions/${encodeURIComponent(id)}`);
  holder.replaceChildren(...(answer.ok ? made(await answer.json()) : [sentence("That decision is not held any more, or never was.", "bad")]));
  holder.focus();
}

async function explain(event) {
  event.preventDefault();
  const form = new FormData(event.target), holder = byId("explained");
  const answer = await fetch(`/explain?endpoint=${encodeURIComponent(form.get("endpoint"))}`, { method: "POST", body: form.get("body") });
  const told = await answer.json();
  holder.replaceChildren(...(answer.ok ? supposed(told) : [sentence(told.error?.message ?? `status ${answer.status}`, "bad")]));
}

function drawPolicy(snapshot) {
  const select = byId("policy");
  if (document.activeElement === select) return;
  if (select.options.length !== snapshot.policies.length) select.replaceChildren(...snapshot.policies.map((name) => new Option(name, name)));
  select.value = snapshot.policy;
  select.disabled = !snapshot.may_switch;
}

function drawRows(table, pairs) {
  sync(table.tBodies[0], Object.entries(pairs).map(([name, value]) => ({
    key: name, cells: [cell(name, { head: true }), cell(typeof value === "number" ? short(value) : `${value}`)],
  })));
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

function drawState({ engines, degraded }) {
  const late = engines.filter(isLate).map(place), named = late.slice(0, 5).join(", ");
  const told = late.length ? [`events late or missing: ${named}${late.length > 5 ? ` and ${late.length - 5} more` : ""}`] : [];
  const faults = [...degraded, ...told], state = byId("state");
  const text = faults.length ? faults.join("; ") : `${engines.length} engines, all well`;
  if (state.textContent !== text) state.textContent = text;
  state.className = faults.length ? "bad" : "";
}

function draw(snapshot) {
  drawState(snapshot);
  drawPolicy(snapshot);
  drawMinute(snapshot.minute);
  drawCharts(snapshot.series, snapshot.at);
  drawLosses(snapshot.losses);
  drawFleet(snapshot.engines);
  byId("l2-verdict").textContent = snapshot.storage.verdict;
  drawRows(byId("l2"), snapshot.storage.health);
  byId("shadow").hidden = !snapshot.shadow;
  if (snapshot.shadow) drawRows(byId("shadow-table"), snapshot.shadow);
  drawDecisions(snapshot.decisions);
}

function drawLatest() {
  if (latest && !document.hidden) draw(latest); // nobody looks at a hidden page
}

byId("explain").addEventListener("submit", explain);
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  showDecision(byId("find-id").value.trim());
});
for (const id of ["fleet-filter", "fleet-faults", "hold"]) byId(id).addEventListener("input", drawLatest);
byId("policy").addEventListener("change", (event) =>
  fetch("/policy", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ policy: event.target.value }) }));
document.addEventListener("visibilitychange", drawLatest);
const live = new EventSource("/live");
live.addEventListener("message", (event) => {
  latest = JSON.parse(event.data);
  drawLatest();
});
live.addEventListener("error", () => {
  byId("state").textContent = "the gateway does not answer";
  byId("state").className = "bad";
});
