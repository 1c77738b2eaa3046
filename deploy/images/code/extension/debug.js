// Python programs in the debugger, by debugpy's own adapter.
"use strict";

const vscode = require("vscode");
const path = require("node:path");

const TYPE = "debugpy";
const OTHER = "ms-python.debugpy"; // the same, for who has it: theirs knows more

// What F5 does with a file when nobody has said anything, and what a configuration leaves out.
function complete(folder, config) {
  const file = vscode.window.activeTextEditor?.document;
  if (!config.request) {
    if (file?.languageId !== "python") return undefined; // VS Code says that there is nothing to debug
    config = { name: "Python: this file", type: TYPE, request: "launch", program: file.uri.fsPath };
  }
  if (config.request !== "launch") return config;
  const home = folder?.uri.fsPath ?? (config.program && path.dirname(config.program));
  return { console: "integratedTerminal", cwd: home, ...config };
}

// Where the site has the other debugger, which contributes the same type, ours leaves the work to it.
function debuggers(pythonOf) {
  const other = () => vscode.extensions.getExtension(OTHER) !== undefined;
  let own = [];
  const stand = () => {
    for (const thing of own.splice(0)) thing.dispose();
    if (!other()) own = register(pythonOf);
  };
  stand();
  return [vscode.extensions.onDidChange(stand), { dispose: () => own.forEach((thing) => thing.dispose()) }];
}

function register(pythonOf) {
  const adapter = ({ workspaceFolder }) =>
    new vscode.DebugAdapterExecutable(pythonOf(workspaceFolder?.uri), ["-m", "debugpy.adapter"], {
      env: { PYDEVD_DISABLE_FILE_VALIDATION: "1" }, // a warning on frozen modules, which nobody here debugs
    });
  return [
    vscode.debug.registerDebugConfigurationProvider(TYPE, { resolveDebugConfiguration: complete }),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, { createDebugAdapterDescriptor: adapter }),
  ];
}

module.exports = { debuggers };
