// The way to the Slipway service: through Jupyter Server, whose extension (slipway._server) passes requests on by the
// socket of the session. Jupyter Server has checked who the browser is, so no token of Slipway is in the page. The
// module's comment there says why the other ways are worse.

// Ask makes a request to Jupyter Server, at a path below its "slipway/"; JupyterLab's ServerConnection has the cookie
// and the token.
export type Ask = (path: string, init: RequestInit) => Promise<Response>;

export interface StreamEvent {
  event: string;
  data: unknown;
}

// ServiceError has what the service, or Jupyter Server, says of a request that failed, and what the user can do.
export class ServiceError extends Error {
  readonly status: number;
  readonly remedy: string;

  constructor(message: string, remedy = "", status = 0) {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }

  // away says whether nobody has answered for the service.
  get away(): boolean {
    return this.status === 0 || this.status >= 502;
  }

  get words(): string {
    return [this.message, this.remedy].filter(Boolean).join(": ");
  }
}

export class Service {
  private readonly ask: Ask;

  constructor(ask: Ask) {
    this.ask = ask;
  }

  // get gives the answer's document; null where the server has no part of Slipway's.
  async get<T>(path: string): Promise<T | null> {
    const answer = await this.answer(path, {});
    return answer.status === 404 ? null : ((await this.read(answer)) as T);
  }

  async post<T>(path: string, body: unknown = {}): Promise<T> {
    return (await this.read(await this.answer(path, { method: "POST", body: JSON.stringify(body) }))) as T;
  }

  async text(path: string): Promise<string> {
    const answer = await this.answer(path, {});
    if (!answer.ok) await this.read(answer);
    return answer.text();
  }

  // stream follows the events of one answer until it ends, or until signal says so.
  async stream(path: string, init: RequestInit, each: (event: StreamEvent) => void): Promise<void> {
    const answer = await this.answer(path, init);
    if (!answer.ok || !answer.body) {
      await this.read(answer);
      return;
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const text of events) {
        const event = readEvent(text);
        if (event) each(event);
      }
    }
  }

  // run asks for what takes a while, tells each step, and gives what is made in the end.
  async run<T>(path: string, body: unknown, step: (progress: { message: string; percent: number }) => void): Promise<T> {
    let made: T | undefined;
    await this.stream(path, { method: "POST", body: JSON.stringify(body) }, ({ event, data }) => {
      if (event === "done") made = data as T;
      else if (event === "error") throw refusal((data as { error?: object } | null)?.error ?? {}, 500);
      else step(data as { message: string; percent: number });
    });
    if (made === undefined) throw new ServiceError("The connection broke off before the end", "look at the list, then try again");
    return made;
  }

  private async answer(path: string, init: RequestInit): Promise<Response> {
    try {
      return await this.ask(path, { cache: "no-store", ...init });
    } catch (error) {
      if ((error as Error).name === "AbortError") throw error;
      throw new ServiceError("The Jupyter Server of this session does not answer", "see whether the session still runs");
    }
  }

  private async read(answer: Response): Promise<unknown> {
    const doc: unknown = await answer.json().catch(() => ({}));
    if (!answer.ok) throw refusal(doc as object, answer.status);
    return doc;
  }
}

function refusal(doc: { message?: string; remedy?: string }, status: number): ServiceError {
  return new ServiceError(doc.message || `HTTP ${status}`, doc.remedy, status);
}

function readEvent(text: string): StreamEvent | null {
  let event = "message";
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  return data ? { event, data: JSON.parse(data) as unknown } : null;
}
