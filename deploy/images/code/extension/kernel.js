// One kernel: the program kernel.py as a child process, spoken to in lines of JSON.
"use strict";

const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");
const path = require("node:path");

const PROGRAM = path.join(__dirname, "kernel.py");
const PATIENCE = 5000; // how long a kernel may take to end by itself

class Kernel {
  // hear: what is told of outputs and questions, see kernel.py; log: a line of what it prints besides.
  constructor({ python, cwd, program = PROGRAM, log }) {
    this.running = new Map(); // by the id of the execution
    this.last = 0;
    this.why = "";
    this.child = spawn(python, [program], { cwd });
    this.ready = new Promise((resolve, reject) => {
      this.started = resolve;
      this.refused = reject;
    });
    this.ready.catch(() => {}); // who runs a cell hears of it
    this.gone = new Promise((resolve) => (this.ended = resolve));
    createInterface({ input: this.child.stdout }).on("line", (line) => this.told(JSON.parse(line)));
    createInterface({ input: this.child.stderr }).on("line", log);
    this.child.stdin.on("error", () => {}); // it has ended: `close` tells
    this.child.on("error", (error) => this.over(`${python} could not be started: ${error.message}`));
    this.child.on("close", (code, signal) => this.over(this.why || `the kernel has ended (${signal ?? `exit code ${code}`})`));
  }

  // Runs code; hear is called with each output and question. Gives {status, count}.
  async execute(code, hear) {
    await this.ready;
    if (this.dead) throw new Error(this.why);
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.running.set(id, { hear, resolve, reject });
      this.tell({ do: "execute", id, code });
    });
  }

  interrupt() {
    this.tell({ do: "interrupt" });
  }

  answer(value) {
    this.tell({ do: "input", value });
  }

  // Ends it, in order if it can. A cell that runs is told why.
  async end(why = "") {
    this.why ||= why;
    this.child.stdin.end();
    const hurry = setTimeout(() => this.child.kill("SIGKILL"), PATIENCE);
    await this.gone;
    clearTimeout(hurry);
  }

  tell(line) {
    if (!this.dead) this.child.stdin.write(`${JSON.stringify(line)}\n`);
  }

  told(line) {
    if (line.event === "ready") this.started(line.language);
    else if (line.event === "failed") this.why = line.why;
    else if (line.event === "input") this.first()?.hear(line);
    else if (line.event === "output") this.running.get(line.id)?.hear(line);
    else if (line.event === "done") {
      this.running.get(line.id)?.resolve(line);
      this.running.delete(line.id);
    }
  }

  // The kernel runs one after the other: only the first can ask.
  first() {
    return this.running.values().next().value;
  }

  over(why) {
    if (this.dead) return;
    this.dead = true;
    this.why = why;
    const error = new Error(why);
    this.refused(error);
    for (const { reject } of this.running.values()) reject(error);
    this.running.clear();
    this.ended();
  }
}

module.exports = { Kernel };
