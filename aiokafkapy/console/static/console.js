// The page: the view of the address, the stream that feeds it, the keyboard, and the theme.

import { badge, byId, count, decoded, el, get } from "./dom.js";
import { Timeline } from "./chart.js";
import { FaultsView } from "./faults.js";
import { RecordsView, showProduce } from "./records.js";
import { clientsView, groupView, groupsView, requestsView, topicView, topicsView, transactionsView, unknown } from "./views.js";

const VIEWS = [
  ["topics", "Topics"], ["records", "Records"], ["groups", "Groups"], ["transactions", "Transactions"],
  ["clients", "Clients", "clients"], ["requests", "Requests", "requests"], ["faults", "Faults", "faults"],
];
const KEYS = [
  ["1 … 7", "the views, in their order"], ["/", "the filter of the view"], ["j, k or ↓, ↑", "the next row, the one before"], ["Enter", "open the row"],
  ["p", "pause, go on"], ["n", "write a record"], ["Esc", "close, leave a field, or go back"], ["t", "dark or light"], ["?", "this list"],
];

const context = { about: null, isPaused: false, topics: [], togglePause, produce };
let view = null;
let viewName = "";
let stream = null;
let timeline = null;
let isFirst = true;

async function start() {
  theme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => { if (!localStorage.getItem("theme")) theme(event.matches ? "dark" : "light"); });
  byId("theme").addEventListener("click", toggleTheme);
  byId("help-button").addEventListener("click", help);
  try {
    context.about = await get("about");
  } catch (error) {
    problem(error.message);
    status("off", "no console");
    return;
  }
  byId("mode").hidden = !context.about.is_read_only;
  timeline = new Timeline(context.about.abilities.requests);
  const views = VIEWS.filter(([, , ability]) => !ability || context.about.abilities[ability]);
  byId("nav").append(...views.map(([name, title], index) => el("a", { href: `#/${name}`, "data-view": name }, title, el("span", { class: "count" }), el("kbd", {}, String(index + 1)))));
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => onKey(event, views));
  show();
}

// A view by its address: #/topics, #/topic/NAME, …
function show() {
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const argument = decoded(rest.join("/"));
  view?.close?.();
  if (context.isPaused) togglePause();
  viewName = name || "topics";
  view = open(viewName, argument);
  byId("main").replaceChildren(view.node);
  const shown = { topic: "topics", group: "groups" }[viewName] ?? viewName;
  for (const link of byId("nav").children) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = VIEWS.find(([each]) => each === shown)?.[1] ?? "";
  document.title = `${argument ? `${argument} · ` : ""}${title} · aiokafkapy`;
  listen();
}

function open(name, argument) {
  const { abilities } = context.about;
  switch (name) {
    case "topics": return topicsView(context);
    case "topic": return topicView(context, argument);
    case "records": return new RecordsView(context, argument);
    case "groups": return groupsView();
    case "group": return groupView(context, argument);
    case "transactions": return transactionsView();
    case "clients": return abilities.clients ? clientsView() : unknown(name);
    case "requests": return abilities.requests ? requestsView(context) : unknown(name);
    case "faults": return abilities.faults ? new FaultsView(context) : unknown(name);
    default: return unknown(name);
  }
}

function listen() {
  stream?.close();
  stream = new EventSource(`api/live?${new URLSearchParams({ view: view.stream })}`);
  const mine = stream;
  isFirst = true;
  mine.onopen = () => { isFirst = true; };
  mine.onmessage = (event) => { if (mine === stream) take(JSON.parse(event.data)); };
  mine.onerror = () => status("off", "broker away, trying again");
  mine.addEventListener("end", () => status("off", "the console has stopped"));
}

function take(message) {
  problem(message.problem || message.view?.error || "");
  status(context.isPaused ? "paused" : "", context.isPaused ? "paused" : "live");
  timeline.add(message, isFirst);
  isFirst = false;
  if (message.cluster) showCluster(message.cluster);
  counts(message.totals);
  if (message.view && !message.view.error) {
    if (message.view.rows && (view.stream === "topics" || view.stream === "topic-names")) context.topics = message.view.rows.map((row) => row.name);
    if (!context.isPaused || view instanceof FaultsView) view.update(message.view);
  }
  view.message?.(message, timeline.events);
}

function showCluster(cluster) {
  byId("cluster").textContent = `${cluster.kind} ${cluster.cluster_id}`;
  byId("cluster").title = byId("cluster").textContent;
  const text = JSON.stringify(cluster.nodes);
  if (byId("nodes").shown === text) return;
  byId("nodes").shown = text;
  const shown = cluster.nodes.slice(0, 12);
  byId("nodes").replaceChildren(...shown.map((node) => {
    const state = node.is_running ? (node.is_stalled ? "stalled" : "") : "down";
    return el("span", { class: `node ${state}`, title: node.address }, `node ${node.node_id}${state ? ` ${state}` : ""}`);
  }), ...(cluster.nodes.length > 12 ? [badge(`and ${cluster.nodes.length - 12} more`)] : []));
}

function counts(totals) {
  const set = (name, value) => {
    const node = byId("nav").querySelector(`[data-view="${name}"] .count`);
    if (node && value !== undefined && value !== null) node.textContent = count(value);
  };
  set("topics", totals.topics);
  set("clients", totals.connections);
}

function status(kind, text) {
  byId("status").className = `status ${kind}`;
  byId("status-text").textContent = text;
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text;
}

function togglePause() {
  context.isPaused = !context.isPaused;
  status(context.isPaused ? "paused" : "", context.isPaused ? "paused" : "live");
  view?.paused?.(context.isPaused);
}

function produce(topic) {
  if (context.about.is_read_only) return;
  showProduce(context.topics, topic || (viewName === "topic" || viewName === "records" ? decoded(location.hash.split("/")[2] ?? "") : ""));
}

// theme and keyboard

function theme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").setAttribute("aria-label", name === "dark" ? "Light theme" : "Dark theme");
}

function toggleTheme() {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", name);
  theme(name);
}

function help() {
  const dialog = byId("help");
  dialog.replaceChildren(
    el("div", { class: "dialog-head" }, el("h1", { id: "help-title" }, "Keyboard"), el("span", { class: "grow" }), el("button", { class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    el("div", { class: "dialog-body" },
      el("dl", {}, KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
      el("p", { class: "quiet" }, `aiokafkapy ${context.about?.version ?? ""}`)));
  dialog.showModal();
}

function onKey(event, views) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest?.("input, select, textarea");
  if (field || document.querySelector("dialog[open]")) {
    if (field && event.key === "Escape" && !document.querySelector("dialog[open]")) field.blur();
    return;
  }
  const number = Number(event.key);
  if (number >= 1 && number <= views.length) { location.hash = `#/${views[number - 1][0]}`; event.preventDefault(); return; }
  const action = {
    "/": () => byId("main").querySelector("[data-filter]")?.focus(),
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => event.target.closest?.("a, button") || openRow(),
    p: togglePause, n: () => produce(""), t: toggleTheme, "?": help,
    Escape: () => { if (viewName === "topic" || viewName === "group") history.back(); },
  }[event.key];
  if (!action) return;
  if (action() !== event.target) event.preventDefault();
}

function move(step) {
  const rows = [...(view.table?.body.children ?? [])];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement?.closest("tr")) ;
  const row = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
  row.tabIndex = 0;
  row.focus();
  for (const other of rows) other.setAttribute("aria-selected", String(other === row));
}

function openRow() {
  const row = document.activeElement?.closest("tr");
  if (row && view.table?.open) view.table.open(row.data);
}

start();
