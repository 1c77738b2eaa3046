// What a person does to a notebook in JupyterLab, and what is to be seen then. Each is done in the notebook that a page shows.
import { minutes, require, shoot } from "./browser.mjs";
import { begin, busy, idle, output, run, shows, visit } from "./lab.mjs";

const tool = (page, name) => page.click(`.jp-NotebookPanel [data-jp-item-name="${name}"] jp-button`);
const interrupt = (page) => tool(page, "interrupt");

// fails runs code that ends in an error, which is given.
async function fails(page, code) {
  const said = await output(page, await begin(page, code));
  require(/Error|Interrupt/.test(said), `the cell ${code} says ${said}`);
  return said;
}

export async function rich(page) {
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

export async function interrupted(page) {
  const cell = await begin(page, "print('begun')\nwhile True: pass");
  await shows(cell, "begun");
  await interrupt(page);
  await shows(cell, "KeyboardInterrupt");
}

export async function asked(page) {
  const cell = await begin(page, "print('hello', input('who? '))");
  const field = cell.locator(".jp-Stdin-input");
  await field.fill("Ada");
  await field.press("Enter");
  await shows(cell, "hello Ada");
}

// A restart that was asked for looks like none that was not.
export async function restarted(page) {
  await run(page, "before = 1");
  await tool(page, "restart");
  await page.click('.jp-Dialog button:has-text("Restart")');
  await page.waitForSelector(".jp-Dialog", { state: "detached" });
  await idle(page);
  require((await fails(page, "before")).includes("NameError"), "a restarted kernel knows what the old one did");
  require(await page.locator(".jp-Dialog").count() === 0, `a dialog: ${await page.locator(".jp-Dialog").allInnerTexts()}`);
}

export async function died(page) {
  await begin(page, "import os; os.kill(os.getpid(), 9)");
  await page.waitForSelector('.jp-Dialog:has-text("appears to have died")');
  await shoot(page, "kernel-died");
  await page.click(".jp-Dialog button.jp-mod-accept");
  await idle(page);
  require((await fails(page, "before")).includes("NameError"), "a killed kernel knows what it did");
}

// Widgets: a slider moves and the kernel hears of it; a picture comes from the kernel and a file goes to it, both as they are, not as text.
export async function widgets(page) {
  const cell = await begin(page, `import io, ipywidgets as w
from PIL import Image
png = io.BytesIO(); Image.new("RGB", (24, 12), "teal").save(png, "png")
gain, file, said = w.IntSlider(value=3, description="gain"), w.FileUpload(), w.Label()
gain.observe(lambda c: setattr(said, "value", f"gain is {c.new}"), "value")
file.observe(lambda c: setattr(said, "value", f"whole: {bytes(c.new[0].content) == bytes(range(256))}"), "value")
display(gain, w.Image(value=png.getvalue()), file, said)`);
  const label = (words) => cell.locator(".widget-label", { hasText: words }).waitFor();
  await cell.locator(".noUi-handle").focus();
  await page.keyboard.press("ArrowRight");
  await label("gain is 4");
  await page.waitForFunction(() => document.querySelector(".jp-OutputArea img.widget-image")?.naturalWidth === 24);
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), cell.locator(".widget-upload").click()]);
  await chooser.setFiles({ name: "all", mimeType: "application/octet-stream", buffer: Buffer.from([...Array(256).keys()]) });
  await label("whole: True");
  await shoot(page, "kernel-widgets");
}

// A breakpoint is set beside a line, met, and what there is then is seen.
export async function debugged(page) {
  const cells = page.locator(".jp-Notebook .jp-CodeCell");
  const cell = cells.nth((await cells.count()) - 1);
  await cell.locator(".cm-content").click();
  await page.keyboard.insertText("def double(n):\n    twice = 2 * n\n    return twice\nprint(double(21))");
  // The text is there before: a second after each change JupyterLab sets the breakpoints anew, and one that is just being set can get lost. As
  // it starts to debug, it takes over those that the kernel has, which are none.
  await page.locator(".jp-NotebookPanel .jp-DebuggerBugButton").click();
  const sidebar = page.locator("#jp-debugger-sidebar");
  await sidebar.locator(".jp-DebuggerVariables", { hasText: "special variables" }).waitFor();
  await cell.locator(".cm-breakpoint-gutter .cm-gutterElement").nth(3).click();
  await sidebar.locator(".jp-DebuggerBreakpoints", { hasText: "3" }).waitFor();
  await cell.locator(".cm-content").click();
  await page.keyboard.press("Shift+Enter");
  const seen = sidebar.locator(".jp-DebuggerVariables", { hasText: /twice\s*42/ });
  await seen.waitFor();
  await shoot(page, "kernel-debugged");
  await sidebar.locator('jp-button[data-command="debugger:continue"]').click();
  await shows(cell, "42");
  await page.locator(".jp-NotebookPanel .jp-DebuggerBugButton").click();
}

// A second window, which begins with nothing, has the kernel of a notebook that the first one shows: each sees what the other one has done, and hears
// what is computed. One is reloaded meanwhile and goes on, and is closed, and the other goes on.
export async function twoWindows(page, second, base, name) {
  await run(page, "import time\nshared = 41");
  const other = await second.newPage();
  let heard = false;
  other.on("websocket", (socket) => socket.on("framereceived", (frame) => (heard ||= frame.payload.includes("step 3"))));
  await visit(other, base, name, "second");
  require((await run(other, "print(shared + 1)")) === "42", "the other window has another kernel");
  const cell = await begin(page, "for step in range(100_000):\n    print(f'step {step}', flush=True)\n    time.sleep(.05)");
  await shows(cell, /step 3\b/);
  await busy(other);
  page.on("dialog", (dialog) => dialog.accept()); // the notebook is not saved
  await page.reload();
  await page.waitForSelector(".jp-Notebook .cm-content");
  await shoot(other, "kernel-windows");
  await interrupt(other);
  await idle(other);
  require(heard, "the other window does not hear what the first one has the kernel compute");
  const step = Number(await run(page, "print(step)"));
  require(step > 3, `after a window was reloaded, the cell has come to ${step}`);
  await run(page, "shared = step");
  await page.close();
  require(Number(await run(other, "print(shared)")) === step, "after one of two windows was closed, the other one has another kernel");
}
