// One cell that runs: puts what its kernel tells below it.
"use strict";

const vscode = require("vscode");
const { outputOf } = require("./outputs");

class CellRun {
  // displays: the outputs of this kernel that have names, which later cells may change.
  constructor(execution, displays) {
    this.execution = execution;
    this.displays = displays;
    this.stream = null; // the output that the next words of the same stream go on with
    this.clearFirst = false;
    this.last = Promise.resolve();
  }

  // In the order in which they came: each waits for the one before.
  hear(type, content) {
    const told = outputOf(type, content);
    if (told) this.last = this.last.then(() => this.show(told)).catch((error) => console.error(error));
  }

  async show(told) {
    if (told.type === "clear") {
      this.stream = null;
      this.clearFirst = told.wait;
      if (!told.wait) await this.execution.clearOutput();
      return;
    }
    if (told.type === "update") return this.update(told);
    if (this.clearFirst) {
      this.clearFirst = false;
      await this.execution.clearOutput();
    }
    if (told.type === "stream") return this.write(told);
    this.stream = null;
    const output = new vscode.NotebookCellOutput(itemsOf(told), told.metadata);
    if (told.id) this.displays.set(told.id, { output, execution: this.execution });
    await this.execution.appendOutput(output);
  }

  async write({ name, text, metadata }) {
    const item = name === "stderr" ? vscode.NotebookCellOutputItem.stderr(text) : vscode.NotebookCellOutputItem.stdout(text);
    if (this.stream?.name === name) return this.execution.appendOutputItems(item, this.stream.output);
    this.stream = { name, output: new vscode.NotebookCellOutput([item], metadata) };
    await this.execution.appendOutput(this.stream.output);
  }

  // Only while this cell runs may its outputs be changed, also those of cells above it.
  async update(told) {
    const shown = this.displays.get(told.id);
    if (shown) await this.execution.replaceOutputItems(itemsOf(told), shown.output);
  }
}

function itemsOf(told) {
  if (told.type === "error") return [vscode.NotebookCellOutputItem.error(told.error)];
  return told.items.map(({ mime, data }) => new vscode.NotebookCellOutputItem(data, mime));
}

module.exports = { CellRun };
