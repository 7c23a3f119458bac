// Line charts as SVG, and bars.

const WIDTH = 320, HEIGHT = 110, LEFT = 34, BOTTOM = 14, TOP = 6;
const NS = "http://www.w3.org/2000/svg";

function draw(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// lines: [[class, [[seconds, value or null], ...]], ...]; from, to: seconds; top: highest value, or null for the data's own.
export function chart(holder, label, lines, from, to, top = null) {
  const known = lines.flatMap(([, points]) => points.map(([, value]) => value)).filter((value) => value !== null);
  const highest = top ?? Math.max(...known, 1e-9) * 1.1;
  const x = (at) => LEFT + ((at - from) / (to - from)) * (WIDTH - LEFT - 4);
  const y = (value) => HEIGHT - BOTTOM - (Math.min(value, highest) / highest) * (HEIGHT - BOTTOM - TOP);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const value of [0, highest / 2, highest]) {
    svg.append(draw("line", { class: "axis", x1: LEFT, x2: WIDTH - 4, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: LEFT - 4, y: y(value) + 3, "text-anchor": "end" }, short(value)));
  }
  svg.append(draw("text", { x: LEFT, y: HEIGHT - 2 }, `${Math.round((to - from) / 60)} min ago`));
  svg.append(draw("text", { x: WIDTH - 4, y: HEIGHT - 2, "text-anchor": "end" }, "now"));
  for (const [kind, points] of lines) {
    let path = "", pen = "M";
    for (const [at, value] of points) {
      if (value === null || at < from) { pen = "M"; continue; }
      path += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
    if (path) svg.append(draw("path", { class: kind, d: path, "stroke-linecap": "round" }));
  }
  holder.replaceChildren(svg);
}

export function bar(share, kind) {
  const outer = document.createElement("span"), inner = document.createElement("i");
  outer.className = "bar";
  inner.className = kind;
  inner.style.width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
  outer.append(inner);
  return outer;
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (size >= 1e4) return `${Math.round(value / 1e3)}k`;
  if (size >= 100 || Number.isInteger(value)) return `${Math.round(value)}`;
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${(share * 100).toFixed(1)} %`;
}
