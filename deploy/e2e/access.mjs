// What a page must have for those who use it by keys, or do not see well.
import axe from "axe-core";
import { require } from "./browser.mjs";

// Presses Tab until an element has the focus. Whatever has it on the way must show that.
export async function tabTo(page, selector) {
  for (let count = 0; count < 80; count++) {
    if (await page.locator(selector).evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
    const unseen = await page.evaluate(() => {
      const element = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      return element === document.body || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2) ? "" : element.outerHTML.slice(0, 200);
    });
    require(!unseen, `nobody sees that this has the focus: ${unseen}`);
  }
  throw new Error(`Tab does not lead to ${selector}`);
}

// Everything that can be used has a name, the page has a language, a title and one heading, and its words stand out (WCAG 2.2 AA).
export async function readable(page) {
  const lacks = await page.evaluate(inspect);
  require(lacks.length === 0, `on ${page.url()}: ${lacks.join("; ")}`);
}

// Runs in the page.
function inspect() {
  const lacks = [];
  const visible = (element) => element.checkVisibility() && element.getClientRects().length > 0;
  const nameOf = (element) =>
    (element.getAttribute("aria-label") || [...(element.labels ?? [])].map((label) => label.textContent).join(" ") || element.textContent).trim();
  if (!document.documentElement.lang || !document.title) lacks.push("no language or title");
  if (document.querySelectorAll("h1").length !== 1) lacks.push("not one main heading");
  for (const element of document.querySelectorAll("a, button, select, textarea, summary, input:not([type=hidden])")) {
    if (visible(element) && !nameOf(element)) lacks.push(`no name: ${element.outerHTML.slice(0, 120)}`);
  }
  for (const element of document.querySelectorAll("[aria-describedby], [aria-labelledby]")) {
    for (const kind of ["aria-describedby", "aria-labelledby"]) {
      const id = element.getAttribute(kind);
      if (id && !document.getElementById(id)) lacks.push(`${kind} leads to nothing: ${id}`);
    }
  }
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color[3] !== 0) return color;
    }
    return document.documentElement.matches(":root") && matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const check = (element, color, least, what) => {
    const ratio = contrast(parse(color), behind(element));
    if (ratio < least) lacks.push(`contrast ${ratio.toFixed(1)} of ${what}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !visible(element) || element.closest("script, style, .hidden")) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const large = parseFloat(fontSize) >= 24 || (parseFloat(fontSize) >= 18.66 && fontWeight >= 700);
    check(element, color, large ? 3 : 4.5, `"${texts.currentNode.data.trim().slice(0, 40)}"`);
  }
  for (const field of document.querySelectorAll("input:not([type=hidden]), textarea, select")) {
    if (!visible(field)) continue;
    check(field.parentElement, getComputedStyle(field).borderTopColor, 3, `the border of #${field.id}`);
    if (field.placeholder) check(field, getComputedStyle(field, "::placeholder").color, 4.5, `what stands in #${field.id} at first`);
  }
  return lacks;
}

// axe-core finds nothing wrong with a part of the page.
export async function audited(page, selector) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate((selector) => window.axe.run(selector, { resultTypes: ["violations"] }), selector);
  const words = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
  require(words.length === 0, `axe-core finds in ${selector}: ${words.join("; ")}`);
}
