// `npm run bench:cost`: what sessions cost at published prices, against the least that they can cost, and how often a
// request does not begin with the bytes of the request before. The sessions go through the settings of the program, over
// the wire, in several programs.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import { recordChildren } from "../support/childSessions.ts"
import { endpoints, judge, type Plan, record, weighSideWork } from "../support/promptSessions.ts"

const plans: Readonly<Record<string, Plan>> = {
  "30 short turns": { turns: Array.from({ length: 30 }, () => 1), programs: 3, talks: true },
  "turns of 14 and 30 calls": { turns: [14, 2, 30, 1], programs: 3 },
  "pauses of 20 minutes": { turns: Array.from({ length: 10 }, () => 2), programs: 3, pause: "20 minutes" },
  "pauses, on every route": {
    turns: Array.from({ length: 10 }, () => 2),
    programs: 3,
    pause: "20 minutes",
    settings: () => ["prompt_caching: { mode: on }"]
  },
  "a window of 64,000": { turns: Array.from({ length: 20 }, () => 4), programs: 2, window: 64_000, words: 2_400 },
  "long answers, 64,000": { turns: Array.from({ length: 40 }, () => 0), programs: 2, window: 64_000, answer: 1_500 },
  "context of a plugin": { turns: Array.from({ length: 10 }, () => 2), programs: 3, hasContext: true },
  "context that is kept": {
    turns: Array.from({ length: 10 }, () => 2),
    programs: 3,
    hasContext: true,
    settings: () => ["prompt_caching: { keep_turn_context: true }"]
  }
}

/** Words that the name of an endpoint or of a session must have; all are measured without any. */
const wanted = process.argv.slice(2)

const measure = Effect.gen(function* () {
  for (const [name, endpoint] of Object.entries(endpoints)) {
    for (const [plan, steps] of Object.entries(plans)) {
      if (!wanted.every((word) => name === word || plan.includes(word))) continue
      const { requests, reviews, side } = yield* Effect.scoped(record(endpoint, steps))
      const { breaks, ratio } = judge(endpoint, requests)
      const columns = [
        name.padEnd(32),
        plan.padEnd(26),
        `${requests.length}`.padStart(8),
        `${breaks.length}`.padStart(8),
        ratio.toFixed(3).padStart(16),
        `${side.length + reviews.length}`.padStart(8),
        weighSideWork(endpoint, requests, [...side, ...reviews])
          .toFixed(3)
          .padStart(12)
      ]
      process.stdout.write(`${columns.join("")}\n`)
    }
  }
})

/** Three children that run one after another, which start from one system prompt with tools. */
const measureChildren = Effect.gen(function* () {
  for (const [name, endpoint] of Object.entries(endpoints)) {
    const plan = "three children"
    if (!wanted.every((word) => name === word || plan.includes(word))) continue
    const { children } = yield* Effect.scoped(recordChildren(endpoint))
    const requests = [...children.values()].flat()
    const columns = [name.padEnd(32), plan.padEnd(26), `${requests.length}`.padStart(8), "".padStart(8)]
    process.stdout.write(`${columns.join("")}${judge(endpoint, requests).ratio.toFixed(3).padStart(16)}\n`)
  }
})

process.stdout.write(
  `${"endpoint".padEnd(32)}${"session".padEnd(26)}${"requests".padStart(8)}${"breaks".padStart(8)}${"ours ÷ least".padStart(16)}${"side".padStart(8)}${"with side".padStart(12)}\n`
)
await Effect.runPromise(
  Effect.andThen(measure, measureChildren).pipe(
    Effect.provide([TestClock.layer(), NodeServices.layer, Logger.layer([])])
  )
)
