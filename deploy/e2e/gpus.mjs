// A server with a slice of a GPU: the form counts what is free, the pages say what it holds, and that it is simulated.
import { require, say, shoot, shootBoth } from "./browser.mjs";

const slice = "1g.18gb";
const profile = 'input[name="profile"][value="gpu"]';

// Starts it, looks at its page and at the page of all GPUs, and stops it.
export async function sliced(page, hub, user) {
  await start(page, hub, user);
  await pageOfSession(page, hub);
  await pageOfGPUs(page);
  await stop(page);
}

async function start(page, hub, user) {
  await page.goto(`${hub}/hub/spawn/${user}/sliced`);
  const card = page.locator(`.slipway-card:has(${profile})`);
  await card.waitFor();
  const words = await card.innerText();
  require(/\d+ free now/.test(words) && words.includes(slice) && words.includes("simulated"), `the form says of the slice: ${words}`);
  say(`  ${words.replace(/\s*\n\s*/g, " | ")}`);
  await page.check(profile);
  await page.click('form#spawn_form [type="submit"]');
  await page.waitForURL(/\/sliced\/lab/);
  await page.waitForSelector(`#slipway-slice:has-text("${slice} (simulated)")`); // in JupyterLab's status bar
}

async function pageOfSession(page, hub) {
  await page.goto(`${hub}/services/slipway/`);
  await page.click('#live a:has-text("sliced")');
  await page.waitForSelector("#state .running");
  const held = page.locator('.card:has(> h2:text-is("Slice of a GPU"))');
  const words = await held.innerText();
  require(words.includes(`${slice} of NVIDIA H200`) && words.includes("no such hardware exists"), `the session's page says: ${words}`);
  await held.scrollIntoViewIfNeeded();
  await shoot(page, "slice");
}

async function pageOfGPUs(page) {
  await page.click('a:text-is("GPUs")');
  await page.waitForSelector("#gpu-0");
  const own = page.locator('[aria-label="Slices of GPU 0"] tr', { hasText: "sliced" });
  require((await own.innerText()).includes(slice), "the page of the GPUs does not show the slice");
  require((await page.locator("#live").innerText()).includes("no such hardware exists"), "the page does not say that the GPUs are simulated");
  await shootBoth(page, "gpus", "#gpu-0", { fullPage: true });
  await own.locator("a").click();
}

// From the page of the GPUs to the holder's own, where it is stopped.
async function stop(page) {
  await page.waitForSelector("#state .running");
  await page.click('button:has-text("Stop")');
  await page.waitForFunction(() => document.querySelector("#state")?.textContent.includes("stopped"));
}
