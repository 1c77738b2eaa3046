// A notebook in JupyterLab, used by its cells.
import { minutes, require, say } from "./browser.mjs";

export async function openNotebook(page) {
  await page.click('.jp-LauncherCard[data-category="Notebook"]');
  await page.waitForSelector(".jp-Notebook .cm-content");
  await idle(page);
}

// Typing before the kernel is idle loses the first Shift+Enter.
const idle = (page) =>
  page.waitForFunction(() => /Idle/.test(document.querySelector("#jp-main-statusbar")?.textContent ?? ""), null, {
    timeout: 3 * minutes,
  });

// Runs code in the last cell and waits until the cell has its number; gives what stands below it.
export async function run(page, code) {
  await idle(page);
  const cells = page.locator(".jp-Notebook .jp-CodeCell");
  const index = (await cells.count()) - 1;
  const cell = cells.nth(index);
  await cell.locator(".cm-content").click();
  // Not typed: the editor would add indentation and brackets of its own.
  await page.keyboard.insertText(code);
  await page.keyboard.press("Shift+Enter");
  await page.waitForFunction(
    (i) => /\[\d+\]/.test(document.querySelectorAll(".jp-Notebook .jp-CodeCell")[i]?.querySelector(".jp-InputPrompt")?.textContent ?? ""),
    index,
    { timeout: 5 * minutes },
  );
  await idle(page);
  const output = (await cell.locator(".jp-OutputArea").innerText()).trim();
  require(!/Traceback|Error:/.test(output), `the cell ${code.split("\n")[0]} failed:\n${output}`);
  for (const line of output.split("\n").filter(Boolean)) say(`  ${line}`);
  return output;
}
