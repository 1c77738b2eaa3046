// Says in time that the session will be stopped, and keeps it on a click; tells when something was killed for want of
// memory or disk. Times are reckoned by the server's clock: `now` comes with each answer, and a browser's may be wrong.
import { clock, duration, milliseconds } from "./format.ts";
import type { Service } from "./service.ts";
import type { Session } from "./types.ts";

const MINUTE = 60_000;
const ASKED = 4 * 60 * MINUTE; // what the button asks for, unless the site allows less

export const KEEP = "slipway:keep";

// Commands is the part of JupyterLab's registry of commands that is needed here.
export interface Commands {
  execute(id: string, args?: object): Promise<unknown>;
}

export type Say = (message: string, type: string, autoClose: number | false) => Promise<unknown>;

export class SessionWatch {
  maxKeep = ASKED;
  // changed is told of each answer.
  changed: (session: Session) => void = () => {};
  private readonly commands: Commands;
  private readonly service: Service;
  private shown: { id: unknown; message: string } | null = null; // the one notification of a stop to come
  private timer: ReturnType<typeof setInterval> | undefined;
  private last = -Infinity;
  private readonly alerted: Record<string, string> = {}; // the time of the last alert that was shown, by its cause

  constructor(commands: Commands, service: Service) {
    this.commands = commands;
    this.service = service;
  }

  start(session: Session): Promise<void> {
    document.addEventListener("visibilitychange", this.wake);
    this.timer = setInterval(this.wake, MINUTE);
    this.last = performance.now();
    return this.tell(session);
  }

  end(): void {
    document.removeEventListener("visibilitychange", this.wake);
    clearInterval(this.timer);
  }

  wake = (): Promise<void> | undefined => {
    if (!document.hidden && performance.now() - this.last >= 0.9 * MINUTE) return this.look();
  };

  look = async (): Promise<void> => {
    this.last = performance.now();
    try {
      const session = await this.service.get<Session>("session");
      if (session) await this.tell(session);
      else this.end();
    } catch {
      // The service or the network is away for a while; JupyterLab itself tells about its server.
    }
  };

  async tell(session: Session): Promise<void> {
    this.changed(session);
    await this.warn(session);
    const { stops, now } = session;
    this.maxKeep = Math.min(ASKED, milliseconds(stops?.max_keep) || ASKED);
    const left = stops ? Date.parse(stops.at) - Date.parse(now) : Infinity;
    if (!stops || !(left <= milliseconds(stops.warning))) return this.dismiss();
    const message = `This session stops at ${clock(Date.now() + left)}: ${stops.why}. Your changes are kept.`;
    if (this.shown?.message === message) return;
    const button = { label: `Keep it for ${this.keepWords()}`, commandId: KEEP, displayType: "accent" };
    const options = { autoClose: false, actions: stops.can_keep ? [button] : [] };
    if (this.shown) {
      const update = { id: this.shown.id, message, type: "warning", ...options };
      if (await this.run("update-notification", update)) {
        this.shown.message = message;
        return;
      }
    }
    this.shown = { message, id: await this.run("notify", { message, type: "warning", options }) };
  }

  keep = async (): Promise<void> => {
    try {
      const session = await this.service.post<Session>("keep", { for: `${Math.floor(this.maxKeep / 1000)}s` });
      this.changed(session);
      await this.dismiss();
      const until = Date.now() + (Date.parse(session.keep_until ?? session.now) - Date.parse(session.now));
      await this.say(`This session is kept until ${clock(until)}.`, "success", 10_000);
    } catch (error) {
      const words = (error as { words?: string }).words ?? (error as Error).message;
      await this.say(`The session could not be kept: ${words}`, "error", false);
    }
  };

  keepWords = (): string => duration(this.maxKeep);

  say: Say = (message, type, autoClose) => this.run("notify", { message, type, options: { autoClose } });

  // warn shows each alert once, until it is closed: what was killed does not come back by itself.
  private async warn({ alerts }: Session): Promise<void> {
    for (const { cause, message, remedy, at } of alerts ?? []) {
      if (this.alerted[cause] === at) continue;
      this.alerted[cause] = at;
      await this.say(`${message}. ${remedy}.`, cause === "memory" ? "error" : "warning", false);
    }
  }

  private async dismiss(): Promise<void> {
    const shown = this.shown;
    this.shown = null;
    if (shown) await this.run("dismiss-notification", { id: shown.id });
  }

  private run(command: string, args: object): Promise<unknown> {
    return this.commands.execute(`apputils:${command}`, args);
  }
}
