// JupyterLab in a browser with kernels on slices: on a Jupyter Server somewhere that knows of Slipway what --gateway-url says, and in a session, whose
// launcher has them beside its own. What a person does to a notebook is done, and what is to be seen is looked for.
//
//   node kernels.mjs JUPYTERLAB-URL SESSION-URL
//
// A kernel "Brief" runs for half a minute.
import { minutes, open, require, say, shoot } from "./browser.mjs";
import { begin, launch, shows } from "./lab.mjs";
import { asked, debugged, died, interrupted, restarted, rich, widgets } from "./notebook.mjs";

const [lab, session] = process.argv.slice(2);
const { browser, context, outside } = await open("http://127.0.0.1:");

// Opens the launcher, in a workspace of its own.
async function launcher(base, workspace) {
  const page = await context.newPage();
  await page.goto(`${base}/lab/workspaces/${workspace}?reset`);
  await page.waitForSelector(".jp-Launcher-body", { timeout: 2 * minutes });
  return page;
}

// The kernels on slices stand beside the session's own, each with its logo.
async function cards(page) {
  const all = page.locator('.jp-LauncherCard[data-category="Notebook"]');
  await all.filter({ hasText: "GPU" }).waitFor();
  const names = await all.allInnerTexts();
  require(names.join() === "Python 3 (ipykernel),Brief,GPU,Python", `the launcher has ${names}`);
  await page.waitForFunction(() => {
    const logos = [...document.querySelectorAll('.jp-LauncherCard[data-category="Notebook"] img')];
    return logos.length === 4 && logos.every((logo) => logo.naturalWidth > 0);
  });
  await shoot(page, "kernel-launcher");
}

// A kernel that is stopped says so before and when it is, with the reason, below the cell that ran last.
async function ended(cell) {
  await shows(cell, "This kernel will be stopped in less than a minute: up for");
  await shows(cell, /stopped by Slipway: up for .*: start another, and run what you need again/);
  await shoot(cell.page(), "kernel-ended");
}

async function gateway() {
  const page = await launcher(lab, "first");
  await launch(page, "Python");
  for (const story of [rich, interrupted, asked, restarted, died]) {
    await story(page);
    say(story.name);
  }
}

async function inSession() {
  const page = await launcher(session, "first");
  await cards(page);
  say("cards");
  const brief = await launcher(session, "brief");
  await launch(brief, "Brief");
  const last = await begin(brief, "print('not for long')");
  await launch(page, "GPU");
  for (const story of [widgets, debugged, asked, interrupted, restarted]) {
    await story(page);
    say(`${story.name}, in a session`);
  }
  await ended(last);
  say("ended");
}

try {
  await inSession();
  await gateway();
  require(outside.length === 0, `asked of others: ${outside}`);
} catch (error) {
  for (const page of context.pages()) await shoot(page, "failure").catch(() => {});
  throw error;
} finally {
  await browser.close();
}
