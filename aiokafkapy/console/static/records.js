// Records: followed live or read from a position on, filtered, opened in full, and written.

import { DASH, Table, attempt, badge, byId, clock, count, dateTime, el, empty, get, plural, post, size, toast } from "./dom.js";

const STARTS = [["latest", "Live"], ["last:100", "Last 100"], ["earliest", "Oldest"], ["offset", "From offset"], ["time", "From time"]];

const ISOLATION = [["read_uncommitted", "read_uncommitted"], ["read_committed", "read_committed"]];
const OUTCOMES = {
  aborted: ["aborted", "bad", "Its transaction was aborted: read_committed does not give it."],
  pending: ["pending", "warn", "Its transaction is open, or one before it: read_committed does not give it yet."],
};

const unreadable = (number) => (number ? `; ${plural(number, "further record")} cannot be decoded` : "");

const shown = (one) => (one.form === "null" ? "null" : one.text);

function bytes(one) {
  if (one.form === "null") return el("span", { class: "dim" }, "null");
  const code = el("code", { class: one.form === "hex" ? "dim" : "" }, one.text);
  return one.is_cut ? [code, el("span", { class: "dim" }, "…")] : code;
}

function mark(outcome) {
  if (!OUTCOMES[outcome]) return null;
  const [text, kind, title] = OUTCOMES[outcome];
  const node = badge(text, kind);
  node.title = title;
  return node;
}

function choice(label, options, value, changed) {
  const select = el("select", { "aria-label": label, onchange: changed }, options.map(([key, text]) => el("option", { value: key }, text)));
  select.value = value;
  return select;
}

const field = (label, node, kind = "") => el("label", { class: `field ${kind}` }, label, node);

export class RecordsView {
  constructor(context, topic) {
    this.context = context;
    this.stream = "topic-names";
    this.topic = topic;
    this.source = null;
    this.trouble = "";
    this.counts = { seen: 0, left: 0, fitting: 0, passed: 0, unreadable: 0 };
    const forms = context.about.forms.filter((form) => form !== "registry" || context.about.has_registry).map((form) => [form, form]);
    const again = () => this.restart();
    this.topicField = choice("Topic", [["", "Choose a topic"]], "", () => { location.hash = `#/records/${encodeURIComponent(this.topicField.value)}`; });
    this.partitionField = choice("Partition", [["", "all"]], "", again);
    this.startField = choice("From", STARTS, "latest", () => { this.showNumber(); this.restart(); });
    this.numberField = el("input", { type: "number", min: "0", value: "0", "aria-label": "Offset", onchange: again });
    this.timeField = el("input", { type: "datetime-local", step: "1", "aria-label": "Time", onchange: again });
    this.filterField = el("input", { type: "search", placeholder: "paid key:ann header:trace -test", "aria-label": "Filter", "data-filter": true, maxlength: "1000" });
    let timer = 0;
    this.filterField.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(again, 300); });
    this.keyForm = choice("Keys as", forms, "auto", again);
    this.valueForm = choice("Values as", forms, "auto", again);
    this.isolation = choice("Isolation level", ISOLATION, "read_uncommitted", again);
    this.numberLabel = field("Offset", this.numberField);
    this.timeLabel = field("Time", this.timeField);
    this.pause = el("button", { onclick: () => context.togglePause() }, "Pause");
    this.note = el("p", { class: "foot", role: "status" }, "");
    this.more = el("button", { class: "small", hidden: true, onclick: () => this.restart(true, this.next) }, "Next");
    this.next = "";
    this.table = new Table([
      { title: "Time", text: (row) => clock(row.timestamp_ms, true), class: "mono" },
      { title: "Partition", number: true, text: (row) => String(row.partition) },
      { title: "Offset", number: true, text: (row) => count(row.offset) },
      { title: "Key", text: (row) => shown(row.key), class: "key", node: (row) => bytes(row.key) },
      { title: "Value", text: (row) => `${row.outcome} ${shown(row.value)}`, class: "value", node: (row) => [mark(row.outcome), bytes(row.value)].flat().filter(Boolean) },
      { title: "Headers", number: true, text: (row) => (row.headers.length ? String(row.headers.length + row.left_out_headers) : "") },
      { title: "Bytes", number: true, text: (row) => size(row.key.size + row.value.size) },
    ], { key: (row) => `${row.partition} ${row.offset}`, open: (row) => this.open(row), most: 300, label: "Records",
      empty: empty(topic ? "No record yet" : "No topic chosen", topic ? "Live shows what is written from now on; choose Last 100 or Oldest for what is there." : "Choose one to follow its records.") });
    this.table.scroll.classList.add("tall");
    const write = context.about.is_read_only ? null : el("button", { onclick: () => context.produce(this.topic) }, "Write a record");
    const toolbar = el("div", { class: "toolbar fields" },
      field("Topic", this.topicField), field("Partition", this.partitionField), field("From", this.startField), this.numberLabel, this.timeLabel,
      field("Filter", this.filterField, "grow"), field("Keys as", this.keyForm), field("Values as", this.valueForm), field("Isolation", this.isolation));
    this.table.node.prepend(toolbar);
    this.table.node.append(el("div", { class: "row" }, this.note, this.more));
    this.node = el("div", { class: "stack" },
      el("div", { class: "head" }, el("h1", {}, "Records"), el("span", { class: "grow" }), this.pause, el("button", { onclick: () => this.clear() }, "Clear"), write),
      this.table.node);
    this.showNumber();
    this.restart();
  }

  update(view) {
    const rows = view.rows ?? [];
    const names = rows.map((row) => row.name);
    if (this.topic && !names.includes(this.topic)) names.push(this.topic);
    const known = [...this.topicField.options].slice(1).map((option) => option.value);
    if (known.join("\n") !== names.join("\n")) {
      this.topicField.replaceChildren(el("option", { value: "" }, "Choose a topic"), ...names.map((name) => el("option", { value: name }, name)));
      this.topicField.value = this.topic;
    }
    const total = rows.find((row) => row.name === this.topic)?.partitions ?? 0;
    if (this.partitionField.options.length !== total + 1) {
      const before = this.partitionField.value;
      this.partitionField.replaceChildren(el("option", { value: "" }, "all"), ...Array.from({ length: total }, (_, index) => el("option", { value: String(index) }, String(index))));
      this.partitionField.value = Number(before || 0) < total ? before : "";
    }
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  paused(isPaused) {
    this.pause.textContent = isPaused ? "Go on" : "Pause";
    this.pause.setAttribute("aria-pressed", String(isPaused));
    if (this.startField.value !== "latest") return;
    if (isPaused) this.close();
    else this.restart(false);
  }

  clear() {
    this.table.clear();
    this.counts = { seen: 0, left: 0, fitting: 0, passed: 0, unreadable: 0 };
    this.say();
  }

  showNumber() {
    this.numberLabel.hidden = this.startField.value !== "offset";
    this.timeLabel.hidden = this.startField.value !== "time";
    this.pause.hidden = this.startField.value !== "latest";
  }

  asked() {
    let from = this.startField.value;
    if (from === "offset") from = `offset:${Math.max(0, Number(this.numberField.value) || 0)}`;
    if (from === "time") from = `time:${Math.max(0, Date.parse(this.timeField.value) || 0)}`;
    return {
      topic: this.topic, partition: this.partitionField.value, from, filter: this.filterField.value,
      key_form: this.keyForm.value, value_form: this.valueForm.value, isolation: this.isolation.value,
    };
  }

  async restart(fromNothing = true, from = null) {
    this.close();
    this.trouble = "";
    this.more.hidden = true;
    if (fromNothing) this.clear();
    if (!this.topic) return;
    const asked = from ? { ...this.asked(), from } : this.asked();
    if (asked.from !== "latest") {
      const found = await attempt(() => get("records", { ...asked, limit: 200 }));
      if (!found) return;
      this.table.update(found.rows.length && asked.from.startsWith("last") ? found.rows.reverse() : found.rows);
      this.next = found.next;
      this.more.hidden = found.is_at_end;
      this.note.textContent = `${plural(found.rows.length, "record")} of ${count(found.examined)} looked at${found.is_at_end ? "; this is the end" : "; there are more"}${unreadable(found.unreadable)}${found.note ? `; ${found.note}` : ""}.`;
      return;
    }
    if (this.context.isPaused) return;
    // The first message says that the stream is open: a record written before it is not shown.
    this.note.textContent = "Connecting…";
    const source = new EventSource(`api/follow?${new URLSearchParams(asked)}`);
    this.source = source;
    source.onmessage = (event) => this.take(JSON.parse(event.data));
    source.addEventListener("problem", (event) => { source.close(); this.note.textContent = JSON.parse(event.data).error; });
    source.addEventListener("end", () => source.close());
  }

  take(message) {
    this.counts.seen += message.seen;
    this.counts.fitting += message.fitting;
    this.counts.left += message.left_out;
    this.counts.passed += message.passed_over;
    this.trouble = message.note;
    this.counts.unreadable += message.unreadable;
    if (message.rows.length) this.table.prepend(message.rows);
    for (const [partition, offset, outcome] of message.decided) this.table.change(`${partition} ${offset}`, { outcome });
    this.say();
  }

  say() {
    const { seen, fitting, left, passed, unreadable: bad } = this.counts;
    const parts = [`${plural(seen, "record")} since you look${unreadable(bad)}`];
    if (this.filterField.value) parts.push(`${count(fitting)} fit`);
    if (this.filterField.value && passed) parts.push(`${count(passed)} came too fast to be looked at`);
    if (left) parts.push(`${count(left)} left out of the list, which shows the newest`);
    if (this.trouble) parts.push(this.trouble);
    this.note.textContent = this.startField.value === "latest" ? `${parts.join("; ")}.` : "";
  }

  async open(row) {
    const asked = this.asked();
    const found = await attempt(() => get("record", { topic: row.topic, partition: row.partition, from: `offset:${row.offset}`, key_form: asked.key_form, value_form: asked.value_form }));
    if (found) showRecord(found);
  }
}

function block(title, one) {
  if (one.form === "null") return el("div", {}, el("h2", {}, title, " ", badge("null")));
  const copy = el("button", { class: "small", onclick: () => navigator.clipboard?.writeText(one.text).then(() => toast("Copied")) }, "Copy");
  return el("div", {}, el("div", { class: "row" }, el("h2", {}, title), badge(one.form), el("span", { class: "quiet" }, size(one.size)),
    one.note ? el("span", { class: "warn" }, one.note) : null, el("span", { class: "grow" }), copy), el("pre", {}, one.text));
}

function showRecord(record) {
  const dialog = byId("record-dialog");
  const headers = record.headers.length
    ? el("dl", {}, record.headers.flatMap(([name, one]) => [el("dt", {}, name), el("dd", { class: "mono" }, bytes(one))]))
    : el("span", { class: "dim" }, "none");
  dialog.replaceChildren(
    el("div", { class: "dialog-head" }, el("h1", { id: "record-title" }, `${record.topic}-${record.partition} at ${count(record.offset)}`),
      el("span", { class: "grow" }), el("button", { class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    el("div", { class: "dialog-body" },
      el("dl", {}, el("dt", {}, "Time"), el("dd", {}, record.timestamp_ms < 0 ? DASH : dateTime(record.timestamp_ms)),
        ...(record.outcome ? [el("dt", {}, "Transaction"), el("dd", {}, mark(record.outcome), ` ${OUTCOMES[record.outcome][2]}`)] : [])),
      block("Key", record.key), block("Value", record.value), el("div", {}, el("h2", {}, "Headers"), headers)));
  dialog.showModal();
}

export function showProduce(topics, topic) {
  const dialog = byId("produce-dialog");
  const forms = [["text", "text"], ["json", "JSON"], ["hex", "hex"], ["base64", "Base64"]];
  const topicField = el("input", { list: "produce-topics", required: true, value: topic ?? "", autocomplete: "off" });
  const partition = el("input", { type: "number", min: "0", placeholder: "any" });
  const key = el("input", { autocomplete: "off" });
  const keyForm = choice("Form of the key", forms, "text");
  const value = el("textarea", { rows: "7", spellcheck: "false" });
  const valueForm = choice("Form of the value", forms, "text");
  const tombstone = el("input", { type: "checkbox", onchange: () => { value.disabled = tombstone.checked; } });
  const headers = el("textarea", { rows: "2", spellcheck: "false", placeholder: "name: value, one on each line" });
  const send = async (event) => {
    event.preventDefault();
    const lines = headers.value.split("\n").filter((line) => line.trim());
    const body = {
      topic: topicField.value, partition: partition.value === "" ? null : Number(partition.value),
      key: key.value === "" ? null : key.value, key_form: keyForm.value,
      value: tombstone.checked ? null : value.value, value_form: valueForm.value,
      headers: lines.map((line) => { const [name, ...rest] = line.split(":"); return [name.trim(), rest.join(":").trim()]; }),
    };
    await attempt(() => post("records", body), (found) => `Written to ${body.topic}-${found.partition} at offset ${count(found.offset)}`);
  };
  dialog.replaceChildren(
    el("div", { class: "dialog-head" }, el("h1", { id: "produce-title" }, "Write a record"), el("span", { class: "grow" }),
      el("button", { class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() }, "✕")),
    el("form", { class: "dialog-body", onsubmit: send },
      el("datalist", { id: "produce-topics" }, topics.map((name) => el("option", { value: name }))),
      el("div", { class: "fields" }, field("Topic", topicField, "grow"), field("Partition", partition)),
      el("div", { class: "fields" }, field("Key", key, "grow"), field("as", keyForm)),
      el("div", { class: "fields top" }, field("Value", value, "grow"), field("as", valueForm)),
      el("label", { class: "check" }, tombstone, "null value, a tombstone"),
      field("Headers", headers),
      el("div", { class: "fields" }, el("button", { class: "primary", type: "submit" }, "Write"), el("button", { type: "button", onclick: () => dialog.close() }, "Close"))));
  dialog.showModal();
  (topic ? value : topicField).focus();
}
