// How figures and times read for people.

const MINUTE = 60_000;

// milliseconds reads a length of time such as "24h0m0s"; it is 0 where the text says nothing.
export function milliseconds(text: string | undefined | null): number {
  const units: Record<string, number> = { h: 60 * MINUTE, m: MINUTE, s: 1000 };
  let sum = 0;
  for (const [, number, unit] of String(text ?? "").matchAll(/(\d+(?:\.\d+)?)([hms])/g)) {
    sum += Number(number) * (units[unit ?? ""] ?? 0);
  }
  return sum;
}

export function duration(time: number): string {
  const minutes = Math.floor(time / MINUTE);
  const say = (n: number, unit: string) => (n ? `${n} ${unit}${n === 1 ? "" : "s"}` : "");
  const words = [say(Math.floor(minutes / 60), "hour"), say(minutes % 60, "minute")];
  return words.filter(Boolean).join(" ") || "a moment";
}

export const clock = (time: number) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

// day names a day and a time, for what may be long ago.
export const day = (time: string) =>
  new Date(time).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(bytes < 9.95 * 2 ** 30 ? 1 : 0);

// size writes a number of bytes in the unit that fits it.
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}

export const count = (n: number, what: string) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;
