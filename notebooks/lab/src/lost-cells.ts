// Tells of cells that a broken connection has lost. A cell is lost when the connection to its kernel breaks as it is
// sent, and its end when that breaks as it is answered: nobody sends either again. A kernel answers in order: what was
// sent before a break has no answer to come once a question is answered that was asked after it.

interface Signal<Args> {
  connect(slot: (sender: never, args: Args) => void): unknown;
}

interface Message {
  header: { msg_id: string; msg_type: string };
  parent_header: { msg_id?: string } | object;
  content: { code?: string; silent?: boolean } | object;
}

// Kernel is the part of a kernel's connection that is needed here.
export interface Kernel {
  readonly connectionStatus: string;
  readonly connectionStatusChanged: Signal<string>;
  readonly statusChanged: Signal<string>;
  readonly anyMessage: Signal<{ msg: Message; direction: string }>;
}

interface Context {
  readonly session: { readonly kernel: Kernel | null } | null;
  readonly kernelChanged: Signal<{ newValue: Kernel | null }>;
}

interface Notebook {
  readonly sessionContext: Context;
}

export interface Notebooks {
  forEach(call: (notebook: Notebook) => void): void;
  readonly widgetAdded: Signal<Notebook>;
}

type Tell = (message: string, type: "error", autoClose: false) => void;

function followCells(kernel: Kernel, say: Tell): void {
  const waiting = new Map<string, string>(); // the code of cells without an answer, by the message
  const doubtful = new Map<string, string>(); // likewise, of those that were sent before the last break
  const queued = new Map<string, string>(); // likewise, of those that JupyterLab sends when the kernel answers again
  const questions = new Set<string>(); // asked since the last break
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
    const about = (msg.parent_header as { msg_id?: string } | undefined)?.msg_id ?? "";
    const { code = "", silent } = msg.content as { code?: string; silent?: boolean };
    if (direction === "send" && type === "kernel_info_request") questions.add(id);
    if (direction === "send" && type === "execute_request" && !silent) {
      (kernel.connectionStatus === "connected" ? waiting : queued).set(id, code);
    }
    if (type === "execute_reply") for (const all of [waiting, doubtful, queued]) all.delete(about);
    if (type !== "kernel_info_reply" || !questions.delete(about)) return;
    for (const [id, code] of queued) waiting.set(id, code);
    queued.clear();
    if (doubtful.size) say(lostWords([...doubtful.values()]), "error", false);
    doubtful.clear();
  });
}

function lostWords(cells: string[]): string {
  const line = (cells[0] ?? "").trimStart().split("\n", 1)[0] ?? "";
  const first = line.length > 60 ? `${line.slice(0, 60)}…` : line;
  const one = cells.length === 1;
  const [what, it, has] = one ? ["a cell was", "It", "it has"] : [`${cells.length} cells were`, "Each of them", "they have"];
  const which = one ? first : `the first is ${first}`;
  return (
    `The connection to the kernel broke off as ${what} sent or answered (${which}). ` +
    `${it} may have run or not, and gets no answer any more. ` +
    `Look at what ${has} done, and run again what is missing.`
  );
}

// followNotebooks follows each kernel of each notebook once: notebooks can share one.
export function followNotebooks(notebooks: Notebooks, say: Tell): void {
  const followed = new WeakSet<Kernel>();
  const follow = (kernel: Kernel | null | undefined) => {
    if (!kernel || followed.has(kernel)) return;
    followed.add(kernel);
    followCells(kernel, say);
  };
  const opened = ({ sessionContext }: Notebook) => {
    follow(sessionContext.session?.kernel);
    sessionContext.kernelChanged.connect((_, { newValue }) => follow(newValue));
  };
  notebooks.forEach(opened);
  notebooks.widgetAdded.connect((_, notebook) => opened(notebook));
}
