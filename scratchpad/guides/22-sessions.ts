import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent, Conversation, Runtime, SessionStore } from "../../src/index.ts"
import { SessionSearch } from "../../src/kit/entry/sessions.ts"

const folder = mkdtempSync(join(tmpdir(), "sessions-"))
// One file for sessions, their search index and the run record.
const runtime = Runtime.layer({ store: SessionStore.layerSqlite({ path: join(folder, "state.db") }) })

// A session begins with the first message under its id …
const begin = Agent.run({ prompt: "Reply exactly invoice A-17", sessionId: "customer-1", source: "shop" })

// … and goes on with each later one, here in another runtime over the same file, as after a restart.
const goOn = Effect.gen(function* () {
  const agent = yield* Agent.Agent
  const second = agent.run({ prompt: "Reply exactly never", sessionId: "customer-1" })
  yield* agent.run({
    prompt: "Reply exactly it is paid",
    sessionId: "customer-1",
    // One run at a time works on a session, over all processes.
    onEvent: (events) =>
      events.some(({ _tag }) => _tag === "RunStarted")
        ? Effect.matchEffect(second, {
            onFailure: ({ _tag }) => Effect.sync(() => console.log(_tag)),
            onSuccess: () => Effect.void
          })
        : Effect.void
  })
})

const look = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  for (const { id, messageCount } of yield* store.list({ source: "shop" })) {
    console.log(id, messageCount, (yield* store.messages(id)).map(Conversation.readText).at(-1))
  }
  const hits = yield* SessionSearch.SessionSearch.use(({ search }) => search("paid", { roles: ["assistant"] }))
  console.log(hits.map(({ snippet }) => snippet))
})

try {
  await begin.pipe(Effect.provide(runtime), Effect.runPromise)
  await goOn.pipe(Effect.provide(runtime), Effect.runPromise)
  await look.pipe(Effect.provide(runtime), Effect.runPromise)
} finally {
  rmSync(folder, { recursive: true })
}
// => SessionBusy
// => customer-1 4 it is paid
// => [ 'it is >>>paid<<<' ]
