// Whether JupyterLab runs in a session of Slipway.
import type { Service } from "./service.ts";
import type { Session } from "./types.ts";

interface App {
  readonly started: Promise<void>;
  readonly commands: { hasCommand(id: string): boolean };
}

// findSession gives the session that the server runs in; null outside of Slipway, and in an application that has no
// notifications. While the service is away nothing is known of the session, and it is empty.
export async function findSession(app: App, service: Service): Promise<Session | null> {
  await app.started; // the commands of other plugins are there only then
  if (!app.commands.hasCommand("apputils:notify")) return null;
  return service.get<Session>("session").catch(() => ({}) as Session);
}
