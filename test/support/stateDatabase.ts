// The sessions that a program left in its home directory.
import * as Effect from "effect/Effect"
import { join } from "node:path"
import * as SessionStore from "../../src/store/SessionStore.ts"

/** Newest first, with their messages. */
export const sessions = (home: string) =>
  Effect.gen(function* () {
    const store = yield* SessionStore.SessionStore
    return yield* Effect.forEach(yield* store.list(), (session) =>
      Effect.map(store.messages(session.id), (messages) => ({ session, messages }))
    )
  }).pipe(Effect.provide(SessionStore.layerSqlite({ path: join(home, "state.db") })))
