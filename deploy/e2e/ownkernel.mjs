// JupyterLab in a session that has kernels on slices beside its own: a new notebook is on the session's own, and what a kernel on a slice lacks of the
// session's packages is one line away.
//
//   node ownkernel.mjs SESSION-URL
import { minutes, open, require, say, shoot } from "./browser.mjs";
import { begin, idle, launch, launcher, output, run, shows } from "./lab.mjs";

const [session] = process.argv.slice(2);
const { browser, context, outside } = await open("http://127.0.0.1:");

async function newNotebook(page) {
  const all = page.locator('.jp-LauncherCard[data-category="Notebook"]');
  await all.filter({ hasText: "own container" }).first().waitFor();
  const names = (await all.allInnerTexts()).join();
  require(names === "Python 3 (this session),A first one, own container,Python, own container", `the launcher has ${names}`);
  await shoot(page, "launcher");
  await page.click('.lm-MenuBar-item:has-text("File")');
  await page.hover('.lm-Menu-item:has-text("New"):not(:has-text("Launcher"))');
  await page.click('.lm-Menu-itemLabel:text-is("Notebook")');
  await page.waitForSelector(".jp-Notebook .cm-content");
  await idle(page);
  const kernel = await page.locator(".jp-Toolbar-kernelName").innerText();
  require(kernel.includes("Python 3 (this session)"), `a new notebook is on ${kernel}`);
  require((await page.locator(".jp-Dialog").count()) === 0, "a new notebook asks for its kernel");
  await shoot(page, "new-notebook");
  await run(page, "import site\n_ = open(site.getsitepackages()[0] + '/only_here.py', 'w').write('x = 42')");
  say("new notebook");
}

async function fromSession(page) {
  await launch(page, "Python, own container");
  const failed = await begin(page, "import only_here");
  await shows(failed, "only_here is installed in your session", 4 * minutes);
  await shows(failed, "%slipway kernel --from-session");
  await shoot(page, "advice");
  const line = await begin(page, "%slipway kernel --from-session");
  await shows(line, "now runs in your session's environment", 5 * minutes);
  await line.locator(".jp-InputPrompt", { hasText: /\[\d+\]/ }).waitFor(); // else it seems to run on
  await shoot(page, "from-session");
  const cell = await begin(page, "import only_here\nprint(only_here.x)");
  const said = await output(page, cell);
  require(said === "42", `after the switch: ${said}`);
  require(!(await failed.innerText()).includes("stopped by"), "the end of the kernel before is told");
  await shoot(page, "after");
  say("from the session");
}

try {
  await newNotebook(await launcher(context, session, "own"));
  await fromSession(await launcher(context, session, "slice"));
  require(outside.length === 0, `asked of others: ${outside}`);
} catch (error) {
  for (const page of browser.contexts().flatMap((c) => c.pages())) await shoot(page, "failure").catch(() => {});
  throw error;
} finally {
  await browser.close();
}
