// Speaks with the kernel gateway as JupyterLab's own library does where nothing stands between them: the one client that chooses the
// framing v1.kernel.websocket.jupyter.org. What it is for, in that framing and in the one before it: kernels are started, used, cut off,
// interrupted, restarted and ended.
//
//   node services.mjs SERVICE-URL TOKEN
import services from "@jupyterlab/services";
import WebSocket from "ws";
import { require, say } from "./browser.mjs";

const { KernelManager, KernelSpecAPI, ServerConnection, SessionManager } = services;
const [url, token] = process.argv.slice(2);
const v1 = "v1.kernel.websocket.jupyter.org";
const patience = 60_000;
const mega = 1 << 20;

const same = (got, want, what) => {
  [got, want] = [got, want].map((v) => JSON.stringify(v));
  require(got === want, `${what}: ${got.slice(0, 500)}, not ${want.slice(0, 500)}`);
};

function within(promise, what) {
  let timer;
  const late = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error(`not within a minute: ${what}`)), patience)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// until waits for a signal to bring what fits.
const until = (signal, what, fits) =>
  within(new Promise((found) => signal.connect(function see(_, value) {
    if (!fits(value)) return;
    signal.disconnect(see);
    found(value);
  })), what);

// A client whose websockets are kept, to be cut.
function client(protocols) {
  const sockets = [];
  class Kept extends WebSocket {
    constructor(address) {
      super(address, protocols);
      sockets.push(this);
    }
  }
  return { sockets, settings: ServerConnection.makeSettings({ baseUrl: `${url}/kernels/`, wsUrl: `${url.replace(/^http/, "ws")}/kernels/`, token, appendToken: true, WebSocket: Kept }) };
}

// run runs code and gives the answer and what was published, in order.
async function run(kernel, code, options = {}) {
  const said = [];
  const future = kernel.requestExecute({ code, ...options.content });
  future.onIOPub = (m) => { said.push(m); options.onIOPub?.(m); };
  future.onStdin = options.onStdin ?? (() => {});
  const reply = await within(future.done, code.split("\n")[0]);
  return { content: reply.content, said };
}

// printed is what a cell has printed; what Slipway and the kernel remark on stderr is left out.
const printed = (said) => said.filter((m) => m.header.msg_type === "stream" && m.content.name === "stdout").map((m) => m.content.text).join("");

async function cells(kernel, _, sockets) {
  const { content, said } = await run(kernel, "import sys\nprint('out')\nsys.stdout.flush()\nprint('err', file=sys.stderr)\nsys.stderr.flush()\n6*7");
  same(content.status, "ok", "a cell");
  const order = said.map((m) => m.content.execution_state ?? m.content.name ?? m.header.msg_type);
  same(order, ["busy", "execute_input", "stdout", "stderr", "execute_result", "idle"], "what a cell publishes");
  const many = sockets.at(-1).protocol === v1 ? 10_000 : 1_000;
  const small = printed((await run(kernel, `for i in range(${many}): print(i, flush=True)`)).said);
  require(small === [...Array(many).keys(), ""].join("\n"), `of ${many} small outputs came ${small.split("\n").length - 1}`);
  const large = printed((await run(kernel, `print('</x> \u2603' * ${4 * mega})`)).said);
  require(large === "</x> \u2603".repeat(4 * mega) + "\n", `of a large output came ${large.length}`);
  const done = await kernel.requestComplete({ code: "import os; os.getc", cursor_pos: 18 });
  require(done.content.matches.some((m) => m.endsWith("getcwd")), `completions: ${done.content.matches}`);
}

async function asked(kernel) {
  const onStdin = (m) => kernel.sendInputReply({ status: "ok", value: `${m.content.prompt}Ada` }, m.header);
  same(printed((await run(kernel, "print(input('who? '))", { onStdin, content: { allow_stdin: true } })).said), "who? Ada\n", "input()");
}

async function interrupted(kernel) {
  let stopped;
  const onIOPub = (m) => { if (m.header.msg_type === "stream") stopped ??= kernel.interrupt(); };
  const { content } = await run(kernel, "print('busy', flush=True)\nwhile True: pass", { onIOPub });
  await stopped;
  same(content.ename, "KeyboardInterrupt", "an endless loop");
}

// Buffers travel both ways with a comm, small and large.
async function buffers(kernel) {
  await run(kernel, `def echo(comm, _):
    @comm.on_msg
    def again(m): comm.send(m['content']['data'], buffers=[bytes(b)[::-1] for b in m['buffers']])
get_ipython().kernel.comm_manager.register_target('echo', echo)`);
  const comm = kernel.createComm("echo");
  await within(comm.open().done, "a comm opens");
  for (const size of [0, 1, 256, 20 * mega]) {
    const sent = [Uint8Array.from({ length: size }, (_, i) => i * 7 + size), new Uint8Array()];
    const back = within(new Promise((got) => (comm.onMsg = got)), `a buffer of ${size} bytes`);
    comm.send({ size }, {}, sent.map((b) => b.buffer));
    const m = await back;
    same([m.content.data.size, m.buffers.map((b) => b.byteLength)], [size, [size, 0]], "what a comm says");
    const b = m.buffers[0];
    const bytes = ArrayBuffer.isView(b) ? new Uint8Array(b.buffer, b.byteOffset, b.byteLength) : new Uint8Array(b);
    require(Buffer.compare(bytes.reverse(), sent[0]) === 0, `a buffer of ${size} bytes is another`);
  }
  comm.close();
}

// Whoever else is connected sees it too.
async function watched(kernel, manager) {
  const other = manager.connectTo({ model: kernel.model, handleComms: false });
  await within(other.info, "a second connection");
  const seen = until(other.anyMessage, "what the other connection runs", ({ msg }) => msg.content.text === "for both\n");
  await run(kernel, "print('for both')");
  same((await seen).msg.parent_header.session, kernel.clientId, "whose output it is");
  same((await run(other, "1+1")).content.status, "ok", "a cell of the second");
  other.dispose();
}

// The way is cut while a cell prints: what it says meanwhile comes, in order. Nobody knows of the very last words before a cut whether they
// have come: those may come twice.
async function cut(kernel, _, sockets) {
  let cuts = 0;
  const onIOPub = (m) => {
    if (m.header.msg_type === "stream" && m.content.text.includes("00\n") && cuts < 3) sockets.at(-1).terminate(cuts++);
  };
  const { said } = await run(kernel, "import time\nfor i in range(1000):\n    if i % 100 == 0: time.sleep(0.2)\n    print(i, flush=True)", { onIOPub });
  const heard = printed(said).split("\n").slice(0, -1).map(Number);
  same(cuts, 3, "cuts");
  same([...new Set(heard)], [...Array(1000).keys()], "what came over the cuts");
  require(heard.every((n, i) => i === 0 || n > heard[i - 1] - 100), "what had come long ago came again");
}

async function died(kernel) {
  await run(kernel, "before = 1");
  const restarting = until(kernel.statusChanged, "a kernel that was killed restarts", (s) => s === "autorestarting");
  kernel.requestExecute({ code: "import os; os.kill(os.getpid(), 9)" }).done.catch(() => {});
  await restarting;
  if (kernel.status !== "idle") await until(kernel.statusChanged, "it is idle again", (s) => s === "idle");
  same((await run(kernel, "before")).content.ename, "NameError", "a killed kernel's names");
}

async function restarted(kernel) {
  await run(kernel, "before = 1");
  await within(kernel.restart(), "a restart");
  same((await run(kernel, "before")).content.ename, "NameError", "a restarted kernel's names");
}

async function conversation(protocols) {
  const { settings, sockets } = client(protocols);
  const specs = await within(KernelSpecAPI.getSpecs(settings), "the kernelspecs");
  same(specs.kernelspecs[specs.default].display_name, "Python here", "the default kernel");
  const manager = new KernelManager({ serverSettings: settings });
  const sessions = new SessionManager({ kernelManager: manager, serverSettings: settings });
  await within(sessions.ready, "the list of sessions");
  const session = await within(sessions.startNew({ path: "a.ipynb", name: "a", type: "notebook", kernel: { name: specs.default } }), "a start");
  const { kernel } = session;
  same((await within(kernel.info, "kernel_info")).implementation, "ipython", "the kernel");
  same(sockets[0].protocol, protocols[0] ?? "", "the framing");
  const steps = { cells, asked, interrupted, buffers, watched, cut, restarted, died };
  for (const [name, step] of Object.entries(steps)) {
    await step(kernel, manager, sockets);
    say(`${protocols[0] ?? "legacy"}: ${name}`);
  }
  await within(kernel.reconnect(), "a new connection");
  same((await run(kernel, "6*7")).content.status, "ok", "a cell on a new connection");
  same((await within(sessions.findByPath("a.ipynb"), "a session")).kernel.id, kernel.id, "the notebook's kernel");
  await within(session.shutdown(), "an end");
  await manager.refreshRunning();
  same([...manager.running()], [], "what still runs");
  sessions.dispose();
  manager.dispose();
}

await conversation([v1]);
await conversation([]);
process.exit();
