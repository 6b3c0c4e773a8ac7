"use strict";
const find = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
/* The token comes behind the # of the address, and stays out of the history. */
let token = location.hash.slice(1);
if (token) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
} else {
  token = sessionStorage.getItem("token") || "";
}
let state = null;
/* "column:cell" -> value of changed entries; null frees an entry that the model has fixed. */
const changes = new Map();
/* Column -> entries after the last solution. */
let after = {};
let solvedChanges = "";
let chosen = 0;
let scale = null;

function make(tag, kind, text) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
}

function draw(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function number(value) {
  if (Math.abs(value) < 5e-5) return "0";
  return String(Number(value.toPrecision(4)));
}

const signed = (value) => (value > 0 ? "+" : "") + number(value);

function say(id, text, bad) {
  find(id).textContent = text;
  find(id).classList.toggle("bad", Boolean(bad));
}

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  const result = await answer.json();
  if (!answer.ok) throw new Error(result.error);
  return result;
}

const curve = () => state.curves[find("column").selectedIndex];
const key = (cell) => `${curve().column}:${cell}`;
const isFixed = (cell) => (changes.has(key(cell)) ? changes.get(key(cell)) !== null : curve().fixed[cell]);

/* The value that an entry has now: the fixed one, else that of the last solution. */
function valueOf(cell) {
  const change = changes.get(key(cell));
  if (change !== undefined && change !== null) return change;
  return (after[curve().column] || curve().values)[cell];
}

function requestedCells() {
  return [...changes].map(([name, value]) => {
    const [column, cell] = name.split(":").map(Number);
    return { column, cell, value };
  });
}

function changeCell(cell, value) {
  if (value === null && !curve().fixed[cell]) changes.delete(key(cell));
  else changes.set(key(cell), value === null ? null : Number(value.toPrecision(4)));
  update();
}

/* Buttons, marks of columns and the text about the chosen entry. */
function update() {
  const isSolved = JSON.stringify(requestedCells()) === solvedChanges;
  find("solve").disabled = changes.size === 0 || isSolved;
  find("undo").disabled = changes.size === 0;
  find("saving").hidden = changes.size === 0 || !isSolved;
  find("undo-column").disabled = !curve().values.some((_, cell) => changes.has(key(cell)));
  for (const [k, option] of [...find("column").options].entries()) {
    const each = state.curves[k];
    const isEdited = each.values.some((_, cell) => changes.has(`${each.column}:${cell}`));
    option.textContent = each.name + (isEdited ? " (edited)" : each.fixed.some(Boolean) ? " (fixed entries)" : "");
  }
  if (changes.size && !isSolved) {
    say("status", `${changes.size} ${changes.size === 1 ? "entry" : "entries"} changed, not solved yet`);
  }
  showCell();
  drawCurve();
}

function showCell() {
  const now = valueOf(chosen), before = curve().values[chosen];
  const how = isFixed(chosen) ? ", fixed" : "";
  find("cell").textContent = `${curve().labels[chosen]}: ${signed(before)}, now ${signed(now)}${how}`;
}

function limits() {
  const all = curve().values.concat(curve().values.map((_, cell) => valueOf(cell)), [0]);
  let low = Math.min(...all), high = Math.max(...all);
  const room = 0.25 * (high - low) || 1;
  return [low - room, high + room];
}

/* Round numbers between two limits, for the axis. */
function ticks(low, high) {
  const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * unit >= rough) * unit;
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) out.push(Number((k * step).toPrecision(6)));
  return out;
}

function drawCurve() {
  const box = find("plot"), values = curve().values, n = values.length;
  const width = Math.max(box.clientWidth, 240), height = 320;
  const left = 48, right = 8, top = 10, bottom = 34;
  if (!scale || !scale.held) {
    const [low, high] = limits();
    scale = { low, high };
  }
  const { low, high } = scale;
  /* Missing values, the last cell, stand apart. */
  const gap = 0.6, unit = (width - left - right) / (n + gap);
  const start = (cell) => left + unit * (cell + (cell === n - 1 ? gap : 0));
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  scale = { ...scale, start, unit, top, height: height - top - bottom };
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `Entries of ${curve().name}` });
  for (const tick of ticks(low, high)) {
    svg.append(draw("path", { class: tick === 0 ? "zero" : "grid", d: `M${left} ${y(tick)}H${width - right}` }));
    svg.append(draw("text", { class: "end", x: left - 6, y: y(tick) + 4 }, number(tick)));
  }
  drawLabels(svg, n, start, unit, height, width - right);
  const now = values.map((_, cell) => valueOf(cell));
  for (const [kind, entries] of [["line soft", values], ["line model", now]]) {
    svg.append(draw("path", { class: kind, d: steps(entries, start, unit, y) }));
  }
  const radius = Math.max(2.5, Math.min(6, unit / 2.2));
  values.forEach((_, cell) => {
    const x = start(cell) + unit / 2, fixed = isFixed(cell);
    if (fixed) svg.append(draw("path", { class: "stem", d: `M${x} ${y(values[cell])}V${y(now[cell])}` }));
    const handle = draw("circle", {
      class: `handle${fixed ? " pin" : ""}${cell === chosen ? " chosen" : ""}`, cx: x, cy: y(now[cell]), r: radius,
      tabindex: cell === chosen ? 0 : -1, role: "slider", "data-cell": cell, "aria-orientation": "vertical",
      "aria-label": curve().labels[cell], "aria-valuemin": number(low), "aria-valuemax": number(high),
      "aria-valuenow": number(now[cell]), "aria-valuetext": `${signed(now[cell])}${fixed ? ", fixed" : ""}` });
    svg.append(handle);
  });
  const hadFocus = box.contains(document.activeElement);
  box.replaceChildren(svg);
  if (hadFocus) box.querySelector(`[data-cell="${chosen}"]`).focus({ preventScroll: true });
}

/* One level a cell; no line joins categories, or leads to missing values. */
function steps(entries, start, unit, y) {
  return entries.map((value, cell) => {
    const isJoined = cell > 0 && curve().ordered && cell < entries.length - 1;
    return `${isJoined ? "L" : "M"}${start(cell)} ${y(value)}H${start(cell) + unit}`;
  }).join("");
}

/* Cuts between ordered cells or names of categories, as many as there is room for. */
function drawLabels(svg, n, start, unit, height, end) {
  let free = -Infinity;
  const name = curve().name;
  const put = (x, text) => {
    const half = text.length * 3.4 + 4;
    const at = Math.min(Math.max(x, 48 + half - 4), end - half + 4);
    if (at - half < free) return;
    svg.append(draw("text", { class: "mid", x: at, y: height - 12 }, text));
    free = at + half;
  };
  const missing = Math.min(start(n - 1) + unit / 2, end - 28);
  const keep = missing - 36;
  for (let cell = 0; cell < n - 1; cell++) {
    let text = curve().labels[cell];
    let x = start(cell) + unit / 2;
    if (curve().ordered) {
      const cut = text.startsWith(`${name} >= `) ? text.slice(name.length + 4) : text.split(" <= ")[0];
      if (!text.includes(" <= ") && !text.startsWith(`${name} >= `)) continue;
      [text, x] = [String(Number(Number(cut).toPrecision(4))), start(cell)];
    } else {
      text = text.startsWith(`${name} = `) ? text.slice(name.length + 3) : text.slice(name.length + 1);
      if (text.length > 12) text = `${text.slice(0, 11)}…`;
    }
    if (x + text.length * 3.4 < keep) put(x, text);
  }
  free = -Infinity;
  put(missing, "missing");
}

function cellAt(event) {
  const box = find("plot").getBoundingClientRect(), x = event.clientX - box.left;
  let cell = 0;
  for (let k = 0; k < curve().values.length; k++) if (x >= scale.start(k)) cell = k;
  const y = event.clientY - box.top;
  const value = scale.high - ((y - scale.top) / scale.height) * (scale.high - scale.low);
  return [cell, Math.min(Math.max(value, scale.low), scale.high)];
}

let drag = null;
find("plot").addEventListener("pointerdown", (event) => {
  if (!state || event.button !== 0) return;
  const [cell] = cellAt(event);
  chosen = cell;
  drag = { x: event.clientX, y: event.clientY, moved: false, last: cell };
  find("plot").setPointerCapture(event.pointerId);
  update();
  selectRange(cell, cell);
});
find("plot").addEventListener("pointermove", (event) => {
  if (!drag) return;
  /* A click chooses an entry and changes none. */
  if (!drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 4) return;
  drag.moved = true;
  scale.held = true;
  const [cell, value] = cellAt(event);
  /* All cells that a fast movement passed. */
  const step = cell < drag.last ? 1 : -1;
  for (let k = cell; k !== drag.last; k += step) changes.set(key(k), Number(value.toPrecision(4)));
  drag.last = chosen = cell;
  changeCell(cell, value);
});
for (const name of ["pointerup", "pointercancel"]) {
  find("plot").addEventListener(name, () => {
    if (!drag) return;
    drag = null;
    scale = null;
    selectRange(chosen, chosen);
    update();
    find("plot").querySelector(`[data-cell="${chosen}"]`).focus({ preventScroll: true });
  });
}
find("plot").addEventListener("keydown", (event) => {
  const [low, high] = limits(), step = (high - low) / (event.shiftKey ? 20 : 100);
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -chosen, End: curve().values.length - 1 - chosen };
  const turns = { ArrowUp: step, ArrowDown: -step };
  if (event.key in moves) {
    chosen = Math.min(Math.max(chosen + moves[event.key], 0), curve().values.length - 1);
    selectRange(chosen, chosen);
    update();
  } else if (event.key in turns) {
    changeCell(chosen, valueOf(chosen) + turns[event.key]);
    selectRange(chosen, chosen);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    changeCell(chosen, null);
    selectRange(chosen, chosen);
  } else {
    return;
  }
  scale = null;
  event.preventDefault();
});

function selectRange(first, last) {
  find("first").selectedIndex = first;
  find("last").selectedIndex = last;
  find("value").value = number(valueOf(first));
}

function changeRange(value) {
  const ends = [find("first").selectedIndex, find("last").selectedIndex];
  for (let cell = Math.min(...ends); cell <= Math.max(...ends); cell++) {
    chosen = cell;
    changeCell(cell, value);
  }
  scale = null;
  update();
}

find("range").addEventListener("submit", (event) => {
  event.preventDefault();
  changeRange(Number(find("value").value));
});
find("free").addEventListener("click", () => changeRange(null));

function showColumn() {
  const names = curve().labels;
  for (const id of ["first", "last"]) find(id).replaceChildren(...names.map((name) => make("option", "", name)));
  const remarks = [];
  if (curve().shape) remarks.push(curve().shape);
  if (curve().paired) remarks.push("also in a pair");
  find("curve-title").textContent = curve().name + (remarks.length ? ` (${remarks.join(", ")})` : "");
  chosen = 0;
  scale = null;
  selectRange(0, 0);
  update();
}
find("column").addEventListener("change", showColumn);

function undo(names) {
  for (const name of names) changes.delete(name);
  if (changes.size === 0) {
    after = {};
    solvedChanges = "";
    find("effect").hidden = true;
    say("status", "As in the model file");
  }
  scale = null;
  selectRange(chosen, chosen);
  update();
}
find("undo").addEventListener("click", () => undo([...changes.keys()]));
find("undo-column").addEventListener("click", () => undo(curve().values.map((_, cell) => key(cell))));

find("solve").addEventListener("click", async () => {
  const cells = requestedCells();
  find("solve").disabled = true;
  say("status", "Solving …");
  const began = performance.now();
  try {
    const result = await ask("/solve", { cells });
    after = result.curves;
    solvedChanges = JSON.stringify(cells);
    showEffect(result);
    scale = null;
    update();
    say("status", `Solved in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  } catch (error) {
    update();
    say("status", error.message, true);
  }
});

function tile(what, value, more) {
  const box = make("div", "tile");
  box.append(make("p", "what", what), make("p", "value", value), make("p", "more", more));
  return box;
}

function showEffect(result) {
  find("effect").hidden = false;
  const change = result.metric_after - result.metric_before;
  const where = state.held_out ? `${state.lists} held-out lists` : `the ${state.lists} training lists`;
  const cost = result.objective_after - result.objective_before;
  const share = (100 * cost) / result.objective_before;
  find("tiles").replaceChildren(
    tile(state.metric, result.metric_after.toFixed(4), `${change > 0 ? "+" : ""}${change.toFixed(4)} from ${result.metric_before.toFixed(4)}, on ${where}`),
    tile("Objective", signed(cost), `${signed(share)} % of ${number(result.objective_before)}, to ± ${number(result.gap)}`),
    tile("Queries", `${result.better} ▲ ${result.worse} ▼`, "better and worse"));
  find("queries").replaceChildren(...result.queries.map(queryCard));
  if (result.queries.length === 0) find("queries").append(make("p", "lead", "No query loses."));
}

function queryCard(query) {
  const card = make("details"), title = make("summary");
  title.append(make("b", "", query.text ? `${query.text} (${query.query})` : query.query));
  title.append(make("span", "", `${query.value_before.toFixed(3)}, now ${query.value_after.toFixed(3)}`));
  const lists = make("div", "lists-of");
  for (const name of ["before", "after"]) {
    const side = make("div"), order = make("ol");
    side.append(make("h4", "", name === "before" ? "Before" : "After"));
    for (const item of query[name]) {
      const line = make("li", "", `${item.item} `);
      line.append(make("span", "label", number(item.label)));
      order.append(line);
    }
    side.append(order);
    lists.append(side);
  }
  card.append(title, lists);
  return card;
}

find("save").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(["out", "by", "note"].map((id) => [id, find(id).value]));
  say("saved", "Saving …");
  try {
    const result = await ask("/save", { cells: requestedCells(), ...fields });
    say("saved", `Wrote ${result.out}, digest ${result.digest.slice(0, 12)}`);
  } catch (error) {
    say("saved", error.message, true);
  }
});

addEventListener("resize", () => state && drawCurve());
addEventListener("beforeunload", (event) => {
  if (changes.size && !find("saved").textContent.startsWith("Wrote")) event.preventDefault();
});

(async () => {
  try {
    state = await ask("/state");
    find("digest").textContent = state.digest;
    find("out").value = state.out;
    find("column").replaceChildren(...state.curves.map((each) => make("option", "", each.name)));
    say("status", "As in the model file");
    showColumn();
  } catch (error) {
    say("status", error.message, true);
  }
})();
