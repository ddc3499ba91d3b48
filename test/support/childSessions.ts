// The requests of children of one run over the wire: two tasks at once, and then one more.
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as Program from "./configuredProgram.ts"
import type { Endpoint, Recorded } from "./promptSessions.ts"
import { protocols, type WireTurn } from "./wireModel.ts"

const delegate = (id: string, params: object): WireTurn => ({
  calls: [{ id, name: "delegate_task", args: JSON.stringify(params) }]
})

/** Tasks of the children. The first two run at the same time. */
export const goals: ReadonlyArray<string> = ["count the files", "name the newest file", "look for errors"]

const makeTurns = (last: object): ReadonlyArray<WireTurn> => [
  delegate("call_a", { tasks: [{ goal: goals[0] }, { goal: goals[1], context: "of today" }] }),
  delegate("call_b", { goal: goals[2], ...last }),
  { text: "all done" }
]

/** Plays a run that delegates, and returns the requests of each child, by its goal. `last` is added to the last task. */
export const recordChildren = Effect.fnUntraced(function* (endpoint: Endpoint, last: object = {}) {
  const turns = makeTurns(last)
  const cwd = yield* Program.home
  const children = new Map<string, Array<Recorded>>()
  const main: Array<Recorded> = []
  let served = 0
  const protocol = protocols[endpoint.protocol]
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!endpoint.path.test(url)) return HttpServer.json(response, 404, {})
    const goal = goals.find((goal) => body.includes(`"${goal}\\n\\n`))
    if (goal === undefined) {
      main.push({ at: 0, after: served++, body })
      return protocol.stream(turns[main.length - 1] ?? { text: "done" }, response)
    }
    const own = children.get(goal) ?? []
    children.set(goal, [...own, { at: 0, after: served++, body }])
    protocol.stream(
      own.length === 0
        ? { calls: [{ id: "call_r", name: "list_files", args: JSON.stringify({ path: "." }) }] }
        : { text: `done: ${goal}` },
      response
    )
  })
  const config = `model: ${JSON.stringify({ ...endpoint.model(server.url), api_key: "k", context_length: 400_000 })}`
  yield* Agent.run({ prompt: "delegate it", cwd, streaming: true }).pipe(
    Effect.provide(Program.layer({ config, env: { AWS_REGION: "us-east-1" } }))
  )
  yield* TestClock.adjust("1 seconds")
  return { children, main }
})
