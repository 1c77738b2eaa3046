// Uses the demo as a person with a browser does: logs in, fills Slipway's spawn form, watches the
// progress, in JupyterLab installs a package and runs a cell as a job and as a scan, freezes an environment and starts
// another session from it, keeps the session, starts one with a slice of a simulated GPU, one of VS Code,
// VS Code beside a notebook, and a session on the HTCondor pool if there is one, lets a server wait in line, cancels that, and stops all;
// and comes by ssh meanwhile. What is looked for is what is to be seen on the page. Any request to another host than the Hub's is a failure.
//
//   node demo.mjs HUB-URL PASSWORD-FILE GALLERY-URL
//
// The demo must have the gallery for VS Code's extensions, which is served here.
//
// Screenshots of each step are kept in screenshots/demo/, also of the moment of a failure.
import { readFileSync } from "node:fs";
import { minutes, open, require, say, shoot, shots } from "./browser.mjs";
import { coded } from "./code.mjs";
import { frozen } from "./environments.mjs";
import { sliced } from "./gpus.mjs";
import { openNotebook, run } from "./lab.mjs";
import { allStopped, fillForm, keep, remembered, stop, submit, waitInLine } from "./pages.mjs";
import { paneled } from "./panel.mjs";
import { pooled } from "./pool.mjs";
import { scanned } from "./scan.mjs";
import { sshed } from "./ssh.mjs";

const [hub, passwordFile, gallery] = process.argv.slice(2);
// A new one each time: what an earlier run has installed and left open would come back.
const user = `browser-${Date.now().toString(36)}`;

// The lines of the Hub's progress page as they are added: it leaves by itself once the server is ready.
async function watchProgress(page) {
  const lines = [];
  await page.exposeFunction("progressLine", (text) => {
    lines.push(text);
    say(`  progress: ${text}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("DOMContentLoaded", () => {
      const log = document.getElementById("progress-log");
      if (!log) return;
      new MutationObserver((changes) => {
        for (const { addedNodes } of changes) {
          for (const node of addedNodes) window.progressLine(node.textContent.trim());
        }
      }).observe(log, { childList: true });
    });
  });
  return lines;
}

async function logIn(page, name = user) {
  await page.goto(`${hub}/hub/login?next=/hub/spawn`);
  await page.fill("#username_input", name);
  await page.fill("#password_input", readFileSync(passwordFile, "utf8").trim());
  await shoot(page, "login");
  await page.click("#login_submit");
}

async function spawn(page, lines) {
  const free = await fillForm(page);
  await shoot(page, "spawn-form-filled");
  await submit(page);
  await page.waitForSelector("#progress-log, .jp-Launcher-body, .alert-danger", { state: "attached" });
  const refused = page.locator(".alert-danger:visible");
  if (await refused.count()) throw new Error(`the start failed: ${await refused.first().innerText()}`);
  await progressShown(page, lines);
  await page.waitForURL(/\/user\/.*\/lab/, { timeout: 5 * minutes });
  await page.waitForSelector(".jp-Launcher-body", { timeout: 2 * minutes });
  await shoot(page, "jupyterlab");
  require(lines.length >= 3, `the progress page showed only ${JSON.stringify(lines)}`);
  return free;
}

// The page leaves for JupyterLab within seconds: a picture of it with a few steps, if there is time.
async function progressShown(page, lines) {
  try {
    await page.evaluate(() => document.getElementById("progress-details").setAttribute("open", ""));
    while (lines.length < 5) await new Promise((done) => setTimeout(done, 20));
    await shoot(page, "progress");
  } catch (error) {
    say(`  no picture of the progress page: ${error.message.split("\n")[0]}`);
  }
}

async function story(page) {
  const lines = await watchProgress(page);
  say("log in");
  await logIn(page);
  say("fill the spawn form");
  const free = await spawn(page, lines);
  say("open a notebook");
  await openNotebook(page);
  say("%pip install");
  await run(page, "%pip install --quiet hepunits==2.4.7");
  say("%%grid");
  await run(page, "%load_ext slipway");
  const output = await run(
    page,
    "%%grid --name first\nimport hepunits, socket\nprint(hepunits.__version__, socket.gethostname())\nresult = 6 * 7",
  );
  require(output.includes("2.4.7"), "the job's output is not to be seen");
  require((await run(page, "result")).includes("42"), "the result is not to be seen");
  await shoot(page, "grid");
  say("a scan");
  await scanned(page);
  say("the panel in JupyterLab");
  await paneled(page);
  say("an environment, and a session from it");
  await frozen(page, hub, user);
  say("the session's page");
  await keep(page, hub);
  say("ssh");
  await sshed(page, hub, user);
  say("a slice of a GPU");
  await sliced(page, hub, user);
  say("VS Code");
  const stranger = await browser.newPage();
  await logIn(stranger, `stranger-${user}`);
  await stranger.waitForURL(/\/hub\/spawn/);
  const edited = await coded(page, stranger, hub, user, gallery);
  const far = await pooled(page, hub, user);
  say("wait in line");
  await waitInLine(page, hub, user);
  say("stop the servers");
  await stop(page, hub);
  await stopServer(page);
  await allStopped(page, hub, 5 + edited + far);
  await remembered(page, hub, free);
}

// Stops the server and waits for the home page to say so.
async function stopServer(page) {
  await page.goto(`${hub}/hub/home`);
  await page.click("#stop");
  await page.waitForFunction(() => /Start My Server/i.test(document.querySelector("#start")?.textContent ?? ""), null, {
    timeout: 2 * minutes,
  });
  await shoot(page, "stopped");
}

const { browser, context, outside } = await open(hub);
const page = await context.newPage();
try {
  await story(page);
  require(outside.length === 0, `requests to other hosts: ${outside.join(" ")}`);
  say("everything was to be seen, and no other host was asked");
} catch (error) {
  await shoot(page, "failure").catch(() => {});
  console.error(`FAILED: ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser.close();
  console.log(`Screenshots: ${shots}`);
}
