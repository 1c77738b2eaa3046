// What the panel shows, against a fake Jupyter Server.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { PanelModel } from "../src/panel-model.ts";
import { Service } from "../src/service.ts";

const job = { id: "j-1", name: "fit", state: "failed", created: "2026-11-21T14:00:00Z", outcome: { reason: "exit code 1" } };
const scan = { id: "scan-1", name: "grid", created: "2026-11-21T15:00:00Z", points: 4, states: { running: 1, done: 2, failed: 1 }, failure: "k is 2" };
const environment = { digest: `sha256:${"ab".repeat(32)}`, name: "ana", tag: "v1", created: "2026-11-21T13:00:00Z" };
const session = { id: "s-1", name: "", now: "2026-11-21T14:00:00Z", page: "/services/slipway/sessions/s-1", stops: { at: "2026-11-21T15:30:00Z", why: "idle", max_keep: "2h0m0s" } };

// A fake Jupyter Server: documents by path, and streams that a test writes to and ends.
class Server {
  docs: Record<string, unknown> = {
    session,
    memory: { used: 1, limit: 4, kills: 0 },
    "api/jobs?points=no": { jobs: [job], scans: [scan] },
    "api/environments": { environments: [environment] },
    "api/gpus": { offers: [{ name: "1g.18gb", free: 3, most: 7 }], gpus: [{}] },
  };
  away = false;
  asked: string[] = [];
  streams = new Map<string, { write: (text: string) => void; end: () => void; aborted: () => boolean }>();
  opened: (path: string) => void = () => {};

  ask = async (path: string, init: RequestInit): Promise<Response> => {
    this.asked.push(`${init.method ?? "GET"} ${path}${init.body ?? ""}`);
    if (this.away) return Response.json({ message: "the Slipway service does not answer", remedy: "wait" }, { status: 503 });
    if (path.startsWith("events?") || path.endsWith("/freeze")) return this.stream(path, init.signal);
    const doc = init.method === "POST" ? {} : this.docs[path];
    return typeof doc === "string" ? new Response(doc) : Response.json(doc ?? { message: "no" }, { status: doc ? 200 : 404 });
  };

  private stream(path: string, signal?: AbortSignal | null): Response {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const write = (text: string) => controller.enqueue(new TextEncoder().encode(text));
        signal?.addEventListener("abort", () => controller.error(signal.reason));
        this.streams.set(path, { write, end: () => controller.close(), aborted: () => signal?.aborted ?? false });
      },
    });
    this.opened(path);
    return new Response(body);
  }
}

const models: PanelModel[] = [];
afterEach(() => models.splice(0).forEach((model) => model.stop()));

function panel(server = new Server()): { server: Server; model: PanelModel } {
  const model = new PanelModel(new Service(server.ask));
  models.push(model);
  return { server, model };
}

// until waits for a change of the model that makes something true.
const until = (model: PanelModel, holds: () => boolean) =>
  new Promise<void>((done) => {
    const look = () => {
      if (!holds()) return;
      leave();
      done();
    };
    const leave = model.subscribe(look);
    look();
  });

const event = (name: string, doc: object | null) => `event: ${name}\ndata: ${JSON.stringify(doc)}\n\n`;

test("it shows everything, the newest first", async () => {
  const { server, model } = panel();
  await model.refresh();
  assert.deepEqual(model.work.map(({ id, state, words }) => [id, state, words]), [
    ["scan-1", "running", "1 running, 2 done, 1 failed: k is 2"],
    ["j-1", "failed", "exit code 1"],
  ]);
  assert.equal(model.timeLeft(), "stops in 1 hour 30 minutes: idle");
  assert.equal(model.keepFor(), "2 hours");
  assert.equal(model.page("jobs/j-1"), "/services/slipway/jobs/j-1");
  assert.equal(model.page(""), "/services/slipway/");
  assert.equal(server.streams.size, 0, "nobody sees it, and it follows nothing");
});

test("a service that is away is told, and what was known stays", async () => {
  const { server, model } = panel();
  await model.refresh();
  server.away = true;
  await model.refresh();
  assert.ok(model.trouble?.away);
  assert.equal(model.trouble?.words, "the Slipway service does not answer: wait");
  assert.equal(model.work.length, 2);
  server.away = false;
  await model.refresh();
  assert.equal(model.trouble, null);
});

test("one stream tells of what is under way, and ends with the panel", async () => {
  const { server, model } = panel();
  const opened = new Promise<string>((done) => (server.opened = done));
  model.start();
  const path = await opened;
  assert.equal(path, "events?scan=scan-1");
  const stream = server.streams.get(path)!;
  const text = event("change", { scan: "scan-1", data: { ...scan, states: { done: 3, failed: 1 } } });
  stream.write(text.slice(0, 30)); // cut anywhere
  stream.write(text.slice(30));
  await until(model, () => model.work[0]!.words === "3 done, 1 failed: k is 2");
  assert.equal(model.work[0]!.state, "failed");
  model.stop();
  assert.ok(stream.aborted());
});

test("a job's steps are shown", async () => {
  const { server, model } = panel();
  server.docs["api/jobs?points=no"] = { jobs: [{ ...job, state: "pending", outcome: null }], scans: [] };
  const opened = new Promise<string>((done) => (server.opened = done));
  model.start();
  server.streams.get(await opened)!.write(event("change", { job: "j-1", data: { seq: 1, message: "Fetching the image" } }));
  await until(model, () => model.steps.get("j-1") === "Fetching the image");
});

test("a freeze tells its steps, and its end or its failure", async () => {
  const { server, model } = panel();
  const said: string[] = [];
  model.subscribe(() => said.push(model.said?.words ?? ""));
  server.opened = () => queueMicrotask(() => {
    const stream = server.streams.get("api/sessions/self/freeze")!;
    stream.write(event("progress", { stage: "graft", percent: 40, message: "writing" }) + event("done", environment));
    stream.end();
  });
  await model.freeze("ana", "v1", "");
  assert.ok(said.includes("Freezing this session: writing, 40 %"), said.join("|"));
  assert.deepEqual(model.said, { words: "Frozen: ana:v1.", kind: "good" });
  assert.ok(server.asked.includes('POST api/sessions/self/freeze{"name":"ana","tag":"v1","note":""}'));

  server.opened = () => queueMicrotask(() => {
    const stream = server.streams.get("api/sessions/self/freeze")!;
    stream.write(event("error", { error: { message: "a key is in it", remedy: "remove it" } }));
    stream.end();
  });
  await model.freeze("ana", "v1", "");
  assert.deepEqual(model.said, { words: "a key is in it: remove it", kind: "bad" });
});

test("what the buttons ask for", async () => {
  const { server, model } = panel();
  await model.refresh();
  const [ofScan, ofJob] = model.work;
  await model.retry(ofJob!);
  await model.cancel(ofScan!);
  await model.share(model.environments[0]!, "group", "higgs");
  assert.equal(model.said?.words, "The group higgs can use ana:v1.");
  server.docs["api/jobs/j-1/log?tail=200"] = "one\ntwo\n";
  assert.equal(await model.log("j-1"), "one\ntwo\n");
  const [retried, ...others] = server.asked.filter((line) => line.startsWith("POST"));
  assert.match(retried!, /^POST api\/jobs\/j-1\/retry\{"request_id":"[0-9a-f]{32}"\}$/);
  assert.deepEqual(others, [
    "POST api/scans/scan-1/cancel{}",
    `POST api/environments/${environment.digest}/share{"with":"group","group":"higgs"}`,
  ]);
});

test("of a scan those points are shown that have failed, or that run", async () => {
  const { server, model } = panel();
  server.docs["api/jobs?scan=scan-1&limit=20&state=failed"] = { jobs: [] };
  server.docs["api/jobs?scan=scan-1&limit=20&state=running"] = { jobs: [job] };
  assert.deepEqual(await model.points("scan-1"), [job]);
});
