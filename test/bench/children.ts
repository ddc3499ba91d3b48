// `npm run bench:children [count]`: so many children of one run at the same time, in one process. It fails when they
// were not all there at once, or took more memory than the bound; the time is for reading only, as machines are shared.
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { memoryUsage } from "node:process"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Agent from "../../src/agent/Agent.ts"
import { Children } from "../../src/agent/Children.ts"
import { delegate, isChild, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"

/** Heap that one child may take, with its session, its events and its report. */
const boundKilobytes = 64

const count = Number(process.argv[2] ?? 1000)
setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void

const heap = (): number => {
  collect()
  return memoryUsage().heapUsed / 1024
}

const all = Deferred.makeUnsafe<void>()
let waiting = 0
let atOnce = 0
let peak = 0

/** Each child calls a tool, waits until all the others have too, and answers. */
const { layer } = setup(
  ({ prompt, results }) => {
    if (prompt === "warm") return say("ok")
    if (!isChild(prompt)) {
      const tasks = Array.from({ length: count }, (_, index) => ({ goal: `child ${index}` }))
      return results === 0 ? delegate({ tasks }) : say("done")
    }
    if (results === 0) return Effect.succeed(Fake.callsAnswer(Fake.call("c1", "echo", { text: prompt.slice(0, 20) })))
    return Effect.suspend(() => {
      if (++waiting < count) return Deferred.await(all)
      peak = heap()
      return Effect.flatMap(Children, ({ list }) =>
        Effect.flatMap(list, (children) => {
          atOnce = children.length
          return Deferred.succeed(all, undefined)
        })
      ) as Effect.Effect<unknown>
    }).pipe(Effect.andThen(say("ok")))
  },
  { settings: { delegation: { maxConcurrentChildren: count } } }
)

const result = await Effect.gen(function* () {
  yield* Agent.run({ prompt: "warm" })
  const before = heap()
  const started = performance.now()
  const { text } = yield* Agent.run({ prompt: "go" })
  return { before, text, millis: performance.now() - started, left: (yield* (yield* Children).list).length }
}).pipe(Effect.provide(layer), Effect.runPromise)

const each = (peak - result.before) / count
process.stdout.write(
  `${count} children at once: ${atOnce} · ${each.toFixed(1)} kB each (bound ${boundKilobytes} kB) · ${Math.round(result.millis)} ms · left ${result.left}\n`
)
if (result.text !== "done" || atOnce !== count || each > boundKilobytes || result.left !== 0) process.exit(1)
