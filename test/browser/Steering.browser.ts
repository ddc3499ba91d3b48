// The panel of a running turn in the studio: the turn belongs to another process, whose questions the page shows.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import * as StudioServer from "../../src/observe/studio/StudioServer.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { readEvents, until, world } from "../support/servedAgent.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import * as Browsers from "./browser.ts"

const browser = Effect.acquireRelease(Effect.promise(Browsers.launch), (one) => Effect.promise(() => one.close()))

const plays = {
  wait: [{ text: "I wait for", hangs: true }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf x" }]] }, { text: "Done." }]
} as const

describe("a turn of another process in a browser", () => {
  for (const [width, scheme] of [
    [380, "dark"],
    [1200, "light"]
  ] as const) {
    it.live(`is answered, steered and cancelled at ${width} px`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const owner = yield* world(plays, {}, undefined, directory)
        const connection = yield* Layer.build(
          Layer.fresh(SessionStore.layerSqlite({ path: join(owner.cwd, "state.db") }))
        )
        const options = { port: 0, home: directory, models: [], version: "1", exists: Effect.succeed(true) }
        const { url } = yield* Effect.provide(StudioServer.serve({ ...options, replay: () => Effect.void }), connection)
        const { id } = (yield* Effect.promise(() => owner.fetched("/v1/sessions", { json: {} }))).body
        const there = readEvents(`${owner.url}/v1/sessions/${id}/events`, owner.authorized)
        const say = (prompt: string) => owner.fetched(`/v1/sessions/${id}/messages`, { json: { prompt } })
        yield* Effect.promise(() => say("remove it"))
        const chromium = yield* browser
        const { origin } = new URL(url)
        const { complaints, page } = yield* Effect.promise(() =>
          Browsers.open(chromium, url, { width, height: 900, scheme, from: origin })
        )
        yield* Effect.promise(async () => {
          await page.locator(`tr[data-id="${id}"] a`).first().click()
          await page.locator(".question button", { hasText: "Deny" }).waitFor()
          assert.include((await page.locator(".question pre").textContent()) ?? "", "rm -rf x")
          assert.isAtMost(await page.evaluate<number>("document.documentElement.scrollWidth"), width)
          assert.deepStrictEqual(await Browsers.faint(page), [])
          assert.deepStrictEqual(await Browsers.unreachable(page), [])
          await page.locator(".question button", { hasText: "Deny" }).click()
          await until(() => there.types().includes("turn_ended"))
          await page.locator(".steering").waitFor({ state: "hidden" })
          assert.strictEqual(await page.locator(".question").count(), 0)
          await say("wait")
          const panel = page.locator(".steering")
          await panel.waitFor()
          await panel.locator("textarea").fill("Use tabs")
          await panel.locator("button", { hasText: "Send" }).click()
          await panel.locator("[role=status]", { hasText: "text" }).waitFor()
          await panel.locator("button", { hasText: "Cancel the turn" }).click()
          await until(() => there.types().filter((type) => type === "turn_ended").length === 2)
          await panel.waitFor({ state: "hidden" })
          assert.deepStrictEqual(complaints, [])
          await there.stop()
        })
      })
    )
  }
})
