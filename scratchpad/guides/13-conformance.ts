import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SessionStore } from "../../src/index.ts"
import { Conformance, SessionStoreRules } from "../../src/kit/entry/testing.ts"

// A store of one's own; here one that forgets the title of a session.
const forgetful = Layer.effectContext(
  Effect.map(Layer.build(SessionStore.layerMemory), (context) => {
    const store = Context.get(context, SessionStore.SessionStore)
    const create: typeof store.create = (session) => store.create({ ...session, title: undefined })
    return Context.add(context, SessionStore.SessionStore, { ...store, create })
  })
)

// With a test runner: `Conformance.register({ test }, SessionStoreRules.rules, forgetful)`, by `test` of Vitest or of
// node:test.
const results = await Effect.runPromise(Conformance.runRules(SessionStoreRules.rules, forgetful))

for (const { about, broken, name } of results.slice(0, 5))
  console.log(`${broken === undefined ? "kept  " : "broken"} ${about}: ${name}`)
// => broken sessions: a new session is what it was made of, with nothing in it
// => broken sessions: a compacted session goes on in one other, which has its messages; the newest of a chain is its end
// => kept   sessions: a continuation that cannot be made leaves nothing behind, and the session as it is
// => kept   sessions: an id can be used once
// => kept   sessions: a session that is not there reads as nothing, and cannot be written to
