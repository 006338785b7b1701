// Elements, tables that update in place, and how numbers and times are written. All text is text: nothing becomes markup.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);
export const DASH = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value) {
  return value === null || value === undefined ? DASH : whole.format(value);
}

export function rate(value) {
  if (value === null || value === undefined) return DASH;
  return value > 0 && value < 10 ? one.format(value) : whole.format(value);
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${unit === 0 || bytes >= 100 ? whole.format(bytes) : one.format(bytes)} ${units[unit]}`;
}

export function ms(value) {
  if (value === null || value === undefined) return DASH;
  return value >= 100 ? whole.format(value) : value >= 10 ? one.format(value) : value.toFixed(2);
}

// Beyond JavaScript's dates, as nanoseconds are where milliseconds belong.
const isNoDate = (atMs) => Number.isNaN(new Date(atMs).getTime());

export function clock(atMs, withMs = false) {
  if (atMs === null || atMs === undefined || atMs < 0) return DASH;
  if (isNoDate(atMs)) return `${atMs} ms`;
  const at = new Date(atMs);
  const pad = (number, length = 2) => String(number).padStart(length, "0");
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return withMs ? `${text}.${pad(at.getMilliseconds(), 3)}` : text;
}

export function dateTime(atMs) {
  if (atMs < 0) return DASH;
  if (isNoDate(atMs)) return clock(atMs);
  return `${new Date(atMs).toISOString().slice(0, 10)} ${clock(atMs, true)}`;
}

// A name in an address; as it is where its escapes are none.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export const badge = (text, kind = "") => el("span", { class: `badge ${kind}` }, text);

export function empty(title, text) {
  return el("div", { class: "empty" }, el("b", {}, title), text);
}

// A table whose rows are found again by their key, so that a selection, a hover and a scroll outlive an update.
// A column is {title, text(row), number?, class?, node?(row)}; a cell is changed only when its text is another.
export class Table {
  constructor(columns, { key, href, open, most = 500, label, empty: emptyNode }) {
    Object.assign(this, { columns, key, href, open, most, emptyNode });
    this.body = el("tbody");
    this.rows = new Map();
    const titles = columns.map((one) => el("th", { class: one.number ? "number" : "", scope: "col" }, one.title));
    this.table = el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, titles)), this.body);
    this.more = el("p", { class: "foot", hidden: true });
    this.placeholder = el("div", { hidden: true }, emptyNode ?? empty("Nothing here", ""));
    this.scroll = el("div", { class: "scroll" }, this.table, this.placeholder);
    this.node = el("div", { class: "panel" }, this.scroll, this.more);
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && this.open && !event.target.closest("a, button, input")) this.activate(row);
    });
  }

  activate(row) {
    for (const other of this.body.children) other.setAttribute("aria-selected", String(other === row));
    if (this.open) this.open(row.data);
  }

  update(rows) {
    const shown = rows.slice(0, this.most);
    const wanted = new Set();
    let before = null;
    for (const data of shown) {
      const key = String(this.key(data));
      wanted.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = el("tr", { class: this.open ? "link" : "", tabindex: this.open ? "0" : null }, this.columns.map((column) =>
          el("td", { class: `${column.number ? "number " : ""}${column.class ?? ""}` })));
        this.rows.set(key, row);
      }
      this.fill(row, data);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (row !== next) this.body.insertBefore(row, next);
      before = row;
    }
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) { row.remove(); this.rows.delete(key); }
    }
    this.note(rows.length);
  }

  // New rows go on top, the oldest at the end are dropped: a list that never grows. One of a key that is there is newer.
  prepend(rows) {
    for (const data of rows) {
      const key = String(this.key(data));
      this.rows.get(key)?.remove();
      const row = el("tr", { class: this.open ? "link" : "", tabindex: this.open ? "0" : null }, this.columns.map((column) =>
        el("td", { class: `${column.number ? "number " : ""}${column.class ?? ""}` })));
      this.rows.set(key, row);
      this.fill(row, data);
      this.body.prepend(row);
    }
    while (this.body.children.length > this.most) {
      const last = this.body.lastChild;
      this.rows.delete(last.key);
      last.remove();
    }
    this.note(this.body.children.length);
  }

  // Of the row of this key, if it is still there, some fields are others now.
  change(key, fields) {
    const row = this.rows.get(key);
    if (row) this.fill(row, { ...row.data, ...fields });
  }

  fill(row, data) {
    row.data = data;
    row.key = String(this.key(data));
    this.columns.forEach((column, index) => {
      const cell = row.children[index];
      const text = column.text(data);
      if (cell.shown === text) return;
      cell.shown = text;
      if (column.node) cell.replaceChildren(...[column.node(data)].flat());
      else {
        cell.textContent = text;
        if (column.class) cell.title = text;
      }
    });
  }

  clear() {
    this.body.replaceChildren();
    this.rows.clear();
    this.note(0);
  }

  note(total) {
    this.table.hidden = total === 0;
    this.placeholder.hidden = total !== 0;
    const left = total - this.most;
    this.more.hidden = left <= 0;
    if (left > 0) this.more.textContent = `${plural(left, "more row")} not shown: filter to see them.`;
  }
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return answer(await fetch(`api/${path}${query ? `?${query}` : ""}`));
}

export async function post(path, body = {}) {
  const headers = { "content-type": "application/json", "x-aiokafkapy-console": "1" };
  return answer(await fetch(`api/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer(response) {
  const body = await response.json().catch(() => ({ error: response.statusText }));
  if (!response.ok) throw new Error(body.error ?? response.statusText);
  return body;
}

let toastTimer = 0;
export function toast(text, isBad = false) {
  const node = byId("toast");
  node.textContent = text;
  node.className = isBad ? "toast bad" : "toast";
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { node.hidden = true; }, isBad ? 7000 : 3000);
}

export async function attempt(action, done) {
  try {
    const result = await action();
    if (done) toast(typeof done === "function" ? done(result) : done);
    return result;
  } catch (error) {
    toast(error.message, true);
    return undefined;
  }
}
