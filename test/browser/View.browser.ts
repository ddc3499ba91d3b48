// The page of a trace in a real browser: keys, search, filters, folds, deep links, the difference, fifty thousand
// events. HERMES_SCREENSHOTS names a folder for pictures of it.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Browser, Page } from "playwright-core"
import * as TraceView from "../../src/observe/TraceView.ts"
import * as Browsers from "./browser.ts"
import * as Samples from "./samples.ts"

let browser: Browser
let folder = ""

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "hermes-view-"))
  browser = await Browsers.launch()
})

afterAll(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true, force: true })
})

const written = async (name: string, traces: ReadonlyArray<TraceView.NamedTrace>): Promise<string> => {
  const path = join(folder, `${name}.html`)
  writeFileSync(path, await Effect.runPromise(TraceView.renderPage(traces)))
  return pathToFileURL(path).href
}

const picture = async (page: Page, name: string): Promise<void> => {
  const where = process.env["HERMES_SCREENSHOTS"]
  if (where !== undefined) await page.screenshot({ path: join(where, `${name}.png`) })
}

const chosen = (page: Page) => page.locator(".row.on .name").first().textContent()
const named = (page: Page, name: string) => page.locator(".row", { has: page.getByText(name, { exact: true }) }).first()
const rows = (page: Page) => page.locator("#room .row").count()

describe("the page of a run", () => {
  it("shows the tree, and asks the network for nothing", async () => {
    const { complaints, page } = await Browsers.open(browser, await written("run", [Samples.run()]))
    assert.strictEqual(await page.locator("[role=treeitem][aria-level='1']").count(), 1)
    assert.include((await page.locator("#sums").textContent()) ?? "", "1 failed")
    await picture(page, "run-light")
    await page.locator(".row", { hasText: "delegate_task" }).first().click()
    assert.include((await page.locator("#detail").textContent()) ?? "", "look at the logs")
    await picture(page, "run-detail")
    assert.deepStrictEqual(complaints, [])
    await page.close()
  })

  it("is driven by keys alone", async () => {
    const { page } = await Browsers.open(browser, await written("keys", [Samples.run()]))
    await page.keyboard.press("Home")
    assert.strictEqual(await chosen(page), "Why did the service stop last night?")
    const all = await rows(page)
    await page.keyboard.press("ArrowLeft")
    assert.strictEqual(await rows(page), 1, "folded")
    assert.strictEqual(await page.locator(".row.on").getAttribute("aria-expanded"), "false")
    await page.keyboard.press("ArrowRight")
    assert.strictEqual(await rows(page), all, "unfolded")
    await page.keyboard.press("ArrowDown")
    assert.strictEqual(await chosen(page), "user")
    await page.keyboard.press("End")
    await page.keyboard.press("n")
    assert.strictEqual(await page.locator(".row.on .status").textContent(), "error", "the next failure, around the end")
    await page.keyboard.press("Enter")
    assert.strictEqual(await page.evaluate("document.activeElement.id"), "detail")
    await page.keyboard.press("Escape")
    assert.strictEqual(await page.evaluate("document.activeElement.id"), "list")
    await page.keyboard.press("?")
    assert.isTrue(await page.locator("#help").isVisible())
    await picture(page, "run-help")
    await page.keyboard.press("Escape")
    assert.isFalse(await page.locator("#help").isVisible())
    await page.close()
  })

  it("finds, filters, and says when nothing fits", async () => {
    const { page } = await Browsers.open(browser, await written("search", [Samples.run()]))
    await page.keyboard.press("/")
    await page.keyboard.type("disk is full")
    assert.isAtLeast(await rows(page), 1)
    await page.keyboard.press("Enter")
    assert.include((await page.locator("#detail").textContent()) ?? "", "disk is full")
    await picture(page, "run-search")
    await page.locator("#search").fill("no such words anywhere")
    assert.isTrue(await page.locator("#none").isVisible())
    await page.locator("#clear").click()
    assert.isFalse(await page.locator("#none").isVisible())
    const all = await rows(page)
    await page.locator(".chip", { hasText: "Tools" }).click()
    assert.isBelow(await rows(page), all)
    await page.locator(".chip", { hasText: "Tools" }).click()
    await page.locator("#failed").click()
    assert.strictEqual(await rows(page), await page.locator(".row.bad").count())
    await page.close()
  })

  it("keeps the place in the address", async () => {
    const url = await written("link", [Samples.run()])
    const { page } = await Browsers.open(browser, url)
    await named(page, "terminal").click()
    const address = page.url()
    await page.close()
    const again = await Browsers.open(browser, address)
    assert.strictEqual(await chosen(again.page), "terminal")
    await again.page.close()
  })

  it("zooms into what was dragged over, and scales by tokens", async () => {
    const { page } = await Browsers.open(browser, await written("zoom", [Samples.run()]))
    const box = await page.locator("#map").boundingBox()
    assert.isNotNull(box)
    const { height = 0, width = 0, x = 0, y = 0 } = box ?? {}
    await page.mouse.move(x + width * 0.3, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.6, y + height / 2)
    await page.mouse.up()
    assert.isTrue(await page.locator("#unzoom").isVisible())
    await picture(page, "run-zoom")
    const overview = () =>
      page.evaluate(
        "(() => { const c = document.getElementById('map'); return [...c.getContext('2d').getImageData(0, 0, 8, c.height).data].some((byte, i) => i % 4 === 3 && byte > 0) })()"
      )
    assert.isTrue(await overview(), "what is outside of the zoom stays on the map")
    const axis = await page.locator("#axis").textContent()
    await page.mouse.move(x + width * 0.45, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.55, y + height / 2)
    await page.mouse.up()
    assert.notStrictEqual(await page.locator("#axis").textContent(), axis, "the zoomed part was moved")
    await page.locator("#unzoom").click()
    assert.isFalse(await page.locator("#unzoom").isVisible())
    await page.locator("#list").focus()
    await page.keyboard.press("+")
    assert.isTrue(await page.locator("#unzoom").isVisible(), "by keys, too")
    await page.keyboard.press("0")
    assert.isFalse(await page.locator("#unzoom").isVisible())
    await page.locator("#scale").click()
    assert.strictEqual(await page.locator("#scale").textContent(), "by tokens")
    await picture(page, "run-tokens")
    await page.close()
  })

  it("is there in the dark, and on a narrow screen", async () => {
    const url = await written("dark", [Samples.run()])
    const dark = await Browsers.open(browser, url, { scheme: "dark" })
    await named(dark.page, "terminal").click()
    const background = await dark.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert.strictEqual(background, "rgb(18, 22, 28)")
    await picture(dark.page, "run-dark")
    assert.deepStrictEqual(await Browsers.faint(dark.page), [])
    await dark.page.close()
  })

  for (const [width, height] of [
    [380, 800],
    [820, 900],
    [900, 700],
    [1400, 900]
  ] as const) {
    it(`shows the details of a row at ${width} px, and every control`, async () => {
      const url = await written("widths", [Samples.run()])
      const { page } = await Browsers.open(browser, url, { width, height })
      await picture(page, `run-${width}`)
      await named(page, "terminal").click()
      const box = await page.locator("#detail h2").boundingBox()
      assert.isNotNull(box)
      assert.isTrue(
        box !== null && box.y > 0 && box.y + box.height < height && box.x + box.width <= width,
        JSON.stringify(box)
      )
      const list = await page.locator("#list").boundingBox()
      assert.isAtLeast(list?.height ?? 0, 100, "the timeline is still there")
      await picture(page, `run-${width}-details`)
      if (width <= 900) {
        await page.locator("#closeDetail").click()
        assert.isFalse(await page.locator("#detail").isVisible())
      }
      if (width <= 900) await page.locator("#filters").click()
      assert.deepStrictEqual(await Browsers.unreachable(page), [])
      assert.isFalse(
        await page.evaluate(
          "document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
        ),
        "nothing is cut off"
      )
      await page.keyboard.press("t")
      assert.include((await page.locator("#detail").textContent()) ?? "", "claude-sonnet")
      await picture(page, `run-${width}-totals`)
      assert.deepStrictEqual(await Browsers.faint(page), [])
      await page.close()
    })
  }

  it("adds up agents, models and tools: of the run, and of an agent", async () => {
    const { page } = await Browsers.open(browser, await written("totals", [Samples.run()]), { width: 1400 })
    const cells = async () => {
      const lines: ReadonlyArray<ReadonlyArray<string>> = await page
        .locator("#detail .totals tr")
        .evaluateAll((all: ReadonlyArray<{ readonly cells: Iterable<{ readonly textContent: string }> }>) =>
          all.map((one) => Array.from(one.cells, ({ textContent }) => textContent))
        )
      return lines
    }
    assert.deepStrictEqual(await cells(), [
      ["agent", "calls", "tools", "failed", "tokens", "cached", "time"],
      ["Why did the service stop last night?", "3", "2", "1", "7,000 → 630", "86 %", "8.12 s"],
      ["look at the logs of last night", "1", "1", "", "600 → 60", "", "3.80 s"],
      ["model", "calls", "failed", "tokens", "cached", "time"],
      ["claude-sonnet", "3", "1", "7,000 → 630", "86 %", "3.62 s"],
      ["gpt-5-mini", "1", "", "600 → 60", "", "1.09 s"],
      ["tool", "calls", "time"],
      ["read_file", "1", "40 ms"],
      ["delegate_task", "1", "3.94 s"],
      ["terminal", "1", "800 ms"]
    ])
    await page.getByRole("button", { name: "look at the logs of last night" }).click()
    assert.deepStrictEqual(await cells(), [
      ["agent", "calls", "tools", "tokens", "time"],
      ["look at the logs of last night", "1", "1", "600 → 60", "3.80 s"],
      ["model", "calls", "tokens", "time"],
      ["gpt-5-mini", "1", "600 → 60", "1.09 s"],
      ["tool", "calls", "time"],
      ["terminal", "1", "800 ms"]
    ])
    await picture(page, "run-agent")
    await page.close()
  })

  it("groups the attempts of a model call, closed at first", async () => {
    const { page } = await Browsers.open(browser, await written("retries", [Samples.run()]))
    const grouped = page.locator(".row", { hasText: "1 retry" })
    assert.strictEqual(await grouped.count(), 1)
    assert.strictEqual(await page.locator(".row", { hasText: "529 overloaded" }).count(), 0)
    await grouped.click()
    await page.keyboard.press("ArrowRight")
    assert.strictEqual(await page.locator(".row.bad", { hasText: "529 overloaded" }).count(), 1)
    await page.close()
  })

  it("never runs what a model or a tool said", async () => {
    const { complaints, page } = await Browsers.open(browser, await written("hostile", [Samples.hostile()]))
    for (let index = 0; index < (await rows(page)); index++) await page.locator("#room .row").nth(index).click()
    assert.strictEqual(await page.evaluate("globalThis.hacked"), undefined)
    assert.strictEqual(await page.locator("#detail img, #room img, #detail script, #room script").count(), 0)
    assert.deepStrictEqual(complaints, [])
    await page.close()
  })
})

describe("the difference of two runs", () => {
  it("shows what changed, line by line", async () => {
    const { complaints, page } = await Browsers.open(browser, await written("diff", [Samples.run(), Samples.other()]))
    assert.strictEqual(await page.locator(".tab[aria-selected=true]").textContent(), "Difference")
    assert.strictEqual(await page.locator(".row.same").count(), 0, "only changes at first")
    await page.locator(".row.changed").first().click()
    assert.isAtLeast(await page.locator("#detail .minus").count(), 1)
    assert.isAtLeast(await page.locator("#detail .plus").count(), 1)
    await picture(page, "diff")
    await page.locator("#changes").click()
    assert.isAtLeast(await page.locator(".row.same").count(), 1)
    await picture(page, "diff-all")
    assert.deepStrictEqual(await Browsers.faint(page), [])
    await page.locator(".tab").first().focus()
    await page.keyboard.press("ArrowRight")
    assert.strictEqual(await page.locator(".tab[aria-selected=true]").textContent(), "other")
    assert.deepStrictEqual(complaints, [])
    await page.close()
  })
})

for (const width of [380, 820, 1400]) {
  describe(`fifty thousand events at ${width} px`, () => {
    it("are as quick as ten: few elements, wherever one looks", async () => {
      const { complaints, page } = await Browsers.open(browser, await written("many", [Samples.many(50_000)]), {
        width
      })
      const elements = () => page.evaluate("document.querySelectorAll('*').length") as Promise<number>
      assert.isBelow(await elements(), 1000)
      assert.isBelow(await rows(page), 80)
      await page.keyboard.press("End")
      assert.include((await page.locator(".row.on").textContent()) ?? "", "file-12499.ts")
      assert.isBelow(await elements(), 1000)
      await picture(page, `many-${width}`)
      await page.locator("#search").fill("answer 1234")
      assert.isAtLeast(await rows(page), 1)
      await page.locator("#list").hover({ position: { x: 20, y: 20 } })
      for (let step = 0; step < 20; step++) await page.mouse.wheel(0, 2000)
      assert.isBelow(await elements(), 1000)
      assert.deepStrictEqual(complaints, [])
      await page.close()
    })
  })
}
