// `node --expose-gc waitingAgentsRun.ts` prints how many bytes a run holds that waits for the model, without the socket
// of its request. The process does nothing else, because other work would be measured too.
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as H from "../../src/index.ts"
import { Provider } from "../../src/models/provider/Provider.ts"

const count = 200

const collect = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const program = Effect.gen(function* () {
  const { inspection, provider } = yield* H.Scripted.make(Array.from({ length: 2 * count }, () => H.Scripted.hang()))
  const runtime = H.Runtime.layer({ provider: Layer.succeed(Provider, provider), maxIterations: 10 })

  /** Starts runs, and returns when each of them waits for its answer. */
  const startRuns = Effect.gen(function* () {
    const before = (yield* inspection.requests).length
    const fibers = yield* Effect.forEach(Array.from({ length: count }), () =>
      Effect.forkDetach(H.Agent.run({ prompt: "Go." }))
    )
    while ((yield* inspection.requests).length < before + count)
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    return fibers
  })

  return yield* Effect.provide(
    Effect.gen(function* () {
      const first = yield* startRuns
      const before = collect()
      const fibers = yield* startRuns
      const bytes = (collect() - before) / count
      yield* Fiber.interruptAll([...first, ...fibers])
      return bytes
    }),
    runtime
  )
})

process.stdout.write(`${await Effect.runPromise(program)}\n`)
