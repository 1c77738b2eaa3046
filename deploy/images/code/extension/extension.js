// Slipway's part in VS Code: see README.md.
"use strict";

const vscode = require("vscode");
const { debuggers } = require("./debug");
const { Notebooks } = require("./notebooks");

let notebooks;

const pythonOf = (uri) => vscode.workspace.getConfiguration("slipway", uri).get("python") || "python3";

function activate(context) {
  const log = vscode.window.createOutputChannel("Slipway", { log: true });
  notebooks = new Notebooks(pythonOf, log);
  const command = (name, act) =>
    vscode.commands.registerCommand(`slipway.${name}`, () => {
      const notebook = vscode.window.activeNotebookEditor?.notebook;
      return notebook && act(notebook);
    });
  context.subscriptions.push(
    log,
    command("interrupt", (notebook) => notebooks.interrupt(notebook)),
    command("restart", (notebook) => notebooks.restart(notebook)),
    ...debuggers(pythonOf),
  );
}

// VS Code waits for it: the kernels end with the window.
const deactivate = () => notebooks?.endAll();

module.exports = { activate, deactivate };
