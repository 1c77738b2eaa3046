// An environment as its owner meets it: frozen in a notebook, found on its page, named, shared, and chosen for another session.
import { minutes, require, say, shoot, shootBoth } from "./browser.mjs";
import { openNotebook, run } from "./lab.mjs";
import { submit } from "./pages.mjs";

const inside = '#packages-pip:has-text("hepunits")';

export async function frozen(page, hub, user) {
  const said = await run(page, "%freeze --name ana --tag v1 --note 'with hepunits'");
  require(/[0-9a-f]{12}/.test(said), `%freeze says ${said}`);
  const first = await run(page, "import slipway; slipway.env('ana:v1').digest");
  await page.goto(`${hub}/services/slipway/`);
  await page.click('a:text-is("Environments")');
  await page.waitForSelector('table a:has-text("ana:v1")');
  await shootBoth(page, "environments", 'table a:has-text("ana:v1")');
  await page.click('table a:has-text("ana:v1")');
  await page.waitForSelector(inside, { state: "attached" });
  require((await page.locator("#details").innerText()).includes(first.match(/sha256:[0-9a-f]{64}/)[0]), "the page has another digest");
  await share(page);
  await shootBoth(page, "environment", inside, { fullPage: true });
  await startFrom(page, hub, user);
}

async function share(page) {
  await page.selectOption("#with", { label: "everybody here" });
  await page.click('button:has-text("Share")');
  await page.waitForSelector('#details dd:has-text("everybody")');
  say(`  ${(await page.locator("#details dl").innerText()).replace(/\s*\n\s*/g, " ")}`);
}

// Another server starts from it, has the package, and is stopped again.
async function startFrom(page, hub, user) {
  await page.goto(`${hub}/hub/spawn/${user}/from-ana`);
  await page.waitForSelector("#slipway-environment");
  const option = page.locator("#slipway-environment option", { hasText: "ana:v1" }).first();
  await page.selectOption("#slipway-environment", await option.getAttribute("value"));
  await page.locator("#slipway-environment").scrollIntoViewIfNeeded();
  await shoot(page, "start-from");
  await submit(page);
  await page.waitForURL(/\/from-ana\/lab/, { timeout: 5 * minutes });
  await page.goto(`${hub}/user/${user}/from-ana/lab?reset`); // the home's notebook is open there too, with no kernel
  await page.waitForSelector(".jp-Launcher-body", { timeout: 2 * minutes });
  await openNotebook(page);
  const version = await run(page, "import hepunits; hepunits.__version__");
  require(version.includes("2.4.7"), `the package is ${version}`);
  await shoot(page, "from-environment");
  await page.goto(`${hub}/services/slipway/`);
  await page.click('#live a:has-text("from-ana")');
  await page.click('button:has-text("Stop")');
  await page.waitForFunction(() => document.querySelector("#state")?.textContent.includes("stopped"));
}
