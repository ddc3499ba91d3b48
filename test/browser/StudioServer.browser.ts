// The studio as a user starts it (`hermes trace serve`), in a real browser: sessions that the program made with a model
// behind HTTP, from the list to an export, a run that goes on, a replay. HERMES_SCREENSHOTS names a folder for pictures
// of it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import * as Studio from "../observe/support/studio.ts"
import * as Browsers from "./browser.ts"

const browser = Effect.acquireRelease(Effect.promise(Browsers.launch), (one) => Effect.promise(() => one.close()))

const picture = async (page: Page, name: string): Promise<void> => {
  const where = process.env["HERMES_SCREENSHOTS"]
  if (where !== undefined) await page.screenshot({ path: join(where, `${name}.png`) })
}

describe("hermes trace serve in a browser", () => {
  for (const [width, scheme] of [
    [380, "light"],
    [820, "dark"],
    [1400, "light"]
  ] as const) {
    it.live(`shows what was run, at ${width} px`, () =>
      Effect.gen(function* () {
        const world = yield* Studio.world
        const reading = yield* world.say("please read notes.txt")
        const delegating = yield* world.say("please delegate it")
        yield* world.say("please fail")
        yield* world.say("hello <img src=x onerror=globalThis.hacked=1> **there**", "--resume", reading.id)
        const server = yield* world.serve()
        const { url } = server
        const chromium = yield* browser
        yield* Effect.promise(async () => {
          const { complaints, page } = await Browsers.open(chromium, url, {
            width,
            height: 900,
            scheme,
            from: server.origin
          })
          const name = `real-${width}`
          const row = (id: string) => page.locator(`tr[data-id="${id}"]`)
          await row(reading.id).waitFor()
          assert.notInclude(page.url(), "token", "the token does not stay in the address")
          await picture(page, `${name}-list`)
          assert.strictEqual(await page.locator(".sessions tbody tr").count(), 3)
          assert.include((await page.locator(".sessions").textContent()) ?? "", "1 sub-agent")

          await page.locator(".filterBox > summary").click()
          await page.getByLabel("State").selectOption("error")
          await page.getByText("1 session", { exact: true }).waitFor()
          assert.notInclude((await page.locator(".sessions").textContent()) ?? "", Studio.key)
          await page.goBack()
          await page.getByText("3 sessions", { exact: true }).waitFor()
          await page.getByLabel("Search titles and messages").fill("notes")

          await row(reading.id).locator("a").click()
          await page.locator("article.turn").last().waitFor()
          await picture(page, `${name}-session`)
          const shown = (await page.locator(".messages").textContent()) ?? ""
          assert.include(shown, "please read notes.txt")
          assert.include(shown, "hello <img src=x onerror=globalThis.hacked=1> there", "text, and Markdown")
          await page.locator(".call", { hasText: "read_file" }).first().locator("summary").click()
          await page.locator(".call", { hasText: "read_file" }).first().getByText("rye bread").waitFor()
          await page.getByRole("button", { name: "in the timeline" }).last().click()
          await page.locator("#detail h2").waitFor()
          assert.include((await page.locator("#detail h2").textContent()) ?? "", "gpt-4o")
          await picture(page, `${name}-timeline`)
          assert.deepStrictEqual(await Browsers.unreachable(page), [])
          assert.deepStrictEqual(await Browsers.faint(page), [])

          await page.getByRole("tab", { name: "Totals" }).click()
          await page.getByLabel("Select run 1").check()
          await page.getByLabel("Select run 2").check()
          await picture(page, `${name}-totals`)
          await page.getByRole("button", { name: "Compare two runs" }).click()
          await page.getByText("First difference").waitFor()
          await picture(page, `${name}-compare`)
          assert.include((await page.locator(".comparison").textContent()) ?? "", "Prompt tokens")

          await page.goto(`${server.origin}/#/session/${delegating.id}`)
          await page.locator(".row", { hasText: "read the notes" }).first().waitFor({ state: "attached" })
          await page.getByRole("link", { name: "Insights" }).click()
          await page.locator(".chart canvas").first().waitFor()
          await picture(page, `${name}-insights`)
          assert.include((await page.locator(".insights").textContent()) ?? "", "gpt-4o")
          assert.isFalse(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))

          await page.getByRole("link", { name: "Sessions" }).click()
          await row(reading.id).locator("input").check()
          const [download] = await Promise.all([
            page.waitForEvent("download"),
            page.getByRole("link", { name: "Export 1 selected" }).click()
          ])
          const lines = readFileSync(await download.path(), "utf8")
            .trim()
            .split("\n")
          assert.deepStrictEqual(
            lines.map((line) => JSON.parse(line).session_id),
            [reading.id]
          )
          assert.strictEqual(await page.evaluate("globalThis.hacked"), undefined)
          assert.deepStrictEqual(
            complaints.filter((one) => !one.includes("favicon")),
            []
          )
          await page.close()
        })
      })
    )
  }

  it.live("follows a run that goes on, replays it, scores it and takes a note", () =>
    Effect.gen(function* () {
      const world = yield* Studio.world
      const done = yield* world.say("please read notes.txt")
      const server = yield* world.serve("--write")
      const chromium = yield* browser
      yield* Effect.promise(async () => {
        const { page } = await Browsers.open(chromium, server.url, { width: 1400, height: 900, from: server.origin })
        await page.locator(`tr[data-id="${done.id}"] a`).click()
        await page.locator("article.turn").last().waitFor()

        let release = (): void => undefined
        world.model.hold = new Promise((resolve) => {
          release = resolve
        })
        await page.getByRole("button", { name: "Replay from here" }).first().click()
        const dialog = page.getByRole("dialog")
        await dialog.getByLabel("Prompt").fill("please read it again")
        await dialog.getByRole("button", { name: "Start" }).click()
        await page.locator(".live", { hasText: "live" }).waitFor()
        const replay = decodeURIComponent(page.url().split("/session/")[1]?.split("?")[0] ?? "")
        assert.notStrictEqual(replay, done.id)
        await page.locator(".call", { hasText: "read_file" }).waitFor()
        await page.locator(".row", { hasText: "read_file" }).last().waitFor()
        await picture(page, "real-live")
        release()
        await page.locator("article.assistant", { hasText: "The result was rye." }).waitFor()
        await page.locator(".sessionHead .state.ok").waitFor()
        assert.include((await page.locator(".meta").textContent()) ?? "", "replay of")

        await page.getByRole("tab", { name: "Scores and notes" }).click()
        await page.getByLabel("Name", { exact: true }).fill("correctness")
        await page.getByLabel("Value", { exact: true }).fill("0.75")
        await page.getByRole("button", { name: "Add score" }).click()
        await page.locator(".feedback td", { hasText: "0.75" }).waitFor()
        await page.getByLabel("Note", { exact: true }).fill("It read the right file.")
        await page.getByRole("button", { name: "Add note" }).click()
        await page.locator(".note", { hasText: "It read the right file." }).waitFor()
        await picture(page, "real-feedback")
        await page.locator(".meta").getByRole("link", { name: "compare" }).click()
        await page.getByText("First difference").waitFor()
        await picture(page, "real-compare-replay")
        await page.getByRole("link", { name: "Sessions" }).click()
        await page.locator(`tr[data-id="${replay}"]`, { hasText: "correctness: 0.75" }).waitFor()
        await page.close()
      })
    })
  )
})
