"use strict";
// The page asks for its data again while a run goes on, and draws anew what has changed. What the reader chose, an order or a filter, stays.
const choice = {}; // by target: {column, down, words, verdict}
let tag = "";

function make(name, text, kind) {
  const e = document.createElement(name);
  if (text !== undefined && text !== null) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

// shown is a value as text; in a column with fractions all numbers have digits behind the point.
function shown(x, fractions) {
  if (typeof x !== "number") return x === null ? "" : x;
  if (Number.isInteger(x) && !fractions) return String(x);
  return Math.abs(x) < 0.01 ? x.toExponential(1) : x.toFixed(2);
}

function table(at, heads, rows) {
  const t = document.getElementById(at);
  const head = make("tr");
  heads.forEach((h, i) => head.append(make("th", h, rows.some(r => typeof r[i] === "number") ? "n" : "")));
  const fractions = heads.map((h, i) => rows.some(r => typeof r[i] === "number" && !Number.isInteger(r[i])));
  t.replaceChildren(head, ...rows.map(r => { const tr = make("tr"); r.forEach((x, i) => tr.append(make("td", shown(x, fractions[i]), typeof x === "number" ? "n" : ""))); return tr; }));
}

// rank fills the body of a ranking by the order and the filter that were chosen.
function rank(t, body, count) {
  const c = choice[t.name], words = c.words.toLowerCase().split(/\s+/).filter(Boolean);
  const verdict = t.heads.findIndex(h => h.name === "verdict");
  let rows = t.rows.filter(r => (!c.verdict || r[verdict] === c.verdict) && words.every(w => r.some(x => String(x ?? "").toLowerCase().includes(w))));
  if (c.column >= 0) {
    const number = t.heads[c.column].number, sign = c.down ? -1 : 1;
    rows = rows.slice().sort((a, b) => {
      const x = a[c.column], y = b[c.column];
      if (x === null || y === null) return (x === null) - (y === null); // what has no figure is last in both orders
      return sign * (number ? x - y : String(x).localeCompare(String(y)));
    });
  }
  count.textContent = rows.length + " of " + t.rows.length;
  const most = 500, fractions = t.heads.map((h, i) => t.rows.some(r => typeof r[i] === "number" && !Number.isInteger(r[i]) && Math.abs(r[i]) >= 0.01));
  body.replaceChildren(...rows.slice(0, most).map(r => {
    const tr = make("tr", null, r[verdict]);
    r.forEach((x, i) => { if (t.heads[i].name !== "full variant") tr.append(make("td", shown(x, fractions[i]), kind(t.heads[i]))); });
    tr.title = r[r.length - 1] || "";
    return tr;
  }));
  if (rows.length > most) { const tr = make("tr"), td = make("td", "… " + (rows.length - most) + " more: filter them"); td.colSpan = t.heads.length; tr.append(td); body.append(tr); }
}

// kind is the class of a column: a number, words that may be long, and what a narrow screen leaves out.
function kind(h) {
  const extra = ["error", "of limit %", "spills", "seconds", "commit", "before"].includes(h.name) ? " extra" : "";
  return (h.number ? "n" : /change|hypothesis/.test(h.name) ? "text" : "") + extra;
}

function section(t) {
  const c = choice[t.name] ??= { column: -1, down: false, words: "", verdict: "" };
  const s = make("section");
  s.append(make("h2", t.name));
  if (t.baseline) s.append(make("p", t.baseline, "baseline"));
  const plot = make("div", null, "plot");
  plot.innerHTML = t.curve; // made and escaped by this server
  const filters = make("div", null, "filters"), words = make("input"), verdicts = make("select"), count = make("span", "", "note");
  words.placeholder = "filter: words"; words.value = c.words; words.setAttribute("aria-label", "filter " + t.name);
  const verdict = t.heads.findIndex(h => h.name === "verdict");
  for (const v of ["", ...new Set(t.rows.map(r => r[verdict]))]) { const o = make("option", v || "every verdict"); o.value = v; verdicts.append(o); }
  verdicts.value = c.verdict; verdicts.setAttribute("aria-label", "verdict");
  const body = make("tbody"), head = make("tr"), ranking = make("div", null, "ranking"), whole = make("table"), top = make("thead");
  t.heads.forEach((h, i) => {
    if (h.name === "full variant") return;
    const th = make("th", null, kind(h)), b = make("button", h.name + (c.column === i ? (c.down ? " ▼" : " ▲") : ""));
    b.onclick = () => { if (c.column === i) c.down = !c.down; else { c.column = i; c.down = false; } draw(last); };
    th.append(b); head.append(th);
  });
  words.oninput = () => { c.words = words.value; rank(t, body, count); };
  verdicts.onchange = () => { c.verdict = verdicts.value; rank(t, body, count); };
  top.append(head); whole.append(top, body); ranking.append(whole); filters.append(words, verdicts, count);
  rank(t, body, count);
  s.append(plot, filters, ranking);
  return s;
}

let last = null;

function draw(d) {
  const focus = document.activeElement, label = focus && focus.getAttribute && focus.getAttribute("aria-label"), from = focus && focus.selectionStart;
  const scrolls = [...document.querySelectorAll(".ranking")].map(e => [e.scrollTop, e.scrollLeft]);
  last = d;
  document.title = d.dir + ": gdngen";
  for (const name of ["dir", "title", "state", "note"]) document.getElementById(name).textContent = d[name];
  document.getElementById("light").className = d.live ? "light live" : "light";
  document.getElementById("tiles").replaceChildren(...d.tiles.map(x => { const e = make("div", null, "card"); e.append(make("b", x.value), make("span", x.name)); return e; }));
  document.getElementById("targets").replaceChildren(...d.targets.map(section));
  document.querySelectorAll(".ranking").forEach((e, i) => { if (scrolls[i]) [e.scrollTop, e.scrollLeft] = scrolls[i]; });
  document.getElementById("gateshead").textContent = d.kind === "loop" ? "Verdicts" : "Gates";
  if (d.kind === "loop") table("gates", ["verdict", "iterations"], d.gates.map(g => [g.name, g.judged]));
  else table("gates", ["gate", "judged", "refused", "seconds"], d.gates.map(g => [g.name, g.judged, g.refused, Math.round(g.seconds * 10) / 10]));
  table("workers", ["worker", "judged", "lost", "seconds"], d.workers.map(w => [w.name, w.judged, w.lost, Math.round(w.seconds)]));
  document.getElementById("next").textContent = d.next.join("\n");
  if (label) { const again = [...document.querySelectorAll("input, select")].find(e => e.getAttribute("aria-label") === label); if (again) { again.focus(); if (again.setSelectionRange && from !== null && from !== undefined) again.setSelectionRange(from, from); } }
}

async function look() {
  try {
    const r = await fetch("data.json", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (r.status === 200) { tag = r.headers.get("ETag") || ""; draw(await r.json()); }
    else if (r.status !== 304) document.getElementById("state").textContent = await r.text();
  } catch (e) {
    document.getElementById("state").textContent = "gdngen serve does not answer: " + e.message;
    document.getElementById("light").className = "light";
  }
  setTimeout(look, last && !last.live ? 5000 : 2000);
}
look();
