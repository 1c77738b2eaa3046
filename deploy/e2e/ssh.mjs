// The ssh pages by keys alone, with a real ssh beside them: a key is refused, added, used and removed; a login by a code; what is pasted.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { readable, tabTo } from "./access.mjs";
import { require, say, shoot, shootBoth } from "./browser.mjs";

const patience = 60_000;

// The user's default server runs. It runs on.
export async function sshed(page, hub, user) {
  const dir = mkdtempSync(`${tmpdir()}/slipway-ssh-`);
  try {
    await page.goto(`${hub}/services/slipway/`);
    await page.click('a:text-is("SSH")');
    const computer = await laptop(page, dir, user);
    await refused(page);
    await added(page, computer);
    computer.says(["-i", computer.key], user);
    say("  a key that was added lets a real ssh in");
    await pasted(page, hub, computer, user);
    await shootBoth(page, "ssh", "#live table", { fullPage: true });
    await byCode(page, hub, computer, user);
    await removed(page, hub, computer);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

// A computer with a fresh key, which knows of the service what its page says.
async function laptop(page, dir, user) {
  const key = `${dir}/key`;
  run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", `laptop of ${user}`, "-f", key]);
  writeFileSync(`${dir}/known_hosts`, `${await page.locator("#known-text").textContent()}\n`);
  const [, ...to] = (await page.locator("#place-0").innerText()).split(" ");
  const options = ["-F", "none", "-o", `UserKnownHostsFile=${dir}/known_hosts`, "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"];
  const ask = [...to, "id -un"];
  return {
    dir,
    key,
    public: readFileSync(`${key}.pub`, "utf8").trim(),
    fingerprint: run("ssh-keygen", ["-lf", key]).split(" ")[1],
    tries: (args) => spawnSync("ssh", [...options, "-o", "BatchMode=yes", ...args, ...ask], { encoding: "utf8", timeout: patience }),
    says(args, name) {
      const { status, stdout, stderr } = this.tries(args);
      require(status === 0 && stdout.trim() === name, `ssh ends with ${status} and says ${stdout}${stderr}`);
    },
    begins: () => spawn("ssh", [...options, "-o", "PubkeyAuthentication=no", ...ask]),
  };
}

function run(program, args, options = {}) {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8", timeout: patience, ...options });
  require(status === 0, `${program} ends with ${status}: ${stdout}${stderr}`);
  return stdout;
}

// What is wrong is said at the field, in which one can type at once, and the name is kept.
async function refused(page) {
  await tabTo(page, "#key");
  await page.keyboard.insertText("ssh-ed25519 AAAA nonsense");
  await tabTo(page, "#comment");
  await page.keyboard.insertText("desk");
  await page.keyboard.press("Enter");
  await page.waitForSelector('#key[aria-invalid="true"]:focus');
  const words = await page.locator("#wrong").innerText();
  require(/key/i.test(words) && (await page.getAttribute("#key", "aria-describedby")) === "wrong", `the field says: ${words}`);
  require((await page.inputValue("#comment")) === "desk", "the name is gone");
  say(`  at the field: ${words}`);
  await readable(page);
  await shoot(page, "ssh-refused", { fullPage: true });
}

async function added(page, { public: text, fingerprint }) {
  await page.keyboard.insertText(text);
  await tabTo(page, "#comment");
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.press("Enter");
  const row = page.locator("#live tr", { hasText: fingerprint });
  require((await row.innerText()).includes("laptop of"), "the key's row has not its name");
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await readable(page);
  }
}

// The block for a terminal, as the button copies it, makes ssh know the service by a short name.
async function pasted(page, hub, { dir, key }, user) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: hub });
  await tabTo(page, "#unix summary");
  await page.keyboard.press("Enter");
  await tabTo(page, '[data-copy="unix-text"]');
  await page.keyboard.press("Enter");
  await page.locator('[data-copy="unix-text"]', { hasText: "Copied" }).waitFor();
  const block = await page.evaluate(() => navigator.clipboard.readText());
  run("sh", [], { input: block, env: { ...process.env, HOME: dir } });
  const files = ["-F", `${dir}/.ssh/config.d/slipway-page.conf`, "-o", `UserKnownHostsFile=${dir}/.ssh/known_hosts`];
  const said = run("ssh", [...files, "-o", "BatchMode=yes", "-i", key, "slipway", "id -un"]);
  require(said.trim() === user, `ssh slipway says ${said}`);
  say("  after what is pasted: ssh slipway");
}

// An ssh without a key shows a code, which is typed into the page.
async function byCode(page, hub, computer, user) {
  const ssh = computer.begins();
  const out = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) ssh[name].setEncoding("utf8").on("data", (text) => (out[name] += text));
  const ended = new Promise((resolve) => ssh.on("close", resolve));
  try {
    const code = await shown(out, ended);
    await page.goto(`${hub}/services/slipway/login`);
    await page.keyboard.type("BBBB-BBBB");
    await page.keyboard.press("Enter");
    await page.waitForSelector('#code[aria-invalid="true"]:focus');
    await readable(page);
    await shoot(page, "ssh-code-wrong");
    await page.keyboard.type(code.toLowerCase());
    await page.keyboard.press("Enter");
    await page.locator("dd", { hasText: code }).waitFor();
    await readable(page);
    await shootBoth(page, "ssh-code", 'button:has-text("Let it in")');
    await tabTo(page, 'button[value="yes"]');
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "Let in" }).waitFor();
    const status = await ended;
    require(status === 0 && out.stdout.trim() === user, `ssh ends with ${status} and says ${out.stdout}${out.stderr}`);
  } finally {
    ssh.kill();
  }
  say("  a code that was typed lets a real ssh in");
}

async function shown(out, ended) {
  let over = false;
  ended.then(() => (over = true));
  for (const until = Date.now() + patience; Date.now() < until && !over; ) {
    const code = out.stderr.match(/\b[A-Z]{4}-[A-Z]{4}\b/)?.[0];
    if (code) return code;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`ssh shows no code: ${out.stdout}${out.stderr}`);
}

async function removed(page, hub, computer) {
  await page.goto(`${hub}/services/slipway/ssh`);
  const row = page.locator("#live tr", { hasText: computer.fingerprint });
  require(!(await row.innerText()).includes("never"), "the page does not say that the key was used");
  await tabTo(page, `[id="remove-${computer.fingerprint}"]`);
  await page.keyboard.press("Enter");
  await row.waitFor({ state: "detached" });
  const { status, stderr } = computer.tries(["-i", computer.key]);
  require(status === 255 && stderr.includes("Permission denied"), `with a removed key ssh ends with ${status}: ${stderr}`);
  say("  a key that was removed lets nobody in");
}
