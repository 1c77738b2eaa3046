// JupyterLab in a browser, on a Jupyter Server somewhere whose kernels run on slices: --gateway-url is all that it knows of Slipway. What a
// person does to a notebook is done, and what is to be seen is looked for.
//
//   node kernels.mjs JUPYTERLAB-URL
import { minutes, open, require, say, shoot } from "./browser.mjs";
import { begin, idle, openNotebook, output, run } from "./lab.mjs";

const [lab] = process.argv.slice(2);

const shows = (cell, what, timeout = 2 * minutes) => cell.locator(".jp-OutputArea", { hasText: what }).waitFor({ timeout });

// fails runs code that ends in an error, which is given.
async function fails(page, code) {
  const said = await output(page, await begin(page, code));
  require(/Error|Interrupt/.test(said), `the cell ${code} says ${said}`);
  return said;
}

async function rich(page) {
  const cell = await begin(page, `import matplotlib.pyplot as plt
from IPython.display import HTML, SVG, Latex, display
plt.figure(figsize=(3, 1)); plt.plot([1, 3, 2])
circle = "<svg xmlns='http://www.w3.org/2000/svg' width='60' height='30'><circle cx='15' cy='15' r='12' fill='teal'/></svg>"
display(HTML('<b id=bold>bold</b>'), SVG(circle), Latex(r'$E = \\hbar\\omega$'))`);
  await output(page, cell);
  for (const it of ["#bold", "img[src^='data:image/svg']", "img[src^='data:image/png']", "mjx-container"]) {
    await cell.locator(`.jp-OutputArea ${it}`).first().waitFor({ state: "attached" });
  }
  await shoot(page, "kernel-rich");
}

async function interrupted(page) {
  const cell = await begin(page, "print('begun')\nwhile True: pass");
  await shows(cell, "begun");
  await page.click('.jp-NotebookPanel:not(.lm-mod-hidden) [data-jp-item-name="interrupt"] jp-button');
  await shows(cell, "KeyboardInterrupt");
}

async function asked(page) {
  const cell = await begin(page, "print('hello', input('who? '))");
  const field = cell.locator(".jp-Stdin-input");
  await field.fill("Ada");
  await field.press("Enter");
  await shows(cell, "hello Ada");
}

// A restart that was asked for looks like none that was not.
async function restarted(page) {
  await run(page, "before = 1");
  await page.click('.jp-NotebookPanel:not(.lm-mod-hidden) [data-jp-item-name="restart"] jp-button');
  await page.click('.jp-Dialog button:has-text("Restart")');
  await page.waitForSelector(".jp-Dialog", { state: "detached" });
  await idle(page);
  require((await fails(page, "before")).includes("NameError"), "a restarted kernel knows what the old one did");
  require(await page.locator(".jp-Dialog").count() === 0, `a dialog: ${await page.locator(".jp-Dialog").allInnerTexts()}`);
}

async function died(page) {
  await begin(page, "import os; os.kill(os.getpid(), 9)");
  await page.waitForSelector('.jp-Dialog:has-text("appears to have died")');
  await shoot(page, "kernel-died");
  await page.click(".jp-Dialog button.jp-mod-accept");
  await idle(page);
  require((await fails(page, "before")).includes("NameError"), "a killed kernel knows what it did");
}

const stories = { rich, interrupted, asked, restarted, died };
const { browser, context, outside } = await open(lab);
const page = await context.newPage();
try {
  await page.goto(`${lab}/lab?reset`);
  await page.waitForSelector(".jp-Launcher-body", { timeout: 2 * minutes });
  await openNotebook(page);
  for (const [name, story] of Object.entries(stories)) {
    await story(page);
    say(name);
  }
  require(outside.length === 0, `asked of others: ${outside}`);
} catch (error) {
  await shoot(page, "failure").catch(() => {});
  throw error;
} finally {
  await browser.close();
}
