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
    const made = { kernel, displays: new Map(), queue: Promise.resolve() };
    this.kernels.set(key, made);
    return made;
  }

  // Cells that are run together end with the first that fails; those of another call wait behind.
  run(cells, notebook) {
    const of = this.kernel(notebook);
    const executions = cells.map((cell) => this.controller.createNotebookCellExecution(cell));
    of.queue = of.queue.then(async () => {
      let going = true;
      for (const execution of executions) {
        if (going) going = await this.runCell(execution, of);
        else skip(execution);
      }
    });
    return of.queue;
  }

  // Says whether the cell has run to its end.
  async runCell(execution, { kernel, displays }) {
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
    await this.end(notebook);
    await this.kernel(notebook).kernel.ready.catch((error) => vscode.window.showErrorMessage(error.message));
  }

  async end(notebook) {
    const key = notebook.uri.toString();
    const known = this.kernels.get(key);
    this.kernels.delete(key);
    await known?.kernel.end();
  }

  async endAll() {
    this.closing.dispose();
    this.controller.dispose();
    await Promise.all([...this.kernels.values()].map(({ kernel }) => kernel.end()));
  }
}

// VS Code wants an end to what it was shown as waiting.
function skip(execution) {
  execution.start();
  execution.end(undefined);
}

module.exports = { Notebooks };
