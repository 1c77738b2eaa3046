// Cells that a broken connection has lost.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { followNotebooks } from "../src/lost-cells.ts";

let told: [string, string, boolean][] = [];
beforeEach(() => {
  told = [];
});

class Signal<T> {
  all: ((sender: never, args: T) => void)[] = [];
  connect = (call: (sender: never, args: T) => void) => this.all.push(call);
  emit = (args: T) => this.all.forEach((call) => call(null as never, args));
}

// A kernel's connection as JupyterLab's library has it: the status is set before it is told, and the question that it asks when it is
// connected again comes before that is told.
class Kernel {
  connectionStatus = "connected";
  connectionStatusChanged = new Signal<string>();
  statusChanged = new Signal<string>();
  anyMessage = new Signal<{ direction: string; msg: any }>();
  send = (msg_id: string, msg_type: string, content = {}) =>
    this.anyMessage.emit({ direction: "send", msg: { header: { msg_id, msg_type }, parent_header: {}, content } });
  receive = (msg_id: string, msg_type: string) =>
    this.anyMessage.emit({ direction: "recv", msg: { header: { msg_id: "r", msg_type }, parent_header: { msg_id }, content: {} } });
  cell = (id: string, code = id, silent = false) => this.send(id, "execute_request", { code, silent });
  breaks = () => this.connectionStatusChanged.emit((this.connectionStatus = "connecting"));
  comesBack = (question: string) => {
    this.connectionStatus = "connected";
    this.send(question, "kernel_info_request");
    this.connectionStatusChanged.emit("connected");
  };
}

function notebook(): Kernel {
  const [first, kernel] = [new Kernel(), new Kernel()];
  const context = { session: { kernel: first }, kernelChanged: new Signal<{ newValue: Kernel }>() };
  const widgetAdded = new Signal<any>();
  const notebooks = { forEach: (call: (notebook: any) => void) => call({ sessionContext: context }), widgetAdded };
  followNotebooks(notebooks, (...words) => told.push(words));
  context.kernelChanged.emit({ newValue: kernel });
  widgetAdded.emit({ sessionContext: { session: { kernel }, kernelChanged: new Signal() } }); // which shares the kernel
  return kernel;
}

test("cells that a break has left without an answer are told, once, when none can come any more", () => {
  const kernel = notebook();
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
  assert.deepEqual(told[0]!.slice(1), ["error", false]);
  assert.match(told[0]![0], /broke off as a cell was sent or answered \(x = 1\)\. It may have run or not/);

  kernel.breaks(); // what was queued had been sent by then
  kernel.cell("queued too");
  kernel.comesBack("q2");
  kernel.breaks(); // before there was an answer
  kernel.comesBack("q3");
  kernel.receive("q2", "kernel_info_reply");
  assert.equal(told.length, 1);
  kernel.receive("q3", "kernel_info_reply");
  assert.match(told[1]![0], /as a cell was sent or answered \(queued\)/);
  kernel.receive("queued too", "execute_reply");
  kernel.breaks();
  kernel.comesBack("q4");
  kernel.receive("q4", "kernel_info_reply");
  assert.equal(told.length, 2);
});

test("several cells are counted; a kernel that restarts has none", () => {
  const kernel = notebook();
  for (const id of ["a".repeat(80), "b"]) kernel.cell(id);
  kernel.breaks();
  kernel.comesBack("q1");
  kernel.receive("q1", "kernel_info_reply");
  assert.match(told[0]![0], /as 2 cells were sent or answered \(the first is a{60}…\)\. Each of them may have run or not/);
  kernel.cell("c");
  kernel.breaks();
  kernel.statusChanged.emit("autorestarting");
  kernel.comesBack("q2");
  kernel.receive("q2", "kernel_info_reply");
  assert.equal(told.length, 1);
});
