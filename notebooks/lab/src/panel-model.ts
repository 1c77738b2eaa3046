// What the panel shows, and what its buttons do. It asks only while somebody sees the panel: all of it every ten
// seconds, and jobs as soon as an event of the service says that something has happened to one.
import { duration, milliseconds } from "./format.ts";
import { ServiceError, type Service } from "./service.ts";
import type { Environment, EnvironmentDiff, GPUs, Job, Jobs, Memory, Scan, Session } from "./types.ts";
import { ofScan, workOf, type Work } from "./work.ts";

const EVERY = 10_000;
const SOON = 1_000;
const FOLLOWED = 30; // as many as Jupyter Server's extension follows
const TAIL = 200;
const POINTS = 20;

// Said is what came of the last action.
export interface Said {
  words: string;
  kind: "busy" | "good" | "bad";
  link?: { href: string; text: string };
}

export class PanelModel {
  session: Session | null = null;
  memory: Memory = {};
  work: Work[] = [];
  environments: Environment[] = [];
  gpus: GPUs | null = null;
  // trouble is why what is shown may be old; null while the service answers.
  trouble: ServiceError | null = null;
  said: Said | null = null;
  ready = false;
  // steps are the last steps of jobs, by their IDs.
  readonly steps = new Map<string, string>();
  // version changes with anything, looks with each look at everything.
  version = 0;
  looks = 0;
  private readonly service: Service;
  private readonly host: string;
  private readonly listeners = new Set<() => void>();
  private timer: ReturnType<typeof setInterval> | undefined;
  private soon: ReturnType<typeof setTimeout> | undefined;
  private follower: AbortController | null = null;
  private followed = "";

  // host is where the Hub's pages are, where that is another one than this page's.
  constructor(service: Service, host = "") {
    this.service = service;
    this.host = host;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): void {
    if (this.timer !== undefined) return;
    this.timer = setInterval(() => void this.refresh(), EVERY);
    void this.refresh();
  }

  stop(): void {
    clearInterval(this.timer);
    clearTimeout(this.soon);
    this.timer = this.soon = undefined;
    this.unfollow();
  }

  refresh = async (): Promise<void> => {
    try {
      const [session, memory, jobs, environments, gpus] = await Promise.all([
        this.service.get<Session>("session"),
        this.service.get<Memory>("memory"),
        this.service.get<Jobs>("api/jobs?points=no"),
        this.service.get<{ environments: Environment[] }>("api/environments"),
        this.service.get<GPUs>("api/gpus"),
      ]);
      this.session = session;
      this.memory = memory ?? {};
      this.work = jobs ? workOf(jobs) : [];
      this.environments = (environments?.environments ?? []).sort((a, b) => b.created.localeCompare(a.created));
      this.gpus = gpus;
      this.trouble = null;
      this.follow();
    } catch (error) {
      this.trouble = asServiceError(error);
    }
    this.ready = true;
    this.looks++;
    this.changed();
  };

  // timeLeft says when the session stops, in words; empty where it does not by itself.
  timeLeft(): string {
    const { stops, now } = this.session ?? {};
    if (!stops || !now) return "";
    return `stops in ${duration(Date.parse(stops.at) - Date.parse(now))}: ${stops.why}`;
  }

  keepFor(): string {
    return duration(Math.min(4 * 3_600_000, milliseconds(this.session?.stops?.max_keep) || Infinity));
  }

  // page is the address of one of the service's pages, such as jobs/ID; empty where there are none.
  page(path: string): string {
    const page = this.session?.page;
    if (!page) return "";
    return `${this.host}${page.slice(0, page.lastIndexOf("/sessions/"))}/${path}`;
  }

  freeze(name: string, tag: string, note: string): Promise<void> {
    return this.act("Freezing this session", async (step) => {
      const made = await this.service.run<Environment>("api/sessions/self/freeze", { name, tag, note }, step);
      const what = made.unchanged ? "Nothing has changed since this environment was frozen" : "Frozen";
      return { words: `${what}: ${label(made)}.` };
    });
  }

  retry(work: Work): Promise<void> {
    return this.act(`Trying ${work.name || work.id} again`, async () => {
      await this.service.post(`api/${work.kind}s/${work.id}/retry`, { request_id: requestID() });
      return { words: `${work.name || work.id} is tried again.` };
    });
  }

  cancel(work: Work): Promise<void> {
    return this.act(`Canceling ${work.name || work.id}`, async () => {
      await this.service.post(`api/${work.kind}s/${work.id}/cancel`);
      return { words: `${work.name || work.id} is canceled.` };
    });
  }

  startFrom(environment: Environment, name: string): Promise<void> {
    return this.act(`Starting a session from ${label(environment)}`, async (step) => {
      const body = { name, options: { environment: environment.digest } };
      const session = await this.service.run<Session>("api/servers", body, step);
      const href = session.url || (session.prefix ? this.host + session.prefix : "");
      return { words: `The session ${name} runs.`, ...(href && { link: { href, text: "Open it" } }) };
    });
  }

  share(environment: Environment, who: string, group: string): Promise<void> {
    return this.act(`Sharing ${label(environment)}`, async () => {
      const body = { with: who, ...(who === "group" && { group }) };
      await this.service.post(`api/environments/${environment.digest}/share`, body);
      const others = { private: "you alone", group: `the group ${group}`, public: "everybody here" }[who];
      return { words: `${others} can use ${label(environment)}.` };
    });
  }

  // log gives the last lines of a job's output.
  log(job: string): Promise<string> {
    return this.service.text(`api/jobs/${job}/log?tail=${TAIL}`);
  }

  // points gives some points of a scan: those that have failed, or those that run, or the first ones.
  async points(scan: string): Promise<Job[]> {
    for (const state of ["failed", "running", ""]) {
      const list = await this.service.get<Jobs>(`api/jobs?scan=${scan}&limit=${POINTS}${state && `&state=${state}`}`);
      if (list?.jobs.length) return list.jobs;
    }
    return [];
  }

  async diff(old: string, environment: string): Promise<string[]> {
    const doc = await this.service.get<EnvironmentDiff>(`api/environments/${environment}/diff?from=${old}`);
    return doc?.lines.length ? doc.lines : ["Both have the same packages and files."];
  }

  // act does what a button is for, says how far it is and what came of it, and looks at everything again.
  async act(what: string, action: (step: (p: { message: string; percent: number }) => void) => Promise<Omit<Said, "kind">>) {
    const busy = (words: string) => this.say({ words, kind: "busy" });
    busy(`${what}…`);
    try {
      const said = await action(({ message, percent }) =>
        busy(`${what}: ${message}${percent > 0 ? `, ${Math.round(percent)} %` : ""}`),
      );
      this.say({ ...said, words: said.words.charAt(0).toUpperCase() + said.words.slice(1), kind: "good" });
    } catch (error) {
      this.say({ words: asServiceError(error).words, kind: "bad" });
    }
    await this.refresh();
  }

  say(said: Said | null): void {
    this.said = said;
    this.changed();
  }

  private changed(): void {
    this.version++;
    for (const listener of this.listeners) listener();
  }

  // follow has one stream tell of what is under way. It is opened anew when other jobs are.
  private follow(): void {
    if (this.timer === undefined) return;
    const active = this.work.filter((work) => work.active).slice(0, FOLLOWED);
    const query = active.map(({ kind, id }) => `${kind}=${id}`).join("&");
    if (query === this.followed) return;
    this.unfollow();
    if (!query) return;
    this.followed = query;
    const follower = (this.follower = new AbortController());
    this.service
      .stream(`events?${query}`, { signal: follower.signal }, ({ event, data }) => {
        if (event === "change") this.take(data as { job?: string; scan?: string; data: object | null });
      })
      .catch(() => {}) // the next look at everything says what is wrong
      .finally(() => {
        if (this.follower === follower) this.unfollow();
      });
  }

  private unfollow(): void {
    this.followed = "";
    this.follower?.abort();
    this.follower = null;
  }

  private take({ job, scan, data }: { job?: string; scan?: string; data: object | null }): void {
    if (job && data) this.steps.set(job, (data as { message: string }).message);
    if (scan && data) {
      this.work = this.work.map((work) => (work.id === scan ? { ...ofScan(data as Scan), created: work.created } : work));
    }
    this.changed();
    if (!data || job) this.lookSoon();
  }

  private lookSoon(): void {
    if (this.timer === undefined) return;
    this.soon ??= setTimeout(() => {
      this.soon = undefined;
      void this.refresh();
    }, SOON);
  }
}

// requestID names a request, so that one that is repeated is carried out once. `crypto.randomUUID` is not there where
// the Hub has no TLS.
function requestID(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// label names an environment as its owner would.
export function label({ name, tag, digest }: Environment): string {
  const short = digest.replace("sha256:", "").slice(0, 12);
  return name ? [name, tag].filter(Boolean).join(":") : short;
}

function asServiceError(error: unknown): ServiceError {
  return error instanceof ServiceError ? error : new ServiceError((error as Error).message);
}
