// `node --expose-gc heap.ts [RUNS]` runs an agent of the promise facade many times in one process, with a tool, a value,
// a context and middleware, and prints the heap after each tenth of the runs. Fails if it grows from the second tenth
// to the last by more than 10 %.
import * as z from "zod"
import { createHermes, tool, type ToolCall } from "../../src/kit/entry/promise.ts"

const total = Number(process.argv[2] ?? 100_000)
const concurrency = 8

let calls = 0
const look = tool({
  name: "look",
  description: "Looks",
  readonly: true,
  input: z.object({}),
  execute: (_, { context }: ToolCall<{ readonly user: number }>) => `${context.user} ${"x".repeat(20_000)}`
})
const hermes = createHermes({
  model: "offline",
  tools: [look],
  on: { post_tool_call: () => void calls++ },
  middleware: { wrap_model_call: ({ next_call }) => next_call() },
  output: z.object({ n: z.number() })
})

/** Half of the runs belong to sessions without a name, and the others to 100 named sessions that are deleted again. */
const runOnce = async (index: number): Promise<void> => {
  const named = index % 2 === 0 ? {} : { sessionId: `s-${index}` }
  const { value } = await hermes.run({ prompt: `Reply exactly {"n":${index}}`, context: { user: index }, ...named })
  if (value.n !== index) throw new Error(`run ${index} ended in ${value.n}`)
  if (index % 2 === 1 && index > 200) await hermes.deleteSession(`s-${index - 200}`)
}

const readHeap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const heaps: Array<number> = []
const started = performance.now()
for (let tenth = 0; tenth < 10; tenth++) {
  const queue = Array.from({ length: total / 10 }, (_, index) => tenth * (total / 10) + index).values()
  const work = async (): Promise<void> => {
    for (const index of queue) await runOnce(index)
  }
  await Promise.all(Array.from({ length: concurrency }, work))
  await hermes.callTool("look", {}, { context: { user: tenth } })
  heaps.push(readHeap())
  process.stdout.write(`${(tenth + 1) * (total / 10)} runs: ${(heaps[tenth] ?? 0) / 1e6} MB\n`)
}
await hermes.dispose()
const [, second = 0] = heaps
const growth = ((heaps.at(-1) ?? 0) - second) / second
const seconds = (performance.now() - started) / 1_000
process.stdout.write(`growth ${(growth * 100).toFixed(1)} %, ${seconds.toFixed(0)} s, ${calls} calls\n`)
if (growth > 0.1) process.exitCode = 1
