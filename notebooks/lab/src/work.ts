// Jobs and scans as one list.
import type { Job, Jobs, Scan } from "./types.ts";

export const STATES = ["pending", "running", "done", "failed", "canceled"] as const;

// Work is a job, or a scan in place of its points.
export interface Work {
  kind: "job" | "scan";
  id: string;
  name: string;
  state: string;
  created: string;
  active: boolean;
  // failed says whether there is something that a retry would try again.
  failed: boolean;
  // share is how much is done, from 0 to 1; null where that is not known.
  share: number | null;
  // words are why it waits or failed, or how far it is.
  words: string;
}

export function workOf({ jobs, scans }: Jobs): Work[] {
  const all = [...jobs.map(ofJob), ...(scans ?? []).map(ofScan)];
  return all.sort((a, b) => b.created.localeCompare(a.created));
}

export function ofJob(job: Job): Work {
  const { done = 0, of = 0, text = "" } = job.progress ?? {};
  const far = job.progress ? [of ? `${done} of ${of}` : `${done}`, text].filter(Boolean).join(", ") : "";
  const active = job.state === "pending" || job.state === "running";
  return {
    kind: "job",
    id: job.id,
    name: job.name,
    state: job.state,
    created: job.created,
    active,
    failed: job.state === "failed" || job.state === "canceled",
    share: job.state === "running" && of > 0 ? Math.min(Math.max(done / of, 0), 1) : null,
    words: job.held && active ? "held until it is released" : job.outcome?.reason || job.waiting || far,
  };
}

export function ofScan(scan: Scan): Work {
  const states = scan.states as Record<string, number>;
  const has = (state: string) => states[state] ?? 0;
  const counts = STATES.filter(has).map((state) => `${has(state).toLocaleString()} ${state}`);
  const active = has("pending") + has("running") > 0;
  const order = ["running", "pending", "failed", "canceled"];
  const failure = has("failed") && scan.failure ? scan.failure : "";
  return {
    kind: "scan",
    id: scan.id,
    name: scan.name,
    state: order.find(has) ?? "done",
    created: scan.created,
    active,
    failed: has("failed") > 0,
    share: active && scan.points ? (scan.points - has("pending") - has("running")) / scan.points : null,
    words: [counts.join(", "), failure || scan.waiting].filter(Boolean).join(": "),
  };
}

// matches says whether each word of a filter is in the name, the ID or the state.
export function matches(work: Work, filter: string): boolean {
  const text = `${work.name} ${work.id} ${work.state}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
