// The documentation in a real browser: narrow and wide, in both colour schemes, opened as files from a folder.
// HERMES_SCREENSHOTS names a folder for pictures of it.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Browser } from "playwright-core"
import { readImages, renderSite } from "../support/site.ts"
import * as Browsers from "./browser.ts"

let browser: Browser
let folder = ""

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "hermes-docs-"))
  for (const [path, text] of [...renderSite(), ...readImages()]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  browser = await Browsers.launch()
})

afterAll(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true, force: true })
})

const opened = (path: string, width: number, scheme: "light" | "dark" = "light") =>
  Browsers.open(browser, pathToFileURL(join(folder, path)).href, { width, scheme, from: pathToFileURL(folder).href })

const samples = [
  "index.html",
  "guides/first-agent.html",
  "guides/from-langchain.html",
  "reference/Agent.html",
  "tours/01-smallest-run.html",
  "rooms/agent.html"
]

describe("the documentation", () => {
  for (const [width, scheme] of [
    [380, "dark"],
    [1400, "light"]
  ] as const) {
    it(`fits a screen of ${width} pixels, and can be read there (${scheme})`, async () => {
      for (const path of samples) {
        const { complaints, page } = await opened(path, width, scheme)
        assert.isAtMost(await page.evaluate<number>("document.documentElement.scrollWidth"), width, path)
        assert.deepStrictEqual(await Browsers.faint(page), [], path)
        const top = await page.locator("h1").first().boundingBox()
        assert.isBelow(top?.y ?? Infinity, 400, `${path}: the page begins on the first screen`)
        assert.strictEqual(await page.locator("nav a[aria-current=page]").count(), 1, path)
        assert.deepStrictEqual(complaints, [], path)
        const where = process.env["HERMES_SCREENSHOTS"]
        if (where !== undefined)
          await page.screenshot({ path: join(where, `docs-${path.replaceAll(/\W+/g, "-")}-${width}.png`) })
        await page.close()
      }
    })
  }

  it("finds pages by words, and leads to them", async () => {
    const { complaints, page } = await opened("guides/index.html", 1400)
    await page.getByRole("searchbox").fill("moving mastra")
    await page.locator("#found a").first().click()
    await page.waitForURL(/guides\/from-mastra\.html$/)
    assert.strictEqual(await page.locator("h1").textContent(), "Moving from Mastra")
    await page.getByRole("searchbox").fill("no page has this word: qzxv")
    await page.getByText("Nothing found").waitFor()
    assert.deepStrictEqual(complaints, [])
  })
})
