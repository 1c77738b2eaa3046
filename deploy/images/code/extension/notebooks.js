// Cells of notebooks, run by one kernel for each notebook that is open.
"use strict";

const vscode = require("vscode");
const os = require("node:os");
const path = require("node:path");
const { CellRun } = require("./cell");
const { Kernel } = require("./kernel");

const TYPE = "jupyter-notebook";

class Notebooks {
  constructor(pythonOf, log) {
    this.pythonOf = pythonOf;
    this.log = log;
    this.kernels = new Map(); // by the notebook's address
    this.controller = vscode.notebooks.createNotebookController("session", TYPE, "Python of this session");
    this.controller.supportedLanguages = ["python"];
    this.controller.supportsExecutionOrder = true;
    this.controller.description = "ipykernel";
    this.controller.executeHandler = (cells, notebook) => this.run(cells, notebook);
    this.controller.interruptHandler = (notebook) => this.interrupt(notebook);
    this.closing = vscode.workspace.onDidCloseNotebookDocument((notebook) => this.end(notebook));
  }

  // The kernel of a notebook, started if need be; one that has ended is replaced.
  kernel(notebook) {
    const key = notebook.uri.toString();
    const known = this.kernels.get(key);
    if (known && !known.kernel.dead) return known;
    const cwd = notebook.uri.scheme === "file" ? path.dirname(notebook.uri.fsPath) : os.homedir();
    const kernel = new Kernel({ python: this.pythonOf(notebook.uri), cwd, log: (line) => this.log.info(line) });
    const made = { kernel, displays: new Map(), queue: Promise.resolve(), over: false };
    this.kernels.set(key, made);
    return made;
  }

  // Cells that are run together end with the first that fails; those of another call wait behind, and end with the kernel too.
  async run(cells, notebook) {
    const executions = cells.map((cell) => this.controller.createNotebookCellExecution(cell));
    await commandsAreHere();
    const of = this.kernel(notebook);
    of.queue = of.queue.then(async () => {
      let going = true;
      for (const execution of executions) {
        if (going && !of.over) going = await this.runCell(execution, of);
        else skip(execution);
      }
    });
    return of.queue;
  }

  // Says whether the cell has run to its end.
  async runCell(execution, of) {
    const { kernel, displays } = of;
    execution.start(Date.now());
    await execution.clearOutput();
    const run = new CellRun(execution, displays);
    let ok = false;
    try {
      const hear = (line) => (line.event === "input" ? this.ask(kernel, line) : run.hear(line.type, line.content));
      const { status, count } = await kernel.execute(execution.cell.document.getText(), hear);
      execution.executionOrder = count ?? undefined;
      ok = status === "ok";
    } catch (error) {
      of.over = true;
      run.hear("error", { ename: "Kernel", evalue: error.message, traceback: [] });
    }
    await run.last;
    execution.end(ok, Date.now());
    return ok;
  }

  async ask(kernel, { prompt, password }) {
    const value = await vscode.window.showInputBox({ prompt: prompt || "The cell asks for input", password, ignoreFocusOut: true });
    if (value === undefined) kernel.interrupt();
    else kernel.answer(value);
  }

  interrupt(notebook) {
    this.kernels.get(notebook.uri.toString())?.kernel.interrupt();
  }

  async restart(notebook) {
    const old = this.end(notebook, "the kernel was restarted");
    const { kernel } = this.kernel(notebook); // what is run from now on is run by this one
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: "Restarting the kernel" }, () =>
      Promise.all([old, kernel.ready]).catch((error) => vscode.window.showErrorMessage(error.message)),
    );
  }

  async end(notebook, why) {
    const key = notebook.uri.toString();
    const known = this.kernels.get(key);
    this.kernels.delete(key);
    if (!known) return;
    known.over = true;
    await known.kernel.end(why);
  }

  async endAll() {
    this.closing.dispose();
    this.controller.dispose();
    await Promise.all([...this.kernels.values()].map(({ kernel }) => kernel.end()));
  }
}

// A command that was given before a cell was run comes after it when it is the first of its kind, since VS Code asks then who has it, and
// waits. It is not later than the answer to a question of ours.
const commandsAreHere = () => vscode.commands.executeCommand("setContext", "slipway.runs", true);

// VS Code wants an end to what it was shown as waiting.
function skip(execution) {
  execution.start();
  execution.end(undefined);
}

module.exports = { Notebooks };
