// A scan in a notebook: its display while it runs, with a bar for each point that says how far it is, and when it has ended. One point
// fails, and is tried again.
import { minutes, require, say, shoot } from "./browser.mjs";
import { begin, output, run, theme } from "./lab.mjs";

const cell = `%%grid --name steps --cpus 0.5 --mem 256M --scan k=1,2,3,4,5,6
import pathlib, time
from slipway import grid

for step in range(30):
    grid.progress(step + 1, 30, "epoch")
    print("step", step, flush=True)
    time.sleep(0.2)
if k == 2 and not pathlib.Path.home().joinpath("mended").exists():
    raise ValueError("k is 2")
result = k * k`;

export async function scanned(page) {
  const shown = await begin(page, cell);
  const bars = shown.locator(".jp-OutputArea progress");
  await bars.nth(1).waitFor({ timeout: 2 * minutes }); // the scan's, and a point's
  await shootBothThemes(page, "scan-running");
  const said = await output(page, shown);
  require(/5 done, 1 failed/.test(said), `the scan's display says ${said}`);
  require(/ValueError: k is 2/.test(said), `it is not said why it failed: ${said}`);
  await shootBothThemes(page, "scan-failed");
  await run(page, "import pathlib; pathlib.Path.home().joinpath('mended').touch(); _scan.retry()");
  const results = await run(page, "print(list(_scan.results())); _scan.results()");
  require(results.includes("[1, 4, 9, 16, 25, 36]"), `the results are ${results}`);
  await shootBothThemes(page, "scan-results");
  say("  one point was tried again, and all are done");
}

async function shootBothThemes(page, name) {
  for (const colours of ["Dark", "Light"]) {
    await theme(page, colours);
    await shoot(page, `${name}-${colours.toLowerCase()}`);
  }
}
