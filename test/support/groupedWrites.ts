// Twenty runs of one process that append to their sessions at the same time. Each message that was stored is a line of
// output: its session and its position. Argument: the database.
import * as Effect from "effect/Effect"
import { writeSync } from "node:fs"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { makeNewSession, makeUserMessage } from "./sessionStoreConformance.ts"

const [path = ""] = process.argv.slice(2)

const write = (name: string) =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    const id = SessionId.make(name)
    yield* store.create(makeNewSession(id))
    yield* store.acquire(id)
    for (let count = 0; count < 5000; count++) {
      const position = yield* store.append(id, [makeUserMessage(`message ${count}`)])
      writeSync(1, `${name} ${position}\n`)
      yield* Effect.yieldNow
    }
  })

await Effect.runPromise(
  Effect.forEach(
    Array.from({ length: 20 }, (_, index) => `s${index}`),
    write,
    { concurrency: "unbounded", discard: true }
  ).pipe(Effect.scoped, Effect.provide(SessionStore.layerSqlite({ path })))
)
