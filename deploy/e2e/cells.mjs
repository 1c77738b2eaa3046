// Sends cells to a kernel of a session as JupyterLab's own library does, with JupyterLab's part of Slipway beside it, until the connection
// breaks. When the kernel answers again, it tells which cells have no answer and what the user was told:
//
//   node cells.mjs SESSION-URL ENTRY FILE
//
// ENTRY is the script of JupyterLab's part, FILE where each cell writes its number. It prints "sending" first, then one line of JSON.
import { readFileSync } from "node:fs";
import services from "@jupyterlab/services";
import WebSocket from "ws";

console.debug = console.warn = console.error; // the library's words; what is printed here is for the caller
const { KernelManager, ServerConnection } = services;
const [url, entry, file] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({ baseUrl: `${url}/`, wsUrl: `${url.replace(/^http/, "ws")}/`, WebSocket, fetch: globalThis.fetch });
const manager = new KernelManager({ serverSettings });
await manager.ready;
const kernel = await manager.startNew({ name: "python3" });
await kernel.info;

// An application that shares its notebooks alone, of which one has the kernel.
const INotebookTracker = {};
const silent = { connect() {} };
const notebooks = { forEach: (call) => call({ sessionContext: { session: { kernel }, kernelChanged: silent } }), widgetAdded: silent };
const told = [];
const commands = { hasCommand: () => true, addCommand() {}, execute: async (_, { message }) => void told.push(message) };
const settings = { baseUrl: "/", token: "" };
globalThis.fetch = async () => ({ status: 200, ok: true, json: async () => ({ stops: null }) });
globalThis.window = {};
globalThis.document = { cookie: "", addEventListener() {} };
new Function(readFileSync(entry, "utf8"))();
const part = window._JUPYTERLAB.slipway;
await part.init({ "@jupyterlab/notebook": { "4.6": { get: async () => () => ({ INotebookTracker }) } } });
(await part.get("./extension"))().default.activate({ commands, serviceManager: { serverSettings: settings }, started: Promise.resolve() }, notebooks);
await new Promise((done) => setTimeout(done, 100));

const unanswered = new Set();
const back = new Promise((done) => {
  let question = null;
  let broken = false;
  kernel.connectionStatusChanged.connect((_, status) => (broken ||= status !== "connected"));
  kernel.anyMessage.connect((_, { msg, direction }) => {
    if (broken && direction === "send" && msg.header.msg_type === "kernel_info_request") question = msg.header.msg_id;
    if (direction === "recv" && msg.header.msg_type === "kernel_info_reply" && msg.parent_header.msg_id === question) setTimeout(done, 100);
  });
});
console.log("sending");
let sent = 0;
while (kernel.connectionStatus === "connected") { // without a pause, so that some are on their way whenever the service dies
  const number = sent++;
  unanswered.add(number);
  const future = kernel.requestExecute({ code: `_ = open(${JSON.stringify(file)}, "a").write("${number}\\n")`, store_history: false });
  future.onReply = () => unanswered.delete(number);
  future.done.catch(() => {});
  await new Promise(setImmediate);
}
await back;
console.log(JSON.stringify({ sent, unanswered: [...unanswered], told }));
process.exit(0);
