import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Transport from "../../src/observe/otlp/Transport.ts"
import { webServer } from "../support/webServer.ts"

/** Waits in minutes between the requests for a body, and the result, while the collector gives these answers. */
const sendRepeatedly = Effect.fnUntraced(function* (
  answers: ReadonlyArray<{ readonly status: number; readonly retryAfter: number }>
) {
  const clock = yield* Clock.Clock
  const times: Array<number> = []
  const url = yield* webServer((_, response) => {
    const { retryAfter, status } = answers[times.length] ?? { status: 200, retryAfter: 0 }
    times.push(clock.currentTimeMillisUnsafe())
    response.writeHead(status, status === 200 ? {} : { "retry-after": String(retryAfter) }).end()
  })
  const send = yield* Transport.makeClient({ timeoutMillis: 3_600_000, told: new Set(), warning: () => "not sent" })
  const body = { contentType: "application/json" as const, content: new TextEncoder().encode("{}") }
  const fiber = yield* Effect.forkChild(send({ url, headers: {} }, body))
  // The requests are really sent, so the clock is moved until the end.
  const isAccepted = yield* Effect.raceFirst(
    Fiber.join(fiber),
    Effect.forever(Effect.andThen(TestClock.adjust("10 seconds"), TestClock.withLive(Effect.sleep(5))))
  )
  const waits = times.slice(1).map((time, index) => (time - (times[index] ?? 0)) / 60_000)
  return { isAccepted, waits: waits.map((wait) => Math.round(wait / 10) * 10) }
})

describe("a request that a collector does not take", () => {
  it.effect("is sent again after the wait that the collector asks for", () =>
    Effect.gen(function* () {
      const sent = yield* sendRepeatedly([
        { status: 503, retryAfter: 1800 },
        { status: 429, retryAfter: 600 }
      ])
      assert.deepStrictEqual(sent, { isAccepted: true, waits: [30, 10] })
    })
  )

  it.effect("is sent at most four times", () =>
    Effect.gen(function* () {
      const sent = yield* sendRepeatedly(Array.from({ length: 9 }, () => ({ status: 503, retryAfter: 600 })))
      assert.deepStrictEqual(sent, { isAccepted: false, waits: [10, 10, 10] })
    })
  )

  it.effect("is not sent again after a status that another request would not change", () =>
    Effect.gen(function* () {
      const sent = yield* sendRepeatedly([{ status: 400, retryAfter: 600 }])
      assert.deepStrictEqual(sent, { isAccepted: false, waits: [] })
    })
  )
})
