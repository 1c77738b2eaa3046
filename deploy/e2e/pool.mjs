// A session on a worker of the demo's HTCondor pool, where it has one: the form, the wait, and the page that says where it runs.
import { minutes, require, say, shoot, shootBoth } from "./browser.mjs";
import { submit } from "./pages.mjs";

const profile = 'input[name="profile"][value="pool"]';

// Gives how many sessions of the user's there are now that were not there before. It is left to stop.
export async function pooled(page, hub, user) {
  await page.goto(`${hub}/hub/spawn/${user}/far`);
  await page.waitForSelector(".slipway-form");
  if (!(await page.locator(profile).count())) return 0;
  say("a session on the pool");
  const words = await page.locator('[data-room="pool"]').innerText();
  require(/slot/.test(words), `the form says of the pool: ${words}`);
  say(`  far, pool: ${words}`);
  await page.check(profile);
  await page.locator(profile).scrollIntoViewIfNeeded();
  await shoot(page, "pool-form");
  await submit(page);
  await page.waitForURL(/spawn-pending/);
  const step = page.locator("#progress-message", { hasText: /Queued at|Runs on|Downloading|Starting JupyterLab/ }); // the pool may be quick
  await step.waitFor({ timeout: 2 * minutes });
  say(`  progress: ${await step.innerText()}`);
  await page.evaluate(() => document.getElementById("progress-details").setAttribute("open", ""));
  await shoot(page, "pool-progress");
  await page.goto(`${hub}/services/slipway/`);
  await page.click('#live a:has-text("far")');
  await page.waitForSelector("#state .running", { timeout: 2 * minutes });
  const details = (await page.locator("#details dl").innerText()).replace(/\s*\n\s*/g, " ");
  require(/node\d/.test(details), `the session's page does not say where it runs: ${details}`);
  say(`  ${details}`);
  await shootBoth(page, "pool-session", "#state .running");
  await page.click('button:has-text("Stop")');
  return 1;
}
