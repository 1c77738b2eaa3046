// A notebook in JupyterLab, used by its cells.
import { minutes, require, say } from "./browser.mjs";

export async function openNotebook(page) {
  await launch(page);
  await idle(page);
}

// Opens a notebook from the launcher, on the first kernel whose card has this text, and does not wait for the kernel.
export async function launch(page, kernel = "") {
  await page.locator('.jp-LauncherCard[data-category="Notebook"]', { hasText: kernel }).first().click();
  await page.waitForSelector(".jp-Notebook .cm-content");
}

// Opens the launcher, in a workspace of its own.
export async function launcher(context, base, workspace) {
  const page = await context.newPage();
  await page.goto(`${base}/lab/workspaces/${workspace}?reset`);
  await page.waitForSelector(".jp-Launcher-body", { timeout: 2 * minutes });
  return page;
}

// Makes a notebook with a name, on a kernel: JupyterLab asks for one when it saves a notebook without.
export async function make(context, base, name, kernel) {
  const cell = { cell_type: "code", id: "first", metadata: {}, source: "", outputs: [], execution_count: null };
  const content = { cells: [cell], metadata: { kernelspec: { name: kernel, display_name: kernel } }, nbformat: 4, nbformat_minor: 5 };
  const made = await context.request.put(`${base}/api/contents/${name}`, { data: { type: "notebook", format: "json", content } });
  require(made.ok(), `${name} is not made: ${made.status()} ${await made.text()}`);
}

// Opens a notebook that is there, in a workspace of its own, and does not wait for the kernel.
export async function visit(page, base, name, workspace) {
  await page.goto(`${base}/lab/workspaces/${workspace}/tree/${name}?reset`);
  await page.waitForSelector(".jp-Notebook .cm-content");
}

const status = (page, word) =>
  page.waitForFunction((word) => document.querySelector("#jp-main-statusbar")?.textContent.includes(word), word, { timeout: 3 * minutes });

// Typing before the kernel is idle loses the first Shift+Enter.
export const idle = (page) => status(page, "Idle");
export const busy = (page) => status(page, "Busy");

// Starts code in the last cell, and gives that.
export async function begin(page, code) {
  await idle(page);
  const cells = page.locator(".jp-Notebook .jp-CodeCell");
  const cell = cells.nth((await cells.count()) - 1);
  await cell.locator(".cm-content").click();
  // Not typed: the editor would add indentation and brackets of its own.
  await page.keyboard.insertText(code);
  await page.keyboard.press("Shift+Enter");
  return cell;
}

// Waits until a cell has its number, and gives what stands below it.
export async function output(page, cell) {
  await cell.locator(".jp-InputPrompt", { hasText: /\[\d+\]/ }).waitFor({ timeout: 5 * minutes });
  await idle(page);
  return (await cell.locator(".jp-OutputArea").innerText()).trim();
}

// Waits until something stands below a cell.
export const shows = (cell, what, timeout = 2 * minutes) => cell.locator(".jp-OutputArea", { hasText: what }).waitFor({ timeout });

// Runs code, which must work, in the last cell.
export async function run(page, code) {
  const said = await output(page, await begin(page, code));
  require(!/Traceback|Error:/.test(said), `the cell ${code.split("\n")[0]} failed:\n${said}`);
  for (const line of said.split("\n").filter(Boolean)) say(`  ${line}`);
  return said;
}

// Has JupyterLab look as its themes do: Light, Dark, Dark High Contrast.
export async function theme(page, name) {
  await page.click('.lm-MenuBar-item:has-text("Settings")');
  await page.hover('.lm-Menu-item:has-text("Theme")');
  await page.click(`.lm-Menu-itemLabel:text-is("JupyterLab ${name}")`);
  await page.waitForSelector(`body[data-jp-theme-name="JupyterLab ${name}"]`, { state: "attached" });
  await page.waitForSelector("#jupyterlab-splash", { state: "hidden" });
}
