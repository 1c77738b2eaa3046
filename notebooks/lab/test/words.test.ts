// Words and small decisions: figures, the status bar, the filter, the cell that becomes a job.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, duration, milliseconds, size } from "../src/format.ts";
import { prepare } from "../src/grid-cell.ts";
import { memoryStatus, sliceStatus } from "../src/status.ts";
import { matches, ofJob, type Work } from "../src/work.ts";

test("lengths of time", () => {
  const minute = 60_000;
  assert.deepEqual(["24h0m0s", "1h30m", "5s", "", "soon"].map(milliseconds), [1440 * minute, 90 * minute, 5000, 0, 0]);
  assert.deepEqual([90 * minute, 60 * minute, 1000].map(duration), ["1 hour 30 minutes", "1 hour", "a moment"]);
});

test("sizes", () => {
  assert.deepEqual([0, 1536, 2 ** 30, 5 * 2 ** 40].map(size), ["0 B", "1.5 KiB", "1 GiB", "5 TiB"]);
  assert.deepEqual([count(1, "job"), count(2, "job")], ["1 job", "2 jobs"]);
});

test("memory and slice in the status bar", () => {
  assert.equal(memoryStatus({}), null);
  const memory = (used: number) => memoryStatus({ used: used * 2 ** 30, limit: 10 * 2 ** 30 })!;
  assert.deepEqual([memory(1).text, memory(1).level], ["Memory: 1.0 of 10 GiB", ""]);
  assert.deepEqual([memory(8).level, memory(9.5).level], ["warning", "error"]);
  assert.equal(sliceStatus(null), null);
  const slice = { name: "1g.18gb", model: "NVIDIA H200", memory: 18 * 2 ** 30, simulated: true, use: { sm: 41.6, memory: 2 ** 30 } };
  const shown = sliceStatus({ slice } as never)!;
  assert.equal(shown.text, "GPU: 1g.18gb (simulated), 42 % busy");
  assert.equal(shown.title, "This session has the slice 1g.18gb of NVIDIA H200 (simulated). It uses 1.0 of 18 GiB of its memory.");
});

test("the filter looks at name, ID and state", () => {
  const work = { id: "j-1", name: "Fit", state: "failed" } as Work;
  assert.deepEqual(["", "fit", "j-1 fail", "fit done"].map((filter) => matches(work, filter)), [true, true, true, false]);
});

test("how a job stands", () => {
  const job = (more: object) => ofJob({ id: "j-1", name: "", state: "running", created: "", ...more } as never);
  const running = job({ progress: { done: 3, of: 12, text: "epoch" } });
  assert.deepEqual([running.share, running.words, running.failed], [0.25, "3 of 12, epoch", false]);
  assert.equal(job({ state: "pending", held: true }).words, "held until it is released");
  assert.ok(job({ state: "canceled" }).failed);
});

test("a cell becomes a job by one line, and only once", () => {
  assert.deepEqual(prepare("x = 1"), { code: "%%grid\nx = 1" });
  assert.deepEqual(prepare("%%grid --gpu any\nx = 1"), { code: "%%grid --gpu any\nx = 1" });
  assert.match((prepare("%%time\nx = 1") as { problem: string }).problem, /begins with %%time.* Remove that line/);
  assert.match((prepare(" \n") as { problem: string }).problem, /empty/);
});
