// One decision in words and as a table: one that was made, or what would be decided now.

import { short } from "/dashboard/charts.js";
import { cell, number, table } from "/dashboard/table.js";

const SHOWN = 12;
const TIERS = { l0: "GPU memory", l1: "host memory", l2: "shared storage" };
const WAITS = {
  queue: "waiting for prompts in front", decode: "steps shared with answers in progress",
  load: "loading from host memory", shared: "loading from shared storage", prefill: "prefill",
};
const STAKES = { room: "room in its cache", work: "work taken from those behind", moving: "leaving its conversation" };

export const ms = (value) => (value === null || value === undefined ? "–" : `${short(value)} ms`);
export const place = (at) => (at.engine ? `${at.replica} #${at.engine}` : at.replica);

export function sentence(text, kind) {
  const p = document.createElement("p");
  p.textContent = text;
  if (kind) p.className = kind;
  return p;
}

const same = (a, b) => a && b && a.replica === b.replica && a.engine === b.engine;
const some = (terms, names) => Object.entries(names).filter(([term]) => terms[term] >= 0.05).map(([term, name]) => `${ms(terms[term])} ${name}`);

// What was known of a candidate: what it held, and of what its predicted time is made.
function known({ tokens, predicted_ms: terms }) {
  const held = Object.entries(TIERS).filter(([tier]) => tokens[tier]).map(([tier, name]) => `${short(tokens[tier])} in ${name}`);
  const waits = some(terms, WAITS), stakes = some(terms, STAKES);
  return `${held.length ? `has ${held.join(", ")}` : "has nothing of the prompt"}, leaves ${short(tokens.prefill)} tokens to prefill; ` +
    `first token predicted in ${ms(terms.ttft)}${waits.length ? ` (${waits.join(", ")})` : ""}` +
    (stakes.length ? `; costs those who come later ${stakes.join(", ")}` : "");
}

function why(told) {
  const chosen = told.candidates.find((one) => same(one, told)), other = told.candidates.find((one) => same(one, told.runner_up));
  const parts = [];
  if (chosen) parts.push(sentence(`${place(chosen)} ${known(chosen)}.`));
  if (other) {
    const margin = told.runner_up.margin_ms;
    parts.push(sentence(`Next best, ${margin < 0 ? `${ms(-margin)} cheaper` : `${ms(margin)} dearer`} all told: ${place(other)} ${known(other)}.`));
  }
  return parts;
}

function candidates(told) {
  const said = (part) => Object.keys(told.candidates[0]?.[part] ?? {}).filter((name) => told.candidates.some((one) => one[part][name]));
  const tiers = said("tokens"), terms = said("predicted_ms"); // a column of zeros tells nothing
  const heads = ["replica", ...tiers.map((tier) => `${tier} tokens`), ...terms.map((term) => `${term} ms`)];
  const row = (one) => ({
    key: place(one),
    kind: same(one, told) ? "chosen" : "",
    cells: [
      cell(place(one), { head: true }),
      ...tiers.map((tier) => number(one.tokens[tier])),
      ...terms.map((term) => number(one.predicted_ms[term])),
    ],
  });
  const first = told.candidates.filter((one, number) => number < SHOWN || same(one, told));
  const rest = told.candidates.filter((one) => !first.includes(one));
  const dropped = (told.among ?? told.candidates.length) - told.candidates.length;
  if (!rest.length) return [table(heads, first.map(row)), ...(dropped ? [sentence(`${dropped} more candidates, all dearer.`, "note")] : [])];
  const more = document.createElement("details"), summary = document.createElement("summary");
  summary.textContent = `${rest.length} more candidates, all dearer`;
  more.append(summary, table(heads, rest.map(row)));
  return [table(heads, first.map(row)), more];
}

// A decision that was made, with what came of it.
export function made(told) {
  return [
    sentence(`Request ${told.id} to ${told.endpoint} went to ${place(told)} by ${told.policy}: ${told.reason}.`, "lead"),
    ...why(told),
    sentence(`Predicted: ${short(told.predicted.cached_tokens)} tokens cached, first token in ${ms(told.predicted.ttft_ms)}. ` +
      `It came in ${ms(told.outcome.ttft_ms)}, with ${short(told.outcome.cached_tokens)} of ${short(told.outcome.prompt_tokens)} tokens cached.`),
    ...candidates(told),
  ];
}

// What would be decided now.
export function supposed(told) {
  const prompt = told.prompt_tokens === null ? `Its prompt is not scored: ${told.unscored}.` : `${told.prompt_tokens} prompt tokens.`;
  return [sentence(`It would go to ${place(told)} by ${told.policy}: ${told.reason}. ${prompt}`, "lead"), ...why(told), ...candidates(told)];
}
