// JupyterLab's part of Slipway: says in time that the session will be stopped, and keeps it on a click; shows what it
// uses of its memory, and tells when something was killed for that; tells of cells that a broken connection has lost; opens VS Code beside the
// notebook, where the session's image has it.
//
// It is written as the module container that JupyterLab loads, with no build: it uses the application's
// commands and server settings alone, and the command palette, the launcher and the notebooks if the application shares them. Where the
// server is no Slipway session it falls silent after one question. Times are reckoned by the server's
// clock: `now` comes with each answer, and a browser's clock may be wrong.
"use strict";

(() => {
  const MINUTE = 60_000;
  const ASKED = 4 * 60 * MINUTE; // what the button asks for, unless the site allows less
  const KEEP = "slipway:keep";
  const CODE = "slipway:code";
  const ANGLES =
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" ' +
    'd="M8.7 6.3 3 12l5.7 5.7 1.4-1.4L5.8 12l4.3-4.3zm6.6 0-1.4 1.4 4.3 4.3-4.3 4.3 1.4 1.4L21 12z"/></svg>';

  const METER = 5_000; // how often the meter looks

  let scope = {};

  // The time of a text such as "24h0m0s", in milliseconds; 0 where it says nothing.
  function milliseconds(text) {
    const units = { h: 60 * MINUTE, m: MINUTE, s: 1000 };
    let sum = 0;
    for (const [, number, unit] of String(text ?? "").matchAll(/(\d+(?:\.\d+)?)([hms])/g)) sum += number * units[unit];
    return sum;
  }

  function inWords(time) {
    const minutes = Math.floor(time / MINUTE);
    const say = (n, unit) => (n ? `${n} ${unit}${n === 1 ? "" : "s"}` : "");
    return [say(Math.floor(minutes / 60), "hour"), say(minutes % 60, "minute")].filter(Boolean).join(" ") || "a moment";
  }

  const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

  // The server extension's answers; null where there is none, so that nobody asks again.
  function client(settings) {
    return async (path, body) => {
      const headers = { Accept: "application/json" };
      const xsrf = /\b_xsrf=([^;]*)/.exec(document.cookie)?.[1];
      if (xsrf) headers["X-XSRFToken"] = xsrf;
      if (settings.token) headers.Authorization = `token ${settings.token}`;
      const sent = body ? { method: "POST", body: JSON.stringify(body) } : {};
      const init = { ...sent, headers, credentials: "same-origin", cache: "no-store" };
      const answer = await fetch(`${settings.baseUrl}slipway/${path}`, init);
      if (answer.status === 404 && !body) return null;
      const doc = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error([doc.message, doc.remedy].filter(Boolean).join(": ") || `HTTP ${answer.status}`);
      return doc;
    };
  }

  class Watch {
    constructor(commands, ask) {
      this.commands = commands;
      this.ask = ask;
      this.maxKeep = ASKED;
      this.shown = null; // the one notification of a stop to come
      this.timer = null;
      this.last = -Infinity;
      this.alerted = {}; // the time of the last alert that was shown, by its cause
    }

    start(session) {
      document.addEventListener("visibilitychange", this.wake);
      this.timer = setInterval(this.wake, MINUTE);
      this.last = performance.now();
      return this.tell(session);
    }

    end() {
      document.removeEventListener("visibilitychange", this.wake);
      clearInterval(this.timer);
    }

    wake = () => {
      if (!document.hidden && performance.now() - this.last >= 0.9 * MINUTE) return this.look();
    };

    look = async () => {
      this.last = performance.now();
      try {
        const session = await this.ask("session");
        if (session) await this.tell(session);
        else this.end();
      } catch {
        // The service or the network is away for a while; JupyterLab itself tells about its server.
      }
    };

    // Each alert is shown once, and stays until it is closed: what was killed does not come back by itself.
    async warn(alerts) {
      for (const { cause, message, remedy, at } of alerts ?? []) {
        if (this.alerted[cause] === at) continue;
        this.alerted[cause] = at;
        await this.say(`${message}. ${remedy}.`, cause === "memory" ? "error" : "warning", false);
      }
    }

    async tell({ stops, now, alerts }) {
      await this.warn(alerts);
      this.maxKeep = Math.min(ASKED, milliseconds(stops?.max_keep) || ASKED);
      const left = stops ? Date.parse(stops.at) - Date.parse(now) : Infinity;
      if (!(left <= milliseconds(stops?.warning))) return this.dismiss();
      const message = `This session stops at ${clock(Date.now() + left)}: ${stops.why}. Your changes are kept.`;
      if (this.shown?.message === message) return;
      const button = { label: `Keep it for ${inWords(this.maxKeep)}`, commandId: KEEP, displayType: "accent" };
      const options = { autoClose: false, actions: stops.can_keep ? [button] : [] };
      if (this.shown && (await this.run("update-notification", { id: this.shown.id, message, type: "warning", ...options }))) {
        this.shown.message = message;
        return;
      }
      this.shown = { message, id: await this.run("notify", { message, type: "warning", options }) };
    }

    async dismiss() {
      const shown = this.shown;
      this.shown = null;
      if (shown) await this.run("dismiss-notification", { id: shown.id });
    }

    keep = async () => {
      try {
        const session = await this.ask("keep", { for: `${Math.floor(this.maxKeep / 1000)}s` });
        await this.dismiss();
        const until = Date.now() + (Date.parse(session.keep_until) - Date.parse(session.now));
        await this.say(`This session is kept until ${clock(until)}.`, "success", 10_000);
      } catch (error) {
        await this.say(`The session could not be kept: ${error.message}`, "error", false);
      }
    };

    say(message, type, autoClose) {
      return this.run("notify", { message, type, options: { autoClose } });
    }

    run(command, args) {
      return this.commands.execute(`apputils:${command}`, args);
    }
  }

  const gib = (bytes) => (bytes / 2 ** 30).toFixed(bytes < 9.95 * 2 ** 30 ? 1 : 0);

  // What the session uses of its memory, in the status bar. A page that nobody sees does not look.
  function showMeter({ statusBar, Widget }, ask, watch) {
    const item = new Widget();
    item.addClass("jp-StatusBar-TextItem");
    item.node.id = "slipway-memory";
    let kills = null;
    const look = async () => {
      if (document.hidden) return;
      const { used, limit, kills: now } = (await ask("memory").catch(() => ({}))) ?? {};
      if (!limit) return;
      const full = used / limit;
      item.node.textContent = `Memory: ${gib(used)} of ${gib(limit)} GiB`;
      item.node.title = `All programs of this session use ${Math.round(full * 100)} % of its memory. What goes beyond is killed.`;
      item.node.style.background = full >= 0.95 ? "var(--jp-error-color1)" : full >= 0.8 ? "var(--jp-warn-color1)" : "";
      item.node.style.color = full >= 0.8 ? "var(--jp-ui-inverse-font-color1)" : "";
      if (kills !== null && now > kills) setTimeout(() => void watch.look(), METER); // by then the service has heard of it
      kills = now;
    };
    statusBar.registerStatusItem("slipway:memory", { item, align: "left", rank: 100 });
    setInterval(() => void look(), METER);
    return look();
  }

  // A cell is lost when the connection to its kernel breaks as it is sent, and its end when that breaks as it is answered: nobody sends either
  // again. A kernel answers in order: what was sent before a break has no answer to come once a question is answered that was asked after it.
  function followCells(kernel, say) {
    const waiting = new Map(); // the code of cells without an answer, by the message
    const doubtful = new Map(); // likewise, of those that were sent before the last break
    const queued = new Map(); // likewise, of those that JupyterLab sends when the kernel answers again
    const questions = new Set(); // asked since the last break
    kernel.connectionStatusChanged.connect((_, status) => {
      if (status === "connected") return;
      for (const [id, code] of waiting) doubtful.set(id, code);
      waiting.clear();
      questions.clear();
    });
    kernel.statusChanged.connect((_, status) => {
      if (/restarting|dead/.test(status)) for (const all of [waiting, doubtful, queued, questions]) all.clear();
    });
    kernel.anyMessage.connect((_, { msg, direction }) => {
      const { msg_id: id, msg_type: type } = msg.header;
      const about = msg.parent_header?.msg_id;
      if (direction === "send" && type === "kernel_info_request") questions.add(id);
      if (direction === "send" && type === "execute_request" && !msg.content.silent)
        (kernel.connectionStatus === "connected" ? waiting : queued).set(id, msg.content.code);
      if (type === "execute_reply") for (const all of [waiting, doubtful, queued]) all.delete(about);
      if (type !== "kernel_info_reply" || !questions.delete(about)) return;
      for (const [id, code] of queued) waiting.set(id, code);
      queued.clear();
      if (doubtful.size) say(lostWords([...doubtful.values()]), "error", false);
      doubtful.clear();
    });
  }

  function lostWords(cells) {
    const [line] = cells[0].trimStart().split("\n", 1);
    const first = line.length > 60 ? `${line.slice(0, 60)}…` : line;
    const [what, it, has] = cells.length === 1 ? ["a cell was", "It", "it has"] : [`${cells.length} cells were`, "Each of them", "they have"];
    const which = cells.length === 1 ? first : `the first is ${first}`;
    return (
      `The connection to the kernel broke off as ${what} sent or answered (${which}). ${it} may have run or not, and gets no answer any more. ` +
      `Look at what ${has} done, and run again what is missing.`
    );
  }

  // Each kernel of each notebook is followed once: notebooks can share one.
  function followNotebooks(notebooks, say) {
    const followed = new WeakSet();
    const follow = (kernel) => {
      if (!kernel || followed.has(kernel)) return;
      followed.add(kernel);
      followCells(kernel, say);
    };
    const opened = ({ sessionContext }) => {
      follow(sessionContext.session?.kernel);
      sessionContext.kernelChanged.connect((_, { newValue }) => follow(newValue));
    };
    notebooks.forEach(opened);
    notebooks.widgetAdded.connect((_, notebook) => opened(notebook));
  }

  // VS Code is below the server's own address, in a tab of its own.
  function offerCode(app, { palette, launcher, LabIcon }) {
    const address = `${app.serviceManager.serverSettings.baseUrl}vscode/`;
    app.commands.addCommand(CODE, {
      label: (args) => (args.isPalette ? "Slipway: open VS Code" : "VS Code"),
      caption: "Open VS Code in a new tab",
      icon: LabIcon && new LabIcon({ name: CODE, svgstr: ANGLES }),
      execute: () => void window.open(address, "_blank", "noopener"),
    });
    palette?.addItem({ command: CODE, category: "Slipway", args: { isPalette: true } });
    launcher?.add({ command: CODE, category: "Other", rank: 10 });
  }

  async function run(app, parts) {
    await app.started; // the commands of other plugins are there only then
    if (!app.commands.hasCommand("apputils:notify")) return;
    const ask = client(app.serviceManager.serverSettings);
    const session = await ask("session").catch(() => ({}));
    if (!session) return;
    const watch = new Watch(app.commands, ask);
    const label = () => `Slipway: keep this session for ${inWords(watch.maxKeep)}`;
    app.commands.addCommand(KEEP, { label, execute: watch.keep });
    parts.palette?.addItem({ command: KEEP, category: "Slipway" });
    if (session.vscode) offerCode(app, parts);
    if (parts.statusBar && parts.Widget) void showMeter(parts, ask, watch);
    if (parts.notebooks) followNotebooks(parts.notebooks, (...words) => void watch.say(...words));
    await watch.start(session);
  }

  // A module that the application shares, by whatever version it has; undefined where it shares none.
  async function sharedModule(name) {
    const versions = Object.values(scope[name] ?? {});
    try {
      return versions.length ? (await versions[0].get())() : undefined;
    } catch {
      return undefined;
    }
  }

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB.slipway = {
    init(shared) {
      scope = shared;
    },
    async get(module) {
      if (module !== "./extension") throw new Error(`slipway has no module ${module}`);
      const palette = (await sharedModule("@jupyterlab/apputils"))?.ICommandPalette;
      const launcher = (await sharedModule("@jupyterlab/launcher"))?.ILauncher;
      const LabIcon = (await sharedModule("@jupyterlab/ui-components"))?.LabIcon;
      const bar = (await sharedModule("@jupyterlab/statusbar"))?.IStatusBar;
      const Widget = (await sharedModule("@lumino/widgets"))?.Widget;
      const tracker = (await sharedModule("@jupyterlab/notebook"))?.INotebookTracker;
      const optional = [palette, launcher, bar, tracker].filter(Boolean);
      const activate = (app, ...given) => {
        const part = (token) => token && given[optional.indexOf(token)];
        const parts = { palette: part(palette), launcher: part(launcher), statusBar: part(bar), notebooks: part(tracker), LabIcon, Widget };
        void run(app, parts); // not awaited: JupyterLab is not to start any later
      };
      const plugin = { id: "slipway:keep", autoStart: true, optional, activate };
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
