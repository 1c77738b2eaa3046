// What the session uses of its memory and of its slice, in the status bar.
import { gib } from "./format.ts";
import type { Memory, Session } from "./types.ts";

export interface Status {
  text: string;
  title: string;
  level: "" | "warning" | "error";
}

export function memoryStatus({ used = 0, limit = 0 }: Memory): Status | null {
  if (!limit) return null;
  const full = used / limit;
  return {
    text: `Memory: ${gib(used)} of ${gib(limit)} GiB`,
    title: `All programs of this session use ${Math.round(full * 100)} % of its memory. What goes beyond is killed.`,
    level: full >= 0.95 ? "error" : full >= 0.8 ? "warning" : "",
  };
}

export function sliceStatus(session: Session | null): Status | null {
  const slice = session?.slice;
  if (!slice) return null;
  const simulated = slice.simulated ? " (simulated)" : "";
  const { sm, memory } = slice.use ?? {};
  const busy = sm == null ? "" : `, ${Math.round(sm)} % busy`;
  const filled = memory == null ? "" : ` It uses ${gib(memory)} of ${gib(slice.memory)} GiB of its memory.`;
  return {
    text: `GPU: ${slice.name}${simulated}${busy}`,
    title: `This session has the slice ${slice.name} of ${slice.model}${simulated}.${filled}`,
    level: "",
  };
}
