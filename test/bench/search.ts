// Times of a search in a database of many messages: `npm run bench:search`, with the number of messages as an argument.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SessionId } from "../../src/base/domain/Ids.ts"
import { type SearchOptions, SessionSearch } from "../../src/store/SessionSearch.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"

const count = Number(process.argv[2] ?? 100_000)
const perSession = 200
const rounds = 5

let state = 42
const random = (): number => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 0x1_0000_0000
const words = Array.from({ length: 5_000 }, () =>
  Array.from({ length: 3 + Math.floor(random() * 8) }, () => String.fromCharCode(97 + Math.floor(random() * 26))).join(
    ""
  )
)
/** Sixty words, of which few are frequent, and one that every message has. */
const text = (): string =>
  `${Array.from({ length: 60 }, () => words[Math.floor(random() ** 2 * words.length)]).join(" ")} everywhere`

const fill = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  for (let session = 0; session < count / perSession; session++) {
    const id = SessionId.make(`s${session}`)
    yield* store.create({ id, source: "cli", provider: "p", model: "m", systemPrompt: "" })
    yield* store.append(
      id,
      Array.from({ length: perSession }, (_, index) => {
        const content = [
          Prompt.textPart({
            text: `${text()}${session === 3 && index === 7 ? " needle" : ""}${index === 9 ? " 会議の記録" : ""}`
          })
        ]
        return index % 2 === 0 ? Prompt.userMessage({ content }) : Prompt.assistantMessage({ content })
      })
    )
  }
})

const [frequent = "", second = "", rare = ""] = [words[1], words[2], words.at(-1)]
const searches: ReadonlyArray<readonly [query: string, options: SearchOptions]> = [
  ["needle", {}],
  [frequent, {}],
  [`${frequent} ${second}`, {}],
  [`${frequent} OR ${rare}`, {}],
  ["everywhere", {}],
  ["everywhere", { sort: "newest" }],
  ["everywhere", { roles: ["assistant"] }],
  ["everywhere", { sessionId: SessionId.make("s2") }],
  [`everywhere NOT ${frequent}`, {}],
  [`"${frequent} ${second}"`, {}],
  [`${frequent.slice(0, 2)}*`, {}],
  ["会議", {}],
  ["会計", {}],
  ["nothing", {}]
]

const measure = Effect.gen(function* () {
  const { search } = yield* SessionSearch
  for (const [query, options] of searches) {
    const times: Array<number> = []
    let hits = 0
    for (let round = 0; round < rounds; round++) {
      const start = performance.now()
      hits = (yield* search(query, options)).length
      times.push(performance.now() - start)
    }
    const [best = 0] = times.toSorted((a, b) => a - b)
    const row = [
      query.padEnd(28),
      JSON.stringify(options).padEnd(26),
      `${hits} hits`.padStart(8),
      `${best.toFixed(1)} ms`.padStart(10),
      `(first ${(times[0] ?? 0).toFixed(1)} ms)`
    ]
    process.stdout.write(`${row.join(" ")}\n`)
  }
})

const directory = mkdtempSync(join(tmpdir(), "hermes-bench-search-"))
try {
  await Effect.runPromise(
    Effect.provide(Effect.andThen(fill, measure), SessionStore.layerSqlite({ path: join(directory, "state.db") }))
  )
} finally {
  rmSync(directory, { recursive: true, force: true })
}
