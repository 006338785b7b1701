// The faults of a dev broker: its nodes as switches, each control as a form, what is in force, and a seeded schedule.

import { attempt, badge, clock, count, el, empty, get, plural, post, toast } from "./dom.js";

const GROUPS = { answers: "Answers", connections: "Connections", nodes: "Leaders and coordinators", transactions: "Transactions", security: "Security", time: "Time" };
const ELSEWHERE = new Set(["stop_node", "start_node", "stall_connections", "end_fault", "clear"]); // switches of the nodes, and buttons
const field = (label, node) => el("label", { class: "field" }, label, node);
const endFault = (name) => call("end_fault", { name }, (found) => `${name} ${found.result ? "has ended" : "was over"}`);
const call = (control, body, done) => attempt(() => post(`controls/${control}`, body), done);

export class FaultsView {
  constructor(context) {
    this.context = context;
    this.stream = "topic-names";
    this.isFixed = context.about.is_read_only;
    this.topics = el("datalist", { id: "fault-topics" });
    this.switches = new Map();
    this.nodeFields = [];
    this.nodes = el("div", { class: "rows" });
    this.force = el("div", { class: "rows" });
    this.list = el("div", { class: "events" });
    this.shownNodes = this.shownForce = this.shownEvents = "";
    this.clear = el("button", { class: "small danger", disabled: this.isFixed, onclick: () => call("clear", {}, "Every fault is forgotten") }, "Clear all");
    const cards = Object.entries(GROUPS).map(([group, title]) => this.card(group, title));
    this.node = el("div", { class: "stack" },
      el("div", { class: "head" }, el("h1", {}, "Faults"), el("span", { class: "grow" }), this.clear),
      this.topics,
      el("div", { class: "cards" },
        el("section", { class: "panel card" }, el("h2", {}, "In force"), this.force),
        el("section", { class: "panel card" }, el("h2", {}, "Nodes"), this.nodes),
        this.scheduleCard()),
      el("div", { class: "columns" }, cards),
      el("section", { class: "panel" }, el("div", { class: "toolbar" }, el("h2", {}, "What happened")), this.list));
  }

  card(group, title) {
    const controls = this.context.about.controls.filter((one) => one.group === group && !ELSEWHERE.has(one.name));
    return el("section", { class: "panel card", "data-group": group }, el("h2", {}, title), controls.map((one) => this.control(one)));
  }

  control(spec) {
    const simple = spec.parameters.length === 1 && spec.switch;
    const title = el("div", {}, spec.summary, el("code", {}, spec.name));
    if (simple) {
      const toggle = el("button", { class: "switch", role: "switch", "aria-checked": "false", "aria-label": spec.summary, disabled: this.isFixed,
        onclick: () => call(spec.name, { [spec.switch]: toggle.getAttribute("aria-checked") !== "true" }) });
      this.switches.set(spec.name, toggle);
      return el("div", { class: "control" }, el("div", { class: "title" }, title, toggle));
    }
    const inputs = spec.parameters.map((parameter) => [parameter, this.input(spec, parameter)]);
    const button = el("button", { class: "small", type: "submit", disabled: this.isFixed }, spec.switch ? "Set" : "Do it");
    const form = el("form", { class: "control", "data-control": spec.name, onsubmit: (event) => {
      event.preventDefault();
      const body = Object.fromEntries(inputs.map(([parameter, input]) => [parameter.name, read(parameter, input)]));
      call(spec.name, body, ({ result }) => `${spec.name}: ${result === null ? "done" : typeof result === "number" ? count(result) : result}`);
    } }, el("div", { class: "title" }, title), el("div", { class: "fields" }, inputs.map(([parameter, input]) =>
      parameter.kind === "true or false" ? el("label", { class: "check" }, input, label(parameter)) : field(label(parameter), input)), button));
    return form;
  }

  input(spec, parameter) {
    const { about } = this.context;
    const options = (values, none) => [none ? el("option", { value: "" }, none) : null, ...values.map((value) => el("option", { value }, value))];
    const common = { name: parameter.name, disabled: this.isFixed };
    switch (parameter.kind) {
      case "API": {
        const select = el("select", common, options(about.apis));
        return select;
      }
      case "error": {
        const select = el("select", common, options(about.errors));
        select.value = "NotLeaderOrFollowerError";
        return select;
      }
      case "true or false": return el("input", { ...common, type: "checkbox", checked: parameter.default });
      case "topic": return el("input", { ...common, list: "fault-topics", placeholder: parameter.none || "", required: !parameter.none, autocomplete: "off" });
      case "text": return el("input", { ...common, placeholder: parameter.none || "", required: !parameter.none, autocomplete: "off" });
      case "seconds": return el("input", { ...common, type: "number", min: "0", max: "3600", step: "any", value: "0.5" });
      case "milliseconds": return el("input", { ...common, type: "number", min: "0", max: "3600000", value: "200" });
      case "times": return el("input", { ...common, type: "number", min: "1", value: "1", placeholder: parameter.none });
      case "node": {
        const select = el("select", { ...common, required: !parameter.none });
        this.nodeFields.push([select, parameter.none]);
        return select;
      }
      default: return el("input", { ...common, type: "number", min: "0", placeholder: parameter.none || "", required: !parameter.none });
    }
  }

  // the schedule

  scheduleCard() {
    this.seed = el("input", { type: "number", value: "7", "aria-label": "Seed" });
    this.seconds = el("input", { type: "number", value: "60", min: "1", max: "3600", "aria-label": "Seconds" });
    this.speed = el("input", { type: "number", value: "1", min: "0.1", step: "any", "aria-label": "Speed" });
    this.schedule = null;
    this.drawn = el("div", { class: "text quiet" }, "A seed always draws the same faults.");
    this.fill = el("div");
    this.progress = el("div", { class: "row", hidden: true }, el("div", { class: "bar" }, this.fill));
    this.progressText = el("span", { class: "quiet" });
    this.progress.append(this.progressText);
    const file = el("input", { type: "file", accept: "application/json,.json", hidden: true, onchange: () => this.load(file) });
    this.playButton = el("button", { class: "primary small", disabled: true, onclick: () => this.play() }, "Play");
    this.saveButton = el("button", { class: "small", disabled: true, onclick: () => this.save() }, "Save");
    this.stopButton = el("button", { class: "small danger", hidden: true, onclick: () => attempt(() => post("schedule/stop"), "Stopped; every fault is undone") }, "Stop");
    return el("section", { class: "panel card", id: "schedule" }, el("h2", {}, "Schedule"),
      el("div", { class: "fields" }, field("Seed", this.seed), field("Seconds", this.seconds), field("Speed", this.speed)),
      el("div", { class: "fields" }, el("button", { class: "small", onclick: () => this.draw() }, "Draw"),
        this.playButton, this.stopButton, this.saveButton, el("button", { class: "small", onclick: () => file.click() }, "Load"), file),
      this.drawn, this.progress);
  }

  take(schedule) {
    this.schedule = schedule;
    this.playButton.disabled = this.isFixed;
    this.saveButton.disabled = false;
    const kinds = new Map();
    for (const fault of schedule.faults) kinds.set(fault.control, (kinds.get(fault.control) ?? 0) + 1);
    const parts = [...kinds].map(([name, times]) => `${name} ×${times}`).join(", ");
    this.drawn.textContent = `${plural(schedule.faults.length, "call")} in ${schedule.seconds} s: ${parts}`;
  }

  async draw() {
    const found = await attempt(() => get("schedule", { seed: this.seed.value, seconds: this.seconds.value }));
    if (found) this.take(found);
  }

  async load(file) {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      this.take(JSON.parse(await chosen.text()));
    } catch {
      toast(`${chosen.name} has no schedule`, true);
    }
  }

  save() {
    const lines = this.schedule.faults.map((fault) => `  ${JSON.stringify(fault)}`).join(",\n");
    const text = `{"seed": ${this.schedule.seed}, "seconds": ${this.schedule.seconds}, "faults": [\n${lines}\n]}\n`;
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    el("a", { href: address, download: `faults-${this.schedule.seed ?? "own"}.json` }).click();
    URL.revokeObjectURL(address);
  }

  play() {
    attempt(() => post("schedule", { schedule: this.schedule, speed: Number(this.speed.value) }), "Playing");
  }

  // the broker's state

  update(view) {
    const names = (view.rows ?? []).map((row) => row.name);
    if (this.shownTopics !== names.join("\n")) {
      this.shownTopics = names.join("\n");
      this.topics.replaceChildren(...names.map((value) => el("option", { value })));
    }
  }

  message(message, events) {
    const { faults, cluster, playback } = message;
    if (!faults || !cluster) return;
    const once = (name, value, draw) => {
      const text = JSON.stringify(value);
      if (this[name] !== text) { this[name] = text; draw(); }
    };
    once("shownNodes", [cluster.nodes, cluster.controller_id], () => this.showNodes(cluster));
    once("shownForce", faults, () => this.showForce(faults));
    this.switches.get("hold_transactions")?.setAttribute("aria-checked", String(faults.is_holding_transactions));
    this.switches.get("refuse_authentication")?.setAttribute("aria-checked", String(faults.is_refusing_authentication));
    this.node.querySelector('[data-group="security"]').hidden = !faults.has_sasl && !faults.has_tls;
    const playing = playback && !playback.is_over;
    this.stopButton.hidden = !playing;
    this.progress.hidden = !playback;
    if (playback) {
      this.fill.style.width = `${100 * (playback.is_over && playback.played === playback.faults ? 1 : playback.position / playback.seconds)}%`;
      const failed = playback.failures.length ? `, ${playback.failures.length} failed` : "";
      this.progressText.textContent = `${playback.played} of ${playback.faults}${failed}${playing ? "" : playback.played < playback.faults ? ", stopped" : ", over"}`;
      this.progressText.title = playback.failures.join("\n");
    }
    const armed = new Set(faults.armed.map((one) => one.name));
    once("shownEvents", [events.length ? events[events.length - 1].number : 0, ...armed], () => this.showEvents(events, armed));
  }

  showNodes(cluster) {
    const { nodes } = cluster;
    const rows = nodes.map((node) => this.nodeRow(node, cluster));
    if (nodes.length > 1) {
      const isStalled = nodes.every((node) => node.is_stalled);
      const all = el("button", { class: "switch", role: "switch", "aria-checked": String(isStalled), "aria-label": "All nodes are stalled", disabled: this.isFixed,
        onclick: () => call("stall_connections", { is_stalled: !isStalled }) });
      rows.push(el("div", { class: "row" }, el("span", { class: "text quiet" }, "All nodes"), el("label", { class: "check" }, "stalled", all)));
    }
    this.nodes.replaceChildren(...rows);
    for (const [select, none] of this.nodeFields) {
      const before = select.value;
      select.replaceChildren(...(none ? [el("option", { value: "" }, none)] : []), ...nodes.map((node) => el("option", { value: String(node.node_id) }, `node ${node.node_id}`)));
      if (before) select.value = before;
    }
  }

  nodeRow(node, cluster) {
    const run = el("button", { class: "switch run", role: "switch", "aria-checked": String(node.is_running), "aria-label": `Node ${node.node_id} runs`, disabled: this.isFixed,
      onclick: () => call(node.is_running ? "stop_node" : "start_node", { node_id: node.node_id }) });
    const stall = el("button", { class: "switch", role: "switch", "aria-checked": String(node.is_stalled), "aria-label": `Node ${node.node_id} is stalled`, disabled: this.isFixed,
      onclick: () => call("stall_connections", { is_stalled: !node.is_stalled, node_id: node.node_id }) });
    return el("div", { class: "row" }, el("span", { class: "text" }, `Node ${node.node_id} `, node.node_id === cluster.controller_id ? badge("controller", "info") : "", el("code", { class: "dim" }, ` ${node.address}`)),
      el("label", { class: "check" }, "runs", run), el("label", { class: "check" }, "stalled", stall));
  }

  showForce(faults) {
    const rows = [];
    const add = (text, end, name) => rows.push(el("div", { class: "row" }, badge("on", "bad"), el("span", { class: "text" }, text, name ? el("code", { class: "dim" }, ` ${name}`) : null),
      end && !this.isFixed ? el("button", { class: "small", onclick: end }, "End") : null));
    for (const [api, seconds] of Object.entries(faults.delays)) add(`${api} answers ${seconds} s late`, () => call("delay", { api, seconds: 0 }));
    for (const one of faults.throttles) add(`${one.client_id ?? "Every client"} is throttled for ${one.ms} ms`, () => call("throttle", { client_id: one.client_id, ms: 0 }));
    for (const one of faults.armed) {
      const where = one.topic ? ` of ${one.topic}${one.partition === null ? "" : `-${one.partition}`}` : "";
      const what = one.error ? `${one.api}${where} fails with ${one.error}` : `${one.api}: the connection is closed`;
      add(`${what}, ${one.remaining === null ? "until ended" : plural(one.remaining, "time")}${one.after ? ", after the work is done" : ""}`, () => endFault(one.name), one.name);
    }
    for (const id of faults.stalled_nodes) add(`Node ${id} reads and writes nothing`, () => call("stall_connections", { is_stalled: false, node_id: id }));
    for (const id of faults.stopped_nodes) add(`Node ${id} is stopped`, () => call("start_node", { node_id: id }));
    for (const [key, id] of Object.entries(faults.moved_coordinators)) add(`${key} is coordinated by ${id === null ? "no node" : `node ${id}`}`);
    if (faults.is_holding_transactions) add("No transaction markers are written", () => call("hold_transactions", { is_held: false }));
    if (faults.is_refusing_authentication) add("Nobody may authenticate", () => call("refuse_authentication", { is_refused: false }));
    for (const api of faults.functions) add(`${api} is answered by a function of the program`);
    this.clear.disabled = this.isFixed || rows.length === 0;
    this.force.replaceChildren(...(rows.length ? rows : [el("span", { class: "dim" }, "None: the broker does as it should.")]));
  }

  showEvents(events, armed) {
    if (!events.length) {
      this.list.replaceChildren(empty("No fault yet", "Each call of a control appears here and in the charts above, those of a test as well."));
      return;
    }
    this.list.replaceChildren(...events.slice(-100).reverse().map((event) => el("div", { class: "row" },
      el("time", {}, clock(event.at_ms)), badge(event.error ? "failed" : event.is_end ? "end" : "fault", event.error ? "warn" : event.is_end ? "good" : "bad"),
      el("code", { class: "text" }, event.text + (event.error ? `: ${event.error}` : "")),
      armed.has(event.fault) && !this.isFixed ? el("button", { class: "small", "aria-label": `End ${event.fault}`, onclick: () => endFault(event.fault) }, "End") : null)));
  }
}

function label(parameter) {
  return parameter.name.replace(/^is_/, "").replace(/^(node|client)_id$/, "$1").replaceAll("_", " ");
}

function read(parameter, input) {
  if (parameter.kind === "true or false") return input.checked;
  if (input.value === "") return null;
  return input.type === "number" || parameter.kind === "node" ? Number(input.value) : input.value;
}
