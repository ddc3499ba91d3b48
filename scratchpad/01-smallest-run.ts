import * as Effect from "effect/Effect"
import { Agent, Runtime } from "../src/index.ts"

const program = Agent.run({ prompt: "Reply exactly: hello from hermes" })

const result = await program.pipe(Effect.provide(Runtime.layer()), Effect.runPromise)

console.log(result.text, `(${result.exit} after ${result.steps} step)`)
