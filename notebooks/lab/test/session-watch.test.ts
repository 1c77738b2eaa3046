// The warning of a stop to come, and the button that keeps the session, in a fake application.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { Service } from "../src/service.ts";
import { SessionWatch } from "../src/session-watch.ts";
import { findSession } from "../src/session.ts";
import { offerCode } from "../src/vscode.ts";

const NOW = Date.parse("2026-11-21T14:00:00Z");
const minutes = (n: number) => new Date(NOW + n * 60_000).toISOString();
const stops = (n: number, more = {}) => ({
  at: minutes(n),
  why: "idle for 1 h 50 min",
  can_keep: true,
  max_keep: "24h0m0s",
  warning: "10m0s",
  ...more,
});

type Answer = { status?: number } & Record<string, unknown>;
let answers: Answer[] = [];
let asked: [string, string, unknown][] = [];
let told: [string, any][] = [];
let listeners: Record<string, () => Promise<void>> = {};
let now = 0;
let ended = false;
let tick: (() => Promise<void> | undefined) | null = null; // the timer is taken by hand: a test says when a minute has passed

beforeEach(() => {
  [answers, asked, told, listeners, now, ended, tick] = [[], [], [], {}, 0, false, null];
  Object.assign(globalThis, {
    document: {
      hidden: false,
      addEventListener: (name: string, call: () => Promise<void>) => (listeners[name] = call),
      removeEventListener: (name: string) => delete listeners[name],
    },
  });
  mock.method(performance, "now", () => now);
  mock.method(globalThis, "setInterval", ((call: () => Promise<void>) => ((tick = call), 7)) as never);
  mock.method(globalThis, "clearInterval", () => (ended = true));
});
afterEach(() => mock.restoreAll());

const service = new Service(async (path, init) => {
  asked.push([init.method ?? "GET", path, init.body]);
  const { status = 200, ...doc } = (answers.length > 1 ? answers.shift() : answers[0]) ?? {};
  if (status === 0) throw new TypeError("network");
  return new Response(JSON.stringify({ now: minutes(0), ...doc }), { status });
});

const commands = {
  execute: async (id: string, args: object) => {
    told.push([id, args]);
    return id === "apputils:notify" ? `n${told.length}` : true;
  },
};

async function begin(): Promise<SessionWatch> {
  const app = { started: Promise.resolve(), commands: { hasCommand: (id: string) => id === "apputils:notify" } };
  const watch = new SessionWatch(commands, service);
  const session = await findSession(app, service);
  assert.ok(session);
  await watch.start(session);
  return watch;
}

const minute = async (n = 1) => {
  now += n * 60_000;
  await tick?.();
};

test("one notification, with a button that keeps", async () => {
  answers = [{ stops: stops(60) }, { stops: stops(9) }, { stops: stops(9) }, { keep_until: minutes(240), stops: null }];
  const watch = await begin();
  assert.deepEqual(told, []);
  await minute();
  await minute();
  assert.equal(told.length, 1);
  const [id, { message, type, options }] = told[0]!;
  assert.deepEqual([id, type, options.autoClose], ["apputils:notify", "warning", false]);
  assert.match(message, /^This session stops at .{4,11}: idle for 1 h 50 min\. Your changes are kept\.$/);
  assert.deepEqual(
    options.actions.map(({ label, commandId }: Record<string, string>) => [label, commandId]),
    [["Keep it for 4 hours", "slipway:keep"]],
  );
  assert.equal(watch.keepWords(), "4 hours");

  await watch.keep();
  assert.deepEqual(asked.at(-1), ["POST", "keep", '{"for":"14400s"}']);
  assert.deepEqual(told[1], ["apputils:dismiss-notification", { id: "n1" }]);
  assert.equal(told[2]![1].type, "success");
  assert.match(told[2]![1].message, /^This session is kept until .{4,11}\.$/);
});

test("a stop that moves is the same notification, one that goes away takes it along", async () => {
  answers = [{ stops: stops(9) }, { stops: stops(7) }, { stops: stops(110) }, { stops: stops(5) }];
  await begin();
  await minute();
  assert.deepEqual([told[1]![0], told[1]![1].id], ["apputils:update-notification", "n1"]);
  assert.equal(told[1]![1].actions.length, 1);
  await minute();
  assert.deepEqual(told[2], ["apputils:dismiss-notification", { id: "n1" }]);
  await minute();
  assert.equal(told[3]![0], "apputils:notify");
});

test("no button where nothing can be kept, less where the site allows less", async () => {
  answers = [{ stops: stops(3, { can_keep: false }) }];
  await begin();
  assert.deepEqual(told[0]![1].options.actions, []);
  answers = [{ stops: stops(3, { max_keep: "1h30m0s" }) }];
  const watch = await begin();
  assert.equal(told[1]![1].options.actions[0].label, "Keep it for 1 hour 30 minutes");
  await watch.keep();
  assert.equal(asked.at(-1)![2], '{"for":"5400s"}');
});

test("a refusal is told with its remedy", async () => {
  answers = [{ stops: null }, { status: 422, message: "for: 4h: too long", remedy: "at most 2h" }];
  const watch = await begin();
  await watch.keep();
  assert.equal(told[0]![1].message, "The session could not be kept: for: 4h: too long: at most 2h");
  assert.equal(told[0]![1].type, "error");
});

test("each alert is told once", async () => {
  const alert = { cause: "memory", message: "2 programs were killed", remedy: "Choose more memory", at: minutes(0) };
  answers = [{ stops: null, alerts: [alert] }];
  await begin();
  await minute();
  assert.equal(told.length, 1);
  assert.equal(told[0]![1].message, "2 programs were killed. Choose more memory.");
  assert.equal(told[0]![1].type, "error");
});

test("a hidden page asks nothing, a shown one at once", async () => {
  answers = [{ stops: null }];
  await begin();
  Object.assign(document, { hidden: true });
  await minute(5);
  assert.equal(asked.length, 1);
  Object.assign(document, { hidden: false });
  await listeners.visibilitychange?.();
  await listeners.visibilitychange?.();
  assert.equal(asked.length, 2);
});

test("outside Slipway, and in an application without notifications, there is no session", async () => {
  answers = [{ status: 404 }];
  const app = (has: boolean) => ({ started: Promise.resolve(), commands: { hasCommand: () => has } });
  assert.equal(await findSession(app(true), service), null);
  assert.equal(await findSession(app(false), service), null);
  assert.equal(asked.length, 1);
});

test("a service that is away for a while costs nothing; a server without the extension ends it", async () => {
  answers = [{ stops: null }, { status: 503 }, { status: 0 }, { stops: stops(5) }, { status: 404 }];
  await begin();
  await minute();
  await minute();
  assert.deepEqual(told, []);
  await minute();
  assert.equal(told.length, 1);
  await minute();
  assert.ok(ended);
  assert.equal(listeners.visibilitychange, undefined);
});

test("VS Code is a card of the launcher", () => {
  const opened: unknown[][] = [];
  Object.assign(globalThis, { window: { open: (...args: unknown[]) => opened.push(args) } });
  const own: Record<string, any> = {};
  const [items, cards]: [object[], object[]] = [[], []];
  const places = { palette: { addItem: (item: object) => items.push(item) }, launcher: { add: (card: object) => cards.push(card) } };
  offerCode({ addCommand: (id, command) => (own[id] = command) }, "/user/a/", places, "icon");
  assert.deepEqual(cards, [{ command: "slipway:code", category: "Other", rank: 10 }]);
  assert.deepEqual(items, [{ command: "slipway:code", category: "Slipway", args: { isPalette: true } }]);
  const code = own["slipway:code"];
  assert.deepEqual([code.label({}), code.label({ isPalette: true })], ["VS Code", "Slipway: open VS Code"]);
  code.execute();
  assert.deepEqual(opened, [["/user/a/vscode/", "_blank", "noopener"]]);
});
