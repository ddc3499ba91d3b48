// The studio in a real browser: list, filters, a session, details, comparison, export, live tail, replay, scores,
// hostile texts; at three widths, light and dark, by keys alone. HERMES_SCREENSHOTS names a folder for pictures of it.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import type { SessionEvent } from "../../src/observe/studio/StudioApi.ts"
import * as Browsers from "./browser.ts"
import * as StandIn from "./standIn.ts"

let browser: Browser
let readOnly: StandIn.StandIn
let writable: StandIn.StandIn

beforeAll(async () => {
  browser = await Browsers.launch()
  readOnly = await StandIn.serve(false)
  writable = await StandIn.serve(true)
})

afterAll(async () => {
  await browser?.close()
  await readOnly?.close()
  await writable?.close()
})

const picture = async (page: Page, name: string): Promise<void> => {
  const where = process.env["HERMES_SCREENSHOTS"]
  if (where !== undefined) await page.screenshot({ path: join(where, `${name}.png`) })
}

/** Opens a page of the studio; complaints are errors, and requests to any other server. */
const opened = (
  studio: StandIn.StandIn,
  hash: string,
  options: { readonly width?: number; readonly height?: number; readonly scheme?: "light" | "dark" } = {}
) => Browsers.open(browser, `${studio.url}${hash}`, { width: 1400, height: 900, ...options, from: studio.url })

const isCutOff = (page: Page) =>
  page.evaluate(
    "document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
  )

/** Parts that scroll sideways although they should not: tables and code may. */
const overflowing = (page: Page) =>
  page.evaluate(`[...document.querySelectorAll("main, header, section, .listPage, .scroller, .sessionHead, .panel, #detail, #list, article, .md, .call")]
    .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "hidden").map((one) => one.tagName + "." + one.className + "#" + one.id + " " + one.scrollWidth + " > " + one.clientWidth)`)

for (const width of [380, 820, 1400]) {
  for (const scheme of ["light", "dark"] as const) {
    describe(`the studio at ${width} px, ${scheme}`, () => {
      const name = `studio-${width}-${scheme}`
      const height = width === 380 ? 800 : 900

      it("goes from the list by a filter to a session, its details, a comparison and an export", async () => {
        const { complaints, page } = await opened(readOnly, "", { width, height, scheme })
        await page.locator(".sessions tbody tr").nth(49).waitFor()
        await picture(page, `${name}-list`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "list")
        assert.deepStrictEqual(await Browsers.unreachable(page), [])
        assert.deepStrictEqual(await overflowing(page), [])
        await page.getByRole("button", { name: "Show more" }).click()
        await page.locator(".sessions tbody tr").nth(73).waitFor()
        await page.locator(".filterBox > summary").click()
        await picture(page, `${name}-filters`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "filters")
        await page.getByLabel("State").selectOption("error")
        await page.getByText("10 sessions").waitFor()
        assert.include(page.url(), "status=error")
        await page.goBack()
        await page.getByText("50 of 74 sessions").waitFor()
        await page.getByLabel("Search titles and messages").fill("service stopped")
        await page.getByText("2 sessions", { exact: true }).waitFor()
        for (const title of ["The service stopped", "The service stopped, again"])
          await page.getByLabel(`Select ${title}`, { exact: true }).check()

        const [download] = await Promise.all([
          page.waitForEvent("download"),
          page.getByRole("link", { name: "Export 2 selected" }).click()
        ])
        assert.include(download.url(), "format=atif&id=demo&id=other")
        await page.getByRole("combobox", { name: "As", exact: true }).selectOption("archive")
        assert.include(
          await page.getByRole("link", { name: "Export 2 selected" }).getAttribute("href"),
          "format=atif&archive=true&id=demo&id=other"
        )

        await page.getByRole("link", { name: "Compare both" }).click()
        await page.getByText("First difference").waitFor()
        await picture(page, `${name}-compare`)
        assert.isFalse(await isCutOff(page))
        await page.getByRole("button", { name: "Show it" }).click()
        const change = await page.locator("#detail").boundingBox()
        assert.isAtLeast(change?.height ?? 0, 200, "there is room for the change")
        assert.isAtLeast(await page.locator("#detail .minus").count(), 1)
        await picture(page, `${name}-compare-change`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "compare-change")
        assert.deepStrictEqual(await overflowing(page), [])
        await page.goBack()

        await page.getByRole("link", { name: "The service stopped", exact: true }).click()
        await page.locator(".sessionHead h1", { hasText: "The service stopped" }).waitFor()
        await page.locator("article.turn").last().waitFor()
        await picture(page, `${name}-session`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "session")
        assert.deepStrictEqual(await Browsers.unreachable(page), [])
        assert.deepStrictEqual(await overflowing(page), [])
        await page.locator(".call", { hasText: "read_file" }).first().locator("summary").click()
        await page.locator(".call", { hasText: "read_file" }).first().getByText("keep(100)").waitFor()
        await page.getByRole("button", { name: "in the timeline" }).last().click()
        const box = await page.locator("#detail h2").boundingBox()
        assert.isTrue(
          box !== null && box.y > 0 && box.y + box.height < height && box.x + box.width <= width,
          JSON.stringify(box)
        )
        assert.include((await page.locator("#detail").textContent()) ?? "", "claude-sonnet")
        await picture(page, `${name}-timeline`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "timeline")
        assert.include(page.url(), "row=11")
        assert.isFalse(await isCutOff(page))

        await page.getByRole("tab", { name: "Totals" }).click()
        await picture(page, `${name}-totals`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "totals")
        await page.getByRole("tab", { name: "Scores and notes" }).click()
        await picture(page, `${name}-feedback`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "feedback")
        assert.include((await page.locator(".sessionHead").textContent()) ?? "", "Read-only")
        assert.strictEqual(await page.getByRole("button", { name: "Replay from here" }).count(), 0)
        assert.deepStrictEqual(await overflowing(page), [])
        assert.deepStrictEqual(complaints, [])
        await page.close()
      })

      it("shows sums and charts", async () => {
        const { complaints, page } = await opened(readOnly, "#/insights", { width, height, scheme })
        await page.locator(".chart canvas").nth(5).waitFor()
        await picture(page, `${name}-insights`)
        await page.locator(".figures").last().scrollIntoViewIfNeeded()
        await picture(page, `${name}-insights-end`)
        assert.deepStrictEqual(await Browsers.faint(page), [], "insights-end")
        assert.deepStrictEqual(await Browsers.unreachable(page), [])
        assert.deepStrictEqual(await overflowing(page), [])
        assert.isFalse(await isCutOff(page))
        assert.deepStrictEqual(complaints, [])
        await page.close()
      })
    })
  }
}

describe("the studio", () => {
  it("is driven by keys alone", async () => {
    const { page } = await opened(readOnly, "")
    await page.locator(".sessions tbody tr").first().waitFor()
    await page.keyboard.press("/")
    await page.keyboard.type("service stopped")
    await page.getByText("2 sessions", { exact: true }).waitFor()
    assert.strictEqual(await page.evaluate("document.activeElement.id"), "query", "one goes on typing")
    for (
      let tabs = 0;
      tabs < 20 && (await page.evaluate("document.activeElement.textContent")) !== "The service stopped";
      tabs++
    )
      await page.keyboard.press("Tab")
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert.strictEqual(outline, "solid", "the focus is seen")
    await page.keyboard.press("Enter")
    await page.locator(".sessionHead h1", { hasText: "The service stopped" }).waitFor()
    await page.getByRole("tab", { name: "Conversation" }).focus()
    await page.keyboard.press("ArrowRight")
    assert.strictEqual(await page.evaluate("document.activeElement.textContent"), "Totals")
    await page.keyboard.press("ArrowLeft")
    await page.locator("#list").focus()
    await page.keyboard.press("End")
    assert.include((await page.locator("#detail").textContent()) ?? "", "claude-sonnet")
    await page.keyboard.press("Enter")
    assert.strictEqual(await page.evaluate("document.activeElement.id"), "detail")
    await page.close()
  })

  it("is replayed, compared and noted upon by keys alone", async () => {
    const { page } = await opened(writable, "#/session/demo")
    const focused = () => page.evaluate<string>("document.activeElement.textContent")
    const keys = async (...names: ReadonlyArray<string>) => {
      for (const name of names) await page.keyboard.press(name)
    }
    /** Goes on by Tab until the focus is on something of that label. */
    const tabTo = async (label: string) => {
      for (let tabs = 0; tabs < 60 && (await focused()) !== label; tabs++) await keys("Tab")
      assert.strictEqual(await focused(), label)
    }
    await page.getByRole("button", { name: "Replay from here" }).first().waitFor()
    await tabTo("Replay from here")
    await keys("Enter")
    const dialog = page.getByRole("dialog")
    await dialog.waitFor()
    assert.isTrue(
      await page.evaluate("document.activeElement.closest('dialog, [role=dialog]') !== null"),
      "the dialog has the focus"
    )
    await keys("Escape")
    await dialog.waitFor({ state: "detached" })
    assert.strictEqual(await focused(), "Replay from here", "the focus is back")
    await keys("Enter")
    await dialog.getByLabel("Prompt").focus()
    await keys("ControlOrMeta+a")
    await page.keyboard.type("By keys")
    await tabTo("Start")
    await keys("Enter")
    await page.waitForURL(/#\/session\/replay$/u)
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/replay",
      body: { position: 0, prompt: "By keys" }
    })

    await page.goto(`${writable.url}#/session/demo?tab=conversation`)
    await page.getByRole("button", { name: "Note", exact: true }).first().waitFor()
    await tabTo("Note")
    await keys("Enter")
    await dialog.waitFor()
    await page.keyboard.type("noted by keys")
    await tabTo("Add note")
    await Promise.all([page.waitForResponse((response) => response.url().endsWith("/notes")), keys("Enter")])
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/notes",
      body: { text: "noted by keys", position: 0 }
    })
    await dialog.waitFor({ state: "detached" })

    await page.getByRole("tab", { name: "Conversation" }).focus()
    for (let tabs = 0; tabs < 3 && (await focused()) !== "Totals"; tabs++) await keys("ArrowRight")
    await page.getByLabel("Select run 1").waitFor()
    for (const run of ["Select run 1", "Select run 2"]) {
      await page.getByLabel(run).focus()
      await keys("Space")
      await page.waitForFunction("document.activeElement.checked")
    }
    await tabTo("Compare two runs")
    await keys("Enter")
    await page.getByText("First difference").waitFor()
    await page.close()
  })

  it("shows what a model wrote, and nothing of it runs, loads or leads astray", async () => {
    const { complaints, page } = await opened(readOnly, "#/session/demo")
    const last = page.locator("article.turn").last()
    await last.waitFor()
    assert.strictEqual(await last.locator("table").count(), 1)
    assert.strictEqual(await last.locator("pre code").count(), 1)
    assert.include((await last.textContent()) ?? "", "<script>globalThis.hacked = 2</script>")
    assert.include((await last.textContent()) ?? "", "a<b & c")
    assert.strictEqual(await last.locator("img, script, iframe").count(), 0)
    assert.deepStrictEqual(
      await last
        .locator("a")
        .evaluateAll((links: ReadonlyArray<{ getAttribute: (name: string) => string | null }>) =>
          links.map((one) => [one.getAttribute("href"), one.getAttribute("rel")])
        ),
      [
        ["https://example.test/log", "noopener noreferrer nofollow"],
        ["https://example.test/beacon.png", "noopener noreferrer nofollow"]
      ]
    )
    assert.strictEqual(await page.locator("article img").count(), 1, "an image of the session itself")
    assert.strictEqual(await page.evaluate("globalThis.hacked"), undefined)
    assert.deepStrictEqual(complaints, [])
    await page.close()
  })

  it("shows texts that no reader of Markdown gets through as they are, within the page", async () => {
    for (const width of [380, 1400]) {
      const { complaints, page } = await opened(readOnly, "#/session/nested", { width })
      await page.locator("article.turn").nth(10).waitFor({ state: "attached" })
      assert.include((await page.locator("article.turn").nth(0).textContent()) ?? "", ">>>>>>>>")
      assert.isBelow(Number(await page.evaluate("document.querySelectorAll('*').length")), 30_000)
      for (const place of [0, 4, 8, 10]) await page.locator("article.turn").nth(place).scrollIntoViewIfNeeded()
      assert.deepStrictEqual(await overflowing(page), [])
      assert.isFalse(await isCutOff(page))
      assert.deepStrictEqual(complaints, [])
      await page.close()
    }
  })

  it("says how many entries are left out, at every width", async () => {
    for (const width of [380, 820, 1400]) {
      const { complaints, page } = await opened(writable, "", { width })
      await page.getByText("2 entries left out", { exact: false }).waitFor()
      assert.deepStrictEqual(await overflowing(page), [])
      assert.deepStrictEqual(complaints, [])
      await page.close()
    }
  })

  it("follows a running agent, unless one scrolled up", async () => {
    const { page } = await opened(readOnly, "#/session/live", { height: 600 })
    await page.locator("article.turn").last().waitFor()
    const scroller = page.locator(".scroller")
    const fromEnd = () =>
      scroller.evaluate(
        (one: { scrollHeight: number; scrollTop: number; clientHeight: number }) =>
          one.scrollHeight - one.scrollTop - one.clientHeight
      )
    const whole = StandIn.detailOf(StandIn.summary("live", "Running now", { status: "running" }))
    const rows = whole.data.runs[0]?.rows ?? []
    const event = (count: number): SessionEvent => {
      const { data, messages: _, ...rest } = whole
      return {
        ...rest,
        sequence: count + 1,
        sums: data.runs[0]?.sums ?? [],
        pool: { from: data.pool.length, items: [] },
        rows: {
          from: rows.length,
          changed: [],
          items: Array.from(
            { length: count },
            (__, index) =>
              ({
                ...rows[1],
                id: rows.length + index,
                text: `news ${index + 1}`,
                start: 1_750_000_009_000 + index,
                end: 1_750_000_009_000 + index
              }) as (typeof rows)[number]
          )
        },
        messages: {
          from: 8,
          items: Array.from({ length: count }, (__, index) => ({
            role: "assistant",
            origin: "model",
            position: 7 + index,
            model: "claude-sonnet",
            parts: [{ type: "text", text: `news ${index + 1}` }]
          }))
        }
      }
    }
    await page.locator(".live", { hasText: "live" }).waitFor()
    const row = page.locator(".row", { hasText: "delegate_task" })
    await row.click()
    readOnly.tell("live", event(1))
    await page.locator("article", { hasText: "news 1" }).waitFor()
    await page.locator(".row", { hasText: "news 1" }).waitFor()
    assert.include((await page.locator(".row.on").textContent()) ?? "", "delegate_task", "what was selected stays so")
    readOnly.tell("live", event(5))
    await page.locator("article", { hasText: "news 5" }).waitFor()
    assert.isAtMost(await fromEnd(), 60, "at the end")
    await scroller.hover()
    await page.mouse.wheel(0, -3000)
    await page.getByRole("button", { name: "Jump to the end" }).waitFor()
    const place = await scroller.evaluate((one: { scrollTop: number }) => one.scrollTop)
    readOnly.tell("live", event(9))
    await page.locator("article", { hasText: "news 9" }).waitFor({ state: "attached" })
    assert.strictEqual(
      await scroller.evaluate((one: { scrollTop: number }) => one.scrollTop),
      place,
      "the reader stays where they were"
    )
    await picture(page, "studio-live")
    await page.close()
  })

  it("replays a step with another prompt, model or result", async () => {
    const { page } = await opened(writable, "#/session/demo")
    await page.getByRole("button", { name: "Replay from here" }).first().click()
    const dialog = page.getByRole("dialog")
    assert.strictEqual(await dialog.getByLabel("Prompt").inputValue(), "Why did the service stop last night?")
    await dialog.getByLabel("Prompt").fill("Why did it stop?")
    await dialog.getByLabel("Model").selectOption("gpt-5-mini")
    await picture(page, "studio-replay")
    await dialog.getByRole("button", { name: "Start" }).click()
    await page.waitForURL(/#\/session\/replay$/u)
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/replay",
      body: { position: 0, model: "gpt-5-mini", prompt: "Why did it stop?" }
    })
    await page.goBack()
    await page.locator(".call", { hasText: "read_file" }).first().locator("summary").click()
    await page.getByRole("button", { name: "Replay with another result" }).click()
    await page.getByRole("dialog").getByLabel("Result of read_file").fill("empty")
    await page.getByRole("dialog").getByRole("button", { name: "Start" }).click()
    await page.waitForURL(/#\/session\/replay$/u)
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/replay",
      body: { result: { callId: "c1", text: "empty" } }
    })
    await page.close()
  })

  it("takes scores and notes", async () => {
    const { page } = await opened(writable, "#/session/demo?tab=feedback")
    await page.getByLabel("Name", { exact: true }).fill("correctness")
    await page.getByLabel("Value", { exact: true }).fill("0.5")
    await Promise.all([
      page.waitForResponse((response) => response.url().endsWith("/scores")),
      page.getByRole("button", { name: "Add score" }).click()
    ])
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/scores",
      body: { name: "correctness", value: 0.5 }
    })
    await page.getByLabel("Note", { exact: true }).fill("good")
    await picture(page, "studio-feedback-write")
    await Promise.all([
      page.waitForResponse((response) => response.url().endsWith("/notes")),
      page.getByRole("button", { name: "Add note" }).click()
    ])
    assert.deepStrictEqual(writable.posts.at(-1), { path: "/api/sessions/demo/notes", body: { text: "good" } })
    await page.getByRole("tab", { name: "Conversation" }).click()
    await page.getByRole("button", { name: "Note", exact: true }).first().click()
    await page.getByRole("dialog").getByLabel("Note").fill("asked well")
    await page.keyboard.press("Tab")
    await page.keyboard.press("t")
    await Promise.all([
      page.waitForResponse((response) => response.url().endsWith("/notes")),
      page.getByRole("dialog").getByRole("button", { name: "Add note" }).click()
    ])
    assert.deepStrictEqual(writable.posts.at(-1), {
      path: "/api/sessions/demo/notes",
      body: { text: "asked well", position: 0 }
    })
    await page.close()
  })

  it("shows a part of a long conversation, and earlier messages when asked", async () => {
    const { page } = await opened(readOnly, "#/session/long")
    await page.locator("article", { hasText: "answer 2999" }).waitFor({ state: "attached" })
    const elements = () => page.evaluate("document.querySelectorAll('*').length")
    assert.isBelow(Number(await elements()), 6000)
    assert.isAtMost(await page.locator("article.turn").count(), 150)
    await page.getByRole("button", { name: "Show 2,850 earlier messages" }).click()
    await page.getByRole("button", { name: "Show 2,550 earlier messages" }).waitFor()
    assert.isAtMost(await page.locator("article.turn").count(), 450)
    await page.close()
  })

  it("keeps the list up to date, says when the server is gone, and comes back", async () => {
    const studio = await StandIn.serve(false)
    const { page } = await opened(studio, "")
    const row = page.locator("tr[data-id=demo]")
    await row.waitFor()
    await page.waitForFunction("performance.getEntriesByType('resource').length > 0")
    studio.tellList({ sessions: [StandIn.summary("demo", "Another title", { status: "running" })], removed: [] })
    await row.getByText("Another title").waitFor()
    await row.getByText("running").waitFor()
    assert.strictEqual(await page.locator("tr[data-id=demo]").count(), 1)
    const before = studio.asked.length
    for (let change = 0; change < 20; change++)
      studio.tellList({ sessions: [StandIn.summary(`new-${change}`, "Not in the list")], removed: [] })
    await page.waitForResponse((response) => response.url().includes("/api/sessions"))
    assert.deepStrictEqual(studio.asked.slice(before), ["/api/sessions"], "read again once, and on the same stream")
    studio.drop()
    await page.getByText("The studio does not answer").waitFor()
    await page.getByText("The studio does not answer").waitFor({ state: "detached" })
    await page.close()
    await studio.close()
  })

  it("follows a tab and a row that the address is given within one page", async () => {
    const { complaints, page } = await opened(readOnly, "#/session/demo")
    const chosen = (label: string) =>
      page.getByRole("tablist", { name: "Views of the session" }).locator("[aria-selected=true]", { hasText: label })
    const goTo = (hash: string) => page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
    await chosen("Conversation").waitFor()
    for (const [tab, label] of [
      ["?tab=totals", "Totals"],
      ["?tab=feedback", "Scores and notes"],
      ["", "Conversation"]
    ] as const) {
      await goTo(`#/session/demo${tab}`)
      await chosen(label).waitFor()
    }
    await page.goBack()
    await chosen("Scores and notes").waitFor()
    await goTo("#/session/demo?tab=totals&row=2")
    await chosen("Totals").waitFor()
    await page.locator("#row-2[aria-selected=true]").waitFor()
    assert.deepStrictEqual(complaints, [])
    await page.close()
  })

  it("compares two runs of a session, and goes back and forward", async () => {
    const { page } = await opened(readOnly, "#/session/demo?tab=totals")
    await page.getByLabel("Select run 1").check()
    await page.getByLabel("Select run 2").check()
    await page.getByRole("button", { name: "Compare two runs" }).click()
    await page.getByText("First difference").waitFor()
    assert.include(page.url(), "leftRun=t1&right=demo&rightRun=t2")
    await page.goBack()
    await page.getByLabel("Select run 1").waitFor()
    await page.goForward()
    await page.getByText("First difference").waitFor()
    await page.close()
  })

  it("says what is wrong: a session that is gone, an address that is none", async () => {
    const { page } = await opened(readOnly, "#/session/gone")
    assert.include((await page.locator(".notice.bad").first().textContent()) ?? "", "There is no such session")
    await page.goto(`${readOnly.url}#/nothing`)
    await page.getByText("There is no such page.").waitFor()
    await page.close()
  })
})
