// What the API's answers have, by its document.
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

export type Environment = Schemas["Environment"];
export type EnvironmentDiff = Schemas["EnvironmentDiff"];
export type GPUOffer = Schemas["GPUOffer"];
export type GPUs = Schemas["GPUs"];
export type Job = Schemas["Job"];
export type Jobs = Schemas["Jobs"];
export type Scan = Schemas["Scan"];

// Session is the session as Jupyter Server's extension gives it: with the time at the server, and whether the image has
// VS Code.
export type Session = Schemas["Session"] & { now: string; vscode: boolean };

// Memory is what the session uses of its memory, in bytes; nothing where no limit is known.
export interface Memory {
  used?: number;
  limit?: number;
  kills?: number;
}
