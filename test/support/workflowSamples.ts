// A workflow whose steps leave traces in a file, for tests that kill its process.
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { appendFileSync } from "node:fs"
import { Steps } from "../../src/kit/entry/workflow.ts"

/** An order: reserved, approved by a person, packed item by item after a pause, and sent. */
export const makeOrder = (traces: string, version = 1, last = "send") => {
  const trace = (line: string) => Effect.sync(() => appendFileSync(traces, `${line}\n`))
  return Steps.make("order", {
    version,
    input: Schema.Struct({ name: Schema.String, count: Schema.Int }),
    output: Schema.String,
    steps: (start) =>
      start.pipe(
        Steps.step("reserve", {
          output: Schema.String,
          run: ({ input }, { key }) => Effect.as(trace(`reserve ${input.name}`), `place of ${key}`)
        }),
        Steps.question("approve", { prompt: ({ reserve }) => `Send to ${reserve}?`, answer: Schema.Boolean }),
        Steps.when("decided", {
          if: ({ approve }) => approve,
          then: (block) =>
            block.pipe(
              Steps.forEach("items", {
                items: ({ input }) => Array.from({ length: input.count }, (_, index) => index),
                concurrency: 2,
                each: (one) =>
                  one.pipe(
                    Steps.step("pack", {
                      output: Schema.Int,
                      run: ({ index, input }) => Effect.as(trace(`pack ${input.name} ${index}`), index)
                    }),
                    Steps.sleep("dry", "2500 millis"),
                    Steps.step("label", {
                      output: Schema.String,
                      run: ({ input, pack }) => Effect.as(trace(`label ${input.name} ${pack}`), `label ${pack}`)
                    })
                  )
              }),
              Steps.loop("tries", {
                initial: () => 0,
                body: (round) =>
                  round.pipe(
                    Steps.step("call", {
                      output: Schema.Int,
                      run: ({ current, input, round }) => Effect.as(trace(`call ${input.name} ${round}`), current + 1)
                    })
                  ),
                until: (value) => value === 2,
                limit: 3
              }),
              Steps.step(last, {
                output: Schema.String,
                run: ({ input, items, tries }) =>
                  Effect.as(trace(`send ${input.name}`), `${input.name}: ${items.join(", ")} after ${tries} calls`)
              })
            )
        }),
        Steps.result(({ decided, input }) => decided ?? `${input.name}: nothing`)
      )
  })
}

/** The traces of one order that was approved, each once, in alphabetical order. */
export const listTraces = (name: string): ReadonlyArray<string> =>
  [
    `reserve ${name}`,
    ...[0, 1, 2].flatMap((index) => [`pack ${name} ${index}`, `label ${name} ${index}`]),
    `call ${name} 1`,
    `call ${name} 2`,
    `send ${name}`
  ].toSorted()
