import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { endpoints, judge, record } from "./support/promptSessions.ts"
const plans = {
  short: { turns: Array.from({ length: 30 }, () => 1), programs: 3, talks: true },
  long: { turns: [14, 2, 30, 1], programs: 3 },
  pauses: { turns: Array.from({ length: 10 }, () => 2), programs: 3, pause: "20 minutes" as const },
  context: { turns: Array.from({ length: 10 }, () => 2), programs: 3, context: true }
}
describe("cost", () => {
  for (const [name, endpoint] of Object.entries(endpoints))
    for (const [plan, what] of Object.entries(plans))
      it.effect(`${name} ${plan}`, () =>
        Effect.gen(function* () {
          const { breaks, ratio, requests } = judge(endpoint, yield* record(endpoint, what))
          console.log(
            name,
            "|",
            plan,
            "|",
            requests,
            breaks.length,
            ratio.toFixed(3),
            process.env["SHOW"] ? JSON.stringify(breaks.slice(0, 2), null, 1) : ""
          )
        })
      )
})
