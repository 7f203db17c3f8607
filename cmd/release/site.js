// The search of the pages: every word that is asked for occurs below a heading; headings and titles weigh most.
const input = document.querySelector("input[type=search]"), list = document.querySelector(".found"), root = document.body.dataset.root;
const fold = text => text.toLowerCase();
const escape = text => text.replace(/[&<>"]/g, c => "&#" + c.charCodeAt(0) + ";");
const marked = (text, words) => words.reduce((html, w) => html.replace(new RegExp(w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi"), "\u0001$&\u0002"), escape(text)).replaceAll("\u0001", "<mark>").replaceAll("\u0002", "</mark>");
function search(query) {
  const words = fold(query).split(/\s+/).filter(w => w.length > 1);
  if (!words.length) return [];
  const hits = [];
  for (const e of found) {
    const title = fold(e.p), heading = fold(e.h), text = fold(e.t);
    if (!words.every(w => title.includes(w) || heading.includes(w) || text.includes(w))) continue;
    let score = 0;
    for (const w of words) score += 8 * heading.includes(w) + 4 * title.includes(w) + Math.min(4, text.split(w).length - 1);
    const at = Math.max(0, text.indexOf(words.find(w => text.includes(w)) || "") - 60);
    hits.push({ e, score, piece: (at ? "… " : "") + e.t.slice(at, at + 180) });
  }
  return hits.sort((a, b) => b.score - a.score).slice(0, 12).map(h => ({ ...h, words }));
}
input.addEventListener("input", () => {
  const hits = search(input.value);
  list.hidden = input.value.trim().length < 2;
  list.innerHTML = hits.map(h => `<li><a href="${root}${h.e.u}">${escape(h.e.p)}${h.e.h === h.e.p ? "" : ": " + escape(h.e.h)}</a><p>${marked(h.piece, h.words)}</p></li>`).join("") || "<p>no page has all of these words</p>";
});
