// A turn that another server runs: its events follow here, texts, answers and the stop reach it, each once.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { readEvents, until, world } from "../../support/servedAgent.ts"

const plays = {
  wait: [{ text: "I wait for", hangs: true }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf x" }]] }, { text: "Done." }],
  slowly: [{ calls: [["terminal", { command: "until [ -e go ]; do sleep 0.1; done" }]] }, { text: "Done." }]
} as const

type Served = Effect.Success<ReturnType<typeof world>>

const opened = async ({ fetched }: Served): Promise<string> => (await fetched("/v1/sessions", { json: {} })).body.id
const say = async ({ fetched }: Served, id: string, json: object) => fetched(`/v1/sessions/${id}/messages`, { json })
const reading = ({ authorized, url }: Served, id: string) => readEvents(`${url}/v1/sessions/${id}/events`, authorized)
const countTurns = (reader: ReturnType<typeof readEvents>): number =>
  reader.types().filter((type) => type === "turn_ended").length

/** Two servers over one store. */
const servers = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const owner = yield* world(plays, {}, undefined, directory)
  const other = yield* world(plays, {}, undefined, directory)
  return { owner, other }
})

describe("a turn of another server", () => {
  it.live("is followed, and takes a text with the next result of a tool, once", () =>
    Effect.flatMap(servers, ({ other, owner }) =>
      Effect.promise(async () => {
        const id = await opened(owner)
        const there = reading(owner, id)
        await say(owner, id, { prompt: "slowly" })
        await until(() => there.types().includes("ToolStarted"))
        const here = reading(other, id)
        await until(() => here.types().includes("ToolStarted"))
        const sent = await say(other, id, { prompt: "Use tabs", busy: "steer" })
        assert.deepStrictEqual([sent.status, sent.body.status], [202, "steering"])
        writeFileSync(join(owner.cwd, "go"), "")
        await until(() => countTurns(here) === 1 && countTurns(there) === 1)
        assert.strictEqual(there.types().filter((type) => type === "steered").length, 1)
        assert.strictEqual(JSON.stringify(owner.seen.at(-1)?.messages).split("Use tabs").length, 2)
        assert.include(JSON.stringify(here.events), "Done.")
        // The next turn is followed, too.
        await say(owner, id, { prompt: "wait" })
        await until(() => here.types().filter((type) => type === "turn_started").length === 2)
        const stopped = await other.fetched(`/v1/sessions/${id}/stop`, { json: {} })
        assert.deepStrictEqual([stopped.status, stopped.body], [200, { stopped: true, returned: [] }])
        await until(() => countTurns(here) === 2 && countTurns(there) === 2)
        for (const reader of [here, there]) await reader.stop()
      })
    )
  )

  it.live("asks here, and takes one of two answers", () =>
    Effect.flatMap(servers, ({ other, owner }) =>
      Effect.promise(async () => {
        const id = await opened(owner)
        const there = reading(owner, id)
        await say(owner, id, { prompt: "remove it" })
        await until(() => there.types().includes("approval_asked"))
        const here = reading(other, id)
        await until(() => here.types().includes("approval_asked"))
        const question = here.events.find(({ data }) => data["type"] === "approval_asked")?.data["question_id"]
        const answer = () =>
          other.fetched(`/v1/sessions/${id}/questions/${String(question)}`, { json: { choice: "deny" } })
        const statuses = (await Promise.all([answer(), answer()])).map(({ status }) => status)
        assert.deepStrictEqual(statuses.toSorted(), [204, 404])
        await until(() => countTurns(here) === 1 && countTurns(there) === 1)
        assert.strictEqual(here.types().filter((type) => type === "question_closed").length, 1)
        for (const reader of [here, there]) await reader.stop()
      })
    )
  )
})
