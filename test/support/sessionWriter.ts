// A process that appends numbered messages to a session, going on where the session ends. Its output is one line before
// the store is opened, then one per message that `append` returned from; a failure is its last line.
// Arguments: database, session id, number of messages.
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import { writeSync } from "node:fs"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"

const [path = "", name = "", count = "0"] = process.argv.slice(2)
const id = SessionId.make(name)
const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const ensure = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  if (Option.isSome(yield* store.get(id))) return
  yield* store.create({ id, source: "cli", provider: "test", model: "test", systemPrompt: "" }).pipe(
    // Another writer was faster.
    Effect.catchIf(
      (error) => error.message.includes("exists already"),
      () => Effect.void
    )
  )
})

const program = Effect.gen(function* () {
  const store = yield* SessionStore.SessionStore
  yield* say("opening")
  yield* ensure
  const from = (yield* store.messages(id)).length
  for (let index = from; index < from + Number(count); index++) {
    const text = `${process.pid}:${index} ${"word ".repeat(50)}`
    yield* store.append(id, [Prompt.userMessage({ content: [Prompt.textPart({ text })] })])
    yield* say(String(index))
  }
}).pipe(
  Effect.catch((error) =>
    Effect.andThen(
      say(`${error._tag}: ${error.message}`),
      Effect.sync(() => process.exit(3))
    )
  )
)

await Effect.runPromise(Effect.provide(program, SessionStore.layerSqlite({ path })))
