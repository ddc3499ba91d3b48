// An execution of a workflow in the studio: the page draws its steps from the run record, and follows them.
// HERMES_SCREENSHOTS names a folder for pictures of it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { join } from "node:path"
import { WorkflowRuns } from "../../src/kit/entry/workflow.ts"
import * as StudioServer from "../../src/observe/studio/StudioServer.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { makeOrder } from "../support/workflowSamples.ts"
import * as Browsers from "./browser.ts"

const browser = Effect.acquireRelease(Effect.promise(Browsers.launch), (one) => Effect.promise(() => one.close()))

describe("an execution of a workflow in a browser", () => {
  for (const [width, scheme] of [
    [380, "dark"],
    [1200, "light"]
  ] as const) {
    it.live(`shows what ran and what waits, and follows it, at ${width} px`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const order = makeOrder(join(directory, "traces"))
        const sessions = SessionStore.layerSqlite({ path: join(directory, "state.db") })
        const runs = WorkflowRuns.layerMemory({ workflows: [order] })
        yield* Effect.gen(function* () {
          const exists = Effect.succeed(true)
          // The studio is another process, with a connection of its own.
          const connection = yield* Layer.build(Layer.fresh(sessions))
          const options = { port: 0, home: directory, models: [], version: "test", exists }
          const { url } = yield* Effect.provide(StudioServer.serve(options), connection)
          yield* WorkflowRuns.start(order, { id: "a", input: { name: "a", count: 2 } })
          const { question } = yield* WorkflowRuns.waitForQuestion("a")
          const chromium = yield* browser
          const { origin } = new URL(url)
          const { complaints, page } = yield* Effect.promise(() =>
            Browsers.open(chromium, url, { width, height: 900, scheme, from: origin })
          )
          const step = (name: string, state: string) => page.locator(`.step[data-step=${name}][data-state=${state}]`)
          const picture = async (name: string): Promise<void> => {
            const where = process.env["HERMES_SCREENSHOTS"]
            if (where !== undefined)
              await page.screenshot({ path: join(where, `workflow-${name}-${width}.png`), fullPage: true })
          }
          yield* Effect.promise(async () => {
            await page.locator('tr[data-id="workflow_a"] a').first().click()
            await step("approve", "waiting").waitFor()
            await step("reserve", "done").waitFor()
            await step("send", "open").waitFor()
            await picture("waiting")
            assert.isAtMost(await page.evaluate<number>("document.documentElement.scrollWidth"), width)
          })
          yield* WorkflowRuns.answer({ id: "a", question, answer: true })
          yield* Effect.promise(async () => {
            await step("send", "done").waitFor()
            await page.locator(".workflowState.finished").waitFor()
            await picture("finished")
            assert.strictEqual(await step("pack", "done").locator(".stepPlace").count(), 2)
            assert.deepStrictEqual(await Browsers.faint(page), [])
            assert.deepStrictEqual(await Browsers.unreachable(page), [])
            assert.deepStrictEqual(complaints, [])
          })
        }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(runs, sessions)))
      })
    )
  }
})
