// Tables that are kept in step with data: rows by key, and only what differs is touched, so that focus, selection and
// scroll stay where they are. Text from elsewhere only ever becomes text.

import { bar as drawn, short } from "/dashboard/charts.js";

// A cell: {text, kind, head, bar: {share, kind}, press}. press: called when its text, then a button, is pressed.
export const cell = (text, more = {}) => ({ text: text ?? "–", ...more });
export const number = (value, written = short) => cell(written(value), { kind: "number" });

function fill(td, { text, kind, bar, press }) {
  td.className = kind ?? "";
  const parts = [];
  if (bar) parts.push(drawn(bar.share, bar.kind));
  if (press) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = text;
    button.addEventListener("click", press);
    parts.push(button);
  } else parts.push(text);
  td.replaceChildren(...parts);
}

// rows: [{key, kind, cells}, ...] with unique keys and as many cells in each.
export function sync(body, rows) {
  const known = new Map();
  for (const tr of body.rows) known.set(tr.dataset.key, tr);
  rows.forEach(({ key, kind, cells }, place) => {
    let tr = known.get(key);
    known.delete(key);
    if (!tr) {
      tr = document.createElement("tr");
      tr.dataset.key = key;
      for (const { head } of cells) {
        const td = tr.appendChild(document.createElement(head ? "th" : "td"));
        if (head) td.scope = "row";
      }
    }
    if (body.rows[place] !== tr) body.insertBefore(tr, body.rows[place] ?? null);
    if (tr.className !== (kind ?? "")) tr.className = kind ?? "";
    cells.forEach((one, number) => {
      const td = tr.cells[number], shown = `${one.kind} ${one.bar?.share} ${one.text}`;
      if (td.shown === shown) return;
      td.shown = shown;
      fill(td, one);
    });
  });
  for (const tr of known.values()) tr.remove();
}

// A table of its own, in a box that scrolls.
export function table(heads, rows) {
  const whole = document.createElement("table"), scroll = document.createElement("div");
  const line = whole.createTHead().insertRow();
  heads.forEach((head, place) => {
    const th = line.appendChild(document.createElement("th"));
    th.scope = "col";
    th.className = rows[0]?.cells[place].kind ?? "";
    th.textContent = head;
  });
  sync(whole.createTBody(), rows);
  scroll.className = "scroll";
  scroll.append(whole);
  return scroll;
}
