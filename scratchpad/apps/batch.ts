// A batch: a value from each text, four at a time, and the reason for each text without one.
import { createHermes, type ModelChoice } from "../../src/kit/entry/promise.ts"
import * as z from "zod"

export const extract = async (model: ModelChoice, texts: ReadonlyArray<string>) => {
  const output = z.object({ name: z.string(), total: z.number() })
  await using hermes = createHermes({ model, instructions: "Extract the invoice.", output })
  const results = await hermes.runAll(texts, { concurrency: 4 })
  return results.map((one) => (one.status === "fulfilled" ? one.value.value : { error: String(one.reason) }))
}
