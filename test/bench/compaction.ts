// What is known of long conversations after compaction, by engine and setting: `npm run eval:compaction`. The summaries
// are scripted.
import * as Effect from "effect/Effect"
import { scenarios } from "../support/compactionScenarios.ts"
import { table, window } from "../support/compactionEvaluation.ts"

const rows = await Effect.runPromise(table)
const [first] = rows
const names = first?.facts.map(({ kind }) => kind) ?? []
const lines = [
  `${scenarios.length} conversations, window of ${window} tokens; facts of the older part that are known at the end`,
  "",
  `| engine and setting | compactions | tokens | left | ${names.join(" | ")} | head, tail |`,
  `| --- | --- | --- | --- | ${names.map(() => "---").join(" | ")} | --- |`,
  ...rows.map(({ facts, name, outcomes }) => {
    const sum = (of: (one: (typeof outcomes)[number]) => number): number =>
      outcomes.reduce((total, one) => total + of(one), 0)
    const isSame = outcomes.every(({ isHeadSame, isTailSame }) => isHeadSame && isTailSame)
    return `| ${[
      name,
      sum(({ compactions }) => compactions),
      sum(({ tokens }) => tokens.whole),
      sum(({ tokens }) => tokens.left),
      ...facts.map(({ all, kept }) => `${kept}/${all}`),
      isSame ? "same" : "changed"
    ].join(" | ")} |`
  })
]
process.stdout.write(`${lines.join("\n")}\n`)
