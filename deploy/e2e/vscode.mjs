// VS Code in the browser, used by its keys.

const editor = ".editor-group-container.active .editor-instance .view-lines";
const quick = ".quick-input-widget:not([style*='display: none'])";
const tab = (name, more = "") => `.tabs-container .tab.active${more}[data-resource-name="${name}"]`;

// The workbench is there, with the files of its folder beside it.
export async function opened(page) {
  await page.waitForSelector(".monaco-workbench .explorer-viewlet .monaco-list .monaco-list-row");
}

// By the explorer, whose lines stay where they are: those of the quick search move while they are clicked.
export async function openFile(page, name) {
  await page.locator(".explorer-viewlet").getByRole("treeitem", { name, exact: true }).dblclick();
  await page.waitForSelector(tab(name));
}

// The explorer takes the field for the name away when it learns of a change in the folder just then.
async function emptyFile(page, name) {
  await named(page, name).catch(() => named(page, name));
  await page.waitForSelector(tab(name));
}

async function named(page, name) {
  await page.hover(".explorer-viewlet");
  await page.getByRole("button", { name: "New File...", exact: true }).click();
  await page.fill(".explorer-viewlet .explorer-item-edited input", name, { timeout: 10_000 });
  await page.keyboard.press("Enter");
}

// Makes a file in the explorer, fills it and saves it.
export async function newFile(page, name, text) {
  await emptyFile(page, name);
  await page.click(editor);
  await page.keyboard.insertText(text);
  await save(page, name);
}

async function save(page, name) {
  await page.keyboard.press("Control+S");
  await page.waitForSelector(tab(name, ":not(.dirty)"));
}

// What a file says, as its editor shows it.
export async function contents(page, name) {
  await openFile(page, name);
  await page.waitForFunction((selector) => document.querySelector(selector)?.innerText.trim(), editor);
  return (await page.locator(editor).first().innerText()).replaceAll("\u00a0", " ");
}

// Types a command into a new terminal, waits until it has ended, and then for the file that it makes to be seen in the explorer. There is a mark
// beside each line on which the shell asks: what is typed before the first is lost, and the next says that the command has ended. On a busy
// machine the terminal may lose the keys all the same, so the command must be one that can be given again; and the explorer may miss a
// change of its folder, so it is asked to look.
export async function terminal(page, line, file) {
  await page.keyboard.press("Control+Shift+Backquote");
  const asks = page.locator(".terminal-wrapper.active .terminal-command-decoration");
  await asks.first().waitFor();
  await typed(page, line, asks).catch(() => typed(page, line, asks));
  await page.hover(".explorer-viewlet");
  await page.getByRole("button", { name: "Refresh Explorer", exact: true }).click();
  await page.locator(".explorer-viewlet .monaco-list-row", { hasText: file }).waitFor();
}

async function typed(page, line, asks) {
  const before = await asks.count();
  await page.click(".terminal-wrapper.active .xterm-screen");
  await page.keyboard.press("Control+C");
  await asks.nth(before).waitFor();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
  await asks.nth(before + 1).waitFor({ timeout: 30_000 });
}

// Makes a notebook with one cell and runs it: gives what stands below it.
export async function notebook(page, name, code) {
  await emptyFile(page, name);
  await page.getByRole("button", { name: "Add Code Cell" }).first().click();
  await page.waitForSelector(".notebookOverlay .code-cell-row .monaco-editor.focused");
  await page.keyboard.insertText(code);
  return runCell(page, 1);
}

// Runs the notebook's one cell; count is which execution of its kernel that is.
export async function runCell(page, count) {
  await page.getByRole("button", { name: "Run All" }).click();
  return ran(page, count);
}

// The same by keys, in the cell.
export async function runByKeys(page, keys, count) {
  await page.click(".notebookOverlay .code-cell-row .monaco-editor .view-lines");
  await page.keyboard.press(keys);
  return ran(page, count);
}

// Puts other code into the cell, and runs that.
export async function runOther(page, code, count) {
  await page.click(".notebookOverlay .code-cell-row .monaco-editor .view-lines");
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(code);
  return runCell(page, count);
}

async function ran(page, count) {
  const cell = page.locator(".notebookOverlay .code-cell-row");
  await cell.locator(".execution-count-label", { hasText: `[${count}]` }).waitFor();
  await cell.locator(".codicon-notebook-state-success").waitFor();
  return below(page);
}

// What stands below cells is in frames of its own.
async function below(page) {
  const outputs = page.frameLocator("iframe.webview.ready").frameLocator("#active-frame").locator(".output");
  await outputs.first().waitFor();
  return (await outputs.allInnerTexts()).join("\n");
}

// Does not wait for it.
export const restartKernel = (page) => page.getByRole("button", { name: "Restart Kernel" }).click();

// Searches for an extension until one of that title is listed.
export async function found(page, words, title) {
  await page.keyboard.press("Control+Shift+X");
  await page.click(".extensions-viewlet .monaco-editor");
  await page.keyboard.insertText(words);
  await page.locator(".extensions-viewlet .extension-list-item", { hasText: title }).waitFor();
}

// Debugs a file with a breakpoint at a line; gives the variables that are to be seen where it stops, and lets it go on to its end.
export async function debugged(page, name, line, look) {
  await openFile(page, name);
  await page.keyboard.press("Control+G");
  await page.waitForSelector(`${quick} .quick-input-box input`);
  await page.keyboard.insertText(`${line}`);
  await page.keyboard.press("Enter");
  await page.keyboard.press("F9");
  await page.waitForSelector(".codicon-debug-breakpoint");
  await page.keyboard.press("F5");
  await page.waitForSelector(".debug-toolbar .codicon-debug-continue");
  await page.waitForSelector(".debug-top-stack-frame-line");
  await page.locator(".debug-variables .monaco-list-row", { hasText: "=" }).first().waitFor();
  const seen = await page.locator(".debug-variables .monaco-list-row").allInnerTexts();
  await look();
  await page.keyboard.press("F5");
  await page.waitForSelector(".debug-toolbar", { state: "hidden" });
  return seen.map((words) => words.replace(/\s+/g, " "));
}
