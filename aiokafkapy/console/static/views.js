// The views that show a snapshot: topics, a topic, groups, a group, transactions, clients, requests.
// A view has `stream`, the name that /api/live knows; `node`; and update(message.view).

import { DASH, Table, badge, count, dateTime, el, empty, ms, rate, size } from "./dom.js";

const link = (view, name) => `#/${view}/${encodeURIComponent(name)}`;
const go = (view, name) => { location.hash = link(view, name); };
const ids = (list) => (list.length ? list.join(", ") : DASH);

function searchBox(label, changed) {
  const input = el("input", { class: "search", type: "search", placeholder: label, "aria-label": label, "data-filter": true });
  input.addEventListener("input", () => changed(input.value.toLowerCase()));
  return input;
}

// A list with a field that filters it by text.
class ListView {
  constructor(title, table, fits, label) {
    this.table = table;
    this.rows = [];
    this.wanted = "";
    this.fits = fits;
    this.total = el("span", { class: "quiet" });
    const search = searchBox(label, (text) => { this.wanted = text; this.show(); });
    this.head = el("div", { class: "head" }, el("h1", {}, title), this.total, el("span", { class: "grow" }), search);
    this.node = el("div", { class: "stack" }, this.head, table.node);
  }

  update(view) {
    this.rows = view.rows ?? [];
    this.show();
  }

  show() {
    const fitting = this.wanted ? this.rows.filter((row) => this.fits(row).toLowerCase().includes(this.wanted)) : this.rows;
    this.total.textContent = this.wanted ? `${count(fitting.length)} of ${count(this.rows.length)}` : count(this.rows.length);
    this.table.update(fitting);
  }
}

export function topicsView(context) {
  const table = new Table([
    { title: "Topic", text: (row) => row.name, class: "name", node: (row) => el("a", { href: link("topic", row.name), title: row.name }, row.name) },
    { title: "Partitions", number: true, text: (row) => count(row.partitions) },
    { title: "Replicas", number: true, text: (row) => count(row.replicas) },
    { title: "Records", number: true, text: (row) => count(row.records) },
    { title: "Size", number: true, text: (row) => size(row.size) },
    { title: "Records/s", number: true, text: (row) => rate(row.records_per_second),
      node: (row) => el("span", { class: row.records_per_second ? "" : "dim" }, rate(row.records_per_second)) },
    { title: "Bytes/s", number: true, text: (row) => size(row.bytes_per_second === null ? null : Math.round(row.bytes_per_second)),
      node: (row) => el("span", { class: row.bytes_per_second ? "" : "dim" }, size(row.bytes_per_second === null ? null : Math.round(row.bytes_per_second))) },
    { title: "", text: (row) => `${row.without_leader} ${row.is_internal}`, node: (row) => [
      row.without_leader ? badge(`${row.without_leader} without leader`, "bad") : "",
      row.is_internal ? badge("internal") : "",
    ] },
  ], { key: (row) => row.name, open: (row) => go("topic", row.name), label: "Topics",
    empty: empty("No topics yet", "They appear here as soon as a client makes one.") });
  const view = new ListView("Topics", table, (row) => row.name, "Filter topics");
  if (!context.about.is_read_only) view.head.append(el("button", { onclick: () => context.produce("") }, "Write a record"));
  return Object.assign(view, { stream: "topics" });
}

export function topicView(context, name) {
  const title = el("h1", {}, name);
  const facts = el("span", { class: "quiet" });
  const configs = el("div", { class: "fields" });
  const table = new Table([
    { title: "Partition", number: true, text: (row) => String(row.partition) },
    { title: "Leader", text: (row) => (row.leader === null ? "none" : `node ${row.leader}`), node: (row) => row.leader === null ? badge("none", "bad") : `node ${row.leader}` },
    { title: "Epoch", number: true, text: (row) => count(row.leader_epoch < 0 ? null : row.leader_epoch) },
    { title: "Replicas", text: (row) => ids(row.replicas) },
    { title: "In sync", text: (row) => ids(row.in_sync), node: (row) => el("span", { class: row.in_sync.length < row.replicas.length ? "warn" : "" }, ids(row.in_sync)) },
    { title: "First", number: true, text: (row) => count(row.first_offset) },
    { title: "End", number: true, text: (row) => count(row.end_offset) },
    { title: "Records", number: true, text: (row) => count(row.end_offset === null || row.first_offset === null ? null : row.end_offset - row.first_offset) },
    { title: "Size", number: true, text: (row) => size(row.size) },
    { title: "Open transaction", text: (row) => row.stable_offset === null || row.stable_offset >= row.end_offset ? DASH : `from ${count(row.stable_offset)}`,
      node: (row) => row.stable_offset === null || row.stable_offset >= row.end_offset ? el("span", { class: "dim" }, DASH) : badge(`from ${count(row.stable_offset)}`, "warn") },
    { title: "Lag of groups", class: "wide", text: (row) => (row.lags.slice(0, 4).map((one) => `${one.group_id}: ${count(one.lag)}`).join(", ") + (row.lags.length > 4 ? `, and ${row.lags.length - 4} more` : "")) || DASH },
  ], { key: (row) => row.partition, label: `Partitions of ${name}` });
  const node = el("div", { class: "stack" },
    el("div", { class: "head" }, el("a", { href: "#/topics" }, "Topics"), el("span", { class: "quiet" }, "/"), title, facts, el("span", { class: "grow" }),
      el("a", { class: "button", href: link("records", name) }, "Follow its records"),
      context.about.is_read_only ? null : el("button", { onclick: () => context.produce(name) }, "Write a record")),
    configs, table.node);
  return {
    node, table, stream: `topic:${name}`,
    update(view) {
      if (!view.topic) return;
      const topic = view.topic;
      facts.textContent = `${count(topic.records)} records · ${topic.size === null ? "" : `${size(topic.size)} · `}${rate(topic.records_per_second)}/s`;
      const own = Object.entries(view.configs);
      configs.hidden = own.length === 0;
      configs.replaceChildren(...own.map(([key, value]) => badge(`${key} = ${value ?? "hidden"}`)));
      table.update(view.partitions);
    },
  };
}

const GROUP_STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };

export function groupsView() {
  const table = new Table([
    { title: "Group", text: (row) => row.group_id, class: "name", node: (row) => el("a", { href: link("group", row.group_id), title: row.group_id }, row.group_id) },
    { title: "State", text: (row) => row.state, node: (row) => badge(row.state, GROUP_STATES[row.state] ?? "") },
    { title: "Type", text: (row) => row.kind || DASH },
    { title: "Assignor", text: (row) => row.protocol || DASH },
    { title: "Members", number: true, text: (row) => count(row.members) },
    { title: "Lag", number: true, text: (row) => count(row.lag), node: (row) => el("span", { class: row.lag ? "warn" : "dim" }, count(row.lag)) },
    { title: "Coordinator", text: (row) => (row.coordinator === null ? DASH : `node ${row.coordinator}`) },
    { title: "Topics", class: "wide", text: (row) => row.topics.slice(0, 5).join(", ") + (row.topics.length > 5 ? `, and ${row.topics.length - 5} more` : "") },
  ], { key: (row) => row.group_id, open: (row) => go("group", row.group_id), label: "Consumer groups",
    empty: empty("No consumer groups", "A group appears when a consumer joins it or commits an offset.") });
  return Object.assign(new ListView("Consumer groups", table, (row) => row.group_id, "Filter groups"), { stream: "groups" });
}

export function groupView(context, name) {
  const facts = el("span", { class: "fields" });
  const members = new Table([
    { title: "Client", text: (row) => row.client_id, class: "name" },
    { title: "Host", text: (row) => row.host },
    { title: "Role", text: (row) => (row.is_leader ? "leader" : ""), node: (row) => (row.is_leader ? badge("leader", "info") : "") },
    { title: "Instance id", text: (row) => row.instance_id ?? DASH },
    { title: "Partitions", class: "wide", text: (row) => row.assignment.join(", ") || DASH },
    { title: "Member id", text: (row) => row.member_id, class: "key" },
  ], { key: (row) => row.member_id, label: `Members of ${name}`, empty: empty("No members", "Nobody reads with this group now.") });
  const offsets = new Table([
    { title: "Topic", text: (row) => row.topic, class: "name", node: (row) => el("a", { href: link("topic", row.topic), title: row.topic }, row.topic) },
    { title: "Partition", number: true, text: (row) => String(row.partition) },
    { title: "Committed", number: true, text: (row) => count(row.committed < 0 ? null : row.committed) },
    { title: "End", number: true, text: (row) => count(row.end_offset) },
    { title: "Lag", number: true, text: (row) => count(row.lag), node: (row) => el("span", { class: row.lag ? "warn" : "dim" }, count(row.lag)) },
    { title: "Read by", text: (row) => row.member ?? DASH },
  ], { key: (row) => `${row.topic} ${row.partition}`, label: `Offsets of ${name}`, empty: empty("No offsets", "The group has committed none.") });
  const node = el("div", { class: "stack" },
    el("div", { class: "head" }, el("a", { href: "#/groups" }, "Consumer groups"), el("span", { class: "quiet" }, "/"), el("h1", {}, name), facts),
    el("h2", {}, "Members"), members.node, el("h2", {}, "Offsets"), offsets.node);
  return {
    node, table: offsets, stream: `group:${name}`,
    update(view) {
      if (!view.group) return;
      facts.replaceChildren(badge(view.group.state, GROUP_STATES[view.group.state] ?? ""),
        badge(`lag ${count(view.group.lag)}`, view.group.lag ? "warn" : ""), badge(view.group.protocol || "no assignor"));
      members.update(view.members);
      offsets.update(view.offsets);
    },
  };
}

const TRANSACTION_STATES = { Ongoing: "info", PrepareCommit: "warn", PrepareAbort: "warn", PrepareEpochFence: "warn", CompleteCommit: "good", CompleteAbort: "bad" };

export function transactionsView() {
  const table = new Table([
    { title: "Transactional id", text: (row) => row.transactional_id, class: "name" },
    { title: "State", text: (row) => row.state, node: (row) => badge(row.state, TRANSACTION_STATES[row.state] ?? "") },
    { title: "Producer", number: true, text: (row) => `${row.producer_id} / ${row.producer_epoch}` },
    { title: "Open since", text: (row) => (row.started_ms === null ? DASH : dateTime(row.started_ms)) },
    { title: "Time-out", number: true, text: (row) => (row.timeout_ms === null ? "none" : `${count(row.timeout_ms)} ms`) },
    { title: "Coordinator", text: (row) => (row.coordinator === null ? DASH : `node ${row.coordinator}`) },
    { title: "Partitions and groups", class: "wide", text: (row) => [...row.partitions, ...row.groups].join(", ") || DASH },
  ], { key: (row) => row.transactional_id, label: "Transactions",
    empty: empty("No transactional ids", "One appears when a producer with a transactional id starts.") });
  return Object.assign(new ListView("Transactions", table, (row) => row.transactional_id, "Filter ids"), { stream: "transactions" });
}

export function clientsView() {
  const versions = (row) => Object.entries(row.versions).map(([api, version]) => `${api} ${version}`);
  const table = new Table([
    { title: "Client id", text: (row) => row.client_id || DASH, class: "name" },
    { title: "Library", text: (row) => row.software || DASH },
    { title: "From", text: (row) => row.connection_id },
    { title: "Node", number: true, text: (row) => String(row.node_id) },
    { title: "State", text: (row) => row.state, node: (row) => badge(row.state, row.state === "throttled" ? "warn" : "") },
    { title: "Requests", number: true, text: (row) => count(row.requests) },
    { title: "/s", number: true, text: (row) => rate(row.requests_per_second) },
    { title: "Throttle", number: true, text: (row) => (row.throttle_ms ? `${ms(row.throttle_ms)} ms` : DASH), node: (row) => row.throttle_ms ? el("span", { class: "warn" }, `${ms(row.throttle_ms)} ms`) : el("span", { class: "dim" }, DASH) },
    { title: "Principal", class: "key", text: (row) => `${row.principal} ${row.protocol}`, node: (row) => [row.principal, el("span", { class: "below dim" }, row.protocol)] },
    { title: "Versions", class: "wide", text: (row) => versions(row).join(", "), node: (row) => el("code", { class: "dim" }, versions(row).flatMap((one, index) => [index ? ", " : "", el("span", {}, one)])) },
  ], { key: (row) => `${row.node_id} ${row.connection_id}`, label: "Connected clients",
    empty: empty("No client is connected", "Point one at the bootstrap servers of this broker.") });
  return Object.assign(new ListView("Clients", table, (row) => `${row.client_id} ${row.software} ${row.connection_id}`, "Filter clients"), { stream: "clients" });
}

export function requestsView(context) {
  let wanted = "";
  let onlyErrors = false;
  let rows = [];
  const times = new Table([
    { title: "API", text: (row) => row.api, class: "name" },
    { title: "Requests", number: true, text: (row) => count(row.requests) },
    { title: "Failed", number: true, text: (row) => count(row.errors), node: (row) => el("span", { class: row.errors ? "bad" : "dim" }, count(row.errors)) },
    { title: "p50 ms", number: true, text: (row) => ms(row.p50_ms) },
    { title: "p99 ms", number: true, text: (row) => ms(row.p99_ms) },
    { title: "Longest ms", number: true, text: (row) => ms(row.longest_ms) },
  ], { key: (row) => row.api, label: "Times by API", empty: empty("No requests yet", "Each request of a client is counted here.") });
  const log = new Table([
    { title: "Time", text: (row) => `${new Date(row.at_ms).toTimeString().slice(0, 8)}.${String(row.at_ms % 1000).padStart(3, "0")}`, class: "mono" },
    { title: "Node", number: true, text: (row) => String(row.node_id) },
    { title: "Client", text: (row) => row.client_id || row.connection_id, class: "key" },
    { title: "API", text: (row) => `${row.api} v${row.version}` },
    { title: "Bytes in", number: true, text: (row) => size(row.size) },
    { title: "Bytes out", number: true, text: (row) => size(row.answer_size) },
    { title: "Queue", number: true, text: (row) => ms(row.queue_ms) },
    { title: "Local", number: true, text: (row) => ms(row.local_ms) },
    { title: "Waited", number: true, text: (row) => ms(row.remote_ms) },
    { title: "Sent", number: true, text: (row) => ms(row.send_ms) },
    { title: "Throttle", number: true, text: (row) => (row.throttle_ms ? ms(row.throttle_ms) : "") },
    { title: "Total ms", number: true, text: (row) => ms(row.total_ms), node: (row) => el("b", {}, ms(row.total_ms)) },
    { title: "Outcome", text: (row) => row.outcome, node: (row) => badge(row.outcome, row.outcome === "ok" ? "" : "bad") },
  ], { key: (row) => row.number, most: 300, label: "Request log", empty: empty("No request fits", "New ones appear on top, a second after they ended.") });
  times.scroll.classList.add("short");
  log.scroll.classList.add("tall");
  const fits = (row) => (!onlyErrors || row.outcome !== "ok") && (!wanted || `${row.api} ${row.client_id} ${row.connection_id} ${row.outcome}`.toLowerCase().includes(wanted));
  const again = () => { log.clear(); log.prepend(rows.filter(fits)); };
  const search = searchBox("Filter requests", (text) => { wanted = text; again(); });
  const errors = el("label", { class: "check" }, el("input", { type: "checkbox", onchange: (event) => { onlyErrors = event.target.checked; again(); } }), "failed only");
  const left = el("span", { class: "quiet" });
  const node = el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", {}, "Requests"), left, el("span", { class: "grow" }), errors, search),
    times.node, log.node);
  return {
    node, table: log, stream: "requests",
    update(view) {
      if (!view.rows || context.isPaused) return;
      rows = [...rows, ...view.rows].slice(-1000);
      log.prepend(view.rows.filter(fits));
      times.update(view.times);
      left.textContent = view.left_out ? `${count(view.left_out)} not listed: at most 100 a second are, all are counted` : "";
    },
  };
}

export function unknown(name) {
  return { node: empty("There is no such view", name), stream: "topics", update() {} };
}
