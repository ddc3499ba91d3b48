// A process of `npm run bench`: loads `plain` (the SDK) or the built package, asks once if there is an address, and
// prints the milliseconds from its start to the import and to the answer, and those of CPU.
import { join } from "node:path"
import type * as Index from "../../src/index.ts"

const [kind = "plain", url = ""] = process.argv.slice(2)

const sinceStart = (): number => performance.now()
const spent = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const before = { wall: sinceStart(), cpu: spent() }
let ask: () => Promise<string>
if (kind === "plain") {
  const { default: OpenAI } = await import("openai")
  ask = async () => {
    const client = new OpenAI({ apiKey: "x", baseURL: url })
    const { choices } = await client.chat.completions.create({
      model: "loop-0",
      messages: [{ role: "user", content: "Go." }]
    })
    return choices[0]?.message.content ?? ""
  }
} else {
  // The built package has the types of its source.
  const { Agent, ChatCompletions, Runtime } = (await import(
    join(import.meta.dirname, "../../dist/index.js")
  )) as typeof Index
  const Effect = await import("effect/Effect")
  const Redacted = await import("effect/Redacted")
  ask = () =>
    Effect.runPromise(
      Effect.provide(
        Effect.map(Agent.run({ prompt: "Go." }), ({ text }) => text),
        Runtime.layer({
          provider: ChatCompletions.layer({
            provider: "custom",
            model: "loop-0",
            baseUrl: url,
            apiKey: Redacted.make("x")
          })
        })
      )
    )
}
const imported = { wall: sinceStart() - before.wall, cpu: spent() - before.cpu }
if (url !== "" && (await ask()) !== "done: 0 tool results seen.") throw new Error("wrong answer")
process.stdout.write(JSON.stringify({ imported, answered: { wall: sinceStart(), cpu: spent() } }))
process.exit(0)
