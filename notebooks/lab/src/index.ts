// Slipway in JupyterLab: a panel, figures in the status bar, a button that runs a cell on the Grid, cards of the
// launcher, and warnings in time. None of it is needed for the magics. Where the server is no Slipway session it falls
// silent after one question: its commands stay hidden.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ILayoutRestorer } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { PageConfig } from "@jupyterlab/coreutils";
import { ILauncher } from "@jupyterlab/launcher";
import { INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { ServerConnection } from "@jupyterlab/services";
import { IStatusBar } from "@jupyterlab/statusbar";
import { Widget } from "@lumino/widgets";

import { LOAD, NO_SLIPWAY, prepare } from "./grid-cell.ts";
import { codeIcon, examplesIcon, runCellIcon } from "./icons.ts";
import { followNotebooks, type Notebooks } from "./lost-cells.ts";
import { PanelModel } from "./panel-model.ts";
import { Panel } from "./panel.tsx";
import { findSession } from "./session.ts";
import { Service, ServiceError } from "./service.ts";
import { KEEP, SessionWatch } from "./session-watch.ts";
import { memoryStatus, sliceStatus, type Status } from "./status.ts";
import type { Memory, Session } from "./types.ts";
import { offerCode } from "./vscode.ts";

const EXAMPLES = "slipway:examples";
const RUN_CELL = "slipway:run-cell";
const SHOW_PANEL = "slipway:show-panel";

const METER = 5_000; // how often the status bar looks

interface Parts {
  palette: ICommandPalette | null;
  launcher: ILauncher | null;
  statusBar: IStatusBar | null;
  notebooks: INotebookTracker | null;
  restorer: ILayoutRestorer | null;
}

function connect(settings: ServerConnection.ISettings): Service {
  return new Service((path, init) => ServerConnection.makeRequest(`${settings.baseUrl}slipway/${path}`, init, settings));
}

// showStatus puts a text into the status bar and gives what changes it.
function showStatus(statusBar: IStatusBar, name: string, rank: number): (status: Status | null) => void {
  const item = new Widget();
  item.addClass("jp-StatusBar-TextItem");
  item.node.id = `slipway-${name}`;
  item.hide();
  statusBar.registerStatusItem(`slipway:${name}`, { item, align: "left", rank });
  return (status) => {
    item.setHidden(!status);
    if (!status) return;
    const { text, title, level } = status;
    item.node.textContent = text;
    item.node.title = title;
    const colours = { "": "", warning: "var(--jp-warn-color1)", error: "var(--jp-error-color1)" };
    item.node.style.background = colours[level];
    item.node.style.color = level ? "var(--jp-ui-inverse-font-color1)" : "";
  };
}

// showMeters shows memory and slice. A page that nobody sees does not look.
function showMeters(statusBar: IStatusBar, service: Service, watch: SessionWatch): (session: Session) => void {
  const memory = showStatus(statusBar, "memory", 100);
  const slice = showStatus(statusBar, "slice", 101);
  let kills: number | undefined;
  const look = async () => {
    if (document.hidden) return;
    const now = await service.get<Memory>("memory").catch(() => null);
    if (!now?.limit) return;
    memory(memoryStatus(now));
    // By then the service has heard of it.
    if (kills !== undefined && (now.kills ?? 0) > kills) setTimeout(() => void watch.look(), METER);
    kills = now.kills ?? 0;
  };
  setInterval(() => void look(), METER);
  void look();
  return (session) => slice(sliceStatus(session));
}

function offerExamples({ commands }: JupyterFrontEnd, parts: Parts, service: Service, watch: SessionWatch): void {
  commands.addCommand(EXAMPLES, {
    label: (args) => (args.isPalette ? "Slipway: copy the examples into your home" : "Slipway examples"),
    caption: "Copy example notebooks into your home and open the first one",
    icon: examplesIcon,
    execute: async () => {
      try {
        const { folder, first } = await service.post<{ folder: string; first: string }>("examples");
        if (commands.hasCommand("filebrowser:go-to-path")) await commands.execute("filebrowser:go-to-path", { path: folder });
        await commands.execute("docmanager:open", { path: first });
      } catch (error) {
        await watch.say(`The examples could not be copied: ${wordsOf(error)}`, "error", false);
      }
    },
  });
  parts.palette?.addItem({ command: EXAMPLES, category: "Slipway", args: { isPalette: true } });
  parts.launcher?.add({ command: EXAMPLES, category: "Other", rank: 11 });
}

async function runCell(panel: NotebookPanel, watch: SessionWatch): Promise<void> {
  const { content, sessionContext } = panel;
  const cell = content.activeCell;
  if (!cell || cell.model.type !== "code") {
    await watch.say("Choose a cell with code first.", "warning", 10_000);
    return;
  }
  const prepared = prepare(cell.model.sharedModel.source);
  if ("problem" in prepared) {
    await watch.say(prepared.problem, "warning", 10_000);
    return;
  }
  const kernel = sessionContext.session?.kernel;
  const loaded = await kernel?.requestExecute({ code: LOAD, silent: true, store_history: false }).done;
  if (loaded?.content.status !== "ok") {
    await watch.say(NO_SLIPWAY, "error", false);
    return;
  }
  cell.model.sharedModel.source = prepared.code;
  await NotebookActions.runAndAdvance(content, sessionContext);
}

function offerRunCell(app: JupyterFrontEnd, parts: Parts, watch: SessionWatch, here: () => boolean): void {
  const { notebooks, palette } = parts;
  if (!notebooks) return;
  app.commands.addCommand(RUN_CELL, {
    label: "Run This Cell on the Grid",
    caption: "Run this cell on the Grid: put %%grid above its code, and run it as a job",
    icon: runCellIcon,
    isVisible: here,
    isEnabled: () => here() && notebooks.currentWidget !== null,
    execute: () => notebooks.currentWidget && runCell(notebooks.currentWidget, watch),
  });
  notebooks.currentChanged.connect(() => app.commands.notifyCommandChanged(RUN_CELL));
  palette?.addItem({ command: RUN_CELL, category: "Slipway" });
}

const wordsOf = (error: unknown) => (error instanceof ServiceError ? error.words : (error as Error).message);

// begin adds what is there in a session alone.
function begin(app: JupyterFrontEnd, parts: Parts, service: Service, watch: SessionWatch, session: Session): void {
  const label = () => `Slipway: keep this session for ${watch.keepWords()}`;
  app.commands.addCommand(KEEP, { label, execute: watch.keep });
  parts.palette?.addItem({ command: KEEP, category: "Slipway" });
  if (session.vscode) offerCode(app.commands, app.serviceManager.serverSettings.baseUrl, parts, codeIcon);
  offerExamples(app, parts, service, watch);
  if (parts.statusBar) watch.changed = showMeters(parts.statusBar, service, watch);
  if (parts.notebooks) {
    followNotebooks(parts.notebooks as unknown as Notebooks, (...words) => void watch.say(...words));
  }
}

function showPanel(app: JupyterFrontEnd, { restorer }: Parts, service: Service, watch: SessionWatch): Panel {
  const model = new PanelModel(service, PageConfig.getOption("hubHost"));
  const panel = new Panel(model, () => void watch.keep().then(model.refresh));
  app.shell.add(panel, "left", { rank: 600 });
  restorer?.add(panel, panel.id);
  return panel;
}

function activate(app: JupyterFrontEnd, ...given: unknown[]): void {
  const [palette, launcher, statusBar, notebooks, restorer] = given;
  const parts = { palette, launcher, statusBar, notebooks, restorer } as Parts;
  const service = connect(app.serviceManager.serverSettings);
  const watch = new SessionWatch(app.commands, service);
  let panel: Panel | null = null;
  app.commands.addCommand(SHOW_PANEL, {
    label: "Slipway",
    caption: "Show the panel of Slipway",
    isVisible: () => panel !== null,
    execute: () => panel && app.shell.activateById(panel.id),
  });
  offerRunCell(app, parts, watch, () => panel !== null);
  parts.palette?.addItem({ command: SHOW_PANEL, category: "Slipway" });
  const run = async () => {
    const session = await findSession(app, service);
    if (!session) return;
    panel = showPanel(app, parts, service, watch);
    begin(app, parts, service, watch, session);
    app.commands.notifyCommandChanged();
    await watch.start(session);
  };
  void run(); // not awaited: JupyterLab is not to start any later
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: "slipway:plugin",
  description: "Slipway in JupyterLab",
  autoStart: true,
  optional: [ICommandPalette, ILauncher, IStatusBar, INotebookTracker, ILayoutRestorer],
  activate,
};

export default plugin;
