// VS Code through the Hub: a session of its own, and one beside JupyterLab. Files, a terminal, a notebook, the debugger, a stranger.
import { minutes, require, say, shoot } from "./browser.mjs";
import { extension, extensionID, serveGallery } from "./gallery.mjs";
import { submit } from "./pages.mjs";
import { contents, debugged, found, newFile, notebook, opened, restartKernel, runByKeys, runCell, runOther, terminal } from "./vscode.mjs";

const program = "a = 6\nb = 7\nprint(a * b)\n";

// Gives how many sessions the user has had here; they are stopped again. other is a page where somebody else is logged in.
export async function coded(page, other, hub, user, gallery) {
  await ownSession(page, hub, user);
  await extended(page, gallery);
  await stranger(other, hub, user);
  await stop(page, hub, "editor");
  await besideLab(page, hub, user);
  await stop(page, hub, "beside");
  return 2;
}

async function ownSession(page, hub, user) {
  await page.goto(`${hub}/hub/spawn/${user}/editor`);
  await page.check('.slipway-form input[name="profile"][value="code"]');
  await submit(page);
  await page.waitForURL(new RegExp(`/user/${user}/editor/`), { timeout: 2 * minutes });
  await page.waitForSelector(".monaco-workbench .titlebar-center");
  require((await page.locator(".titlebar-center .codicon-copilot").count()) === 0, "the chat has a button");
  await opened(page);
  await shoot(page, "code");
  await newFile(page, "sum.py", program);
  await terminal(page, "(python3 sum.py; pwd; ls .local/share/code-server .cache/Microsoft) >sum.tmp 2>&1; mv sum.tmp sum.txt", "sum.txt");
  const said = await contents(page, "sum.txt");
  require(/^42\s/.test(said) && said.includes(user), `the terminal's command has written: ${said}`);
  require(/cannot access/.test(said) && /:\s+User$/.test(said.trim()), `more lies in the home than its user's settings: ${said}`);
  say(`  terminal: ${said.trim().replaceAll("\n", ", ")}`);
  await shoot(page, "code-terminal");
  await counted(page);
  await launched(page);
  const seen = await debugged(page, "sum.py", 3, () => shoot(page, "code-debugger"));
  require(seen.includes("a = 6") && seen.includes("b = 7"), `the debugger shows: ${seen.join(" | ")}`);
  say(`  debugger: ${seen.join(", ")}`);
}

// A cell that counts how often its kernel has run it: a restarted one has forgotten, also when it is run in the same moment.
async function counted(page) {
  const said = [await notebook(page, "sum.ipynb", "import sys\nn = globals().get('n', 40) + 2\nprint(n, sys.prefix)")];
  said.push(await runByKeys(page, "Control+Enter", 2));
  await shoot(page, "code-notebook");
  await restartKernel(page);
  said.push(await runCell(page, 1));
  const words = said.map((text) => text.trim()).join(", ");
  require(words === "42 /opt/env, 44 /opt/env, 42 /opt/env", `below the cell stood: ${words}`);
  say(`  notebook, its kernel restarted: ${words}`);
}

// A scan is launched from the same notebook, and its display ends as it does in JupyterLab.
async function launched(page) {
  await runOther(page, "%load_ext slipway\n'loaded'", 2);
  const said = await runOther(page, "%%grid --name edited --cpus 0.5 --mem 256M --scan k=6,7\nprint(k * 7)\nresult = k * 7", 3);
  await shoot(page, "code-grid");
  require(/2 done/.test(said), `the scan's display says ${said}`);
  say(`  a scan from a notebook: ${said.trim().replace(/\s+/g, " ").slice(0, 100)}`);
}

// An extension is found in the site's gallery, and installed from it; nobody else is asked.
async function extended(page, url) {
  const gallery = await serveGallery(url);
  try {
    await found(page, "greeting", extension.displayName);
    await shoot(page, "code-extensions");
    await page.keyboard.press("Control+Shift+E");
    const install = `code-server --install-extension ${extensionID}; code-server --list-extensions`;
    await terminal(page, `(${install}) >extension.tmp 2>&1; mv extension.tmp extension.txt`, "extension.txt");
    const said = await contents(page, "extension.txt");
    require(said.includes("was successfully installed") && said.trim().endsWith(extensionID), `the installation says: ${said}`);
    require(gallery.asked.some((request) => request.endsWith("VSIXPackage")), "the package came from elsewhere");
    say("  an extension of the site's gallery is found and installed");
  } finally {
    gallery.close();
  }
}

// Whoever is logged in as somebody else is told so by the Hub, and nothing of the session's comes.
async function stranger(page, hub, user) {
  for (const path of ["", "stable/static/", "vscode/"]) {
    const answer = await page.goto(`${hub}/user/${user}/editor/${path}`);
    require(answer.status() === 403, `a stranger's request for ${path || "the session"} is answered with ${answer.status()}`);
    require((await page.locator(".monaco-workbench").count()) === 0, "a stranger sees the workbench");
  }
  await shoot(page, "code-stranger");
  say("  a stranger is refused");
}

// From a card of the launcher, which is reached by keys.
async function besideLab(page, hub, user) {
  await page.goto(`${hub}/hub/spawn/${user}/beside`);
  await page.check('.slipway-form input[name="profile"][value="small"]');
  await page.selectOption("#slipway-image", "code");
  await submit(page);
  await page.waitForURL(/\/beside\/lab/, { timeout: 2 * minutes });
  await page.goto(`${hub}/user/${user}/beside/lab?reset`); // what was open in another session is open here too, and no launcher
  const card = page.locator('.jp-LauncherCard[data-category="Other"]', { hasText: "VS Code" });
  await card.waitFor({ timeout: 2 * minutes });
  await card.scrollIntoViewIfNeeded();
  await shoot(page, "code-launcher");
  await card.focus();
  const [beside] = await Promise.all([page.context().waitForEvent("page"), page.keyboard.press("Enter")]);
  await opened(beside);
  require(beside.url().includes(`/user/${user}/beside/vscode/`), `VS Code is at ${beside.url()}`);
  require((await contents(beside, "sum.py")).includes("print"), "the file of the other session is not to be seen");
  await shoot(beside, "code-beside");
  await beside.close();
}

async function stop(page, hub, name) {
  await page.goto(`${hub}/services/slipway/`);
  await page.click(`#live a:has-text("${name}")`);
  await page.click('button:has-text("Stop")');
  await page.waitForFunction(() => document.querySelector("#state")?.textContent.includes("stopped"));
}
