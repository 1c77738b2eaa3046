// JupyterLab in a browser with kernels on slices: on a Jupyter Server somewhere that knows of Slipway what --gateway-url says, and in a session, whose
// launcher has them beside its own. What a person does to a notebook is done, and what is to be seen is looked for.
//
//   node kernels.mjs JUPYTERLAB-URL SESSION-URL
//
// One kernel "GPU" runs at a time, and a kernel "Brief" for half a minute. Once "take the GPU" is printed, the GPU is to be lost.
import { minutes, open, require, say, shoot, watched } from "./browser.mjs";
import { begin, launch, launcher, make, output, shows, visit } from "./lab.mjs";
import { asked, debugged, died, interrupted, restarted, rich, twoWindows, widgets } from "./notebook.mjs";

const [lab, session] = process.argv.slice(2);
const here = "http://127.0.0.1:";
const { browser, context, outside } = await open(here);

// The kernels on slices stand beside the session's own, each with its logo.
async function cards(page) {
  const all = page.locator('.jp-LauncherCard[data-category="Notebook"]');
  await all.filter({ hasText: "GPU" }).waitFor();
  const names = await all.allInnerTexts();
  require(names.join() === "Python 3 (this session),Brief, own container,GPU, own container,Python, own container", `the launcher has ${names}`);
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

// While another notebook has the GPU, a cell says below it for what it waits. When it runs, that is gone.
async function waits(holder, page) {
  const cell = await begin(page, "print('here it is')");
  await shows(cell, "Slipway: Waiting for room, next in line");
  await shoot(page, "kernel-waits");
  await holder.click('.lm-MenuBar-item:has-text("Kernel")');
  await holder.click('.lm-Menu-itemLabel:text-is("Shut Down Kernel")');
  await shows(cell, "here it is");
  const said = await output(page, cell);
  require(said === "here it is", `below a cell that has waited stands ${said}`);
}

async function gateway() {
  await make(context, lab, "stories.ipynb", "python");
  const page = await context.newPage();
  await visit(page, lab, "stories.ipynb", "first");
  for (const story of [rich, interrupted, asked, restarted, died]) {
    await story(page);
    say(story.name);
  }
  await twoWindows(page, await watched(browser, here, outside), lab, "stories.ipynb");
  say("two windows");
}

async function inSession() {
  const page = await launcher(context, session, "first");
  await cards(page);
  say("cards");
  const brief = await launcher(context, session, "brief");
  await launch(brief, "Brief");
  const last = await begin(brief, "print('not for long')");
  await launch(page, "GPU");
  for (const story of [widgets, debugged, asked, interrupted, restarted]) {
    await story(page);
    say(`${story.name}, in a session`);
  }
  await ended(last);
  say("ended");
  const second = await launcher(context, session, "second");
  await launch(second, "GPU");
  await waits(page, second);
  say("waits");
  const computes = await begin(second, "import time\nprint('computes', flush=True)\nwhile True: time.sleep(.1)");
  await shows(computes, "computes");
  say("take the GPU");
  return computes;
}

// Whose GPU is lost hears of it below the cell that computes there.
async function lost(cell) {
  await shows(cell, /The GPU that you compute on here is lost .*Write what you need to files, and start another kernel/);
  await shoot(cell.page(), "kernel-lost");
}

try {
  const computes = await inSession();
  await gateway();
  await lost(computes);
  say("lost");
  require(outside.length === 0, `asked of others: ${outside}`);
} catch (error) {
  for (const page of browser.contexts().flatMap((c) => c.pages())) await shoot(page, "failure").catch(() => {});
  throw error;
} finally {
  await browser.close();
}
