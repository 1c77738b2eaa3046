// Slipway in JupyterLab: the panel beside a notebook in which a job and a scan have run, its buttons, the button that runs a cell on the Grid,
// and the example notebooks.
import { audited } from "./access.mjs";
import { minutes, require, say, shoot } from "./browser.mjs";
import { idle, launcher, output, run, theme } from "./lab.mjs";

export const panel = "#slipway-panel";
const row = (page, name) => page.locator(`${panel} li.jp-slipway-Row`, { hasText: name });

// Opens it from the sidebar, and waits until it has asked the service.
export async function openPanel(page) {
  await page.click('.jp-SideBar [data-id="slipway-panel"]');
  await page.waitForSelector(`${panel} summary:has-text("This session")`);
}

export async function paneled(page) {
  await openPanel(page);
  await shown(page);
  await filtered(page);
  await read(page);
  await tried(page);
  await environments(page);
  await inBothThemes(page);
  await examples(page);
  await page.click('.jp-SideBar [data-id="filebrowser"]');
}

// What there is of this session, of its jobs and of the site's GPUs.
async function shown(page) {
  const words = await page.locator(panel).innerText();
  for (const part of ["Memory", "first", "steps", "Free slices of GPUs", "1g.18gb"]) {
    require(words.includes(part), `the panel does not show ${part}: ${words}`);
  }
  require(/Memory: [\d.]+ of [\d.]+ GiB/.test(await page.locator("#slipway-memory").innerText()), "the status bar has no memory");
}

async function filtered(page) {
  await page.fill(`${panel} input[type=search]`, "steps");
  await row(page, "first").waitFor({ state: "detached" });
  await row(page, "steps").waitFor();
  await page.fill(`${panel} input[type=search]`, "");
}

// The log of a job, opened by the keyboard.
async function read(page) {
  await row(page, "first").getByRole("button", { name: "Log first" }).focus();
  await page.keyboard.press("Enter");
  await row(page, "first").locator("pre", { hasText: "2.4.7" }).waitFor();
  await page.keyboard.press("Enter");
  await row(page, "first").locator("pre").waitFor({ state: "detached" });
}

// A cell is run by the button, as a job that fails. The panel shows that without being asked, and tries it again.
async function tried(page) {
  await idle(page);
  const cells = page.locator(".jp-Notebook .jp-CodeCell");
  const cell = cells.nth((await cells.count()) - 1);
  await cell.locator(".cm-content").click();
  await page.keyboard.insertText("import pathlib\nprint('by a button', pathlib.Path.home().joinpath('ready').exists())\npathlib.Path.home().joinpath('ready').stat()");
  await page.click('.jp-NotebookPanel [data-jp-item-name="slipway-run-cell"] jp-button');
  const failed = page.locator(`${panel} li.jp-mod-failed`, { hasText: /^cell/ }); // as a job is called without a name
  await failed.waitFor({ timeout: 2 * minutes });
  await output(page, cell);
  require((await cell.locator(".cm-content").innerText()).startsWith("%%grid"), "the cell does not say that it is a job");
  await run(page, "pathlib = __import__('pathlib'); pathlib.Path.home().joinpath('ready').touch()");
  await failed.getByRole("button", { name: /^Retry/ }).click();
  await page.locator(`${panel} li.jp-mod-done`, { hasText: /^cell/ }).waitFor({ timeout: 2 * minutes });
  say("  a job was tried again from the panel");
}

async function environments(page) {
  const section = page.locator(`${panel} summary`, { hasText: "Environments" });
  await section.focus();
  await page.keyboard.press("Enter");
  await page.locator(`${panel} ul[aria-label="Environments"] li`).first().getByRole("button", { name: /^Share/ }).click();
  await page.locator(`${panel} form select`).selectOption({ label: "everybody here" });
  await page.locator(`${panel} form button`).click();
  await page.locator(`${panel} .jp-mod-good`, { hasText: "Everybody here can use" }).waitFor();
}

async function inBothThemes(page) {
  for (const colours of ["Dark", "Light"]) {
    await theme(page, colours);
    await shoot(page, `panel-${colours.toLowerCase()}`);
    await audited(page, panel);
  }
}

// The card of the launcher copies the examples and opens the first one.
async function examples(page) {
  const base = page.url().replace(/\/lab([/?].*)?$/, "");
  const other = await launcher(page.context(), base, "examples");
  await other.click('.jp-LauncherCard:has-text("Slipway examples")');
  await other.waitForSelector('.jp-NotebookPanel .jp-MarkdownOutput');
  await other.waitForSelector('.jp-DirListing-item:has-text("repaired_scan.ipynb")');
  await shoot(other, "examples");
  await other.close();
}
