// The side panel: this session, jobs and scans, environments, and slices that are free.
import { ReactWidget } from "@jupyterlab/ui-components";
import * as React from "react";

import { count, day, gib, size } from "./format.ts";
import { slipwayIcon } from "./icons.ts";
import { label, type PanelModel } from "./panel-model.ts";
import type { Environment, Job } from "./types.ts";
import { matches, ofJob, type Work } from "./work.ts";

const SHOWN = 30; // rows of a list; the pages of the service have all

// Panel asks for what it shows only while it can be seen.
export class Panel extends ReactWidget {
  private readonly model: PanelModel;
  private readonly keep: () => void;

  constructor(model: PanelModel, keep: () => void) {
    super();
    this.model = model;
    this.keep = keep;
    this.id = "slipway-panel";
    this.addClass("jp-slipway-Panel");
    this.title.icon = slipwayIcon;
    this.title.caption = "Slipway";
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "Slipway");
    document.addEventListener("visibilitychange", this.look);
  }

  override dispose(): void {
    document.removeEventListener("visibilitychange", this.look);
    this.model.stop();
    super.dispose();
  }

  protected override render(): React.ReactElement {
    return <Content model={this.model} keep={this.keep} />;
  }

  protected override onAfterShow(): void {
    this.look();
  }

  protected override onAfterHide(): void {
    this.look();
  }

  private readonly look = () => {
    if (this.isVisible && !document.hidden) this.model.start();
    else this.model.stop();
  };
}

function Content({ model, keep }: { model: PanelModel; keep: () => void }) {
  React.useSyncExternalStore(model.subscribe, () => model.version);
  if (!model.ready) return <p className="jp-slipway-Hint">Asking the Slipway service…</p>;
  return (
    <>
      <Trouble model={model} />
      <SaidLine model={model} />
      <ThisSession model={model} keep={keep} />
      <WorkList model={model} />
      <Environments model={model} />
      <Slices model={model} />
    </>
  );
}

function Trouble({ model: { trouble, refresh } }: { model: PanelModel }) {
  if (!trouble) return null;
  return (
    <div role="alert" className="jp-slipway-Trouble">
      <p>
        <b>{trouble.away ? "The Slipway service is away." : "Slipway could not be asked."}</b> {trouble.words}.
      </p>
      <p>This session and your jobs go on. What stands here may be old. The panel tries again every 10 seconds.</p>
      <Button onClick={() => void refresh()}>Try now</Button>
    </div>
  );
}

function SaidLine({ model }: { model: PanelModel }) {
  const { said } = model;
  return (
    <div role="status" className={said ? `jp-slipway-Said jp-mod-${said.kind}` : ""}>
      {said && (
        <>
          <span>
            {said.words} {said.link && <Page href={said.link.href}>{said.link.text}</Page>}
          </span>
          {said.kind !== "busy" && <Button onClick={() => model.say(null)}>Close</Button>}
        </>
      )}
    </div>
  );
}

function ThisSession({ model, keep }: { model: PanelModel; keep: () => void }) {
  const [freezing, setFreezing] = React.useState(false);
  const { session, memory } = model;
  if (!session) return null;
  const { slice } = session;
  const use = slice?.use;
  return (
    <Section title="This session">
      <p>
        <Page href={model.page(`sessions/${session.id}`)}>{session.name || "Your default server"}</Page>:{" "}
        {model.timeLeft() || "nothing stops it unless you do"}
      </p>
      {memory.limit ? <Meter name="Memory" value={memory.used ?? 0} max={memory.limit} words={gibWords(memory)} /> : null}
      {slice && (
        <p>
          GPU: {slice.name} of {slice.model}
          {slice.simulated && " (simulated: no such hardware exists)"}
        </p>
      )}
      {use?.sm != null && <Meter name="GPU busy" value={use.sm} max={100} words={`${Math.round(use.sm)} %`} />}
      {slice && use?.memory != null && (
        <Meter
          name="GPU memory"
          value={use.memory}
          max={slice.memory}
          words={gibWords({ used: use.memory, limit: slice.memory })}
        />
      )}
      {use?.hint && <p className="jp-slipway-Hint">{use.hint}</p>}
      <Buttons>
        {session.stops?.can_keep && <Button onClick={keep}>Keep it for {model.keepFor()}</Button>}
        <Button expanded={freezing} onClick={() => setFreezing(!freezing)}>
          Freeze…
        </Button>
      </Buttons>
      {freezing && <FreezeForm model={model} done={() => setFreezing(false)} />}
    </Section>
  );
}

function FreezeForm({ model, done }: { model: PanelModel; done: () => void }) {
  return (
    <Form
      submit="Freeze"
      onSubmit={(value) => {
        done();
        void model.freeze(value("name"), value("tag"), value("note"));
      }}
    >
      <Field name="name" text="Name, such as analysis" />
      <Field name="tag" text="Tag, such as v1" />
      <Field name="note" text="Note" />
    </Form>
  );
}

function WorkList({ model }: { model: PanelModel }) {
  const [filter, setFilter] = React.useState("");
  const found = model.work.filter((work) => matches(work, filter));
  const active = model.work.filter((work) => work.active).length;
  return (
    <Section title="Jobs and scans" count={active ? `${active} active` : ""}>
      {model.work.length === 0 ? (
        <p className="jp-slipway-Hint">No jobs yet. Run a cell with %%grid, or press its button in a notebook.</p>
      ) : (
        <label className="jp-slipway-Field">
          <span>Filter by name, ID or state</span>
          <input type="search" value={filter} onChange={(event) => setFilter(event.target.value)} />
        </label>
      )}
      <ul className="jp-slipway-List" aria-label="Jobs and scans">
        {found.slice(0, SHOWN).map((work) => (
          <WorkRow key={work.id} model={model} work={work} />
        ))}
      </ul>
      {model.work.length > 0 && found.length === 0 && <p className="jp-slipway-Hint">None of your jobs fits the filter.</p>}
      {found.length > SHOWN && <p className="jp-slipway-Hint">{count(found.length - SHOWN, "older job")} not shown</p>}
      <p>
        <Page href={model.page("")}>All jobs</Page>
      </p>
    </Section>
  );
}

function WorkRow({ model, work }: { model: PanelModel; work: Work }) {
  const [open, setOpen] = React.useState(false);
  const name = work.name || work.id;
  const inside = work.kind === "job" ? "Log" : "Points";
  const words = (work.active && model.steps.get(work.id)) || work.words;
  return (
    <li className={`jp-slipway-Row jp-mod-${work.state}`}>
      <div className="jp-slipway-Row-head">
        <Page href={model.page(`${work.kind}s/${work.id}`)}>{name}</Page>
        <span className="jp-slipway-State">{work.state}</span>
      </div>
      <div className="jp-slipway-Hint">
        {work.kind === "scan" ? "scan, " : ""}
        <time dateTime={work.created}>{day(work.created)}</time>
      </div>
      {words && <div className="jp-slipway-Words">{words}</div>}
      {work.share !== null && <progress max={1} value={work.share} aria-label={`Progress of ${name}`} />}
      <Buttons>
        <Button about={name} expanded={open} onClick={() => setOpen(!open)}>
          {inside}
        </Button>
        {work.failed && (
          <Button about={name} onClick={() => void model.retry(work)}>
            Retry
          </Button>
        )}
        {work.active && (
          <Button about={name} onClick={() => void model.cancel(work)}>
            Cancel
          </Button>
        )}
      </Buttons>
      {open && (work.kind === "job" ? <Log model={model} work={work} /> : <Points model={model} scan={work.id} />)}
    </li>
  );
}

function Log({ model, work }: { model: PanelModel; work: Work }) {
  const text = useLoaded(() => model.log(work.id), [work.id, work.state, work.active ? model.looks : 0]);
  return (
    <pre className="jp-slipway-Log" tabIndex={0} aria-label={`The last lines of ${work.name || work.id}`}>
      {text ?? "Fetching the log…"}
      {text === "" && "It has written nothing."}
    </pre>
  );
}

function Points({ model, scan }: { model: PanelModel; scan: string }) {
  const points = useLoaded(() => model.points(scan), [scan, model.looks]);
  if (!points) return <p className="jp-slipway-Hint">Fetching the points…</p>;
  if (typeof points === "string") return <p className="jp-slipway-Hint">{points}</p>;
  return (
    <ul className="jp-slipway-List" aria-label={`Points of ${scan}`}>
      {points.map((job) => (
        <WorkRow key={job.id} model={model} work={{ ...ofJob(job), name: pointName(job) }} />
      ))}
    </ul>
  );
}

function pointName(job: Job): string {
  const parameters = Object.entries(job.parameters ?? {}).map(([name, value]) => `${name}=${value}`);
  return parameters.join(" ") || `point ${job.point}`;
}

function Environments({ model }: { model: PanelModel }) {
  return (
    <Section title="Environments" closed>
      {model.environments.length === 0 && (
        <p className="jp-slipway-Hint">None yet. Freeze this session, or run a cell with %%grid.</p>
      )}
      <ul className="jp-slipway-List" aria-label="Environments">
        {model.environments.slice(0, SHOWN).map((environment) => (
          <EnvironmentRow key={`${environment.digest} ${label(environment)}`} model={model} environment={environment} />
        ))}
      </ul>
      <p>
        <Page href={model.page("environments")}>All environments</Page>
      </p>
    </Section>
  );
}

type Inside = "" | "start" | "compare" | "share";

function EnvironmentRow({ model, environment }: { model: PanelModel; environment: Environment }) {
  const [inside, setInside] = React.useState<Inside>("");
  const name = label(environment);
  const toggle = (what: Inside) => () => setInside(inside === what ? "" : what);
  const button = (what: Inside, text: string) => (
    <Button about={name} expanded={inside === what} onClick={toggle(what)}>
      {text}
    </Button>
  );
  const known = environment.known ? `Python ${environment.python}, ${count(environment.packages ?? 0, "package")}, ` : "";
  return (
    <li className="jp-slipway-Row">
      <div className="jp-slipway-Row-head">
        <Page href={model.page(`environments/${environment.digest}`)}>{name}</Page>
        <span className="jp-slipway-State">{sharedWords(environment)}</span>
      </div>
      <div className="jp-slipway-Hint">
        {known}
        {size(environment.own)} of its own, <time dateTime={environment.created}>{day(environment.created)}</time>
      </div>
      <Buttons>
        {button("start", "Start…")}
        {model.environments.length > 1 && button("compare", "Compare…")}
        {button("share", "Share…")}
      </Buttons>
      {inside === "start" && <StartForm model={model} environment={environment} done={toggle("start")} />}
      {inside === "compare" && <Compare model={model} environment={environment} />}
      {inside === "share" && <ShareForm model={model} environment={environment} done={toggle("share")} />}
    </li>
  );
}

interface EnvironmentForm {
  model: PanelModel;
  environment: Environment;
  done: () => void;
}

function StartForm({ model, environment, done }: EnvironmentForm) {
  return (
    <Form
      submit="Start a session"
      onSubmit={(value) => {
        done();
        void model.startFrom(environment, value("server"));
      }}
    >
      <Field name="server" text="Name of the new session" initial={environment.name || "session"} required />
    </Form>
  );
}

function ShareForm({ model, environment, done }: EnvironmentForm) {
  const [who, setWho] = React.useState(environment.share?.with || "private");
  return (
    <Form
      submit="Share"
      onSubmit={(value) => {
        done();
        void model.share(environment, who, value("group"));
      }}
    >
      <label className="jp-slipway-Field">
        <span>Who can use it</span>
        <select value={who} onChange={(event) => setWho(event.target.value)}>
          <option value="private">you alone</option>
          <option value="group">a group</option>
          <option value="public">everybody here</option>
        </select>
      </label>
      {who === "group" && <Field name="group" text="Group" initial={environment.share?.group} required />}
    </Form>
  );
}

function Compare({ model, environment }: { model: PanelModel; environment: Environment }) {
  const others = model.environments.filter((other) => other.digest !== environment.digest);
  const [old, setOld] = React.useState(others[0]?.digest ?? "");
  const lines = useLoaded(() => model.diff(old, environment.digest), [old, environment.digest]);
  return (
    <>
      <label className="jp-slipway-Field">
        <span>Compared with</span>
        <select value={old} onChange={(event) => setOld(event.target.value)}>
          {others.map((other) => (
            <option key={`${other.digest} ${label(other)}`} value={other.digest}>
              {label(other)}
            </option>
          ))}
        </select>
      </label>
      <pre className="jp-slipway-Log" tabIndex={0} aria-label={`What ${label(environment)} has other than that`}>
        {lines ? [lines].flat().join("\n") : "Comparing…"}
      </pre>
    </>
  );
}

function sharedWords({ share, mine, owner }: Environment): string {
  if (!mine && owner) return `of ${owner}`;
  return share?.with === "public" ? "for everybody" : share?.with === "group" ? `for ${share.group}` : "";
}

function Slices({ model: { gpus } }: { model: PanelModel }) {
  const offers = gpus?.offers ?? [];
  return (
    <Section title="Free slices of GPUs">
      {offers.length === 0 && (
        <p className="jp-slipway-Hint">
          {gpus?.gpus.length ? "Nothing can be asked for now." : "This site has no GPUs on this host."}
        </p>
      )}
      {offers.length > 0 && (
        <table className="jp-slipway-Slices">
          <thead>
            <tr>
              <th scope="col">Slice</th>
              <th scope="col">Free now</th>
            </tr>
          </thead>
          <tbody>
            {offers.map(({ name, free, most }) => (
              <tr key={name}>
                <td>{name}</td>
                <td>
                  {free} of {most}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {gpus?.problem && <p className="jp-slipway-Hint">{gpus.problem}. These figures are older.</p>}
      {gpus?.simulated && <p className="jp-slipway-Hint">These GPUs are simulated: no such hardware exists.</p>}
    </Section>
  );
}

// useLoaded gives what load brings, null until then, or in words why it does not come.
function useLoaded<T>(load: () => Promise<T>, by: React.DependencyList): T | string | null {
  const [loaded, setLoaded] = React.useState<T | string | null>(null);
  React.useEffect(() => {
    let wanted = true;
    load().then(
      (got) => wanted && setLoaded(got),
      (error: Error) => wanted && setLoaded(error.message),
    );
    return () => {
      wanted = false;
    };
  }, by);
  return loaded;
}

const gibWords = ({ used = 0, limit = 0 }) => `${gib(used)} of ${gib(limit)} GiB`;

function Section(props: React.PropsWithChildren<{ title: string; count?: string; closed?: boolean }>) {
  return (
    <details className="jp-slipway-Section" open={!props.closed}>
      <summary>
        <h2>{props.title}</h2>
        {props.count && <span className="jp-slipway-Hint">{props.count}</span>}
      </summary>
      {props.children}
    </details>
  );
}

function Meter({ name, value, max, words }: { name: string; value: number; max: number; words: string }) {
  return (
    <label className="jp-slipway-Meter">
      <span>{name}</span>
      <meter min={0} max={max} high={0.8 * max} optimum={0} value={value} />
      <span>{words}</span>
    </label>
  );
}

const Buttons = ({ children }: React.PropsWithChildren) => <div className="jp-slipway-Buttons">{children}</div>;

interface ButtonProps {
  // about is what the button is about, where several have the same text.
  about?: string;
  expanded?: boolean;
  onClick: () => void;
}

function Button({ about, expanded, onClick, children }: React.PropsWithChildren<ButtonProps>) {
  return (
    <button type="button" className="jp-slipway-Button" aria-expanded={expanded} onClick={onClick}>
      {children}
      {about && <span className="jp-slipway-Unseen"> {about}</span>}
    </button>
  );
}

// Page is a link to a page of the service; plain text where it has none.
function Page({ href, children }: React.PropsWithChildren<{ href: string }>) {
  if (!href) return <>{children}</>;
  return (
    <a href={href} target="_blank" rel="noopener">
      {children}
    </a>
  );
}

type FormProps = React.PropsWithChildren<{ submit: string; onSubmit: (value: (name: string) => string) => void }>;

function Form({ submit, onSubmit, children }: FormProps) {
  return (
    <form
      className="jp-slipway-Form"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        onSubmit((name) => String(data.get(name) ?? "").trim());
      }}
    >
      {children}
      <button type="submit" className="jp-slipway-Button">
        {submit}
      </button>
    </form>
  );
}

function Field({ name, text, initial, required }: { name: string; text: string; initial?: string; required?: boolean }) {
  return (
    <label className="jp-slipway-Field">
      <span>{text}</span>
      <input name={name} defaultValue={initial} required={required} />
    </label>
  );
}
