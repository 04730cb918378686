// Uses the page of a deployment on this machine as a person would: node page.mjs ADDRESS CHROMIUM FOLDER OPERATOR, where the last one is the
// address of a page as an operator serves it. Each check prints "ok NAME" or
// "not ok NAME: REASON". Screenshots go to the folder.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [address, executablePath, folder, operator] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const patience = Number(process.env.PATIENCE ?? 180_000);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], timeout: patience, protocolTimeout: 3 * patience });
const page = await browser.newPage();
page.setDefaultTimeout(patience);
const complaints = [];
page.on("console", (m) => ["error", "warn"].includes(m.type()) && complaints.push(`${m.type()}: ${m.text()}`));
page.on("pageerror", (e) => complaints.push(String(e)));
await page.setViewport({ width: 1440, height: 1000 });
await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);

const shoot = (name) => page.screenshot({ path: `${folder}/${name}.png` });
const until = (what, ...args) => page.waitForFunction(what, { timeout: patience, polling: 100 }, ...args);
// Names are found by XPath: queries of the accessibility tree fail now and then on a busy machine, until the time is up.
const click = (name) => page.locator(`::-p-xpath(//*[self::button or self::a or self::summary][@aria-label="${name}" or not(@aria-label) and normalize-space()="${name}"])`).click();
const tab = (text) => page.locator(`[role=tab]::-p-text(${text})`).click();
const cuts = (n) => until((n) => document.querySelectorAll('[data-cut="yes"]').length === n, n);
const fill = (key) => page.$eval("form input", (input, key) => {
  input.value = key;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}, key);

// accessible throws for each serious finding of axe, in the whole page or in a part of it.
async function accessible(where = "html") {
  if (!(await page.evaluate("typeof axe === 'object'"))) await page.evaluate(axe);
  const found = await page.evaluate((where) => axe.run(where, { resultTypes: ["violations"] }), where);
  const serious = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  if (serious.length > 0) throw new Error(serious.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).join("; ")}`).join(" | "));
}

const checks = [
  ["shows eight data centers", async () => {
    await page.goto(address);
    await until(() => document.querySelectorAll("[data-site]").length === 8);
  }],
  ["has no serious accessibility finding, light", () => accessible()],
  ["is used by keyboard", async () => {
    await page.locator('[data-site="sa-east-1"]').wait();
    await page.evaluate(() => document.querySelector('[data-site="sa-east-1"]').focus());
    await page.keyboard.press("Enter");
    await until(() => document.querySelector("#panel h2").textContent === "sa-east-1" && document.activeElement.id === "panel");
    await page.focus("#tab-dc");
    await page.keyboard.press("ArrowRight");
    await until(() => document.activeElement.id === "tab-trace" && document.activeElement.getAttribute("aria-selected") === "true");
  }],
  ["follows a heal by another button in the first steps", async () => {
    const at = (step) => until((step) => document.querySelector(".guide").dataset.step === step, step);
    const slider = () => page.$eval(".slider input", (s) => s.getBoundingClientRect().top - document.querySelector(".map").getBoundingClientRect().top);
    const before = await slider();
    await click("Cut off sa-east-1");
    await at("write");
    await click("Reconnect sa-east-1");
    await at("cut");
    await click("Cut off sa-east-1");
    await click("Write in us-east-1");
    await at("read");
    await until(() => document.querySelector("[data-caches]").textContent.startsWith("Which caches") || document.querySelector("[data-caches]").textContent.endsWith("there may be more."));
    if ((await slider()) !== before) throw new Error("the caption of the map has moved the slider");
    await click("Heal everything");
    await at("late");
    await click("Start again");
    await at("cut");
  }],
  ["leads through the first steps", async () => {
    const says = (what) => until((what) => document.querySelector(".guide p").textContent.includes(what), what);
    await click("Cut off sa-east-1");
    await cuts(7);
    await until(() => document.querySelector(".message").textContent === "In effect: 7 links cut.");
    await click("Write in us-east-1");
    await until(() => document.querySelectorAll(".trace .visible, .trace .acknowledged").length === 2);
    await click("Read in us-west-1");
    await says("its session is bound");
    await until(() => document.querySelector('[data-bound="us-west-1"]') && /^us-west-1by guide:1, in flight from us-east-1/.test(document.querySelector(".sessions tbody tr")?.textContent ?? ""));
    await shoot("console-guide");
    await accessible();
    await click("Heal the network");
    await says("The write of guide:1 came to every ring");
    await until(() => !document.querySelector("[data-bound]") && document.querySelector(".message").textContent === "");
    await page.evaluate(() => fetch("fault", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ kind: "cut", from: "us-east-1", to: "eu-west-1" }) }));
    await until(() => document.querySelector(".guide").dataset.over === "yes" && document.querySelector(".guide p").textContent === "");
    await click("Heal everything");
    await cuts(0);
    await click("Hide");
    await until(() => !document.querySelector(".guide"));
  }],
  ["traces a write until it is complete", async () => {
    await tab("Trace a write");
    await fill("post:1");
    await click("Write");
    await until(() => document.querySelector(".traceview b")?.textContent === "post:1" && document.querySelector('[data-trace="complete"]') && !document.querySelector(".traceview").textContent.includes("not yet"));
    await until(() => document.querySelector("form label:nth-of-type(3) input").value === "hello 2");
    await shoot("console-trace");
    await accessible("aside");
  }],
  ["watches the key", async () => {
    await tab("Watch a key");
    await until(() => document.querySelectorAll(".key tbody tr").length === 11 && [...document.querySelectorAll(".key code")].filter((c) => c.textContent === "hello").length === 11);
    await accessible("aside");
  }],
  ["shows a cut", async () => {
    await page.locator('[data-site="sa-east-1"]').click();
    await cuts(0);
    const began = Date.now();
    await click("Cut sa-east-1 off");
    await cuts(7);
    await until(() => [...document.querySelectorAll(".faults button")].some((b) => b.textContent === "Reconnect sa-east-1"));
    await until(() => document.querySelector('[data-site="sa-east-1"]').dataset.health === "critical");
    console.log(`note the cut was shown after ${Date.now() - began} ms`);
    await click("What to do");
    await until(() => [...document.querySelectorAll("dialog[open] .here button")].some((b) => b.textContent === "Reconnect sa-east-1"));
    await until(() => document.querySelector("dialog[open] .text")?.textContent.includes("What to do.") && document.querySelector("dialog .actions a").href.endsWith("#causalstorepeersdisconnected"));
    await accessible("dialog");
    await click("CausalStoreRingBehind"); // a name in the text leads to its section
    await until(() => document.querySelector("#runbook-name").textContent === "CausalStoreRingBehind" && document.querySelector("dialog .text").textContent.includes("older than 60 seconds"));
    await page.keyboard.press("Escape");
    await until(() => !document.querySelector("dialog"));
    await page.evaluate(() => scrollTo(0, 0));
    await shoot("console-cut");
    await accessible(".left");
  }],
  ["keeps what was entered", async () => {
    await tab("Trace a write");
    await page.select("form select", "us-east-1");
    await page.locator('[data-site="eu-west-1"]').click();
    await tab("Trace a write");
    if ((await page.$eval("form select", (s) => s.value)) !== "us-east-1") throw new Error("the data center is that of the map again");
  }],
  ["shows who is bound, and why", async () => {
    await tab("Trace a write");
    await page.select("form select", "us-east-1");
    await fill("note:1");
    await click("Write");
    await until(() => document.querySelector(".traceview b")?.textContent === "note:1" && document.querySelectorAll(".trace .visible, .trace .acknowledged").length === 2);
    await tab("Watch a key");
    await until(() => document.querySelector(".key")?.textContent.includes("Bound: south-america has not confirmed this value yet"));
    await shoot("console-bound");
    await page.select("#panel form:nth-of-type(2) select", "us-west-2");
    await click("Read as a client");
    await until(() => document.querySelector('[data-read="bound"]'));
    await page.select("#panel form:nth-of-type(2) select", "us-east-1"); // owns the key in its ring: the circle of the write must not hide that of the session
    await click("Read as a client");
    await until(() => document.querySelector('[data-bound="us-east-1"]')?.r.baseVal.value > document.querySelector(".trace circle").r.baseVal.value + 3);
    if (process.env.SHOTS) await shoot("bound-owner");
    await click("Show bound sessions");
    await until(() => [...document.querySelectorAll(".sessions tbody th")].some((th) => th.textContent.startsWith("us-west-2")));
  }],
  ["plays back", async () => {
    const slider = 'input[type="range"]';
    await page.focus(slider);
    await page.keyboard.press("Home");
    await until(() => document.querySelector(".age").textContent.startsWith("Shown:"));
    await cuts(0);
    await until(() => [...document.querySelectorAll("header button")].some((b) => b.textContent === "Heal everything" && b.disabled));
    await page.locator(".controls button").click();
    await cuts(7);
    await page.locator(".marks .fault button").click(); // just after the cut
    await until(() => document.querySelector(".age").textContent.startsWith("Shown:"));
    await cuts(7);
    const kept = await page.evaluate(async () => (await (await fetch("console/history")).json()).marks.length);
    if (kept <= 12) throw new Error(`only ${kept} events`);
    await until((kept) => document.querySelectorAll(".marks li").length >= kept, kept);
    await until(() => {
      const [row, box] = [document.querySelector(".marks li.at"), document.querySelector(".marks")].map((e) => e?.getBoundingClientRect());
      return row && row.top >= box.top && row.bottom <= box.bottom;
    });
  }],
  ["shows the write of an event as it was then", async () => {
    const written = (key) => page.evaluate((key) => [...document.querySelectorAll(".marks .write button")].find((b) => b.textContent.includes(`write of ${key} `)).click(), key);
    await written("post:1");
    await until(() => document.querySelector(".traceview b")?.textContent === "post:1" && document.querySelectorAll(".trace circle").length === 3);
    await page.focus('input[type="range"]');
    await page.keyboard.press("Home"); // before the write
    await until(() => !document.querySelector(".traceview") && document.querySelectorAll(".trace circle").length === 0);
    await written("note:1"); // in the cut
    await until(() => document.querySelector(".traceview b")?.textContent === "note:1" && document.querySelector(".traceview").dataset.trace === "open");
    await cuts(7);
    await page.locator(".controls button").click();
  }],
  ["heals", async () => {
    await click("Heal everything");
    await cuts(0);
    await tab("Trace a write");
    await until(() => document.querySelector('[data-trace="complete"]'));
    await until(() => document.querySelector(".problems h2").textContent === "No problem");
  }],
  ["drops what was read before a new write of the key", async () => {
    await click("Read as a client");
    await until(() => /^At [0-9:]+, .* read hello/.test(document.querySelector("[data-read]")?.textContent ?? ""));
    await click("Write");
    await until(() => !document.querySelector("[data-read]"));
  }],
  ["names the data center that has accepted a write", async () => {
    await page.locator('[data-site="us-east-1"]').click();
    await click("Crash coordinator 0 of us-east-1");
    await until(() => document.querySelector('[data-site="us-east-1"]').dataset.health === "critical");
    await tab("Trace a write");
    await fill("post:3");
    await click("Write");
    await until(() => document.querySelector(".traceview b")?.textContent === "post:3" && document.querySelector('[data-trace="complete"]'));
    const [says, log, origin] = await page.evaluate(() => [document.querySelector(".traceview p").textContent, document.querySelector(".traceview tbody th").textContent, document.querySelector("g.trace[data-origin]").dataset.origin]);
    if (origin === "us-east-1" || log !== `log in ${origin}` || !says.includes(`written in us-east-1, accepted in ${origin}`)) throw new Error(`${says} / ${log} / ${origin}`);
    if (process.env.SHOTS) await shoot("accepted-elsewhere");
    await page.evaluate(() => scrollTo(0, 0));
    await click("What to do");
    await click("Restart coordinator 0 of us-east-1");
    await until(() => document.querySelector(".problems h2").textContent === "No problem");
  }],
  ["is dark where that is wanted", async () => {
    await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }, { name: "prefers-color-scheme", value: "dark" }]);
    await page.locator('[data-site="ap-southeast-1"]').click();
    await until(() => document.querySelector("#panel h2").textContent === "ap-southeast-1");
    await page.evaluate(() => scrollTo(0, 0));
    await shoot("console-dark");
    await accessible();
    // drawn says that the grid of the plot has the color of the page's lines.
    const drawn = () => until(() => {
      const plot = document.querySelector(".plot canvas");
      const copy = new OffscreenCanvas(plot.width, plot.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(plot, 0, 0);
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(getComputedStyle(document.documentElement).getPropertyValue("--line").trim().slice(i, i + 2), 16));
      const { data } = copy.getImageData(0, 0, plot.width, plot.height);
      for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) return true;
      return false;
    });
    await drawn();
    await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }, { name: "prefers-color-scheme", value: "light" }]);
    await drawn();
    await shoot("console");
  }],
  ["fits a phone", async () => {
    await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
    await until(() => document.querySelectorAll("[data-site]").length === 8 && document.documentElement.scrollWidth <= 390);
    await page.evaluate(() => scrollTo(0, 0));
    await shoot("console-phone");
    await accessible();
    await page.evaluate(() => document.querySelector(".map").scrollIntoView());
    const at = await page.$eval('[data-site="us-west-1"] g', (g) => { const b = g.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; });
    await page.touchscreen.tap(...at);
    await until(() => document.querySelector("#panel h2").textContent === "us-west-1" && document.querySelector("#panel h2").getBoundingClientRect().top < innerHeight);
  }],
  ["shows what an operator shows, read-only", async () => {
    await page.setViewport({ width: 1440, height: 900, isMobile: false, hasTouch: false });
    await page.goto(operator);
    await until(() => document.querySelectorAll("[data-site]").length === 3 && document.querySelector('[data-site="paris"]').dataset.health === "critical");
    if (await page.evaluate(() => [...document.querySelectorAll("button")].some((b) => /^(Cut|Reconnect|Crash|Heal|Delay|Read as)/.test(b.textContent)))) throw new Error("there are buttons for faults");
    await tab("Trace a write");
    await until(() => document.querySelector(".nothere")?.textContent === "The operator is no client of the store.");
    await tab("Sessions");
    await until(() => document.querySelector("#panel tbody tr").textContent === "virginia312");
    await page.locator('[data-site="paris"]').click();
    await until(() => document.querySelector(".nothere")?.textContent.startsWith("It runs in region eu"));
    await accessible();
    await page.locator('[data-site="oregon"]').click();
    await until(() => document.querySelector("#panel .state.down"));
    await page.mouse.move(0, 0);
    await shoot("console-kubernetes");
  }],
  ["has written nothing to the browser's console", async () => {
    if (complaints.length > 0) throw new Error(complaints.slice(0, 5).join(" | "));
  }],
  ["says that the server is gone", async () => {
    await fetch(`${operator}/go-away`).catch(() => {}); // the server closes all connections
    await until(() => document.querySelector(".map.stale") && /^Unknown, as the server does not answer. .* ago: 2 problems$/.test(document.querySelector(".problems h2").textContent));
    await until(() => document.querySelector(".age").textContent.startsWith("No connection"));
  }],
];

let failed = false;
for (const [name, check] of checks) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (e) {
    failed = true;
    await shoot("failed").catch(() => {});
    console.log(`not ok ${name}: ${String(e.message).replaceAll("\n", " ")} ${complaints.slice(0, 3).join(" | ")}`);
    break; // what follows builds on it
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
