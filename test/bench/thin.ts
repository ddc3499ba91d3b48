// The least that a loop in Effect costs: the official SDK over our transport, a fiber for each run, no checks.
import * as Effect from "effect/Effect"
import OpenAI from "openai"
import * as HttpTransport from "../../src/base/platform/HttpTransport.ts"
import * as Plain from "./plain.ts"

/** A runner of the loop by hand in Effect. */
export const make = async (url: string, system: string, prompt: string) => {
  const client = new OpenAI({ apiKey: "x", baseURL: url, fetch: (await HttpTransport.loadTransport())() })
  const run = Effect.fnUntraced(function* (model: string, streamed: boolean) {
    const messages = Plain.start(system, prompt)
    while (true) {
      const text = Plain.act(messages, yield* Effect.promise(() => Plain.ask(client, model, messages, streamed)))
      if (text !== undefined) return text
    }
  })
  return {
    runLoop: (k: number) => Effect.runPromise(run(`loop-${k}`, false)),
    runFanout: (n: number) => Effect.runPromise(run(`fanout-${n}`, false)),
    runLoopStream: (k: number) => Effect.runPromise(run(`loop-${k}`, true)),
    runStream: (n: number, onDelta: (text: string) => void, kind: "stream" | "trickle" = "stream") =>
      Effect.runPromise(
        Effect.promise(() => Plain.stream(client, `${kind}-${n}`, Plain.start(system, prompt), onDelta))
      )
  }
}
