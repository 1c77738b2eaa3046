// Sends cells to a kernel of a session as JupyterLab's own library does, with JupyterLab's part of Slipway beside it, until the connection
// breaks. When the kernel answers again, it tells which cells have no answer and what the user was told:
//
//   node cells.mjs SESSION-URL FILE
//
// FILE is where each cell writes its number. It prints "sending" first, then one line of JSON.
import services from "@jupyterlab/services";
import WebSocket from "ws";
import { followNotebooks } from "../../notebooks/lab/src/lost-cells.ts";

console.debug = console.warn = console.error; // the library's words; what is printed here is for the caller
const { KernelManager, ServerConnection } = services;
const [url, file] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({ baseUrl: `${url}/`, wsUrl: `${url.replace(/^http/, "ws")}/`, WebSocket, fetch: globalThis.fetch });
const manager = new KernelManager({ serverSettings });
await manager.ready;
const kernel = await manager.startNew({ name: "python3" });
await kernel.info;

// Notebooks of which one has the kernel.
const silent = { connect() {} };
const context = { session: { kernel }, kernelChanged: silent };
const notebooks = { forEach: (call) => call({ sessionContext: context }), widgetAdded: silent };
const told = [];
followNotebooks(notebooks, (message) => told.push(message));

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
