// JupyterLab's part of Slipway in a fake application: ENTRY=remoteEntry.*.js node --test lab.mjs
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, mock, test } from "node:test";

const source = readFileSync(process.env.ENTRY, "utf8");
const NOW = Date.parse("2026-11-21T14:00:00Z");
const minutes = (n) => new Date(NOW + n * 60_000).toISOString();
const stops = (n, more) => ({ at: minutes(n), why: "idle for 1 h 50 min", can_keep: true, max_keep: "24h0m0s", warning: "10m0s", ...more });

let answers, asked, told, listeners, now, ended;

// The timers are taken by hand: a test says when a minute has passed.
let tick;

beforeEach(() => {
  [answers, asked, told, listeners, now, ended] = [[], [], [], {}, 0, false];
  tick = null;
  globalThis.window = {};
  globalThis.document = {
    hidden: false,
    cookie: "a=b; _xsrf=x|1; c=d",
    addEventListener: (name, call) => (listeners[name] = call),
    removeEventListener: (name) => delete listeners[name],
  };
  mock.method(performance, "now", () => now);
  mock.method(globalThis, "setInterval", (call) => ((tick = call), 7));
  mock.method(globalThis, "clearInterval", () => (ended = true));
  mock.method(globalThis, "fetch", async (url, init) => {
    asked.push([init.method ?? "GET", url, init]);
    const { status = 200, ...doc } = answers.length > 1 ? answers.shift() : (answers[0] ?? {});
    if (status === 0) throw new TypeError("network");
    return { status, ok: status < 400, json: async () => ({ now: minutes(0), ...doc }) };
  });
});
afterEach(() => mock.restoreAll());

class Commands {
  own = {};
  has = false;
  hasCommand = (id) => this.has && id === "apputils:notify";
  addCommand = (id, command) => (this.own[id] = command);
  execute = async (id, args) => {
    told.push([id, args]);
    return id === "apputils:notify" ? `n${told.length}` : true;
  };
}

const [ICommandPalette, ILauncher, INotebookTracker] = [{}, {}, {}];
class LabIcon {
  constructor(icon) {
    Object.assign(this, icon);
  }
}
const shares = (name, module) => ({ [name]: { "4.7": { get: async () => () => module } } });
const SCOPE = {
  ...shares("@jupyterlab/apputils", { ICommandPalette }),
  ...shares("@jupyterlab/launcher", { ILauncher }),
  ...shares("@jupyterlab/ui-components", { LabIcon }),
};

async function lab(scope = SCOPE, has = true, notebooks = undefined) {
  const commands = new Commands();
  new Function(source)();
  const container = window._JUPYTERLAB.slipway;
  await container.init(scope);
  const plugin = (await container.get("./extension"))().default;
  const palette = { items: [], addItem: (item) => palette.items.push(item) };
  const launcher = { cards: [], add: (card) => launcher.cards.push(card) };
  const settings = { baseUrl: "/user/a/", token: "" };
  let started;
  const app = { commands, serviceManager: { serverSettings: settings }, started: new Promise((done) => (started = done)) };
  const services = new Map([
    [ICommandPalette, palette],
    [ILauncher, launcher],
    [INotebookTracker, notebooks],
  ]);
  assert.equal(plugin.activate(app, ...plugin.optional.map((token) => services.get(token))), undefined);
  await settled();
  commands.has = has; // another plugin's commands are there only when all have been activated
  started();
  await settled();
  return { plugin, commands, palette, launcher };
}

const settled = () => new Promise((done) => setImmediate(done));
const minute = async (n = 1) => {
  now += n * 60_000;
  await tick();
};

test("one notification, with a button that keeps", async () => {
  answers = [{ stops: stops(60) }, { stops: stops(9) }, { stops: stops(9) }, { keep_until: minutes(240), stops: null }];
  const { commands, palette } = await lab();
  assert.deepEqual(told, []);
  await minute();
  await minute();
  assert.equal(told.length, 1);
  const [id, { message, type, options }] = told[0];
  assert.deepEqual([id, type, options.autoClose], ["apputils:notify", "warning", false]);
  assert.match(message, /^This session stops at .{4,11}: idle for 1 h 50 min\. Your changes are kept\.$/);
  assert.deepEqual(
    options.actions.map(({ label, commandId }) => [label, commandId]),
    [["Keep it for 4 hours", "slipway:keep"]],
  );
  assert.deepEqual(palette.items, [{ command: "slipway:keep", category: "Slipway" }]);
  assert.equal(commands.own["slipway:keep"].label(), "Slipway: keep this session for 4 hours");

  await commands.own["slipway:keep"].execute();
  const [method, url, init] = asked.at(-1);
  assert.deepEqual([method, url, init.body], ["POST", "/user/a/slipway/keep", '{"for":"14400s"}']);
  assert.deepEqual([init.headers["X-XSRFToken"], init.credentials], ["x|1", "same-origin"]);
  assert.deepEqual(told[1], ["apputils:dismiss-notification", { id: "n1" }]);
  assert.equal(told[2][1].type, "success");
  assert.match(told[2][1].message, /^This session is kept until .{4,11}\.$/);
});

test("a stop that moves is the same notification, one that goes away takes it along", async () => {
  answers = [{ stops: stops(9) }, { stops: stops(7) }, { stops: stops(110) }, { stops: stops(5) }];
  await lab();
  await minute();
  assert.deepEqual([told[1][0], told[1][1].id], ["apputils:update-notification", "n1"]);
  assert.equal(told[1][1].actions.length, 1);
  await minute();
  assert.deepEqual(told[2], ["apputils:dismiss-notification", { id: "n1" }]);
  await minute();
  assert.equal(told[3][0], "apputils:notify");
});

test("no button where nothing can be kept, less where the site allows less", async () => {
  answers = [{ stops: stops(3, { can_keep: false }) }];
  await lab();
  assert.deepEqual(told[0][1].options.actions, []);
  answers = [{ stops: stops(3, { max_keep: "1h30m0s" }) }];
  const { commands } = await lab();
  assert.equal(told[1][1].options.actions[0].label, "Keep it for 1 hour 30 minutes");
  await commands.own["slipway:keep"].execute();
  assert.equal(asked.at(-1)[2].body, '{"for":"5400s"}');
});

test("a refusal is told with its remedy", async () => {
  answers = [{ stops: null }, { status: 422, message: "for: 4h: too long", remedy: "at most 2h" }];
  const { commands } = await lab();
  await commands.own["slipway:keep"].execute();
  assert.equal(told[0][1].message, "The session could not be kept: for: 4h: too long: at most 2h");
  assert.equal(told[0][1].type, "error");
});

test("a hidden page asks nothing, a shown one at once", async () => {
  answers = [{ stops: null }];
  await lab();
  document.hidden = true;
  await minute(5);
  assert.equal(asked.length, 1);
  document.hidden = false;
  await listeners.visibilitychange();
  await listeners.visibilitychange();
  assert.equal(asked.length, 2);
});

test("outside Slipway, and in an application without notifications, it is silent", async () => {
  answers = [{ status: 404 }];
  const { commands, palette } = await lab();
  assert.deepEqual([told, palette.items, commands.own, tick], [[], [], {}, null]);
  await lab(SCOPE, false);
  assert.equal(asked.length, 1);
});

test("a service that is away for a while costs nothing; a server without the extension ends it", async () => {
  answers = [{ stops: null }, { status: 503 }, { status: 0 }, { stops: stops(5) }, { status: 404 }];
  await lab();
  await minute();
  await minute();
  assert.deepEqual(told, []);
  await minute();
  assert.equal(told.length, 1);
  await minute();
  assert.ok(ended);
  assert.equal(listeners.visibilitychange, undefined);
});

test("VS Code is a card of the launcher, where the image has it", async () => {
  const opened = [];
  globalThis.window.open = (...args) => opened.push(args);
  answers = [{ stops: null, vscode: true }];
  const { commands, palette, launcher } = await lab();
  assert.deepEqual(launcher.cards, [{ command: "slipway:code", category: "Other", rank: 10 }]);
  assert.deepEqual(palette.items.at(-1), { command: "slipway:code", category: "Slipway", args: { isPalette: true } });
  const code = commands.own["slipway:code"];
  assert.deepEqual([code.label({}), code.label({ isPalette: true })], ["VS Code", "Slipway: open VS Code"]);
  assert.match(code.icon.svgstr, /^<svg /);
  code.execute();
  assert.deepEqual(opened, [["/user/a/vscode/", "_blank", "noopener"]]);

  answers = [{ stops: null, vscode: false }];
  const without = await lab();
  assert.deepEqual([without.launcher.cards, without.commands.own["slipway:code"]], [[], undefined]);
});

test("what the application does not share is not used", async () => {
  answers = [{ stops: null, vscode: true }];
  assert.deepEqual((await lab()).plugin.optional, [ICommandPalette, ILauncher]);
  const none = await lab({});
  assert.deepEqual([none.plugin.optional, none.palette.items, none.launcher.cards], [[], [], []]);
  assert.equal(none.commands.own["slipway:code"].icon, undefined);
  const one = await lab(shares("@jupyterlab/launcher", { ILauncher }));
  assert.deepEqual([one.plugin.optional, one.launcher.cards.length], [[ILauncher], 1]);
  const broken = { "@jupyterlab/apputils": { "4.7": { get: () => Promise.reject(new Error("no")) } } };
  assert.deepEqual((await lab(broken)).plugin.optional, []);
  await assert.rejects(window._JUPYTERLAB.slipway.get("./other"));
});

class Signal {
  all = [];
  connect = (call) => this.all.push(call);
  emit = (args) => this.all.forEach((call) => call(null, args));
}

// A kernel's connection as JupyterLab's library has it: the status is set before it is told, and the question that it asks when it is
// connected again comes before that is told.
class Kernel {
  connectionStatus = "connected";
  connectionStatusChanged = new Signal();
  statusChanged = new Signal();
  anyMessage = new Signal();
  send = (msg_id, msg_type, content = {}) => this.anyMessage.emit({ direction: "send", msg: { header: { msg_id, msg_type }, parent_header: {}, content } });
  receive = (msg_id, msg_type) => this.anyMessage.emit({ direction: "recv", msg: { header: { msg_id: "r", msg_type }, parent_header: { msg_id }, content: {} } });
  cell = (id, code = id, silent = false) => this.send(id, "execute_request", { code, silent });
  breaks = () => this.connectionStatusChanged.emit((this.connectionStatus = "connecting"));
  comesBack = (question) => {
    this.connectionStatus = "connected";
    this.send(question, "kernel_info_request");
    this.connectionStatusChanged.emit("connected");
  };
}

async function notebook() {
  answers = [{ stops: null }];
  const [first, kernel] = [new Kernel(), new Kernel()];
  const context = { session: { kernel: first }, kernelChanged: new Signal() };
  const notebooks = { forEach: (call) => call({ sessionContext: context }), widgetAdded: new Signal() };
  await lab({ ...SCOPE, ...shares("@jupyterlab/notebook", { INotebookTracker }) }, true, notebooks);
  context.kernelChanged.emit({ oldValue: first, newValue: kernel });
  notebooks.widgetAdded.emit({ sessionContext: { session: { kernel }, kernelChanged: new Signal() } }); // which shares the kernel
  return kernel;
}

test("cells that a break has left without an answer are told, once, when none can come any more", async () => {
  const kernel = await notebook();
  kernel.cell("answered");
  kernel.receive("answered", "execute_reply");
  kernel.cell("lost", "  x = 1\ny = 2");
  kernel.cell("late");
  kernel.cell("silent", "hidden", true);
  kernel.send("early", "kernel_info_request");
  kernel.breaks();
  kernel.cell("queued");
  kernel.comesBack("q1");
  kernel.receive("early", "kernel_info_reply");
  kernel.receive("late", "execute_reply");
  assert.deepEqual(told, []);
  kernel.receive("q1", "kernel_info_reply");
  kernel.receive("q1", "kernel_info_reply");
  assert.equal(told.length, 1);
  const [id, { message, type, options }] = told[0];
  assert.deepEqual([id, type, options.autoClose], ["apputils:notify", "error", false]);
  assert.match(message, /broke off as a cell was sent or answered \(x = 1\)\. It may have run or not/);

  kernel.breaks(); // what was queued had been sent by then
  kernel.cell("queued too");
  kernel.comesBack("q2");
  kernel.breaks(); // before there was an answer
  kernel.comesBack("q3");
  kernel.receive("q2", "kernel_info_reply");
  assert.equal(told.length, 1);
  kernel.receive("q3", "kernel_info_reply");
  assert.match(told[1][1].message, /as a cell was sent or answered \(queued\)/);
  kernel.receive("queued too", "execute_reply");
  kernel.breaks();
  kernel.comesBack("q4");
  kernel.receive("q4", "kernel_info_reply");
  assert.equal(told.length, 2);
});

test("several cells are counted; a kernel that restarts has none", async () => {
  const kernel = await notebook();
  for (const id of ["a".repeat(80), "b"]) kernel.cell(id);
  kernel.breaks();
  kernel.comesBack("q1");
  kernel.receive("q1", "kernel_info_reply");
  assert.match(told[0][1].message, /as 2 cells were sent or answered \(the first is a{60}…\)\. Each of them may have run or not/);
  kernel.cell("c");
  kernel.breaks();
  kernel.statusChanged.emit("autorestarting");
  kernel.comesBack("q2");
  kernel.receive("q2", "kernel_info_reply");
  assert.equal(told.length, 1);
});
