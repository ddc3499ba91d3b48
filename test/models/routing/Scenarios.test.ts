// Generated troubles over two routes with keys: whatever happens, a call ends, the answer is one attempt's own, and a
// reader who forgets what was taken back has read exactly it.
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Response from "effect/ai/Response"
import type { ModelResponse, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"
import { effectProp } from "../../support/property.ts"

const Failure = Schema.Literals([
  "none",
  "400",
  "401",
  "402",
  "403",
  "404",
  "413",
  "429",
  "500",
  "503",
  "network",
  "malformed",
  "cap"
])
const Shown = Schema.Literals(["nothing", "reasoning", "text", "call", "text and call"])
const Event = Schema.Struct({ failure: Failure, shown: Shown })
const Scenario = Schema.Struct({
  a: Schema.Array(Event).check(Schema.isMaxLength(8)),
  b: Schema.Array(Event).check(Schema.isMaxLength(8)),
  keys: Schema.Literals([0, 1, 3]),
  isLocal: Schema.Boolean
})

const errors = {
  "400": S.http(400, "a field is wrong in this request and always will be"),
  "401": S.http(401, "no"),
  "402": S.http(402, "insufficient credits"),
  "403": S.http(403, "forbidden"),
  "404": S.http(404, "The model `x` does not exist"),
  "413": S.http(413, "too large"),
  "429": S.http(429, "slow down"),
  "500": S.http(500, "boom"),
  "503": S.http(503, "overloaded"),
  network: S.network("connection reset"),
  malformed: S.malformed,
  cap: S.http(400, "supports at most 16384 completion tokens")
}

let attempts = 0

const pieces = (shown: typeof Shown.Type, id: number): ReadonlyArray<StreamPart> => {
  const text = Response.makePart("text-delta", { id: `${id}`, delta: `text of ${id}` })
  const call = Response.makePart("tool-params-start", { id: `c${id}`, name: "terminal", providerExecuted: false })
  switch (shown) {
    case "nothing":
      return []
    case "reasoning":
      return [Response.makePart("reasoning-delta", { id: `${id}`, delta: "hm" })]
    case "text":
      return [text]
    case "call":
      return [call]
    case "text and call":
      return [text, call]
  }
}

const turnOf =
  ({ failure, shown }: typeof Event.Type): Fake.Turn =>
  (_, options) =>
    Effect.gen(function* () {
      const id = attempts++
      const said = failure === "none" ? pieces("text", id) : pieces(shown, id)
      if (said.length > 0 && options?.onPart !== undefined) yield* options.onPart(said)
      return failure === "none" ? Fake.textAnswer(`text of ${id}`) : yield* errors[failure]
    })

const textOf = ({ parts }: ModelResponse): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

describe("generated troubles", () => {
  effectProp(
    "a call ends with one attempt's answer, or with a failure that nothing could mend",
    { scenario: Scenario },
    ({ scenario }) =>
      Effect.gen(function* () {
        const { asked, open } = S.world({
          a: [...scenario.a, { failure: "503", shown: "nothing" } as const].map(turnOf),
          b: [...scenario.b, { failure: "none", shown: "nothing" } as const].map(turnOf)
        })
        const { router, status } = yield* RoutedModelRouter.makeRouter({
          chain: [
            {
              route: S.route("a", "m", scenario.isLocal ? "http://localhost:1/v1" : undefined),
              credentials: Array.from({ length: scenario.keys }, (_, n) => S.key(`k${n}`))
            },
            { route: S.route("b") }
          ],
          open
        })
        let read = ""
        const fiber = yield* Effect.forkChild(
          Effect.exit(
            router.call(S.bare, {
              call: S.question,
              context: S.context,
              userMessage: "hi",
              options: {
                onPart: (parts) =>
                  Effect.sync(() => {
                    for (const part of parts) {
                      if (part.type === "text-delta") read += part.delta
                    }
                    return parts
                  })
              },
              turn: S.turn(),
              discard: Effect.sync(() => {
                read = ""
              })
            })
          ),
          { startImmediately: true }
        )
        yield* TestClock.adjust("2 hours")
        const exit = yield* Effect.flatten(Fiber.join(fiber)).pipe(Effect.exit)
        assert.isBelow(asked.length, 40)
        if (Exit.isSuccess(exit)) {
          const { response } = exit.value
          const text = textOf(response)
          assert.isTrue(text.startsWith(read), `${read} / ${text}`)
          assert.strictEqual(text.replace(/\n\n\[The connection was lost.*$/, ""), read)
          assert.strictEqual(text.match(/text of/g)?.length, 1, "of one attempt")
        } else {
          const last = Exit.findErrorOption(exit)
          assert.isTrue(last._tag === "Some", String(exit))
        }
        const routes = yield* status.routes
        assert.deepStrictEqual(
          routes.flatMap(({ keys }) => keys.map(({ leases }) => leases)).filter((leases) => leases !== 0),
          []
        )
      }),
    { arbitrary: { runs: 500 } }
  )
})
