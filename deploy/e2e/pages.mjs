// The spawn form and Slipway's own pages: what is free, what was chosen, keeping, waiting in line, stopping.
import { require, say, shoot, shootBoth } from "./browser.mjs";

const small = 'input[name="profile"][value="small"]';
const large = 'input[name="profile"][value="large"]';
export const room = (page) => page.locator(".slipway-form [data-room]").allInnerTexts();

// A first start: the counts are there, and the fields follow the profile. What is chosen is looked for again in remembered.
export async function fillForm(page) {
  await page.waitForSelector(`.slipway-form ${small}`);
  const free = await room(page);
  const here = free.filter((words) => !/when a slot is free/.test(words));
  require(here.length === 5 && here.every((words) => /^\d+ free now$/.test(words)), `the form counts ${JSON.stringify(free)}`);
  say(`  free: ${free.join(", ")}`);
  await shootBoth(page, "spawn-form", `.slipway-form ${small}`);
  await page.check(large);
  const gives = await page.locator(".slipway-card:has(:checked) .slipway-small").first().innerText();
  const shown = await page.getAttribute("#slipway-cpus", "placeholder");
  require(shown === `${parseFloat(gives)} (default)`, `with ${gives}, the field for CPUs says ${shown}`);
  await page.check(small);
  await page.fill("#slipway-cpus", "1");
  await page.selectOption("#slipway-memory", { label: "1 GiB" });
  return free;
}

export const submit = (page) => page.click('form#spawn_form [type="submit"]');

// What was chosen at the last start is chosen, and all is free again.
export async function remembered(page, hub, free) {
  await page.goto(`${hub}/hub/spawn`);
  await page.waitForSelector(`.slipway-form ${small}`);
  const memory = await page.locator("#slipway-memory option:checked").innerText();
  const chosen = [await page.isChecked(small), await page.inputValue("#slipway-cpus"), memory];
  require(chosen.join() === "true,1,1 GiB", `the form has forgotten the choice: ${chosen}`);
  const now = await room(page);
  require(now.join() === free.join(), `not all is free again: ${now.join(", ")}`);
  say(`  free: ${now.join(", ")}; small, 1 CPU and 1 GiB are chosen`);
  await shoot(page, "remembered");
}

const state = (page, words) => page.waitForFunction((w) => document.querySelector("#state")?.textContent.includes(w), words);

// From the Hub's menu to the page of the session that runs, which is kept from there.
export async function keep(page, hub) {
  await page.goto(`${hub}/hub/home`);
  await page.click('.nav-link:has-text("Services")');
  await page.click('.dropdown-item:has-text("slipway")');
  await page.click('#live a:has-text("default server")');
  await state(page, "running");
  await page.click('button:has-text("Keep")');
  await page.waitForSelector('#details dt:has-text("Kept until")');
  say(`  ${(await page.locator("#details dl").innerText()).replace(/\s*\n\s*/g, " ")}`);
  await shootBoth(page, "session", "#state .running");
}

// A second server takes what is free, so that a third has to wait; it is canceled from its own page.
export async function waitInLine(page, hub, user) {
  await start(page, `${hub}/hub/spawn/${user}/second`);
  await page.waitForURL(/\/second\/lab/);
  await start(page, `${hub}/hub/spawn/${user}/third`, /you would be number 1 in line/);
  await page.waitForURL(/spawn-pending/);
  const step = page.locator("#progress-message", { hasText: "next in line" });
  await step.waitFor();
  say(`  progress: ${await step.innerText()}`);
  await shoot(page, "waiting");
  const [own] = await Promise.all([page.waitForEvent("popup"), step.locator("a").click()]);
  await state(own, "next in line");
  await shoot(own, "waiting-session");
  await own.click('button:has-text("Cancel start")');
  await state(own, "stopped");
  await own.waitForSelector('#outcome:has-text("its start was canceled")');
  await own.close();
  const why = page.locator("#progress-message", { hasText: "this start was canceled" });
  await why.waitFor();
  say(`  the Hub: ${(await why.innerText()).replace(/\n/g, ": ")}`);
  await shoot(page, "canceled");
}

async function start(page, url, says = /free now/) {
  await page.goto(url);
  await page.waitForSelector(`.slipway-form ${large}`);
  const words = await page.locator('[data-room="large"]').innerText();
  require(says.test(words), `the form says of the large profile: ${words}`);
  say(`  ${url.split("/").pop()}, large: ${words}`);
  await page.check(large);
  await submit(page);
}

// The second server is stopped from its page.
export async function stop(page, hub) {
  await page.goto(`${hub}/services/slipway/`);
  await page.click('#live a:has-text("second")');
  await page.click('button:has-text("Stop")');
  await state(page, "stopped");
}

// Nothing of the user's runs any more, of so many sessions, and the pages say so.
export async function allStopped(page, hub, count) {
  await page.goto(`${hub}/services/slipway/`);
  const states = () => page.locator("#live table").first().locator(".state").allInnerTexts();
  await page.waitForFunction(
    () => [...document.querySelector("#live table").querySelectorAll(".state")].every((state) => state.textContent.trim() === "stopped"),
  );
  require((await states()).length === count, `the sessions are ${(await states()).join(", ")}`);
  await shoot(page, "sessions");
}
