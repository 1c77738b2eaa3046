// A headless Chromium and what the stories share: the clock, the pictures, the claims, the watch on requests.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { chromium } from "playwright-core";

// Each program of stories has a directory of its own: some run beside each other.
export const shots = new URL(`screenshots/${basename(process.argv[1], ".mjs")}/`, import.meta.url).pathname;
export const minutes = 60_000;

const began = Date.now();
export const say = (text) => console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(7)} s  ${text}`);

export function require(holds, claim) {
  if (!holds) throw new Error(claim);
}

const inFrames = /^https:\/\/[^/]+\.vscode-resource\.vscode-cdn\.net\//;

let count = 0;
export const shoot = async (page, name, options = {}) =>
  page.screenshot({ path: `${shots}${String(++count).padStart(2, "0")}-${name}.png`, ...options });

// One picture in the dark and one in the light. The Hub's pages choose their colours when they are loaded.
export async function shootBoth(page, name, ready, options) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.reload();
    await page.waitForSelector(ready);
    await shoot(page, `${name}-${colorScheme}`, options);
  }
}

// What servers have failed to answer, with the time: a story that fails shows it. A dialog about a lost connection does not say which one was lost.
const unanswered = [];
const note = (request, what) => {
  const seconds = ((Date.now() - began) / 1000).toFixed(1);
  unanswered.push(`${seconds} s  ${request.method()} ${request.url()}: ${what}`);
};
process.on("exit", (code) => {
  if (code !== 0 && unanswered.length > 0) console.error(`Not answered:\n${unanswered.slice(-50).join("\n")}`);
});

// The library that keeps changes of this host's network from the browser: nonetlink.c says why.
function nonetlink() {
  const dir = mkdtempSync(join(tmpdir(), "slipway-browser"));
  process.on("exit", () => rmSync(dir, { recursive: true }));
  const library = join(dir, "nonetlink.so");
  execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-o", library, new URL("nonetlink.c", import.meta.url).pathname]);
  return library;
}

// A browser with an empty directory for its pictures, and whatever its pages ask for that does not come from the Hub.
export async function open(hub) {
  rmSync(shots, { recursive: true, force: true });
  mkdirSync(shots, { recursive: true });
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    env: { ...process.env, LD_PRELOAD: nonetlink() },
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  const outside = [];
  return { browser, context: await watched(browser, hub, outside), outside };
}

// Without a graphics card each frame of a spinner or a blinking cursor is drawn by the processors: they turn once.
function endAnimations() {
  const once = new CSSStyleSheet();
  once.replaceSync("*, ::before, ::after { animation-iteration-count: 1 !important }");
  document.adoptedStyleSheets.push(once);
}

// A window of its own, with its own cookies, that takes note of what its pages ask of others.
export async function watched(browser, hub, outside) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(60_000);
  await context.addInitScript(endAnimations);
  context.on("request", async (request) => {
    const url = request.url();
    if (url.startsWith(hub) || /^(data|blob|about):/.test(url)) return;
    // Frames of VS Code ask such names of a worker of their own, in the browser.
    const within = inFrames.test(url) && (await request.response().catch(() => null))?.fromServiceWorker();
    if (!within) outside.push(url);
  });
  context.on("requestfailed", (request) => note(request, request.failure()?.errorText));
  context.on("response", (response) => {
    if (response.status() >= 500) note(response.request(), response.status());
  });
  context.on("page", (page) => {
    page.on("websocket", (socket) => {
      if (!socket.url().startsWith(hub.replace(/^http/, "ws"))) outside.push(socket.url());
    });
  });
  return context;
}
