// The parts of the extension that need no VS Code: node --test deploy/images/code/test
"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const path = require("node:path");
const { mkdtempSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { Kernel } = require("../extension/kernel");
const { outputOf } = require("../extension/outputs");

const mimes = (output) => output.items.map(({ mime }) => mime);

test("the best representation comes first, pictures are bytes", () => {
  const data = { "text/plain": "<Figure>", "image/png": "aGk=", "text/html": ["<b>", "x</b>"], "application/json": { a: 1 } };
  const output = outputOf("execute_result", { data, metadata: { k: 1 }, execution_count: 3 });
  assert.deepEqual(mimes(output), ["text/html", "image/png", "application/json", "text/plain"]);
  assert.deepEqual(output.items.map(({ data }) => data.toString()), ["<b>x</b>", "hi", '{"a":1}', "<Figure>"]);
  assert.deepEqual(output.metadata, { outputType: "execute_result", metadata: { k: 1 }, executionCount: 3 });
});

test("streams, errors, displays with names, what clears, and what shows nothing", () => {
  assert.equal(outputOf("stream", { name: "stderr", text: "x" }).name, "stderr");
  const error = outputOf("error", { ename: "E", evalue: "v", traceback: ["a", "b"] });
  assert.deepEqual(error.error, { name: "E", message: "v", stack: "a\nb" });
  const update = outputOf("update_display_data", { data: {}, transient: { display_id: "d" } });
  assert.deepEqual([update.type, update.id, update.items], ["update", "d", []]);
  assert.deepEqual(outputOf("clear_output", { wait: true }), { type: "clear", wait: true });
  assert.equal(outputOf("status", {}), null);
});

// A program in place of kernel.py, in node.
function kernel(t, source) {
  const dir = mkdtempSync(path.join(tmpdir(), "code-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const program = path.join(dir, "kernel.js");
  writeFileSync(program, source);
  return new Kernel({ python: process.execPath, program, cwd: dir, log() {} });
}

const ECHO = `
const tell = (line) => console.log(JSON.stringify(line));
tell({ event: "ready" });
require("readline").createInterface({ input: process.stdin }).on("line", (text) => {
  const { id, code } = JSON.parse(text);
  if (code === "die") {
    tell({ event: "failed", why: "it has died" });
    process.exit(1);
  }
  tell({ event: "output", id, type: "stream", content: { text: code } });
  tell({ event: "done", id, status: "ok", count: id });
});`;

test("cells run, each hears its own, and it ends in order", async (t) => {
  const own = kernel(t, ECHO);
  const heard = [];
  const hear = ({ content }) => heard.push(content.text);
  const done = await Promise.all([own.execute("a", hear), own.execute("b", hear)]);
  assert.deepEqual([heard, done.map(({ count }) => count)], [["a", "b"], [1, 2]]);
  await own.end();
  await assert.rejects(own.execute("c", hear), /exit code 0/);
});

test("a kernel that dies tells why to the cell that runs", async (t) => {
  await assert.rejects(kernel(t, ECHO).execute("die", () => {}), /it has died/);
});

test("a Python that is not there is named", async () => {
  const none = new Kernel({ python: "/no/such/python", cwd: "/", log() {} });
  await assert.rejects(none.execute("a", () => {}), /\/no\/such\/python could not be started/);
});
